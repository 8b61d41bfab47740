//! Where the programs under test lie.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::fs::{FlockOperation, flock};

/// The folder that cargo builds in: tests run from `<target>/<profile>/deps`, programs from `<target>/<profile>`.
pub(crate) fn target() -> PathBuf {
    let exe = std::env::current_exe().expect("a program knows its own path");
    let profile = exe.ancestors().skip(1).find(|folder| !folder.ends_with("deps")).expect("a folder");
    profile.parent().expect("programs lie in <target>/<profile>").to_owned()
}

/// The command under test, with everything that nodes are made of beside it.
///
/// # Panics
/// When the kit has not been made: a test without it would prove nothing.
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

/// The kit's `libgomp.so.1`, as a folder for `LD_LIBRARY_PATH`.
///
/// # Panics
/// When the kit has not been made.
#[must_use]
pub fn libgomp() -> PathBuf {
    let path = target().join("kit/gomp").join(std::env::consts::ARCH);
    assert!(path.join("libgomp.so.1").is_file(), "{} is missing: run `make kit` first", path.display());
    path
}

/// An image of the kit, for every node and board.
///
/// # Panics
/// When the kit has not been made.
#[must_use]
pub fn image(name: &str) -> PathBuf {
    let path = target().join("kit/images").join(format!("{name}.tbi"));
    assert!(path.is_file(), "{} is missing: run `make kit` first", path.display());
    path
}

/// A program of the workspace for this host, as cargo has built it for a test, or builds it now.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn built(program: &str) -> PathBuf {
    let target = target();
    let output = Command::new("cargo")
        // The whole workspace, as `cargo xtask ci` selects it: what it depends on is there then.
        .args(["build", "--workspace", "--bin", program])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("debug").join(program)
}

/// The test program as an executable of this host.
#[must_use]
pub fn host_actor() -> PathBuf {
    let path = target().join("debug/actor");
    assert!(path.is_file(), "{} is missing: `cargo test` builds it", path.display());
    path
}

/// The test program as an image for every instruction set, built by `tombolo build`.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn actor_image() -> PathBuf {
    static IMAGE: OnceLock<PathBuf> = OnceLock::new();
    IMAGE.get_or_init(|| build_actor("actor.tbi", &[])).clone()
}

/// The same, which says of itself that it can be ended and started again elsewhere.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn restartable_actor_image() -> PathBuf {
    static IMAGE: OnceLock<PathBuf> = OnceLock::new();
    IMAGE.get_or_init(|| build_actor("restartable-actor.tbi", &["--restartable"])).clone()
}

/// Held while something for tests is built: several test programs may want it at once, and none should see half of it.
pub(crate) fn locked() -> File {
    let folder = target().join("e2e");
    std::fs::create_dir_all(&folder).expect("a folder for what is built");
    let lock = File::create(folder.join("lock")).expect("a lock");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock");
    lock
}

fn build_actor(name: &str, words: &[&str]) -> PathBuf {
    let _lock = locked();
    let target = target();
    let image = target.join("e2e").join(name);
    let output = Command::new(tombolo())
        .args(["build", "--isa", "all", "--profile", "node", "--bin", "actor"])
        .args(words)
        .arg("--output")
        .arg(&image)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")))
        .env("CARGO_TARGET_DIR", &target)
        .env_remove("TOMBOLO_MACHINE")
        .output()
        .expect("the command runs");
    assert!(output.status.success(), "no image: {}", String::from_utf8_lossy(&output.stderr));
    image
}
