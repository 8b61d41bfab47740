//! The set of vertices to be visited.

use crate::graph::Csr;
use crate::random::mix;

/// Set of vertices, one bit each.
pub(super) struct Dirty {
    words: Vec<u64>,
}

impl Dirty {
    /// Creates the set of all vertices that have edges.
    pub(super) fn all(graph: &Csr) -> Self {
        let mut dirty = Self { words: vec![0; graph.vertices().div_ceil(64)] };
        for vertex in 0..graph.vertices() as u32 {
            if graph.neighbours(vertex) > 0 {
                dirty.insert(vertex);
            }
        }
        dirty
    }

    pub(super) fn insert(&mut self, vertex: u32) {
        self.words[vertex as usize / 64] |= 1 << (vertex % 64);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Removes, in ascending order, the vertices whose turn it is. The turn of a vertex, one of `turns`, is a
    /// hash of the vertex and `salt`.
    pub(super) fn take(&mut self, salt: u64, turn: u32, turns: u32, taken: &mut Vec<u32>) {
        taken.clear();
        for (index, word) in self.words.iter_mut().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                let vertex = index as u32 * 64 + bit;
                if mix(salt ^ u64::from(vertex)) % u64::from(turns) == u64::from(turn) {
                    *word &= !(1 << bit);
                    taken.push(vertex);
                }
            }
        }
    }
}
