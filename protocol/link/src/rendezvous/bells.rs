//! Polled doorbells: each side increments a word for each bell that it rings, and a word for all of them.

use tombolo_base::{CacheMaintenance, SharedMemory};

use super::page::{pulse, read, write};
use super::{MAX_BELLS, Role};

/// One side's doorbells, in both directions.
#[derive(Debug)]
pub struct Bells {
    own: usize,
    other: usize,
    count: u16,
    rings: u64,
    rung: [u64; MAX_BELLS as usize],
    rings_seen: u64,
    seen: [u64; MAX_BELLS as usize],
}

impl Bells {
    /// Creates the bells of one side. Rings from before are ignored.
    ///
    /// A `count` beyond [`MAX_BELLS`] is clamped.
    #[must_use]
    pub fn new<C: CacheMaintenance>(window: &SharedMemory<C>, role: Role, count: u16) -> Self {
        let (own, other) = match role {
            Role::Host => (pulse::HOST, pulse::JOINER),
            Role::Joiner => (pulse::JOINER, pulse::HOST),
        };
        let counters =
            |block: usize| core::array::from_fn(|bell| read(window, block + pulse::COUNTERS + bell));
        // Reads the sum first: a bell that is rung meanwhile is then reported twice rather than not at all.
        let rings_seen = read(window, other + pulse::RINGS);
        Bells {
            own,
            other,
            count: count.min(MAX_BELLS),
            rings: read(window, own + pulse::RINGS),
            rung: counters(own),
            rings_seen,
            seen: counters(other),
        }
    }

    /// Rings one of the other side's bells. Ignores a bell that does not exist.
    pub fn ring<C: CacheMaintenance>(&mut self, window: &SharedMemory<C>, bell: u16) {
        if bell >= self.count {
            return;
        }
        let rung = &mut self.rung[usize::from(bell)];
        *rung = rung.wrapping_add(1);
        write(window, self.own + pulse::COUNTERS + usize::from(bell), *rung);
        self.rings = self.rings.wrapping_add(1);
        write(window, self.own + pulse::RINGS, self.rings);
    }

    /// Calls `rung` for each bell that the other side has rung since the last call. Returns whether there was
    /// one.
    ///
    /// Reads a single word if there was none.
    pub fn poll<C: CacheMaintenance>(&mut self, window: &SharedMemory<C>, mut rung: impl FnMut(u16)) -> bool {
        let rings = read(window, self.other + pulse::RINGS);
        if rings == self.rings_seen {
            return false;
        }
        self.rings_seen = rings;
        for bell in 0..self.count {
            let counted = read(window, self.other + pulse::COUNTERS + usize::from(bell));
            let before = core::mem::replace(&mut self.seen[usize::from(bell)], counted);
            if counted != before {
                rung(bell);
            }
        }
        true
    }
}
