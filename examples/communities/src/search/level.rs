//! The search on one level: rounds in which a part of the vertices move simultaneously.
//!
//! Vertices that all move simultaneously chase each other. Three measures damp that: in each round only a
//! pseudo-random part of the vertices may move; a vertex is visited again only after a neighbour has left or
//! entered its community; and the result is the best labelling seen, by exact modularity.

use super::dirty::Dirty;
use super::{Crew, Modularity, Move, Partition, Tally};
use crate::graph::Csr;
use crate::random::mix;

/// Number of rounds per sweep: each vertex has its turn in one of them.
pub const ROUNDS_PER_SWEEP: u32 = 8;

/// Maximum number of sweeps on a level.
pub const MAX_SWEEPS: u32 = 64;

/// Number of sweeps without a noticeable gain after which a level ends.
const PATIENCE_SWEEPS: u32 = 2;

/// State of the search on one level.
pub(super) struct Climb<'a> {
    graph: &'a Csr,
    partition: Partition,
    modularity: Modularity,
    dirty: Dirty,
    /// Label of each vertex before the round in which it moved last, and that round.
    before: Vec<u32>,
    moved_in: Vec<u32>,
    round: u32,
    best: i128,
    /// Undo log since the best labelling: (vertex, label before).
    undo: Vec<Move>,
}

impl<'a> Climb<'a> {
    pub(super) fn new(graph: &'a Csr, partition: Partition) -> Self {
        let modularity = Modularity::of(graph, &partition);
        Self {
            best: modularity.numerator(),
            before: vec![0; graph.vertices()],
            moved_in: vec![0; graph.vertices()],
            round: 0,
            undo: Vec::new(),
            dirty: Dirty::all(graph),
            graph,
            partition,
            modularity,
        }
    }

    /// Searches until no move gains. Returns the best labelling seen and its modularity.
    pub(super) fn run<C: Crew>(
        mut self,
        tally: &mut Tally,
        salt: u64,
        crew: &mut C,
    ) -> Result<(Partition, Modularity), C::Error> {
        let noticeable = self.modularity.noticeable();
        let mut patience = PATIENCE_SWEEPS;
        let mut active = Vec::new();
        let mut moves = Vec::new();
        for sweep in 0..MAX_SWEEPS {
            let milestone = self.best;
            let sweep_salt = mix(salt ^ mix(u64::from(sweep)));
            for turn in 0..ROUNDS_PER_SWEEP {
                self.dirty.take(sweep_salt, turn, ROUNDS_PER_SWEEP, &mut active);
                if active.is_empty() {
                    continue;
                }
                moves.clear();
                crew.best_moves(self.graph, &self.partition, &active, &mut moves)?;
                self.apply(&mut moves);
                crew.applied(&moves)?;
                tally.rounds += 1;
                tally.moves += moves.len() as u64;
                tally.evaluations += active.len() as u64;
            }
            if self.dirty.is_empty() {
                break;
            }
            if self.best - milestone >= noticeable {
                patience = PATIENCE_SWEEPS;
            } else {
                patience -= 1;
                if patience == 0 {
                    break;
                }
            }
        }
        self.finish(crew)
    }

    /// Applies the moves of a round together, keeps the modularity exact and marks the vertices to visit
    /// again.
    ///
    /// Removes moves that conflict from `moves`: moves to a community that its only member leaves in the same
    /// round, and moves of a single vertex whose community is joined in the same round. Thus of two vertices
    /// that would swap places, one joins the other.
    fn apply(&mut self, moves: &mut Vec<Move>) {
        self.round += 1;
        let alone: Vec<bool> =
            moves.iter().map(|found| self.partition.is_alone(self.graph, found.vertex)).collect();
        let mut alone = alone.into_iter();
        moves.retain(|&Move { vertex, label }| {
            let is_joined = alone.next() == Some(true) && !self.partition.is_alone(self.graph, vertex);
            let is_left = self.partition.weight(label) == 0 && label != vertex;
            if is_joined || is_left {
                self.dirty.insert(vertex);
                return false;
            }
            let degree = self.graph.degree(vertex);
            let source = self.partition.label(vertex);
            self.modularity.shift_weight(degree, self.partition.weight(source), self.partition.weight(label));
            self.partition.relabel(self.graph, vertex, label);
            self.before[vertex as usize] = source;
            self.moved_in[vertex as usize] = self.round;
            self.undo.push(Move { vertex, label: source });
            true
        });
        let (mut gained, mut lost) = (0, 0);
        for &Move { vertex, label } in &*moves {
            let source = self.before[vertex as usize];
            for (target, weight) in self.graph.arcs_of(vertex) {
                let now = self.partition.label(target);
                // If both ends of an edge moved, each accounts for its own arc; otherwise the one that moved
                // accounts for both.
                let (then, arcs) = if self.moved_in[target as usize] == self.round {
                    (self.before[target as usize], weight)
                } else {
                    (now, weight * 2)
                };
                gained += if now == label { arcs } else { 0 };
                lost += if then == source { arcs } else { 0 };
                if now != label {
                    self.dirty.insert(target);
                }
            }
        }
        self.modularity.shift_internal(gained, lost);
        let reached = self.modularity.numerator();
        if reached > self.best {
            self.best = reached;
            self.undo.clear();
        }
    }

    /// Restores the best labelling, and tells the crew.
    fn finish<C: Crew>(mut self, crew: &mut C) -> Result<(Partition, Modularity), C::Error> {
        if !self.undo.is_empty() {
            // Keep the oldest entry of each vertex: its label in the best labelling.
            self.undo.sort_by_key(|undone| undone.vertex);
            self.undo.dedup_by_key(|undone| undone.vertex);
            for &Move { vertex, label } in &self.undo {
                self.partition.relabel(self.graph, vertex, label);
            }
            crew.applied(&self.undo)?;
            self.modularity = Modularity::of(self.graph, &self.partition);
        }
        debug_assert_eq!(self.modularity, Modularity::of(self.graph, &self.partition));
        Ok((self.partition, self.modularity))
    }
}
