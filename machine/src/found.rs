//! What was found of a link, by `tombolo litmus` and `tombolo bench link`: the `[[found]]` tables.

use std::fmt;
use std::ops::RangeInclusive;

use tombolo_base::NodeId;
use tombolo_link::TransportKind;

/// What was found of the link between two nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The end with the smaller id.
    pub a: NodeId,
    /// The end with the greater id.
    pub b: NodeId,
    /// What carried messages when this was found; it is that of the link.
    pub transport: TransportKind,
    /// What its memory can do, as `tombolo litmus` found it.
    pub memory: Option<FoundMemory>,
    /// What messages cost, as `tombolo bench link` measured it.
    pub cost: Option<FoundCost>,
}

/// What the memory of a link was found to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundMemory {
    /// Whether it was coherent; it is so in the description of the link.
    pub coherent: bool,
    /// Which orders of stores and loads held.
    pub order: Order,
    /// The widest aligned store that was never seen in parts; one of [`FoundMemory::STORE_BYTES`].
    pub widest_store_bytes: u8,
    /// Whether additions of both sides to one word at the same time were all counted.
    pub atomics: bool,
}

/// Which orders of stores and loads hold between two nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Order {
    /// A reader that saw a word that was stored with release did not always see what was stored before it.
    None,
    /// It did, but a store before a sequentially consistent fence was not always seen by a load after one.
    Release,
    /// Both hold, which is what channels need.
    Sequential,
}

/// What messages over a link were measured to cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundCost {
    /// Median round trip of 8 bytes between two programs that poll.
    pub round_trip_ns: u64,
    /// The median time of a message one way by its length in bytes, lengths ascending.
    pub latency_ns: Vec<(u64, u64)>,
    /// Long messages from `a` to `b`.
    pub bytes_per_s: u64,
    /// The same from `b` to `a`.
    pub bytes_per_s_back: u64,
}

impl Order {
    /// The names, as machine files have them.
    pub const NAMES: [&str; 3] = ["none", "release", "sequential"];

    /// All of them, the weakest first.
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

    /// Returns the order of this name.
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
    /// Allowed values of `widest_store_bytes`. Stores of 2 bytes are the narrowest that are tested.
    pub const STORE_BYTES: [u8; 4] = [2, 4, 8, 16];

    /// The widest store that channels rely on.
    pub const NEEDED_STORE_BYTES: u8 = 8;

    /// Why no channel can rely on this memory, if so.
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
    /// Allowed times: an hour is no round trip.
    pub const TIME_NS: RangeInclusive<u64> = 1..=3_600_000_000_000;
    /// Allowed lengths of messages.
    pub const BYTES: RangeInclusive<u64> = 1..=1 << 30;
    /// Allowed rates, in bytes per second.
    pub const RATE: RangeInclusive<u64> = 1..=1_000_000_000_000_000;
    /// The most lengths of `latency_ns`.
    pub const MAX_LENGTHS: usize = 64;
}
