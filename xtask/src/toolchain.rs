//! What the installed Rust can build for.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::workspace::capture;

/// A foreign instruction set and the Rust targets that make static programs for it, best first.
pub(crate) struct ForeignIsa {
    /// As `tombolo_base::Isa` spells it.
    pub(crate) name: &'static str,
    targets: &'static [&'static str],
}

/// Every instruction set that a node may have, besides this machine's own.
pub(crate) const FOREIGN: &[ForeignIsa] = &[
    ForeignIsa {
        name: "aarch64",
        // Debian's Rust has no musl; its glibc target needs the cross compiler as linker.
        targets: &["aarch64-unknown-linux-musl", "aarch64-unknown-linux-gnu"],
    },
    ForeignIsa { name: "riscv64", targets: &["riscv64gc-unknown-linux-gnu"] },
    ForeignIsa { name: "s390x", targets: &["s390x-unknown-linux-gnu"] },
];

/// Instruction sets of 32 bits, which nothing is built for unless it is asked for.
pub(crate) const NARROW: &[ForeignIsa] = &[
    ForeignIsa { name: "i386", targets: &["i686-unknown-linux-musl"] },
    ForeignIsa {
        name: "armv7",
        targets: &["armv7-unknown-linux-musleabihf", "armv7-unknown-linux-gnueabihf"],
    },
];

/// Makes cargo build `target` for a node: static, since a node has a kernel and our program, nothing else.
pub(crate) fn add_target(cargo: &mut Command, target: &str) {
    let flags = target_variable(target, "RUSTFLAGS");
    cargo.args(["--target", target]).env(flags, "-C target-feature=+crt-static");
}

/// The name of cargo's setting `what` for `target` in the environment.
pub(crate) fn target_variable(target: &str, what: &str) -> String {
    format!("CARGO_TARGET_{}_{what}", target.to_uppercase().replace('-', "_"))
}

/// The compiler that cargo uses here.
pub(crate) struct Toolchain {
    sysroot: PathBuf,
}

impl Toolchain {
    /// Asks the compiler where its libraries are.
    pub(crate) fn find() -> Result<Self, Failure> {
        let sysroot = capture(Command::new("rustc").args(["--print", "sysroot"]))?;
        Ok(Self { sysroot: sysroot.trim().into() })
    }

    /// The compiler with lints, where `cargo clippy` looks for it.
    pub(crate) fn clippy_driver(&self) -> PathBuf {
        self.sysroot.join("bin/clippy-driver")
    }

    /// The target of this machine itself.
    pub(crate) fn host(&self) -> Result<String, Failure> {
        let version = capture(Command::new("rustc").arg("-vV"))?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        host.map(str::to_owned).ok_or_else(|| Failure::Found("`rustc -vV` names no host".to_owned()))
    }

    /// Whether there is a standard (or core) library for `target`.
    pub(crate) fn has(&self, target: &str) -> bool {
        self.sysroot.join("lib/rustlib").join(target).join("lib").is_dir()
    }

    /// The target to build programs of this instruction set with.
    pub(crate) fn target_for(&self, isa: &ForeignIsa) -> Option<&'static str> {
        isa.targets.iter().copied().find(|target| self.has(target))
    }

    /// The foreign instruction sets that can be built for; reports the others.
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

/// Whether libraries for other targets can be added.
pub(crate) fn has_rustup() -> bool {
    let mut command = Command::new("rustup");
    command
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Whether nightly's miri is there; it comes only with rustup.
pub(crate) fn has_miri() -> bool {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "miri", "--version"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Whether rustup's nightly is there.
pub(crate) fn has_nightly() -> bool {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "rustc", "--version"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
