//! Build targets of the installed Rust toolchain.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::workspace::capture;

/// Foreign instruction set, with its Rust targets for static programs, best first.
pub(crate) struct ForeignIsa {
    /// Name as spelled by `tombolo_base::Isa`.
    pub(crate) name: &'static str,
    targets: &'static [&'static str],
}

/// Instruction sets of nodes that are built by default, besides the host's.
pub(crate) const FOREIGN: &[ForeignIsa] = &[
    ForeignIsa {
        name: "aarch64",
        // Debian's Rust has no musl; its glibc target needs the cross compiler as linker.
        targets: &["aarch64-unknown-linux-musl", "aarch64-unknown-linux-gnu"],
    },
    ForeignIsa { name: "riscv64", targets: &["riscv64gc-unknown-linux-gnu"] },
    ForeignIsa { name: "s390x", targets: &["s390x-unknown-linux-gnu"] },
];

/// 32-bit instruction sets, built only on request.
pub(crate) const NARROW: &[ForeignIsa] = &[
    ForeignIsa { name: "i386", targets: &["i686-unknown-linux-musl"] },
    ForeignIsa {
        name: "armv7",
        targets: &["armv7-unknown-linux-musleabihf", "armv7-unknown-linux-gnueabihf"],
    },
];

/// Makes cargo build `target` for a node. Programs are static because a node has no C library.
pub(crate) fn add_target(cargo: &mut Command, target: &str) {
    let flags = target_variable(target, "RUSTFLAGS");
    cargo.args(["--target", target]).env(flags, "-C target-feature=+crt-static");
}

/// Returns the name of the environment variable for cargo's setting `what` of `target`.
pub(crate) fn target_variable(target: &str, what: &str) -> String {
    format!("CARGO_TARGET_{}_{what}", target.to_uppercase().replace('-', "_"))
}

/// Rust toolchain that cargo uses.
pub(crate) struct Toolchain {
    sysroot: PathBuf,
}

impl Toolchain {
    /// Locates the toolchain with `rustc --print sysroot`.
    pub(crate) fn find() -> Result<Self, Failure> {
        let sysroot = capture(Command::new("rustc").args(["--print", "sysroot"]))?;
        Ok(Self { sysroot: sysroot.trim().into() })
    }

    /// Returns the path of `clippy-driver`, the compiler with clippy's lints.
    pub(crate) fn clippy_driver(&self) -> PathBuf {
        self.sysroot.join("bin/clippy-driver")
    }

    /// Returns the target triple of this machine.
    pub(crate) fn host(&self) -> Result<String, Failure> {
        let version = capture(Command::new("rustc").arg("-vV"))?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        host.map(str::to_owned).ok_or_else(|| Failure::Found("`rustc -vV` names no host".to_owned()))
    }

    /// Returns whether the standard (or core) library for `target` is installed.
    pub(crate) fn has(&self, target: &str) -> bool {
        self.sysroot.join("lib/rustlib").join(target).join("lib").is_dir()
    }

    /// Returns the best installed target for this instruction set.
    pub(crate) fn target_for(&self, isa: &ForeignIsa) -> Option<&'static str> {
        isa.targets.iter().copied().find(|target| self.has(target))
    }

    /// Returns the foreign instruction sets that can be built for, with their targets; reports the others.
    pub(crate) fn foreign_targets(&self) -> Vec<(&'static str, &'static str)> {
        let mut found = Vec::new();
        for isa in FOREIGN {
            match self.target_for(isa) {
                Some(target) => found.push((isa.name, target)),
                None => println!(
                    "SKIPPED {}: this Rust has no library for {}; with rustup, `make setup` adds it",
                    isa.name,
                    isa.targets.join(" or ")
                ),
            }
        }
        found
    }
}

/// Returns whether rustup is installed, which can add libraries for other targets.
pub(crate) fn has_rustup() -> bool {
    let mut command = Command::new("rustup");
    command
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns whether nightly's miri is installed; it comes only with rustup.
pub(crate) fn has_miri() -> bool {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "miri", "--version"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Returns whether rustup's nightly is installed.
pub(crate) fn has_nightly() -> bool {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "rustc", "--version"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
