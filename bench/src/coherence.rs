//! Cost of messages in non-coherent memory: `tombolo bench coherence`.
//!
//! Two ends of a channel, each with an emulated cache, send and receive in turn on one thread. The benchmark
//! counts the cache lines that move per message; a cost per line gives an estimate for a processor without
//! coherence. Nothing is timed, so the counts are the same on every computer.

use serde::Serialize;
use tombolo_base::SharedMemory;
use tombolo_base::coherence::{CacheCosts, CacheCounters, EmulatedCache, Evictions, Flushed};
use tombolo_link::end::{ChannelEnd, DeferredSignals, EndError};
use tombolo_link::layout::AttachError;
use tombolo_link::{ChannelConfig, ChannelLayout, Side};
use tombolo_ring::{LayoutError, SlotSize, Variant, WakeOrder};

use crate::report::BenchReport;
use crate::table::{align, cells, significant};

/// Number of messages counted for each row: several laps of the ring.
const MESSAGES: u32 = 1024;

/// Number of slots in the ring.
const SLOTS: u32 = 64;

/// Measured cases: slot size and message length, in bytes.
const CASES: [(usize, usize); 8] =
    [(32, 24), (64, 8), (64, 48), (64, 64), (64, 1024), (128, 48), (128, 120), (128, 1024)];

/// Error of a channel that failed to send or receive a message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The shape of the ring is invalid.
    #[error("cannot make the channel: {0}")]
    Shape(#[from] LayoutError),
    /// An end cannot attach to the channel's memory.
    #[error("cannot attach to the channel: {0}")]
    Attach(#[from] AttachError),
    /// A send or receive operation failed.
    #[error("the channel failed: {0}")]
    End(#[from] EndError),
    /// A message that was sent did not arrive.
    #[error("message {index} did not arrive")]
    Missing {
        /// Index of the message, from 0.
        index: u32,
    },
}

/// Cache lines moved per message, on one side.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Lines {
    /// Number of lines written back.
    pub written_back: f64,
    /// Number of lines invalidated; each is loaded again at its next use.
    pub invalidated: f64,
    /// Number of invalidated lines that the other side had written to meanwhile.
    pub stale: f64,
    /// Estimated cost on the SCC, in core cycles.
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

/// Counts for one ring shape and message length.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Slot size, in bytes.
    pub slot_bytes: usize,
    /// Message length, in bytes.
    pub message_bytes: usize,
    /// Cache lines moved by the sender.
    pub sender: Lines,
    /// Cache lines moved by the receiver, not counting polls that find nothing.
    pub receiver: Lines,
}

impl Row {
    /// Returns the estimated cost of a round trip on the SCC in core cycles, excluding work between messages.
    #[must_use]
    pub fn round_trip_scc_cycles(&self) -> f64 {
        2.0 * (self.sender.scc_cycles + self.receiver.scc_cycles)
    }
}

/// Line counts of all cases.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Cost per operation on which the estimates are based.
    pub costs: &'static str,
    /// Rows in order of slot size.
    pub rows: Vec<Row>,
}

const COSTS: &str =
    "SCC core cycles, estimated: 98 for a line written back, 81 for a line invalidated and loaded";

/// Counts the lines moved in every case.
///
/// # Errors
/// [`Error`]; only a bug in the channel can cause one.
pub fn run() -> Result<Report, Error> {
    let rows = CASES.iter().map(|case| count(*case)).collect::<Result<_, _>>()?;
    Ok(Report { costs: COSTS, rows })
}

fn count((slot_bytes, message_bytes): (usize, usize)) -> Result<Row, Error> {
    let slot = SlotSize::from_bytes(slot_bytes).unwrap_or(SlotSize::B64);
    let config = ChannelConfig::new(slot, SLOTS, Variant::EpochCredit)?;
    let memory = SharedMemory::zeroed(ChannelLayout::new(config).length_bytes());
    let views = [(); 2].map(|()| EmulatedCache::view(memory.clone(), Evictions::default()));
    let attach =
        |view, side| ChannelEnd::attach(view, side, config, WakeOrder::Fence, DeferredSignals::default());
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
        // Credit is returned twice per lap.
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
