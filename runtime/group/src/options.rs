//! Options that the members of a group agree on.

use std::time::Duration;

use tombolo::ChannelOptions;
use tombolo_broadcast::{Config, MAX_MEMBERS, Member, Order};

use crate::GroupError;

/// Slot size of the channels between members, and the payload of a slot, in bytes.
const SLOT_BYTES: usize = 128;
const PAYLOAD_BYTES: usize = SLOT_BYTES - 8;

/// Minimum number of slots of a channel: enough for the lists that members of a group of [`MAX_MEMBERS`]
/// exchange.
const MIN_SLOTS: usize = 128;

/// Maximum number of slots of a channel.
const MAX_SLOTS: usize = 1 << 16;

/// Options of a group. They must be the same for all members, except for the timeout and the inbox: a program
/// with other options is refused when it joins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupOptions {
    pub(crate) config: Config,
    pub(crate) timeout: Option<Duration>,
    pub(crate) inbox_bytes: usize,
    pub(crate) spin_ns: Option<u64>,
}

impl Default for GroupOptions {
    /// Four children per member, chunks of 4 KiB of which four are forwarded at a time, a window of 32 chunks
    /// per source, messages of up to 1 MiB in the order of each source, and an inbox of 16 MiB.
    fn default() -> Self {
        GroupOptions { config: Config::default(), timeout: None, inbox_bytes: 16 << 20, spin_ns: None }
    }
}

impl GroupOptions {
    /// Sets the maximum number of members that one forwards a chunk to, *k* in the paper: from 1 to 255. A
    /// low number reduces the load of the source and increases the number of steps to the last member.
    ///
    /// # Errors
    /// [`GroupError::BadOption`] for another number.
    pub fn fan_out(mut self, fan_out: u16) -> Result<Self, GroupError> {
        self.config.fan_out = fan_out;
        in_range("fan_out", fan_out.into(), 1..=255, "1 to 255").map(|()| self)
    }

    /// Sets the maximum size of a chunk, the unit of forwarding, in bytes: 1 to 1,048,576.
    ///
    /// # Errors
    /// [`GroupError::BadOption`] for another number.
    pub fn chunk_bytes(mut self, bytes: u32) -> Result<Self, GroupError> {
        self.config.chunk_bytes = bytes;
        in_range("chunk_bytes", bytes.into(), 1..=1 << 20, "1 to 1048576").map(|()| self)
    }

    /// Sets the number of chunks that a member forwards at a time: 1 to 256. In the paper a member has one
    /// buffer.
    ///
    /// # Errors
    /// [`GroupError::BadOption`] for another number.
    pub fn buffers(mut self, buffers: u16) -> Result<Self, GroupError> {
        self.config.buffers = buffers;
        in_range("buffers", buffers.into(), 1..=256, "1 to 256").map(|()| self)
    }

    /// Sets the maximum number of chunks of one source that not all members have taken: 1 to 65,536. Each
    /// member keeps this number of chunks per source.
    ///
    /// # Errors
    /// [`GroupError::BadOption`] for another number.
    pub fn window_chunks(mut self, chunks: u32) -> Result<Self, GroupError> {
        self.config.window_chunks = chunks;
        in_range("window_chunks", chunks.into(), 1..=1 << 16, "1 to 65536").map(|()| self)
    }

    /// Sets the maximum length of a message in bytes: 1 to 1 GiB.
    ///
    /// # Errors
    /// [`GroupError::BadOption`] for another number.
    pub fn max_message_bytes(mut self, bytes: u32) -> Result<Self, GroupError> {
        self.config.max_message_bytes = bytes;
        in_range("max_message_bytes", bytes.into(), 1..=1 << 30, "1 to 1073741824").map(|()| self)
    }

    /// Delivers all messages to all members in the same order, including a member's own messages.
    #[must_use]
    pub fn total_order(mut self) -> Self {
        self.config.order = Order::Total;
        self
    }

    /// Sets the timeout of operations, which [`Group::within`](crate::Group::within) overrides; by default
    /// the domain's.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the size of the inbox, in bytes of messages that this program has not taken. When it is full,
    /// sources have to wait.
    #[must_use]
    pub fn inbox_bytes(mut self, bytes: usize) -> Self {
        self.inbox_bytes = bytes;
        self
    }

    /// Sets how long to poll channels before sleeping, in nanoseconds; 0 sleeps at once, `u64::MAX` never.
    #[must_use]
    pub fn spin_ns(mut self, spin_ns: u64) -> Self {
        self.spin_ns = Some(spin_ns);
        self
    }

    /// Configuration that must be the same for all members.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the options of the channels between members.
    pub(crate) fn channel(&self) -> Result<ChannelOptions, GroupError> {
        let longest = Member::longest_message_bytes(&self.config, MAX_MEMBERS);
        let chunk = (self.config.chunk_bytes as usize).div_ceil(PAYLOAD_BYTES) + 1;
        let forwarded = chunk * usize::from(self.config.buffers.min(16)) + 8;
        let slots = forwarded.max(longest.div_ceil(PAYLOAD_BYTES)).max(MIN_SLOTS).next_power_of_two();
        let slots = slots.min(MAX_SLOTS) as u32;
        let options = ChannelOptions::default().slot_bytes(SLOT_BYTES)?.slots(slots)?;
        Ok(options.interface_hash(self.config.fingerprint()))
    }
}

fn in_range(
    option: &'static str,
    given: u64,
    range: std::ops::RangeInclusive<u64>,
    allowed: &'static str,
) -> Result<(), GroupError> {
    if range.contains(&given) { Ok(()) } else { Err(GroupError::BadOption { option, given, allowed }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_limited() {
        let options = GroupOptions::default;
        assert!(options().fan_out(1).is_ok() && options().fan_out(255).is_ok());
        for refused in [
            options().fan_out(0).err(),
            options().fan_out(256).err(),
            options().chunk_bytes(0).err(),
            options().chunk_bytes((1 << 20) + 1).err(),
            options().buffers(0).err(),
            options().buffers(257).err(),
            options().window_chunks(0).err(),
            options().window_chunks((1 << 16) + 1).err(),
            options().max_message_bytes(0).err(),
            options().max_message_bytes((1 << 30) + 1).err(),
        ] {
            assert!(matches!(refused, Some(GroupError::BadOption { .. })), "{refused:?}");
        }
    }

    #[test]
    fn channels_carry_the_longest_messages_of_any_options() {
        for (chunk, buffers) in [(1, 1), (1 << 20, 256), (4096, 4)] {
            let options = GroupOptions::default().chunk_bytes(chunk).unwrap().buffers(buffers).unwrap();
            assert!(options.channel().is_ok(), "{chunk} {buffers}");
        }
    }
}
