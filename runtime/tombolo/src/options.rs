//! How channels and domains are opened.

use std::time::Duration;

use tombolo_bulk::wire::{INTERFACE_HASH, MAX_METADATA_BYTES, MAX_POOLS, MAX_SEGMENTS};
use tombolo_bulk::{Terms, Trust};
use tombolo_link::ChannelConfig;
use tombolo_ring::{SlotSize, Variant};

use crate::error::Error;
use crate::opening::OpenRequest;

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
    /// What the listener is asked.
    pub(crate) request: Option<OpenRequest>,
}

impl Default for ChannelOptions {
    /// 64 slots of 64 bytes each way (messages of up to 3,584 bytes), no interface, spinning for about the
    /// cost of a wake before sleeping.
    fn default() -> Self {
        ChannelOptions {
            config: ChannelConfig::default(),
            interface_hash: 0,
            spin_ns: tombolo_transport::wait::DEFAULT_SPIN_NS,
            timeout: None,
            companion: false,
            request: None,
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

    /// How long the channel's operations wait, where [`Channel::within`](crate::Channel::within) does not say
    /// otherwise: as long as the domain's, by default.
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

/// How a channel for bulk data is opened. Trust must be the same on both sides; of everything else the lower
/// holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BulkOptions {
    pub(crate) channel: ChannelOptions,
    pub(crate) terms: Terms,
    pub(crate) max_pool_bytes: u64,
    pub(crate) asks: bool,
}

impl Default for BulkOptions {
    /// Trust, 32 pools of up to 4 GiB each, 32 pieces in a transfer, 2,048 bytes of metadata.
    fn default() -> Self {
        BulkOptions {
            channel: ChannelOptions::default(),
            terms: Terms {
                trust: Trust::Full,
                max_pools: MAX_POOLS,
                max_segments: MAX_SEGMENTS as u8,
                max_metadata_bytes: MAX_METADATA_BYTES as u16,
            },
            max_pool_bytes: 4 << 30,
            asks: false,
        }
    }
}

/// Descriptors that travel together: one packet of a socket.
const PIECES_WITHOUT_TRUST: u8 = tombolo_platform::socket::MAX_FDS as u8;

impl BulkOptions {
    /// How far the peer is trusted. Without full trust a transfer has up to 8 pieces.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.terms.trust = trust;
        if trust.brings_memory() {
            self.terms.max_segments = self.terms.max_segments.min(PIECES_WITHOUT_TRUST);
        }
        self
    }

    /// How many pools the channel can have, both sides' together: 1 to 32.
    ///
    /// # Errors
    /// [`Error::BadOption`] for another number.
    pub fn max_pools(mut self, pools: u8) -> Result<Self, Error> {
        if pools == 0 || pools > MAX_POOLS {
            return Err(Error::BadOption { option: "max_pools", given: pools.into(), allowed: "1 to 32" });
        }
        self.terms.max_pools = pools;
        Ok(self)
    }

    /// The most metadata that a transfer carries, in bytes: up to 2,048.
    ///
    /// # Errors
    /// [`Error::BadOption`] for more.
    pub fn max_metadata_bytes(mut self, bytes: u16) -> Result<Self, Error> {
        if usize::from(bytes) > MAX_METADATA_BYTES {
            let (option, given) = ("max_metadata_bytes", bytes.into());
            return Err(Error::BadOption { option, given, allowed: "0 to 2048" });
        }
        self.terms.max_metadata_bytes = bytes;
        Ok(self)
    }

    /// The largest pool to take from the peer, in bytes.
    #[must_use]
    pub fn max_pool_bytes(mut self, bytes: u64) -> Self {
        self.max_pool_bytes = bytes;
        self
    }

    /// Pools that the peer offers are not taken by themselves, but told as
    /// [`Arrival::Offered`](crate::Arrival::Offered).
    #[must_use]
    pub fn ask_before_taking_pools(mut self) -> Self {
        self.asks = true;
        self
    }

    /// Slots and waiting of the channel that the transfers are told on. What it says of interfaces and
    /// requests does not count.
    #[must_use]
    pub fn channel(mut self, options: ChannelOptions) -> Self {
        self.channel = options;
        self
    }

    /// How the channel underneath is opened.
    pub(crate) fn underneath(&self) -> ChannelOptions {
        let mut options = self.channel.clone().interface_hash(INTERFACE_HASH);
        options.companion = self.terms.trust.brings_memory();
        options.request = None;
        options
    }
}

// What errors say is allowed.
const _: () = assert!(MAX_POOLS == 32 && MAX_METADATA_BYTES == 2048);
