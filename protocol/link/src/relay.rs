//! Core of a relay that joins two channels: moves messages, and propagates how an end ended.
//!
//! [`Route`] holds at most one message in each direction: it receives from one hop only what the other has
//! room for, so back-pressure propagates. It propagates an end only after all messages that came before it.
//! It performs no I/O: the two [`Hop`]s are the ends of two ordinary channels.

use alloc::vec::Vec;

use tombolo_base::NodeId;

use crate::end::EndError;
use crate::far_end::FarEnd;

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
    fn told(&self) -> Option<FarEnd>;

    /// Closes the channel in order.
    fn close(&mut self);

    /// Ends the channel abnormally and reports the reason.
    fn leave(&mut self, why: FarEnd);
}

/// Party directly at the other end of a hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beyond {
    /// The domain at the end of the route.
    End,
    /// Another relay, on this node.
    Relay(NodeId),
}

/// How a hop ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Departure {
    Closed,
    Gone(FarEnd),
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
    pub more: bool,
    /// Conditions to wait for on each hop.
    pub needs: [Needs; 2],
    /// Whether both channels have ended and can be dropped.
    pub over: bool,
}

/// One direction of a route.
#[derive(Debug, Default)]
struct Way {
    /// Message that was received and not sent yet.
    held: Option<Vec<u8>>,
    /// Buffer for the next message.
    spare: Vec<u8>,
    /// How the source hop ended.
    departure: Option<Departure>,
    /// Whether the sink hop accepts no more messages.
    blind: bool,
}

/// Two hops that a relay joins.
#[derive(Debug)]
pub struct Route {
    /// Directions, indexed by their source hop.
    ways: [Way; 2],
    beyond: [Beyond; 2],
    over: bool,
}

impl Route {
    /// Creates a route between two open channels.
    #[must_use]
    pub fn new(beyond: [Beyond; 2]) -> Self {
        Route { ways: [Way::default(), Way::default()], beyond, over: false }
    }

    /// Moves as many messages as possible, and ends the hops when due.
    pub fn step<H: Hop>(&mut self, hops: [&mut H; 2]) -> Step {
        let mut step = Step::default();
        let [first, second] = hops;
        for from in [0, 1] {
            let (source, sink) =
                if from == 0 { (&mut *first, &mut *second) } else { (&mut *second, &mut *first) };
            let moved = self.ways[from].advance(source, sink, self.beyond[from]);
            step.moved += moved;
            step.more |= moved as usize == BURST;
            self.end_if_due(from, source, sink);
        }
        if self.ways.iter().all(|way| way.blind) {
            // Both ends are gone, so neither has to be notified.
            first.close();
            second.close();
            self.over = true;
        }
        step.over = self.over;
        for hop in [0, 1] {
            let (own, other) = (&self.ways[hop], &self.ways[1 - hop]);
            step.needs[hop] = Needs {
                message: own.held.is_none() && own.departure.is_none() && !own.blind,
                room: (other.held.is_some() || other.departure.is_some())
                    && !tombolo_base::canary!("relay awaits no room"),
            };
        }
        step
    }

    /// Propagates the end of `source`, once everything that it sent is delivered.
    fn end_if_due<H: Hop>(&mut self, from: usize, source: &mut H, sink: &mut H) {
        let way = &self.ways[from];
        let Some(departure) = way.departure else { return };
        if self.over || way.held.is_some() || (!way.blind && sink.has_unsent()) {
            return;
        }
        match departure {
            Departure::Closed => sink.close(),
            Departure::Gone(_) if tombolo_base::canary!("relay closes for who died") => sink.close(),
            Departure::Gone(why) => sink.leave(why),
        }
        source.close();
        self.over = true;
    }
}

impl Way {
    /// Moves messages from `source` to `sink` and returns their number.
    fn advance<H: Hop>(&mut self, source: &mut H, sink: &mut H, beyond: Beyond) -> u64 {
        let mut moved = 0;
        while moved < BURST as u64 && !self.blind {
            let message = match self.held.take() {
                Some(held) => held,
                None => match self.receive(source, beyond) {
                    Some(message) => message,
                    None => break,
                },
            };
            match sink.send(&message) {
                Ok(()) => {
                    moved += 1;
                    self.spare = message;
                }
                Err(EndError::Full) => {
                    if !tombolo_base::canary!("relay drops what finds no room") {
                        self.held = Some(message);
                    }
                    break;
                }
                // Both hops have the same limit, so the sender violated it.
                Err(EndError::TooLong) => self.departure = Some(Departure::Gone(FarEnd::Broken)),
                // The reason shows once its last messages are received.
                Err(EndError::Closed | EndError::PeerDied | EndError::Broken) => self.blind = true,
            }
        }
        moved
    }

    fn receive<H: Hop>(&mut self, source: &mut H, beyond: Beyond) -> Option<Vec<u8>> {
        if self.departure.is_some() {
            return None;
        }
        let mut buffer = core::mem::take(&mut self.spare);
        let departure = match source.receive(&mut buffer) {
            Ok(true) => return Some(buffer),
            Ok(false) => None,
            Err(EndError::Closed) => Some(Departure::Closed),
            Err(EndError::PeerDied) => Some(Departure::Gone(source.told().unwrap_or(match beyond {
                Beyond::Relay(node)
                    if !tombolo_base::canary!("relay takes each death for that of the end") =>
                {
                    FarEnd::RelayDied(node)
                }
                _ => FarEnd::Died,
            }))),
            Err(EndError::Broken | EndError::Full | EndError::TooLong) => {
                Some(Departure::Gone(FarEnd::Broken))
            }
        };
        self.spare = buffer;
        self.departure = departure;
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
