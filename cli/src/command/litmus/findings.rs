//! Results of the test program, and the verdict on them.

use serde::Serialize;
use tombolo::nodes::NodeKind;
use tombolo_machine::{FoundMemory, Order};

#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Sound,
    Unsound,
    /// No memory is shared.
    Unshared,
    /// Sound as far as it was tested, which is less than requested.
    Partial,
    Failed,
}

/// Counts of the test program.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Findings {
    pub(super) rounds: u64,
    pub(super) both_old: u64,
    pub(super) messages: u64,
    pub(super) torn: u64,
    pub(super) additions: u64,
    pub(super) lost: u64,
    pub(super) widest_store_bytes: u64,
    #[serde(rename = "coherence", serialize_with = "coherence")]
    pub(super) coherent: bool,
}

/// Serializes coherence with the words of machine files.
fn coherence<S: serde::Serializer>(coherent: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *coherent { "coherent" } else { "flush" })
}

impl Findings {
    /// Parses the program's line: `found`, seven numbers, and the kind of caches.
    pub(super) fn parse(line: &str) -> Option<Findings> {
        let (numbers, coherence) = line.strip_prefix("found ")?.rsplit_once(' ')?;
        let coherent = match coherence {
            "coherent" => true,
            "flush" => false,
            _ => return None,
        };
        let numbers: Vec<u64> = numbers.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        let [rounds, both_old, messages, torn, additions, lost, widest_store_bytes] = numbers[..] else {
            return None;
        };
        Some(Findings { rounds, both_old, messages, torn, additions, lost, widest_store_bytes, coherent })
    }

    /// Converts to the properties stored in a machine file.
    pub(super) fn memory(&self) -> FoundMemory {
        FoundMemory {
            coherent: self.coherent,
            order: match (self.torn, self.both_old) {
                (0, 0) => Order::Sequential,
                (0, _) => Order::Release,
                _ => Order::None,
            },
            widest_store_bytes: u8::try_from(self.widest_store_bytes).unwrap_or(u8::MAX),
            atomics: self.coherent && self.additions > 0 && self.lost == 0,
        }
    }

    /// Returns the verdict on a run with `rounds` requested rounds. A complete run passes `rounds / 4`
    /// messages, and each side makes `rounds` additions, if the memory is coherent. A bus need not support
    /// atomic additions; an emulator that loses one is misconfigured.
    pub(super) fn verdict(&self, rounds: u64, kind: NodeKind) -> Verdict {
        let adds = self.coherent && self.additions < 2 * rounds;
        if self.memory().fault().is_some() || (self.lost > 0 && kind != NodeKind::Attached) {
            Verdict::Unsound
        } else if self.rounds < rounds || self.messages < rounds / 4 || adds {
            Verdict::Partial
        } else {
            Verdict::Sound
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_parsed_whole_or_not_at_all() {
        let found = Findings::parse("found 8 0 2 0 16 0 8 coherent").unwrap();
        assert_eq!((found.rounds, found.messages, found.additions), (8, 2, 16));
        for wrong in [
            "found 8 0 2 0 16 0 coherent",
            "found 8 0 2 0 16 0 8 0 coherent",
            "found 8 0 2 0 16 x 8 coherent",
            "found 8 0 2 0 16 0 8",
            "found 8 0 2 0 16 0 8 copy",
            "8 0 2 0 16 0 8 coherent",
            "",
        ] {
            assert_eq!(Findings::parse(wrong), None, "{wrong}");
        }
        for unsound in [
            "found 8 1 2 0 16 0 8 coherent",
            "found 8 0 2 1 16 0 8 coherent",
            "found 8 0 2 0 16 0 4 coherent",
            "found 8 1 2 0 0 0 8 flush",
        ] {
            let found = Findings::parse(unsound).unwrap();
            assert_eq!(found.verdict(8, NodeKind::Attached), Verdict::Unsound, "{unsound}");
        }
        let loses = Findings::parse("found 8 0 2 0 16 1 8 coherent").unwrap();
        assert_eq!(loses.verdict(8, NodeKind::Vm), Verdict::Unsound, "an emulator");
        assert_eq!(loses.verdict(8, NodeKind::Attached), Verdict::Sound, "a bus");
    }

    #[test]
    fn written_memory_follows_from_findings() {
        let memory = |line: &str| {
            let memory = Findings::parse(line).unwrap().memory();
            (memory.coherent, memory.order.name(), memory.widest_store_bytes, memory.atomics)
        };
        assert_eq!(memory("found 8 0 2 0 16 0 16 coherent"), (true, "sequential", 16, true));
        assert_eq!(memory("found 8 0 2 0 16 3 8 coherent"), (true, "sequential", 8, false));
        assert_eq!(memory("found 8 2 2 0 16 0 8 coherent"), (true, "release", 8, true));
        assert_eq!(memory("found 8 0 2 1 0 0 8 flush"), (false, "none", 8, false));
    }

    #[test]
    fn incomplete_tests_are_not_sound() {
        for (line, verdict) in [
            ("found 8 0 2 0 16 0 8 coherent", Verdict::Sound),
            ("found 8 0 2 0 0 0 8 flush", Verdict::Sound),
            ("found 7 0 2 0 16 0 8 coherent", Verdict::Partial),
            ("found 8 0 1 0 16 0 8 coherent", Verdict::Partial),
            ("found 8 0 2 0 15 0 8 coherent", Verdict::Partial),
            ("found 0 0 0 0 0 0 8 coherent", Verdict::Partial),
            ("found 7 1 2 0 16 0 8 coherent", Verdict::Unsound),
        ] {
            assert_eq!(Findings::parse(line).unwrap().verdict(8, NodeKind::Vm), verdict, "{line}");
        }
    }
}
