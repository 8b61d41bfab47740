//! What is compared.

use tombolo_base::SharedMemory;
pub use tombolo_bench_far::Side;

use super::line::ControlLine;
use super::work::AnyEnd;
use super::{Error, Metric};

/// What both programs have before they open anything.
#[derive(Clone, Copy, Debug)]
pub struct Meeting<'a> {
    /// Which of them this is.
    pub side: Side,
    /// A name that no other meeting has.
    pub name: &'a str,
    /// For descriptors.
    pub line: &'a ControlLine,
    /// [`MEMORY_BYTES`] that both map.
    pub(super) memory: &'a SharedMemory,
}

/// Length of the memory of a meeting.
pub const MEMORY_BYTES: usize = 2 * PART_BYTES + POOL_BYTES;

/// The first part is for the bare ping-pong between slices, the second for flags.
const PART_BYTES: usize = 4096;

/// Two buffers of the longest bulk data. Untouched pages take no memory.
const POOL_BYTES: usize = 2 * (256 << 20);

impl Meeting<'_> {
    /// A page of shared words for the peer, zero at first; ends that are opened later find what earlier ones
    /// left.
    #[must_use]
    pub fn flags(&self) -> SharedMemory {
        self.part(PART_BYTES, PART_BYTES)
    }

    /// Shared memory for bulk data: [`buffers`] of any length that is measured.
    #[must_use]
    pub fn pool(&self) -> SharedMemory {
        self.part(2 * PART_BYTES, POOL_BYTES)
    }

    fn part(&self, offset_bytes: usize, length_bytes: usize) -> SharedMemory {
        // Both sides map the memory whole, so that every part lies inside.
        self.memory.slice(offset_bytes, length_bytes).unwrap_or_else(|_| self.memory.clone())
    }
}

/// How many buffers of that length are used in turn, by everything that has buffers: more long ones would
/// leave the cache, and short ones want to be ahead of each other.
#[must_use]
pub fn buffers(bytes: usize) -> usize {
    if bytes >= 4 << 20 { 2 } else { 4 }
}

/// Something to send messages with.
pub trait Peer: Sync {
    /// Its name in tables.
    fn name(&self) -> &'static str;

    /// What exactly it is: version, options, way of waiting.
    fn about(&self) -> String;

    /// What can be measured of it.
    fn metrics(&self) -> Vec<Metric>;

    /// Why it cannot be measured on this host; `None` where it can.
    fn absence(&self) -> Option<String> {
        None
    }

    /// Opens an end. Both sides do this at the same time.
    ///
    /// # Errors
    /// What its library said.
    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error>;
}

/// A peer that this program was built without.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Absent {
    /// Its name.
    pub peer: String,
    /// Why it is not there.
    pub why: String,
}

impl std::fmt::Display for Absent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.peer, self.why)
    }
}
