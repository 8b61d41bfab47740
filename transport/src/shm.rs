//! `shm`: channels between two processes of one kernel.
//!
//! The connecting side creates a sealed memory file for both rings and sends it over the socket between the
//! two processes, together with its hello. From then on the socket carries one byte per wake-up, and its
//! hang-up is the evidence that the peer is gone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tombolo_base::SharedMemory;
use tombolo_link::hello::{HELLO_BYTES, words_from_bytes};
use tombolo_link::layout::HEADER_BYTES;
use tombolo_link::{
    ChannelConfig, ChannelLayout, DisconnectReason, HandshakeError, Hello, Opening, Refusal, Side,
    TransportKind,
};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::memory::{check_sealed, create_sealed, map};
use tombolo_platform::time::Deadline;
use tombolo_platform::{Errno, OsError, barrier, socket};

use crate::connection::{Bell, Connection, WITHDRAWAL};
use crate::error::{Awaited, ChannelError};
use crate::memory::MemoryChannel;

/// Connects over a stream socket to a process that calls [`accept`].
///
/// # Errors
/// A difference between the two sides, the end of the peer, a timeout, or an error of the kernel.
pub fn connect(socket: OwnedFd, hello: Hello, deadline: Deadline) -> Result<MemoryChannel, ChannelError> {
    connect_with(socket, hello, None, deadline)
}

/// Same as [`connect`], but also sends `companion` to the peer.
///
/// # Errors
/// Same as [`connect`].
pub fn connect_with(
    socket: OwnedFd,
    hello: Hello,
    companion: Option<OwnedFd>,
    deadline: Deadline,
) -> Result<MemoryChannel, ChannelError> {
    let (hello, memory, connection) = propose(socket, hello, companion)?;
    MemoryChannel::open(TransportKind::Shm, memory, Side::A, hello, connection, deadline)
}

/// Creates the memory of a channel and sends it to the accepting side.
///
/// # Errors
/// The end of the peer, or an error of the kernel.
pub(crate) fn propose(
    socket: OwnedFd,
    hello: Hello,
    companion: Option<OwnedFd>,
) -> Result<(Hello, SharedMemory, Connection), ChannelError> {
    let hello = Hello { expedited_barrier: barrier::register(), ..hello };
    let length_bytes = ChannelLayout::new(hello.config).length_bytes();
    let file = create_sealed("tombolo-channel", length_bytes as u64)?;
    let memory = map(&file, 0, length_bytes)?;
    let fds = [Some(file.as_fd()), companion.as_ref().map(AsFd::as_fd)];
    let fds: Vec<BorrowedFd<'_>> = fds.into_iter().flatten().collect();
    let sent = socket::send(&socket, &hello.to_bytes(), &fds);
    let mut connection = Connection::new(Bell::Socket, socket);
    match sent {
        Ok(HELLO_BYTES) => Ok((hello, memory, connection)),
        Ok(_) => Err(OsError::new("send a hello whole", Errno::MSGSIZE).into()),
        Err(Errno::PIPE | Errno::CONNRESET) => Err(connection.open_failure()),
        Err(errno) => Err(OsError::new("send a hello", errno).into()),
    }
}

/// Accepts a process that calls [`connect`] over a stream socket. The connecting side chooses slot count and
/// variant; everything else in `hello` must agree.
///
/// # Errors
/// Same as [`connect`], or memory that differs from the peer's description.
pub fn accept(socket: OwnedFd, hello: Hello, deadline: Deadline) -> Result<MemoryChannel, ChannelError> {
    accept_with(socket, hello, deadline).map(|(channel, _)| channel)
}

/// Same as [`accept`], but also returns the descriptor that the peer sent with the memory, if any.
///
/// # Errors
/// Same as [`accept`].
pub fn accept_with(
    socket: OwnedFd,
    hello: Hello,
    deadline: Deadline,
) -> Result<(MemoryChannel, Option<OwnedFd>), ChannelError> {
    let mut proposal = match Proposal::receive(&socket, deadline) {
        Err(error @ ChannelError::TimedOut(_)) => {
            // Without channel memory, the doorbell carries the withdrawal.
            withdraw(&socket);
            return Err(error);
        }
        proposal => proposal?,
    };
    let companion = proposal.companion.take();
    let mut connection = Connection::new(Bell::Socket, socket);
    let Some(config) = Hello::proposed_config(&proposal.hello) else {
        return Err(proposal.refuse(hello, &mut connection, deadline));
    };
    let memory = proposal.map(ChannelLayout::new(config).length_bytes())?;
    let config = ChannelConfig { slot: hello.config.slot, ..config };
    let hello = Hello { config, expedited_barrier: barrier::register(), ..hello };
    let channel = MemoryChannel::open(TransportKind::Shm, memory, Side::B, hello, connection, deadline)?;
    Ok((channel, companion))
}

/// Notifies the process at the other end of a socket, on either side, that there will be no channel.
pub fn withdraw(socket: &OwnedFd) {
    // A peer that is gone need not be notified.
    let _ = socket::send(socket, &[WITHDRAWAL], &[]);
}

/// Notifies the accepting process, from a relay, how the end behind the relay ended before it sent its hello.
/// Sends the word that would be in channel memory, which does not exist yet.
pub(crate) fn report_disconnect(socket: &OwnedFd, what: DisconnectReason) {
    // A peer that is gone need not be notified.
    let _ = socket::send(socket, &what.to_word().to_le_bytes(), &[]);
}

/// Returns the report that a relay sent instead of a proposal.
fn disconnect_reason_in(bytes: &[u8]) -> Option<DisconnectReason> {
    DisconnectReason::from_word(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Declines a process that connects, with a reason defined by the interface.
///
/// # Errors
/// Same as [`accept`].
pub fn decline(socket: OwnedFd, hello: Hello, reason: u32, deadline: Deadline) -> Result<(), ChannelError> {
    let proposal = Proposal::receive(&socket, deadline)?;
    let mut connection = Connection::new(Bell::Socket, socket);
    let Some(config) = Hello::proposed_config(&proposal.hello) else {
        return Err(proposal.refuse(hello, &mut connection, deadline));
    };
    let memory = proposal.map(ChannelLayout::new(config).length_bytes())?;
    MemoryChannel::decline(&memory, Side::B, Hello { config, ..hello }, reason, connection)
}

/// Proposal of the connecting side: its hello, the memory for the channel, and optionally a companion
/// descriptor.
pub(crate) struct Proposal {
    pub(crate) hello: [u64; 8],
    file: OwnedFd,
    companion: Option<OwnedFd>,
}

impl Proposal {
    pub(crate) fn receive(socket: &OwnedFd, deadline: Deadline) -> Result<Self, ChannelError> {
        let mut bytes = [0; HELLO_BYTES];
        loop {
            match socket::receive(socket, &mut bytes) {
                Ok(received) if received.fds.is_empty() && bytes[..received.length] == [WITHDRAWAL] => {
                    return Err(ChannelError::Closed);
                }
                Ok(received)
                    if received.fds.is_empty()
                        && let Some(reason) = disconnect_reason_in(&bytes[..received.length]) =>
                {
                    return Err(ChannelError::Disconnected(reason));
                }
                Ok(received) if received.length > 0 => {
                    if received.truncated && received.fds.is_empty() {
                        let what = "receive the memory of a channel (see `ulimit -n`)";
                        return Err(OsError::new(what, Errno::MFILE).into());
                    }
                    let found = received.fds.len();
                    let mut fds = received.fds.into_iter();
                    let (Some(file), companion, None) = (fds.next(), fds.next(), fds.next()) else {
                        return Err(ChannelError::Violation(format!(
                            "a channel proposal with {found} descriptors"
                        )));
                    };
                    if received.length != HELLO_BYTES {
                        let what = format!("a channel proposal of {} bytes", received.length);
                        return Err(ChannelError::Violation(what));
                    }
                    return Ok(Proposal { hello: words_from_bytes(&bytes), file, companion });
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

    pub(crate) fn map(&self, length_bytes: usize) -> Result<SharedMemory, OsError> {
        check_sealed(&self.file, length_bytes as u64)?;
        map(&self.file, 0, length_bytes)
    }

    /// Answers a proposal whose rings this side cannot lay out. The hello lies at the same offset in all
    /// versions, so a peer of another version learns the difference too, unless it does not speak this
    /// protocol at all.
    fn refuse(&self, ours: Hello, connection: &mut Connection, deadline: Deadline) -> ChannelError {
        let refusal = match ours.agree(&self.hello) {
            Err(refusal @ Refusal::NotTombolo { .. }) => return HandshakeError::from(refusal).into(),
            Err(refusal) => HandshakeError::from(refusal),
            Ok(_) => return ChannelError::Violation("the proposed rings have an impossible shape".into()),
        };
        let opened = self.map(HEADER_BYTES).map_err(ChannelError::from).and_then(|header| {
            let mut opening = Opening::start(&header, Side::B, ours, connection)
                .map_err(|error| ChannelError::Violation(error.to_string()))?;
            connection.open(&mut opening, deadline)
        });
        match opened {
            // The peer wrote a different hello into the memory than it sent: trust neither.
            Ok(_) | Err(ChannelError::TimedOut(_) | ChannelError::PeerDied) => refusal.into(),
            Err(error) => error,
        }
    }
}
