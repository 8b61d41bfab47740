//! The search on one level: rounds in which a part of the vertices move at once.
//!
//! Vertices that all move at once chase each other. Three things damp that. In each round only a pseudo-random
//! part of the vertices may move; a vertex is looked at again only after a neighbour has left or entered its
//! surroundings; and what counts in the end is the best labelling met, by exact modularity.

use super::{Crew, Modularity, Move, Partition, Tally};
use crate::graph::Csr;

/// Rounds per sweep: each vertex has its turn in one of them.
pub const ROUNDS_PER_SWEEP: u32 = 4;

/// Sweeps after which a level ends in any case.
pub const MAX_SWEEPS: u32 = 64;

/// Sweeps without a noticeable gain after which a level ends.
const PATIENCE_SWEEPS: u32 = 2;

/// State of the search on one level.
pub(super) struct Climb<'a> {
    graph: &'a Csr,
    partition: Partition,
    modularity: Modularity,
    /// Vertices to look at, one bit each.
    dirty: Vec<u64>,
    /// Label each vertex had before the round it moved in last, and that round.
    before: Vec<u32>,
    moved_in: Vec<u32>,
    round: u32,
    best: i128,
    /// What was done since the best labelling: (vertex, label before).
    undo: Vec<Move>,
}

impl<'a> Climb<'a> {
    pub(super) fn new(graph: &'a Csr, partition: Partition) -> Self {
        let modularity = Modularity::of(graph, &partition);
        let mut dirty = vec![0u64; graph.vertices().div_ceil(64)];
        for vertex in 0..graph.vertices() as u32 {
            if graph.neighbours(vertex) > 0 {
                dirty[vertex as usize / 64] |= 1 << (vertex % 64);
            }
        }
        Self {
            best: modularity.numerator(),
            before: vec![0; graph.vertices()],
            moved_in: vec![0; graph.vertices()],
            round: 0,
            undo: Vec::new(),
            graph,
            partition,
            modularity,
            dirty,
        }
    }

    /// Searches until nothing is left to gain. Returns the best labelling met and its modularity.
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
                self.take_active(sweep_salt, turn, &mut active);
                if active.is_empty() {
                    continue;
                }
                moves.clear();
                crew.best_moves(self.graph, &self.partition, &active, &mut moves)?;
                self.apply(&moves);
                crew.applied(&moves)?;
                tally.rounds += 1;
                tally.moves += moves.len() as u64;
                tally.evaluations += active.len() as u64;
            }
            if self.dirty.iter().all(|&word| word == 0) {
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
        Ok(self.finish())
    }

    /// Takes out of the dirty vertices those whose turn it is.
    fn take_active(&mut self, salt: u64, turn: u32, active: &mut Vec<u32>) {
        active.clear();
        for (index, word) in self.dirty.iter_mut().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                let vertex = index as u32 * 64 + bit;
                if mix(salt ^ u64::from(vertex)) % u64::from(ROUNDS_PER_SWEEP) == u64::from(turn) {
                    *word &= !(1 << bit);
                    active.push(vertex);
                }
            }
        }
    }

    /// Applies the moves of a round together, keeps the modularity exact and marks who has to look again.
    fn apply(&mut self, moves: &[Move]) {
        self.round += 1;
        for &Move { vertex, label } in moves {
            let degree = self.graph.degree(vertex);
            let source = self.partition.label(vertex);
            self.modularity.shift_weight(degree, self.partition.weight(source), self.partition.weight(label));
            self.partition.relabel(self.graph, vertex, label);
            self.before[vertex as usize] = source;
            self.moved_in[vertex as usize] = self.round;
            self.undo.push(Move { vertex, label: source });
        }
        let (mut gained, mut lost) = (0, 0);
        for &Move { vertex, label } in moves {
            let source = self.before[vertex as usize];
            for (target, weight) in self.graph.arcs_of(vertex) {
                let now = self.partition.label(target);
                // Of an edge between two that moved, each end accounts for its own arc; otherwise the one
                // that moved accounts for both.
                let (then, arcs) = if self.moved_in[target as usize] == self.round {
                    (self.before[target as usize], weight)
                } else {
                    (now, weight * 2)
                };
                gained += if now == label { arcs } else { 0 };
                lost += if then == source { arcs } else { 0 };
                if now != label {
                    self.dirty[target as usize / 64] |= 1 << (target % 64);
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

    /// Goes back to the best labelling.
    fn finish(mut self) -> (Partition, Modularity) {
        if !self.undo.is_empty() {
            for Move { vertex, label } in self.undo.drain(..).rev() {
                self.partition.relabel(self.graph, vertex, label);
            }
            self.modularity = Modularity::of(self.graph, &self.partition);
        }
        debug_assert_eq!(self.modularity, Modularity::of(self.graph, &self.partition));
        (self.partition, self.modularity)
    }
}

/// A bijection of 64 bits that scatters well (the finaliser of SplitMix64).
pub(super) fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
