//! Why a program was not compiled several times.

use std::path::{Path, PathBuf};

use tombolo_base::Isa;

use super::super::BuildError;
use super::{WordsError, names};

/// Why nothing was compiled, or not all.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The command line cannot be compiled several times.
    #[error(transparent)]
    Words(#[from] WordsError),
    /// Several files cannot go to one.
    #[error("-o names one file, and several are compiled with -c")]
    OneOutput,
    /// The standard input can be read once.
    #[error(
        "cannot compile the standard input, because each file is compiled once per instruction set; use a file"
    )]
    StandardInput,
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// An object was compiled for this host only.
    #[error(
        "{name} has no build for {isa}: compile it with `{with} -c`, or choose other instruction sets with --isa"
    )]
    NoForeignObject {
        /// The object that was named, and the archive that it is in.
        name: String,
        /// For what one is missing.
        isa: Isa,
        /// The command that makes it.
        with: &'static str,
    },
    /// A compiler is missing, cannot be started, or did not produce a program.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Compilers or linkers found mistakes, and have said so.
    #[error("compiling for {} failed", names(isas))]
    Failed {
        /// For which instruction sets.
        isas: Vec<Isa>,
    },
}

/// What to make of the system's error with a file: `action` is `read` or `write`.
pub fn file_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> CompileError {
    let path = path.to_owned();
    move |source| CompileError::File { action, path, source }
}
