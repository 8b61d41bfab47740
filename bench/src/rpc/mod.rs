//! Cost of a call: `tombolo bench rpc`.
//!
//! The same two programs, slices and checks as in [`suite`], for peers that call and answer. Typed calls are
//! compared with the same bytes as messages over the same channel, and over two bare rings without a channel:
//! the difference is the cost of the stubs.

mod bare;
mod calls;

pub use bare::RINGS;
pub use calls::{CALLS, MESSAGES};

use crate::suite::{self, Absent, Distance, Error, Metric, Options, Peer, Results, Row};

/// Returns the number of 64-byte slots that a ring needs for a metric's messages.
fn slots(metric: Metric) -> u32 {
    if metric == (Metric::Call { bytes: 64 << 10 }) { 4096 } else { 64 }
}

/// Maximum time of a call without parameters, as a multiple of a round trip of the bare rings.
pub const TARGET_RATIO: f64 = 1.3;

/// Returns the peers in table order.
#[must_use]
pub fn peers() -> Vec<Box<dyn Peer>> {
    vec![Box::new(bare::Rings), Box::new(calls::Calls::default()), Box::new(calls::Messages::default())]
}

/// Names of the further peers in `bench/peers`.
pub const FOREIGN: [&str; 2] = ["Cap'n Proto RPC", "gRPC"];

/// Compares peers that call and answer: [`peers`], and those of `bench/peers` if they were built.
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
    // Removes the rows of bare memory.
    results.rows.retain(|row| matches!(row.metric, Metric::Call { .. }));
    Ok(results)
}

/// Returns the time of a call without parameters, divided by a round trip of the bare rings in the same run
/// at the same distance, and that distance: the first of the distances, by preference, at which neither was
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
