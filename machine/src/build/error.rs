//! Errors of builds, with their remedies.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use tombolo_base::Target;

use crate::image::{ElfError, ImageError};

/// Reason why a build failed, with the remedy, unless a compiler has reported it.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A path does not exist.
    #[error("there is no {}", path.display())]
    NoSuchFile {
        /// The path.
        path: PathBuf,
    },
    /// A path does not name anything that can be built.
    #[error(
        "{} cannot be built: {}",
        path.as_ref().map_or_else(|| "nothing".to_owned(), |path| path.display().to_string()),
        source_hint(path.as_deref())
    )]
    UnknownSource {
        /// The path, if one was given.
        path: Option<PathBuf>,
    },
    /// A folder contains no program.
    #[error(
        "there is no program in {}, which has neither a Cargo.toml nor files in C or Go{}",
        folder.display(),
        if *has_python { ": a program in Python needs no image, see `tombolo new --help`" } else { "" }
    )]
    NothingInFolder {
        /// The folder.
        folder: PathBuf,
        /// Whether it contains Python files.
        has_python: bool,
    },
    /// No instruction set was requested.
    #[error("no target to build for; name one with --isa, or a machine file")]
    NoIsa,
    /// The package has no program of that name, or none at all.
    #[error("{} has no {what}; it has {}", manifest.display(), join_programs(available))]
    NoProgram {
        /// Manifest of the package.
        manifest: PathBuf,
        /// The program that was searched for.
        what: String,
        /// Arguments that select the available programs.
        available: Vec<String>,
    },
    /// The package has several programs.
    #[error("{} has several programs; choose one of {}", manifest.display(), join_programs(available))]
    SeveralPrograms {
        /// Manifest of the package.
        manifest: PathBuf,
        /// Arguments that select the available programs.
        available: Vec<String>,
    },
    /// A program that builds need is not installed.
    #[error("building for {target} needs {tool}, which is not installed: {install}")]
    MissingTool {
        /// Target of the build.
        target: Target,
        /// The program.
        tool: String,
        /// The command that installs it.
        install: String,
    },
    /// Rust cannot build for the instruction set.
    #[error("building for {target} needs Rust's standard library for {}, which is not installed: {install}", triples.join(" or "))]
    MissingRustTarget {
        /// Target of the build.
        target: Target,
        /// Suitable Rust targets, best first.
        triples: Vec<String>,
        /// The command that installs the first one.
        install: String,
    },
    /// A program could not be started.
    #[error("cannot run {tool}: {source}")]
    Start {
        /// The program.
        tool: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A Go program was to be built for a board.
    #[error(
        "a program in Go cannot be built for {target}: programs for boards are in C, or Rust packages that stand on \
         `tombolo-bare`"
    )]
    NotForBoards {
        /// Target of the build.
        target: Target,
    },
    /// Cargo does not accept the package.
    #[error("cargo cannot read {}: {message}", manifest.display())]
    Manifest {
        /// The package.
        manifest: PathBuf,
        /// The message of cargo.
        message: String,
    },
    /// A compiler failed after reporting errors on standard error.
    #[error("building for {} failed: {tool} ended with {status}", join_targets(targets))]
    Compiler {
        /// Targets of the build.
        targets: Vec<Target>,
        /// The compiler.
        tool: String,
        /// Exit status of the compiler.
        status: ExitStatus,
    },
    /// Cargo succeeded but named no executable.
    #[error("the build for {target} produced no executable")]
    NoExecutable {
        /// Target of the build.
        target: Target,
    },
    /// The build result is for another instruction set.
    #[error("the build for {target} is for {actual}; check the build settings for another target")]
    WrongIsa {
        /// Target of the build.
        target: Target,
        /// Actual target of the result.
        actual: Target,
    },
    /// A file to be packed is not a program.
    #[error("{} cannot be packed: {source}", path.display())]
    NotAProgram {
        /// The file.
        path: PathBuf,
        /// The defect of the file.
        source: ElfError,
    },
    /// Two programs to be packed have the same target.
    #[error("{} is the second program for {target}: an image has one for each instruction set", path.display())]
    SameTarget {
        /// The second one.
        path: PathBuf,
        /// Target of both programs.
        target: Target,
    },
    /// The build is not an executable that a node can run.
    #[error("the build for {target} cannot run there: {source}")]
    Unusable {
        /// Target of the build.
        target: Target,
        /// The defect of the executable.
        source: ElfError,
    },
    /// A foreign program needs libraries that its node does not have.
    #[error("the build for {target} is not static: it needs {interpreter}, which such nodes do not have")]
    NotStatic {
        /// Target of the build.
        target: Target,
        /// Dynamic linker that it needs.
        interpreter: String,
    },
    /// The build result cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The image, or an intermediate file, cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The builds cannot be combined into an image.
    #[error(transparent)]
    Image(#[from] ImageError),
}

/// Returns advice about a path that cannot be built.
fn source_hint(path: Option<&Path>) -> &'static str {
    match path.and_then(Path::extension).and_then(|extension| extension.to_str()) {
        Some("cc" | "cpp" | "cxx" | "C") => {
            "for C++ build a static program for each instruction set, and make an image of them: `tombolo image pack`"
        }
        Some("rs") => "give the folder of its package, which has a Cargo.toml",
        Some("go") => "give the folder of its package",
        Some("py") => "a program in Python needs no image, see `tombolo new --help`",
        Some("tbl") => "give an interface file together with the .c files that include its header",
        _ => "give a package folder, a Cargo.toml, a folder with files in C or Go, or .c files",
    }
}

fn join_targets(targets: &[Target]) -> String {
    targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn join_programs(available: &[String]) -> String {
    if available.is_empty() { "no program at all".to_owned() } else { available.join(", ") }
}
