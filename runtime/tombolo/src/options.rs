//! Options for opening channels.

use std::time::Duration;

use tombolo_bulk::wire::{INTERFACE_HASH, MAX_METADATA_BYTES, MAX_POOLS, MAX_SEGMENTS};
use tombolo_bulk::{Terms, Trust};
use tombolo_link::ChannelConfig;
use tombolo_ring::{SlotSize, Variant};

use crate::error::Error;
use crate::opening::OpenRequest;

/// Options of a channel. Both sides must agree on the slot size and the interface; the connecting side
/// chooses the depth and the variant of the rings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelOptions {
    pub(crate) config: ChannelConfig,
    pub(crate) interface_hash: u64,
    pub(crate) spin_ns: u64,
    /// Timeout of the channel, if it differs from the domain's.
    pub(crate) timeout: Option<Duration>,
    /// Whether to open a socket for descriptors beside the channel, if both ends are on one kernel.
    pub(crate) companion: bool,
    /// Request to the listener.
    pub(crate) request: Option<OpenRequest>,
}

impl Default for ChannelOptions {
    /// 64 slots of 64 bytes in each direction (messages of up to 3,584 bytes), no interface, and spinning for
    /// about the cost of a wake-up before sleeping.
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
    /// Sets the size of a slot in bytes: 32, 64 or 128; 8 of them are the control word. A message may span
    /// many slots.
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

    /// Sets the number of slots of each ring: a power of two from 2 to 65,536. The capacity of the ring
    /// limits the length of a message.
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

    /// Returns slots with a flag in the slot instead of credits: for coherent memory only.
    #[must_use]
    pub fn used_flag(mut self) -> Self {
        self.config.variant = Variant::UsedFlag;
        self
    }

    /// Sets a hash that identifies the meaning of the messages; both sides must use the same. 0 means none.
    #[must_use]
    pub fn interface_hash(mut self, hash: u64) -> Self {
        self.interface_hash = hash;
        self
    }

    /// Sets the timeout of the channel's operations, which [`Channel::within`](crate::Channel::within)
    /// overrides; by default the domain's.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how long to spin before sleeping, in nanoseconds; 0 sleeps at once, `u64::MAX` never.
    #[must_use]
    pub fn spin_ns(mut self, spin_ns: u64) -> Self {
        self.spin_ns = spin_ns;
        self
    }
}

/// Options of a bulk channel. Trust must be the same on both sides; of all other values the lower one
/// applies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BulkOptions {
    pub(crate) channel: ChannelOptions,
    pub(crate) terms: Terms,
    pub(crate) max_pool_bytes: u64,
    pub(crate) asks: bool,
}

impl Default for BulkOptions {
    /// Full trust, 32 pools of up to 4 GiB each, 32 pieces per transfer, 2,048 bytes of metadata.
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

/// Maximum number of descriptors in one packet of a socket.
const PIECES_WITHOUT_TRUST: u8 = tombolo_platform::socket::MAX_FDS as u8;

impl BulkOptions {
    /// Sets how far the peer is trusted. Without full trust a transfer has up to 8 pieces.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.terms.trust = trust;
        if trust.has_own_memory() {
            self.terms.max_segments = self.terms.max_segments.min(PIECES_WITHOUT_TRUST);
        }
        self
    }

    /// Sets the maximum number of pools on the channel, of both sides together: 1 to 32.
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

    /// Sets the maximum size of a transfer's metadata in bytes: up to 2,048.
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

    /// Sets the maximum size of a pool to accept from the peer, in bytes.
    #[must_use]
    pub fn max_pool_bytes(mut self, bytes: u64) -> Self {
        self.max_pool_bytes = bytes;
        self
    }

    /// Reports pools that the peer offers as [`Arrival::Offered`](crate::Arrival::Offered) instead of
    /// accepting them automatically.
    #[must_use]
    pub fn ask_before_taking_pools(mut self) -> Self {
        self.asks = true;
        self
    }

    /// Sets the slots and timeouts of the underlying channel. Its interface and request are ignored.
    #[must_use]
    pub fn channel(mut self, options: ChannelOptions) -> Self {
        self.channel = options;
        self
    }

    /// Returns the options of the underlying channel.
    pub(crate) fn underneath(&self) -> ChannelOptions {
        let mut options = self.channel.clone().interface_hash(INTERFACE_HASH);
        options.companion = self.terms.trust.has_own_memory();
        options.request = None;
        options
    }
}

// The limits stated in error messages.
const _: () = assert!(MAX_POOLS == 32 && MAX_METADATA_BYTES == 2048);
