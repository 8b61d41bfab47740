//! Programs in C, built as users of the library build them, for this host and for foreign nodes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kit::{locked, target};

/// What builds for an instruction set: Debian's compiler, and the Rust target whose library goes with its C library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Toolchain {
    compiler: &'static str,
    /// `None`: this host, whose library cargo has built for the tests.
    target: Option<&'static str>,
}

/// This host.
pub const HOST: Toolchain = Toolchain { compiler: "gcc", target: None };

/// Arm, as in a virtual machine.
pub const AARCH64: Toolchain =
    Toolchain { compiler: "aarch64-linux-gnu-gcc", target: Some("aarch64-unknown-linux-gnu") };

/// Big-endian.
pub const S390X: Toolchain =
    Toolchain { compiler: "s390x-linux-gnu-gcc", target: Some("s390x-unknown-linux-gnu") };

impl Toolchain {
    /// The static library; `None`, aloud, where this Rust cannot build it.
    ///
    /// # Panics
    /// When building it fails.
    #[must_use]
    pub fn library(self) -> Option<PathBuf> {
        let Some(name) = self.target else {
            let exe = std::env::current_exe().expect("a program knows its own path");
            return Some(exe.with_file_name("libtombolo_c.a"));
        };
        let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().expect("rustc");
        let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
        if !sysroot.join("lib/rustlib").join(name).join("lib").is_dir() {
            println!(
                "SKIPPED C with {}: no Rust library for {name} (rustup target add {name})",
                self.compiler
            );
            return None;
        }
        let _lock = locked();
        // As the kit is built, so that both share what they depend on.
        let flags = format!("CARGO_TARGET_{}_RUSTFLAGS", name.to_uppercase().replace('-', "_"));
        let output = Command::new("cargo")
            .args(["rustc", "--package", "tombolo-c", "--lib", "--crate-type", "staticlib"])
            .args(["--profile", "node", "--target", name])
            .current_dir(root())
            .env("CARGO_TARGET_DIR", target())
            .env(flags, "-C target-feature=+crt-static")
            .output()
            .expect("cargo");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(target().join(name).join("node/libtombolo_c.a"))
    }

    /// Builds a static program out of files of the tree, without a warning.
    ///
    /// # Panics
    /// When that fails.
    pub fn build(self, sources: &[&str], library: &Path, program: &Path) {
        let output = Command::new(self.compiler)
            .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror", "-static", "-I"])
            .arg(root().join("runtime/c/include"))
            .arg("-I")
            .arg(root().join("interface/c"))
            .args(sources.iter().map(|source| root().join(source)))
            .arg("-o")
            .args([program, library])
            .args(["-lpthread", "-ldl", "-lm"])
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", self.compiler));
        // Static programs of glibc warn of what they look up at run time.
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The tree.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
