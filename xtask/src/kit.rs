//! `cargo xtask kit`: what nodes are made of, in `<target>/kit`.

use std::fs;
use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::failure::Failure;
use crate::gomp;
use crate::mpi;
use crate::omp;
use crate::place::place;
use crate::toolchain::{Toolchain, add_target, target_variable};
use crate::workspace::{Workspace, execute};

/// An image of the kit: a program of the tree that runs on several nodes.
#[derive(Debug)]
struct Image {
    /// What the image is called.
    name: &'static str,
    /// The folder of the program's package.
    folder: &'static str,
    package: &'static str,
    program: &'static str,
    /// Whether it runs on boards too.
    bare: bool,
}

const IMAGES: &[Image] = &[
    Image::new("pingpong", "examples/pingpong", "pingpong", "pingpong"),
    Image::new("frames", "examples/frames", "frames", "frames"),
    Image::new("communities", "examples/communities", "communities", "communities"),
    Image::new("bench", "bench", "tombolo-bench", "bench-peer"),
    Image::new("bare-pingpong", "examples/bare-pingpong", "bare-pingpong", "bare-pingpong").on_boards(),
    Image::new("litmus", "testing/litmus", "tombolo-litmus", "tombolo-litmus").on_boards(),
    Image::new("far-end", "testing/far-end", "tombolo-far-end", "tombolo-far-end").on_boards(),
];

impl Image {
    const fn new(
        name: &'static str,
        folder: &'static str,
        package: &'static str,
        program: &'static str,
    ) -> Self {
        Self { name, folder, package, program, bare: false }
    }

    const fn on_boards(mut self) -> Self {
        self.bare = true;
        self
    }
}

/// Instruction sets that there are boards of, and what Rust calls them.
const BOARDS: [(&str, &str); 2] =
    [("aarch64", "aarch64-unknown-none"), ("riscv64", "riscv64gc-unknown-none-elf")];

/// Builds what nodes are made of: monitors for every instruction set, the VM's kernel, the examples' images.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// Build programs only; fetch no kernel and make no images
    #[arg(long)]
    programs_only: bool,

    /// Make only this image of the examples; may be repeated
    #[arg(long = "image", value_name = "NAME", value_parser = image)]
    images: Vec<&'static Image>,

    /// Build programs and put MPI in place; fetch no kernel and make no images
    #[arg(long, conflicts_with_all = ["programs_only", "images"])]
    mpi: bool,

    /// Build programs and put in place what OpenMP programs are linked with; fetch no kernel and make no images
    #[arg(long, conflicts_with_all = ["programs_only", "images", "mpi"])]
    omp: bool,
}

fn image(name: &str) -> Result<&'static Image, String> {
    IMAGES.iter().find(|image| image.name == name).ok_or_else(|| {
        let names: Vec<&str> = IMAGES.iter().map(|image| image.name).collect();
        format!("the kit has {}", names.join(", "))
    })
}

/// Brings `<target>/kit` up to date. What has not changed is not touched, so caches by content stay good.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Failure> {
    let kit = workspace.target.join("kit");
    build_for_host(workspace)?;
    build_for_nodes(workspace, &kit)?;
    build_for_boards(workspace, &kit)?;
    gomp::build(workspace, &kit)?;
    if options.programs_only {
        return Ok(());
    }
    if options.mpi {
        return mpi::build(workspace, &kit);
    }
    if options.omp {
        return omp::build(workspace, &kit);
    }
    let images = match &options.images[..] {
        [] => IMAGES.iter().collect(),
        images => images.to_vec(),
    };
    compile_images(workspace, &images)?;
    let mut fetch = Command::new("sh");
    execute(fetch.current_dir(&workspace.root).arg("scripts/fetch-vm-kit.sh").arg(&workspace.target))?;
    build_images(workspace, &kit.join("images"), &images)?;
    // Whoever wants some of the images wants nothing else of the examples.
    if !options.images.is_empty() {
        return Ok(());
    }
    mpi::build_if_reached(workspace, &kit)?;
    omp::build_if_reached(workspace, &kit)
}

/// The command and the monitor of this machine itself.
fn build_for_host(workspace: &Workspace) -> Result<(), Failure> {
    let mut build = workspace.cargo();
    build.args(["build", "--release", "--package", "tombolo-cli", "--package", "tombolod"]);
    execute(&mut build)
}

/// A monitor for each foreign instruction set.
fn build_for_nodes(workspace: &Workspace, kit: &Path) -> Result<(), Failure> {
    let targets = Toolchain::find()?.foreign_targets();
    if targets.is_empty() {
        return Ok(());
    }
    let mut build = workspace.cargo();
    build.args(["build", "--profile", "node", "--package", "tombolod", "--bin", "tombolod"]);
    for (_, target) in &targets {
        add_target(&mut build, target);
    }
    execute(&mut build)?;
    for (isa, target) in &targets {
        install(&workspace.target.join(target).join("node/tombolod"), &kit.join(isa).join("tombolod"))?;
    }
    Ok(())
}

/// A monitor for boards of each instruction set that there are boards of.
fn build_for_boards(workspace: &Workspace, kit: &Path) -> Result<(), Failure> {
    let toolchain = Toolchain::find()?;
    let (found, missing): (Vec<_>, Vec<_>) =
        BOARDS.into_iter().partition(|(_, target)| toolchain.has(target));
    for (isa, target) in missing {
        println!("left out: boards of {isa}; this Rust has no library for {target}");
    }
    if found.is_empty() {
        return Ok(());
    }
    let mut build = workspace.cargo();
    build.args(["build", "--profile", "node", "--package", "tombolo-board"]);
    for (_, target) in &found {
        build.args(["--target", target]);
    }
    execute(&mut build)?;
    for (isa, target) in found {
        let program = workspace.target.join(target).join("node/tombolo-board");
        install(&program, &kit.join(isa).join("board"))?;
    }
    Ok(())
}

/// Compiles the images' programs for all nodes at once, which keeps every processor busy: packing the images one by one
/// then finds all of it done. The words are those of `tombolo build`; with others it would all be compiled again.
fn compile_images(workspace: &Workspace, images: &[&Image]) -> Result<(), Failure> {
    let toolchain = Toolchain::find()?;
    let mut everywhere = workspace.cargo();
    everywhere.args(["build", "--profile", "node", "--target", &toolchain.host()?]);
    toolchain.foreign_targets().iter().for_each(|(_, target)| add_target(&mut everywhere, target));
    for image in images {
        everywhere.args(["--package", image.package, "--bin", image.program]);
    }
    execute(&mut everywhere)?;
    let targets: Vec<&str> =
        BOARDS.into_iter().map(|(_, target)| target).filter(|target| toolchain.has(target)).collect();
    let on_boards: Vec<&&Image> = images.iter().filter(|image| image.bare).collect();
    if targets.is_empty() || on_boards.is_empty() {
        return Ok(());
    }
    let mut boards = workspace.cargo();
    boards.args(["build", "--profile", "node"]);
    for target in targets {
        let flags = "-C link-arg=-Ttombolo-program.x";
        boards
            .args(["--target", target])
            .env(target_variable(target, "LINKER"), "rust-lld")
            .env(target_variable(target, "RUSTFLAGS"), flags);
    }
    for image in on_boards {
        boards.args(["--package", image.package, "--bin", image.program]);
    }
    execute(&mut boards)
}

/// Packs an image of each program.
fn build_images(workspace: &Workspace, folder: &Path, images: &[&Image]) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(Failure::file("creating", folder))?;
    let program = workspace.target.join("release/tombolo");
    for image in images {
        let mut build = Command::new(&program);
        build.current_dir(&workspace.root).env("CARGO_TARGET_DIR", &workspace.target);
        // The profile of the monitors, so that both share what they depend on; all that can be built for,
        // whatever machine is up.
        build.args(["build", image.folder, "--isa", "all", "--profile", "node", "--output"]);
        build.arg(folder.join(format!("{}.tbi", image.name)));
        if image.bare {
            build.arg("--bare");
        }
        execute(&mut build)?;
    }
    Ok(())
}

/// Copies a program into place at once, unless it is there already.
pub(crate) fn install(source: &Path, target: &Path) -> Result<(), Failure> {
    let fresh = fs::read(source).map_err(Failure::file("reading", source))?;
    if fs::read(target).is_ok_and(|present| present == fresh) {
        return Ok(());
    }
    place(target, |path| fs::copy(source, path).map(|_| ()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installing_replaces_what_differs_and_leaves_what_does_not() {
        let folder = std::env::temp_dir().join(format!("tombolo-kit-{}", std::process::id()));
        let (source, target) = (folder.join("source"), folder.join("deep/target"));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(&source, "one").expect("a source");
        install(&source, &target).expect("first");
        let time = || fs::metadata(&target).and_then(|data| data.modified()).expect("a time");
        let before = time();
        install(&source, &target).expect("second");
        assert_eq!(time(), before);
        fs::write(&source, "two").expect("another source");
        install(&source, &target).expect("third");
        assert_eq!(fs::read(&target).expect("a target"), b"two");
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
