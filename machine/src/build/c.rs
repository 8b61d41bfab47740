//! C programs, by gcc and Debian's cross compilers.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tombolo_base::{Isa, Target};

use super::gcc::{Installed, Library};
use super::toolchain::{Language, installed_board_compiler, installed_compiler, picolibc};
use super::{BuildError, Builder, CProgram, Request, Scratch};

/// The kit's library for C with its headers.
pub const C_LIBRARY: Library = Library {
    what: "library for C",
    name: "c",
    subfolder: "",
    marker_file: "lib/libtombolo.a",
    isas: &Isa::ALL,
};

/// The kit's libraries for programs in C on boards, with `lib/board.c` and `lib/board.ld`, which each program
/// is compiled and linked with.
pub const BOARD_C_LIBRARY: Library = Library {
    what: "library for C on boards",
    name: "board-c",
    subfolder: "",
    marker_file: "lib/libtombolo.a",
    isas: &[Isa::Aarch64, Isa::Riscv64],
};

/// Headers of the library.
const HEADERS: [&str; 11] = [
    "tombolo.h",
    "tombolo/interface.h",
    "tombolo/wire.h",
    "tombolo/files.h",
    "tombolo/group.h",
    "tombolo/hubs.h",
    "tombolo/hub_names.h",
    "tombolo/capabilities.h",
    "tombolo/opening.h",
    "RCCE.h",
    "iRCCE.h",
];

/// Returns whether a program uses the library, judged by the headers that it includes; on boards all do.
/// `arguments` are those of its compilation. Unreadable files count as including nothing: the compiler
/// reports them.
///
/// # Errors
/// [`BuildError`]: the compiler for `target` is not installed or cannot be started.
pub fn uses_library(program: &CProgram, target: Target, arguments: &[String]) -> Result<bool, BuildError> {
    let tool = c_compiler_for(target)?;
    if target.bare || !program.interfaces.is_empty() {
        return Ok(true);
    }
    let mut command = Command::new(&tool);
    // -MG lists missing headers instead of failing.
    command.args(["-M", "-MG"]).args(files(program)).args(arguments);
    let output = command.stderr(Stdio::null()).output();
    let output = output.map_err(|source| BuildError::Start { tool, source })?;
    let rule = String::from_utf8_lossy(&output.stdout);
    Ok(rule.split_whitespace().any(|header| HEADERS.iter().any(|own| Path::new(header).ends_with(own))))
}

pub(super) struct Compiler<'a> {
    program: &'a CProgram,
    request: &'a Request,
    scratch: Scratch,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(program: &'a CProgram, request: &'a Request) -> Result<Compiler<'a>, BuildError> {
        Ok(Compiler { program, request, scratch: Scratch::new()? })
    }

    /// Returns the arguments that build for `target` into `output`.
    fn arguments(&self, target: Target, output: &Path) -> Vec<PathBuf> {
        let libraries = if target.bare { &self.request.board_libraries } else { &self.request.libraries };
        let library = libraries.iter().find(|library| library.isa == target.isa);
        let mut words: Vec<PathBuf> = vec!["-O2".into()];
        match library {
            Some(library) if target.bare => words.extend(for_board(target.isa, library)),
            _ => words.push("-pthread".into()),
        }
        if target != Isa::current().into() {
            words.push("-static".into());
        }
        words.extend(["-o".into(), output.to_owned()]);
        words.extend(files(self.program));
        words.extend(self.request.arguments.iter().map(PathBuf::from));
        let own = library.map(|library| library.folder.join("include"));
        for folder in self.request.include.iter().cloned().chain(own) {
            words.extend(["-I".into(), folder]);
        }
        if let Some(library) = library {
            // Precedes the library, whose own C helpers are compiled for RISC-V without floating point.
            words.extend(target.bare.then(|| "-lgcc".into()));
            words.push(library.folder.join("lib/libtombolo.a"));
            words.push("-Wl,--gc-sections".into());
            words.extend((!target.bare).then(|| "-ldl".into()));
            words.push("-lm".into());
        }
        words
    }
}

/// Returns the arguments for a program on boards. picolibc is its C library; the system functions that
/// picolibc needs are compiled with the program, so that the versions match.
fn for_board(isa: Isa, library: &Installed) -> Vec<PathBuf> {
    let part = |name: &str| library.folder.join("lib").join(name);
    let mut words = vec![format!("--specs={}", picolibc(isa).display()).into(), "-nostartfiles".into()];
    if isa == Isa::Riscv64 {
        // Programs are linked above the first 2 GiB, beyond the reach of the default code model.
        words.extend(["-march=rv64imafdc", "-mabi=lp64d", "-mcmodel=medany"].map(PathBuf::from));
    }
    words.extend(["-T".into(), part("board.ld"), part("board.c")]);
    words
}

/// Returns the C files, as arguments; `./` keeps a name that starts with a dash from being an option.
fn files(program: &CProgram) -> impl Iterator<Item = PathBuf> {
    program.files.iter().map(|file| Path::new(".").join(file))
}

impl Builder for Compiler<'_> {
    fn name(&self) -> &str {
        &self.program.name
    }

    fn prepare(&mut self, target: Target) -> Result<String, BuildError> {
        c_compiler_for(target)
    }

    fn build(&mut self, targets: &[Target]) -> Result<Vec<PathBuf>, BuildError> {
        let build = |target: &Target| {
            let tool = c_compiler_for(*target)?;
            let output = self.scratch.path().join(target.name());
            let status = Command::new(&tool)
                .args(self.arguments(*target, &output))
                .status()
                .map_err(|source| BuildError::Start { tool: tool.clone(), source })?;
            let targets = vec![*target];
            if status.success() { Ok(output) } else { Err(BuildError::Compiler { targets, tool, status }) }
        };
        targets.iter().map(build).collect()
    }
}

fn c_compiler_for(target: Target) -> Result<String, BuildError> {
    if target.bare { installed_board_compiler(target) } else { installed_compiler(Language::C, target.isa) }
}
