//! What the near side tells the peer on another node to do next.
//!
//! Commands and answers travel on a channel of their own: what is measured is the bulk channel beside it.

use std::time::Duration;

use tombolo::Channel;

use crate::ring::Error;

/// How long either side may take to come to what the other waits for: an emulated processor fills megabytes slowly.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

const COMMAND_BYTES: usize = 24;
const ANSWER: u64 = 100;

/// Which copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// From private memory to private memory, as the C library does it.
    Own,
    /// From a buffer of the pool to private memory.
    Pull,
    /// The reverse.
    Push,
}

impl Way {
    pub(super) const ALL: [Way; 3] = [Way::Own, Way::Pull, Way::Push];
}

/// What the peer does until the next command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Command {
    /// Take the pool that is assigned now.
    Join,
    /// Let it go.
    Leave,
    /// Read so many buffers that are moved there, and pass them back.
    Take { count: u64 },
    /// Fill so many buffers, and move them back.
    Give { count: u64 },
    /// Pass so many back as they come.
    Return { count: u64 },
    /// Copy again and again for so long, with a buffer that is moved there and passed back; answer with nanoseconds of one.
    Copy { way: Way, length_ns: u64 },
    /// End.
    Bye,
}

impl Command {
    fn words(self) -> [u64; 3] {
        match self {
            Command::Join => [1, 0, 0],
            Command::Leave => [2, 0, 0],
            Command::Take { count } => [3, count, 0],
            Command::Give { count } => [4, count, 0],
            Command::Return { count } => [5, count, 0],
            Command::Copy { way, length_ns } => [6, length_ns, way as u64],
            Command::Bye => [7, 0, 0],
        }
    }

    fn from_words([code, argument, way]: [u64; 3]) -> Option<Command> {
        Some(match (code, argument) {
            (1, 0) => Command::Join,
            (2, 0) => Command::Leave,
            (3, count) => Command::Take { count },
            (4, count) => Command::Give { count },
            (5, count) => Command::Return { count },
            (6, length_ns) => {
                Command::Copy { way: Way::ALL.into_iter().find(|known| *known as u64 == way)?, length_ns }
            }
            (7, 0) => Command::Bye,
            _ => return None,
        })
    }
}

/// Tells the peer what to do.
pub(super) fn tell(control: &mut Channel, command: Command) -> Result<(), Error> {
    send(control, command.words())
}

/// Says that it was done, and what it took.
pub(super) fn answer(control: &mut Channel, took_ns: u64) -> Result<(), Error> {
    send(control, [ANSWER, took_ns, 0])
}

/// Hears what to do.
pub(super) fn hear(control: &mut Channel) -> Result<Command, Error> {
    let words = recv(control)?;
    Command::from_words(words).ok_or(Error::Unexpected { length_bytes: COMMAND_BYTES })
}

/// Waits until the peer has done what it was told.
pub(super) fn answered(control: &mut Channel) -> Result<u64, Error> {
    match recv(control)? {
        [ANSWER, took_ns, 0] => Ok(took_ns),
        _ => Err(Error::Unexpected { length_bytes: COMMAND_BYTES }),
    }
}

fn send(control: &mut Channel, words: [u64; 3]) -> Result<(), Error> {
    let mut message = [0; COMMAND_BYTES];
    for (bytes, word) in message.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    Ok(control.send(&message, PATIENCE)?)
}

fn recv(control: &mut Channel) -> Result<[u64; 3], Error> {
    let mut message = Vec::with_capacity(COMMAND_BYTES);
    control.recv_into(&mut message, PATIENCE)?;
    match message.as_chunks() {
        (&[code, argument, way], []) => Ok([code, argument, way].map(u64::from_le_bytes)),
        _ => Err(Error::Unexpected { length_bytes: message.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_back() {
        for command in [
            Command::Join,
            Command::Leave,
            Command::Take { count: 1 },
            Command::Give { count: u64::MAX },
            Command::Return { count: 0 },
            Command::Copy { way: Way::Pull, length_ns: 5 },
            Command::Bye,
        ] {
            assert_eq!(Command::from_words(command.words()), Some(command));
        }
        for wrong in [[0, 0, 0], [6, 1, 3], [7, 1, 0], [ANSWER, 0, 0]] {
            assert_eq!(Command::from_words(wrong), None);
        }
    }
}
