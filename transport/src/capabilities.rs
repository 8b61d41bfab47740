//! Optional capabilities of a transport. The conformance suite tests those that a transport claims and skips
//! the others.

use std::fmt;
use std::ops::BitOr;

/// Set of capabilities that a transport may have or lack. The mandatory behavior is the contract, not a
/// capability.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(u32);

impl Capabilities {
    /// Empty set of capabilities.
    pub const NONE: Capabilities = Capabilities(0);
    /// Messages lie in memory that both sides map.
    pub const SHARED_MEMORY: Capabilities = Capabilities(1);
    /// Atomic read-modify-writes on that memory are atomic for both sides. Rings do not need it.
    pub const ATOMICS: Capabilities = Capabilities(1 << 1);
    /// While both sides are awake a message costs no system call and no device access.
    pub const SYSCALL_FREE: Capabilities = Capabilities(1 << 2);
    /// A full ring holds exactly as many single-slot messages as it has slots.
    pub const COUNTED_ROOM: Capabilities = Capabilities(1 << 3);
    /// A side that sleeps for a message is rung when one arrives, and only then.
    pub const BELL_FOR_MESSAGES: Capabilities = Capabilities(1 << 4);
    /// A side that sleeps for room is rung when there is room, and only then.
    pub const BELL_FOR_ROOM: Capabilities = Capabilities(1 << 5);
    /// Sleeps end through file descriptors, so that a program can sleep on other things as well. Without it,
    /// [`crate::wait`] polls.
    pub const DESCRIPTORS: Capabilities = Capabilities(1 << 6);
    /// The peer's death is reported on evidence, as soon as the operating system knows it.
    pub const EVIDENCE_OF_DEATH: Capabilities = Capabilities(1 << 7);
    /// A send is refused only for lack of room, the next poll finds a message that has arrived, and a sleep
    /// ends only for a reason.
    pub const NO_SPURIOUS_RESULTS: Capabilities = Capabilities(1 << 8);
    /// All messages of a batch become visible at once.
    pub const WHOLE_BATCHES: Capabilities = Capabilities(1 << 9);
    /// Capabilities of rings in the coherent memory of one kernel.
    pub const OF_SHARED_MEMORY: Capabilities = Capabilities(0b11_1111_1111);
    /// Capabilities of rings in a window between two kernels.
    pub const OF_WINDOW: Capabilities =
        Capabilities(Capabilities::OF_SHARED_MEMORY.0 & !Capabilities::ATOMICS.0);
    /// Capabilities of a byte stream.
    pub const OF_STREAM: Capabilities = Capabilities(
        Capabilities::DESCRIPTORS.0 | Capabilities::EVIDENCE_OF_DEATH.0 | Capabilities::NO_SPURIOUS_RESULTS.0,
    );

    /// Capabilities with their names in reports.
    pub const NAMED: [(Capabilities, &'static str); 10] = [
        (Capabilities::SHARED_MEMORY, "shared memory"),
        (Capabilities::ATOMICS, "atomics across the link"),
        (Capabilities::SYSCALL_FREE, "silence while both sides are awake"),
        (Capabilities::COUNTED_ROOM, "room counted in slots"),
        (Capabilities::BELL_FOR_MESSAGES, "a bell for messages"),
        (Capabilities::BELL_FOR_ROOM, "a bell for room"),
        (Capabilities::DESCRIPTORS, "descriptors to sleep on"),
        (Capabilities::EVIDENCE_OF_DEATH, "evidence of death"),
        (Capabilities::NO_SPURIOUS_RESULTS, "steadiness"),
        (Capabilities::WHOLE_BATCHES, "batches that show all at once"),
    ];

    /// Whether the set contains all of `others`.
    #[must_use]
    pub const fn contains(self, others: Capabilities) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns the set without `others`.
    #[must_use]
    pub const fn without(self, others: Capabilities) -> Capabilities {
        Capabilities(self.0 & !others.0)
    }

    /// Returns the union with `others`. Usable in constants.
    #[must_use]
    pub const fn with(self, others: Capabilities) -> Capabilities {
        Capabilities(self.0 | others.0)
    }

    /// Returns the names of the capabilities, in order of declaration.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Capabilities::NAMED.into_iter().filter(move |(one, _)| self.contains(*one)).map(|(_, name)| name)
    }
}

impl BitOr for Capabilities {
    type Output = Capabilities;

    fn bitor(self, others: Capabilities) -> Capabilities {
        self.with(others)
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = self.names();
        f.write_str(names.next().unwrap_or("nothing in particular"))?;
        names.try_for_each(|name| write!(f, ", {name}"))
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Capabilities({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_capability_has_its_own_bit_and_name() {
        let all = Capabilities::NAMED.into_iter().fold(Capabilities::NONE, |sum, (one, _)| {
            assert!(one != Capabilities::NONE && sum.without(one) == sum, "{one}");
            sum | one
        });
        assert_eq!(all, Capabilities::OF_SHARED_MEMORY);
        assert_eq!(all.names().count(), Capabilities::NAMED.len());
    }

    #[test]
    fn abilities_print_their_names() {
        assert_eq!(
            Capabilities::OF_STREAM.to_string(),
            "descriptors to sleep on, evidence of death, steadiness"
        );
        assert_eq!(Capabilities::NONE.to_string(), "nothing in particular");
        assert!(Capabilities::OF_WINDOW.contains(Capabilities::SYSCALL_FREE | Capabilities::SHARED_MEMORY));
        assert!(!Capabilities::OF_WINDOW.contains(Capabilities::SYSCALL_FREE | Capabilities::ATOMICS));
    }
}
