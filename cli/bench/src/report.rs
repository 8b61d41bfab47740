//! How the report of a benchmark is printed.

use tombolo_bench::BenchReport;

use crate::context::print;
use crate::failure::Failure;

/// Prints a report, as JSON if wanted. Returns status 1 unless all was measured; the report says why.
pub(super) fn show(report: &impl BenchReport, json: bool) -> Result<u8, Failure> {
    print(if json { report.to_json() } else { report.table() })?;
    Ok(u8::from(!report.is_complete()))
}
