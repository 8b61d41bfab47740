//! Broadcast groups: members that broadcast, join, leave and die, over slow channels of small capacity.
//!
//! A run is determined by its seed. A phase with faults is followed by one without, in which all messages in
//! flight must arrive. At the end the messages taken by the members are compared.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tombolo_base::Random;
use tombolo_broadcast::{Config, Event, Member, MemberId, Order};

/// Result and counters of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Description of the violated invariant, if the run failed.
    pub failure: Option<String>,
    /// Number of members, including those that joined later.
    pub members: usize,
    /// Messages carried by channels between members.
    pub carried: u64,
    /// Broadcast messages taken by programs.
    pub taken: u64,
    /// Number of members killed.
    pub deaths: u64,
    /// Largest number of chunks kept by one member.
    pub most_kept: usize,
}

/// Parameters of a run, drawn from its seed.
#[derive(Clone, Debug)]
struct Plan {
    config: Config,
    founders: usize,
    joins: usize,
    leaves: usize,
    kills: usize,
    /// Number of messages that each member broadcasts.
    messages: u64,
    /// Capacity of a channel, in messages.
    capacity: usize,
    /// Probability that a program takes an event in its turn, in thousandths.
    taking_permille: u64,
    /// Messages in flight from a dying member may be lost, as when its node dies.
    loses: bool,
}

impl Plan {
    fn draw(random: &mut Random) -> Plan {
        let founders = match random.below(24) {
            0 => 48,
            1..12 => random.between(2, 5) as usize,
            _ => random.between(3, 16) as usize,
        };
        let chunk_bytes = random.between(1, 24) as u32;
        let calm = random.chance(150);
        Plan {
            config: Config {
                fan_out: random.magnitude(1, founders as u64) as u16,
                chunk_bytes,
                buffers: random.between(1, 3) as u16,
                window_chunks: random.magnitude(1, 8) as u32,
                max_message_bytes: 64,
                order: if random.chance(500) { Order::Total } else { Order::PerSource },
            },
            founders,
            joins: if calm { 0 } else { random.below(4) as usize },
            leaves: if calm { 0 } else { random.below(3) as usize },
            kills: if calm { 0 } else { random.below((founders as u64).min(6)) as usize },
            messages: random.magnitude(1, if founders > 20 { 3 } else { 12 }),
            capacity: random.magnitude(1, 16) as usize,
            taking_permille: random.between(50, 1000),
            loses: random.chance(500),
        }
    }
}

#[derive(PartialEq, Eq, Debug)]
enum State {
    Lives,
    Leaving,
    Left,
    Dead,
}

struct Process {
    member: Member,
    state: State,
    founder: bool,
    /// Started to leave, and may have died since.
    leaves: bool,
    /// Number of messages broadcast.
    sent: u64,
    /// Messages taken: source and number of each.
    took: Vec<(MemberId, u64)>,
    joined: BTreeSet<MemberId>,
    left: BTreeSet<MemberId>,
    /// Encoded messages that a channel has not accepted yet.
    unsent: BTreeMap<MemberId, Vec<u8>>,
}

impl Process {
    fn new(member: Member, founder: bool) -> Process {
        Process {
            member,
            state: State::Lives,
            founder,
            leaves: false,
            sent: 0,
            took: Vec::new(),
            joined: BTreeSet::new(),
            left: BTreeSet::new(),
            unsent: BTreeMap::new(),
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.state, State::Lives | State::Leaving)
    }
}

/// Item in flight over a channel.
enum Item {
    Message(Vec<u8>),
    /// The sender's end is gone.
    End,
}

struct World {
    random: Random,
    plan: Plan,
    processes: BTreeMap<MemberId, Process>,
    channels: BTreeMap<(MemberId, MemberId), VecDeque<Item>>,
    outcome: Outcome,
}

/// Runs the broadcast group of a seed.
#[must_use]
pub fn run(seed: u64) -> Outcome {
    // Decorrelates the draws from those of the machine with the same seed.
    let mut random = Random::new(seed ^ 0x0c_bca5_7000);
    let plan = Plan::draw(&mut random);
    let ids: Vec<MemberId> = (0..plan.founders as u64).map(MemberId).collect();
    let founders = ids.iter().map(|own| {
        let member = Member::founding(*own, ids.iter().copied(), plan.config);
        (*own, Process::new(member, true))
    });
    let processes = founders.collect();
    let mut channels = BTreeMap::new();
    for (from, to) in ids.iter().flat_map(|from| ids.iter().map(move |to| (*from, *to))) {
        channels.insert((from, to), VecDeque::new());
    }
    let mut world = World { random, plan, processes, channels, outcome: Outcome::default() };
    if let Err(why) = world.run() {
        world.outcome.failure = Some(format!("{why}; {:?}", world.plan));
    }
    world.outcome.members = world.processes.len();
    world.outcome
}

fn body(from: MemberId, number: u64, random: &mut Random) -> Vec<u8> {
    let mut body = Vec::from(number.to_le_bytes());
    body.push(from.0 as u8);
    body.resize(9 + random.index(55), from.0 as u8);
    body
}

impl World {
    fn run(&mut self) -> Result<(), String> {
        let total = self.plan.messages * self.plan.founders as u64;
        let mut faults: Vec<u8> = [(0, self.plan.joins), (1, self.plan.leaves), (2, self.plan.kills)]
            .into_iter()
            .flat_map(|(fault, count)| std::iter::repeat_n(fault, count))
            .collect();
        let steps = 10 * total * self.plan.founders as u64;
        let pause = steps / (2 * faults.len() as u64 + 1);
        let mut until = pause;
        for step in 0..steps {
            if step == until && !faults.is_empty() {
                let fault = faults.swap_remove(self.random.index(faults.len()));
                self.fault(fault)?;
                until += 1 + self.random.below(2 * pause.max(1));
            }
            let running = self.running();
            let Some(member) = running.get(self.random.index(running.len())) else { break };
            self.step(*member)?;
        }
        self.settle()?;
        self.compare()
    }

    fn running(&self) -> Vec<MemberId> {
        self.processes.iter().filter(|(_, process)| process.is_running()).map(|(id, _)| *id).collect()
    }

    /// Runs without faults until nothing is in flight.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..1_000_000 {
            let mut moved = false;
            for member in self.running() {
                moved |= self.broadcast(member);
                moved |= self.take(member)?;
                for peer in self.peers_of(member) {
                    moved |= self.send(member, peer);
                    moved |= self.deliver(peer, member)?;
                }
                moved |= self.leave_if_drained(member);
            }
            if !moved {
                return Ok(());
            }
        }
        Err("messages go on for ever".to_owned())
    }

    fn peers_of(&self, member: MemberId) -> Vec<MemberId> {
        self.channels
            .range((member, MemberId(0))..)
            .take_while(|((from, _), _)| *from == member)
            .map(|((_, to), _)| *to)
            .collect()
    }

    /// Performs one action of a member or its program.
    fn step(&mut self, member: MemberId) -> Result<(), String> {
        let peers = self.peers_of(member);
        let peer = peers.get(self.random.index(peers.len())).copied();
        match (self.random.below(8), peer) {
            (0, _) => {
                self.broadcast(member);
            }
            (1, _) if self.random.chance(self.plan.taking_permille) => {
                self.take(member)?;
            }
            (1, _) => {}
            (2..5, Some(peer)) => {
                self.send(member, peer);
            }
            (_, Some(peer)) => {
                self.deliver(peer, member)?;
            }
            _ => {}
        }
        self.leave_if_drained(member);
        Ok(())
    }

    fn broadcast(&mut self, member: MemberId) -> bool {
        let Some(process) = self.processes.get_mut(&member) else { return false };
        if process.state != State::Lives || process.sent == self.plan.messages {
            return false;
        }
        let body = body(member, process.sent + 1, &mut self.random);
        let accepted = process.member.broadcast(&body).is_ok();
        process.sent += u64::from(accepted);
        accepted
    }

    fn take(&mut self, member: MemberId) -> Result<bool, String> {
        let Some(process) = self.processes.get_mut(&member) else { return Ok(false) };
        let Some(event) = process.member.next_event() else { return Ok(false) };
        match event {
            Event::Joined(joined) => {
                if !process.joined.insert(joined) {
                    return Err(format!("{member} is told twice that {joined} joined"));
                }
            }
            Event::Message { from, data } => {
                let number = data.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                let rest = data.get(8..).unwrap_or_default();
                if rest.is_empty() || rest.iter().any(|byte| *byte != from.0 as u8) {
                    return Err(format!("{member} took {data:x?} from {from}"));
                }
                if !process.joined.contains(&from) && process.founder {
                    return Err(format!("{member} took a message of {from} before it heard that it joined"));
                }
                if process.left.contains(&from) {
                    return Err(format!("{member} took a message of {from} after it heard that it left"));
                }
                process.took.push((from, number));
                self.outcome.taken += 1;
            }
            Event::Left { member: left, in_order } => {
                let stayed = |other: &Process| other.state != State::Left && !other.leaves;
                if in_order && self.processes.get(&left).is_none_or(stayed) {
                    return Err(format!("{member} is told that {left} left in order, and it did not"));
                }
                let Some(process) = self.processes.get_mut(&member) else { return Ok(false) };
                if !process.joined.contains(&left) || !process.left.insert(left) {
                    return Err(format!("{member} is told once too often that {left} left"));
                }
            }
            Event::Expelled => return Err(format!("{member} was expelled")),
        }
        Ok(true)
    }

    /// Sends the next message of a member to a peer, if the channel has room.
    fn send(&mut self, member: MemberId, peer: MemberId) -> bool {
        let Some(process) = self.processes.get_mut(&member) else { return false };
        let Some(channel) = self.channels.get_mut(&(member, peer)) else { return false };
        let next = process.unsent.remove(&peer).or_else(|| {
            let mut bytes = Vec::new();
            process.member.transmit(peer)?.encode(&mut bytes);
            Some(bytes)
        });
        let Some(bytes) = next else { return false };
        if channel.len() >= self.plan.capacity {
            process.unsent.insert(peer, bytes);
            return false;
        }
        channel.push_back(Item::Message(bytes));
        self.outcome.carried += 1;
        true
    }

    /// Delivers the next item of a channel.
    fn deliver(&mut self, from: MemberId, to: MemberId) -> Result<bool, String> {
        let Some(channel) = self.channels.get_mut(&(from, to)) else { return Ok(false) };
        let (Some(item), Some(process)) = (channel.pop_front(), self.processes.get_mut(&to)) else {
            return Ok(false);
        };
        match item {
            Item::Message(bytes) => {
                process.member.receive(from, &bytes).map_err(|violation| format!("to {to}: {violation}"))?;
            }
            Item::End => {
                process.member.peer_died(from);
                process.unsent.remove(&from);
                self.channels.remove(&(from, to));
                self.channels.remove(&(to, from));
            }
        }
        let (usage, config) = (process.member.usage(), self.plan.config);
        let (kept, window) = (usage.retained_chunks, config.window_chunks as usize);
        let all = self.processes.len() * window + self.processes.len();
        self.outcome.most_kept = self.outcome.most_kept.max(kept);
        if kept > all || usage.queued_chunks > kept || usage.buffers > config.buffers.into() {
            return Err(format!("{to} keeps {usage:?}"));
        }
        Ok(true)
    }

    fn leave_if_drained(&mut self, member: MemberId) -> bool {
        let Some(process) = self.processes.get_mut(&member) else { return false };
        if process.state != State::Leaving || !process.member.has_left() || !process.unsent.is_empty() {
            return false;
        }
        self.end(member, State::Left, false);
        true
    }

    fn end(&mut self, member: MemberId, state: State, loses: bool) {
        if let Some(process) = self.processes.get_mut(&member) {
            process.state = state;
        }
        for peer in self.peers_of(member) {
            // Messages to an ended member are lost.
            if let Some(channel) = self.channels.get_mut(&(peer, member)) {
                channel.clear();
            }
            if let Some(channel) = self.channels.get_mut(&(member, peer)) {
                if loses {
                    channel.truncate(self.random.index(channel.len() + 1));
                }
                channel.push_back(Item::End);
            }
        }
    }

    fn fault(&mut self, fault: u8) -> Result<(), String> {
        let running = self.running();
        let Some(member) = running.get(self.random.index(running.len())).copied() else { return Ok(()) };
        match fault {
            0 => self.join(),
            1 if running.len() > 2 => {
                if let Some(process) = self.processes.get_mut(&member) {
                    (process.state, process.leaves) = (State::Leaving, true);
                    process.member.leave();
                }
                Ok(())
            }
            2 if running.len() > 1 => {
                self.outcome.deaths += 1;
                self.end(member, State::Dead, self.plan.loses);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Starts a program that joins, unless an earlier one is still joining.
    fn join(&mut self) -> Result<(), String> {
        let joining = |process: &Process| {
            process.is_running() && !process.member.is_member() && process.state == State::Lives
        };
        if self.processes.values().any(joining) {
            return Ok(());
        }
        let own = MemberId(self.processes.len() as u64);
        let others = self.running();
        for peer in &others {
            self.channels.insert((own, *peer), VecDeque::new());
            self.channels.insert((*peer, own), VecDeque::new());
            if let Some(process) = self.processes.get_mut(peer) {
                process.member.peer_connected(own);
            }
        }
        let member = Member::joining(own, others, self.plan.config);
        self.processes.insert(own, Process::new(member, false));
        Ok(())
    }

    /// Checks the invariants that hold when nothing is in flight.
    fn compare(&self) -> Result<(), String> {
        let living: Vec<(&MemberId, &Process)> =
            self.processes.iter().filter(|(_, process)| process.state == State::Lives).collect();
        for (member, process) in &living {
            if !process.member.is_agreed() {
                return Err(format!("{member} waits for others to agree"));
            }
            if process.sent != self.plan.messages {
                return Err(format!(
                    "{member} could broadcast {} of {} messages",
                    process.sent, self.plan.messages
                ));
            }
            for (peer, other) in &self.processes {
                let (lives, is_told) = (other.is_running(), process.left.contains(peer));
                if process.joined.contains(peer) && lives == is_told
                    || lives && !process.joined.contains(peer)
                {
                    return Err(format!("{member} and {peer}, which is {:?}: told {is_told}", other.state));
                }
            }
            let waiting = process.member.usage();
            if waiting.queued_chunks + waiting.buffers + waiting.waiting_chunks > 0 {
                return Err(format!("{member} has not sent all: {waiting:?}"));
            }
        }
        for (member, process) in &living {
            for (other_member, other) in &living {
                match self.plan.config.order {
                    Order::Total => same_end(process, other, "all", |_| true)?,
                    Order::PerSource => {
                        for source in self.processes.keys() {
                            if source != *member && source != *other_member {
                                same_end(process, other, &format!("{source}"), |from| from == *source)?;
                            }
                        }
                    }
                }
            }
            self.complete(**member, process)?;
        }
        Ok(())
    }

    /// Checks that a founder took all messages of members that live or left in order, and that no sequence
    /// has gaps.
    fn complete(&self, member: MemberId, process: &Process) -> Result<(), String> {
        for (source, other) in &self.processes {
            let took: Vec<u64> =
                process.took.iter().filter(|(from, _)| from == source).map(|(_, number)| *number).collect();
            if took.windows(2).any(|pair| pair[1] != pair[0] + 1) {
                return Err(format!("{member} took {took:?} of {source}"));
            }
            let all = other.state != State::Dead && (process.founder || *source > member);
            let own = *source == member && self.plan.config.order == Order::PerSource;
            let expected = if own { 0 } else { other.sent };
            if all && took.len() as u64 != expected
                || process.founder && took.first().is_some_and(|first| *first != 1)
            {
                return Err(format!("{member} took {took:?} of {source}, which sent {}", other.sent));
            }
        }
        Ok(())
    }
}

/// Checks that two members took the same messages, except for those before one of them joined.
fn same_end(one: &Process, other: &Process, what: &str, of: impl Fn(MemberId) -> bool) -> Result<(), String> {
    let took = |process: &Process| -> Vec<(MemberId, u64)> {
        process.took.iter().filter(|(from, _)| of(*from)).copied().collect()
    };
    let (mine, theirs) = (took(one), took(other));
    let shorter = mine.len().min(theirs.len());
    let same_tail = mine[mine.len() - shorter..] == theirs[theirs.len() - shorter..];
    let same_length = mine.len() == theirs.len() || !one.founder || !other.founder;
    if same_tail && same_length {
        return Ok(());
    }
    Err(format!("of {what} {} took {mine:?}, and {} {theirs:?}", one.member.id(), other.member.id()))
}
