//! The link: what is on its way, and until when.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tombolo_link::Side;

/// What a link is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conditions {
    /// The shortest time that something is on its way, in nanoseconds of the link's own clock.
    pub latency_ns: u64,
    /// What may be added to that.
    pub jitter_ns: u64,
    /// How much time goes by with each look.
    pub look_ns: u64,
    /// With so many bytes of messages on their way in one direction there is no room for another; with fewer there is,
    /// however long it is.
    pub room_bytes: usize,
}

impl Default for Conditions {
    /// A microsecond, more or less; a few looks; 64 KiB.
    fn default() -> Self {
        Conditions { latency_ns: 700, jitter_ns: 600, look_ns: 200, room_bytes: 64 * 1024 }
    }
}

/// What goes over a link.
#[derive(Debug)]
pub(super) enum Packet {
    Hello([u64; 8]),
    /// In the words of a stream: see `docs/specs/channel.md`.
    Verdict(u64),
    Message(Vec<u8>),
    Close,
}

/// One way of a link.
#[derive(Debug, Default)]
struct Way {
    packets: VecDeque<(u64, Packet)>,
    message_bytes: usize,
    /// When the last one arrives: none overtakes it.
    last_ns: u64,
}

/// What one side has come to.
#[derive(Debug, Default)]
struct End {
    closed: bool,
    gone: bool,
    killed: bool,
}

#[derive(Debug)]
struct World {
    conditions: Conditions,
    now_ns: u64,
    random: u64,
    ways: [Way; 2],
    ends: [End; 2],
}

const fn index(side: Side) -> usize {
    match side {
        Side::A => 0,
        Side::B => 1,
    }
}

/// One end of a link on which no channel was opened yet. Dropped, it is gone, and the other side can know.
#[derive(Debug)]
pub struct SimEnd {
    world: Arc<Mutex<World>>,
    side: Side,
}

/// What the other side looks like from here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    There,
    /// It closed; what it sent may still be on its way.
    Closed,
    Gone,
}

/// What a look found.
#[derive(Debug)]
pub(super) enum Look<P> {
    Arrived(P),
    /// Something is on its way, or may be sent yet.
    NotYet,
    /// Nothing will ever come any more.
    Never,
}

/// Makes a link.
#[must_use]
pub fn link(conditions: Conditions, seed: u64) -> (SimEnd, SimEnd) {
    let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let world = World { conditions, now_ns: 0, random, ways: Default::default(), ends: Default::default() };
    let world = Arc::new(Mutex::new(world));
    (SimEnd { world: world.clone(), side: Side::A }, SimEnd { world, side: Side::B })
}

impl World {
    fn draw(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % bound.max(1)
    }

    fn put(&mut self, way: usize, packet: Packet) {
        let delay_ns = self.conditions.latency_ns + self.draw(self.conditions.jitter_ns + 1);
        let arrival_ns = (self.now_ns + delay_ns).max(self.ways[way].last_ns);
        let way = &mut self.ways[way];
        way.last_ns = arrival_ns;
        way.packets.push_back((arrival_ns, packet));
    }
}

impl SimEnd {
    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which side it is.
    #[must_use]
    pub fn side(&self) -> Side {
        self.side
    }

    /// What can end it between two calls, from elsewhere.
    #[must_use]
    pub fn killer(&self) -> Killer {
        Killer { world: self.world.clone(), side: self.side }
    }

    /// The link's own time, in nanoseconds from its beginning.
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
            (false, false) => Peer::There,
        }
    }

    /// Whether there is room for a message.
    pub(super) fn has_room(&self) -> bool {
        let mut world = self.lock();
        world.now_ns += world.conditions.look_ns;
        world.ways[index(self.side)].message_bytes < world.conditions.room_bytes
    }

    /// Sends something for which there is room, or which needs none.
    pub(super) fn put(&self, packet: Packet) {
        let mut world = self.lock();
        let (own, closes) = (index(self.side), matches!(packet, Packet::Close));
        if let Packet::Message(message) = &packet {
            // An empty one takes room as well, or there could be any number of them.
            world.ways[own].message_bytes += message.len().max(1);
        }
        world.put(own, packet);
        world.ends[own].closed |= closes;
    }

    /// Takes what has arrived, if `wanted` wants it. Time goes by.
    pub(super) fn look<P>(
        &self,
        wanted: impl FnOnce(&Packet) -> bool,
        take: impl FnOnce(Packet) -> P,
    ) -> Look<Option<P>> {
        let mut world = self.lock();
        world.now_ns += world.conditions.look_ns;
        let (now_ns, theirs) = (world.now_ns, index(self.side.other()));
        let gone = world.ends[theirs].gone;
        let way = &mut world.ways[theirs];
        match way.packets.front() {
            Some((arrival_ns, packet)) if *arrival_ns <= now_ns => {
                if !wanted(packet) {
                    return Look::Arrived(None);
                }
            }
            None if gone => return Look::Never,
            _ => return Look::NotYet,
        }
        let Some((_, packet)) = way.packets.pop_front() else { return Look::NotYet };
        if let Packet::Message(message) = &packet {
            way.message_bytes -= message.len().max(1);
        }
        Look::Arrived(Some(take(packet)))
    }
}

impl Drop for SimEnd {
    fn drop(&mut self) {
        self.lock().ends[index(self.side)].gone = true;
    }
}

/// Ends a side without a word. What it had sent still arrives.
#[derive(Debug)]
pub struct Killer {
    world: Arc<Mutex<World>>,
    side: Side,
}

impl Killer {
    /// Kills it: from now on it can do nothing, and its peer can know.
    pub fn kill(&self) {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        let end = &mut world.ends[index(self.side)];
        (end.gone, end.killed) = (true, true);
    }
}
