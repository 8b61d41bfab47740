//! Runs cases as tests, like `cargo test`: filters, threads, exit status, and counts that include skipped
//! cases.

use std::os::fd::OwnedFd;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};

use crate::carrier::Carrier;
use crate::cases::{Case, all};
use crate::peer::{self, Order};

/// A carrier that takes part in the suite.
pub struct Entry {
    /// The name by which a peer process finds it.
    carrier: &'static str,
    name: String,
    cases: Vec<Case>,
    peer: fn(Vec<OwnedFd>, Order),
}

impl Entry {
    /// Every case for `C`.
    #[must_use]
    pub fn new<C: Carrier>() -> Self {
        Entry { carrier: C::NAME, name: C::listed_as(), cases: all::<C>(), peer: C::peer }
    }
}

/// Runs the cases selected on the command line; in a process that was started as a peer, plays that role
/// instead.
#[must_use]
pub fn run(entries: Vec<Entry>) -> ExitCode {
    if let Some((name, order, descriptors)) = peer::ordered() {
        return match entries.iter().find(|entry| entry.carrier == name) {
            Some(entry) => {
                (entry.peer)(descriptors, order);
                ExitCode::SUCCESS
            }
            None => ExitCode::FAILURE,
        };
    }
    try_all(entries, &Arguments::from_args())
}

/// [`run`] for carriers that cannot do two things at once: one case after the other, whatever the command
/// line says.
#[must_use]
pub fn run_one_by_one(entries: Vec<Entry>) -> ExitCode {
    try_all(entries, &Arguments { test_threads: Some(1), ..Arguments::from_args() })
}

fn try_all(entries: Vec<Entry>, arguments: &Arguments) -> ExitCode {
    let trials = entries.into_iter().flat_map(|Entry { name, cases, .. }| {
        cases.into_iter().map(move |case| {
            Trial::ignorable_test(format!("{name}::{}::{}", case.group, case.name), move || {
                if let Some(reason) = case.lacks {
                    return Ok(Completion::ignored_with(reason));
                }
                (case.run)();
                Ok(Completion::Completed)
            })
        })
    });
    libtest_mimic::run(arguments, trials.collect()).exit_code()
}
