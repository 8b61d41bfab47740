//! What the reports of `mpi` and `omp` have in common: both run one program on several stacks, in rounds.

use crate::host::Host;
use crate::limit::Limit;
use crate::sample::{median, sorted};
use crate::table::significant;

/// Figures of the same kind together, in the order in which they were first found.
pub(crate) fn groups<T>(found: Vec<T>, same: impl Fn(&T, &T) -> bool) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for figure in found {
        match groups.iter_mut().find(|group| same(&group[0], &figure)) {
            Some(group) => group.push(figure),
            None => groups.push(vec![figure]),
        }
    }
    groups
}

/// The median of the values; `None` if there are none.
pub(crate) fn median_of(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    median(&sorted(values.into_iter().collect()))
}

/// The first lines of a report: where and how it was measured, and the physical limit of the host.
pub(crate) fn head(host: &Host, how: &str, limit: &Limit) -> String {
    format!(
        "{}; {how}\nbare cache line one way: {} ns; memcpy of 4 MiB: {} GB/s\n",
        host.cpu_model,
        significant(limit.line_ns),
        significant(limit.copy_gb_s),
    )
}
