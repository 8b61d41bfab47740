//! Names of vertices.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};

/// Names of the vertices of a graph.
#[derive(Debug)]
pub enum Names {
    /// Vertex 0 is called `first`, vertex 1 `first + 1` and so on.
    Numbered {
        /// Name of vertex 0.
        first: u64,
    },
    /// Each vertex has a name of its own.
    Listed(NameTable),
}

impl Names {
    /// Returns the name of `vertex`; invalid UTF-8 is replaced.
    #[must_use]
    pub fn name(&self, vertex: u32) -> Cow<'_, str> {
        match self {
            Names::Numbered { first } => Cow::Owned((first + u64::from(vertex)).to_string()),
            Names::Listed(table) => String::from_utf8_lossy(table.bytes(vertex)),
        }
    }
}

/// Interning table: numbers distinct byte strings in the order of first appearance.
///
/// A hash table with open addressing over one arena: two million names take their bytes and some 20 bytes
/// each.
#[derive(Debug, Default)]
pub struct NameTable {
    arena: Vec<u8>,
    ends: Vec<usize>,
    /// Number of a name plus one, or 0 for a free slot. The length is a power of two, at most half of which
    /// is used.
    slots: Vec<u32>,
    hasher: RandomState,
}

impl NameTable {
    /// Returns the number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the table has no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the name with this number.
    #[must_use]
    pub fn bytes(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.arena[start..self.ends[number]]
    }

    /// Returns the number of `name`, assigning the next one to a new name. `None` if 32 bits are exhausted.
    pub fn intern(&mut self, name: &[u8]) -> Option<u32> {
        if self.slots.len() <= self.ends.len() * 2 {
            self.grow();
        }
        let slot = self.find(name);
        if self.slots[slot] == 0 {
            if self.ends.len() >= super::MAX_VERTICES {
                return None;
            }
            self.arena.extend_from_slice(name);
            self.ends.push(self.arena.len());
            self.slots[slot] = self.ends.len() as u32;
        }
        Some(self.slots[slot] - 1)
    }

    /// Returns the slot that holds `name`, or the free one where it belongs.
    fn find(&self, name: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = self.hasher.hash_one(name) as usize & mask;
        while self.slots[slot] != 0 && self.bytes(self.slots[slot] - 1) != name {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        self.slots = vec![0; (self.slots.len() * 2).max(1024)];
        for number in 0..self.ends.len() as u32 {
            let slot = self.find(self.bytes(number));
            self.slots[slot] = number + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_in_order_and_kept() {
        let mut table = NameTable::default();
        for round in 0..2 {
            for number in 0..5000u32 {
                assert_eq!(table.intern(number.to_string().as_bytes()), Some(number), "round {round}");
            }
        }
        assert_eq!(table.len(), 5000);
        assert_eq!(table.intern(b""), Some(5000));
        let names = Names::Listed(table);
        assert_eq!(
            (names.name(0), names.name(4999), names.name(5000)),
            ("0".into(), "4999".into(), "".into())
        );
        assert_eq!(Names::Numbered { first: 1 }.name(9), "10");
    }
}
