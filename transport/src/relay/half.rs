//! One side of a relay's handshake.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tombolo_base::coherence::Flushed;
use tombolo_base::{CacheMaintenance, Coherent, SharedMemory};
use tombolo_link::end::Signals;
use tombolo_link::hello::{Agreed, HELLO_BYTES, words_from_bytes};
use tombolo_link::layout::HEADER_BYTES;
use tombolo_link::open::{self, OpenError, Opening};
use tombolo_link::verdict::{ACCEPTED, DISAGREED, WITHDRAWN, check_verdict, declined};
use tombolo_link::{
    ChannelConfig, ChannelLayout, DisconnectReason, Handshake, HandshakeError, Hello, Side, TransportKind,
    disconnect_reason,
};
use tombolo_platform::barrier;
use tombolo_platform::event::Interest;
use tombolo_platform::time::Deadline;

use super::hop::Hop;
use crate::connection::{Bell, Connection};
use crate::contract::Transport;
use crate::error::ChannelError;
use crate::memory::{MemoryChannel, invalid_memory};
use crate::message::MessageMemory;
use crate::pending::PendingChannel;
use crate::shm::{self, Proposal};
use crate::stream::StreamChannel;
use crate::window::{self, WindowResources};

/// Reason why a side of a relay's handshake did not open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum OpenFailure {
    /// The peer's hello differs.
    Refused,
    /// The peer, which speaks first, sent a hello that allows no valid layout.
    Unusable([u64; 8]),
    /// The peer's program declined.
    Declined(u32),
    /// The peer stopped waiting.
    Withdrawn,
    /// The peer is gone. A relay behind it may have reported the reason.
    Disconnected(Option<DisconnectReason>),
    /// The peer violated the protocol, or the kernel refused an operation.
    Broken,
}

impl From<ChannelError> for OpenFailure {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::Closed => OpenFailure::Withdrawn,
            ChannelError::PeerDied => OpenFailure::Disconnected(None),
            ChannelError::Disconnected(reason) => OpenFailure::Disconnected(Some(reason)),
            ChannelError::Handshake(error) => error.into(),
            _ => OpenFailure::Broken,
        }
    }
}

impl From<HandshakeError> for OpenFailure {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Refused(_) | HandshakeError::RefusedByPeer => OpenFailure::Refused,
            HandshakeError::Declined { reason } => OpenFailure::Declined(reason),
            HandshakeError::Withdrawn => OpenFailure::Withdrawn,
            HandshakeError::InvalidWord { .. } => OpenFailure::Broken,
        }
    }
}

/// One side of a relay's handshake.
pub(super) enum Half {
    Memory(MemoryHalf<Coherent>),
    /// A side in a window whose lines are written back and invalidated.
    Flushed(MemoryHalf<Flushed>),
    Stream(StreamHalf),
}

pub(super) struct MemoryHalf<C: CacheMaintenance> {
    kind: TransportKind,
    memory: SharedMemory<C>,
    side: Side,
    connection: Connection,
    opening: Option<Opening<C>>,
    agreed: Option<Agreed>,
}

pub(super) struct StreamHalf {
    channel: StreamChannel,
    own_hello: Option<Hello>,
    peer_hello: Option<[u64; 8]>,
    /// Whether this side accepted, so that its peer may use the channel already.
    accepted: bool,
}

impl Half {
    /// Creates the side towards the connecting domain. Waits for that domain's memory, if the domain creates
    /// it.
    pub(super) fn near(
        pending: PendingChannel,
        config: ChannelConfig,
        deadline: Deadline,
    ) -> Result<Half, OpenFailure> {
        let length_bytes = ChannelLayout::new(config).length_bytes();
        match pending {
            PendingChannel::Shm(socket) => {
                let proposal = match Proposal::receive(&socket, deadline) {
                    Err(error @ ChannelError::TimedOut(_)) => {
                        shm::withdraw(&socket);
                        return Err(error.into());
                    }
                    proposal => proposal?,
                };
                let length_bytes = match Hello::proposed_config(&proposal.hello) {
                    Some(config) => ChannelLayout::new(config).length_bytes().min(length_bytes),
                    None => HEADER_BYTES,
                };
                let memory = proposal.map(length_bytes).map_err(ChannelError::from)?;
                Ok(Half::memory(TransportKind::Shm, Side::B, memory, Connection::new(Bell::Socket, socket)))
            }
            PendingChannel::Window(resources) => Half::window(resources, Side::B, config),
            PendingChannel::Stream(socket) => Half::stream(socket, config),
        }
    }

    fn window(resources: WindowResources, side: Side, config: ChannelConfig) -> Result<Half, OpenFailure> {
        let caches = resources.caches;
        let (memory, connection) =
            resources.connect(side, ChannelLayout::new(config).length_bytes() as u64)?;
        let kind = TransportKind::Window;
        Ok(match caches {
            None => Half::memory(kind, side, memory, connection),
            Some(caches) => {
                Half::Flushed(MemoryHalf::new(kind, side, window::flushed(caches, memory)?, connection))
            }
        })
    }

    /// Creates the side towards the accepting domain, which receives the other domain's hello.
    pub(super) fn far(pending: PendingChannel, hello: Hello) -> Result<Half, OpenFailure> {
        let mut half = match pending {
            PendingChannel::Shm(socket) => {
                let (hello, memory, connection) = shm::propose(socket, hello, None)?;
                let mut half = Half::memory(TransportKind::Shm, Side::A, memory, connection);
                half.send_hello(hello)?;
                return Ok(half);
            }
            PendingChannel::Window(resources) => Half::window(resources, Side::A, hello.config)?,
            PendingChannel::Stream(socket) => Half::stream(socket, hello.config)?,
        };
        half.send_hello(hello)?;
        Ok(half)
    }

    /// Creates the side towards the accepting domain for a channel on which this side sends no hello.
    pub(super) fn without_hello(pending: PendingChannel, config: ChannelConfig) -> Result<Half, OpenFailure> {
        match pending {
            PendingChannel::Window(resources) => Half::window(resources, Side::A, config),
            PendingChannel::Stream(socket) => Half::stream(socket, config),
            // Its memory does not exist yet.
            PendingChannel::Shm(_) => Err(OpenFailure::Broken),
        }
    }

    /// Creates the shared-memory side towards the accepting domain, on which only a refusal is passed on. The
    /// memory that is sent describes a channel of this version.
    pub(super) fn for_refusal(socket: OwnedFd, config: ChannelConfig) -> Result<Half, OpenFailure> {
        let (_, memory, connection) = shm::propose(socket, Hello::new(config, 0, None), None)?;
        Ok(Half::memory(TransportKind::Shm, Side::A, memory, connection))
    }

    fn memory(kind: TransportKind, side: Side, memory: SharedMemory, connection: Connection) -> Half {
        Half::Memory(MemoryHalf::new(kind, side, memory, connection))
    }

    fn stream(socket: OwnedFd, config: ChannelConfig) -> Result<Half, OpenFailure> {
        let channel = StreamChannel::new_unopened(socket, config)?;
        Ok(Half::Stream(StreamHalf { channel, own_hello: None, peer_hello: None, accepted: false }))
    }

    /// Returns the peer's hello, once it has arrived. This side has not sent anything yet.
    pub(super) fn peek(&mut self) -> Result<Option<[u64; 8]>, OpenFailure> {
        match self {
            Half::Memory(half) => half.peek(),
            Half::Flushed(half) => half.peek(),
            Half::Stream(half) => half.peek(),
        }
    }

    /// Publishes a hello. On the near side it is that of a peer that agreed.
    pub(super) fn send_hello(&mut self, hello: Hello) -> Result<(), OpenFailure> {
        match self {
            Half::Memory(half) => half.send_hello(hello)?,
            Half::Flushed(half) => half.send_hello(hello)?,
            Half::Stream(half) => {
                let hello = Hello { expedited_barrier: false, ..hello };
                half.own_hello = Some(hello);
                half.channel.send_handshake(&hello.to_bytes());
                if half.peer_hello.is_some() {
                    half.accept();
                }
            }
        }
        Ok(())
    }

    /// Whether both sides accepted.
    pub(super) fn step(&mut self) -> Result<bool, OpenFailure> {
        match self {
            Half::Memory(half) => half.step(),
            Half::Flushed(half) => half.step(),
            Half::Stream(half) => half.step(),
        }
    }

    /// Returns the peer's hello, once it was compared with this side's hello.
    pub(super) fn peer_hello(&self) -> Option<[u64; 8]> {
        match self {
            Half::Memory(half) => half.opening.as_ref()?.peer_hello().copied(),
            Half::Flushed(half) => half.opening.as_ref()?.peer_hello().copied(),
            Half::Stream(half) => half.peer_hello,
        }
    }

    /// Converts the half to the open channel.
    pub(super) fn into_hop(self) -> Result<Hop, ChannelError> {
        match self {
            Half::Memory(half) => Ok(Hop::Memory(Box::new(half.into_channel()?))),
            Half::Flushed(half) => Ok(Hop::Flushed(Box::new(half.into_channel()?))),
            Half::Stream(half) => Ok(Hop::Stream(Box::new(half.channel))),
        }
    }

    /// Notifies the peer how the other side ended, and releases the half.
    pub(super) fn fail(
        mut self,
        why: &OpenFailure,
        peer_hello: Option<[u64; 8]>,
        default_reason: DisconnectReason,
    ) {
        match &mut self {
            Half::Memory(half) => half.fail(why, peer_hello, default_reason),
            Half::Flushed(half) => half.fail(why, peer_hello, default_reason),
            Half::Stream(half) => half.fail(why, peer_hello, default_reason),
        }
    }

    /// Appends the descriptors to sleep on.
    pub(super) fn sources<'a>(&'a self, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        match self {
            Half::Memory(half) => half.connection.sources(sources),
            Half::Flushed(half) => half.connection.sources(sources),
            Half::Stream(half) => sources.push((half.channel.socket().as_fd(), Interest::Read)),
        }
    }

    /// Reads bell and lifeline.
    pub(super) fn poll_signals(&mut self) {
        match self {
            Half::Memory(half) => half.connection.poll_signals(),
            Half::Flushed(half) => half.connection.poll_signals(),
            Half::Stream(_) => {}
        }
    }

    /// Returns why the peer left, if it is gone or stopped waiting after sending everything it had to.
    pub(super) fn peer_departure(&mut self) -> Option<OpenFailure> {
        match self {
            Half::Memory(half) => half.peer_departure(),
            Half::Flushed(half) => half.peer_departure(),
            // A verdict on a stream at this point can only end it.
            Half::Stream(half) => match half.channel.try_receive_handshake::<8>() {
                Ok(None) => None,
                Ok(Some(word)) if u64::from_le_bytes(word) == WITHDRAWN => Some(OpenFailure::Withdrawn),
                Ok(Some(_)) => Some(OpenFailure::Broken),
                Err(error) => Some(error.into()),
            },
        }
    }
}

impl<C: MessageMemory> MemoryHalf<C> {
    fn new(kind: TransportKind, side: Side, memory: SharedMemory<C>, connection: Connection) -> Self {
        MemoryHalf { kind, memory, side, connection, opening: None, agreed: None }
    }

    fn peek(&mut self) -> Result<Option<[u64; 8]>, OpenFailure> {
        // Read first: a peer that is gone by now has already written everything.
        let gone = self.connection.peer_gone();
        let peeked = Handshake::peek(&self.memory, self.side).map_err(|_| OpenFailure::Broken)?;
        match peeked? {
            None if gone => Err(self.departure_reason()),
            hello => Ok(hello),
        }
    }

    fn send_hello(&mut self, hello: Hello) -> Result<(), OpenFailure> {
        // Barriers do not reach processors under another kernel.
        let expedited_barrier = self.kind == TransportKind::Shm && barrier::register();
        let hello = Hello { expedited_barrier, ..hello };
        let opening = Opening::start(&self.memory, self.side, hello, &mut self.connection);
        self.opening = Some(opening.map_err(|_| OpenFailure::Broken)?);
        Ok(())
    }

    fn into_channel(self) -> Result<MemoryChannel<C>, ChannelError> {
        let MemoryHalf { kind, memory, side, connection, opening, agreed } = self;
        let (Some(opening), Some(agreed)) = (opening, agreed) else {
            return Err(invalid_memory(&"the handshake is not over"));
        };
        MemoryChannel::opened(kind, memory, side, opening, agreed, connection)
    }

    fn fail(&mut self, why: &OpenFailure, peer_hello: Option<[u64; 8]>, default_reason: DisconnectReason) {
        // The memory has hello lines: this side mapped them.
        match (why, peer_hello) {
            (OpenFailure::Refused, Some(peer_hello)) => {
                let _ = Handshake::forward_refusal(&self.memory, self.side, &peer_hello);
                self.connection.ring();
            }
            (OpenFailure::Declined(reason), Some(peer_hello)) => {
                if let Some(hello) = decode_hello(&peer_hello) {
                    let _ = open::decline(&self.memory, self.side, hello, *reason, &mut self.connection);
                }
            }
            (OpenFailure::Disconnected(reason), _) => self.abort(reason.unwrap_or(default_reason)),
            (OpenFailure::Broken, _) => self.abort(DisconnectReason::Broken),
            _ => self.withdraw(),
        }
    }

    fn peer_departure(&mut self) -> Option<OpenFailure> {
        let gone = self.connection.peer_gone();
        match Handshake::has_withdrawn(&self.memory, self.side) {
            Ok(false) if gone => Some(self.departure_reason()),
            Ok(false) => None,
            Ok(true) => Some(OpenFailure::Withdrawn),
            Err(_) => Some(OpenFailure::Broken),
        }
    }

    fn departure_reason(&mut self) -> OpenFailure {
        match self.connection.open_failure() {
            ChannelError::Closed => OpenFailure::Withdrawn,
            _ => OpenFailure::Disconnected(disconnect_reason::disconnect_reason(&self.memory, self.side)),
        }
    }

    fn step(&mut self) -> Result<bool, OpenFailure> {
        let Some(opening) = &mut self.opening else { return Ok(false) };
        match opening.step(&mut self.connection) {
            Ok(Some(agreed)) => {
                self.agreed = Some(agreed);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(OpenError::Handshake(error)) => Err(error.into()),
            Err(_) => Err(self.departure_reason()),
        }
    }

    fn abort(&mut self, why: DisconnectReason) {
        // The connection is dropped with this half, and its lifeline then hangs up.
        let _ = disconnect_reason::report(&self.memory, self.side, why);
        self.connection.ring();
    }

    fn withdraw(&mut self) {
        match &mut self.opening {
            Some(opening) => opening.withdraw(&mut self.connection),
            None => drop(open::cancel(&self.memory, self.side, &mut self.connection)),
        }
    }
}

impl StreamHalf {
    fn peek(&mut self) -> Result<Option<[u64; 8]>, OpenFailure> {
        let hello: Option<[u8; HELLO_BYTES]> = self.channel.try_receive_handshake()?;
        self.peer_hello = hello.map(|bytes| words_from_bytes(&bytes));
        Ok(self.peer_hello)
    }

    fn step(&mut self) -> Result<bool, OpenFailure> {
        let Some(own_hello) = self.own_hello else { return Ok(false) };
        if self.peer_hello.is_none() {
            let Some(peer_hello) = self.peek()? else { return Ok(false) };
            if own_hello.agree(&peer_hello).is_err() {
                self.channel.send_handshake(&DISAGREED.to_le_bytes());
                return Err(OpenFailure::Refused);
            }
            self.accept();
        }
        match self.channel.try_receive_handshake::<8>()? {
            None => Ok(false),
            Some(verdict) => Ok(check_verdict(u64::from_le_bytes(verdict)).map(|()| true)?),
        }
    }

    fn fail(&mut self, why: &OpenFailure, peer_hello: Option<[u64; 8]>, default_reason: DisconnectReason) {
        match (why, peer_hello) {
            (OpenFailure::Refused, Some(peer_hello)) => self.end(Some(&peer_hello), DISAGREED),
            (OpenFailure::Declined(reason), Some(peer_hello)) => {
                self.end(Some(&peer_hello), declined(*reason));
            }
            (OpenFailure::Disconnected(reason), _) => {
                self.end(None, reason.unwrap_or(default_reason).to_word());
            }
            (OpenFailure::Broken, _) => self.end(None, DisconnectReason::Broken.to_word()),
            _ => self.end(None, WITHDRAWN),
        }
    }

    fn accept(&mut self) {
        self.accepted = true;
        self.channel.send_handshake(&ACCEPTED.to_le_bytes());
    }

    /// Ends the handshake with a verdict and, if there is one, the hello of the other side.
    fn end(&mut self, hello: Option<&[u64; 8]>, verdict: u64) {
        if self.accepted {
            return match DisconnectReason::from_word(verdict) {
                Some(why) => self.channel.abort(why),
                None => self.channel.close(),
            };
        }
        for word in hello.into_iter().flatten() {
            self.channel.send_handshake(&word.to_le_bytes());
        }
        self.channel.send_handshake(&verdict.to_le_bytes());
        self.channel.abort_handshake();
    }
}

/// Decodes a hello. Returns `None` if no side of this version can have written these words.
pub(super) fn decode_hello(words: &[u64; 8]) -> Option<Hello> {
    let config = Hello::proposed_config(words)?;
    Some(Hello::new(config, words[3], tombolo_base::DomainId::from_bits(words[4])))
}
