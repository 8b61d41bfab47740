//! Suite that every engine must pass, along every route that it claims.
//!
//! Each case has requirements; where they are missing it is reported as *ignored*, with the reason.

mod cases;
mod cuda;
mod fixtures;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};

fn main() -> ExitCode {
    if fixtures::run_as_peer_process() {
        return ExitCode::SUCCESS;
    }
    let cuda = match cuda::prepare() {
        cuda::Preparation::Available(driver) => driver,
        cuda::Preparation::RanElsewhere(status) => return status,
    };
    let mut trials = Vec::new();
    for setup in fixtures::all(&cuda) {
        for case in cases::ALL {
            let (start, missing_requirement) =
                (setup.start.clone(), cases::missing_requirement(&setup, case));
            trials.push(Trial::ignorable_test(format!("{}::{}", setup.name, case.name), move || {
                if let Some(reason) = missing_requirement {
                    return Ok(Completion::ignored_with(reason));
                }
                (case.run)(&*start);
                Ok(Completion::Completed)
            }));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
