//! Errors of builds, with their remedies.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use tombolo_base::Target;

use crate::image::{ElfError, ImageError};

/// Why a build failed, with the remedy, unless a compiler has reported it.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A path does not exist.
    #[error("there is no {}", path.display())]
    NoSuchFile {
        /// The path.
        path: PathBuf,
    },
    /// A path names nothing that can be built.
    #[error(
        "{} cannot be built: {}",
        path.as_ref().map_or_else(|| "nothing".to_owned(), |path| path.display().to_string()),
        advice(path.as_deref())
    )]
    UnknownSource {
        /// The path, if one was given.
        path: Option<PathBuf>,
    },
    /// A folder has no program.
    #[error(
        "there is no program in {}, which has neither a Cargo.toml nor files in C or Go{}",
        folder.display(),
        if *has_python { ": a program in Python needs no image, see `tombolo new --help`" } else { "" }
    )]
    NothingInFolder {
        /// The folder.
        folder: PathBuf,
        /// Whether it has files of Python.
        has_python: bool,
    },
    /// No instruction set was asked for.
    #[error("no target to build for; name one with --isa, or a machine file")]
    NoIsa,
    /// The package has no program of that name, or none at all.
    #[error("{} has no {what}; it has {}", manifest.display(), programs(available))]
    NoProgram {
        /// The package.
        manifest: PathBuf,
        /// What was looked for.
        what: String,
        /// The arguments that choose the programs there are.
        available: Vec<String>,
    },
    /// The package has several programs.
    #[error("{} has several programs; choose one of {}", manifest.display(), programs(available))]
    SeveralPrograms {
        /// The package.
        manifest: PathBuf,
        /// The arguments that choose the programs there are.
        available: Vec<String>,
    },
    /// A program that builds need is not installed.
    #[error("building for {target} needs {tool}, which is not installed: {install}")]
    MissingTool {
        /// What was to be built for.
        target: Target,
        /// The program.
        tool: String,
        /// The command that installs it.
        install: String,
    },
    /// Rust cannot build for the instruction set.
    #[error("building for {target} needs Rust's standard library for {}, which is not installed: {install}", triples.join(" or "))]
    MissingRustTarget {
        /// What was to be built for.
        target: Target,
        /// The Rust targets that would do, best first.
        triples: Vec<String>,
        /// The command that installs the first.
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
    /// Programs for boards are in Rust or C.
    #[error(
        "a program in Go cannot be built for {target}: programs for boards are in C, or Rust packages that stand on \
         `tombolo-bare`"
    )]
    NotForBoards {
        /// What was to be built for.
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
    /// A compiler failed, after writing why to standard error.
    #[error("building for {} failed: {tool} ended with {status}", names(targets))]
    Compiler {
        /// What was to be built for.
        targets: Vec<Target>,
        /// The program.
        tool: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// Cargo succeeded but named no executable.
    #[error("the build for {target} produced no executable")]
    NoExecutable {
        /// What was to be built for.
        target: Target,
    },
    /// What was built is for another instruction set.
    #[error("the build for {target} is for {actual}; check the build settings for another target")]
    WrongIsa {
        /// What was to be built for.
        target: Target,
        /// What it is for.
        actual: Target,
    },
    /// A file that is to be packed is not a program.
    #[error("{} cannot be packed: {source}", path.display())]
    NotAProgram {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ElfError,
    },
    /// Two programs that are to be packed are for the same nodes.
    #[error("{} is the second program for {target}: an image has one for each instruction set", path.display())]
    SameTarget {
        /// The second one.
        path: PathBuf,
        /// What both are for.
        target: Target,
    },
    /// The build is not an executable that a node can run.
    #[error("the build for {target} cannot run there: {source}")]
    Unusable {
        /// What was to be built for.
        target: Target,
        /// What is wrong with it.
        source: ElfError,
    },
    /// A foreign program needs libraries that its node does not have.
    #[error("the build for {target} is not static: it needs {interpreter}, which such nodes do not have")]
    NotStatic {
        /// What was built for.
        target: Target,
        /// The dynamic linker it needs.
        interpreter: String,
    },
    /// What was built cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The image, or a file on the way to it, cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The builds make no image.
    #[error(transparent)]
    Image(#[from] ImageError),
}

/// What to do about a path that cannot be built.
fn advice(path: Option<&Path>) -> &'static str {
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

fn names(targets: &[Target]) -> String {
    targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn programs(available: &[String]) -> String {
    if available.is_empty() { "no program at all".to_owned() } else { available.join(", ") }
}
