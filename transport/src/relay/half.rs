//! One side of a relay's handshake.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tombolo_base::coherence::Flushed;
use tombolo_base::{CacheMaintenance, Coherent, SharedMemory};
use tombolo_link::end::Signals;
use tombolo_link::hello::{Agreed, HELLO_BYTES, words_from_bytes};
use tombolo_link::layout::HEADER_BYTES;
use tombolo_link::open::{self, OpenError, Opening};
use tombolo_link::verdict::{ACCEPTED, DISAGREED, WITHDRAWN, declined, judge};
use tombolo_link::{
    ChannelConfig, ChannelLayout, FarEnd, Handshake, HandshakeError, Hello, Side, TransportKind, far_end,
};
use tombolo_platform::barrier;
use tombolo_platform::event::Interest;
use tombolo_platform::time::Deadline;

use super::hop::Hop;
use crate::connection::{Bell, Connection};
use crate::contract::Transport;
use crate::error::ChannelError;
use crate::joint::Joint;
use crate::memory::{MemoryChannel, unusable};
use crate::message::InSlots;
use crate::shm::{self, Proposal};
use crate::stream::StreamChannel;
use crate::window::{self, Lent};

/// Reason why a side of a relay's handshake did not open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Failed {
    /// The peer's hello differs.
    Refused,
    /// The peer, which speaks first, sent a hello that allows no valid layout.
    Unusable([u64; 8]),
    /// The peer's program declined.
    Declined(u32),
    /// The peer stopped waiting.
    Withdrawn,
    /// The peer is gone. A relay behind it may have reported the reason.
    Gone(Option<FarEnd>),
    /// The peer violated the protocol, or the kernel refused an operation.
    Broken,
}

impl From<ChannelError> for Failed {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::Closed => Failed::Withdrawn,
            ChannelError::PeerDied => Failed::Gone(None),
            ChannelError::FarEnd(told) => Failed::Gone(Some(told)),
            ChannelError::Handshake(error) => error.into(),
            _ => Failed::Broken,
        }
    }
}

impl From<HandshakeError> for Failed {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Refused(_) | HandshakeError::Refuted => Failed::Refused,
            HandshakeError::Declined { reason } => Failed::Declined(reason),
            HandshakeError::Withdrawn => Failed::Withdrawn,
            HandshakeError::Nonsense { .. } => Failed::Broken,
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
    own: Option<Hello>,
    theirs: Option<[u64; 8]>,
    /// Whether this side accepted, so that its peer may use the channel already.
    accepted: bool,
}

impl Half {
    /// Creates the side towards the connecting domain. Waits for that domain's memory, if the domain creates
    /// it.
    pub(super) fn near(joint: Joint, config: ChannelConfig, deadline: Deadline) -> Result<Half, Failed> {
        let length_bytes = ChannelLayout::new(config).length_bytes();
        match joint {
            Joint::Shm(socket) => {
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
            Joint::Window(lent) => Half::window(lent, Side::B, config),
            Joint::Stream(socket) => Half::stream(socket, config),
        }
    }

    fn window(lent: Lent, side: Side, config: ChannelConfig) -> Result<Half, Failed> {
        let caches = lent.caches;
        let (memory, connection) = lent.connect(side, ChannelLayout::new(config).length_bytes() as u64)?;
        let kind = TransportKind::Window;
        Ok(match caches {
            None => Half::memory(kind, side, memory, connection),
            Some(caches) => {
                Half::Flushed(MemoryHalf::new(kind, side, window::flushed(caches, memory)?, connection))
            }
        })
    }

    /// Creates the side towards the accepting domain, which receives the other domain's hello.
    pub(super) fn far(joint: Joint, hello: Hello) -> Result<Half, Failed> {
        let mut half = match joint {
            Joint::Shm(socket) => {
                let (hello, memory, connection) = shm::propose(socket, hello, None)?;
                let mut half = Half::memory(TransportKind::Shm, Side::A, memory, connection);
                half.say(hello)?;
                return Ok(half);
            }
            Joint::Window(lent) => Half::window(lent, Side::A, hello.config)?,
            Joint::Stream(socket) => Half::stream(socket, hello.config)?,
        };
        half.say(hello)?;
        Ok(half)
    }

    /// Creates the side towards the accepting domain for a channel on which this side sends no hello.
    pub(super) fn silent(joint: Joint, config: ChannelConfig) -> Result<Half, Failed> {
        match joint {
            Joint::Window(lent) => Half::window(lent, Side::A, config),
            Joint::Stream(socket) => Half::stream(socket, config),
            // Its memory does not exist yet.
            Joint::Shm(_) => Err(Failed::Broken),
        }
    }

    /// Creates the shared-memory side towards the accepting domain, on which only a refusal is passed on. The
    /// memory that is sent describes a channel of this version.
    pub(super) fn refusing(socket: OwnedFd, config: ChannelConfig) -> Result<Half, Failed> {
        let (_, memory, connection) = shm::propose(socket, Hello::new(config, 0, None), None)?;
        Ok(Half::memory(TransportKind::Shm, Side::A, memory, connection))
    }

    fn memory(kind: TransportKind, side: Side, memory: SharedMemory, connection: Connection) -> Half {
        Half::Memory(MemoryHalf::new(kind, side, memory, connection))
    }

    fn stream(socket: OwnedFd, config: ChannelConfig) -> Result<Half, Failed> {
        let channel = StreamChannel::begin(socket, config)?;
        Ok(Half::Stream(StreamHalf { channel, own: None, theirs: None, accepted: false }))
    }

    /// Returns the peer's hello, once it has arrived. This side has not sent anything yet.
    pub(super) fn peek(&mut self) -> Result<Option<[u64; 8]>, Failed> {
        match self {
            Half::Memory(half) => half.peek(),
            Half::Flushed(half) => half.peek(),
            Half::Stream(half) => half.peek(),
        }
    }

    /// Publishes a hello. On the near side it is that of a peer that agreed.
    pub(super) fn say(&mut self, hello: Hello) -> Result<(), Failed> {
        match self {
            Half::Memory(half) => half.say(hello)?,
            Half::Flushed(half) => half.say(hello)?,
            Half::Stream(half) => {
                let hello = Hello { expedited_barrier: false, ..hello };
                half.own = Some(hello);
                half.channel.say(&hello.to_bytes());
                if half.theirs.is_some() {
                    half.accept();
                }
            }
        }
        Ok(())
    }

    /// Whether both sides accepted.
    pub(super) fn step(&mut self) -> Result<bool, Failed> {
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
            Half::Stream(half) => half.theirs,
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
    pub(super) fn fail(mut self, why: &Failed, theirs: Option<[u64; 8]>, beyond: FarEnd) {
        match &mut self {
            Half::Memory(half) => half.fail(why, theirs, beyond),
            Half::Flushed(half) => half.fail(why, theirs, beyond),
            Half::Stream(half) => half.fail(why, theirs, beyond),
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
    pub(super) fn listen(&mut self) {
        match self {
            Half::Memory(half) => half.connection.listen(),
            Half::Flushed(half) => half.connection.listen(),
            Half::Stream(_) => {}
        }
    }

    /// Returns why the peer left, if it is gone or stopped waiting after sending everything it had to.
    pub(super) fn has_left(&mut self) -> Option<Failed> {
        match self {
            Half::Memory(half) => half.has_left(),
            Half::Flushed(half) => half.has_left(),
            // A verdict on a stream at this point can only end it.
            Half::Stream(half) => match half.channel.hear::<8>() {
                Ok(None) => None,
                Ok(Some(word)) if u64::from_le_bytes(word) == WITHDRAWN => Some(Failed::Withdrawn),
                Ok(Some(_)) => Some(Failed::Broken),
                Err(error) => Some(error.into()),
            },
        }
    }
}

impl<C: InSlots> MemoryHalf<C> {
    fn new(kind: TransportKind, side: Side, memory: SharedMemory<C>, connection: Connection) -> Self {
        MemoryHalf { kind, memory, side, connection, opening: None, agreed: None }
    }

    fn peek(&mut self) -> Result<Option<[u64; 8]>, Failed> {
        // Read first: a peer that is gone by now has already written everything.
        let gone = self.connection.peer_gone();
        let peeked = Handshake::peek(&self.memory, self.side).map_err(|_| Failed::Broken)?;
        match peeked? {
            None if gone => Err(self.gone()),
            hello => Ok(hello),
        }
    }

    fn say(&mut self, hello: Hello) -> Result<(), Failed> {
        // Barriers do not reach processors under another kernel.
        let expedited_barrier = self.kind == TransportKind::Shm && barrier::register();
        let hello = Hello { expedited_barrier, ..hello };
        let opening = Opening::start(&self.memory, self.side, hello, &mut self.connection);
        self.opening = Some(opening.map_err(|_| Failed::Broken)?);
        Ok(())
    }

    fn into_channel(self) -> Result<MemoryChannel<C>, ChannelError> {
        let MemoryHalf { kind, memory, side, connection, opening, agreed } = self;
        let (Some(opening), Some(agreed)) = (opening, agreed) else {
            return Err(unusable(&"the handshake is not over"));
        };
        MemoryChannel::opened(kind, memory, side, opening, agreed, connection)
    }

    fn fail(&mut self, why: &Failed, theirs: Option<[u64; 8]>, beyond: FarEnd) {
        // The memory has hello lines: this side mapped them.
        match (why, theirs) {
            (Failed::Refused, Some(theirs)) => {
                let _ = Handshake::pass_on_refusal(&self.memory, self.side, &theirs);
                self.connection.ring();
            }
            (Failed::Declined(reason), Some(theirs)) => {
                if let Some(hello) = hello_of(&theirs) {
                    let _ = open::decline(&self.memory, self.side, hello, *reason, &mut self.connection);
                }
            }
            (Failed::Gone(told), _) => self.leave(told.unwrap_or(beyond)),
            (Failed::Broken, _) => self.leave(FarEnd::Broken),
            _ => self.withdraw(),
        }
    }

    fn has_left(&mut self) -> Option<Failed> {
        let gone = self.connection.peer_gone();
        match Handshake::has_withdrawn(&self.memory, self.side) {
            Ok(false) if gone => Some(self.gone()),
            Ok(false) => None,
            Ok(true) => Some(Failed::Withdrawn),
            Err(_) => Some(Failed::Broken),
        }
    }

    fn gone(&mut self) -> Failed {
        match self.connection.open_failure() {
            ChannelError::Closed => Failed::Withdrawn,
            _ => Failed::Gone(far_end::told(&self.memory, self.side)),
        }
    }

    fn step(&mut self) -> Result<bool, Failed> {
        let Some(opening) = &mut self.opening else { return Ok(false) };
        match opening.step(&mut self.connection) {
            Ok(Some(agreed)) => {
                self.agreed = Some(agreed);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(OpenError::Handshake(error)) => Err(error.into()),
            Err(_) => Err(self.gone()),
        }
    }

    fn leave(&mut self, why: FarEnd) {
        // The connection is dropped with this half, and its lifeline then hangs up.
        let _ = far_end::tell(&self.memory, self.side, why);
        self.connection.ring();
    }

    fn withdraw(&mut self) {
        match &mut self.opening {
            Some(opening) => opening.withdraw(&mut self.connection),
            None => drop(open::refrain(&self.memory, self.side, &mut self.connection)),
        }
    }
}

impl StreamHalf {
    fn peek(&mut self) -> Result<Option<[u64; 8]>, Failed> {
        let hello: Option<[u8; HELLO_BYTES]> = self.channel.hear()?;
        self.theirs = hello.map(|bytes| words_from_bytes(&bytes));
        Ok(self.theirs)
    }

    fn step(&mut self) -> Result<bool, Failed> {
        let Some(own) = self.own else { return Ok(false) };
        if self.theirs.is_none() {
            let Some(theirs) = self.peek()? else { return Ok(false) };
            if own.agree(&theirs).is_err() {
                self.channel.say(&DISAGREED.to_le_bytes());
                return Err(Failed::Refused);
            }
            self.accept();
        }
        match self.channel.hear::<8>()? {
            None => Ok(false),
            Some(verdict) => Ok(judge(u64::from_le_bytes(verdict)).map(|()| true)?),
        }
    }

    fn fail(&mut self, why: &Failed, theirs: Option<[u64; 8]>, beyond: FarEnd) {
        match (why, theirs) {
            (Failed::Refused, Some(theirs)) => self.end(Some(&theirs), DISAGREED),
            (Failed::Declined(reason), Some(theirs)) => self.end(Some(&theirs), declined(*reason)),
            (Failed::Gone(told), _) => self.end(None, told.unwrap_or(beyond).to_word()),
            (Failed::Broken, _) => self.end(None, FarEnd::Broken.to_word()),
            _ => self.end(None, WITHDRAWN),
        }
    }

    fn accept(&mut self) {
        self.accepted = true;
        self.channel.say(&ACCEPTED.to_le_bytes());
    }

    /// Ends the handshake with a verdict and, if there is one, the hello of the other side.
    fn end(&mut self, hello: Option<&[u64; 8]>, verdict: u64) {
        if self.accepted {
            return match FarEnd::of_word(verdict) {
                Some(why) => self.channel.leave(why),
                None => self.channel.close(),
            };
        }
        for word in hello.into_iter().flatten() {
            self.channel.say(&word.to_le_bytes());
        }
        self.channel.say(&verdict.to_le_bytes());
        self.channel.not_opened();
    }
}

/// Decodes a hello. Returns `None` if no side of this version can have written these words.
pub(super) fn hello_of(words: &[u64; 8]) -> Option<Hello> {
    let config = Hello::proposed_config(words)?;
    Some(Hello::new(config, words[3], tombolo_base::DomainId::from_bits(words[4])))
}
