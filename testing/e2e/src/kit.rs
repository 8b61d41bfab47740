//! Paths of the programs under test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::fs::{FlockOperation, flock};

use crate::cross::builds_for;

/// Returns cargo's target folder. Tests run from `<target>/<profile>/deps`, programs from
/// `<target>/<profile>`.
pub(crate) fn target() -> PathBuf {
    let exe = std::env::current_exe().expect("a program knows its own path");
    let profile = exe.ancestors().skip(1).find(|folder| !folder.ends_with("deps")).expect("a folder");
    profile.parent().expect("programs lie in <target>/<profile>").to_owned()
}

/// Returns the path of the command under test; the parts of nodes are beside it.
///
/// # Panics
/// When the kit is incomplete: a test without it would prove nothing.
#[must_use]
pub fn tombolo() -> PathBuf {
    let target = target();
    let parts = ["release/tombolo", "release/tombolod", "kit/aarch64/tombolod", "kit/aarch64/vmlinuz"];
    for part in parts {
        let path = target.join(part);
        assert!(path.is_file(), "{} is missing: run `make kit` first", path.display());
    }
    target.join(parts[0])
}

/// Folder with the parts of nodes.
#[must_use]
pub fn kit_folder() -> PathBuf {
    target().join("kit")
}

/// Whether the kit supports virtual machines of an instruction set and the host has their emulator; reports a
/// skipped test if not. `make kit` only provides those for Arm. Once the kit has others, a missing emulator
/// counts as a skipped test.
#[must_use]
pub fn has_virtual_machine(isa: &str) -> bool {
    let (kernel, emulator) = (kit_folder().join(isa).join("vmlinuz"), format!("qemu-system-{isa}"));
    if !kernel.is_file() {
        let remedy = format!("cargo xtask kit --vm {isa}");
        let kernel = kernel.display();
        crate::report_optional(&format!("virtual machines of {isa}: there is no {kernel} (`{remedy}`)"));
        return false;
    }
    let found = Command::new(&emulator).arg("--version").output().is_ok();
    if !found {
        crate::skipped(&format!("virtual machines of {isa}: there is no {emulator}"));
    }
    found
}

/// Whether the kit has a monitor for a 32-bit instruction set and the host has the emulator; reports a
/// skipped test if not. `make kit` provides none.
#[must_use]
pub fn has_narrow(isa: &str, emulator: &str) -> bool {
    let monitor = kit_folder().join(isa).join("tombolod");
    if !monitor.is_file() {
        let (monitor, remedy) = (monitor.display(), format!("cargo xtask kit --also {isa}"));
        crate::report_optional(&format!("nodes of {isa}: there is no {monitor} (`{remedy}`)"));
        return false;
    }
    let found = Command::new(emulator).arg("--version").output().is_ok();
    if !found {
        crate::skipped(&format!("nodes of {isa}: there is no {emulator}"));
    }
    found
}

/// Folder with the kit's `libgomp.so.1`, for `LD_LIBRARY_PATH`.
///
/// # Panics
/// When the kit has not been made.
#[must_use]
pub fn libgomp() -> PathBuf {
    let path = target().join("kit/gomp").join(std::env::consts::ARCH);
    assert!(path.join("libgomp.so.1").is_file(), "{} is missing: run `make kit` first", path.display());
    path
}

/// Path of one of the kit's images, which run on every node and board.
///
/// # Panics
/// When the kit has not been made.
#[must_use]
pub fn image(name: &str) -> PathBuf {
    let path = target().join("kit/images").join(format!("{name}.tbi"));
    assert!(path.is_file(), "{} is missing: run `make kit` first", path.display());
    path
}

/// Builds a program of the workspace for this host, unless it is up to date, and returns its path.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn built(program: &str) -> PathBuf {
    let target = target();
    let output = Command::new("cargo")
        // Selects the whole workspace, like `cargo xtask ci`, so that compiled dependencies are reused.
        .args(["build", "--workspace", "--bin", program])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("debug").join(program)
}

/// Path of the test program as an executable of this host.
#[must_use]
pub fn host_actor() -> PathBuf {
    let path = target().join("debug/actor");
    assert!(path.is_file(), "{} is missing: `cargo test` builds it", path.display());
    path
}

/// Builds the test program as an image for every instruction set, with `tombolo build`, and returns its path.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn actor_image() -> PathBuf {
    static IMAGE: OnceLock<PathBuf> = OnceLock::new();
    IMAGE.get_or_init(|| build_actor("actor", &FOREIGN, &[])).clone()
}

/// Like [`actor_image`], but the image is marked as restartable on another node.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn restartable_actor_image() -> PathBuf {
    static IMAGE: OnceLock<PathBuf> = OnceLock::new();
    IMAGE.get_or_init(|| build_actor("restartable-actor", &FOREIGN, &["--restartable"])).clone()
}

/// Like [`actor_image`], for 32-bit instruction sets.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn narrow_actor_image() -> PathBuf {
    static IMAGE: OnceLock<PathBuf> = OnceLock::new();
    IMAGE.get_or_init(|| build_actor("narrow-actor", &NARROW, &[])).clone()
}

/// Takes the lock for shared build results: several test programs may want the same file, and none must see
/// it half-written.
pub(crate) fn locked() -> File {
    let folder = target().join("e2e");
    std::fs::create_dir_all(&folder).expect("a folder for what is built");
    let lock = File::create(folder.join("lock")).expect("a lock");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock");
    lock
}

/// Foreign instruction sets, and the Rust targets that `tombolo build` may use for each; the choice depends
/// on the installed targets.
const FOREIGN: [(&str, &[&str]); 3] = [
    ("aarch64", &["aarch64-unknown-linux-musl", "aarch64-unknown-linux-gnu"]),
    ("riscv64", &["riscv64gc-unknown-linux-gnu"]),
    ("s390x", &["s390x-unknown-linux-gnu"]),
];

/// The same for 32-bit instruction sets.
const NARROW: [(&str, &[&str]); 2] = [
    ("i386", &["i686-unknown-linux-musl"]),
    ("armv7", &["armv7-unknown-linux-musleabihf", "armv7-unknown-linux-gnueabihf"]),
];

/// Builds the test program for foreign nodes with `tombolo build`, in the kit's profile, so that compiled
/// dependencies are shared. For this host it packs the program that cargo built for the tests, because
/// another profile would rebuild all dependencies. Its debug information, two thirds of the file, is
/// stripped: monitors read images into memory.
fn build_actor(name: &str, isas: &[(&str, &[&str])], words: &[&str]) -> PathBuf {
    let _lock = locked();
    let target = target();
    let image = target.join("e2e").join(name).with_extension("tbi");
    let tombolo = |words: &[&str]| {
        let mut command = Command::new(tombolo());
        command.args(words).env("CARGO_TARGET_DIR", &target).env_remove("TOMBOLO_MACHINE");
        command
    };
    let foreign = isas.iter().filter(|(_, targets)| targets.iter().any(|name| builds_for(name)));
    let isas = foreign.clone().map(|(isa, _)| *isa).collect::<Vec<_>>().join(",");
    let mut build = tombolo(&["build", "--isa", &isas, "--profile", "node", "--bin", "actor", "--output"]);
    build
        .arg(target.join("e2e").join(format!("foreign-{name}.tbi")))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")));
    finish(&mut build);
    let host = target.join("e2e/actor");
    finish(Command::new("objcopy").arg("--strip-debug").arg(host_actor()).arg(&host));
    let mut pack = tombolo(&["image", "pack", "--name", "actor"]);
    pack.args(words).arg("--output").arg(&image).arg(host);
    finish(pack.args(foreign.map(|(isa, targets)| newest_actor(isa, targets))));
    image
}

/// Returns the most recent build of the program for an instruction set.
fn newest_actor(isa: &str, targets: &[&str]) -> PathBuf {
    let programs = targets.iter().map(|name| target().join(name).join("node/actor"));
    let built = |program: &PathBuf| program.metadata().and_then(|data| data.modified()).ok();
    let newest = programs.max_by_key(built).filter(|program| program.is_file());
    newest.unwrap_or_else(|| panic!("the program for {isa} is not where `tombolo build` puts it"))
}

fn finish(command: &mut Command) {
    let output = command.output().expect("the command runs");
    assert!(output.status.success(), "no image: {}", String::from_utf8_lossy(&output.stderr));
}
