//! Events, 32 bytes each.

use crate::layout::EVENT_BYTES;

/// Kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum EventKind {
    /// A reading of the monotonic clock: `subject` is nanoseconds.
    Clock = 1,
    /// A message was accepted for sending: `subject` is the channel, `value` the message's number from 1,
    /// `size` its length in bytes.
    Send = 2,
    /// A message was received; fields as for [`Send`](Self::Send).
    Receive = 3,
    /// A sleeping peer was woken: `subject` is the channel.
    Ring = 4,
    /// This end goes to sleep: `subject` is the channel, `value` the awaited condition ([`AWAITS_MESSAGE`],
    /// [`AWAITS_ROOM`]).
    Sleep = 5,
    /// This end woke up: `subject` is the channel, `value` 1 if it was rung.
    Wake = 6,
    /// A channel was opened: `subject` is the channel, `value` the peer, `size` the transport.
    Open = 7,
    /// This end was closed: `subject` is the channel.
    Close = 8,
    /// The peer is gone: `subject` is the channel, `value` the way it ended ([`GONE_CLOSED`], [`GONE_DIED`],
    /// [`GONE_BROKEN`]).
    Gone = 9,
    /// A domain was started: `subject` is its id.
    Spawn = 10,
    /// The end of a child was reported: `subject` is its id.
    ChildEnded = 11,
    /// A span begins: `subject` is the text of its name.
    SpanBegin = 12,
    /// A span ends: `subject` is the text of its name.
    SpanEnd = 13,
    /// A marker of the program: `subject` is the text of its name, `value` its argument.
    Marker = 14,
    /// A variable of the program changed: `subject` is the text of its name.
    Value = 15,
}

/// [`EventKind::Sleep`] for a message.
pub const AWAITS_MESSAGE: u64 = 1;
/// [`EventKind::Sleep`] for room.
pub const AWAITS_ROOM: u64 = 2;
/// [`EventKind::Gone`] by closing.
pub const GONE_CLOSED: u64 = 1;
/// [`EventKind::Gone`] by death.
pub const GONE_DIED: u64 = 2;
/// [`EventKind::Gone`] by violating the protocol.
pub const GONE_BROKEN: u64 = 3;

impl EventKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [EventKind; 15] = [
        EventKind::Clock,
        EventKind::Send,
        EventKind::Receive,
        EventKind::Ring,
        EventKind::Sleep,
        EventKind::Wake,
        EventKind::Open,
        EventKind::Close,
        EventKind::Gone,
        EventKind::Spawn,
        EventKind::ChildEnded,
        EventKind::SpanBegin,
        EventKind::SpanEnd,
        EventKind::Marker,
        EventKind::Value,
    ];

    /// Returns the kind with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<EventKind> {
        EventKind::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }

    /// Returns the name in listings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Clock => "clock",
            EventKind::Send => "send",
            EventKind::Receive => "receive",
            EventKind::Ring => "ring",
            EventKind::Sleep => "sleep",
            EventKind::Wake => "wake",
            EventKind::Open => "open",
            EventKind::Close => "close",
            EventKind::Gone => "gone",
            EventKind::Spawn => "spawn",
            EventKind::ChildEnded => "child-ended",
            EventKind::SpanBegin => "begin",
            EventKind::SpanEnd => "end",
            EventKind::Marker => "marker",
            EventKind::Value => "value",
        }
    }

    /// Whether `subject` is a channel.
    #[must_use]
    pub fn is_of_channel(self) -> bool {
        (EventKind::Send..=EventKind::Gone).contains(&self)
    }

    /// Whether `subject` is a text.
    #[must_use]
    pub fn is_named(self) -> bool {
        self >= EventKind::SpanBegin
    }
}

/// Event of a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Time on the domain's clock.
    pub ticks: u64,
    /// Kind of the event.
    pub kind: EventKind,
    /// Whether it happened at the accepting end of the channel, not the connecting one.
    pub accepting: bool,
    /// Number of the thread in the domain.
    pub thread: u16,
    /// Length of a message in bytes, or a small number; see [`EventKind`].
    pub size: u32,
    /// Object concerned; see [`EventKind`].
    pub subject: u64,
    /// Additional value; see [`EventKind`].
    pub value: u64,
}

/// Error of decoding four words that are not a valid event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid event of kind {kind} with flags {flags:#x}")]
#[allow(missing_docs, reason = "the messages name the fields")]
pub struct InvalidEvent {
    pub kind: u8,
    pub flags: u8,
}

impl Event {
    /// Encodes the event as words.
    #[must_use]
    #[inline]
    pub const fn to_words(&self) -> [u64; 4] {
        let head = self.kind as u64
            | (self.accepting as u64) << 8
            | (self.thread as u64) << 16
            | (self.size as u64) << 32;
        [self.ticks, head, self.subject, self.value]
    }

    /// Decodes an event from words.
    ///
    /// # Errors
    /// The kind is unknown, or undefined flags are set.
    pub fn from_words([ticks, head, subject, value]: [u64; 4]) -> Result<Event, InvalidEvent> {
        let (kind, flags) = (head as u8, (head >> 8) as u8);
        let unknown = InvalidEvent { kind, flags };
        let kind = EventKind::from_code(kind).ok_or(unknown)?;
        if flags > 1 {
            return Err(unknown);
        }
        let (thread, size) = ((head >> 16) as u16, (head >> 32) as u32);
        Ok(Event { ticks, kind, accepting: flags == 1, thread, size, subject, value })
    }

    /// Encodes the event as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.to_words()) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes an event from bytes.
    ///
    /// # Errors
    /// Same as [`from_words`](Self::from_words).
    pub fn from_bytes(bytes: &[u8; EVENT_BYTES]) -> Result<Event, InvalidEvent> {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| words.get(index).map_or(0, |word| u64::from_le_bytes(*word));
        Event::from_words([word(0), word(1), word(2), word(3)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_golden() {
        let event = Event {
            ticks: 0x0102_0304_0506_0708,
            kind: EventKind::Receive,
            accepting: true,
            thread: 0x1112,
            size: 0x2122_2324,
            subject: 0x31,
            value: 0x41,
        };
        let mut golden = [0; 32];
        golden[..8].copy_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1]);
        golden[8..16].copy_from_slice(&[3, 1, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21]);
        golden[16] = 0x31;
        golden[24] = 0x41;
        assert_eq!(event.to_bytes(), golden);
        assert_eq!(Event::from_bytes(&golden), Ok(event));
    }

    #[test]
    fn undefined_kinds_and_flags_are_refused() {
        for (index, kind) in EventKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, index + 1);
            assert_eq!(EventKind::from_code(*kind as u8), Some(*kind));
        }
        assert_eq!(Event::from_words([0; 4]), Err(InvalidEvent { kind: 0, flags: 0 }));
        assert!(Event::from_words([0, 16, 0, 0]).is_err());
        assert_eq!(Event::from_words([0, 2 | 2 << 8, 0, 0]), Err(InvalidEvent { kind: 2, flags: 2 }));
    }
}
