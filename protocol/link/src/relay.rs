//! Core of a relay that joins two channels: moves messages, and propagates how an end ended.
//!
//! [`Route`] holds at most one message in each direction: it receives from one hop only what the other has
//! room for, so back-pressure propagates. It propagates an end only after all messages that came before it.
//! It performs no I/O: the two [`Hop`]s are the ends of two ordinary channels.

use alloc::vec::Vec;

use tombolo_base::NodeId;

use crate::disconnect_reason::DisconnectReason;
use crate::end::EndError;

/// Maximum number of messages moved per step and direction, so that a busy route does not starve others.
pub const BURST: usize = 32;

/// Relay's end of one of the two channels.
pub trait Hop {
    /// Receives a message into `buffer`, replacing its contents. Returns whether there was one.
    ///
    /// # Errors
    /// The end of the channel, after everything sent before was received.
    fn receive(&mut self, buffer: &mut Vec<u8>) -> Result<bool, EndError>;

    /// Sends a whole message, or nothing.
    ///
    /// # Errors
    /// [`EndError::Full`] when there is no room; all other errors are final.
    fn send(&mut self, message: &[u8]) -> Result<(), EndError>;

    /// Whether accepted messages are still queued in this process.
    fn has_unsent(&mut self) -> bool;

    /// Returns the reason why the peer released its end, if the peer is a relay that reported it.
    fn disconnect_reason(&self) -> Option<DisconnectReason>;

    /// Closes the channel in order.
    fn close(&mut self);

    /// Ends the channel abnormally and reports the reason.
    fn abort(&mut self, reason: DisconnectReason);
}

/// Party directly at the other end of a hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HopPeer {
    /// The domain at the end of the route.
    End,
    /// Another relay, on this node.
    Relay(NodeId),
}

/// How a hop ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Termination {
    Closed,
    Lost(DisconnectReason),
}

/// Conditions to wait for on a hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// A message, or the end.
    pub message: bool,
    /// Room for a message, or progress of the kernel on accepted messages.
    pub room: bool,
}

/// Result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// Number of messages moved.
    pub moved: u64,
    /// Whether more may be moved at once.
    pub has_more: bool,
    /// Conditions to wait for on each hop.
    pub needs: [Needs; 2],
    /// Whether both channels have ended and can be dropped.
    pub finished: bool,
}

/// One direction of a route.
#[derive(Debug, Default)]
struct Direction {
    /// Message that was received and not sent yet.
    held_message: Option<Vec<u8>>,
    /// Buffer for the next message.
    spare_buffer: Vec<u8>,
    /// How the source hop ended.
    termination: Option<Termination>,
    /// Whether the sink hop accepts no more messages.
    sink_closed: bool,
}

/// Two hops that a relay joins.
#[derive(Debug)]
pub struct Route {
    /// Directions, indexed by their source hop.
    directions: [Direction; 2],
    peers: [HopPeer; 2],
    finished: bool,
}

impl Route {
    /// Creates a route between two open channels.
    #[must_use]
    pub fn new(peers: [HopPeer; 2]) -> Self {
        Route { directions: [Direction::default(), Direction::default()], peers, finished: false }
    }

    /// Moves as many messages as possible, and ends the hops when due.
    pub fn step<H: Hop>(&mut self, hops: [&mut H; 2]) -> Step {
        let mut step = Step::default();
        let [first, second] = hops;
        for from in [0, 1] {
            let (source, sink) =
                if from == 0 { (&mut *first, &mut *second) } else { (&mut *second, &mut *first) };
            let moved = self.directions[from].advance(source, sink, self.peers[from]);
            step.moved += moved;
            step.has_more |= moved as usize == BURST;
            self.end_if_due(from, source, sink);
        }
        if self.directions.iter().all(|direction| direction.sink_closed) {
            // Both ends are gone, so neither has to be notified.
            first.close();
            second.close();
            self.finished = true;
        }
        step.finished = self.finished;
        for hop in [0, 1] {
            let (own, other) = (&self.directions[hop], &self.directions[1 - hop]);
            step.needs[hop] = Needs {
                message: own.held_message.is_none() && own.termination.is_none() && !own.sink_closed,
                room: (other.held_message.is_some() || other.termination.is_some())
                    && !tombolo_base::canary!("relay awaits no room"),
            };
        }
        step
    }

    /// Propagates the end of `source`, once everything that it sent is delivered.
    fn end_if_due<H: Hop>(&mut self, from: usize, source: &mut H, sink: &mut H) {
        let direction = &self.directions[from];
        let Some(termination) = direction.termination else { return };
        if self.finished || direction.held_message.is_some() || (!direction.sink_closed && sink.has_unsent())
        {
            return;
        }
        match termination {
            Termination::Closed => sink.close(),
            Termination::Lost(_) if tombolo_base::canary!("relay closes for who died") => sink.close(),
            Termination::Lost(reason) => sink.abort(reason),
        }
        source.close();
        self.finished = true;
    }
}

impl Direction {
    /// Moves messages from `source` to `sink` and returns their number.
    fn advance<H: Hop>(&mut self, source: &mut H, sink: &mut H, peer: HopPeer) -> u64 {
        let mut moved = 0;
        while moved < BURST as u64 && !self.sink_closed {
            let message = match self.held_message.take() {
                Some(held_message) => held_message,
                None => match self.receive(source, peer) {
                    Some(message) => message,
                    None => break,
                },
            };
            match sink.send(&message) {
                Ok(()) => {
                    moved += 1;
                    self.spare_buffer = message;
                }
                Err(EndError::Full) => {
                    if !tombolo_base::canary!("relay drops what finds no room") {
                        self.held_message = Some(message);
                    }
                    break;
                }
                // Both hops have the same limit, so the sender violated it.
                Err(EndError::TooLong) => {
                    self.termination = Some(Termination::Lost(DisconnectReason::Broken));
                }
                // The reason shows once its last messages are received.
                Err(EndError::Closed | EndError::PeerDied | EndError::Broken) => self.sink_closed = true,
            }
        }
        moved
    }

    fn receive<H: Hop>(&mut self, source: &mut H, peer: HopPeer) -> Option<Vec<u8>> {
        if self.termination.is_some() {
            return None;
        }
        let mut buffer = core::mem::take(&mut self.spare_buffer);
        let termination = match source.receive(&mut buffer) {
            Ok(true) => return Some(buffer),
            Ok(false) => None,
            Err(EndError::Closed) => Some(Termination::Closed),
            Err(EndError::PeerDied) => {
                Some(Termination::Lost(source.disconnect_reason().unwrap_or(match peer {
                    HopPeer::Relay(node)
                        if !tombolo_base::canary!("relay takes each death for that of the end") =>
                    {
                        DisconnectReason::RelayDied(node)
                    }
                    _ => DisconnectReason::Died,
                })))
            }
            Err(EndError::Broken | EndError::Full | EndError::TooLong) => {
                Some(Termination::Lost(DisconnectReason::Broken))
            }
        };
        self.spare_buffer = buffer;
        self.termination = termination;
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
