//! Implementation of `tombolo build`: builds one program for each instruction set and packs the builds into
//! an image.
//!
//! A program for a foreign node is static, because such a node has only a kernel and our program. The build
//! for the host's own x86-64 is the host's ordinary one, linked dynamically: only the host runs it, it was
//! just built there, and it keeps the host's tuned C library. Compilers write their messages to standard
//! error as usual.

mod c;
mod error;
pub mod gcc;
mod go;
mod rust;
mod scratch;
mod source;
mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tombolo_base::{Isa, Target};

pub use c::{BOARD_C_LIBRARY, C_LIBRARY, uses_library};
pub use error::BuildError;
pub use scratch::Scratch;
pub use source::{CProgram, GoProgram, RustProgram, Source};
pub use toolchain::{Language, installed_compiler};

use crate::image::{Image, ImageBuilder, elf};
use crate::replace::write_output;
use gcc::Installed;

/// Request to build a program: source, targets and output.
#[derive(Clone, Debug)]
pub struct Request {
    /// Program to build.
    pub source: Source,
    /// Targets to build for; at least one, as in [`Machine::targets`](crate::Machine::targets).
    pub targets: Vec<Target>,
    /// The cargo profile; C is always compiled with `-O2`, and Go has no profiles.
    pub profile: String,
    /// Additional arguments for cargo (`--features x`), for the C compiler after its files (`-lm`), or for go
    /// (`-tags x`).
    pub arguments: Vec<String>,
    /// Additional include folders for C, searched after those in `arguments`.
    pub include: Vec<PathBuf>,
    /// Library for C, for each instruction set; empty for a program that does not use it.
    pub libraries: Vec<Installed>,
    /// Library for C on boards, for each instruction set.
    pub board_libraries: Vec<Installed>,
    /// Path of the image; `<program>.tbi` in the current folder if `None`.
    pub output: Option<PathBuf>,
    /// Whether the program can be ended and restarted elsewhere.
    pub restartable: bool,
}

impl Request {
    /// Creates a request for a release build of `source` for `targets`, written to the current folder.
    #[must_use]
    pub fn new(source: Source, targets: &[Target]) -> Request {
        Request {
            source,
            targets: targets.to_vec(),
            profile: "release".to_owned(),
            arguments: Vec::new(),
            include: Vec::new(),
            libraries: Vec::new(),
            board_libraries: Vec::new(),
            output: None,
            restartable: false,
        }
    }
}

/// Progress of a build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress<'a> {
    /// The build for `target`, number `index` (from 0) of `total`, begins; all builds run in parallel.
    Building {
        /// Target of the build.
        target: Target,
        /// Name of the Rust target or C compiler that builds it.
        with: &'a str,
        /// Index of the build, from 0.
        index: usize,
        /// Total number of builds.
        total: usize,
    },
    /// The build for `target` is done, as are the others.
    Built {
        /// Target of the build.
        target: Target,
        /// Length of the program, in bytes.
        bytes: u64,
        /// Duration of all builds together.
        elapsed: Duration,
    },
}

/// An image that was built and written to a file.
#[derive(Debug)]
pub struct Built {
    /// Path of the image.
    pub path: PathBuf,
    /// Content of the image.
    pub image: Image,
}

/// Build method of one source: prepared once for each target, then run once.
trait Builder {
    /// Returns the name of the program.
    fn name(&self) -> &str;

    /// Finds the tool that builds for `target` before anything is built, so that a missing tool is reported
    /// at once.
    fn prepare(&mut self, target: Target) -> Result<String, BuildError>;

    /// Builds for all of `targets`, which must be prepared, and returns the executables in their order.
    fn build(&mut self, targets: &[Target]) -> Result<Vec<PathBuf>, BuildError>;
}

/// Builds the program for each instruction set and writes the image; calls `progress` for each step.
///
/// # Errors
/// [`BuildError`]. Missing tools are reported before anything is compiled; an existing image file is left
/// unchanged.
pub fn build(request: &Request, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Built, BuildError> {
    let mut targets = request.targets.clone();
    targets.sort();
    targets.dedup();
    if targets.is_empty() {
        return Err(BuildError::NoIsa);
    }
    let mut builder: Box<dyn Builder> = match &request.source {
        Source::Rust { manifest, program } => Box::new(rust::Cargo::new(manifest, program, request)?),
        Source::C(program) => Box::new(c::Compiler::new(program, request)?),
        Source::Go(program) => Box::new(go::Toolchain::new(program, request)?),
    };
    let path = request.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.tbi", builder.name())));
    let tools = targets.iter().map(|target| builder.prepare(*target)).collect::<Result<Vec<_>, _>>()?;
    let mut image = ImageBuilder::new(builder.name()).restartable(request.restartable);
    for (index, (target, with)) in targets.iter().copied().zip(&tools).enumerate() {
        progress(Progress::Building { target, with, index, total: targets.len() });
    }
    let start = Instant::now();
    let programs = builder.build(&targets)?;
    for (target, program) in targets.iter().copied().zip(programs) {
        let elf = fs::read(&program).map_err(|source| BuildError::Read { path: program, source })?;
        let bytes = elf.len() as u64;
        check(target, &elf)?;
        image = image.with_program(elf).map_err(|source| BuildError::Unusable { target, source })?;
        progress(Progress::Built { target, bytes, elapsed: start.elapsed() });
    }
    finish(image, path)
}

/// Packs programs that were built elsewhere, at most one for each instruction set, into an image.
///
/// # Errors
/// [`BuildError`]: a file is not a program, is dynamic for a foreign instruction set, or duplicates an
/// instruction set.
pub fn pack(programs: &[PathBuf], name: &str, restartable: bool, output: &Path) -> Result<Built, BuildError> {
    let mut image = ImageBuilder::new(name).restartable(restartable);
    let mut packed = Vec::new();
    for path in programs {
        let elf = fs::read(path).map_err(|source| BuildError::Read { path: path.clone(), source })?;
        let inspected = elf::inspect(&elf);
        let target =
            inspected.map_err(|source| BuildError::NotAProgram { path: path.clone(), source })?.target;
        check(target, &elf)?;
        if packed.contains(&target) {
            return Err(BuildError::SameTarget { path: path.clone(), target });
        }
        packed.push(target);
        image = image.with_program(elf).map_err(|source| BuildError::Unusable { target, source })?;
    }
    finish(image, output.to_owned())
}

fn finish(image: ImageBuilder, path: PathBuf) -> Result<Built, BuildError> {
    let image = image.finish()?;
    write_output(&path, image.as_bytes(), 0o666)
        .map_err(|source| BuildError::Write { path: path.clone(), source })?;
    Ok(Built { path, image })
}

/// Checks that a build is for the requested instruction set and runs there.
fn check(target: Target, elf: &[u8]) -> Result<(), BuildError> {
    let executable = elf::inspect(elf).map_err(|source| BuildError::Unusable { target, source })?;
    match executable.interpreter {
        _ if executable.target != target => Err(BuildError::WrongIsa { target, actual: executable.target }),
        Some(interpreter) if target != Isa::current().into() => {
            Err(BuildError::NotStatic { target, interpreter })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_program_must_be_static_and_of_its_isa() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(check(Isa::current().into(), &own).is_ok());
        let other = Isa::ALL.into_iter().find(|isa| *isa != Isa::current()).unwrap();
        assert!(matches!(check(other.into(), &own), Err(BuildError::WrongIsa { .. })));
        assert!(matches!(check(other.into(), b"#!/bin/sh"), Err(BuildError::Unusable { .. })));
    }

    #[test]
    fn prebuilt_programs_are_packed_and_others_refused() {
        let folder = std::env::temp_dir().join(format!("tombolo-pack-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let put = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let arm = put("arm", &elf::smallest(Isa::Aarch64));
        let riscv = put("riscv", &elf::smallest(Isa::Riscv64));
        let script = put("script", b"#!/bin/sh");
        let output = folder.join("x.tbi");
        let packed = pack(&[arm.clone(), riscv], "x", false, &output).unwrap();
        let open = Image::open(&output);
        let twice = pack(&[arm.clone(), arm], "x", false, &output).unwrap_err().to_string();
        let text = pack(&[script], "x", false, &output).unwrap_err().to_string();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(open.unwrap().targets(), packed.image.targets());
        assert_eq!(packed.image.targets(), [Isa::Aarch64, Isa::Riscv64].map(Target::from));
        assert!(twice.contains("aarch64"), "{twice}");
        assert!(text.contains("script cannot be packed"), "{text}");
    }
}
