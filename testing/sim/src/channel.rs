//! One end of a channel in memory: the real handshake, rings and doorbell protocol, and evidence of the peer's death.

use tombolo_base::{OutOfRange, SharedMemory};
use tombolo_link::end::{Awaited, ChannelEnd, Deferred, EndError, Violation, WakeOrder};
use tombolo_link::handshake::Progress;
use tombolo_link::{ChannelConfig, Handshake, HandshakeError, Hello, Side};

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

enum State {
    Shaking(Handshake),
    Open(Box<ChannelEnd<Deferred>>),
}

/// One end.
pub struct MemoryEnd {
    memory: SharedMemory,
    side: Side,
    config: ChannelConfig,
    state: State,
    peer_gone: bool,
    /// The peer has to be rung for a step of the handshake.
    ring: bool,
}

impl MemoryEnd {
    /// Says hello in `memory`.
    ///
    /// # Errors
    /// When the memory is too small.
    pub fn open(memory: SharedMemory, side: Side, hello: Hello) -> Result<Self, OutOfRange> {
        let state = State::Shaking(Handshake::start(&memory, side, hello)?);
        Ok(MemoryEnd { memory, side, config: hello.config, state, peer_gone: false, ring: true })
    }

    /// Whether the handshake is done.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// There is evidence that the peer is gone.
    pub fn note_peer_gone(&mut self) {
        self.peer_gone = true;
        if let State::Open(end) = &mut self.state {
            end.signals_mut().report_peer_gone();
            end.listen();
        }
    }

    /// Whether the peer's doorbell has to be rung for what was done since the last call.
    pub fn take_ring(&mut self) -> bool {
        let due = match &mut self.state {
            State::Open(end) => end.signals_mut().take_ring(),
            State::Shaking(_) => false,
        };
        std::mem::take(&mut self.ring) || due
    }

    /// Goes on with the handshake.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn shake(&mut self) -> Result<(), Ended> {
        let State::Shaking(handshake) = &mut self.state else { return Ok(()) };
        let agreed = loop {
            match handshake.step() {
                Ok(Progress::Changed) => self.ring = true,
                // What it wrote before it went was looked at just now.
                Ok(Progress::Waiting) if self.peer_gone => return Err(Ended::PeerDied),
                Ok(Progress::Waiting) => return Ok(()),
                Ok(Progress::Open(agreed)) => break agreed,
                Err(error) => {
                    self.ring = true;
                    return Err(error.into());
                }
            }
        };
        // Steps of the simulator are in one order for all, so that the barrier itself has nothing to do here.
        let order = if agreed.expedited_barrier { WakeOrder::Asymmetric } else { WakeOrder::Fence };
        let mut signals = Deferred::default();
        if self.peer_gone {
            signals.report_peer_gone();
        }
        if let Ok(end) = ChannelEnd::attach(&self.memory, self.side, self.config, order, signals) {
            self.state = State::Open(Box::new(end));
        }
        Ok(())
    }

    /// Sends a message; false when there is no room, or the handshake is not done.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn send(&mut self, message: &[u8]) -> Result<bool, Ended> {
        let State::Open(end) = &mut self.state else { return Ok(false) };
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
            State::Open(end) => end.max_message_bytes(),
            State::Shaking(_) => 0,
        }
    }

    /// The next message.
    ///
    /// # Errors
    /// [`Ended`], after everything that was sent before.
    pub fn receive(&mut self) -> Result<Option<Vec<u8>>, Ended> {
        let State::Open(end) = &mut self.state else { return Ok(None) };
        let received = end.try_recv(|message| {
            let mut bytes = vec![0; message.len()];
            message.copy_to(&mut bytes).map(|_| bytes).unwrap_or_default()
        });
        received.map_err(|error| ended(end, error))
    }

    /// Says asleep and looks once more; false when there is something to do.
    pub fn may_sleep(&mut self, for_room: bool) -> bool {
        let State::Open(end) = &mut self.state else { return true };
        let awaited = if for_room { Awaited::Both } else { Awaited::Message };
        let may_sleep = end.about_to_sleep(awaited);
        if !may_sleep {
            end.awake(false);
        }
        may_sleep
    }

    /// Says awake.
    pub fn wake_up(&mut self) {
        if let State::Open(end) = &mut self.state {
            end.awake(true);
        }
    }

    /// Closes in order.
    pub fn close(&mut self) {
        if let State::Open(end) = &mut self.state {
            end.close();
        }
    }
}
