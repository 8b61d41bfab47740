//! What everybody in a simulated machine has in common: time, chance, windows, sockets, and what is to happen
//! next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use tombolo_base::hash::fnv1a;
use tombolo_base::{ChannelId, DomainId, Random};
use tombolo_control::CapabilityId;
use tombolo_machine::Image;

use crate::audit::Audit;
use crate::bulk::Book;
use crate::descriptor::{Actor, SocketEnd, Wakes};
use crate::plan::Plan;
use crate::window::{Shore, WindowPlace, Windows};

/// Events that are remembered for the report of a failure.
const REMEMBERED: usize = 60;

/// Stores that arrive at a time where nothing goes wrong.
const BURST: usize = 4096;

/// Something that is to happen.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// A party acts.
    Turn(Actor),
    /// Stores arrive.
    Arrive(WindowPlace),
    /// A process gets a signal.
    Signal {
        /// The process.
        pid: i32,
        /// Its number.
        signal: u8,
    },
    /// A node has been started and its monitor begins to run.
    Boot {
        /// The node.
        node: u16,
        /// In which generation.
        generation: u16,
    },
    /// A node ends, by whatever.
    Die {
        /// The node.
        node: u16,
        /// In which generation.
        generation: u16,
        /// The cause that the root learns.
        cause: String,
    },
    /// The larger faults may happen.
    Beat,
    /// A program is started on a node.
    Newcomer,
    /// A link works again.
    Mend {
        /// The node.
        node: u16,
        /// Towards it.
        to_node: bool,
    },
    /// A node is as fast as ever.
    Hasten {
        /// The node.
        node: u16,
    },
}

/// A process to be.
#[derive(Debug)]
pub struct Birth {
    /// Its number.
    pub pid: i32,
    /// Whose monitor it talks to.
    pub node: u16,
    /// What it was started as.
    pub domain: Option<DomainId>,
    /// Shows its end.
    pub life: Option<SocketEnd>,
    /// Its standard output and error.
    pub outputs: Vec<SocketEnd>,
    /// Its standard input.
    pub input: Option<SocketEnd>,
    /// Its side stream.
    pub side: Option<SocketEnd>,
}

/// The operations of the two sides of a channel, which are checked against each other.
#[derive(Debug, Default)]
pub struct ChannelLog {
    /// Messages accepted for sending, by side.
    pub sent: [u64; 2],
    /// Messages received, by side.
    pub received: [u64; 2],
    /// Closed in order, by side.
    pub closed: [bool; 2],
    /// Closed or dead, by side.
    pub let_go: [bool; 2],
    /// Open now, by side.
    pub open: [bool; 2],
    /// By side, which messages bring the number of a right.
    pub brings: [Vec<(u64, CapabilityId)>; 2],
    /// By side, messages of bulk data that were sent and not yet received.
    pub bulk: [VecDeque<Vec<u8>>; 2],
}

/// The state that all parties of a simulation share.
pub struct Shared {
    /// The time, in nanoseconds from the start.
    pub now: u64,
    /// Chance.
    pub random: Random,
    /// The choices that the seed drew.
    pub plan: Plan,
    /// All windows.
    pub windows: Windows,
    /// The party to be woken.
    pub wakes: Wakes,
    /// The checker.
    pub audit: Audit,
    /// Image files.
    pub images: Vec<Image>,
    /// Connections that no agent has accepted yet, by node; none where no agent listens.
    pub listeners: BTreeMap<u16, VecDeque<(i32, SocketEnd)>>,
    /// Processes to be.
    pub born: Vec<Birth>,
    /// All channels between domains that were ever opened.
    pub channels: BTreeMap<ChannelId, ChannelLog>,
    /// The checker of bulk data.
    pub bulk: Book,
    /// Hashes of messages on their way between monitors.
    pub lines: BTreeMap<(u16, u16, bool), VecDeque<u64>>,
    /// Directions of lines over sockets that are cut: node, and whether towards it.
    pub cuts: BTreeSet<(u16, bool)>,
    /// The factor by which a node is slowed down.
    pub slow: BTreeMap<u16, u64>,
    /// Faults have ended, and nothing new is started.
    pub healed: bool,
    /// Everybody is to come to an end.
    pub ending: bool,
    /// Things that may still be done.
    pub actions_left: u64,
    next_pid: i32,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    turns: BTreeMap<Actor, u64>,
    hash: u64,
    events: u64,
    trace: Option<VecDeque<String>>,
}

impl Shared {
    /// A beginning.
    #[must_use]
    pub fn new(random: Random, plan: Plan, audit: Audit, images: Vec<Image>, traced: bool) -> Self {
        let actions_left = plan.actions;
        Shared {
            now: 0,
            random,
            plan,
            windows: Windows::default(),
            wakes: Wakes::default(),
            audit,
            images,
            listeners: BTreeMap::new(),
            born: Vec::new(),
            channels: BTreeMap::new(),
            bulk: Book::default(),
            lines: BTreeMap::new(),
            cuts: BTreeSet::new(),
            slow: BTreeMap::new(),
            healed: false,
            ending: false,
            actions_left,
            next_pid: 100,
            queue: BinaryHeap::new(),
            sequence: 0,
            turns: BTreeMap::new(),
            hash: fnv1a(b"tombolo"),
            events: 0,
            trace: traced.then(VecDeque::new),
        }
    }

    /// Records an event in the hash of the run, and in words if the run is traced.
    pub fn note(&mut self, words: &[u64], text: impl FnOnce() -> String) {
        for word in words {
            self.hash = (self.hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
        }
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            if trace.len() == REMEMBERED {
                trace.pop_front();
            }
            trace.push_back(format!("{:>14.6} ms  {}", now as f64 / 1e6, text()));
        }
    }

    /// A hash of the whole run: the same for the same seed.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The number of events.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The last events in words.
    #[must_use]
    pub fn trace(&self) -> Vec<String> {
        self.trace.iter().flatten().cloned().collect()
    }

    /// Schedules an event after a delay.
    pub fn after(&mut self, delay_ns: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse((self.now + delay_ns, self.sequence, event)));
    }

    /// Lets a party act at this time at the latest.
    pub fn turn_within(&mut self, actor: Actor, delay_ns: u64) {
        let at = self.now + delay_ns;
        if self.turns.get(&actor).is_some_and(|planned| *planned <= at) {
            return;
        }
        self.turns.insert(actor, at);
        self.after(delay_ns, Event::Turn(actor));
    }

    /// Wakes a party, which acts a little later.
    pub fn wake(&mut self, actor: Actor) {
        let delay_ns = self.random.magnitude(100, self.plan.turn_ns);
        self.turn_within(actor, delay_ns * self.slowness(actor));
    }

    /// Rings a doorbell: it may come twice, or late.
    pub fn ring(&mut self, actors: &[Actor]) {
        for actor in actors {
            if !self.healed && self.random.chance(self.plan.faults.ring_late) {
                let delay_ns = self.random.magnitude(1_000, 50_000_000);
                self.after(delay_ns, Event::Turn(*actor));
            } else {
                self.wake(*actor);
            }
            if !self.healed && self.random.chance(self.plan.faults.ring_twice) {
                let delay_ns = self.random.magnitude(1_000, 10_000_000);
                self.after(delay_ns, Event::Turn(*actor));
            }
        }
    }

    fn slowness(&self, actor: Actor) -> u64 {
        let node = match actor {
            Actor::Root => 0,
            Actor::Node(node) => node,
            Actor::Process(_) => return 1,
        };
        self.slow.get(&node).copied().unwrap_or(1)
    }

    /// The next event, at its time; none after `until_ns`.
    pub fn next(&mut self, until_ns: u64) -> Option<Event> {
        if self.queue.peek().is_none_or(|Reverse((at, ..))| *at > until_ns) {
            return None;
        }
        let Reverse((at, _, event)) = self.queue.pop()?;
        self.now = at;
        if let Event::Turn(actor) = &event
            && self.turns.get(actor) == Some(&at)
        {
            self.turns.remove(actor);
        }
        self.events += 1;
        Some(event)
    }

    /// When the next event is.
    #[must_use]
    pub fn next_at(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse((at, ..))| *at)
    }

    /// After a party has acted: puts its stores onto the links, and wakes the parties that it rang for.
    pub fn flush(&mut self) {
        for place in self.windows.collect() {
            self.schedule_arrival(place);
        }
        let woken = std::mem::take(&mut *self.wakes.borrow_mut());
        woken.into_iter().for_each(|actor| self.wake(actor));
    }

    /// Schedules the arrival of the stores that are in flight to a place.
    pub fn schedule_arrival(&mut self, place: WindowPlace) {
        let delay_ns = self.random.magnitude(100, self.plan.link_ns);
        self.after(delay_ns, Event::Arrive(place));
    }

    /// Lets some of the stores arrive.
    pub fn arrive(&mut self, place: WindowPlace) {
        let torn = !self.healed && self.random.chance(self.plan.faults.torn);
        let count = if torn { self.random.magnitude(1, 64) as usize } else { BURST };
        let (woken, more) = self.windows.arrive(place, count, &mut self.random);
        // Where a link carries copies it rings for what arrives: a fence does not reach across it.
        woken.into_iter().for_each(|actor| self.wake(actor));
        if more {
            self.schedule_arrival(place);
        }
    }

    /// Cuts or heals one direction between a node and the root.
    pub fn set_cut(&mut self, node: u16, window: Option<u64>, to_node: bool, cut: bool) {
        match window.filter(|window| !self.windows.is_coherent(*window)) {
            Some(window) => {
                let shore = if to_node { Shore::Far } else { Shore::Near };
                let place = WindowPlace { window, shore };
                if self.windows.set_cut(place, cut) {
                    self.schedule_arrival(place);
                }
            }
            None if cut => {
                self.cuts.insert((node, to_node));
            }
            None => {
                self.cuts.remove(&(node, to_node));
                self.wake(if to_node { Actor::Node(node) } else { Actor::Root });
            }
        }
    }

    /// A new process number.
    pub fn pid(&mut self) -> i32 {
        self.next_pid += 1;
        self.next_pid
    }

    /// Connects a process to the agent of a node, if there is one.
    pub fn connect(&mut self, node: u16, pid: i32) -> Option<SocketEnd> {
        let (ours, theirs) = SocketEnd::pair(&self.wakes);
        self.listeners.get_mut(&node)?.push_back((pid, theirs));
        self.wake(if node == 0 { Actor::Root } else { Actor::Node(node) });
        Some(ours.owned_by(Actor::Process(pid)))
    }
}
