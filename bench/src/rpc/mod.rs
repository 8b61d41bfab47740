//! What a call costs: `tombolo bench rpc`.
//!
//! The same two programs, slices and checks as in [`suite`], for peers that call and answer. Beside the typed
//! calls stand the same bytes as bare messages over the same channel, and over two bare rings without a
//! channel around them: what a call costs more than those is what its stubs cost.

mod bare;
mod calls;

pub use bare::RINGS;
pub use calls::{CALLS, MESSAGES};

use crate::suite::{self, Absent, Distance, Error, Metric, Options, Peer, Results, Row};

/// Slots of 64 bytes that a ring needs so that what a metric carries fits.
fn slots(metric: Metric) -> u32 {
    if metric == (Metric::Call { bytes: 64 << 10 }) { 4096 } else { 64 }
}

/// How much more a call without parameters may take than a round trip of the bare rings.
pub const TARGET_RATIO: f64 = 1.3;

/// What is compared, in the order of tables.
#[must_use]
pub fn peers() -> Vec<Box<dyn Peer>> {
    vec![Box::new(bare::Rings), Box::new(calls::Calls::default()), Box::new(calls::Messages::default())]
}

/// The names of those that `bench/peers` has besides.
pub const FOREIGN: [&str; 2] = ["Cap'n Proto RPC", "gRPC"];

/// Compares peers that call and answer: [`peers`], and those of `bench/peers` where they were built.
///
/// # Errors
/// As [`suite::run`].
pub fn run(
    peers: &[&dyn Peer],
    absent: &[Absent],
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Results, Error> {
    let mut results = suite::run(peers, absent, options, progress)?;
    // Not what memory by itself can do.
    results.rows.retain(|row| matches!(row.metric, Metric::Call { .. }));
    Ok(results)
}

/// A call without parameters, over a round trip of the bare rings in the same run between processors that are
/// as far from each other, and how far: the first of the distances, by preference, at which neither was
/// mostly disturbed. `None` if there is none.
#[must_use]
pub fn null_call_ratio(results: &Results) -> Option<(f64, Distance)> {
    let row = |peer: &str, distance| {
        let found = |row: &&Row| {
            row.peer == peer
                && row.metric == Metric::Call { bytes: 0 }
                && row.distance == distance
                && !row.is_doubtful()
        };
        results.rows.iter().find(found)
    };
    let compared = |distance| {
        let (calls, rings) = (row(CALLS, distance)?, row(RINGS, distance)?);
        Some((calls.latency_ns?.p50 / rings.latency_ns?.p50, distance))
    };
    Distance::MEASURED.into_iter().find_map(compared)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::suite::peers;

    #[test]
    fn one_far_side_serves_these_and_those_of_the_suite() {
        let all: Vec<_> = peers().into_iter().chain(peers::all()).collect();
        let names: BTreeSet<&str> = all.iter().map(|peer| peer.name()).collect();
        assert_eq!(names.len(), all.len());
        assert!(names.contains(CALLS) && names.contains(MESSAGES) && names.contains(RINGS));
        // A ring must hold the longest message, and half of it is a batch.
        assert!(
            Metric::CALLS.iter().all(
                |metric| matches!(metric, Metric::Call { bytes } if bytes / 28 <= slots(*metric) as usize)
            )
        );
    }
}
