//! `tombolo run --balance`: variables that make a program's threads run where they are fastest.

use tombolo_machine::Image;

use crate::failure::Failure;

/// Variable that enables it. The run-time that moves threads contains this text.
const VARIABLE: &str = "OMP_TOMBOLO_BALANCE";

/// Defaults of other variables: threads on all nodes that the program's memory reaches.
const DEFAULTS: [(&str, &str); 2] = [("OMP_TOMBOLO", "hybrid"), ("OMP_TOMBOLO_NODES", "all")];

/// Checks that the image's programs can move threads.
pub(super) fn check(image: &Image) -> Result<(), Failure> {
    if has_variable(image.as_bytes()) {
        return Ok(());
    }
    Err(Failure::Usage {
        message: format!("--balance: the threads of {} cannot change their node", image.name()),
        hint: Some(
            "`tombolo ompcc` makes programs whose threads can, at functions that TOMBOLO_MIGRATE marks",
        ),
    })
}

fn has_variable(bytes: &[u8]) -> bool {
    bytes.windows(VARIABLE.len()).any(|window| window == VARIABLE.as_bytes())
}

/// Returns the variables to set, omitting those that are set already.
pub(super) fn variables(is_set: impl Fn(&str) -> bool) -> Vec<(&'static str, &'static str)> {
    let defaults = DEFAULTS.into_iter().filter(|(name, _)| !is_set(name));
    defaults.chain([(VARIABLE, "true")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_variables_are_kept() {
        let all = [("OMP_TOMBOLO", "hybrid"), ("OMP_TOMBOLO_NODES", "all"), ("OMP_TOMBOLO_BALANCE", "true")];
        assert_eq!(variables(|_| false), all);
        assert_eq!(variables(|name| name == "OMP_TOMBOLO_NODES"), [all[0], all[2]]);
    }

    #[test]
    fn a_program_with_the_run_time_is_known_by_its_variable() {
        assert!(has_variable(b"..OMP_TOMBOLO_BALANCE\0"));
        assert!(!has_variable(b"..OMP_TOMBOLO_BALANC"));
        assert!(!has_variable(b""));
    }
}
