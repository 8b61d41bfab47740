//! Built-in compiler of interface files.

use std::path::{Path, PathBuf};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use tombolo_idl::python::{PythonOptions, generate};
use tombolo_idl::{FileError, compile_file};

use crate::failure::Failure;

/// Compiles an interface file to the text of its stubs.
#[pyfunction]
pub(crate) fn compile_interface(path: PathBuf) -> Result<String, Failure> {
    let origin = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let model = compile_file(&path).map_err(|error| mistakes(&path, error))?.model;
    generate(&model, &PythonOptions { origin }).map_err(|taken| Failure::new("Mistakes", taken.to_string()))
}

fn mistakes(path: &Path, error: FileError) -> Failure {
    match error {
        FileError::File { path, error } => {
            let number = error.raw_os_error().unwrap_or(0);
            let shown = path.to_string_lossy().into_owned();
            PyErr::new::<PyOSError, _>((number, error.to_string(), shown)).into()
        }
        FileError::Mistakes(mistakes) => Failure::new("Mistakes", format!("\n{}", mistakes.render(false))),
        other => Failure::new("Mistakes", format!("{}: {other}", path.display())),
    }
}
