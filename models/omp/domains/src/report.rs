//! Report file on a node without access to the host's files: a file that `tombolo run --grant` permits the
//! program to write.

use tombolo::Domain;
use tombolo_files::{FileError, Files, OpenOptions};
use tombolo_omp_team::job::report;
use tombolo_omp_team::job::report::ReportFormat;

use crate::node_selection::{JobNode, Kernel};

/// The program has no permission to write the report file.
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

/// Opens the report file through the host's file service, if a file is wanted and this process cannot open it
/// itself.
///
/// # Errors
/// [`NotGranted`] if the file service denies access to the file.
pub(crate) fn open(domain: &Domain, own: &JobNode, form: &ReportFormat) -> Result<(), NotGranted> {
    let (ReportFormat::Json(Some(path)), Kernel::Virtual(node)) = (form, &own.kernel) else { return Ok(()) };
    let opened = Files::connect(domain)
        .and_then(|files| files.open_with(path, OpenOptions::new().create().truncate()));
    let file = opened.map_err(|source| NotGranted {
        path: path.clone(),
        node: node.clone(),
        source: source.into(),
    })?;
    report::set_writer(move |text| file.write_at(0, text.as_bytes()).map_err(|error| error.to_string()));
    Ok(())
}
