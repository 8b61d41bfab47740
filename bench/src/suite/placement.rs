//! Placement of slots and credit: in memory of the sender or of the receiver, for both ring variants.
//!
//! Each program creates a memory and touches it first, so that on a NUMA host its pages are local to the
//! program's processor. Across a window only the variant can be chosen: the memory is the host's, and the far
//! side reaches no other.
//!
//! Between two programs of this host each creates a memory file; across a link of a machine each opens a
//! channel, because the side that opens it creates its memory.

use std::os::fd::AsFd;

use serde::{Deserialize, Serialize};
use tombolo_bench_far::placement::{BYTES, Rings, RingsEnd};
use tombolo_platform::memory::{check_sealed, create_sealed, map};
use tombolo_ring::Variant;

use super::{AnyEnd, End, Error, Meeting, Metric, Peer, Side};
use crate::sample::Latency;

/// Figures of one placement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Placed {
    /// Names of the two nodes, joined by a dash.
    pub link: String,
    /// Variant of the ring, by which slots are returned.
    pub variant: String,
    /// Memory of the slots: the sender's, the receiver's, or the window.
    pub slots: String,
    /// Memory of the credit, like `slots`.
    pub credit: String,
    /// Round trip of the bare lines, in nanoseconds.
    pub limit_ns: f64,
    /// Round trip of a message of one slot; `None` if there is no such memory.
    pub round_trip_ns: Option<Latency>,
    /// Round trip divided by that of the bare lines.
    pub ratio: Option<f64>,
}

impl Placed {
    /// Returns a description for plots and tables.
    #[must_use]
    pub fn title(&self) -> String {
        let Placed { link, variant, slots, credit, .. } = self;
        if slots == credit {
            format!("{link}, {variant}: slots and credit {slots}")
        } else {
            format!("{link}, {variant}: slots {slots}, credit {credit}")
        }
    }
}

/// Creates the result of one placement.
pub(crate) fn placed(
    rings: Rings,
    link: &str,
    limit_ns: f64,
    round_trip_ns: Option<Latency>,
    ratio: f64,
) -> Placed {
    let place = |at_receiver| if at_receiver { "at the receiver" } else { "at the sender" };
    Placed {
        link: link.to_owned(),
        variant: match rings.variant {
            Variant::EpochCredit => "epoch+credit",
            Variant::UsedFlag => "used flag",
        }
        .into(),
        slots: place(rings.slots_at_receiver).into(),
        credit: place(rings.credit_at_receiver).into(),
        limit_ns,
        round_trip_ns,
        ratio: Some(ratio),
    }
}

impl Peer for Rings {
    fn name(&self) -> &'static str {
        match (self.variant, self.slots_at_receiver, self.credit_at_receiver) {
            (Variant::EpochCredit, false, false) => "placement e00",
            (Variant::EpochCredit, false, true) => "placement e01",
            (Variant::EpochCredit, true, false) => "placement e10",
            (Variant::EpochCredit, true, true) => "placement e11",
            (Variant::UsedFlag, false, false) => "placement u00",
            (Variant::UsedFlag, false, true) => "placement u01",
            (Variant::UsedFlag, true, false) => "placement u10",
            (Variant::UsedFlag, true, true) => "placement u11",
        }
    }

    fn about(&self) -> String {
        "a ring each way without a channel around it".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        Vec::new()
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        let file = create_sealed("tombolo-bench-placement", BYTES as u64)?;
        let own = map(&file, 0, BYTES)?;
        own.clear();
        // Both sides send before they receive: the line buffers the descriptors.
        meeting.line.give_fds(&[file.as_fd()])?;
        let [other] = meeting.line.take_fds()?;
        check_sealed(&other, BYTES as u64)?;
        let other = map(&other, 0, BYTES)?;
        let memories = if meeting.side == Side::Near { [own, other] } else { [other, own] };
        Ok(AnyEnd::new(self.end(meeting.side, &memories)?))
    }
}

impl End for RingsEnd {
    #[inline(always)]
    fn send<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        Ok(RingsEnd::send::<N>(self, sequence)?)
    }

    #[inline(always)]
    fn send_batch<const N: usize>(&mut self, first: u64, count: u64) -> Result<(), Error> {
        Ok(RingsEnd::send_batch::<N>(self, first, count)?)
    }

    #[inline(always)]
    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        Ok(RingsEnd::recv::<N>(self, sequence)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placement_has_a_title_of_its_own() {
        let titles: std::collections::BTreeSet<String> =
            Rings::all().iter().map(|rings| placed(*rings, "host-host", 1.0, None, 1.0).title()).collect();
        assert_eq!(titles.len(), 8);
    }
}
