//! What builds for each instruction set, and the Debian packages that bring it.

use tombolo_base::{Isa, Target};

use super::BuildError;
use crate::kit::find_program;

/// A Rust target that makes static programs, and what links them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RustTarget {
    pub(super) triple: &'static str,
    pub(super) linker: Linker,
}

/// What links programs of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Linker {
    /// The one that comes with Rust: with musl no C compiler is needed at all.
    RustLld,
    /// The C compiler for the instruction set.
    Gcc,
    /// The one that comes with Rust, and the layout of a program for boards.
    Board,
}

/// Rust targets for static programs, best first.
///
/// musl where the standard library brings its own; Debian's Rust has only the glibc targets.
pub(super) fn rust_targets(target: Target) -> &'static [RustTarget] {
    const fn musl(triple: &'static str) -> RustTarget {
        RustTarget { triple, linker: Linker::RustLld }
    }
    const fn glibc(triple: &'static str) -> RustTarget {
        RustTarget { triple, linker: Linker::Gcc }
    }
    const fn board(triple: &'static str) -> RustTarget {
        RustTarget { triple, linker: Linker::Board }
    }
    match target.isa {
        Isa::Aarch64 if target.bare => const { &[board("aarch64-unknown-none")] },
        Isa::Riscv64 if target.bare => const { &[board("riscv64gc-unknown-none-elf")] },
        Isa::X86_64 => const { &[musl("x86_64-unknown-linux-musl"), glibc("x86_64-unknown-linux-gnu")] },
        Isa::Aarch64 => const { &[musl("aarch64-unknown-linux-musl"), glibc("aarch64-unknown-linux-gnu")] },
        Isa::Riscv64 => const { &[glibc("riscv64gc-unknown-linux-gnu")] },
        Isa::S390x => const { &[glibc("s390x-unknown-linux-gnu")] },
    }
}

/// The C compiler for `isa`: the host's own, or Debian's cross compiler.
fn c_compiler(isa: Isa) -> &'static str {
    match isa {
        _ if isa == Isa::current() => "gcc",
        Isa::X86_64 => "x86_64-linux-gnu-gcc",
        Isa::Aarch64 => "aarch64-linux-gnu-gcc",
        Isa::Riscv64 => "riscv64-linux-gnu-gcc",
        Isa::S390x => "s390x-linux-gnu-gcc",
    }
}

/// The Debian packages with the C compiler and the C library for `isa`.
fn c_packages(isa: Isa) -> &'static str {
    match isa {
        _ if isa == Isa::current() => "gcc libc6-dev",
        Isa::X86_64 => "gcc-x86-64-linux-gnu libc6-dev-amd64-cross",
        Isa::Aarch64 => "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
        Isa::Riscv64 => "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross",
        Isa::S390x => "gcc-s390x-linux-gnu libc6-dev-s390x-cross",
    }
}

/// The C compiler for `isa`, if it is installed.
///
/// # Errors
/// [`BuildError::MissingTool`] with the command that installs it.
pub(super) fn installed_c_compiler(isa: Isa) -> Result<&'static str, BuildError> {
    let tool = c_compiler(isa);
    match find_program(tool) {
        Some(_) => Ok(tool),
        None => Err(BuildError::MissingTool {
            target: isa.into(),
            tool: tool.to_owned(),
            install: format!("apt-get install {}", c_packages(isa)),
        }),
    }
}
