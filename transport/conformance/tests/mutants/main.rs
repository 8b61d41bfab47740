//! Tests the suite itself: a transport with one defect must fail the case for that defect, and pass it
//! without the defect. (Other cases that it fails do not count.)

mod carrier;
mod mutations;

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use tombolo_conformance::carriers::{Shm, UnixStream};
use tombolo_conformance::{Case, Subject, all};

use carrier::{MutantCarrier, Mutation};

/// Duration of a failing wait. Successful waits must be shorter, or the mutant is caught for the wrong
/// reason: the suite itself runs the same case without the mutation and with full patience.
const PATIENCE: Duration = Duration::from_secs(2);

fn case(subject: Subject, name: &str) -> Case {
    let mut cases = all(subject).into_iter();
    cases.find(|case| format!("{}::{}", case.group, case.name) == name).expect("a case of that name")
}

/// The case must fail, and not be skipped.
fn caught<M: Mutation>() -> Result<(), Failed> {
    let case = case(Subject::of::<MutantCarrier<M>>(), M::CAUGHT_BY);
    if let Some(lacks) = case.lacks {
        return Err(format!("{} was not tried: {lacks}", M::CAUGHT_BY).into());
    }
    match catch_unwind(|| case.run()) {
        Err(_) => Ok(()),
        Ok(()) => Err(format!("{} finds nothing wrong with it", M::CAUGHT_BY).into()),
    }
}

fn trial<M: Mutation>() -> Trial {
    let name = std::any::type_name::<M>().rsplit("::").next().unwrap_or_default();
    Trial::test(format!("{name} is caught by {}", M::CAUGHT_BY), caught::<M>)
}

fn main() -> ExitCode {
    if std::env::var_os("TOMBOLO_CONFORMANCE_PEER").is_some() {
        return tombolo_conformance::run(&[Subject::of::<Shm>(), Subject::of::<UnixStream>()]);
    }
    let mut arguments = Arguments::from_args();
    // The cases wait for events that do not come, and hardly compute.
    arguments.test_threads.get_or_insert(8);
    tombolo_conformance::set_patience(PATIENCE);
    // Failures are expected here, and their messages would hide others.
    std::panic::set_hook(Box::new(|_| {}));
    libtest_mimic::run(&arguments, mutations::trials()).exit_code()
}
