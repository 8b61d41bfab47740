//! Kinds of links and their properties.

use core::fmt;

use crate::cost::{CostCurve, CostOrigin, LinkCost};

/// Way in which bytes get from one node to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TransportKind {
    /// Memory of one kernel, mapped by both processes.
    Shm,
    /// A PCI shared-memory window: each side maps it at its own address under its own kernel.
    Window,
    /// A byte stream: local or TCP.
    Socket,
}

impl TransportKind {
    /// All transports, in the order in which tables list them.
    pub const ALL: [TransportKind; 3] = [TransportKind::Shm, TransportKind::Window, TransportKind::Socket];

    /// Returns the name used in machine files and output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TransportKind::Shm => "shm",
            TransportKind::Window => "window",
            TransportKind::Socket => "socket",
        }
    }

    /// Returns the transport with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        TransportKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the properties of a link of this kind.
    #[must_use]
    pub const fn traits(self) -> LinkTraits {
        match self {
            TransportKind::Shm => {
                LinkTraits { coherence: Coherence::Coherent, atomics: true, doorbell: Doorbell::Socket }
            }
            TransportKind::Window => {
                LinkTraits { coherence: Coherence::Coherent, atomics: false, doorbell: Doorbell::Interrupt }
            }
            TransportKind::Socket => {
                LinkTraits { coherence: Coherence::Copy, atomics: false, doorbell: Doorbell::Socket }
            }
        }
    }

    /// Returns the cost of a link of this kind, as orders of magnitude: good enough for choosing until the
    /// link is measured.
    #[must_use]
    pub const fn declared_cost(self) -> LinkCost {
        let curve = match self {
            TransportKind::Shm => CostCurve { latency_ns: 200, bytes_per_s: 5_000_000_000 },
            TransportKind::Window => CostCurve { latency_ns: 2_000, bytes_per_s: 1_000_000_000 },
            TransportKind::Socket => CostCurve { latency_ns: 20_000, bytes_per_s: 1_000_000_000 },
        };
        LinkCost { to_peer: curve, from_peer: curve, origin: CostOrigin::Declared }
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Condition under which one side sees the other's stores. Greater values need less work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Coherence {
    /// Never: bytes are copied.
    Copy,
    /// After the writer flushes its cache and the reader invalidates its own.
    Flush,
    /// At once, without further action.
    Coherent,
}

impl Coherence {
    /// Returns the name used in machine files and output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Coherence::Copy => "copy",
            Coherence::Flush => "flush",
            Coherence::Coherent => "coherent",
        }
    }
}

/// Mechanism that wakes a sleeping side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doorbell {
    /// A byte on a socket of the same kernel.
    Socket,
    /// An interrupt (MSI-X) towards the guest, an event counter towards the host.
    Interrupt,
}

/// Properties of a link, apart from its cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkTraits {
    /// Condition under which stores become visible across the link.
    pub coherence: Coherence,
    /// Whether an atomic read-modify-write is atomic across the link. Rings never need that.
    pub atomics: bool,
    /// Mechanism that wakes a sleeping side.
    pub doorbell: Doorbell,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transport_has_a_name_of_its_own() {
        for kind in TransportKind::ALL {
            assert_eq!(TransportKind::from_name(kind.name()), Some(kind));
            assert_eq!(std::format!("{kind:>8}").len(), 8);
        }
        assert_eq!(TransportKind::from_name("pigeon"), None);
    }

    #[test]
    fn only_shared_memory_of_one_kernel_has_atomics() {
        let with_atomics = TransportKind::ALL.into_iter().filter(|kind| kind.traits().atomics);
        assert!(with_atomics.eq([TransportKind::Shm]));
    }
    #[test]
    fn names_are_those_of_machine_files() {
        assert_eq!(TransportKind::ALL.map(TransportKind::name), ["shm", "window", "socket"]);
        let coherence = [Coherence::Copy, Coherence::Flush, Coherence::Coherent];
        assert_eq!(coherence.map(Coherence::name), ["copy", "flush", "coherent"]);
        assert!(coherence.is_sorted());
    }

    #[test]
    fn declared_costs_prefer_shm_to_window_to_stream() {
        let costs = TransportKind::ALL.map(TransportKind::declared_cost);
        for cost in costs {
            assert_eq!((cost.origin, cost.to_peer), (CostOrigin::Declared, cost.from_peer));
        }
        for length_bytes in [0, 64, 4096, 1 << 20] {
            assert!(
                costs.is_sorted_by(|a, b| a.to_peer.time_ns(length_bytes) < b.to_peer.time_ns(length_bytes))
            );
        }
        let copied = TransportKind::ALL.into_iter().filter(|kind| kind.traits().coherence == Coherence::Copy);
        assert!(copied.eq([TransportKind::Socket]));
        let interrupted =
            TransportKind::ALL.into_iter().filter(|kind| kind.traits().doorbell == Doorbell::Interrupt);
        assert!(interrupted.eq([TransportKind::Window]));
    }
}
