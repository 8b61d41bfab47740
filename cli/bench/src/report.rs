//! Output of benchmark reports.

use tombolo_bench::BenchReport;

use crate::context::print;
use crate::failure::{Failure, eprint_quietly};

/// Prints a report, as JSON if wanted, and returns its [`status`].
pub(super) fn show(report: &impl BenchReport, json: bool) -> Result<u8, Failure> {
    print(if json { report.to_json() } else { report.table() })?;
    Ok(status(report, json))
}

/// Returns the exit status: 1 unless everything was measured. The table lists missing figures; with JSON they
/// are listed on standard error.
pub(super) fn status(report: &impl BenchReport, json: bool) -> u8 {
    let failures = report.failures();
    if json {
        failures.iter().for_each(|failed| eprint_quietly(&format!("not measured: {failed}\n")));
    }
    u8::from(!failures.is_empty())
}
