//! One round: its work is divided, handed out, collected and, if a worker is lost or slow, reassigned.

use std::time::{Duration, Instant};

use super::member::{Account, Member};
use super::share::{self, Grain, Part};
use super::{Misdeed, Spreading, Workers};
use crate::graph::Csr;
use crate::port::Port;
use crate::search::{Crew, Move, Partition, SearchError, Stage};
use crate::wire::{self, Array, Packed};
use crate::worker;

/// Maximum number of parts in flight per worker: one in progress and one queued.
const PARTS_IN_FLIGHT: usize = 2;

/// Number of parts that a worker's share of a round is cut into.
const PARTS_PER_SHARE: u64 = 4;

/// Number of trials of each way to spread the graph when they are compared.
const COMPARISONS: usize = 3;

/// Work of one round.
#[derive(Default)]
pub(super) struct Round {
    active: Vec<u32>,
    parts: Vec<Part>,
    /// Moves by part, once they are known.
    found: Vec<Option<Vec<Move>>>,
    /// Number of parts without results.
    missing: usize,
    /// Parts of lost workers.
    pub(super) orphans: Vec<u32>,
    /// Number of vertices, the exclusive upper bound of labels.
    vertices: u32,
}

impl Round {
    fn active_of(&self, part: u32) -> &[u32] {
        &self.active[self.parts[part as usize].range.clone()]
    }

    /// Stores the moves of a part and returns the cost of the part. A worker may only move vertices of the
    /// part.
    pub(super) fn take(&mut self, part: u32, moves: Packed<'_>) -> Result<u64, Misdeed> {
        let mut found = Vec::new();
        moves.moves(self.vertices, &mut found)?;
        let mut asked = self.active_of(part).iter();
        if !found.iter().all(|made| asked.any(|&vertex| vertex == made.vertex)) {
            return Err(Misdeed::Unexpected("a move of a vertex that it was not asked about"));
        }
        self.settle(part, found);
        Ok(self.parts[part as usize].cost)
    }

    fn settle(&mut self, part: u32, found: Vec<Move>) {
        let slot = &mut self.found[part as usize];
        if slot.is_none() {
            *slot = Some(found);
            self.missing -= 1;
        }
    }
}

impl<P: Port> Crew for Workers<'_, P> {
    type Error = SearchError;

    fn enter(&mut self, stage: Stage, graph: &Csr, partition: &Partition) -> Result<(), SearchError> {
        let depth = u8::try_from(stage.depth).ok();
        self.local = depth.is_none();
        let Some(depth) = depth else { return Ok(()) };
        if self.held.get(stage.depth) != Some(&stage.serial) {
            self.held.truncate(stage.depth);
            self.held.push(stage.serial);
            if depth == 0 {
                self.spread(graph);
            } else {
                // Contracted graphs are sent while work continues.
                self.broadcast_graph(depth, graph);
            }
        }
        self.held.truncate(stage.depth + 1);
        let labels = partition.labels();
        let singletons = labels.iter().enumerate().all(|(vertex, &label)| vertex == label as usize);
        self.broadcast(&[wire::enter(depth, singletons)]);
        if !singletons {
            self.broadcast_array(Array::Labels, labels, wire::piece_u32);
        }
        Ok(())
    }

    fn refine(&mut self) -> Result<(), SearchError> {
        if !self.local {
            self.broadcast(&[wire::refine()]);
        }
        Ok(())
    }

    fn best_moves(
        &mut self,
        graph: &Csr,
        partition: &Partition,
        active: &[u32],
        moves: &mut Vec<Move>,
    ) -> Result<(), SearchError> {
        if self.local {
            self.find_alone(graph, partition, active, moves);
            return Ok(());
        }
        self.divide(graph, active);
        while self.round.missing > 0 {
            if self.members.iter().any(Member::is_live) {
                self.flush();
                self.hand_out();
                self.exchange();
                self.give_up_the_silent(|member| !member.in_flight.is_empty() || member.has_mail());
            } else {
                self.finish_alone(graph, partition);
            }
        }
        for found in &mut self.round.found {
            moves.append(found.as_mut().expect("no part is missing"));
        }
        Ok(())
    }

    fn applied(&mut self, moves: &[Move]) -> Result<(), SearchError> {
        if self.local || moves.is_empty() {
            return Ok(());
        }
        let per_message = (self.bulk_bytes_max() - wire::FIXED_BYTES_MAX) / (2 * wire::VARINT_BYTES_MAX);
        let messages: Vec<Vec<u8>> = moves.chunks(per_message).map(wire::moves).collect();
        self.broadcast(&messages);
        Ok(())
    }

    fn spared(&mut self, arcs: u64, time: Duration) {
        self.own.parts += 1;
        self.own.arcs += arcs;
        self.own.compute_ns += time.as_nanos() as u64;
    }
}

impl<P: Port> Workers<'_, P> {
    /// Sends the input graph to all workers and waits until it has arrived: otherwise fast workers would
    /// finish a small graph before slow ones have received it.
    fn spread(&mut self, graph: &Csr) {
        let compared = self.options.compare_spreading.then(|| self.compare_spreading(graph));
        let seconds = self.spread_once(graph, true);
        let bytes = worker::memory_bytes(graph);
        let (seconds, by_messages_seconds) = match compared {
            Some((by_bulk, by_messages)) => (by_bulk, Some(by_messages)),
            None => (seconds, None),
        };
        self.spreading = Spreading { bytes, seconds, by_messages_seconds };
    }

    /// Measures the time of spreading by bulk and by messages: medians, in seconds. They take turns in going
    /// first, because the first one touches new memory and, on an emulated processor, runs code that has not
    /// been translated yet.
    fn compare_spreading(&mut self, graph: &Csr) -> (f64, f64) {
        // The counters in the report must cover only the job itself.
        let accounts: Vec<Account> = self.members.iter().map(|member| member.account).collect();
        let mut seconds = [const { Vec::new() }; 2];
        for turn in 0..COMPARISONS {
            for by_bulk in [turn % 2 == 0, turn % 2 != 0] {
                seconds[usize::from(by_bulk)].push(self.spread_once(graph, by_bulk));
            }
        }
        for (member, account) in self.members.iter_mut().zip(accounts) {
            member.account = account;
        }
        let [by_messages, by_bulk] = seconds.map(|mut seconds| {
            seconds.sort_by(f64::total_cmp);
            seconds[seconds.len() / 2]
        });
        (by_bulk, by_messages)
    }

    fn spread_once(&mut self, graph: &Csr, by_bulk: bool) -> f64 {
        for port in self.members.iter_mut().filter_map(|member| member.port.as_mut()) {
            port.use_bulk(by_bulk);
        }
        let start = Instant::now();
        self.broadcast_graph(0, graph);
        for member in self.members.iter_mut().filter(|member| member.is_live()) {
            member.unconfirmed = true;
        }
        self.broadcast(&[wire::has_arrived()]);
        let waits = |member: &Member<P>| member.has_mail() || member.unconfirmed;
        while self.members.iter().any(waits) {
            self.exchange();
            self.flush();
            self.give_up_the_silent(waits);
        }
        start.elapsed().as_secs_f64()
    }

    fn divide(&mut self, graph: &Csr, active: &[u32]) {
        let live: Vec<usize> =
            (0..self.members.len()).filter(|&index| self.members[index].is_live()).collect();
        let measured = |index: &usize| self.members[*index].measured_speed();
        // A worker without a measured speed gets the average of the others.
        let known: Vec<f64> = live.iter().filter_map(measured).collect();
        let average = if known.is_empty() { 1.0 } else { known.iter().sum::<f64>() / known.len() as f64 };
        let speeds: Vec<f64> = live.iter().map(|index| measured(index).unwrap_or(average)).collect();
        let bytes = self.message_bytes_max() - wire::FIXED_BYTES_MAX;
        let grain = Grain {
            cost_min: self.options.part_cost_min,
            parts_per_share: PARTS_PER_SHARE,
            vertices_max: bytes / (2 * wire::VARINT_BYTES_MAX),
        };
        let shares = share::divide(graph, active, if live.is_empty() { &[1.0] } else { &speeds }, grain);
        let round = &mut self.round;
        round.vertices = graph.vertices() as u32;
        round.active.clear();
        round.active.extend_from_slice(active);
        round.parts.clear();
        round.orphans.clear();
        for (slot, parts) in shares.into_iter().enumerate() {
            let numbers = round.parts.len() as u32..(round.parts.len() + parts.len()) as u32;
            round.parts.extend(parts);
            match live.get(slot) {
                Some(&index) => self.members[index].queue.extend(numbers),
                None => round.orphans.extend(numbers),
            }
        }
        round.missing = round.parts.len();
        round.found.clear();
        round.found.resize(round.parts.len(), None);
    }

    /// Sends the next parts to every worker whose outbox is empty.
    fn hand_out(&mut self) {
        for index in 0..self.members.len() {
            while self.members[index].is_live()
                && !self.members[index].has_mail()
                && self.members[index].in_flight.len() < PARTS_IN_FLIGHT
            {
                let Some(part) = self.next_part(index) else { break };
                let message = wire::work(part, self.round.active_of(part));
                let member = &mut self.members[index];
                if member.in_flight.is_empty() {
                    member.silent_since = Instant::now();
                }
                member.in_flight.push(part);
                member.post(message.into());
                if let Err(error) = member.flush() {
                    self.give_up(index, &error.into());
                }
            }
        }
    }

    /// Returns the next part for a worker: its own, one of a lost worker, or one taken from the worker that
    /// would be busy longest.
    fn next_part(&mut self, index: usize) -> Option<u32> {
        if let Some(part) = self.members[index].queue.pop_front().or_else(|| self.round.orphans.pop()) {
            return Some(part);
        }
        let time_of = |member: &Member<P>, cost: u64| {
            member.measured_speed().map_or(f64::INFINITY, |speed| cost as f64 / speed)
        };
        let cost_of = |part: &u32| self.round.parts[*part as usize].cost;
        let busy_time = |member: &Member<P>| {
            time_of(member, member.queue.iter().chain(&member.in_flight).map(cost_of).sum())
        };
        let loaded = (0..self.members.len()).filter(|&other| !self.members[other].queue.is_empty());
        let busiest = loaded.max_by(|&one, &other| {
            busy_time(&self.members[one]).total_cmp(&busy_time(&self.members[other]))
        })?;
        // Take it only if it would be done sooner. Workers without a measured speed are not limited.
        let part = *self.members[busiest].queue.back()?;
        let owed: u64 = self.members[index].in_flight.iter().map(cost_of).sum();
        let taker_time = time_of(&self.members[index], owed + cost_of(&part));
        if taker_time.is_finite() && taker_time >= busy_time(&self.members[busiest]) {
            return None;
        }
        self.members[busiest].queue.pop_back()
    }

    fn finish_alone(&mut self, graph: &Csr, partition: &Partition) {
        while let Some(part) = self.round.orphans.pop() {
            let active = self.round.active_of(part).to_owned();
            let mut found = Vec::new();
            self.find_alone(graph, partition, &active, &mut found);
            self.round.settle(part, found);
        }
    }

    /// Finds the moves on the master itself.
    fn find_alone(&mut self, graph: &Csr, partition: &Partition, active: &[u32], moves: &mut Vec<Move>) {
        let start = Instant::now();
        self.own.parts += 1;
        self.own.arcs += self.finder.best_moves(graph, partition, active, moves);
        self.own.compute_ns += start.elapsed().as_nanos() as u64;
    }
}
