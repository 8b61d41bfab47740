//! Broadcast in a group under a model checker.
//!
//! Members are the real ones. A step is a death, or a message delivered from one member to another, so that
//! only the messages queued in the members are in flight. Programs take messages at once. The checker
//! explores every order of steps. In each state at rest it checks that all living members took the same
//! messages.

use std::collections::BTreeSet;

use stateright::{Model, Property};
use tombolo_broadcast::{Config, Event, Member, MemberId, Order};

/// Configuration and bounds of a model.
#[derive(Clone, Debug)]
pub struct Broadcast {
    /// Number of founding members.
    pub members: u64,
    /// Number of founders, from the first on, that broadcast one message each.
    pub sources: u64,
    /// Number of chunks in each message.
    pub chunks: usize,
    /// Number of children of a member, *k*.
    pub fan_out: u16,
    /// Number of members that may die.
    pub deaths: u8,
    /// Whether a program may join, at any step.
    pub joins: bool,
    /// Order in which messages are taken.
    pub order: Order,
    /// Mistake that the checker must find, if any.
    pub mistake: Mistake,
}

/// Mistakes that an implementation could make. They verify that the model can find faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// None.
    None,
    /// A member acknowledges a chunk only once it has a buffer to forward it from: the deadlock that the
    /// paper avoids.
    WaitsForBuffer,
    /// A member that considers another dead does not send the others its progress.
    TellsNothing,
    /// Chunks received before all members have agreed on a new view are dropped.
    Forgets,
}

/// A member, and the messages that its program took.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Process {
    member: Member,
    lives: bool,
    /// Sources of the messages taken, in order.
    took: Vec<MemberId>,
    left: BTreeSet<MemberId>,
    /// Dead members whose death it has not noticed yet.
    unnoticed: BTreeSet<MemberId>,
}

/// State of the whole group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BroadcastState {
    processes: Vec<Process>,
    deaths: u8,
    joined: bool,
    /// Description of an invariant that was violated in a step.
    broken: Option<&'static str>,
}

/// One step of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A message is delivered from one member to another.
    Carry(usize, usize),
    /// A member dies.
    Kill(usize),
    /// A member notices the death of another.
    Notice(usize, usize),
    /// A program joins.
    Join,
}

fn id(index: usize) -> MemberId {
    MemberId(index as u64)
}

impl Broadcast {
    fn config(&self) -> Config {
        Config {
            fan_out: self.fan_out,
            chunk_bytes: 1,
            buffers: 1,
            window_chunks: self.chunks as u32,
            max_message_bytes: self.chunks as u32,
            order: self.order,
        }
    }

    /// Lets the program of a member take all available events.
    fn take(process: &mut Process, broken: &mut Option<&'static str>) {
        while let Some(event) = process.member.next_event() {
            match event {
                Event::Message { from, .. } => {
                    if process.took.contains(&from) {
                        *broken = Some("a message was taken twice");
                    }
                    if process.left.contains(&from) {
                        *broken = Some("a message came after its source was said to be gone");
                    }
                    process.took.push(from);
                }
                Event::Left { member, .. } => {
                    process.left.insert(member);
                }
                Event::Joined(_) => {}
                Event::Expelled => *broken = Some("a member was expelled"),
            }
        }
    }

    /// Returns whether the planted mistake withholds a message.
    fn is_withheld(&self, process: &Process, message: &tombolo_broadcast::wire::Message) -> bool {
        use tombolo_broadcast::wire::Message;
        match self.mistake {
            Mistake::WaitsForBuffer => {
                matches!(message, Message::Flags { .. }) && process.member.usage().queued_chunks > 0
            }
            Mistake::TellsNothing => matches!(message, Message::Sync(_)) && process.left.is_empty(),
            _ => false,
        }
    }

    fn deliver(&self, state: &mut BroadcastState, from: usize, to: usize) -> Option<()> {
        let mut sender = state.processes[from].clone();
        let message = sender.member.transmit(id(to))?;
        if self.is_withheld(&sender, &message) {
            return None;
        }
        state.processes[from] = sender;
        let receiver = &mut state.processes[to];
        if !receiver.lives {
            return Some(());
        }
        if self.mistake == Mistake::Forgets && !receiver.member.is_agreed() && is_chunk(&message) {
            return Some(());
        }
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        if receiver.member.receive(id(from), &bytes).is_err() {
            state.broken = Some("a member refused a message");
        }
        Self::take(receiver, &mut state.broken);
        Some(())
    }

    fn next(&self, before: &BroadcastState, action: Action) -> Option<BroadcastState> {
        let mut state = before.clone();
        match action {
            Action::Carry(from, to) => self.deliver(&mut state, from, to)?,
            Action::Kill(member) => {
                state.deaths -= 1;
                state.processes[member].lives = false;
                for process in state.processes.iter_mut().filter(|process| process.lives) {
                    process.unnoticed.insert(id(member));
                }
            }
            Action::Notice(member, dead) => {
                let process = &mut state.processes[member];
                process.unnoticed.remove(&id(dead));
                process.member.peer_died(id(dead));
                Self::take(process, &mut state.broken);
            }
            Action::Join => {
                state.joined = true;
                let own = state.processes.len();
                let living: Vec<MemberId> =
                    (0..own).filter(|index| state.processes[*index].lives).map(id).collect();
                for process in state.processes.iter_mut().filter(|process| process.lives) {
                    process.member.peer_connected(id(own));
                    Self::take(process, &mut state.broken);
                }
                state.processes.push(Process {
                    member: Member::joining(id(own), living, self.config()),
                    lives: true,
                    took: Vec::new(),
                    left: BTreeSet::new(),
                    unnoticed: BTreeSet::new(),
                });
            }
        }
        Some(state)
    }

    /// Returns whether no message or death notice is in flight.
    fn is_quiet(&self, state: &BroadcastState) -> bool {
        let mut actions = Vec::new();
        self.actions(state, &mut actions);
        let moves = |action: &Action| {
            matches!(action, Action::Carry(..) | Action::Notice(..)) && self.next(state, *action).is_some()
        };
        !actions.iter().any(moves)
    }

    /// Describes the invariant that a state at rest violates, if any.
    fn fault(&self, state: &BroadcastState) -> Option<&'static str> {
        let living = || state.processes.iter().enumerate().filter(|(_, process)| process.lives);
        let founders = || living().filter(|(index, _)| (*index as u64) < self.members);
        for (own, process) in living() {
            if !process.member.is_agreed() || !process.member.is_drained() {
                return Some("a member waits for ever");
            }
            let others = state.processes.iter().enumerate();
            if others.into_iter().any(|(index, other)| process.left.contains(&id(index)) && other.lives) {
                return Some("a member is said to be gone that lives");
            }
            if self.order == Order::Total && own as u64 >= self.members {
                let (_, founder) = founders().next()?;
                if !founder.took.ends_with(&process.took) {
                    return Some("what a member that joined took is not the end of what the others took");
                }
            }
        }
        for (own, process) in founders() {
            for (index, _) in founders().filter(|(index, _)| (*index as u64) < self.sources) {
                let takes = index != own || self.order == Order::Total;
                if takes && !process.took.contains(&id(index)) {
                    return Some("a member did not get what another that lives broadcast");
                }
            }
            for (other_index, other) in founders() {
                let same = match self.order {
                    Order::Total => process.took == other.took,
                    Order::PerSource => {
                        process.took.iter().all(|from| *from == id(other_index) || other.took.contains(from))
                    }
                };
                if !same {
                    return Some("two members that live took different messages");
                }
            }
        }
        None
    }
}

fn is_chunk(message: &tombolo_broadcast::wire::Message) -> bool {
    matches!(message, tombolo_broadcast::wire::Message::Chunk { .. })
}

impl Model for Broadcast {
    type State = BroadcastState;
    type Action = Action;

    fn init_states(&self) -> Vec<BroadcastState> {
        let all: Vec<MemberId> = (0..self.members).map(MemberId).collect();
        let mut processes: Vec<Process> = all
            .iter()
            .map(|own| Process {
                member: Member::founding(*own, all.iter().copied(), self.config()),
                lives: true,
                took: Vec::new(),
                left: BTreeSet::new(),
                unnoticed: BTreeSet::new(),
            })
            .collect();
        let mut broken = None;
        for process in &mut processes {
            Self::take(process, &mut broken);
            if process.member.id().0 < self.sources {
                let message = vec![process.member.id().0 as u8; self.chunks];
                assert!(process.member.broadcast(&message).is_ok(), "the first message has room");
                Self::take(process, &mut broken);
            }
        }
        vec![BroadcastState { processes, deaths: self.deaths, joined: !self.joins, broken }]
    }

    fn actions(&self, state: &BroadcastState, actions: &mut Vec<Action>) {
        for (index, process) in state.processes.iter().enumerate().filter(|(_, process)| process.lives) {
            for to in process.member.peers() {
                // Nothing is delivered to a dead member.
                if state.processes.get(to.0 as usize).is_some_and(|other| other.lives) {
                    actions.push(Action::Carry(index, to.0 as usize));
                }
            }
            for dead in &process.unnoticed {
                actions.push(Action::Notice(index, dead.0 as usize));
            }
            if state.deaths > 0 {
                actions.push(Action::Kill(index));
            }
        }
        if !state.joined {
            actions.push(Action::Join);
        }
    }

    fn next_state(&self, before: &BroadcastState, action: Action) -> Option<BroadcastState> {
        self.next(before, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "nothing is taken twice, late or by one that is out",
                |_, state: &BroadcastState| state.broken.is_none(),
            ),
            Property::always("where nothing moves all have the same", |model: &Broadcast, state| {
                !model.is_quiet(state) || model.fault(state).is_none()
            }),
            Property::sometimes("all is taken", |model: &Broadcast, state: &BroadcastState| {
                let all = |process: &Process| process.took.len() as u64 + 1 >= model.sources;
                state.processes.iter().all(|process| process.lives && all(process))
            }),
        ]
    }
}
