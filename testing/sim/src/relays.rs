//! Relayed channels: two programs, the relays between them, and a real channel on each hop.
//!
//! The route of a relay, the channel ends with their rings and doorbells, and the word in which a relay
//! reports who died are the real code; processes, doorbells and lifelines are simulated. Any process may be
//! killed at any time. The invariants are in `Chain::check` and `Chain::check_end`.

use std::collections::VecDeque;
use std::fmt;

use tombolo_base::{NodeId, Random, SharedMemory};
use tombolo_link::disconnect_reason;
use tombolo_link::end::{Awaited, ChannelEnd, DeferredSignals, EndError};
use tombolo_link::relay::{Hop, HopPeer, Needs, Route};
use tombolo_link::{ChannelConfig, ChannelLayout, DisconnectReason, Hello, Side};
use tombolo_ring::{SlotSize, Variant};

use crate::channel::MemoryEnd;

/// Number of steps after which a run counts as hung.
const MAX_STEPS: u64 = 200_000;

/// Counters of one or more runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Messages received by the ends.
    pub received: u64,
    /// End processes that were killed.
    pub ends_killed: u64,
    /// Relay processes that were killed.
    pub relays_killed: u64,
    /// Ends that learned of the death of a relay beyond the neighbouring one.
    pub told_of_relays: u64,
    /// Ends that saw an orderly close of the peer.
    pub closed: u64,
}

impl std::ops::AddAssign for Summary {
    fn add_assign(&mut self, other: Summary) {
        self.received += other.received;
        self.ends_killed += other.ends_killed;
        self.relays_killed += other.relays_killed;
        self.told_of_relays += other.told_of_relays;
        self.closed += other.closed;
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} messages, {} ends and {} relays killed, {} ends told of a relay further on, {} closes",
            self.received, self.ends_killed, self.relays_killed, self.told_of_relays, self.closed
        )
    }
}

/// End of a hop in one process.
struct HopEnd {
    end: ChannelEnd<DeferredSignals>,
    memory: SharedMemory,
    side: Side,
    /// Receiving returned an error: the channel ended.
    failed: bool,
    /// The process dropped it, and its lifeline hangs up.
    released: bool,
    /// The hang-up has not reached the peer yet.
    hanging_up: bool,
    /// The doorbell was rung and the peer has not seen it yet.
    rung: bool,
}

impl HopEnd {
    fn peer_died(&self) -> Option<DisconnectReason> {
        disconnect_reason::disconnect_reason(&self.memory, self.side)
    }

    fn release(&mut self) {
        self.hanging_up |= !self.released;
        self.released = true;
    }

    /// Announces a sleep. Returns `false` if there is something to do.
    fn may_sleep(&mut self, needs: Needs) -> bool {
        let awaited = match needs {
            Needs { message: true, room: false } => Awaited::Message,
            Needs { message: false, room: true } => Awaited::Room,
            Needs { message: true, room: true } => Awaited::Both,
            Needs { message: false, room: false } => return true,
        };
        self.released || self.failed || self.end.prepare_to_sleep(awaited)
    }

    fn wake_up(&mut self) {
        if !self.released {
            self.end.poll_signals();
            self.end.finish_sleep(true);
        }
    }
}

impl Hop for HopEnd {
    fn receive(&mut self, buffer: &mut Vec<u8>) -> Result<bool, EndError> {
        let received = self.end.try_recv(|message| {
            buffer.clear();
            buffer.resize(message.len(), 0);
            message.copy_to(buffer).is_ok()
        });
        self.failed |= received.is_err();
        received.map(|message| message.is_some())
    }

    fn send(&mut self, message: &[u8]) -> Result<(), EndError> {
        self.end.try_send(message)
    }

    fn has_unsent(&mut self) -> bool {
        false
    }

    fn disconnect_reason(&self) -> Option<DisconnectReason> {
        self.peer_died()
    }

    fn close(&mut self) {
        self.end.close();
    }

    fn abort(&mut self, why: DisconnectReason) {
        let _ = disconnect_reason::report(&self.memory, self.side, why);
        self.end.abandon();
    }
}

/// End of the channel, as a program sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ObservedEnd {
    Closed,
    Died(Option<DisconnectReason>),
    Broken,
}

/// Program at one end of the route.
struct Program {
    to_send: u64,
    sent: u64,
    /// Closes once it has sent all its messages, without waiting for the peer.
    closes_early: bool,
    received: u64,
    closed: bool,
    seen: Option<ObservedEnd>,
}

enum Role {
    End(Program),
    Relay(Route),
}

struct Process {
    alive: bool,
    asleep: bool,
    role: Role,
}

/// Row of programs and relays: process `n` has side A of hop `n` and side B of hop `n - 1`.
struct Chain {
    processes: Vec<Process>,
    hops: Vec<[HopEnd; 2]>,
    slots: u64,
    max_message_bytes: usize,
    summary: Summary,
}

/// Generates a message whose contents and length follow from its number and source.
fn message(number: u64, from: usize, max_bytes: usize) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ from as u64;
    let length = 8 + (mixed >> 40) as usize % (max_bytes - 7);
    let mut bytes = mixed.to_le_bytes().to_vec();
    bytes.resize(length, mixed as u8);
    bytes
}

/// Creates both ends of a channel and completes the handshake.
fn hop(config: ChannelConfig) -> Result<[HopEnd; 2], String> {
    let memory = SharedMemory::zeroed(ChannelLayout::new(config).length_bytes());
    let sides = [Side::A, Side::B];
    let open = |side| MemoryEnd::open(memory.clone(), side, Hello::new(config, 0, None));
    let mut ends = sides.map(open).into_iter().collect::<Result<Vec<_>, _>>().map_err(|it| it.to_string())?;
    for _ in 0..4 {
        ends.iter_mut().try_for_each(MemoryEnd::continue_handshake).map_err(|error| error.to_string())?;
    }
    let mut joints = Vec::new();
    for (end, side) in ends.into_iter().zip(sides) {
        let mut end = end.into_end().ok_or("the handshake does not end")?;
        let _ = end.signals_mut().take_ring();
        let memory = memory.clone();
        joints.push(HopEnd {
            end,
            memory,
            side,
            failed: false,
            released: false,
            hanging_up: false,
            rung: false,
        });
    }
    <[HopEnd; 2]>::try_from(joints).map_err(|_| "a channel has two ends".to_owned())
}

impl Chain {
    fn draw(random: &mut Random) -> Result<Chain, String> {
        let relays = random.between(1, 4) as usize;
        let slots = 1 << random.between(1, 4);
        let slot = random.pick(&SlotSize::ALL).copied().unwrap_or(SlotSize::B64);
        let variant = if random.chance(500) { Variant::EpochCredit } else { Variant::UsedFlag };
        let config = ChannelConfig::new(slot, slots, variant).map_err(|error| error.to_string())?;
        let hops = (0..=relays).map(|_| hop(config)).collect::<Result<Vec<_>, _>>()?;
        // Short messages, each of which takes one slot.
        let max_message_bytes = hops[0][0].end.max_message_bytes().min(40);
        let mut program = || {
            let (to_send, closes_early) = (random.magnitude(1, 200) - 1, random.chance(200));
            Role::End(Program { to_send, closes_early, sent: 0, received: 0, closed: false, seen: None })
        };
        let beyond = |neighbour: usize| match neighbour == 0 || neighbour == relays + 1 {
            true => HopPeer::End,
            false => HopPeer::Relay(NodeId(neighbour as u16)),
        };
        let processes = (0..relays + 2).map(|number| {
            let role = match number == 0 || number == relays + 1 {
                true => program(),
                false => Role::Relay(Route::new([beyond(number - 1), beyond(number + 1)])),
            };
            Process { alive: true, asleep: false, role }
        });
        let processes = processes.collect();
        let slots = u64::from(slots);
        Ok(Chain { processes, hops, slots, max_message_bytes, summary: Summary::default() })
    }

    fn last(&self) -> usize {
        self.processes.len() - 1
    }

    fn program(&self, end: usize) -> &Program {
        match &self.processes[end].role {
            Role::End(program) => program,
            Role::Relay(_) => unreachable!("programs are at the ends"),
        }
    }

    /// Kills a process: its lifelines hang up, and it rings no more doorbells.
    fn kill(&mut self, number: usize) {
        self.processes[number].alive = false;
        let is_end = number == 0 || number == self.last();
        let count = if is_end { &mut self.summary.ends_killed } else { &mut self.summary.relays_killed };
        *count += 1;
        self.hop_ends_of(number).for_each(HopEnd::release);
    }

    fn hop_ends_of(&mut self, number: usize) -> impl Iterator<Item = &mut HopEnd> {
        let last = self.hops.len();
        let hops = self.hops.iter_mut().enumerate();
        hops.filter_map(move |(hop, [a, b])| match number {
            _ if hop == number && number < last => Some(a),
            _ if hop + 1 == number => Some(b),
            _ => None,
        })
    }

    /// Runs one turn of an awake process.
    fn turn(&mut self, number: usize) -> Result<(), String> {
        let last = self.last();
        let from = if number == 0 { last } else { 0 };
        let max_bytes = self.max_message_bytes;
        let Chain { processes, hops, summary, .. } = self;
        let process = &mut processes[number];
        match &mut process.role {
            Role::End(program) => {
                let hop_end = if number == 0 { &mut hops[0][0] } else { &mut hops[last - 1][1] };
                program.turn(hop_end, (number, from), max_bytes, summary)?;
                let needs = Needs {
                    message: !program.is_over(),
                    room: !program.is_over() && program.sent < program.to_send,
                };
                process.asleep = hop_end.may_sleep(needs);
                if !process.asleep {
                    hop_end.end.finish_sleep(false);
                }
                if program.is_over() {
                    hop_end.release();
                }
            }
            Role::Relay(route) => {
                let (before, after) = hops.split_at_mut(number);
                let (near, far) = (&mut before[number - 1][1], &mut after[0][0]);
                if near.released {
                    process.asleep = true;
                    return Ok(());
                }
                let step = route.step([&mut *near, &mut *far]);
                if step.finished {
                    near.release();
                    far.release();
                }
                process.asleep = !step.has_more
                    && !step.finished
                    && near.may_sleep(step.needs[0])
                    && far.may_sleep(step.needs[1]);
                if !process.asleep {
                    near.end.finish_sleep(false);
                    far.end.finish_sleep(false);
                }
            }
        }
        Ok(())
    }

    /// Delivers one random pending doorbell or hang-up. Returns `false` if none is pending.
    fn deliver(&mut self, random: &mut Random) -> bool {
        let mut waiting = Vec::new();
        for (hop, sides) in self.hops.iter_mut().enumerate() {
            for (side, hop_end) in sides.iter_mut().enumerate() {
                hop_end.rung |= hop_end.end.signals_mut().take_ring();
                if hop_end.rung {
                    waiting.push((hop, side, false));
                }
                if hop_end.hanging_up {
                    waiting.push((hop, side, true));
                }
            }
        }
        let Some(&(hop, side, hangs_up)) = random.pick(&waiting) else { return false };
        let [a, b] = &mut self.hops[hop];
        let (own, peer) = if side == 0 { (a, b) } else { (b, a) };
        match hangs_up {
            true => {
                own.hanging_up = false;
                peer.end.signals_mut().report_peer_gone();
            }
            false => own.rung = false,
        }
        peer.end.poll_signals();
        // Side A of a hop belongs to the process before it.
        let number = if side == 0 { hop + 1 } else { hop };
        if self.processes[number].asleep {
            self.processes[number].asleep = false;
            // Withdraws the announcement on its other hop, too.
            self.hop_ends_of(number).for_each(HopEnd::wake_up);
        }
        true
    }

    /// Returns whether all processes are alive and neither program is done.
    fn is_undisturbed(&self) -> bool {
        self.processes.iter().all(|process| process.alive)
            && [0, self.last()].into_iter().all(|end| !self.program(end).is_over())
    }

    /// Closes the first program's end while all processes sleep. Checks that all messages were received.
    fn close(&mut self) -> Result<(), String> {
        let last = self.last();
        for (from, to) in [(0, last), (last, 0)] {
            let (Program { sent, to_send, .. }, received) = (self.program(from), self.program(to).received);
            if sent != to_send || *sent != received {
                return Err(format!("all sleep, and end {to} has received {received} of {to_send} messages"));
            }
        }
        if let Role::End(program) = &mut self.processes[0].role {
            program.closed = true;
        }
        self.hops[0][0].close();
        self.hops[0][0].release();
        Ok(())
    }

    /// Checks the invariants that hold after every step.
    fn check(&self) -> Result<(), String> {
        let last = self.last();
        for (from, to) in [(0, last), (last, 0)] {
            let on_the_way = self.program(from).sent.checked_sub(self.program(to).received);
            let on_the_way = on_the_way.ok_or("a message is received that was not sent")?;
            let (hops, relays) = (self.hops.len() as u64, last as u64 - 1);
            if on_the_way > hops * self.slots + relays {
                return Err(format!(
                    "{on_the_way} messages are on the way, over {hops} hops of {}",
                    self.slots
                ));
            }
        }
        Ok(())
    }

    /// Checks the invariants that hold when nothing is in flight.
    fn check_end(&mut self) -> Result<(), String> {
        let last = self.last();
        for (own, other) in [(0, last), (last, 0)] {
            if !self.processes[own].alive || self.program(own).closed {
                continue;
            }
            let (sent, received) = (self.program(other).sent, self.program(own).received);
            let relay_died = |node: NodeId| {
                let number = usize::from(node.0);
                number > 0 && number < last && !self.processes[number].alive
            };
            let any_relay_died = (1..last).any(|relay| !self.processes[relay].alive);
            let beside = if own == 0 { 1 } else { last - 1 };
            let seen = self.program(own).seen;
            let what = || format!("end {own} saw {seen:?}, and received {received} of {sent} messages");
            let fits = match seen {
                None => return Err(format!("end {own} waits for ever; {}", what())),
                Some(ObservedEnd::Closed) => self.program(other).closed && sent == received,
                Some(ObservedEnd::Died(None)) => !self.processes[beside].alive,
                Some(ObservedEnd::Died(Some(DisconnectReason::Died))) => {
                    !self.processes[other].alive && (any_relay_died || sent == received)
                }
                Some(ObservedEnd::Died(Some(DisconnectReason::RelayDied(node)))) => {
                    self.summary.told_of_relays += 1;
                    usize::from(node.0) != beside && relay_died(node)
                }
                Some(ObservedEnd::Died(Some(DisconnectReason::Broken)) | ObservedEnd::Broken) => false,
            };
            if !fits {
                return Err(what());
            }
            self.summary.closed += u64::from(seen == Some(ObservedEnd::Closed));
        }
        let open = (1..last).find(|relay| {
            let released = self.hops[*relay][0].released;
            self.processes[*relay].alive && !released
        });
        open.map_or(Ok(()), |relay| Err(format!("relay {relay} keeps a route whose ends are gone")))
    }
}

impl Program {
    fn is_over(&self) -> bool {
        self.closed || self.seen.is_some()
    }

    /// Receives and sends as much as possible, and closes if it is done and closes early.
    fn turn(
        &mut self,
        hop_end: &mut HopEnd,
        (own, other): (usize, usize),
        max_bytes: usize,
        summary: &mut Summary,
    ) -> Result<(), String> {
        if self.is_over() {
            return Ok(());
        }
        let mut buffer = Vec::new();
        for _ in 0..4 {
            match hop_end.receive(&mut buffer) {
                Ok(false) => break,
                Ok(true) if buffer == message(self.received, other, max_bytes) => {
                    self.received += 1;
                    summary.received += 1;
                }
                Ok(true) => {
                    return Err(format!("end {own} received another message than number {}", self.received));
                }
                Err(EndError::Closed) => self.seen = Some(ObservedEnd::Closed),
                Err(EndError::PeerDied) => self.seen = Some(ObservedEnd::Died(hop_end.peer_died())),
                Err(_) => self.seen = Some(ObservedEnd::Broken),
            }
            if self.seen.is_some() {
                return Ok(());
            }
        }
        while self.sent < self.to_send && hop_end.send(&message(self.sent, own, max_bytes)).is_ok() {
            self.sent += 1;
        }
        if self.sent == self.to_send && self.closes_early {
            hop_end.close();
            self.closed = true;
        }
        Ok(())
    }
}

/// Runs the relayed channel of a seed.
///
/// # Errors
/// Description of the invariant that was violated.
pub fn run(seed: u64) -> Result<Summary, String> {
    let mut random = Random::new(seed);
    let mut line = Chain::draw(&mut random)?;
    let mut kills = VecDeque::from_iter((0..random.below(4)).map(|_| random.magnitude(1, 2000)));
    kills.make_contiguous().sort_unstable();
    for step in 0..MAX_STEPS {
        line.check().map_err(|why| format!("step {step}: {why}"))?;
        if kills.front().is_some_and(|at| *at <= step) {
            kills.pop_front();
            let number = random.index(line.processes.len());
            if line.processes[number].alive {
                line.kill(number);
            }
            continue;
        }
        let awake: Vec<usize> = (0..line.processes.len())
            .filter(|number| line.processes[*number].alive && !line.processes[*number].asleep)
            .collect();
        match random.pick(&awake) {
            Some(number) if random.chance(600) => line.turn(*number)?,
            _ if line.deliver(&mut random) => {}
            Some(number) => line.turn(*number)?,
            None if line.is_undisturbed() => line.close()?,
            None => {
                line.check_end()?;
                return Ok(line.summary);
            }
        }
    }
    Err("it does not end".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_pass() {
        let mut sum = Summary::default();
        for seed in 1..=2000 {
            match run(seed) {
                Ok(summary) => sum += summary,
                Err(failure) => panic!("seed {seed}: {failure}"),
            }
        }
        // Each kind of event occurs.
        assert!(sum.received > 10_000 && sum.closed > 100, "{sum}");
        assert!(sum.ends_killed > 100 && sum.relays_killed > 100 && sum.told_of_relays > 50, "{sum}");
    }

    #[test]
    fn a_seed_gives_the_same_run() {
        assert_eq!(run(77), run(77));
        assert_ne!(run(77), run(78));
    }
}
