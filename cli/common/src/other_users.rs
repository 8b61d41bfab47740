//! Machines of other users, which are visible but not accessible.

use std::fs;

use tombolo::find::{UserMachine, machines_of_others};

use crate::text::one_line;

/// Maximum number of machines listed; there may be hundreds.
const MAX_NAMED: usize = 3;

/// Returns advice about a machine of another user: of that name, or any if `None`. `None` if there is none.
#[must_use]
pub fn other_users_hint(name: Option<&str>) -> Option<String> {
    let others = machines_of_others().unwrap_or_default();
    let wanted = others.into_iter().filter(|other| name.is_none_or(|name| other.name == name));
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    hint_text(&wanted.collect::<Vec<_>>(), &users)
}

/// Formats the advice. `users` is a table as in `/etc/passwd`.
fn hint_text(machines: &[UserMachine], users: &str) -> Option<String> {
    let user = |machine: &UserMachine| match user_name(users, machine.user_id) {
        Some(name) => one_line(name),
        None => format!("#{}", machine.user_id),
    };
    let shown = |machine: &UserMachine| format!("'{}' of user {}", one_line(&machine.name), user(machine));
    let mut named: Vec<String> = machines.iter().take(MAX_NAMED).map(shown).collect();
    if machines.len() > MAX_NAMED {
        named.push("others".to_owned());
    }
    let (verb, whose) = if machines.len() == 1 { ("is", "that user's") } else { ("are", "their users'") };
    Some(format!(
        "{} {verb} up, for {whose} programs alone: `sudo -u {} tombolo …` runs a command as that user",
        join_words(&named),
        user(machines.first()?)
    ))
}

fn join_words(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn user_name(users: &str, id: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(id)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/bash\nalice:x:1000:1000::/home/alice:/bin/sh\nbad line\n";

    fn machine(user_id: u32, name: &str) -> UserMachine {
        UserMachine { user_id, name: name.into() }
    }

    #[test]
    fn machines_of_other_users_are_named() {
        assert_eq!(hint_text(&[], USERS), None);
        assert_eq!(
            hint_text(&[machine(1000, "duo")], USERS).as_deref(),
            Some(
                "'duo' of user alice is up, for that user's programs alone: `sudo -u alice tombolo …` runs a command \
                 as that user"
            )
        );
        let several = [machine(0, "a"), machine(7, "b\x1b[31m"), machine(1000, "c"), machine(1000, "d")];
        let output = hint_text(&several, USERS).unwrap();
        assert!(output.starts_with(
            "'a' of user root, 'b\u{fffd}[31m' of user #7, 'c' of user alice and others are up"
        ));
    }
}
