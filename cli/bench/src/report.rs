//! How the report of a benchmark is printed.

use tombolo_bench::BenchReport;

use crate::context::print;
use crate::failure::Failure;

/// Prints a report, as JSON if wanted. Returns status 1 unless all was measured; the table says why, beside
/// JSON standard error does.
pub(super) fn show(report: &impl BenchReport, json: bool) -> Result<u8, Failure> {
    print(if json { report.to_json() } else { report.table() })?;
    let failures = report.failures();
    if json {
        failures.iter().for_each(|failed| eprintln!("not measured: {failed}"));
    }
    Ok(u8::from(!failures.is_empty()))
}
