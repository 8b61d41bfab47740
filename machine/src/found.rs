//! Measured properties of links, from `tombolo litmus` and `tombolo bench link`: the `[[found]]` tables.

use std::fmt;
use std::ops::RangeInclusive;

use tombolo_base::NodeId;
use tombolo_link::TransportKind;

/// Measured properties of the link between two nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// End with the smaller id.
    pub a: NodeId,
    /// End with the greater id.
    pub b: NodeId,
    /// Transport of the measurement; it is that of the link.
    pub transport: TransportKind,
    /// Properties of the link's memory, found by `tombolo litmus`.
    pub memory: Option<FoundMemory>,
    /// Cost of messages, measured by `tombolo bench link`.
    pub cost: Option<FoundCost>,
}

/// Observed properties of a link's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundMemory {
    /// Whether it was coherent; matches the description of the link.
    pub coherent: bool,
    /// Observed ordering of stores and loads.
    pub order: Order,
    /// Widest aligned store that was never observed torn, in bytes; one of [`FoundMemory::STORE_BYTES`].
    pub widest_store_bytes: u8,
    /// Whether concurrent additions of both sides to one word were all counted.
    pub atomics: bool,
}

/// Ordering of stores and loads between two nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Order {
    /// A load that observed a release store did not always observe the stores before it.
    None,
    /// Release stores work, but a store before a sequentially consistent fence was not always observed by a
    /// load after one.
    Release,
    /// Both orderings hold, which channels require.
    Sequential,
}

/// Measured cost of messages over a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundCost {
    /// Median round trip of 8 bytes between two programs that poll, in nanoseconds.
    pub round_trip_ns: u64,
    /// Median one-way time of a message in nanoseconds by its length in bytes, in order of ascending length.
    pub latency_ns: Vec<(u64, u64)>,
    /// Throughput of long messages from `a` to `b`.
    pub bytes_per_s: u64,
    /// Throughput of long messages from `b` to `a`.
    pub bytes_per_s_back: u64,
}

impl Order {
    /// Names used in machine files.
    pub const NAMES: [&str; 3] = ["none", "release", "sequential"];

    /// All orderings, the weakest first.
    pub const ALL: [Order; 3] = [Order::None, Order::Release, Order::Sequential];

    /// Returns the name used in machine files and output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Order::None => Order::NAMES[0],
            Order::Release => Order::NAMES[1],
            Order::Sequential => Order::NAMES[2],
        }
    }

    /// Returns the ordering of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Order> {
        Order::ALL.into_iter().find(|order| order.name() == name)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FoundMemory {
    /// Allowed values of `widest_store_bytes`. Stores of 2 bytes are the narrowest tested.
    pub const STORE_BYTES: [u8; 4] = [2, 4, 8, 16];

    /// Widest store that channels rely on, in bytes.
    pub const NEEDED_STORE_BYTES: u8 = 8;

    /// Returns the reason why no channel can rely on this memory, if there is one.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        if self.widest_store_bytes < FoundMemory::NEEDED_STORE_BYTES {
            return Some(format!(
                "aligned stores of {} bytes were seen in parts, so messages can be torn (widest_store_bytes = {})",
                FoundMemory::NEEDED_STORE_BYTES,
                self.widest_store_bytes
            ));
        }
        match self.order {
            Order::None => {
                Some("stores are seen out of order: messages can be torn (order = \"none\")".into())
            }
            Order::Release => Some(
                "fences do not order stores and loads: wake-ups can be lost (order = \"release\")".into(),
            ),
            Order::Sequential => None,
        }
    }
}

impl FoundCost {
    /// Allowed times, at most an hour.
    pub const TIME_NS: RangeInclusive<u64> = 1..=3_600_000_000_000;
    /// Allowed lengths of messages.
    pub const BYTES: RangeInclusive<u64> = 1..=1 << 30;
    /// Allowed rates, in bytes per second.
    pub const RATE: RangeInclusive<u64> = 1..=1_000_000_000_000_000;
    /// Maximum number of lengths in `latency_ns`.
    pub const MAX_LENGTHS: usize = 64;
}
