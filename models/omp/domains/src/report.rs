//! The file of a report, where the program runs on a node that has no files of the host: one that `tombolo
//! run --grant` lets it write.

use tombolo::Domain;
use tombolo_files::{FileError, Files, OpenOptions};
use tombolo_omp_team::job::report;
use tombolo_omp_team::job::report::Form;

use crate::place::{JobNode, Kernel};

/// The program may not write the file of the report.
#[derive(Debug, thiserror::Error)]
#[error(
    "OMP_TOMBOLO_REPORT={path}: node {node} has no files of the host ({source}); `tombolo run --grant {path}:rw` lets the program write \
     this one, and OMP_TOMBOLO_REPORT=json has the report on standard error"
)]
pub struct NotGranted {
    path: String,
    node: String,
    source: Box<FileError>,
}

/// Opens the file of the report, if there is to be one and this process cannot open it by itself.
///
/// # Errors
/// [`NotGranted`].
pub(crate) fn open(domain: &Domain, own: &JobNode, form: &Form) -> Result<(), NotGranted> {
    let (Form::Json(Some(path)), Kernel::Virtual(node)) = (form, &own.kernel) else { return Ok(()) };
    let opened = Files::connect(domain)
        .and_then(|files| files.open_with(path, OpenOptions::new().create().truncate()));
    let file = opened.map_err(|source| NotGranted {
        path: path.clone(),
        node: node.clone(),
        source: source.into(),
    })?;
    report::write_by(move |text| file.write_at(0, text.as_bytes()).map_err(|error| error.to_string()));
    Ok(())
}
