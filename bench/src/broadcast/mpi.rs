//! `MPI_Bcast` of the installed MPI.

use std::process::Command;
use std::time::Duration;

use super::{Figure, LINE_BYTES, Trial};
use crate::launch::{figures_of, output_of};

/// Program of the trial for MPI: the roots alternate, since a collective operation needs all members.
const PROGRAM: &str = include_str!("bcast.c");

/// Runs a trial with `mpicc` and `mpirun`.
pub(super) fn run(trial: &Trial, timeout: Duration) -> Result<Vec<Figure>, String> {
    let folder = std::env::temp_dir().join(format!("tombolo-bench-broadcast-{}", std::process::id()));
    let result = in_folder(trial, timeout, &folder);
    // A failure leaves a folder that contains only the program.
    let _ = std::fs::remove_dir_all(&folder);
    result
}

fn in_folder(trial: &Trial, timeout: Duration, folder: &std::path::Path) -> Result<Vec<Figure>, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("no folder for MPI's program: {error}"))?;
    let source = folder.join("bcast.c");
    std::fs::write(&source, PROGRAM).map_err(|error| format!("cannot write MPI's program: {error}"))?;
    let program = folder.join("bcast");
    let mut compile = Command::new("mpicc");
    compile.arg("-O2").arg("-o").arg(&program).arg(&source);
    let (status, _, errors) = output_of(compile, timeout).map_err(|why| format!("no MPI: {why}"))?;
    if !status.success() {
        return Err(format!("mpicc: {}", crate::launch::last_lines(&errors)));
    }
    let mut run = Command::new("mpirun");
    // Allows Open MPI to run more ranks than processors, and as root in a container.
    run.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    run.env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    run.args(["-n", &trial.members.to_string()]).arg(&program);
    let bytes = trial.lines as usize * LINE_BYTES;
    for number in [bytes, trial.messages as usize, trial.sources as usize, usize::from(trial.paced)] {
        run.arg(number.to_string());
    }
    figures_of(run, timeout)
}
