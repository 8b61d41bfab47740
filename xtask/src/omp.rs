//! What `tombolo ompcc` links programs with, in the kit: musl for every instruction set that there are such programs for.

use std::process::Command;

use crate::failure::Failure;
use crate::workspace::{Workspace, line};

/// With what the script ends when an archive is out of reach.
const UNREACHABLE: i32 = 3;

/// Puts `<kit>/omp/<isa>` in place.
pub(crate) fn build(workspace: &Workspace) -> Result<(), Failure> {
    if fetch(workspace)? {
        return Ok(());
    }
    Err(Failure::Found("musl was not put in place: an archive is out of reach".to_owned()))
}

/// The same, but goes on without, aloud, where the archives are out of reach.
pub(crate) fn build_if_reached(workspace: &Workspace) -> Result<(), Failure> {
    if !fetch(workspace)? {
        println!("SKIPPED: musl is not in the kit, an archive is out of reach; `make omp` tries again");
    }
    Ok(())
}

/// The C library. Whether the archives gave it.
fn fetch(workspace: &Workspace) -> Result<bool, Failure> {
    let mut script = Command::new("sh");
    script.current_dir(&workspace.root).arg("scripts/fetch-musl.sh").arg(&workspace.target);
    let failed = |source| Failure::NotStarted { program: "sh".to_owned(), source };
    let status = script.status().map_err(failed)?;
    match status.code() {
        Some(0) => Ok(true),
        Some(UNREACHABLE) => Ok(false),
        _ => Err(Failure::CommandFailed { command: line(&script), status: status.to_string() }),
    }
}
