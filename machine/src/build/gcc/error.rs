//! Errors of compiling a program for several instruction sets.

use std::path::{Path, PathBuf};

use tombolo_base::Isa;

use super::super::BuildError;
use super::{CommandLineError, isa_list};

/// Reason why nothing was compiled, or only a part.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The command line cannot be compiled several times.
    #[error(transparent)]
    Words(#[from] CommandLineError),
    /// Several files cannot be written to one path.
    #[error("-o names one file, and several are compiled with -c")]
    OneOutput,
    /// Standard input can be read only once.
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
        /// Name of the object, and of the archive that contains it.
        name: String,
        /// Instruction set of the missing build.
        isa: Isa,
        /// Command that makes such a build.
        with: &'static str,
    },
    /// A shared library is for this host only.
    #[error(
        "{} is a shared library, which has a build for this host only: link with a static one, as configure \
         --disable-shared makes, or for this host alone with --isa",
        path.display()
    )]
    SharedLibrary {
        /// The library.
        path: PathBuf,
    },
    /// A compiler is missing, cannot be started, or did not produce a program.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Compilers or linkers reported errors.
    #[error("compiling for {} failed", isa_list(isas))]
    Failed {
        /// Instruction sets for which they failed.
        isas: Vec<Isa>,
    },
}

/// Returns a closure that converts a system error with a file: `action` is `read` or `write`.
pub fn file_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> CompileError {
    let path = path.to_owned();
    move |source| CompileError::File { action, path, source }
}
