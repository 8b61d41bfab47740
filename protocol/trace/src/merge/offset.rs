//! Estimates the offsets between the clocks of kernels from the messages between them.
//!
//! The transit time of a message is never negative, so a message that is stamped by one kernel when sent and
//! by another when received bounds the offset between their clocks: from above in one direction, from below
//! in the other. The fastest message of each direction gives the tightest bound, and the midpoint is the
//! estimate.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{DomainName, MAX_NS, Node};
use crate::file::Recording;

/// Offset of a kernel's clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClockOffset {
    /// First domain that reads this clock.
    pub domain: DomainName,
    /// Time by which it is ahead of the first clock, in nanoseconds.
    pub ahead_ns: i64,
    /// Uncertainty of the offset, in nanoseconds: half of the fastest round trip. 0 for the first clock.
    /// `None` if there were messages in only one direction, or none.
    pub uncertain_ns: Option<u64>,
    /// Whether no message connects it to the others, so that its events cannot be ordered among theirs.
    pub unknown: bool,
}

/// Minimum difference of timestamps between two clocks, in each direction.
#[derive(Clone, Copy, Default)]
struct Bounds {
    forward_ns: Option<i64>,
    backward_ns: Option<i64>,
}

impl Bounds {
    /// Returns how far the second clock is ahead, and the uncertainty.
    fn estimate(self) -> (i64, Option<u64>) {
        match (self.forward_ns, self.backward_ns) {
            (Some(there), Some(back)) => {
                let width = there.saturating_add(back);
                // Negative when the clocks drift: then no offset fits all messages, and the midpoint fits
                // best.
                (there.saturating_sub(width / 2), Some(width.max(0) as u64 / 2))
            }
            (Some(there), None) => (there, None),
            (None, Some(back)) => (-back, None),
            (None, None) => (0, None),
        }
    }

    /// Returns a key that is smaller for better-known offsets.
    fn uncertainty_key(self) -> (bool, u64) {
        let (_, uncertain_ns) = self.estimate();
        (uncertain_ns.is_none(), uncertain_ns.unwrap_or(0))
    }

    fn reversed(self) -> Bounds {
        Bounds { forward_ns: self.backward_ns, backward_ns: self.forward_ns }
    }
}

fn update_min(known: &mut Option<i64>, difference: i64) {
    *known = Some(known.map_or(difference, |known| known.min(difference)));
}

/// Estimates how far each clock is ahead of the first.
pub(super) fn estimate(
    recording: &Recording,
    nodes: &[Node],
    messages: &[(u32, u32)],
    clock_of: &[usize],
) -> Vec<ClockOffset> {
    let mut pairs: BTreeMap<(usize, usize), Bounds> = BTreeMap::new();
    for (send, receive) in messages {
        let (send, receive) = (&nodes[*send as usize], &nodes[*receive as usize]);
        let (from, to) = (clock_of[send.domain as usize], clock_of[receive.domain as usize]);
        // No overflow: both are below MAX_NS.
        let difference = receive.time_ns as i64 - send.time_ns as i64;
        if from < to {
            update_min(&mut pairs.entry((from, to)).or_default().forward_ns, difference);
        } else if to < from {
            update_min(&mut pairs.entry((to, from)).or_default().backward_ns, difference);
        }
    }
    let count = clock_of.iter().max().map_or(0, |last| last + 1);
    let name = |clock: usize| {
        let first =
            clock_of.iter().position(|of| *of == clock).and_then(|index| recording.domains.get(index));
        DomainName(first.map_or(0, |domain| domain.head.identity.domain))
    };
    let mut clocks: Vec<ClockOffset> = (0..count)
        .map(|clock| ClockOffset {
            domain: name(clock),
            ahead_ns: 0,
            uncertain_ns: None,
            unknown: clock != 0,
        })
        .collect();
    if let Some(first) = clocks.first_mut() {
        first.uncertain_ns = Some(0);
    }
    // From known clocks to unknown ones, each time over the best-known pair.
    while let Some((known, new, bounds)) = best_known_pair(&pairs, &clocks) {
        let (ahead_ns, uncertain_ns) = bounds.estimate();
        let from = clocks[known].clone();
        let both = from.uncertain_ns.zip(uncertain_ns).map(|(one, other)| one.saturating_add(other));
        let to = &mut clocks[new];
        to.ahead_ns = from.ahead_ns.saturating_add(ahead_ns);
        to.uncertain_ns = both;
        to.unknown = false;
    }
    align_unconnected(nodes, clock_of, &mut clocks);
    clocks
}

fn best_known_pair(
    pairs: &BTreeMap<(usize, usize), Bounds>,
    clocks: &[ClockOffset],
) -> Option<(usize, usize, Bounds)> {
    let steps = pairs.iter().filter_map(|((one, other), bounds)| {
        match (clocks[*one].unknown, clocks[*other].unknown) {
            (false, true) => Some((*one, *other, *bounds)),
            (true, false) => Some((*other, *one, bounds.reversed())),
            _ => None,
        }
    });
    steps.min_by_key(|(.., bounds)| bounds.uncertainty_key())
}

/// Aligns a clock without connection to the others with their start.
fn align_unconnected(nodes: &[Node], clock_of: &[usize], clocks: &mut [ClockOffset]) {
    let mut starts: Vec<Option<i64>> = alloc::vec![None; clocks.len()];
    for node in nodes {
        update_min(&mut starts[clock_of[node.domain as usize]], node.time_ns as i64);
    }
    let known = starts.iter().zip(clocks.iter()).filter(|(_, clock)| !clock.unknown);
    let start = known.filter_map(|(start, clock)| Some((*start)?.saturating_sub(clock.ahead_ns))).min();
    for (own, clock) in starts.iter().zip(clocks).filter(|(_, clock)| clock.unknown) {
        if let (Some(own), Some(start)) = (own, start) {
            clock.ahead_ns = own.saturating_sub(start);
        }
    }
}

/// Converts all events to the first clock, shifted so that none is before its start.
pub(super) fn apply(nodes: &mut [Node], clocks: &[ClockOffset], clock_of: &[usize]) {
    let moved =
        |node: &Node| (node.time_ns as i64).saturating_sub(clocks[clock_of[node.domain as usize]].ahead_ns);
    let Some(start) = nodes.iter().map(moved).min() else { return };
    for node in nodes {
        node.time_ns = (moved(node).saturating_sub(start)).clamp(0, MAX_NS as i64) as u64;
    }
}
