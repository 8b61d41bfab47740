//! What every transport does.

use std::os::fd::BorrowedFd;

use tombolo_link::TransportKind;
use tombolo_platform::event::Interest;

use crate::error::ChannelError;

/// What a channel can carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The longest message, in bytes.
    pub max_message_bytes: usize,
}

/// What has passed through one end of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Messages accepted for sending.
    pub messages_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Messages received.
    pub messages_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// How often this end rang a sleeping peer: each is a system call or a device access.
    pub rings: u64,
    /// How often this end went to sleep.
    pub sleeps: u64,
}

/// One end of a channel: two one-way queues of whole messages, in order, lost only with the channel.
///
/// None of these blocks. [`crate::wait`] turns them into operations with deadlines.
pub trait Transport {
    /// What carries it.
    fn kind(&self) -> TransportKind;

    /// What it can carry.
    fn limits(&self) -> Limits;

    /// What has passed so far.
    fn stats(&self) -> Stats;

    /// Sends a message, whole or not at all.
    ///
    /// # Errors
    /// [`ChannelError::WouldBlock`] when there is no room; the others are final, except
    /// [`ChannelError::TooLong`], which concerns this message only.
    fn try_send(&mut self, message: &[u8]) -> Result<(), ChannelError>;

    /// Receives the next message in place of what `buffer` held; `None` when there is none yet.
    ///
    /// # Errors
    /// [`ChannelError::Closed`] and [`ChannelError::PeerDied`] only after everything sent before was received.
    fn try_recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, ChannelError>;

    /// Whether [`try_recv_into`](Self::try_recv_into) would return something other than "none yet": a message, an
    /// end, or an error.
    fn readable(&mut self) -> bool;

    /// Announces that this end is about to sleep. `true` means that it may; `false` that something came in the
    /// meantime, so look again. After either call [`wake_up`](Self::wake_up).
    ///
    /// Once it returned `true`, whatever the peer does makes a source of [`sources`](Self::sources) ready: no
    /// wake-up is lost.
    fn about_to_sleep(&mut self, awaited: Interest) -> bool;

    /// What to sleep on.
    fn sources<'a>(&'a self, awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>);

    /// Takes back the announcement and takes note of what the sources have to say.
    fn wake_up(&mut self);

    /// Closes this end in order: the peer receives everything sent before, then [`ChannelError::Closed`].
    fn close(&mut self);
}
