//! How channels and domains are opened.

use std::time::Duration;

use tombolo_link::ChannelConfig;
use tombolo_ring::{SlotSize, Variant};

use crate::error::Error;

/// How a channel is opened. Both sides must agree on the slot size and the interface; the rings' depth and
/// variant are the connecting side's choice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelOptions {
    pub(crate) config: ChannelConfig,
    pub(crate) interface_hash: u64,
    pub(crate) spin_ns: u64,
    /// The domain's, where it is not given.
    pub(crate) timeout: Option<Duration>,
    /// With a socket beside it, for descriptors, where both ends are on one kernel.
    pub(crate) companion: bool,
}

impl Default for ChannelOptions {
    /// 64 slots of 64 bytes each way (messages of up to 3,584 bytes), no interface, spinning for about the cost of a wake before sleeping.
    fn default() -> Self {
        ChannelOptions {
            config: ChannelConfig::default(),
            interface_hash: 0,
            spin_ns: tombolo_transport::wait::DEFAULT_SPIN_NS,
            timeout: None,
            companion: false,
        }
    }
}

impl ChannelOptions {
    /// Bytes of a slot: 32, 64 or 128; each carries 8 less. A message may take many slots.
    ///
    /// # Errors
    /// [`Error::BadOption`] for another size.
    pub fn slot_bytes(mut self, bytes: usize) -> Result<Self, Error> {
        self.config.slot = SlotSize::from_bytes(bytes).ok_or(Error::BadOption {
            option: "slot_bytes",
            given: bytes as u64,
            allowed: "32, 64 or 128",
        })?;
        Ok(self)
    }

    /// Slots of each ring: a power of two from 2 to 65,536. A message can be as long as what a ring carries.
    ///
    /// # Errors
    /// [`Error::BadOption`] for another number.
    pub fn slots(mut self, slots: u32) -> Result<Self, Error> {
        self.config = ChannelConfig::new(self.config.slot, slots, self.config.variant).map_err(|_| {
            Error::BadOption {
                option: "slots",
                given: slots.into(),
                allowed: "a power of two from 2 to 65536",
            }
        })?;
        Ok(self)
    }

    /// Returns slots by a flag in the slot rather than by credit: for coherent memory only.
    #[must_use]
    pub fn used_flag(mut self) -> Self {
        self.config.variant = Variant::UsedFlag;
        self
    }

    /// A hash that stands for what the messages mean; both sides must have the same. 0 for none.
    #[must_use]
    pub fn interface_hash(mut self, hash: u64) -> Self {
        self.interface_hash = hash;
        self
    }

    /// How long the channel's operations wait, where [`Channel::within`](crate::Channel::within) does not say otherwise: as
    /// long as the domain's, by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long to spin before sleeping, in nanoseconds; 0 sleeps at once, `u64::MAX` never.
    #[must_use]
    pub fn spin_ns(mut self, spin_ns: u64) -> Self {
        self.spin_ns = spin_ns;
        self
    }
}
