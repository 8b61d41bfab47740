//! Cross-compiled libraries of the tree, for foreign nodes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kit::{locked, target};

/// A library of the tree, to be cross-compiled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library {
    pub(crate) package: &'static str,
    /// Cargo's name for the crate type.
    pub(crate) crate_type: &'static str,
    pub(crate) file: &'static str,
    /// Compiler flags that override the target's defaults.
    pub(crate) flags: &'static str,
}

impl Library {
    /// Builds the library for a Rust target. Returns `None` and reports `what` as skipped if this Rust has no
    /// standard library for it.
    ///
    /// # Panics
    /// When building it fails.
    pub(crate) fn build(self, name: &str, what: &str) -> Option<PathBuf> {
        if !has_target(name, what) {
            return None;
        }
        let _lock = locked();
        // Same settings as for the kit's MPI libraries, so that both share their dependencies.
        let flags = format!("CARGO_TARGET_{}_RUSTFLAGS", name.to_uppercase().replace('-', "_"));
        let output = Command::new("cargo")
            .args(["rustc", "--package", self.package, "--lib", "--crate-type", self.crate_type])
            .args(["--release", "--target", name])
            .current_dir(root())
            .env("CARGO_TARGET_DIR", target())
            .env(flags, self.flags)
            .output()
            .expect("cargo");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(target().join(name).join("release").join(self.file))
    }
}

/// Whether this Rust can build for a target; reports `what` as skipped if not.
pub(crate) fn has_target(name: &str, what: &str) -> bool {
    let is_there = builds_for(name);
    if !is_there {
        crate::skipped(&format!("{what}: no Rust library for {name} (rustup target add {name})"));
    }
    is_there
}

/// Whether this Rust can build for a target.
pub(crate) fn builds_for(name: &str) -> bool {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().expect("rustc");
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    sysroot.join("lib/rustlib").join(name).join("lib").is_dir()
}

/// Root folder of the source tree.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
