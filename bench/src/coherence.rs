//! What messages cost in memory that is not coherent: `tombolo bench coherence`.
//!
//! Two ends of a channel, each with an emulated cache, send and receive in turn on one thread. Counted are
//! the lines that move for a message; a cost per line gives an estimate for a processor without coherence.
//! Nothing is timed, so that the counts are the same on every computer.

use serde::Serialize;
use tombolo_base::SharedMemory;
use tombolo_base::coherence::{CacheCosts, CacheCounters, EmulatedCache, Evictions, Flushed};
use tombolo_link::end::{ChannelEnd, Deferred, EndError};
use tombolo_link::layout::AttachError;
use tombolo_link::{ChannelConfig, ChannelLayout, Side};
use tombolo_ring::{LayoutError, SlotSize, Variant, WakeOrder};

use crate::report::BenchReport;
use crate::table::{align, cells, significant};

/// Messages counted for each row, several laps of the ring.
const MESSAGES: u32 = 1024;

/// Slots of the ring.
const SLOTS: u32 = 64;

/// The rows: a slot's size and a message's length, in bytes.
const CASES: [(usize, usize); 8] =
    [(32, 24), (64, 8), (64, 48), (64, 64), (64, 1024), (128, 48), (128, 120), (128, 1024)];

/// A message could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The shape of the ring.
    #[error("cannot make the channel: {0}")]
    Shape(#[from] LayoutError),
    /// Its memory.
    #[error("cannot attach to the channel: {0}")]
    Attach(#[from] AttachError),
    /// An operation on it.
    #[error("the channel failed: {0}")]
    End(#[from] EndError),
    /// What was sent did not arrive.
    #[error("message {index} did not arrive")]
    Missing {
        /// Its number, from 0.
        index: u32,
    },
}

/// Lines per message, on one side.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Lines {
    /// Written back.
    pub written_back: f64,
    /// Invalidated, and loaded again when they are next used.
    pub invalidated: f64,
    /// Of those invalidated, lines that another side had written to meanwhile.
    pub stale: f64,
    /// An estimate of what that takes on the SCC, in core cycles.
    pub scc_cycles: f64,
}

impl Lines {
    fn per_message(before: CacheCounters, after: CacheCounters) -> Lines {
        let each =
            |count: fn(CacheCounters) -> u64| (count(after) - count(before)) as f64 / f64::from(MESSAGES);
        Lines {
            written_back: each(|counters| counters.written_back),
            invalidated: each(|counters| counters.invalidated),
            stale: each(|counters| counters.stale),
            scc_cycles: each(|counters| counters.cycles(CacheCosts::SCC)),
        }
    }
}

/// One shape and length.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Bytes of a slot.
    pub slot_bytes: usize,
    /// Bytes of a message.
    pub message_bytes: usize,
    /// Of the sender.
    pub sender: Lines,
    /// Of the receiver, without polls that find nothing.
    pub receiver: Lines,
}

impl Row {
    /// An estimate of a round trip on the SCC, without the work between, in core cycles.
    #[must_use]
    pub fn round_trip_scc_cycles(&self) -> f64 {
        2.0 * (self.sender.scc_cycles + self.receiver.scc_cycles)
    }
}

/// Counted lines of all cases.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// The cost of each operation that the estimates rest on.
    pub costs: &'static str,
    /// By slot size.
    pub rows: Vec<Row>,
}

const COSTS: &str =
    "SCC core cycles, estimated: 98 for a line written back, 81 for a line invalidated and loaded";

/// Counts the lines of every case.
///
/// # Errors
/// [`Error`], which only a fault of the channel can cause.
pub fn run() -> Result<Report, Error> {
    let rows = CASES.iter().map(|case| count(*case)).collect::<Result<_, _>>()?;
    Ok(Report { costs: COSTS, rows })
}

fn count((slot_bytes, message_bytes): (usize, usize)) -> Result<Row, Error> {
    let slot = SlotSize::from_bytes(slot_bytes).unwrap_or(SlotSize::B64);
    let config = ChannelConfig::new(slot, SLOTS, Variant::EpochCredit)?;
    let memory = SharedMemory::zeroed(ChannelLayout::new(config).length_bytes());
    let views = [(); 2].map(|()| EmulatedCache::view(memory.clone(), Evictions::default()));
    let attach = |view, side| ChannelEnd::attach(view, side, config, WakeOrder::Fence, Deferred::default());
    let (mut sender, mut receiver) = (attach(&views[0], Side::A)?, attach(&views[1], Side::B)?);
    let message = vec![1; message_bytes];
    let mut buffer = vec![0; message_bytes];
    let mut exchange = |count: u32| {
        for index in 0..count {
            sender.try_send(&message)?;
            let read = receiver.try_recv(|message| message.copy_to(&mut buffer).is_ok())?;
            if read != Some(true) {
                return Err(Error::Missing { index });
            }
        }
        Ok::<(), Error>(())
    };
    exchange(SLOTS)?;
    let before = views.each_ref().map(counters);
    exchange(MESSAGES)?;
    let after = views.each_ref().map(counters);
    Ok(Row {
        slot_bytes,
        message_bytes,
        sender: Lines::per_message(before[0], after[0]),
        receiver: Lines::per_message(before[1], after[1]),
    })
}

fn counters(view: &SharedMemory<Flushed>) -> CacheCounters {
    view.caches().cache().map(EmulatedCache::counters).unwrap_or_default()
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let mut rows = vec![
            cells(&["slot", "message", "sent:", "", "received:", "", "", "SCC, estimated", ""]),
            cells(&[
                "B",
                "",
                "B",
                "written",
                "invalid.",
                "written",
                "invalid.",
                "stale",
                "cycles one way",
                "and back",
            ]),
        ];
        for row in &self.rows {
            let one_way = row.sender.scc_cycles + row.receiver.scc_cycles;
            rows.push(vec![
                row.slot_bytes.to_string(),
                row.message_bytes.to_string(),
                significant(row.sender.written_back),
                significant(row.sender.invalidated),
                significant(row.receiver.written_back),
                significant(row.receiver.invalidated),
                significant(row.receiver.stale),
                significant(one_way),
                significant(row.round_trip_scc_cycles()),
            ]);
        }
        format!(
            "Lines of 64 bytes that move for a message, by emulated caches that evict nothing\n\n{}\n{}\nwritten: \
             lines written back; invalid.: lines invalidated and loaded anew; stale: those that the peer had \
             written\nmeasured on the SCC by Barrelfish: a round trip with interrupts {} cycles (Technical Note 005)\n",
            align(&rows),
            self.costs,
            BARRELFISH_IPI_ROUND_TRIP_CYCLES,
        )
    }
}

/// Technical Note 005, table of the IPI benchmark: sum of all five steps.
const BARRELFISH_IPI_ROUND_TRIP_CYCLES: u32 = 8746;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_in_one_line_moves_one_line_each_way() {
        let row = count((64, 48)).unwrap();
        assert_eq!(row.sender.written_back, 1.0);
        assert_eq!(row.receiver.stale, 1.0);
        // Credit returns twice a lap.
        assert!(row.receiver.written_back < 0.1 && row.sender.stale < 0.1);
        let pair = count((64, 64)).unwrap();
        assert_eq!((pair.sender.written_back, pair.receiver.stale), (2.0, 2.0));
    }

    #[test]
    fn every_case_runs_and_is_shown() {
        let report = run().unwrap();
        assert_eq!(report.rows.len(), CASES.len());
        assert_eq!(report.table().lines().count(), CASES.len() + 8);
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert!(json["rows"][0]["sender"]["scc_cycles"].as_f64().is_some_and(|cycles| cycles > 0.0));
    }
}
