//! Metrics that are measured for each peer.

use serde::{Deserialize, Serialize};

/// Metric of a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Round trip of a message of `bytes` bytes, in nanoseconds, with the peer's own way of waiting.
    RoundTrip {
        /// Length of the message, in bytes.
        bytes: usize,
    },
    /// Call that returns `bytes` bytes of payload, in nanoseconds.
    Call {
        /// Length of the payload, in bytes.
        bytes: usize,
    },
    /// Round trip in which both sides sleep between messages, in nanoseconds.
    WakeUp,
    /// Messages of `bytes` bytes per second, in one direction.
    Rate {
        /// Length of a message, in bytes.
        bytes: usize,
        /// Number of messages sent together.
        batch: u64,
    },
    /// Bytes per second in one direction, each written by the sender and read by the receiver.
    Bandwidth {
        /// Length of a buffer, in bytes.
        bytes: usize,
    },
    /// Round trip of the right to a buffer of `bytes` bytes, in nanoseconds; the buffer is not touched.
    Transfer {
        /// Length of the buffer, in bytes.
        bytes: usize,
    },
    /// Delivery of single buffers of `bytes` bytes: filled, read by the other side and returned, in
    /// nanoseconds.
    Delivery {
        /// Length of a buffer, in bytes.
        bytes: usize,
    },
    /// Copy by one program, from the request until its completion is known, in nanoseconds.
    Copy {
        /// Length of the copy, in bytes.
        bytes: usize,
    },
    /// Share of a processor that a program uses while it waits for a message that does not arrive.
    Idle,
    /// Memory of an open channel, both sides together, in bytes.
    Memory,
    /// Time to open a channel, in nanoseconds.
    Open,
    /// System calls per message of 8 bytes in a round trip while both sides are awake: of the two threads
    /// that send and receive, as counted by the kernel.
    SystemCalls,
}

/// Unit of a metric's figures, and whether less or more is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Nanoseconds; less is better.
    Nanoseconds,
    /// Messages per second; more is better.
    MessagesPerSecond,
    /// Bytes per second; more is better.
    BytesPerSecond,
    /// A share of one processor; less is better.
    Share,
    /// Bytes; less is better.
    Bytes,
    /// A number per message; less is better.
    PerMessage,
}

impl Unit {
    /// Returns the unit's name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::MessagesPerSecond => "million a second",
            Unit::BytesPerSecond => "GB/s",
            Unit::Share => "% of a processor",
            Unit::Bytes => "KiB",
            Unit::PerMessage => "a message",
        }
    }

    /// Returns the divisor to apply to figures before they are shown with [`name`](Self::name).
    #[must_use]
    pub fn divisor(self) -> f64 {
        match self {
            Unit::Nanoseconds | Unit::PerMessage => 1.0,
            Unit::MessagesPerSecond => 1e6,
            Unit::BytesPerSecond => 1e9,
            Unit::Share => 0.01,
            Unit::Bytes => 1024.0,
        }
    }
}

impl Metric {
    /// Returns the unit of the metric's figures.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Metric::RoundTrip { .. }
            | Metric::Call { .. }
            | Metric::Transfer { .. }
            | Metric::Delivery { .. }
            | Metric::Copy { .. }
            | Metric::WakeUp
            | Metric::Open => Unit::Nanoseconds,
            Metric::Rate { .. } => Unit::MessagesPerSecond,
            Metric::Bandwidth { .. } => Unit::BytesPerSecond,
            Metric::Idle => Unit::Share,
            Metric::Memory => Unit::Bytes,
            Metric::SystemCalls => Unit::PerMessage,
        }
    }

    /// Returns whether the metric depends on the distance of the processors. Metrics of operations through
    /// the kernel do not.
    #[must_use]
    pub(crate) fn depends_on_distance(self) -> bool {
        matches!(
            self,
            Metric::RoundTrip { .. }
                | Metric::Call { .. }
                | Metric::Rate { .. }
                | Metric::Bandwidth { .. }
                | Metric::Transfer { .. }
        )
    }

    /// Returns the title in tables and plots.
    #[must_use]
    pub fn title(self) -> String {
        match self {
            Metric::RoundTrip { bytes } => format!("round trip, {}", length(bytes)),
            Metric::Call { bytes: 0 } => "call without parameters".into(),
            Metric::Call { bytes } => format!("call that echoes {}", length(bytes)),
            Metric::WakeUp => "round trip of 8 B, both sides asleep".into(),
            Metric::Rate { bytes, batch: 1 } => format!("one way, {} one by one", length(bytes)),
            Metric::Rate { bytes, batch } => format!("one way, {} in batches of {batch}", length(bytes)),
            Metric::Bandwidth { bytes } => format!("filled and read, {}", length(bytes)),
            Metric::Transfer { bytes } => format!("a buffer there and back, {}", length(bytes)),
            Metric::Delivery { bytes } => {
                format!("filled, read and given back, {} one at a time", length(bytes))
            }
            Metric::Copy { bytes } => format!("copied by one program, {}", length(bytes)),
            Metric::Idle => "processor used while waiting".into(),
            Metric::Memory => "memory of an open channel".into(),
            Metric::Open => "time to open a channel".into(),
            Metric::SystemCalls => "system calls per message, both sides awake".into(),
        }
    }

    /// Round trips of the usual lengths.
    pub const ROUND_TRIPS: [Metric; 3] =
        [Metric::RoundTrip { bytes: 8 }, Metric::RoundTrip { bytes: 64 }, Metric::RoundTrip { bytes: 1024 }];

    /// Calls of the usual lengths.
    pub const CALLS: [Metric; 4] = [
        Metric::Call { bytes: 0 },
        Metric::Call { bytes: 32 },
        Metric::Call { bytes: 1024 },
        Metric::Call { bytes: 64 << 10 },
    ];

    /// Bandwidths of the usual lengths.
    pub const BANDWIDTHS: [Metric; 5] = [
        Metric::Bandwidth { bytes: 64 << 10 },
        Metric::Bandwidth { bytes: 256 << 10 },
        Metric::Bandwidth { bytes: 1 << 20 },
        Metric::Bandwidth { bytes: 4 << 20 },
        Metric::Bandwidth { bytes: 16 << 20 },
    ];

    /// Lengths of bulk data between two programs in benchmarks of bulk data only, in bytes.
    pub const BULK_BYTES: [usize; 10] =
        [64, 1 << 10, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20];

    /// Transfers of rights to buffers of the usual lengths.
    pub const TRANSFERS: [Metric; 4] = [
        Metric::Transfer { bytes: 4 << 10 },
        Metric::Transfer { bytes: 1 << 20 },
        Metric::Transfer { bytes: 64 << 20 },
        Metric::Transfer { bytes: 1 << 30 },
    ];

    /// Lengths of copies by one program, in bytes.
    pub const COPIES_BYTES: [usize; 9] =
        [64, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20];

    /// Metrics of every peer with its own ends, which are cheap to measure.
    pub const STANDING: [Metric; 4] = [Metric::Idle, Metric::Memory, Metric::Open, Metric::SystemCalls];
}

/// Formats a length with its unit.
#[must_use]
pub fn length(bytes: usize) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}
