//! Commands of the near side to the peer.
//!
//! Commands and answers use the measured channel itself, between measurements, so that they are ordered with
//! everything else. They are 16 bytes long, a length that no measured message has.

use crate::Error;

/// Length of a command and of an answer.
pub const COMMAND_BYTES: usize = 16;

/// Length of the short messages in round trips.
pub const SMALL_BYTES: usize = 8;
/// Length of the usual messages in round trips and streams: they fill most of a 64-byte slot.
pub const USUAL_BYTES: usize = 48;
/// Length of streamed messages that measure bandwidth.
pub const LONG_BYTES: usize = 64 << 10;

/// Command to the peer, executed until the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Return every message that arrives on the channel, spinning.
    Echo,
    /// Return every change of the raw line, until the stop value.
    Raw,
    /// Check and count a stream, until `Count`.
    Take {
        /// Length of each message, in bytes.
        bytes: u32,
    },
    /// End of a stream: answer with the number of messages that arrived.
    Count,
    /// Send a stream for the given number of nanoseconds, then the number of its messages.
    Give {
        /// Duration of the stream, in nanoseconds.
        length_ns: u64,
        /// Length of each message: [`USUAL_BYTES`] or [`LONG_BYTES`].
        bytes: u32,
    },
    /// Return the given number of messages of the channel whose two ends sleep.
    Wake {
        /// Number of messages.
        rounds: u64,
    },
    /// Create an end of rings that are [placed](crate::placement) as given, acknowledge it, and return
    /// `count` messages.
    Place {
        /// Index of the placement.
        rings: u64,
        /// Number of messages.
        rounds: u64,
    },
    /// Answer with the time spent waiting for a processor, in nanoseconds, and exit.
    Bye,
}

impl Command {
    /// Encodes the command as a message.
    #[must_use]
    pub fn to_bytes(self) -> [u8; COMMAND_BYTES] {
        match self {
            Command::Echo => pack(1, 0),
            Command::Raw => pack(2, 0),
            Command::Take { bytes } => pack(3, bytes.into()),
            Command::Count => pack(4, 0),
            Command::Give { length_ns, bytes } => pack(5 | u64::from(bytes) << 32, length_ns),
            Command::Wake { rounds } => pack(6, rounds),
            Command::Bye => pack(7, 0),
            Command::Place { rings, rounds } => pack(8 + rings, rounds),
        }
    }

    /// Decodes what [`to_bytes`](Self::to_bytes) encoded.
    ///
    /// # Errors
    /// [`Error::Unexpected`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Command, Error> {
        let unexpected = || Error::Unexpected { length_bytes: bytes.len() };
        let (code, argument) = unpack(bytes).ok_or_else(unexpected)?;
        if let (5, bytes @ 1..) = (code as u32, (code >> 32) as u32) {
            return Ok(Command::Give { length_ns: argument, bytes });
        }
        match (code, argument) {
            (1, _) => Ok(Command::Echo),
            (2, _) => Ok(Command::Raw),
            (3, bytes) => Ok(Command::Take { bytes: u32::try_from(bytes).map_err(|_| unexpected())? }),
            (4, _) => Ok(Command::Count),
            (6, rounds) => Ok(Command::Wake { rounds }),
            (7, _) => Ok(Command::Bye),
            (code @ 8..ANSWER, rounds) => Ok(Command::Place { rings: code - 8, rounds }),
            _ => Err(unexpected()),
        }
    }
}

/// Encodes an answer, which is a count.
#[must_use]
pub fn answer(count: u64) -> [u8; COMMAND_BYTES] {
    pack(ANSWER, count)
}

/// Decodes the count of an answer.
///
/// # Errors
/// [`Error::Unexpected`].
pub fn parse_answer(bytes: &[u8]) -> Result<u64, Error> {
    match unpack(bytes) {
        Some((ANSWER, count)) => Ok(count),
        _ => Err(Error::Unexpected { length_bytes: bytes.len() }),
    }
}

const ANSWER: u64 = 100;

fn pack(code: u64, argument: u64) -> [u8; COMMAND_BYTES] {
    let mut bytes = [0; COMMAND_BYTES];
    bytes[..8].copy_from_slice(&code.to_le_bytes());
    bytes[8..].copy_from_slice(&argument.to_le_bytes());
    bytes
}

fn unpack(bytes: &[u8]) -> Option<(u64, u64)> {
    let ([code, argument], []) = bytes.as_chunks::<8>() else { return None };
    Some((u64::from_le_bytes(*code), u64::from_le_bytes(*argument)))
}

/// Fills a message for the `sequence`-th time: every byte of it depends on the sequence.
#[inline(always)]
pub fn fill<const N: usize>(message: &mut [u8; N], sequence: u64) {
    for (index, word) in (0_u64..).zip(message.as_chunks_mut::<8>().0) {
        *word = word_of(sequence, index).to_le_bytes();
    }
}

/// Returns whether all bytes of a message are as [`fill`] wrote them.
#[inline(always)]
#[must_use]
pub fn is_filled(message: &[u8], length_bytes: usize, sequence: u64) -> bool {
    let mut wrong = 0;
    for (index, word) in (0_u64..).zip(message.as_chunks::<8>().0) {
        wrong |= u64::from_le_bytes(*word) ^ word_of(sequence, index);
    }
    wrong == 0 && message.len() == length_bytes
}

#[inline(always)]
fn word_of(sequence: u64, index: u64) -> u64 {
    sequence.wrapping_add(index.wrapping_mul(0x0101_0101_0101_0101))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_round_trip() {
        let commands = [
            Command::Echo,
            Command::Raw,
            Command::Take { bytes: 48 },
            Command::Count,
            Command::Give { length_ns: 25_000_000, bytes: 65_536 },
            Command::Give { length_ns: u64::MAX, bytes: u32::MAX },
            Command::Wake { rounds: u64::MAX },
            Command::Bye,
            Command::Place { rings: 7, rounds: 3200 },
        ];
        for command in commands {
            assert_eq!(Command::from_bytes(&command.to_bytes()).expect("it is one"), command);
        }
        assert!(Command::from_bytes(&answer(3)).is_err());
        assert!(Command::from_bytes(&[0; 8]).is_err());
        assert!(Command::from_bytes(&[0; 17]).is_err());
        assert!(Command::from_bytes(&pack(5, 1)).is_err(), "a stream of messages of no bytes");
        assert!(Command::from_bytes(&pack(3, 1 << 32)).is_err());
        assert_eq!(parse_answer(&answer(3)).expect("it is one"), 3);
        assert!(parse_answer(&Command::Bye.to_bytes()).is_err());
    }

    #[test]
    fn no_measured_message_looks_like_a_command() {
        assert_ne!(SMALL_BYTES, COMMAND_BYTES);
        assert_ne!(USUAL_BYTES, COMMAND_BYTES);
        assert!(crate::figures::link::LENGTHS.iter().all(|bytes| *bytes != COMMAND_BYTES));
    }

    #[test]
    fn any_changed_byte_is_detected() {
        let mut message = [0; USUAL_BYTES];
        fill(&mut message, 7);
        assert!(is_filled(&message, USUAL_BYTES, 7));
        assert!(!is_filled(&message, USUAL_BYTES, 8));
        assert!(!is_filled(&message[..40], USUAL_BYTES, 7));
        for index in 0..USUAL_BYTES {
            let mut changed = message;
            changed[index] ^= 0x10;
            assert!(!is_filled(&changed, USUAL_BYTES, 7), "byte {index}");
        }
    }
}
