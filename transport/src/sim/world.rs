//! Simulated link: the packets in transit and their arrival times.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tombolo_base::Random;
use tombolo_link::Side;

/// Properties of a simulated link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conditions {
    /// Minimum transit time, in nanoseconds of the link's own clock.
    pub latency_ns: u64,
    /// Maximum random addition to the transit time, in nanoseconds.
    pub jitter_ns: u64,
    /// Advance of the clock with each poll, in nanoseconds.
    pub poll_ns: u64,
    /// Bytes of messages in transit in one direction at which there is no room for another message. Below it,
    /// a message of any length is accepted.
    pub room_bytes: usize,
}

impl Default for Conditions {
    /// Returns about a microsecond of latency, a few polls long, with room for 64 KiB.
    fn default() -> Self {
        Conditions { latency_ns: 700, jitter_ns: 600, poll_ns: 200, room_bytes: 64 * 1024 }
    }
}

/// Packet that travels over a link.
#[derive(Debug)]
pub(super) enum Packet {
    Hello([u64; 8]),
    /// Verdict as on a stream, see `docs/specs/channel.md`.
    Verdict(u64),
    Message(Vec<u8>),
    Close,
}

/// One direction of a link.
#[derive(Debug, Default)]
struct Direction {
    packets: VecDeque<(u64, Packet)>,
    message_bytes: usize,
    /// Arrival time of the last packet; later ones do not overtake it.
    last_ns: u64,
}

/// State of one side.
#[derive(Debug, Default)]
struct SideState {
    closed: bool,
    gone: bool,
    killed: bool,
}

#[derive(Debug)]
struct LinkState {
    conditions: Conditions,
    now_ns: u64,
    random: Random,
    directions: [Direction; 2],
    ends: [SideState; 2],
}

const fn index(side: Side) -> usize {
    match side {
        Side::A => 0,
        Side::B => 1,
    }
}

/// End of a link, before a channel is opened on it. Dropping it ends this side, which the peer can detect.
#[derive(Debug)]
pub struct SimEnd {
    state: Arc<Mutex<LinkState>>,
    side: Side,
}

/// State of the other side as seen from here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    Open,
    /// The peer closed; packets that it sent may still be in transit.
    Closed,
    Gone,
}

/// Result of polling the link.
#[derive(Debug)]
pub(super) enum Polled<P> {
    Arrived(P),
    /// A packet is in transit, or may still be sent.
    NotYet,
    /// Nothing will arrive any more.
    Never,
}

/// Creates a link and returns both ends.
#[must_use]
pub fn link(conditions: Conditions, seed: u64) -> (SimEnd, SimEnd) {
    let random = Random::new(seed);
    let state =
        LinkState { conditions, now_ns: 0, random, directions: Default::default(), ends: Default::default() };
    let state = Arc::new(Mutex::new(state));
    (SimEnd { state: state.clone(), side: Side::A }, SimEnd { state, side: Side::B })
}

impl LinkState {
    fn send(&mut self, direction: usize, packet: Packet) {
        let delay_ns = self.conditions.latency_ns + self.random.below(self.conditions.jitter_ns + 1);
        let arrival_ns = (self.now_ns + delay_ns).max(self.directions[direction].last_ns);
        let direction = &mut self.directions[direction];
        direction.last_ns = arrival_ns;
        direction.packets.push_back((arrival_ns, packet));
    }
}

impl SimEnd {
    fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the side of the channel that this end is.
    #[must_use]
    pub fn side(&self) -> Side {
        self.side
    }

    /// Returns a handle that can kill this end between two calls, from elsewhere.
    #[must_use]
    pub fn killer(&self) -> Killer {
        Killer { state: self.state.clone(), side: self.side }
    }

    /// Returns the link's own time, in nanoseconds since its creation.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.lock().now_ns
    }

    pub(super) fn killed(&self) -> bool {
        self.lock().ends[index(self.side)].killed
    }

    pub(super) fn peer(&self) -> Peer {
        let end = &self.lock().ends[index(self.side.other())];
        match (end.closed, end.gone) {
            (true, _) => Peer::Closed,
            (false, true) => Peer::Gone,
            (false, false) => Peer::Open,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        let mut state = self.lock();
        state.now_ns += state.conditions.poll_ns;
        state.directions[index(self.side)].message_bytes < state.conditions.room_bytes
    }

    /// Sends a packet. The caller has checked that there is room if it needs any.
    pub(super) fn send(&self, packet: Packet) {
        let mut state = self.lock();
        let (own, closes) = (index(self.side), matches!(packet, Packet::Close));
        if let Packet::Message(message) = &packet {
            // An empty message takes room as well, to bound the number of messages.
            state.directions[own].message_bytes += message.len().max(1);
        }
        state.send(own, packet);
        state.ends[own].closed |= closes;
    }

    /// Receives the next packet if it has arrived and `wanted` accepts it. Advances the clock.
    pub(super) fn poll<P>(
        &self,
        wanted: impl FnOnce(&Packet) -> bool,
        take: impl FnOnce(Packet) -> P,
    ) -> Polled<Option<P>> {
        let mut state = self.lock();
        state.now_ns += state.conditions.poll_ns;
        let (now_ns, theirs) = (state.now_ns, index(self.side.other()));
        let gone = state.ends[theirs].gone;
        let direction = &mut state.directions[theirs];
        match direction.packets.front() {
            Some((arrival_ns, packet)) if *arrival_ns <= now_ns => {
                if !wanted(packet) {
                    return Polled::Arrived(None);
                }
            }
            None if gone => return Polled::Never,
            _ => return Polled::NotYet,
        }
        let Some((_, packet)) = direction.packets.pop_front() else { return Polled::NotYet };
        if let Packet::Message(message) = &packet {
            direction.message_bytes -= message.len().max(1);
        }
        Polled::Arrived(Some(take(packet)))
    }
}

impl Drop for SimEnd {
    fn drop(&mut self) {
        self.lock().ends[index(self.side)].gone = true;
    }
}

/// Handle that kills a side without notice. What the side has sent still arrives.
#[derive(Debug)]
pub struct Killer {
    state: Arc<Mutex<LinkState>>,
    side: Side,
}

impl Killer {
    /// Kills the side: it can do nothing any more, and its peer can detect that.
    pub fn kill(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let end = &mut state.ends[index(self.side)];
        (end.gone, end.killed) = (true, true);
    }
}
