//! Crates that others depend on: whether the registry would take them.

use crate::failure::Failure;
use crate::workspace::{Workspace, execute};

/// Packs each public crate and builds it out of what would be published, against the others as they would be.
pub(super) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let public: Vec<&str> = workspace.public_crates().collect();
    println!("{} crates: {}", public.len(), public.join(", "));
    let mut publish = workspace.cargo();
    publish.args(["publish", "--dry-run", "--locked", "--allow-dirty"]);
    // The registry is asked for nothing but what the lock file has.
    execute(publish.args(public.iter().flat_map(|name| ["--package", name])))
}
