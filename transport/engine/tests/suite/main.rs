//! Suite that every engine must pass, along every route that it claims.
//!
//! Each case has requirements; where they are missing it is reported as *ignored*, with the reason.

mod cases;
mod cuda;
mod rigs;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};

fn main() -> ExitCode {
    if rigs::be_the_other_process() {
        return ExitCode::SUCCESS;
    }
    let cuda = match cuda::prepare() {
        cuda::Prepared::Here(driver) => driver,
        cuda::Prepared::Elsewhere(status) => return status,
    };
    let mut trials = Vec::new();
    for rig in rigs::all(&cuda) {
        for case in cases::ALL {
            let (start, lacks) = (rig.start.clone(), cases::lacks(&rig, case));
            trials.push(Trial::ignorable_test(format!("{}::{}", rig.name, case.name), move || {
                if let Some(reason) = lacks {
                    return Ok(Completion::ignored_with(reason));
                }
                (case.run)(&*start);
                Ok(Completion::Completed)
            }));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
