//! Runs cases as tests, like `cargo test`: filters, threads, exit status, and counts that include skipped
//! cases.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};

use crate::cases::all;
use crate::peer;
use crate::subject::Subject;

/// Runs the cases selected on the command line. A process that was started as a peer plays that role instead.
#[must_use]
pub fn run(subjects: &[Subject]) -> ExitCode {
    if let Some((name, task, descriptors)) = peer::receive_task() {
        return match subjects.iter().find(|subject| subject.name == name) {
            Some(subject) => {
                subject.play_peer(descriptors, task);
                ExitCode::SUCCESS
            }
            None => ExitCode::FAILURE,
        };
    }
    try_all(subjects, &Arguments::from_args())
}

/// Like [`run`], for carriers that do not support concurrency: runs one case after the other, regardless of
/// the command line.
#[must_use]
pub fn run_one_by_one(subjects: &[Subject]) -> ExitCode {
    try_all(subjects, &Arguments { test_threads: Some(1), ..Arguments::from_args() })
}

fn try_all(subjects: &[Subject], arguments: &Arguments) -> ExitCode {
    let trials = subjects.iter().flat_map(|subject| {
        let name = subject.display_name();
        all(*subject).into_iter().map(move |case| {
            Trial::ignorable_test(format!("{name}::{}::{}", case.group, case.name), move || {
                if let Some(reason) = case.lacks {
                    return Ok(Completion::ignored_with(reason));
                }
                case.run();
                Ok(Completion::Completed)
            })
        })
    });
    libtest_mimic::run(arguments, trials.collect()).exit_code()
}
