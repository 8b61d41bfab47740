//! The interface of the systems that are compared.

use tombolo_base::SharedMemory;
pub use tombolo_bench_far::Side;

use super::line::ControlLine;
use super::work::AnyEnd;
use super::{Error, Metric};

/// Resources that both programs share before they open any end.
#[derive(Clone, Copy, Debug)]
pub struct Meeting<'a> {
    /// Side that this program plays.
    pub side: Side,
    /// Unique name of the meeting.
    pub name: &'a str,
    /// Control line, for passing descriptors.
    pub line: &'a ControlLine,
    /// Memory of [`MEMORY_BYTES`] that both map.
    pub(super) memory: &'a SharedMemory,
}

/// Length of a meeting's memory, in bytes.
pub const MEMORY_BYTES: usize = 2 * PART_BYTES + POOL_BYTES;

/// Size of the first two parts: one for the bare ping-pong between slices, one for flags.
const PART_BYTES: usize = 4096;

/// Room for two buffers of the longest bulk data. Untouched pages take no memory.
const POOL_BYTES: usize = 2 * (256 << 20);

impl Meeting<'_> {
    /// Returns a page of shared words for the peer, initially zero. Ends that are opened later see what
    /// earlier ones wrote.
    #[must_use]
    pub fn flags(&self) -> SharedMemory {
        self.part(PART_BYTES, PART_BYTES)
    }

    /// Returns the shared memory for bulk data: [`buffers`] buffers of any measured length.
    #[must_use]
    pub fn pool(&self) -> SharedMemory {
        self.part(2 * PART_BYTES, POOL_BYTES)
    }

    fn part(&self, offset_bytes: usize, length_bytes: usize) -> SharedMemory {
        // Both sides map the whole memory, so the slice cannot fail.
        self.memory.slice(offset_bytes, length_bytes).unwrap_or_else(|_| self.memory.clone())
    }
}

/// Returns the number of buffers of that length used in rotation by all bulk peers: more long ones would not
/// fit in the cache, and short ones need several in flight.
#[must_use]
pub fn buffers(bytes: usize) -> usize {
    if bytes >= 4 << 20 { 2 } else { 4 }
}

/// System that transports messages between two programs.
pub trait Peer: Sync {
    /// Returns the name in tables and plots.
    fn name(&self) -> &'static str;

    /// Returns its version, options and way of waiting.
    fn about(&self) -> String;

    /// Returns the metrics that it supports.
    fn metrics(&self) -> Vec<Metric>;

    /// Returns the reason why it cannot be measured on this host, or `None` if it can.
    fn absence(&self) -> Option<String> {
        None
    }

    /// Opens an end. Both sides call this at the same time.
    ///
    /// # Errors
    /// The error of its library.
    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error>;
}

/// Peer that is not available.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Absent {
    /// Name of the peer.
    pub peer: String,
    /// Reason why it is not available.
    pub why: String,
}

impl std::fmt::Display for Absent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.peer, self.why)
    }
}
