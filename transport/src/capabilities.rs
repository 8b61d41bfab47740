//! What a transport says it can do. The conformance suite holds it to each claim, and skips what it does not claim.

use std::fmt;
use std::ops::BitOr;

/// A set of abilities that transports may have or lack. What every transport must do is in no set: it is the
/// contract.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(u32);

impl Capabilities {
    /// None.
    pub const NONE: Capabilities = Capabilities(0);
    /// Messages lie in memory that both sides map.
    pub const SHARED_MEMORY: Capabilities = Capabilities(1);
    /// An atomic read-modify-write on that memory is whole for both sides. No ring needs it.
    pub const ATOMICS: Capabilities = Capabilities(1 << 1);
    /// While both sides are awake a message costs no system call and no access to a device.
    pub const SILENT: Capabilities = Capabilities(1 << 2);
    /// It takes as many messages of one slot as its rings have slots, no more and no fewer.
    pub const COUNTED_ROOM: Capabilities = Capabilities(1 << 3);
    /// A side that sleeps for a message is rung when one comes, and only then.
    pub const BELL_FOR_MESSAGES: Capabilities = Capabilities(1 << 4);
    /// A side that sleeps for room is rung when there is some, and only then.
    pub const BELL_FOR_ROOM: Capabilities = Capabilities(1 << 5);
    /// What ends a sleep is a file descriptor, so that a program can sleep on much else at the same time. Without,
    /// [`crate::wait`] polls.
    pub const DESCRIPTORS: Capabilities = Capabilities(1 << 6);
    /// The death of a peer is known by evidence, as soon as the operating system has it.
    pub const EVIDENCE_OF_DEATH: Capabilities = Capabilities(1 << 7);
    /// A send is refused for want of room only, a message that has arrived is seen by the next look, and a sleep ends
    /// for a reason only.
    pub const STEADY: Capabilities = Capabilities(1 << 8);
    /// The messages of a batch are seen all at once.
    pub const WHOLE_BATCHES: Capabilities = Capabilities(1 << 9);
    /// Everything that rings in the coherent memory of one kernel do.
    pub const OF_SHARED_MEMORY: Capabilities = Capabilities(0b11_1111_1111);
    /// Everything that rings in a window between two kernels do.
    pub const OF_WINDOW: Capabilities =
        Capabilities(Capabilities::OF_SHARED_MEMORY.0 & !Capabilities::ATOMICS.0);
    /// Everything that a byte stream does.
    pub const OF_STREAM: Capabilities = Capabilities(
        Capabilities::DESCRIPTORS.0 | Capabilities::EVIDENCE_OF_DEATH.0 | Capabilities::STEADY.0,
    );

    /// Each ability with the name that reports use.
    pub const NAMED: [(Capabilities, &'static str); 10] = [
        (Capabilities::SHARED_MEMORY, "shared memory"),
        (Capabilities::ATOMICS, "atomics across the link"),
        (Capabilities::SILENT, "silence while both sides are awake"),
        (Capabilities::COUNTED_ROOM, "room counted in slots"),
        (Capabilities::BELL_FOR_MESSAGES, "a bell for messages"),
        (Capabilities::BELL_FOR_ROOM, "a bell for room"),
        (Capabilities::DESCRIPTORS, "descriptors to sleep on"),
        (Capabilities::EVIDENCE_OF_DEATH, "evidence of death"),
        (Capabilities::STEADY, "steadiness"),
        (Capabilities::WHOLE_BATCHES, "batches that show all at once"),
    ];

    /// Whether all of `others` are among them.
    #[must_use]
    pub const fn contains(self, others: Capabilities) -> bool {
        self.0 & others.0 == others.0
    }

    /// These, less `others`.
    #[must_use]
    pub const fn without(self, others: Capabilities) -> Capabilities {
        Capabilities(self.0 & !others.0)
    }

    /// These and `others`, in constants.
    #[must_use]
    pub const fn with(self, others: Capabilities) -> Capabilities {
        Capabilities(self.0 | others.0)
    }

    /// Their names, in the order in which they are declared here.
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
    fn each_has_a_bit_and_a_name_of_its_own() {
        let all = Capabilities::NAMED.into_iter().fold(Capabilities::NONE, |sum, (one, _)| {
            assert!(one != Capabilities::NONE && sum.without(one) == sum, "{one}");
            sum | one
        });
        assert_eq!(all, Capabilities::OF_SHARED_MEMORY);
        assert_eq!(all.names().count(), Capabilities::NAMED.len());
    }

    #[test]
    fn they_are_told_by_name() {
        assert_eq!(
            Capabilities::OF_STREAM.to_string(),
            "descriptors to sleep on, evidence of death, steadiness"
        );
        assert_eq!(Capabilities::NONE.to_string(), "nothing in particular");
        assert!(Capabilities::OF_WINDOW.contains(Capabilities::SILENT | Capabilities::SHARED_MEMORY));
        assert!(!Capabilities::OF_WINDOW.contains(Capabilities::SILENT | Capabilities::ATOMICS));
    }
}
