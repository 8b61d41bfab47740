//! `shm`: a channel between two processes of one kernel.
//!
//! The side that connects makes a sealed memory file for both rings and sends it over the socket between the two
//! processes, behind its hello. From then on the socket carries one byte each time somebody must be woken, and
//! its end is the evidence that the peer is gone.

use std::os::fd::{AsFd, OwnedFd};

use tombolo_link::hello::{HELLO_BYTES, words_from_bytes};
use tombolo_link::{ChannelLayout, Hello, Side, TransportKind};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::memory::{check_sealed, create_sealed, map};
use tombolo_platform::time::Deadline;
use tombolo_platform::{Errno, OsError, barrier, socket};

use crate::error::{Awaited, ChannelError};
use crate::memory::{Bell, Connection, MemoryChannel};

/// Connects over a stream socket to a process that [accepts](accept).
///
/// # Errors
/// What the two sides disagree on, the peer's end, the deadline, or what the kernel refused.
pub fn connect(socket: OwnedFd, hello: Hello, deadline: Deadline) -> Result<MemoryChannel, ChannelError> {
    let hello = Hello { expedited_barrier: barrier::register(), ..hello };
    let length_bytes = ChannelLayout::new(hello.config).length_bytes();
    let file = create_sealed("tombolo-channel", length_bytes as u64)?;
    let memory = map(&file, 0, length_bytes)?;
    match socket::send(&socket, &hello.to_bytes(), &[file.as_fd()]) {
        Ok(HELLO_BYTES) => {}
        Ok(_) => return Err(OsError::new("send a hello whole", Errno::MSGSIZE).into()),
        Err(Errno::PIPE | Errno::CONNRESET) => return Err(ChannelError::PeerDied),
        Err(errno) => return Err(OsError::new("send a hello", errno).into()),
    }
    MemoryChannel::open(
        TransportKind::Shm,
        memory,
        Side::A,
        hello,
        Connection::new(Bell::Socket, socket),
        deadline,
    )
}

/// Accepts over a stream socket a process that [connects](connect). The number of slots and the variant are the
/// connecting side's; everything else in `hello` must agree.
///
/// # Errors
/// As [`connect`]; also memory that is not what the peer says.
pub fn accept(socket: OwnedFd, hello: Hello, deadline: Deadline) -> Result<MemoryChannel, ChannelError> {
    let (theirs, file) = receive_proposal(&socket, deadline)?;
    let proposed = propose(&hello, &theirs)?;
    let length_bytes = ChannelLayout::new(proposed).length_bytes();
    check_sealed(&file, length_bytes as u64)?;
    let memory = map(&file, 0, length_bytes)?;
    let expected = tombolo_link::ChannelConfig { slot: hello.config.slot, ..proposed };
    let ours = Hello { config: expected, expedited_barrier: barrier::register(), ..hello };
    MemoryChannel::open(
        TransportKind::Shm,
        memory,
        Side::B,
        ours,
        Connection::new(Bell::Socket, socket),
        deadline,
    )
}

/// Declines a process that connects, with a reason that its program understands.
///
/// # Errors
/// As [`accept`].
pub fn decline(socket: OwnedFd, hello: Hello, reason: u32, deadline: Deadline) -> Result<(), ChannelError> {
    let (theirs, file) = receive_proposal(&socket, deadline)?;
    let config = propose(&hello, &theirs)?;
    let length_bytes = ChannelLayout::new(config).length_bytes();
    check_sealed(&file, length_bytes as u64)?;
    let memory = map(&file, 0, length_bytes)?;
    let connection = Connection::new(Bell::Socket, socket);
    MemoryChannel::decline(&memory, Side::B, Hello { config, ..hello }, reason, connection)
}

fn propose(hello: &Hello, theirs: &[u64; 8]) -> Result<tombolo_link::ChannelConfig, ChannelError> {
    Hello::proposed_config(theirs).ok_or_else(|| match hello.agree(theirs) {
        Err(refusal) => ChannelError::Handshake(refusal.into()),
        Ok(_) => ChannelError::Violation("the proposed rings have no possible shape".into()),
    })
}

fn receive_proposal(socket: &OwnedFd, deadline: Deadline) -> Result<([u64; 8], OwnedFd), ChannelError> {
    let mut bytes = [0; HELLO_BYTES];
    loop {
        match socket::receive(socket, &mut bytes) {
            Ok(received) if received.length == HELLO_BYTES && received.fds.len() == 1 => {
                let mut fds = received.fds;
                return Ok((words_from_bytes(&bytes), fds.remove(0)));
            }
            Ok(received) if received.length > 0 => {
                return Err(ChannelError::Violation(format!(
                    "a proposal of {} bytes with {} descriptors",
                    received.length,
                    received.fds.len()
                )));
            }
            Ok(_) | Err(Errno::CONNRESET) => return Err(ChannelError::PeerDied),
            Err(Errno::AGAIN) if deadline.passed() => {
                return Err(ChannelError::TimedOut(Awaited::Handshake));
            }
            Err(Errno::AGAIN) => {
                poll(&[(socket.as_fd(), Interest::Read)], Some(deadline))?;
            }
            Err(errno) => return Err(OsError::new("receive a proposal", errno).into()),
        }
    }
}
