//! What the domains of a machine may use, so that one of them cannot take everything from the others.

/// The limits of a machine, from `[limits]` of its machine file. A request that would exceed a limit fails
/// with an error that names the limit; other clients are not affected. Tests try each limit at one less,
/// itself and one more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    values: [u32; Limit::ALL.len()],
}

/// One of the [`Limits`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Domains that live on one node at once.
    DomainsPerNode,
    /// Connections to the monitor of one node at once.
    ConnectionsPerNode,
    /// Connections of one process to its monitor at once.
    ConnectionsPerProcess,
    /// Names that one domain exports at once.
    NamesPerDomain,
    /// Requests of one domain that wait at once: for a name, or for a listener with a full backlog.
    WaitingPerDomain,
    /// Channels of one listener that were opened and not accepted yet.
    Backlog,
    /// Channels across windows, and in streams of virtual machines without one, that one domain opened and
    /// that are not given back yet.
    WindowChannelsPerDomain,
    /// Domains that one domain started and that live.
    ChildrenPerDomain,
    /// Regions of the machine.
    Regions,
    /// Regions that one domain made and that are there.
    RegionsPerDomain,
    /// Memory of the regions that one domain made, in MiB.
    RegionMibPerDomain,
    /// Capabilities that one domain made, whichever domain holds them.
    CapabilitiesPerDomain,
    /// Places where regions are mapped in the machine.
    Mappings,
    /// Places where one domain has regions mapped.
    MappingsPerDomain,
    /// Time that a domain has to let revoked memory go, in milliseconds.
    RevokeMs,
    /// Output of one domain that the monitor remembers, in KiB.
    OutputKibPerDomain,
    /// Output of all domains that the monitor remembers, in MiB.
    OutputMib,
    /// Memory for what nodes, domains, channels and links were like, in MiB.
    HistoryMib,
}

impl Limit {
    /// All of them, in the order in which tables list them.
    pub const ALL: [Limit; 18] = [
        Limit::DomainsPerNode,
        Limit::ConnectionsPerNode,
        Limit::ConnectionsPerProcess,
        Limit::NamesPerDomain,
        Limit::WaitingPerDomain,
        Limit::Backlog,
        Limit::WindowChannelsPerDomain,
        Limit::ChildrenPerDomain,
        Limit::Regions,
        Limit::RegionsPerDomain,
        Limit::RegionMibPerDomain,
        Limit::CapabilitiesPerDomain,
        Limit::Mappings,
        Limit::MappingsPerDomain,
        Limit::RevokeMs,
        Limit::OutputKibPerDomain,
        Limit::OutputMib,
        Limit::HistoryMib,
    ];

    /// Its key in machine files.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Limit::DomainsPerNode => "domains_per_node",
            Limit::ConnectionsPerNode => "connections_per_node",
            Limit::ConnectionsPerProcess => "connections_per_process",
            Limit::NamesPerDomain => "names_per_domain",
            Limit::WaitingPerDomain => "waiting_per_domain",
            Limit::Backlog => "backlog",
            Limit::WindowChannelsPerDomain => "window_channels_per_domain",
            Limit::ChildrenPerDomain => "children_per_domain",
            Limit::Regions => "regions",
            Limit::RegionsPerDomain => "regions_per_domain",
            Limit::RegionMibPerDomain => "region_mib_per_domain",
            Limit::CapabilitiesPerDomain => "capabilities_per_domain",
            Limit::Mappings => "mappings",
            Limit::MappingsPerDomain => "mappings_per_domain",
            Limit::RevokeMs => "revoke_ms",
            Limit::OutputKibPerDomain => "output_kib_per_domain",
            Limit::OutputMib => "output_mib",
            Limit::HistoryMib => "history_mib",
        }
    }

    /// What it limits, in a few words.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Limit::DomainsPerNode => "domains that live on one node at once",
            Limit::ConnectionsPerNode => "connections to the monitor of one node at once",
            Limit::ConnectionsPerProcess => "connections of one process to its monitor at once",
            Limit::NamesPerDomain => "names that one domain exports at once",
            Limit::WaitingPerDomain => "requests of one domain that wait at once",
            Limit::Backlog => "channels of one listener that are not accepted yet",
            Limit::WindowChannelsPerDomain => {
                "channels across windows or link streams that one domain opened"
            }
            Limit::ChildrenPerDomain => "living domains that one domain started",
            Limit::Regions => "regions of the machine",
            Limit::RegionsPerDomain => "regions that one domain made",
            Limit::RegionMibPerDomain => "MiB of memory in the regions that one domain made",
            Limit::CapabilitiesPerDomain => "capabilities that one domain made",
            Limit::Mappings => "places where regions are mapped",
            Limit::MappingsPerDomain => "places where one domain has regions mapped",
            Limit::RevokeMs => "milliseconds that a domain has to let revoked memory go",
            Limit::OutputKibPerDomain => "KiB of output remembered of one domain",
            Limit::OutputMib => "MiB of output remembered of all domains",
            Limit::HistoryMib => "MiB of memory for what was",
        }
    }

    /// Returns the value when the machine file sets none, in the unit that [`meaning`](Self::meaning) names.
    #[must_use]
    pub const fn default_value(self) -> u32 {
        match self {
            // What one monitor can serve with the descriptors that a process usually may have.
            Limit::DomainsPerNode | Limit::ConnectionsPerNode => 4096,
            Limit::ConnectionsPerProcess => 256,
            Limit::NamesPerDomain | Limit::WaitingPerDomain | Limit::ChildrenPerDomain => 1024,
            // As a kernel's listening socket has it.
            Limit::Backlog => 128,
            // Of the usual shape they take 3 of the usual 64 MiB.
            Limit::WindowChannelsPerDomain => 256,
            // A descriptor of a monitor each.
            Limit::Regions | Limit::Mappings => 4096,
            Limit::RegionsPerDomain | Limit::MappingsPerDomain => 1024,
            Limit::RegionMibPerDomain => 65_536,
            Limit::CapabilitiesPerDomain => 16_384,
            Limit::RevokeMs => 1000,
            Limit::OutputKibPerDomain => 64,
            Limit::OutputMib => 16,
            Limit::HistoryMib => 32,
        }
    }

    /// Returns the greatest value that a machine file may give it; the smallest is 1.
    #[must_use]
    pub const fn greatest(self) -> u32 {
        match self {
            Limit::Backlog => 65_536,
            // Beyond that a monitor runs out of descriptors.
            Limit::DomainsPerNode | Limit::ConnectionsPerNode | Limit::Regions | Limit::Mappings => 65_536,
            // The monitor's own memory.
            Limit::OutputKibPerDomain | Limit::OutputMib | Limit::HistoryMib => 65_536,
            _ => 1_000_000,
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

impl Limits {
    /// Returns the value of a limit.
    #[must_use]
    pub const fn of(&self, limit: Limit) -> u32 {
        self.values[limit.index()]
    }

    /// Returns the same with another value of one limit, which is at least 1.
    #[must_use]
    pub fn with(mut self, limit: Limit, value: u32) -> Limits {
        self.values[limit.index()] = value.clamp(1, limit.greatest());
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits { values: Limit::ALL.map(Limit::default_value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_place_its_key_and_a_default_in_range() {
        for (index, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(limit.index(), index, "{limit:?}");
            assert!((1..=limit.greatest()).contains(&limit.default_value()), "{limit:?}");
            assert_eq!(Limit::ALL.into_iter().filter(|other| other.key() == limit.key()).count(), 1);
            let changed = Limits::default().with(limit, 7);
            assert_eq!(changed.of(limit), 7);
            let others = Limit::ALL.into_iter().filter(|other| *other != limit);
            assert!(others.into_iter().all(|other| changed.of(other) == other.default_value()));
        }
    }
}
