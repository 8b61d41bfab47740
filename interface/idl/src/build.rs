//! Code generation from files: for build scripts, and for tools that need the text.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::c::{CError, COptions};
use crate::files::{FileError, compile_file};
use crate::go::{GoError, GoOptions};
use crate::model::Model;
use crate::python::{PythonNameTaken, PythonOptions};
use crate::rust::owned::{self, OwnedError, OwnedOptions};
use crate::rust::{NameTaken, RustOptions, generate};

/// Error of generating code from an interface file.
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
    /// `OUT_DIR` is not set: the caller is not a build script.
    #[error("OUT_DIR is not set: call this from build.rs")]
    NoOutput,
    /// The interface file, or one that it includes, has mistakes. Contains the rendered diagnostics.
    #[error("\n{0}")]
    Mistakes(String),
    /// Two items would have the same name in Rust.
    #[error(transparent)]
    NameTaken(#[from] NameTaken),
    /// Two items would have the same name in Python.
    #[error(transparent)]
    PythonNameTaken(#[from] PythonNameTaken),
    /// The Go back end cannot represent the model.
    #[error(transparent)]
    Go(#[from] GoError),
    /// The back end for owned Rust types cannot represent the model.
    #[error(transparent)]
    Owned(#[from] OwnedError),
    /// The C back end cannot represent the model.
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

/// Returns the Rust module of an interface file, as text.
///
/// # Errors
/// [`BuildError`].
pub fn rust(path: impl AsRef<Path>, options: &RustOptions) -> Result<String, BuildError> {
    Ok(generate(&compile_file(path)?.model, options)?)
}

/// Returns the Rust module of an interface file with owned types, as text.
///
/// # Errors
/// [`BuildError`].
pub fn owned(path: impl AsRef<Path>, options: &OwnedOptions) -> Result<String, BuildError> {
    Ok(owned::generate(&compile_file(path)?.model, options)?)
}

/// Returns the C header of an interface file, as text.
///
/// # Errors
/// [`BuildError`].
pub fn c(path: impl AsRef<Path>, options: &COptions) -> Result<String, BuildError> {
    Ok(crate::c::generate(&compile_file(path)?.model, options)?)
}

/// Returns the reference page of an interface file, as Markdown that names `origin` as its source.
///
/// # Errors
/// [`BuildError`].
pub fn reference(path: impl AsRef<Path>, origin: &str) -> Result<String, BuildError> {
    Ok(crate::document::markdown(&compile_file(path)?.model, origin))
}

/// Returns the Python module of an interface file, as text.
///
/// # Errors
/// [`BuildError`].
pub fn python(path: impl AsRef<Path>, options: &PythonOptions) -> Result<String, BuildError> {
    Ok(crate::python::generate(&compile_file(path)?.model, options)?)
}

/// Returns the Go file of an interface file, as text.
///
/// # Errors
/// [`BuildError`].
pub fn go(path: impl AsRef<Path>, options: &GoOptions) -> Result<String, BuildError> {
    Ok(crate::go::generate(&compile_file(path)?.model, options)?)
}

/// Compiles an interface file from a build script: `interfaces/kv.tbl` to `kv.rs` in `OUT_DIR`, for
/// `include!(concat!(env!("OUT_DIR"), "/kv.rs"))` in its own module. The generated code expects the modules
/// of included files as siblings of that module, named after the files. Returns the path of the generated
/// file.
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

/// Like [`compile`], but generates owned types.
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
    // Inner doc comments are not allowed in a file that is included with `include!`.
    let text = generate(&compiled.model)?.replace("\n//!", "\n//").replacen("//!", "//", 1);
    let folder = env::var_os("OUT_DIR").ok_or(BuildError::NoOutput)?;
    let name = path.with_extension("rs");
    let target = Path::new(&folder).join(name.file_name().unwrap_or(name.as_os_str()));
    fs::write(&target, text).map_err(|error| BuildError::File { path: target.clone(), error })?;
    Ok(target)
}
