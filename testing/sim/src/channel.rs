//! One end of a channel in memory: the real handshake, rings and doorbell protocol, and evidence of the
//! peer's death.

use tombolo_base::{OutOfRange, SharedMemory};
use tombolo_link::end::{Awaited, ChannelEnd, Deferred, EndError, Violation};
use tombolo_link::{HandshakeError, Hello, OpenError, Opening, Side};

/// Why there is nothing more to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Ended {
    /// The handshake failed.
    #[error("handshake: {0}")]
    Handshake(#[from] HandshakeError),
    /// The peer closed in order.
    #[error("closed")]
    Closed,
    /// The peer is gone.
    #[error("the peer died")]
    PeerDied,
    /// The peer broke the protocol.
    #[error("violation: {0:?}")]
    Violation(Option<Violation>),
    /// This end sent a message that the channel does not carry.
    #[error("a message is too long")]
    TooLong,
}

/// Why an end of a channel has nothing more to give.
fn ended(end: &ChannelEnd<Deferred>, error: EndError) -> Ended {
    match error {
        EndError::Closed => Ended::Closed,
        EndError::PeerDied => Ended::PeerDied,
        EndError::Broken => Ended::Violation(end.violation()),
        EndError::Full | EndError::TooLong => Ended::TooLong,
    }
}

impl From<OpenError> for Ended {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Handshake(error) => Ended::Handshake(error),
            OpenError::PeerGone => Ended::PeerDied,
            OpenError::TimedOut => unreachable!("the simulator waits by steps"),
            OpenError::Park(never) => match never {},
        }
    }
}

enum ChannelState {
    Shaking(Box<Opening>, Deferred),
    Open(Box<ChannelEnd<Deferred>>),
}

/// One end of a channel in memory.
pub struct MemoryEnd {
    state: ChannelState,
}

impl MemoryEnd {
    /// Writes a hello into `memory`.
    ///
    /// # Errors
    /// When the memory is too small.
    pub fn open(memory: SharedMemory, side: Side, hello: Hello) -> Result<Self, OutOfRange> {
        let mut signals = Deferred::default();
        let opening = Opening::start(&memory, side, hello, &mut signals)?;
        Ok(MemoryEnd { state: ChannelState::Shaking(Box::new(opening), signals) })
    }

    /// Whether the handshake is done.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, ChannelState::Open(_))
    }

    /// The open channel; `None` before the handshake is done.
    #[must_use]
    pub fn into_end(self) -> Option<ChannelEnd<Deferred>> {
        match self.state {
            ChannelState::Open(end) => Some(*end),
            ChannelState::Shaking(..) => None,
        }
    }

    /// There is evidence that the peer is gone.
    pub fn note_peer_gone(&mut self) {
        self.signals().report_peer_gone();
        if let ChannelState::Open(end) = &mut self.state {
            end.listen();
        }
    }

    /// Whether the peer's doorbell has to be rung for what was done since the last call.
    pub fn take_ring(&mut self) -> bool {
        self.signals().take_ring()
    }

    fn signals(&mut self) -> &mut Deferred {
        match &mut self.state {
            ChannelState::Open(end) => end.signals_mut(),
            ChannelState::Shaking(_, signals) => signals,
        }
    }

    /// Goes on with the handshake.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn shake(&mut self) -> Result<(), Ended> {
        let ChannelState::Shaking(opening, signals) = &mut self.state else { return Ok(()) };
        let Some(agreed) = opening.step(signals)? else { return Ok(()) };
        // Steps of the simulator are in one order for all, so that a barrier that was agreed on has nothing
        // to do here.
        if let Ok(end) = opening.end(agreed, *signals) {
            self.state = ChannelState::Open(Box::new(end));
        }
        Ok(())
    }

    /// Sends a message; false when there is no room, or the handshake is not done.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn send(&mut self, message: &[u8]) -> Result<bool, Ended> {
        let ChannelState::Open(end) = &mut self.state else { return Ok(false) };
        match end.try_send(message) {
            Ok(()) => Ok(true),
            Err(EndError::Full) => Ok(false),
            Err(error) => Err(ended(end, error)),
        }
    }

    /// The longest message, in bytes; none before the handshake is done.
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        match &self.state {
            ChannelState::Open(end) => end.max_message_bytes(),
            ChannelState::Shaking(..) => 0,
        }
    }

    /// Receives the next message, if one has arrived.
    ///
    /// # Errors
    /// [`Ended`], after everything that was sent before.
    pub fn receive(&mut self) -> Result<Option<Vec<u8>>, Ended> {
        let ChannelState::Open(end) = &mut self.state else { return Ok(None) };
        let received = end.try_recv(|message| {
            let mut bytes = vec![0; message.len()];
            message.copy_to(&mut bytes).map(|_| bytes).unwrap_or_default()
        });
        received.map_err(|error| ended(end, error))
    }

    /// Announces a sleep and polls once more; returns `false` if there is something to do.
    pub fn may_sleep(&mut self, for_room: bool) -> bool {
        let ChannelState::Open(end) = &mut self.state else { return true };
        let awaited = if for_room { Awaited::Both } else { Awaited::Message };
        let may_sleep = end.about_to_sleep(awaited);
        if !may_sleep {
            end.awake(false);
        }
        may_sleep
    }

    /// Withdraws the announcement of a sleep.
    pub fn wake_up(&mut self) {
        if let ChannelState::Open(end) = &mut self.state {
            end.awake(true);
        }
    }

    /// Closes in order.
    pub fn close(&mut self) {
        if let ChannelState::Open(end) = &mut self.state {
            end.close();
        }
    }
}
