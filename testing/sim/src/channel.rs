//! One end of a channel in memory: the real handshake, rings and doorbell protocol. The simulator reports the
//! death of the peer.

use tombolo_base::{OutOfRange, SharedMemory};
use tombolo_link::end::{Awaited, ChannelEnd, DeferredSignals, EndError, Violation};
use tombolo_link::{HandshakeError, Hello, OpenError, Opening, Side};

/// Reason why a channel ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Ended {
    /// The handshake with the peer failed.
    #[error("handshake: {0}")]
    Handshake(#[from] HandshakeError),
    /// The peer closed in order.
    #[error("closed")]
    Closed,
    /// The peer is gone without closing.
    #[error("the peer died")]
    PeerDied,
    /// The peer broke the protocol.
    #[error("violation: {0:?}")]
    Violation(Option<Violation>),
    /// This end sent a message longer than the channel permits.
    #[error("a message is too long")]
    TooLong,
}

/// Converts an error of a channel end.
fn ended(end: &ChannelEnd<DeferredSignals>, error: EndError) -> Ended {
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
    Handshaking(Box<Opening>, DeferredSignals),
    Open(Box<ChannelEnd<DeferredSignals>>),
}

/// One end of a channel in memory.
pub struct MemoryEnd {
    state: ChannelState,
}

impl MemoryEnd {
    /// Writes a hello into `memory` and starts the handshake.
    ///
    /// # Errors
    /// If the memory is too small.
    pub fn open(memory: SharedMemory, side: Side, hello: Hello) -> Result<Self, OutOfRange> {
        let mut signals = DeferredSignals::default();
        let opening = Opening::start(&memory, side, hello, &mut signals)?;
        Ok(MemoryEnd { state: ChannelState::Handshaking(Box::new(opening), signals) })
    }

    /// Returns whether the handshake is complete.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, ChannelState::Open(_))
    }

    /// Returns the open channel; `None` before the handshake is complete.
    #[must_use]
    pub fn into_end(self) -> Option<ChannelEnd<DeferredSignals>> {
        match self.state {
            ChannelState::Open(end) => Some(*end),
            ChannelState::Handshaking(..) => None,
        }
    }

    /// Records evidence that the peer is gone.
    pub fn mark_peer_gone(&mut self) {
        self.signals().report_peer_gone();
        if let ChannelState::Open(end) = &mut self.state {
            end.poll_signals();
        }
    }

    /// Returns whether the operations since the last call require a ring of the peer's doorbell.
    pub fn take_ring(&mut self) -> bool {
        self.signals().take_ring()
    }

    fn signals(&mut self) -> &mut DeferredSignals {
        match &mut self.state {
            ChannelState::Open(end) => end.signals_mut(),
            ChannelState::Handshaking(_, signals) => signals,
        }
    }

    /// Continues the handshake, if it is not complete.
    ///
    /// # Errors
    /// [`Ended`] if the handshake failed or the peer is gone.
    pub fn continue_handshake(&mut self) -> Result<(), Ended> {
        let ChannelState::Handshaking(opening, signals) = &mut self.state else { return Ok(()) };
        let Some(agreed) = opening.step(signals)? else { return Ok(()) };
        // The simulator runs all steps in one total order, so an agreed barrier is unnecessary.
        if let Ok(end) = opening.attach(agreed, *signals) {
            self.state = ChannelState::Open(Box::new(end));
        }
        Ok(())
    }

    /// Sends a message over the channel. Returns `false` if there is no room or the handshake is not
    /// complete.
    ///
    /// # Errors
    /// [`Ended`] if the channel ended or the message is too long.
    pub fn send(&mut self, message: &[u8]) -> Result<bool, Ended> {
        let ChannelState::Open(end) = &mut self.state else { return Ok(false) };
        match end.try_send(message) {
            Ok(()) => Ok(true),
            Err(EndError::Full) => Ok(false),
            Err(error) => Err(ended(end, error)),
        }
    }

    /// Returns the maximum length of a message in bytes; 0 before the handshake is complete.
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        match &self.state {
            ChannelState::Open(end) => end.max_message_bytes(),
            ChannelState::Handshaking(..) => 0,
        }
    }

    /// Receives the next message, if one has arrived.
    ///
    /// # Errors
    /// [`Ended`], after all messages that were sent before the end.
    pub fn receive(&mut self) -> Result<Option<Vec<u8>>, Ended> {
        let ChannelState::Open(end) = &mut self.state else { return Ok(None) };
        let received = end.try_recv(|message| {
            let mut bytes = vec![0; message.len()];
            message.copy_to(&mut bytes).map(|_| bytes).unwrap_or_default()
        });
        received.map_err(|error| ended(end, error))
    }

    /// Announces a sleep and polls once more. Returns `false` if there is something to do.
    pub fn may_sleep(&mut self, for_room: bool) -> bool {
        let ChannelState::Open(end) = &mut self.state else { return true };
        let awaited = if for_room { Awaited::Both } else { Awaited::Message };
        let may_sleep = end.prepare_to_sleep(awaited);
        if !may_sleep {
            end.finish_sleep(false);
        }
        may_sleep
    }

    /// Withdraws the announcement of a sleep.
    pub fn wake_up(&mut self) {
        if let ChannelState::Open(end) = &mut self.state {
            end.finish_sleep(true);
        }
    }

    /// Closes the channel in order.
    pub fn close(&mut self) {
        if let ChannelState::Open(end) = &mut self.state {
            end.close();
        }
    }
}
