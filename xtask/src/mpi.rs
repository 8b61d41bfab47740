//! MPI in the kit: MPICH, the C libraries that programs need on foreign nodes, the provider for libfabric,
//! and the `sched_yield` of ranks.

use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::kit::select_installed;
use crate::placing::{RELEASE_FILE, install, write_release};
use crate::toolchain::{Toolchain, target_variable};
use crate::workspace::{Workspace, execute, fetch};

/// Path of MPI in the tree of an instruction set; must match `models/mpi/launch`.
const MPI: &str = "opt/tombolo/mpi";

/// Foreign instruction set with MPI, and the glibc target of the provider that is loaded there.
const FOREIGN: (&str, &str) = ("aarch64", "aarch64-unknown-linux-gnu");

/// Script that fetches MPICH and the C libraries.
const SCRIPT: &str = "scripts/fetch-mpi.sh";

/// Fetches and installs `<kit>/mpi/<isa>`.
pub(crate) fn build(workspace: &Workspace, kit: &Path) -> Result<(), Failure> {
    if fetch(workspace, SCRIPT)? {
        return build_provider(workspace, kit);
    }
    Err(Failure::Found("MPI was not put in place: an archive is out of reach".to_owned()))
}

/// As [`build`], but prints a notice and continues without MPI if the archives cannot be fetched.
pub(crate) fn build_if_reachable(workspace: &Workspace, kit: &Path) -> Result<(), Failure> {
    if fetch(workspace, SCRIPT)? {
        return build_provider(workspace, kit);
    }
    println!("SKIPPED: MPI is not in the kit, an archive is out of reach; `make mpi` tries again");
    Ok(())
}

/// Builds the provider for this host and, if the toolchain supports it, for the foreign instruction set.
fn build_provider(workspace: &Workspace, kit: &Path) -> Result<(), Failure> {
    let toolchain = Toolchain::find()?;
    let host = toolchain.host()?;
    let own = host.split('-').next().unwrap_or(&host);
    build_for(workspace, kit, (own, None))?;
    let (isa, target) = FOREIGN;
    if isa == own {
        return Ok(());
    }
    if !toolchain.has(target) {
        println!(
            "SKIPPED MPI on {isa}: this Rust has no library for {target}; with rustup, `make mpi` adds it"
        );
        return Ok(());
    }
    build_for(workspace, kit, (isa, Some(target)))
}

/// Libraries built from this tree: package, file name, and the path where libfabric and the loader look for
/// the library.
const LIBRARIES: [(&str, &str, &str); 2] = [
    ("tombolo-mpi-provider", "libtombolo_fi.so", "fi/libtombolo-fi.so"),
    ("tombolo-mpi-sched-yield", "libtombolo_yield.so", "lib/libtombolo-yield.so"),
];

/// Builds and installs the libraries for an instruction set.
fn build_for(workspace: &Workspace, kit: &Path, (isa, foreign): (&str, Option<&str>)) -> Result<(), Failure> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release"]);
    let mut folder = workspace.target.clone();
    if let Some(target) = foreign {
        // Linked dynamically, unlike programs for nodes: it is loaded into a process that has a C library.
        cargo.args(["--lib", "--target", target]).env(target_variable(target, "RUSTFLAGS"), "");
        folder.push(target);
    } else {
        select_installed(&mut cargo);
    }
    execute(cargo.args(LIBRARIES.iter().flat_map(|(package, ..)| ["--package", package])))?;
    for (_, built, place) in LIBRARIES {
        let built = folder.join("release").join(built);
        let stripped = built.with_extension("stripped");
        // Strip it: on nodes, files are held in memory.
        let tool = if foreign.is_some() { format!("{isa}-linux-gnu-strip") } else { "strip".to_owned() };
        execute(Command::new(tool).arg("-o").arg(&stripped).arg(&built))?;
        install(&stripped, &kit.join("mpi").join(isa).join(MPI).join(place))?;
    }
    write_release(&kit.join("mpi").join(isa).join(MPI).join(RELEASE_FILE))
}
