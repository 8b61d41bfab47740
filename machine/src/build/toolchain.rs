//! Build tools for each instruction set, and the Debian packages that contain them.

use std::path::PathBuf;

use tombolo_base::{Isa, Target};

use super::BuildError;
use crate::kit::find_program;

/// Rust target for static programs, with its linker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RustTarget {
    pub(super) triple: &'static str,
    pub(super) linker: Linker,
}

/// Linker of a target's programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Linker {
    /// Rust's own linker: with musl no C compiler is needed.
    RustLld,
    /// The C compiler for the instruction set.
    Gcc,
    /// Rust's own linker with the memory layout of programs for boards.
    Board,
}

/// Returns Rust targets for static programs, best first.
///
/// Prefers musl if the standard library includes it; Debian's Rust has only the glibc targets.
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
        Isa::I386 => const { &[musl("i686-unknown-linux-musl")] },
        Isa::Armv7 => {
            const { &[musl("armv7-unknown-linux-musleabihf"), glibc("armv7-unknown-linux-gnueabihf")] }
        }
    }
}

/// A language that gcc compiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cxx,
}

/// Returns the compiler for `isa`: the host's own, or Debian's cross compiler.
fn compiler(language: Language, isa: Isa) -> String {
    let name = if language == Language::C { "gcc" } else { "g++" };
    let machine = match isa {
        _ if isa == Isa::current() => return name.to_owned(),
        Isa::I386 => "i686-linux-gnu",
        Isa::Armv7 => "arm-linux-gnueabihf",
        _ => return format!("{}-linux-gnu-{name}", isa.name()),
    };
    format!("{machine}-{name}")
}

/// Returns the Debian packages with the compiler and the C library for `isa`.
fn packages(language: Language, isa: Isa) -> String {
    let name = if language == Language::C { "gcc" } else { "g++" };
    let (compiler, library) = match isa {
        _ if isa == Isa::current() => return format!("{name} libc6-dev"),
        Isa::X86_64 => ("x86-64", "amd64"),
        Isa::Aarch64 => ("aarch64", "arm64"),
        Isa::Riscv64 => ("riscv64", "riscv64"),
        Isa::S390x => ("s390x", "s390x"),
        Isa::I386 => ("i686", "i386"),
        Isa::Armv7 => return format!("{name}-arm-linux-gnueabihf libc6-dev-armhf-cross"),
    };
    format!("{name}-{compiler}-linux-gnu libc6-dev-{library}-cross")
}

/// Returns the compiler for `isa`, if it is installed.
///
/// # Errors
/// [`BuildError::MissingTool`] with the command that installs it.
pub fn installed_compiler(language: Language, isa: Isa) -> Result<String, BuildError> {
    let tool = compiler(language, isa);
    if find_program(&tool).is_some() {
        return Ok(tool);
    }
    let install = format!("apt-get install {}", packages(language, isa));
    Err(BuildError::MissingTool { target: isa.into(), tool, install })
}

/// Returns the instruction set's name in Debian's picolibc packages, which follows the compiler's.
const fn board_tools(isa: Isa) -> Option<&'static str> {
    match isa {
        Isa::Aarch64 => Some("aarch64-linux-gnu"),
        Isa::Riscv64 => Some("riscv64-unknown-elf"),
        _ => None,
    }
}

/// Returns the specs file by which a compiler finds picolibc, the C library of programs on boards.
pub(super) fn picolibc(isa: Isa) -> PathBuf {
    ["/usr/lib/picolibc", board_tools(isa).unwrap_or_default(), "picolibc.specs"].iter().collect()
}

/// Returns the compiler of C for boards of an instruction set, if it and its C library are installed.
///
/// # Errors
/// [`BuildError::MissingTool`] with the command that installs them; [`BuildError::NotForBoards`].
pub(super) fn installed_board_compiler(target: Target) -> Result<String, BuildError> {
    let tools = board_tools(target.isa).ok_or(BuildError::NotForBoards { target })?;
    let tool = format!("{tools}-gcc");
    let missing = |tool: String| {
        let install = format!("apt-get install gcc-{tools} picolibc-{tools}");
        BuildError::MissingTool { target, tool, install }
    };
    if find_program(&tool).is_none() {
        return Err(missing(tool));
    }
    if !picolibc(target.isa).is_file() {
        return Err(missing(format!("picolibc for {}", target.isa)));
    }
    Ok(tool)
}
