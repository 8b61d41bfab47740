//! What a relay does between two channels that it joins: moves messages, and passes on how an end ended.
//!
//! [`Route`] holds at most one message each way: it receives from one hop what the other has room for, so
//! that back-pressure passes through. It passes on an end only after all messages that came before it. It
//! performs no I/O: the two [`Hop`]s are the ends of two ordinary channels.

use alloc::vec::Vec;

use tombolo_base::NodeId;

use crate::end::EndError;
use crate::far_end::FarEnd;

/// Messages that a step moves each way at most, so that a busy route does not keep others waiting.
pub const BURST: usize = 32;

/// The relay's end of one of the two channels.
pub trait Hop {
    /// Receives a message in place of what `buffer` held; whether there was one.
    ///
    /// # Errors
    /// The end of the channel, after everything sent before was received.
    fn receive(&mut self, buffer: &mut Vec<u8>) -> Result<bool, EndError>;

    /// Sends a message, whole or not at all.
    ///
    /// # Errors
    /// [`EndError::Full`] when there is no room; the others are final.
    fn send(&mut self, message: &[u8]) -> Result<(), EndError>;

    /// Whether messages that were accepted still wait in this process.
    fn has_unsent(&mut self) -> bool;

    /// Why the peer released its end, if it is a relay that reported it.
    fn told(&self) -> Option<FarEnd>;

    /// Closes the channel in order.
    fn close(&mut self);

    /// Ends the channel otherwise, and says why.
    fn leave(&mut self, why: FarEnd);
}

/// What is directly at the other end of a hop.
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

/// What to wait for on a hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// A message, or the end.
    pub message: bool,
    /// Room for a message, or that the kernel takes what was accepted.
    pub room: bool,
}

/// What a step found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// Messages that were moved.
    pub moved: u64,
    /// There may be more to move at once.
    pub more: bool,
    /// What to wait for on each hop.
    pub needs: [Needs; 2],
    /// Both channels have ended: drop them.
    pub over: bool,
}

/// Messages on their way from one hop to the other.
#[derive(Debug, Default)]
struct Way {
    /// A message that was received and not sent yet.
    held: Option<Vec<u8>>,
    /// The buffer of the next.
    spare: Vec<u8>,
    /// How the hop that messages come from ended.
    departure: Option<Departure>,
    /// The hop that messages go to takes no more.
    blind: bool,
}

/// Two hops that a relay joins.
#[derive(Debug)]
pub struct Route {
    /// By the hop that messages come from.
    ways: [Way; 2],
    beyond: [Beyond; 2],
    over: bool,
}

impl Route {
    /// A route between two channels that are open.
    #[must_use]
    pub fn new(beyond: [Beyond; 2]) -> Self {
        Route { ways: [Way::default(), Way::default()], beyond, over: false }
    }

    /// Moves what can be moved, and ends the hops when the time has come.
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
            // Both ends are gone, and neither has to be told of the other.
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

    /// Passes on how `source` ended, once all that it sent is delivered.
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
    /// Moves messages; says how many.
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
                // Both hops have the same limit: who sent it follows another.
                Err(EndError::TooLong) => self.departure = Some(Departure::Gone(FarEnd::Broken)),
                // How it ended shows when its last messages are received.
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
