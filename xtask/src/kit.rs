//! `cargo xtask kit`: builds the parts of nodes in `<target>/kit`.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::board_c::{self, BoardTarget};
use crate::c_library::{self, CTarget};
use crate::failure::Failure;
use crate::gomp;
use crate::images::{IMAGES, Image, pack};
use crate::mpi;
use crate::needs::{Needs, RustTarget, VIRTUAL_MACHINES};
use crate::omp;
use crate::placing::{install, write_release};
use crate::toolchain::add_target;
use crate::workspace::{Workspace, execute};

/// Helper programs of the command with heavy dependencies. The command runs them, and builds a missing one.
pub(crate) const PROGRAMS: [&str; 4] = ["bench", "mpi", "omp", "watch"];

/// Single-word commands for build systems that do not accept `tombolo mpicc`: scripts next to the command.
pub(crate) const WRAPPERS: [&str; 5] =
    ["tombolo-mpicc", "tombolo-mpicxx", "tombolo-mpirun", "tombolo-ompcc", "tombolo-ompcxx"];

/// Folder of these scripts in the source tree.
pub(crate) const WRAPPERS_FOLDER: &str = "packaging/bin";

/// Builds the parts of nodes: monitors, the kernel of virtual machines, images of the examples.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// Build only what the nodes of this machine file need
    #[arg(long, value_name = "FILE", conflicts_with_all = ["mpi", "omp"])]
    machine: Option<PathBuf>,

    /// Build programs only; fetch no kernel and pack no images
    #[arg(long)]
    programs_only: bool,

    /// Build the command and the inputs of nodes and images; leave the command's helper programs, and what C,
    /// Python, MPI and OpenMP need, to a later call
    #[arg(long, conflicts_with_all = ["machine", "programs_only", "images", "c", "mpi", "omp", "crowd"])]
    base: bool,

    /// Make only this image of the examples; may be repeated
    #[arg(long = "image", value_name = "NAME", value_parser = image)]
    images: Vec<&'static Image>,

    /// Build only the library for C programs, for these instruction sets or for all that can be built for
    #[arg(long, value_name = "ISA", value_delimiter = ',', num_args = 0.., value_parser = c_library::target)]
    #[arg(conflicts_with_all = ["machine", "programs_only", "images", "mpi", "omp"])]
    c: Option<Vec<CTarget>>,

    /// Build only the library for C programs on boards, for these instruction sets or for both
    #[arg(long, value_name = "ISA", value_delimiter = ',', num_args = 0.., value_parser = board_c::target)]
    #[arg(conflicts_with_all = ["machine", "programs_only", "images", "c", "mpi", "omp"])]
    board_c: Option<Vec<BoardTarget>>,

    /// Build the programs and install MPI; fetch no kernel and pack no images
    #[arg(long, conflicts_with_all = ["programs_only", "images"])]
    mpi: bool,

    /// Build the programs and install what OpenMP programs link with; fetch no kernel and pack no images
    #[arg(long, conflicts_with_all = ["programs_only", "images", "mpi"])]
    omp: bool,

    /// Build also for these instruction sets, which are not in every kit: i386, armv7
    #[arg(long = "also", value_name = "ISA", value_delimiter = ',', conflicts_with_all = ["c", "vm"])]
    also: Vec<String>,

    /// Only fetch the kernel of virtual machines of this instruction set, and what else they boot
    #[arg(long, value_name = "ISA", value_parser = VIRTUAL_MACHINES)]
    #[arg(conflicts_with_all = ["machine", "programs_only", "images", "c", "mpi", "omp"])]
    vm: Option<String>,

    /// Build only the synthetic machine that tests the web page (`testing/synthetic`)
    #[arg(long, conflicts_with_all = ["machine", "programs_only", "images", "c", "mpi", "omp"])]
    synthetic: bool,
}

fn image(name: &str) -> Result<&'static Image, String> {
    IMAGES.iter().find(|image| image.name == name).ok_or_else(|| {
        let names: Vec<&str> = IMAGES.iter().map(|image| image.name).collect();
        format!("the kit has {}", names.join(", "))
    })
}

/// Brings `<target>/kit` up to date. Unchanged files are not touched, so that caches keyed by file remain
/// valid.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Failure> {
    let kit = workspace.target.join("kit");
    if let Some(targets) = &options.c {
        return c_library::build(workspace, &kit, targets);
    }
    if let Some(targets) = &options.board_c {
        return board_c::build(workspace, &kit, targets);
    }
    if options.synthetic {
        return build_synthetic(workspace);
    }
    if let Some(isa) = &options.vm {
        return fetch_vm(workspace, isa);
    }
    let mut needs = match &options.machine {
        Some(file) => Needs::of_machine(file)?,
        None => Needs::everything()?,
    };
    options.also.iter().try_for_each(|isa| needs.add_linux(isa))?;
    let images = match &options.images[..] {
        _ if options.programs_only || options.mpi || options.omp => vec![],
        [] => IMAGES.iter().collect(),
        images => images.to_vec(),
    };
    build_for_host(workspace, &needs, &images, options.base)?;
    place_wrappers(workspace)?;
    build_for_nodes(workspace, &needs, &images)?;
    build_for_boards(workspace, &needs, &images)?;
    install_monitors(workspace, &needs, &kit)?;
    // The command rejects a kit of another version (`machine/src/kit.rs`).
    write_release(&kit.join("version"))?;
    if options.mpi {
        return mpi::build(workspace, &kit);
    }
    if options.omp {
        gomp::build(workspace, &kit)?;
        return omp::build(workspace, &kit);
    }
    if !options.programs_only {
        needs.vm.iter().try_for_each(|isa| fetch_vm(workspace, isa))?;
        for image in &images {
            pack(workspace, image, &needs, &kit.join("images"))?;
        }
    }
    // If a machine or images are named, build nothing else.
    if needs.everything && options.images.is_empty() && !options.base {
        gomp::build(workspace, &kit)?;
        if !options.programs_only {
            mpi::build_if_reachable(workspace, &kit)?;
            omp::build_if_reachable(workspace, &kit)?;
        }
    }
    Ok(())
}

/// Fetches the files that a virtual machine boots, except for its monitor.
fn fetch_vm(workspace: &Workspace, isa: &str) -> Result<(), Failure> {
    let mut fetch = Command::new("sh");
    fetch.current_dir(&workspace.root).arg("scripts/fetch-vm-kit.sh").arg(&workspace.target).arg(isa);
    execute(&mut fetch)
}

/// Builds the command, the host's monitor and the images' programs for the host in one call of cargo, because
/// they share dependencies. The other programs and libraries of an installation are included unless `base` is
/// set or only one machine's needs are built; in the latter case, helper programs that have been built before
/// are brought up to date.
fn build_for_host(
    workspace: &Workspace,
    needs: &Needs,
    images: &[&Image],
    base: bool,
) -> Result<(), Failure> {
    let mut build = workspace.cargo();
    build.args(["build", "--release"]);
    if base {
        select_packages(&mut build);
        build.args(["--bin", "tombolo", "--bin", "tombolod"]);
    } else if needs.everything {
        select_installed(&mut build);
    } else {
        select_command(&mut build);
        PROGRAMS
            .iter()
            .filter(|program| is_built(workspace, program))
            .for_each(|program| add_program(&mut build, program));
    }
    for image in images {
        build.args(["--package", image.package, "--bin", image.program]);
    }
    execute(&mut build)
}

/// Installs the wrapper scripts next to the command.
fn place_wrappers(workspace: &Workspace) -> Result<(), Failure> {
    let (from, to) = (workspace.root.join(WRAPPERS_FOLDER), workspace.target.join("release"));
    WRAPPERS.iter().try_for_each(|name| install(&from.join(name), &to.join(name)))
}

fn is_built(workspace: &Workspace, program: &str) -> bool {
    workspace.target.join("release").join(format!("tombolo-{program}")).is_file()
}

/// Selects the library for C, and the whole installation if all helper programs have been built, so that they
/// share dependencies.
pub(crate) fn select_c(workspace: &Workspace, build: &mut Command) {
    if PROGRAMS.iter().all(|program| is_built(workspace, program)) {
        select_installed(build);
    } else {
        select_command(build);
        build.args(["--package", "tombolo-c", "--lib"]);
    }
}

fn select_command(build: &mut Command) {
    build.args([
        "--package",
        "tombolo-cli",
        "--bin",
        "tombolo",
        "--package",
        "tombolod",
        "--bin",
        "tombolod",
    ]);
}

/// Selects all programs and libraries of an installation. They are always selected together: cargo unifies
/// features over the selected packages and would rebuild shared dependencies for another selection.
pub(crate) fn select_installed(build: &mut Command) {
    select_command(build);
    PROGRAMS.iter().for_each(|program| add_program(build, program));
    build.args(["--package", "tombolo-c", "--package", "tombolo-python", "--lib"]);
}

/// Selects the packages of an installation, but not which of their targets are built. Shared dependencies are
/// those of [`select_installed`], because cargo unifies features over the selected packages.
fn select_packages(build: &mut Command) {
    let programs = PROGRAMS.map(|program| format!("tombolo-cli-{program}"));
    let others = ["tombolo-cli", "tombolod", "tombolo-c", "tombolo-python"];
    for package in others.into_iter().chain(programs.iter().map(String::as_str)) {
        build.args(["--package", package]);
    }
}

/// Builds the synthetic machine with the package selection of the kit, so that cargo reuses dependencies.
fn build_synthetic(workspace: &Workspace) -> Result<(), Failure> {
    let mut build = workspace.cargo();
    build.args(["build", "--release", "--quiet"]);
    select_installed(&mut build);
    execute(build.args(["--package", "tombolo-synthetic", "--bin", "tombolo-synthetic"]))
}

/// Adds one of [`PROGRAMS`] to a cargo command.
fn add_program(build: &mut Command, program: &str) {
    build.args(["--package", &format!("tombolo-cli-{program}"), "--bin", &format!("tombolo-{program}")]);
}

/// Builds the monitor and the images' programs for all foreign instruction sets in one cargo call, which
/// keeps all processors busy.
fn build_for_nodes(workspace: &Workspace, needs: &Needs, images: &[&Image]) -> Result<(), Failure> {
    if needs.linux.is_empty() {
        return Ok(());
    }
    let mut build = workspace.cargo();
    build.args(["build", "--profile", "node", "--package", "tombolod", "--bin", "tombolod"]);
    for target in &needs.linux {
        add_target(&mut build, target.triple);
    }
    for image in images {
        build.args(["--package", image.package, "--bin", image.program]);
    }
    execute(&mut build)
}

/// Builds the monitors and the images' programs for boards. Programs have other linker arguments than
/// monitors. These are passed to the compiler of each program only: as a setting of the target they would
/// apply to all crates, which would be recompiled.
fn build_for_boards(workspace: &Workspace, needs: &Needs, images: &[&Image]) -> Result<(), Failure> {
    if needs.boards.is_empty() {
        return Ok(());
    }
    let mut monitors = workspace.cargo();
    monitors.args(["build", "--profile", "node", "--package", "tombolo-board"]);
    for target in &needs.boards {
        monitors.args(["--target", target.triple]);
    }
    execute(&mut monitors)?;
    for image in images.iter().filter(|image| image.bare) {
        for target in &needs.boards {
            let mut program = workspace.cargo();
            program.args(["rustc", "--profile", "node", "--target", target.triple]);
            program.args(["--package", image.package, "--bin", image.program]);
            execute(program.args(["--", "-C", "link-arg=-Ttombolo-program.x"]))?;
        }
    }
    Ok(())
}

fn install_monitors(workspace: &Workspace, needs: &Needs, kit: &Path) -> Result<(), Failure> {
    let place = |target: &RustTarget, program: &str, name: &str| {
        let built = workspace.target.join(target.triple).join("node").join(program);
        install(&built, &kit.join(target.isa).join(name))
    };
    needs.linux.iter().try_for_each(|target| place(target, "tombolod", "tombolod"))?;
    needs.boards.iter().try_for_each(|target| place(target, "tombolo-board", "board"))
}
