//! State shared by all parties of a simulated machine: virtual time, random numbers, windows, sockets and the
//! event queue.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use tombolo_base::hash::fnv1a;
use tombolo_base::{ChannelId, DomainId, Random};
use tombolo_control::CapabilityId;
use tombolo_machine::Image;

use crate::audit::Audit;
use crate::bulk::PoolModel;
use crate::descriptor::{Actor, SocketEnd, Wakes};
use crate::plan::Plan;
use crate::window::{WindowPlace, WindowSide, Windows};

/// Number of recent events kept for a failure report.
const REMEMBERED: usize = 60;

/// Maximum number of stores that arrive at once when no faults are injected.
const BURST: usize = 4096;

/// A scheduled event of the simulation.
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
        /// Generation of the node.
        generation: u16,
    },
    /// A node ends, for any cause.
    Die {
        /// The node.
        node: u16,
        /// In which generation.
        generation: u16,
        /// Cause that the root is given.
        cause: String,
    },
    /// The larger faults may be injected.
    Beat,
    /// A program is started on a node.
    Newcomer,
    /// A cut direction of a link is restored.
    Mend {
        /// The node.
        node: u16,
        /// Whether the direction towards the node.
        to_node: bool,
    },
    /// A slowed node returns to full speed.
    Hasten {
        /// The node.
        node: u16,
    },
}

/// Parameters of a process that is about to start.
#[derive(Debug)]
pub struct ProcessStart {
    /// Its process id.
    pub pid: i32,
    /// Node whose monitor it is a client of.
    pub node: u16,
    /// Domain that it was started as, if a monitor started it.
    pub domain: Option<DomainId>,
    /// Socket over which its exit status is reported; a hang-up shows its end.
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
    /// Closed or died, by side.
    pub abandoned: [bool; 2],
    /// Open now, by side.
    pub open: [bool; 2],
    /// Messages that carry a capability id, by side.
    pub sent_capabilities: [Vec<(u64, CapabilityId)>; 2],
    /// Bulk messages in flight, by side.
    pub bulk: [VecDeque<Vec<u8>>; 2],
}

/// The state that all parties of a simulation share.
pub struct Shared {
    /// Virtual time since the start, in nanoseconds.
    pub now: u64,
    /// Source of all random choices.
    pub random: Random,
    /// The choices that the seed drew.
    pub plan: Plan,
    /// All windows.
    pub windows: Windows,
    /// Pending wake-ups.
    pub wakes: Wakes,
    /// The checker.
    pub audit: Audit,
    /// Image files.
    pub images: Vec<Image>,
    /// Backlog of connections not yet accepted, by node; no entry where no agent listens.
    pub listeners: BTreeMap<u16, VecDeque<(i32, SocketEnd)>>,
    /// Processes about to start.
    pub born: Vec<ProcessStart>,
    /// All channels between domains that were ever opened.
    pub channels: BTreeMap<ChannelId, ChannelLog>,
    /// The checker of bulk data.
    pub bulk: PoolModel,
    /// Hashes of messages in flight between monitors.
    pub lines: BTreeMap<(u16, u16, bool), VecDeque<u64>>,
    /// Directions of lines over sockets that are cut: node, and whether towards it.
    pub cuts: BTreeSet<(u16, bool)>,
    /// The factor by which a node is slowed down.
    pub slow: BTreeMap<u16, u64>,
    /// Set once fault injection has ended and nothing new is started.
    pub healed: bool,
    /// Set once all processes are to exit.
    pub ending: bool,
    /// Number of process actions left in the run.
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
    /// Creates the state at the start of a run.
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
            bulk: PoolModel::default(),
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

    /// Adds an event to the hash of the run, and its text to the trace if the run is traced.
    pub fn record_event(&mut self, words: &[u64], text: impl FnOnce() -> String) {
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

    /// Returns the hash of the run so far: equal for equal seeds.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the number of events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the text of the most recent events.
    #[must_use]
    pub fn trace(&self) -> Vec<String> {
        self.trace.iter().flatten().cloned().collect()
    }

    /// Schedules an event after a delay.
    pub fn schedule_after(&mut self, delay_ns: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse((self.now + delay_ns, self.sequence, event)));
    }

    /// Schedules a turn of a party after at most `delay_ns`.
    pub fn schedule_turn(&mut self, actor: Actor, delay_ns: u64) {
        let at = self.now + delay_ns;
        if self.turns.get(&actor).is_some_and(|planned| *planned <= at) {
            return;
        }
        self.turns.insert(actor, at);
        self.schedule_after(delay_ns, Event::Turn(actor));
    }

    /// Wakes a party: its turn follows after a short random delay.
    pub fn wake(&mut self, actor: Actor) {
        let delay_ns = self.random.magnitude(100, self.plan.turn_ns);
        self.schedule_turn(actor, delay_ns * self.slow_factor(actor));
    }

    /// Rings a doorbell. As an injected fault the wake-up may be duplicated or delayed.
    pub fn ring(&mut self, actors: &[Actor]) {
        for actor in actors {
            if !self.healed && self.random.chance(self.plan.faults.ring_late) {
                let delay_ns = self.random.magnitude(1_000, 50_000_000);
                self.schedule_after(delay_ns, Event::Turn(*actor));
            } else {
                self.wake(*actor);
            }
            if !self.healed && self.random.chance(self.plan.faults.ring_twice) {
                let delay_ns = self.random.magnitude(1_000, 10_000_000);
                self.schedule_after(delay_ns, Event::Turn(*actor));
            }
        }
    }

    fn slow_factor(&self, actor: Actor) -> u64 {
        let node = match actor {
            Actor::Root => 0,
            Actor::Node(node) => node,
            Actor::Process(_) => return 1,
        };
        self.slow.get(&node).copied().unwrap_or(1)
    }

    /// Advances the time to the next event and returns it; `None` if none is due by `until_ns`.
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

    /// Returns the time of the next event.
    #[must_use]
    pub fn next_at(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse((at, ..))| *at)
    }

    /// Puts the stores of a party's turn onto the links and wakes the parties whose doorbells it rang.
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
        self.schedule_after(delay_ns, Event::Arrive(place));
    }

    /// Delivers some of the stores in flight to a place.
    pub fn arrive(&mut self, place: WindowPlace) {
        let torn = !self.healed && self.random.chance(self.plan.faults.torn);
        let count = if torn { self.random.magnitude(1, 64) as usize } else { BURST };
        let (woken, more) = self.windows.arrive(place, count, &mut self.random);
        // A link with two copies rings on arrival, because a fence has no effect across it.
        woken.into_iter().for_each(|actor| self.wake(actor));
        if more {
            self.schedule_arrival(place);
        }
    }

    /// Cuts or heals one direction between a node and the root.
    pub fn set_cut(&mut self, node: u16, window: Option<u64>, to_node: bool, cut: bool) {
        match window.filter(|window| !self.windows.is_coherent(*window)) {
            Some(window) => {
                let side = if to_node { WindowSide::Far } else { WindowSide::Near };
                let place = WindowPlace { window, side };
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

    /// Allocates a process id.
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
