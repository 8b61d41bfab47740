//! For build scripts.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::c::{CError, COptions};
use crate::diagnostic::Source;
use crate::model::Model;
use crate::rust::{NameTaken, RustOptions, generate};

/// Why a build script got no code.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Not called from a build script.
    #[error("OUT_DIR is not set: call this from build.rs")]
    NoOutput,
    /// The interface file has mistakes; they are drawn as on a terminal.
    #[error("\n{0}")]
    Mistakes(String),
    /// Two things would have one name.
    #[error(transparent)]
    NameTaken(#[from] NameTaken),
    /// There is no header.
    #[error(transparent)]
    C(#[from] CError),
}

/// The Rust of an interface file, as text.
///
/// # Errors
/// [`BuildError`].
pub fn rust(path: impl AsRef<Path>, options: &RustOptions) -> Result<String, BuildError> {
    Ok(generate(&model(path.as_ref())?, options)?)
}

/// The header in C of an interface file, as text.
///
/// # Errors
/// [`BuildError`].
pub fn c(path: impl AsRef<Path>, options: &COptions) -> Result<String, BuildError> {
    Ok(crate::c::generate(&model(path.as_ref())?, options)?)
}

fn model(path: &Path) -> Result<Model, BuildError> {
    let failed = |error| BuildError::File { path: path.to_owned(), error };
    let text = fs::read_to_string(path).map_err(failed)?;
    crate::compile(&text).map_err(|mistakes| {
        let source = Source { path: &path.to_string_lossy(), text: &text };
        BuildError::Mistakes(mistakes.render(&source, false))
    })
}

/// Compiles an interface file from a build script: `interfaces/kv.tbl` to `kv.rs` in `OUT_DIR`, for
/// `include!(concat!(env!("OUT_DIR"), "/kv.rs"))` in a module of its own.
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
    let path = path.as_ref();
    println!("cargo::rerun-if-changed={}", path.display());
    // Documentation of a module cannot be included into one.
    let text = rust(path, options)?.replace("\n//!", "\n//").replacen("//!", "//", 1);
    let folder = env::var_os("OUT_DIR").ok_or(BuildError::NoOutput)?;
    let name = path.with_extension("rs");
    let target = Path::new(&folder).join(name.file_name().unwrap_or(name.as_os_str()));
    fs::write(&target, text).map_err(|error| BuildError::File { path: target.clone(), error })?;
    Ok(target)
}
