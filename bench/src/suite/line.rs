//! Control line between the two programs of a comparison: commands and answers, outside of what is measured.

use std::io::IsTerminal;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::{Deadline, Errno, OsError, socket};

use super::work::{Counted, Work};
use super::{Error, Metric};

/// Maximum length of a command or answer, in bytes.
const MAX_BYTES: usize = 4096;

/// Timeout of one command: a slice on a busy machine with blocking peers.
const TIMEOUT: Duration = Duration::from_secs(60);

/// One end of the control line.
#[derive(Debug)]
pub struct ControlLine {
    socket: OwnedFd,
}

/// Command from the near side to the far side.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Command {
    /// Select the peer and the name of the meeting. The descriptor of the shared memory comes along.
    Meet { peer: String, meeting: String },
    /// Pin the thread to this processor.
    Pin { cpu: usize },
    /// Open the far end number `index`, for measuring `metric`.
    Open { index: u32, metric: Metric },
    /// Drop all ends.
    Close,
    /// Answer the ping-pong of the bare lines until it is stopped.
    Probe,
    /// Do the far half of `work` on end `index`.
    Work { index: u32, work: Work },
    /// Do the far half of these round trips on end `index`, and report the number of system calls.
    Count { index: u32, rounds: Counted },
    /// Report resource usage, except memory.
    Usage,
    /// Report memory usage.
    Weigh,
    /// Exit.
    Bye,
}

/// Answer of the far side to a command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The command was executed.
    Done {
        /// Time taken, in nanoseconds; for a stream, from its first message to its last.
        elapsed_ns: u64,
        /// Processor time used by the program so far, in nanoseconds.
        cpu_ns: u64,
        /// Time that its measuring thread has waited for a processor so far, in nanoseconds.
        waited_ns: u64,
        /// Number of doorbells rung to wake a sleeping peer.
        rings: u64,
        /// System calls made by the command, if counted.
        calls: u64,
    },
    /// Memory usage of the program.
    Weighed {
        /// Private memory plus its part of shared memory, in bytes.
        resident_bytes: u64,
    },
    /// The command failed.
    Failed {
        /// Description of the error.
        why: String,
    },
}

impl ControlLine {
    pub(super) fn pair() -> Result<(ControlLine, OwnedFd), Error> {
        let (near, far) = socket::pair(socket::SocketKind::Packet)?;
        Ok((ControlLine { socket: near }, far))
    }

    /// Creates a line over one end of a socket pair.
    pub(super) fn over(socket: OwnedFd) -> ControlLine {
        ControlLine { socket }
    }

    /// Takes the far side's end, which is its standard input.
    pub(super) fn inherited() -> Result<ControlLine, Error> {
        let input = std::io::stdin();
        if input.is_terminal() {
            return Err(Error::Far { what: "is started by `tombolo bench`, not by hand".into() });
        }
        let copy = input.as_fd().try_clone_to_owned();
        let socket = copy.map_err(|error| OsError::from_io("use the line to the near side", &error))?;
        Ok(ControlLine { socket })
    }

    pub(super) fn send_message(&self, message: &impl Serialize) -> Result<(), Error> {
        self.send_message_with(message, &[])
    }

    pub(super) fn send_message_with(
        &self,
        message: &impl Serialize,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), Error> {
        let text = serde_json::to_vec(message)
            .map_err(|error| Error::Far { what: format!("cannot be told: {error}") })?;
        self.send(&text, fds)
    }

    fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        match socket::send(&self.socket, bytes, fds) {
            Ok(_) => Ok(()),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(ended()),
            Err(errno) => Err(OsError::new("tell the other side", errno).into()),
        }
    }

    pub(super) fn recv_message<T: DeserializeOwned>(&self) -> Result<T, Error> {
        self.recv_message_with().map(|(message, _)| message)
    }

    pub(super) fn recv_message_with<T: DeserializeOwned>(&self) -> Result<(T, Vec<OwnedFd>), Error> {
        let (bytes, fds) = self.receive(TIMEOUT)?;
        let message = serde_json::from_slice(&bytes);
        Ok((message.map_err(|error| Error::Far { what: format!("makes no sense: {error}") })?, fds))
    }

    fn receive(&self, timeout: Duration) -> Result<(Vec<u8>, Vec<OwnedFd>), Error> {
        let deadline = Deadline::after(timeout);
        let mut bytes = vec![0; MAX_BYTES];
        loop {
            match socket::receive(&self.socket, &mut bytes) {
                Ok(received) if received.length > 0 => {
                    bytes.truncate(received.length);
                    return Ok((bytes, received.fds));
                }
                Ok(_) | Err(Errno::CONNRESET) => return Err(ended()),
                Err(Errno::AGAIN) if deadline.passed() => return Err(Error::Stalled { waited: timeout }),
                Err(Errno::AGAIN) => {
                    poll(&[(self.socket.as_fd(), Interest::Read)], Some(deadline))?;
                }
                Err(errno) => return Err(OsError::new("hear the other side", errno).into()),
            }
        }
    }

    /// Sends descriptors to the other side, which [takes](Self::take_fds) them while opening the same end.
    ///
    /// # Errors
    /// The other side is gone.
    pub fn give_fds(&self, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        self.send(b"fds", fds)
    }

    /// Receives `N` descriptors from the other side.
    ///
    /// # Errors
    /// The other side sends a different number, or none in time.
    pub fn take_fds<const N: usize>(&self) -> Result<[OwnedFd; N], Error> {
        let (_, fds) = self.receive(TIMEOUT)?;
        let found = fds.len();
        fds.try_into().map_err(|_| Error::Far { what: format!("gave {found} descriptors where {N} belong") })
    }
}

fn ended() -> Error {
    Error::Far { what: "has ended".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_descriptors_and_end_arrive() {
        let (near, far) = ControlLine::pair().expect("a pair");
        let far = ControlLine::over(far);
        let command = Command::Work { index: 3, work: Work::RoundTrips { bytes: 64, warm: 1, cycles: 2 } };
        near.send_message(&command).expect("it listens");
        assert_eq!(far.recv_message::<Command>().expect("one was told"), command);
        let memory = tombolo_platform::memory::create_sealed("test", 4096).expect("memory");
        near.give_fds(&[memory.as_fd()]).expect("it listens");
        far.take_fds::<1>().expect("one was given");
        near.give_fds(&[]).expect("it listens");
        assert!(far.take_fds::<1>().is_err());
        near.send_message(&"nonsense").expect("it listens");
        assert!(matches!(far.recv_message::<Command>(), Err(Error::Far { .. })));
        drop(near);
        assert!(matches!(far.recv_message::<Command>(), Err(Error::Far { .. })));
    }
}
