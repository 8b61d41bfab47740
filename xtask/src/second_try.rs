//! Second tries of tests that failed.
//!
//! Tests of whole machines race with compilers and emulators for two processors, and one in thousands may lose where it
//! should not. Whoever changed something else wants to know that; they don't want to wait half an hour again. So a few
//! tests that fail run once more, each alone. Those that pass then are *unsteady*: the checks hold, and say their names
//! in the last lines, because each is a mistake that somebody has to find, in the test or in what it tests.

/// More failures than these are no accident.
const MOST: usize = 3;

/// Failed tests of one program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FailedTarget {
    /// How cargo chooses the program: `-p package --test name`.
    target: Vec<String>,
    pub(crate) tests: Vec<String>,
}

impl FailedTarget {
    /// What follows `cargo test`, so that the failed tests run, one after the other.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &str> {
        let words = self.target.iter().map(String::as_str);
        words.chain(["--", "--test-threads=1", "--exact"]).chain(self.tests.iter().map(String::as_str))
    }
}

/// What can be tried again after `cargo test` wrote this log: nothing when something else failed than a few tests, as a
/// compiler, or a program that died.
pub(crate) fn failed_targets(log: &str) -> Vec<FailedTarget> {
    let mut targets = Vec::new();
    let mut tests = Vec::new();
    for line in log.lines() {
        if let Some(test) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED")) {
            // Some harnesses align their verdicts.
            tests.push(test.trim_end().to_owned());
        } else if let Some(rest) = line.strip_prefix("error: test failed, to rerun pass `") {
            let words = rest.trim_end_matches('`').split_whitespace().map(str::to_owned);
            targets.push(FailedTarget { target: words.collect(), tests: std::mem::take(&mut tests) });
        } else if line.starts_with("error: could not compile") {
            return Vec::new();
        }
    }
    let named = targets.iter().all(|target| !target.tests.is_empty()) && tests.is_empty();
    let count: usize = targets.iter().map(|target| target.tests.len()).sum();
    if named && count <= MOST { targets } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "test a ... ok\ntest d2pubsub ... FAILED\n\
        test result: FAILED. 1 passed; 1 failed;\n\
        error: test failed, to rerun pass `-p tombolo-e2e --test names`\n\
        test death::x ... FAILED\ntest death::y      ... FAILED\n\
        error: test failed, to rerun pass `-p tombolo --lib`\n\
        error: 2 targets failed:\n    `-p tombolo-e2e --test names`\n    `-p tombolo --lib`\n";

    #[test]
    fn each_program_runs_its_failed_tests_again() {
        let targets = failed_targets(TWO);
        let arguments: Vec<String> =
            targets.iter().map(|target| target.arguments().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            arguments,
            [
                "-p tombolo-e2e --test names -- --test-threads=1 --exact d2pubsub",
                "-p tombolo --lib -- --test-threads=1 --exact death::x death::y"
            ]
        );
    }

    #[test]
    fn what_is_no_accident_is_not_tried_again() {
        assert_eq!(failed_targets("test a ... ok\n"), []);
        assert_eq!(failed_targets("error: could not compile `x`\n"), []);
        let many = format!("test z ... FAILED\n{TWO}");
        assert_eq!(failed_targets(&many), [], "four");
        let died = "error: test failed, to rerun pass `-p x --test y`\n  process didn't exit successfully\n";
        assert_eq!(failed_targets(died), []);
        assert_eq!(failed_targets(&format!("{TWO}{died}")), []);
        assert_eq!(failed_targets("test a ... FAILED\n"), [], "whose, nobody said");
    }
}
