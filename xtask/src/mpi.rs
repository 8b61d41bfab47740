//! MPI in the kit: MPICH, what C programs need where it is foreign, our provider for libfabric, and the
//! `sched_yield` of ranks.

use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::kit::select_installed;
use crate::placing::{RELEASE_FILE, install, stamp};
use crate::toolchain::{Toolchain, target_variable};
use crate::workspace::{Workspace, execute, fetch};

/// Where MPI is in the tree of an instruction set. The same in `models/mpi/launch`, which finds it there.
const MPI: &str = "opt/tombolo/mpi";

/// A foreign instruction set with MPI, and the target for its C library, beside which the provider is loaded.
const FOREIGN: (&str, &str) = ("aarch64", "aarch64-unknown-linux-gnu");

/// What fetches MPICH and the C libraries.
const SCRIPT: &str = "scripts/fetch-mpi.sh";

/// Puts `<kit>/mpi/<isa>` in place.
pub(crate) fn build(workspace: &Workspace, kit: &Path) -> Result<(), Failure> {
    if fetch(workspace, SCRIPT)? {
        return build_provider(workspace, kit);
    }
    Err(Failure::Found("MPI was not put in place: an archive is out of reach".to_owned()))
}

/// The same, but continues without MPI, with a report, if the archives cannot be fetched.
pub(crate) fn build_if_reached(workspace: &Workspace, kit: &Path) -> Result<(), Failure> {
    if fetch(workspace, SCRIPT)? {
        return build_provider(workspace, kit);
    }
    println!("SKIPPED: MPI is not in the kit, an archive is out of reach; `make mpi` tries again");
    Ok(())
}

/// The provider for this host and for the foreign instruction set, if it can be built for.
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

/// What is built of ours, and where libfabric and the loader are told to look for it.
const LIBRARIES: [(&str, &str, &str); 2] = [
    ("tombolo-mpi-provider", "libtombolo_fi.so", "fi/libtombolo-fi.so"),
    ("tombolo-mpi-sched-yield", "libtombolo_yield.so", "lib/libtombolo-yield.so"),
];

/// Builds the libraries for an instruction set and puts them in their places.
fn build_for(workspace: &Workspace, kit: &Path, (isa, foreign): (&str, Option<&str>)) -> Result<(), Failure> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release"]);
    let mut folder = workspace.target.clone();
    if let Some(target) = foreign {
        // Dynamic, whatever programs for nodes are, for it is loaded into a process that has a C library.
        cargo.args(["--lib", "--target", target]).env(target_variable(target, "RUSTFLAGS"), "");
        folder.push(target);
    } else {
        select_installed(&mut cargo);
    }
    execute(cargo.args(LIBRARIES.iter().flat_map(|(package, ..)| ["--package", package])))?;
    for (_, built, place) in LIBRARIES {
        let built = folder.join("release").join(built);
        let stripped = built.with_extension("stripped");
        // Small, for on nodes it lies in memory.
        let tool = if foreign.is_some() { format!("{isa}-linux-gnu-strip") } else { "strip".to_owned() };
        execute(Command::new(tool).arg("-o").arg(&stripped).arg(&built))?;
        install(&stripped, &kit.join("mpi").join(isa).join(MPI).join(place))?;
    }
    stamp(&kit.join("mpi").join(isa).join(MPI).join(RELEASE_FILE))
}
