//! What is measured of each peer.

use serde::{Deserialize, Serialize};

/// One figure of a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// A message of `bytes` bytes there and back, in nanoseconds, as the peer waits by itself.
    RoundTrip {
        /// Length of the message.
        bytes: usize,
    },
    /// A call with `bytes` bytes that come back, in nanoseconds.
    Call {
        /// Length of what it carries.
        bytes: usize,
    },
    /// The same when both sides sleep between messages.
    WakeUp,
    /// Messages of `bytes` bytes per second, one way.
    Rate {
        /// Length of a message.
        bytes: usize,
        /// How many are sent together.
        batch: u64,
    },
    /// Bytes a second, one way, each written by the sender and read by the receiver.
    Bandwidth {
        /// Length of a buffer.
        bytes: usize,
    },
    /// The right to a buffer of `bytes` bytes there and back, in nanoseconds; the buffer is not touched.
    Transfer {
        /// Length of the buffer.
        bytes: usize,
    },
    /// Buffers of `bytes` bytes, one at a time: filled, read by the other side and given back, in
    /// nanoseconds.
    Delivery {
        /// Length of a buffer.
        bytes: usize,
    },
    /// A copy by one program, from asking to knowing that it is done, in nanoseconds.
    Copy {
        /// Length of what is copied.
        bytes: usize,
    },
    /// Share of a processor that a program uses while it waits for a message that does not come.
    Idle,
    /// Bytes of memory that an open channel takes, both sides together.
    Memory,
    /// Time to open a channel, in nanoseconds.
    Open,
    /// System calls for each message of 8 bytes there and back, while both sides are awake: of the two
    /// threads that send and receive, as the kernel counts them.
    SystemCalls,
}

/// How a metric's figures are to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Nanoseconds; less is better.
    Nanoseconds,
    /// Messages a second; more is better.
    MessagesPerSecond,
    /// Bytes a second; more is better.
    BytesPerSecond,
    /// A share of one processor; less is better.
    Share,
    /// Bytes; less is better.
    Bytes,
    /// A number per message; less is better.
    PerMessage,
}

impl Unit {
    /// Its name in tables.
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

    /// What figures are divided by before they are shown with [`name`](Self::name).
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
    /// The unit of its figures.
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

    /// What the ping-pong of the bare lines says something about: not of what passes through the kernel.
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

    /// Its title in tables and plots.
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

    /// Bulk data of the usual lengths.
    pub const BANDWIDTHS: [Metric; 5] = [
        Metric::Bandwidth { bytes: 64 << 10 },
        Metric::Bandwidth { bytes: 256 << 10 },
        Metric::Bandwidth { bytes: 1 << 20 },
        Metric::Bandwidth { bytes: 4 << 20 },
        Metric::Bandwidth { bytes: 16 << 20 },
    ];

    /// Lengths of bulk data between two programs where nothing else is measured, in bytes.
    pub const BULK_BYTES: [usize; 10] =
        [64, 1 << 10, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20];

    /// Rights to buffers of any length.
    pub const TRANSFERS: [Metric; 4] = [
        Metric::Transfer { bytes: 4 << 10 },
        Metric::Transfer { bytes: 1 << 20 },
        Metric::Transfer { bytes: 64 << 20 },
        Metric::Transfer { bytes: 1 << 30 },
    ];

    /// Lengths of copies by one program, in bytes.
    pub const COPIES_BYTES: [usize; 9] =
        [64, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20];

    /// What costs nothing to measure of any peer with ends of its own.
    pub const STANDING: [Metric; 4] = [Metric::Idle, Metric::Memory, Metric::Open, Metric::SystemCalls];
}

/// A length with its unit.
#[must_use]
pub fn length(bytes: usize) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}
