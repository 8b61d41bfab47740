//! Descriptions of hubs.

use alloc::string::String;

/// Maximum capacity of a fifo, in values.
pub const MAX_CAPACITY: u32 = 65_536;

/// Maximum number of blocks of a pool.
pub const MAX_BLOCKS: u32 = 65_536;

/// Maximum count of a semaphore.
pub const MAX_COUNT: u32 = 1 << 30;

/// Maximum length of a value, in bytes.
pub const MAX_VALUE_BYTES: u32 = 16 << 10;

/// Maximum memory of the values of one hub, in bytes.
pub const MAX_HUB_BYTES: u64 = 256 << 20;

/// Maximum length of a hub's name, in bytes.
const MAX_NAME_BYTES: usize = 96;

/// Kind of a hub.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A rendezvous: a sender waits until a receiver takes its value.
    Port = 1,
    /// A queue of values.
    Fifo = 2,
    /// One bit: raised, and cleared by the task that awaited it.
    Event = 3,
    /// A count that is never negative.
    Semaphore = 4,
    /// A lock with an owner.
    Resource = 5,
    /// Blocks of memory, each held by one client at a time.
    Pool = 6,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Kind; 6] =
        [Kind::Port, Kind::Fifo, Kind::Event, Kind::Semaphore, Kind::Resource, Kind::Pool];

    /// Returns the kind with this number on the wire.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Returns the name of the kind in application files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Port => "port",
            Kind::Fifo => "fifo",
            Kind::Event => "event",
            Kind::Semaphore => "semaphore",
            Kind::Resource => "resource",
            Kind::Pool => "pool",
        }
    }

    /// Returns the kind with this name in application files.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether its items are values with bytes.
    #[must_use]
    pub fn has_values(self) -> bool {
        matches!(self, Kind::Port | Kind::Fifo)
    }

    /// Whether its items are only counted.
    #[must_use]
    pub fn has_count(self) -> bool {
        matches!(self, Kind::Event | Kind::Semaphore)
    }

    /// Whether its items are held by the clients that took them, and given back.
    #[must_use]
    pub fn has_holders(self) -> bool {
        matches!(self, Kind::Resource | Kind::Pool)
    }
}

impl core::fmt::Display for Kind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}

/// Returns the number by which two sides compare the types of their values, a hash of the type's name
/// (FNV-1a). 0 for an empty name, which means bytes of any type.
#[must_use]
pub fn type_number(name: &str) -> u64 {
    let byte = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    if name.is_empty() { 0 } else { name.bytes().fold(0xcbf2_9ce4_8422_2325, byte).max(1) }
}

/// Declaration of a hub.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Description {
    /// Name of the hub, unique in the machine.
    pub name: String,
    /// Kind of the hub.
    pub kind: Kind,
    /// Capacity of a fifo in values, maximum count of a semaphore, number of blocks of a pool. 0 for a port,
    /// 1 for an event and a resource.
    pub capacity: u32,
    /// Initial count of a semaphore; 0 or 1 for an event; 0 for other kinds.
    pub initial: u32,
    /// Maximum length of a value of a port or fifo, or the size of a block of a pool, in bytes; 0 for other
    /// kinds.
    pub value_bytes: u32,
    /// [`type_number`] of its values; 0 accepts all types.
    pub value_type: u64,
    /// Whether the owner of a resource inherits the priority of clients that wait for it.
    pub inheritance: bool,
}

/// Reason why a description is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum BadDescription {
    #[error(
        "invalid name '{name}' of a hub; use 1 to 96 letters, digits, '.', '_', '-' or '/', as in 'jobs/ready'"
    )]
    Name { name: String },
    #[error("invalid capacity {capacity} of {kind} '{name}'; give a number from {min} to {max}")]
    Capacity { name: String, kind: Kind, capacity: u32, min: u32, max: u32 },
    #[error(
        "{kind} '{name}' begins with {initial}, and its capacity is {capacity}; begin with {capacity} or less"
    )]
    Initial { name: String, kind: Kind, initial: u32, capacity: u32 },
    #[error("values of {value_bytes} bytes are too long for {kind} '{name}'; give at most {max} bytes")]
    ValueBytes { name: String, kind: Kind, value_bytes: u32, max: u32 },
    #[error(
        "{kind} '{name}' could take {bytes} bytes of memory, and a hub may take {MAX_HUB_BYTES}; \
         make its capacity or its values smaller"
    )]
    Memory { name: String, kind: Kind, bytes: u64 },
}

impl Description {
    /// Describes a hub of this kind with the minimum capacity, values of up to 256 bytes, and inheritance
    /// where there is an owner.
    #[must_use]
    pub fn new(name: &str, kind: Kind) -> Description {
        Description {
            name: name.into(),
            kind,
            capacity: if kind == Kind::Port { 0 } else { 1 },
            initial: 0,
            value_bytes: if kind.has_values() { 256 } else { 0 },
            value_type: 0,
            inheritance: kind == Kind::Resource,
        }
    }

    /// Checks whether the description is valid.
    ///
    /// # Errors
    /// [`BadDescription`].
    pub fn check(&self) -> Result<(), BadDescription> {
        let Description { kind, capacity, initial, value_bytes, .. } = *self;
        let name = || self.name.clone();
        if !is_hub_name(&self.name) {
            let shown = self.name.chars().take(MAX_NAME_BYTES).collect();
            return Err(BadDescription::Name { name: shown });
        }
        let (min, max) = match kind {
            Kind::Port => (0, 0),
            Kind::Fifo => (1, MAX_CAPACITY),
            Kind::Event | Kind::Resource => (1, 1),
            Kind::Semaphore => (1, MAX_COUNT),
            Kind::Pool => (1, MAX_BLOCKS),
        };
        if !(min..=max).contains(&capacity) {
            return Err(BadDescription::Capacity { name: name(), kind, capacity, min, max });
        }
        let max_initial = if matches!(kind, Kind::Semaphore | Kind::Event) { capacity } else { 0 };
        if initial > max_initial {
            return Err(BadDescription::Initial { name: name(), kind, initial, capacity: max_initial });
        }
        let max = if kind == Kind::Pool { u32::MAX } else { MAX_VALUE_BYTES };
        if value_bytes > max {
            return Err(BadDescription::ValueBytes { name: name(), kind, value_bytes, max });
        }
        let bytes = u64::from(capacity) * u64::from(value_bytes);
        if bytes > MAX_HUB_BYTES {
            return Err(BadDescription::Memory { name: name(), kind, bytes });
        }
        Ok(())
    }
}

/// Whether `name` is a valid name of a hub.
fn is_hub_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(fits)
}
