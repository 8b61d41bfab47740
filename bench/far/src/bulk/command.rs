//! Commands of the near side to the peer on another node.
//!
//! Commands and answers use a separate channel: what is measured is the bulk channel beside it.

use std::time::Duration;

use tombolo::Channel;

use crate::Error;

/// Maximum time that either side may keep the other waiting: an emulated processor fills megabytes slowly.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Length of a command and of an answer.
pub const COMMAND_BYTES: usize = 24;
/// First word of an answer.
pub const ANSWER: u64 = 100;

/// Direction of the far side's copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From private memory to private memory, by the C library's `memcpy`.
    Own,
    /// From a buffer of the pool to private memory.
    Pull,
    /// From private memory to a buffer of the pool.
    Push,
}

impl Way {
    /// All directions in order of their numbers.
    pub const ALL: [Way; 3] = [Way::Own, Way::Pull, Way::Push];
}

/// Command to the peer, executed until the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Create a pool of `count` buffers of `bytes` bytes, and assign it to the channel.
    Make {
        /// Length of a buffer.
        bytes: u64,
        /// Number of buffers.
        count: u32,
    },
    /// Remove the pool from the channel.
    Drop,
    /// Take the pool that is being assigned.
    Join,
    /// Drop the pool.
    Leave,
    /// Read `count` moved buffers, and pass them back.
    Take {
        /// Number of buffers.
        count: u64,
    },
    /// Fill `count` buffers, and move them back.
    Give {
        /// Number of buffers.
        count: u64,
    },
    /// Let the other side fill `count` buffers of this side's pool, and read them.
    Fetch {
        /// Number of buffers.
        count: u64,
    },
    /// Pass back the given number of buffers as they arrive.
    Return {
        /// Number of buffers.
        count: u64,
    },
    /// Transfer the right to a buffer and take it back, `count` times; answer with the picoseconds of one
    /// round.
    Lend {
        /// Number of buffers.
        count: u64,
    },
    /// Like `Lend`, with a buffer that is filled each time.
    Deliver {
        /// Number of buffers.
        count: u64,
    },
    /// Copy repeatedly for a time, using a buffer that is moved to this side and passed back; answer with the
    /// picoseconds of one copy.
    Copy {
        /// Direction of the copy.
        way: Way,
        /// Duration of the copying, in nanoseconds.
        length_ns: u64,
    },
    /// End the measurement and exit.
    Bye,
}

impl Command {
    /// Encodes the command as numbers, for the network.
    #[must_use]
    pub fn words(self) -> [u64; 3] {
        match self {
            Command::Join => [1, 0, 0],
            Command::Leave => [2, 0, 0],
            Command::Take { count } => [3, count, 0],
            Command::Give { count } => [4, count, 0],
            Command::Return { count } => [5, count, 0],
            Command::Copy { way, length_ns } => [6, length_ns, way as u64],
            Command::Bye => [7, 0, 0],
            Command::Make { bytes, count } => [8, bytes, count.into()],
            Command::Drop => [9, 0, 0],
            Command::Fetch { count } => [10, count, 0],
            Command::Lend { count } => [11, count, 0],
            Command::Deliver { count } => [12, count, 0],
        }
    }

    /// Decodes [`words`](Self::words); `None` if they are invalid.
    #[must_use]
    pub fn from_words([code, argument, more]: [u64; 3]) -> Option<Command> {
        Some(match (code, argument) {
            (1, 0) => Command::Join,
            (2, 0) => Command::Leave,
            (3, count) => Command::Take { count },
            (4, count) => Command::Give { count },
            (5, count) => Command::Return { count },
            (6, length_ns) => {
                Command::Copy { way: Way::ALL.into_iter().find(|known| *known as u64 == more)?, length_ns }
            }
            (7, 0) => Command::Bye,
            (8, bytes) => Command::Make { bytes, count: u32::try_from(more).ok()? },
            (9, 0) => Command::Drop,
            (10, count) => Command::Fetch { count },
            (11, count) => Command::Lend { count },
            (12, count) => Command::Deliver { count },
            _ => return None,
        })
    }
}

/// Sends a command to the peer.
///
/// # Errors
/// The channel fails.
pub fn send_command(control: &mut Channel, command: Command) -> Result<(), Error> {
    send(control, command.words())
}

/// Sends the answer to a command, with its time.
///
/// # Errors
/// The channel fails.
pub fn send_answer(control: &mut Channel, took_ps: u64) -> Result<(), Error> {
    send(control, [ANSWER, took_ps, 0])
}

/// Receives the next command.
///
/// # Errors
/// The channel fails, or the message is not a command.
pub fn recv_command(control: &mut Channel) -> Result<Command, Error> {
    let words = recv(control)?;
    Command::from_words(words).ok_or(Error::Unexpected { length_bytes: COMMAND_BYTES })
}

/// Waits for the answer to a command.
///
/// # Errors
/// The channel fails, or the message is not an answer.
pub fn recv_answer(control: &mut Channel) -> Result<u64, Error> {
    match recv(control)? {
        [ANSWER, took_ps, 0] => Ok(took_ps),
        _ => Err(Error::Unexpected { length_bytes: COMMAND_BYTES }),
    }
}

fn send(control: &mut Channel, words: [u64; 3]) -> Result<(), Error> {
    Ok(control.send(&to_bytes(words))?)
}

fn recv(control: &mut Channel) -> Result<[u64; 3], Error> {
    let mut message = Vec::with_capacity(COMMAND_BYTES);
    control.recv_into(&mut message)?;
    match <[u8; COMMAND_BYTES]>::try_from(message.as_slice()) {
        Ok(message) => Ok(from_bytes(message)),
        Err(_) => Err(Error::Unexpected { length_bytes: message.len() }),
    }
}

/// Converts an encoded command into a message.
#[must_use]
pub fn to_bytes(words: [u64; 3]) -> [u8; COMMAND_BYTES] {
    let mut message = [0; COMMAND_BYTES];
    for (bytes, word) in message.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    message
}

/// Converts a message into an encoded command.
#[must_use]
pub fn from_bytes(message: [u8; COMMAND_BYTES]) -> [u64; 3] {
    let mut words = [0; 3];
    for (word, bytes) in words.iter_mut().zip(message.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_round_trip() {
        for command in [
            Command::Join,
            Command::Leave,
            Command::Take { count: 1 },
            Command::Give { count: u64::MAX },
            Command::Return { count: 0 },
            Command::Copy { way: Way::Pull, length_ns: 5 },
            Command::Bye,
            Command::Make { bytes: 1 << 40, count: u32::MAX },
            Command::Drop,
            Command::Fetch { count: 3 },
            Command::Lend { count: 64 },
            Command::Deliver { count: 2 },
        ] {
            assert_eq!(Command::from_words(from_bytes(to_bytes(command.words()))), Some(command));
        }
        for wrong in [[0, 0, 0], [6, 1, 3], [7, 1, 0], [8, 1, 1 << 32], [9, 1, 0], [ANSWER, 0, 0]] {
            assert_eq!(Command::from_words(wrong), None);
        }
    }
}
