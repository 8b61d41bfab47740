//! Checks of command help texts, for tests.

use clap::Command;

/// Checks the help of a program that `tombolo` runs for some of its commands: it shows examples, `parse`
/// accepts them, and each command's summary equals the one that `tombolo` shows, in `summaries`.
///
/// # Panics
/// Panics if a check fails, with the command or the example.
pub fn assert_program(
    mut command: Command,
    summaries: &[(&str, &str)],
    parse: impl Fn(&[&str]) -> Result<(), clap::Error>,
) {
    command.build();
    for subcommand in command.get_subcommands_mut().filter(|subcommand| !subcommand.is_hide_set()) {
        let name = subcommand.get_name().to_owned();
        assert_examples(subcommand, &format!("tombolo {name}"));
        let summary = summaries.iter().find(|(of, _)| *of == name).map(|(_, summary)| *summary);
        assert!(summary.is_some(), "no summary of {name} to compare with");
        assert_eq!(subcommand.get_about().map(ToString::to_string).as_deref(), summary, "{name}");
    }
    for (name, _) in summaries {
        assert!(command.find_subcommand(name).is_some(), "there is no command {name}");
    }
    let tried = assert_examples_parse(&mut command, parse);
    assert!(tried > 0, "no example was found");
}

/// Checks that the help of a command, and of those below it, shows examples. Hidden commands are exempt:
/// programs start them.
///
/// # Panics
/// Panics with the help text that has no example.
pub fn assert_examples(command: &mut Command, path: &str) {
    let help = command.render_long_help().to_string();
    assert!(help.contains("Example"), "{path} --help shows no example:\n{help}");
    for subcommand in command.get_subcommands_mut().filter(|subcommand| !subcommand.is_hide_set()) {
        let path = format!("{path} {}", subcommand.get_name());
        assert_examples(subcommand, &path);
    }
}

/// Checks that `parse` accepts the examples in the help of a command. Returns their number, not counting
/// examples of other programs' commands.
///
/// # Panics
/// Panics with the example that is refused, and the reason.
pub fn assert_examples_parse(
    command: &mut Command,
    parse: impl Fn(&[&str]) -> Result<(), clap::Error>,
) -> usize {
    let known: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let mut texts = Vec::new();
    collect(command, &mut texts);
    let mut tried = 0;
    for line in texts.iter().flat_map(|text| text.lines()) {
        let Some(words) = example(line) else { continue };
        if !words.iter().any(|word| known.iter().any(|name| name == word)) {
            continue;
        }
        let result = parse(&words);
        assert!(result.is_ok(), "{line}\n{}", result.unwrap_err());
        tried += 1;
    }
    tried
}

fn collect(command: &mut Command, texts: &mut Vec<String>) {
    texts.extend(command.get_after_help().map(ToString::to_string));
    command.get_subcommands_mut().for_each(|subcommand| collect(subcommand, texts));
}

/// Returns the arguments of an example: a line that starts with the command, up to two blanks before its
/// explanation or to shell syntax.
fn example(line: &str) -> Option<Vec<&str>> {
    let text = line.strip_prefix("  ")?;
    let start = text.find("tombolo ")?;
    let piped = text[..start].is_empty() || text[..start].ends_with("| ");
    let text = text[start..].split("  ").next()?;
    let text = text.split(" | ").next()?.split(" >").next()?.split(" <").next()?;
    piped.then(|| text.split_whitespace().collect())
}
