//! Frames of a byte stream: a 32-bit little-endian length, then that many bytes.

use std::ops::Range;
use std::os::fd::AsFd;

use rustix::net::RecvFlags;
use tombolo_link::DisconnectReason;
use tombolo_platform::{Errno, OsError};

use crate::error::ChannelError;

/// Value in place of a length by which the peer closes the stream.
pub(crate) const CLOSE: u32 = u32::MAX;

/// Value in place of a length by which a relay announces why it releases the channel. A word follows, see
/// [`DisconnectReason::to_word`](tombolo_link::DisconnectReason::to_word).
pub(crate) const DISCONNECTED: u32 = u32::MAX - 1;

/// Size of a length field, in bytes.
pub(crate) const LENGTH_BYTES: usize = 4;

/// Minimum room for a read, in bytes.
const READ_BYTES: usize = 16 * 1024;

/// Next frame among the received bytes.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Frame {
    /// The frame is incomplete.
    Partial,
    /// A message, with its range in the buffer.
    Message(Range<usize>),
    /// The peer closed the stream.
    Close,
    /// A relay releases the channel for this reason.
    Disconnected(DisconnectReason),
    /// A length above the message limit.
    TooLong(usize),
}

/// Buffer of bytes received and not yet delivered.
#[derive(Debug)]
pub(crate) struct Incoming {
    buffer: Vec<u8>,
    /// Range of these bytes in the buffer.
    held: Range<usize>,
    max_message_bytes: usize,
}

impl Incoming {
    pub(crate) fn new(max_message_bytes: usize) -> Self {
        Incoming { buffer: vec![0; 4 * READ_BYTES], held: 0..0, max_message_bytes }
    }

    /// Returns the maximum number of bytes read ahead, for any input of the peer: the longest frame and one
    /// more read.
    fn limit_bytes(&self) -> usize {
        LENGTH_BYTES + self.max_message_bytes + READ_BYTES
    }

    /// Whether more may be read before a message is taken. Always true while the next frame is incomplete.
    pub(crate) fn has_room(&self) -> bool {
        self.held.len() < self.limit_bytes()
    }

    /// Takes exactly `N` bytes, if they have arrived.
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.buffer[self.held.clone()].first_chunk::<N>()?;
        self.held.start += N;
        Some(bytes)
    }

    /// Returns the next frame without taking it.
    pub(crate) fn peek(&self) -> Frame {
        self.frame_at(self.held.start)
    }

    fn frame_at(&self, start: usize) -> Frame {
        let Some(head) = self.buffer[start..self.held.end].first_chunk::<LENGTH_BYTES>() else {
            return Frame::Partial;
        };
        let length = u32::from_le_bytes(*head);
        let length_bytes = length as usize;
        let body = start + LENGTH_BYTES;
        match length {
            CLOSE => Frame::Close,
            DISCONNECTED => match self.buffer[body..self.held.end].first_chunk::<8>() {
                Some(word) => DisconnectReason::from_word(u64::from_le_bytes(*word))
                    .map_or(Frame::TooLong(length_bytes), Frame::Disconnected),
                None => Frame::Partial,
            },
            _ if length_bytes > self.max_message_bytes => Frame::TooLong(length_bytes),
            _ if self.held.end - body < length_bytes => Frame::Partial,
            _ => Frame::Message(body..body + length_bytes),
        }
    }

    /// Whether the received bytes contain the peer's close, behind any number of messages.
    pub(crate) fn contains_close(&self) -> bool {
        let mut start = self.held.start;
        loop {
            match self.frame_at(start) {
                Frame::Message(range) => start = range.end,
                Frame::Close => return true,
                Frame::Partial | Frame::TooLong(_) | Frame::Disconnected(_) => return false,
            }
        }
    }

    /// Takes a message that [`peek`](Self::peek) found.
    pub(crate) fn take_message(&mut self, range: Range<usize>) -> &[u8] {
        self.held.start = range.end;
        &self.buffer[range]
    }

    /// Discards all received bytes.
    pub(crate) fn discard(&mut self) {
        self.held = 0..0;
    }

    /// Reads from the kernel once. Returns whether there was anything to read.
    ///
    /// # Errors
    /// [`ChannelError::PeerDied`] at the end of the stream, or an error of the kernel.
    pub(crate) fn fill(&mut self, socket: impl AsFd) -> Result<bool, ChannelError> {
        if !self.has_room() {
            return Ok(false);
        }
        self.make_room();
        loop {
            match rustix::net::recv(&socket, &mut self.buffer[self.held.end..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(ChannelError::PeerDied),
                Ok((count, _)) => {
                    self.held.end += count;
                    return Ok(true);
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) if is_peer_loss(errno) => return Err(ChannelError::PeerDied),
                Err(errno) => return Err(OsError::new("receive on a stream", errno).into()),
            }
        }
    }

    /// Makes room for a read behind the received bytes: moves them to the front, or grows the
    /// buffer.
    fn make_room(&mut self) {
        if self.held.is_empty() {
            self.held = 0..0;
        }
        if self.buffer.len() - self.held.end >= READ_BYTES {
            return;
        }
        self.buffer.copy_within(self.held.clone(), 0);
        self.held = 0..self.held.len();
        if self.buffer.len() - self.held.end < READ_BYTES {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
    }
}

/// Whether the error means that the peer or its node is gone.
pub(crate) fn is_peer_loss(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::PIPE
            | Errno::CONNRESET
            | Errno::CONNABORTED
            | Errno::TIMEDOUT
            | Errno::HOSTUNREACH
            | Errno::HOSTDOWN
            | Errno::NETUNREACH
            | Errno::NETDOWN
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming_with(max_message_bytes: usize, bytes: &[u8]) -> Incoming {
        let mut incoming = Incoming::new(max_message_bytes);
        incoming.buffer[..bytes.len()].copy_from_slice(bytes);
        incoming.held = 0..bytes.len();
        incoming
    }

    #[test]
    fn errors_of_this_side_are_no_loss_of_the_peer() {
        assert!(
            [Errno::PIPE, Errno::CONNRESET, Errno::TIMEDOUT, Errno::HOSTDOWN].into_iter().all(is_peer_loss)
        );
        assert!(![Errno::NOMEM, Errno::BADF, Errno::INVAL, Errno::NOBUFS].into_iter().any(is_peer_loss));
    }

    #[test]
    fn frames_are_golden() {
        let mut incoming = incoming_with(3, b"\x03\0\0\0abc\0\0\0\0\x01\0\0\0d\xff\xff\xff\xff");
        assert!(incoming.contains_close());
        for message in [&b"abc"[..], b"", b"d"] {
            let Frame::Message(range) = incoming.peek() else { panic!("{message:?}") };
            assert_eq!(incoming.take_message(range), message);
        }
        assert_eq!(incoming.peek(), Frame::Close);
        assert_eq!(incoming.peek(), Frame::Close);
    }

    #[test]
    fn a_frame_is_partial_up_to_its_last_byte() {
        let whole = b"\x03\0\0\0abc";
        for length_bytes in 0..whole.len() {
            assert_eq!(incoming_with(3, &whole[..length_bytes]).peek(), Frame::Partial);
        }
        assert_eq!(incoming_with(3, whole).peek(), Frame::Message(4..7));
        assert_eq!(incoming_with(2, whole).peek(), Frame::TooLong(3));
        assert_eq!(incoming_with(2, b"\xfd\xff\xff\xff").peek(), Frame::TooLong(0xffff_fffd));
        let gone = b"\xfe\xff\xff\xff\x05\0\0\0\0\0\0\0";
        assert_eq!(incoming_with(2, gone).peek(), Frame::Disconnected(DisconnectReason::Died));
        assert_eq!(incoming_with(2, &gone[..11]).peek(), Frame::Partial);
        let nonsense = b"\xfe\xff\xff\xff\x06\0\0\0\0\0\0\0";
        assert_eq!(incoming_with(2, nonsense).peek(), Frame::TooLong(0xffff_fffe));
    }

    #[test]
    fn room_is_bounded_and_enough_for_the_longest_frame() {
        let mut incoming = Incoming::new(1 << 20);
        incoming.held = 0..4 * READ_BYTES;
        while incoming.has_room() {
            incoming.make_room();
            assert!(incoming.buffer.len() - incoming.held.end >= READ_BYTES);
            incoming.held.end += 1;
        }
        assert_eq!(incoming.held.len(), LENGTH_BYTES + (1 << 20) + READ_BYTES);
        assert!(incoming.buffer.len() <= 4 * (1 << 20));
        incoming.held.start = incoming.held.end - 1;
        incoming.make_room();
        assert_eq!(incoming.held.len(), 1);
    }
}
