//! For build scripts.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::c::{CError, COptions};
use crate::files::{FileError, compile_file};
use crate::go::{GoError, GoOptions};
use crate::model::Model;
use crate::python::{PythonNameTaken, PythonOptions};
use crate::rust::owned::{self, OwnedError, OwnedOptions};
use crate::rust::{NameTaken, RustOptions, generate};

/// Why a build script got no code.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Not called from a build script.
    #[error("OUT_DIR is not set: call this from build.rs")]
    NoOutput,
    /// The interface file, or one that it includes, has mistakes; they are drawn as on a terminal.
    #[error("\n{0}")]
    Mistakes(String),
    /// Two things would have one name.
    #[error(transparent)]
    NameTaken(#[from] NameTaken),
    /// Two things would have one name in Python.
    #[error(transparent)]
    PythonNameTaken(#[from] PythonNameTaken),
    /// There is no Go.
    #[error(transparent)]
    Go(#[from] GoError),
    /// There is no Rust with types that own.
    #[error(transparent)]
    Owned(#[from] OwnedError),
    /// There is no header.
    #[error(transparent)]
    C(#[from] CError),
}

impl From<FileError> for BuildError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::File { path, error } => BuildError::File { path, error },
            FileError::Mistakes(mistakes) => BuildError::Mistakes(mistakes.render(false)),
        }
    }
}

/// The Rust of an interface file, as text.
///
/// # Errors
/// [`BuildError`].
pub fn rust(path: impl AsRef<Path>, options: &RustOptions) -> Result<String, BuildError> {
    Ok(generate(&compile_file(path)?.model, options)?)
}

/// The Rust of an interface file with types that own, as text.
///
/// # Errors
/// [`BuildError`].
pub fn owned(path: impl AsRef<Path>, options: &OwnedOptions) -> Result<String, BuildError> {
    Ok(owned::generate(&compile_file(path)?.model, options)?)
}

/// The header in C of an interface file, as text.
///
/// # Errors
/// [`BuildError`].
pub fn c(path: impl AsRef<Path>, options: &COptions) -> Result<String, BuildError> {
    Ok(crate::c::generate(&compile_file(path)?.model, options)?)
}

/// The reference of an interface file, as Markdown that says where it was written from.
///
/// # Errors
/// [`BuildError`].
pub fn reference(path: impl AsRef<Path>, origin: &str) -> Result<String, BuildError> {
    Ok(crate::document::markdown(&compile_file(path)?.model, origin))
}

/// The module in Python of an interface file, as text.
///
/// # Errors
/// [`BuildError`].
pub fn python(path: impl AsRef<Path>, options: &PythonOptions) -> Result<String, BuildError> {
    Ok(crate::python::generate(&compile_file(path)?.model, options)?)
}

/// The file in Go of an interface file, as text.
///
/// # Errors
/// [`BuildError`].
pub fn go(path: impl AsRef<Path>, options: &GoOptions) -> Result<String, BuildError> {
    Ok(crate::go::generate(&compile_file(path)?.model, options)?)
}

/// Compiles an interface file from a build script: `interfaces/kv.tbl` to `kv.rs` in `OUT_DIR`, for
/// `include!(concat!(env!("OUT_DIR"), "/kv.rs"))` in a module of its own. The modules of files that it
/// includes stand beside that, under their names.
///
/// ```no_run
/// // build.rs
/// fn main() -> Result<(), tombolo_idl::build::BuildError> {
///     tombolo_idl::build::compile("interfaces/kv.tbl", &Default::default())?;
///     Ok(())
/// }
/// ```
///
/// # Errors
/// [`BuildError`].
pub fn compile(path: impl AsRef<Path>, options: &RustOptions) -> Result<PathBuf, BuildError> {
    compiled(path.as_ref(), |model| Ok(generate(model, options)?))
}

/// As [`compile`], with types that own.
///
/// # Errors
/// [`BuildError`].
pub fn compile_owned(path: impl AsRef<Path>, options: &OwnedOptions) -> Result<PathBuf, BuildError> {
    compiled(path.as_ref(), |model| Ok(owned::generate(model, options)?))
}

fn compiled(
    path: &Path,
    generate: impl FnOnce(&Model) -> Result<String, BuildError>,
) -> Result<PathBuf, BuildError> {
    println!("cargo::rerun-if-changed={}", path.display());
    let compiled = compile_file(path)?;
    for file in &compiled.files {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    // Documentation of a module cannot be included into one.
    let text = generate(&compiled.model)?.replace("\n//!", "\n//").replacen("//!", "//", 1);
    let folder = env::var_os("OUT_DIR").ok_or(BuildError::NoOutput)?;
    let name = path.with_extension("rs");
    let target = Path::new(&folder).join(name.file_name().unwrap_or(name.as_os_str()));
    fs::write(&target, text).map_err(|error| BuildError::File { path: target.clone(), error })?;
    Ok(target)
}
