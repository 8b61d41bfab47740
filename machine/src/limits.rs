//! Resource limits of a machine's domains, so that one of them cannot exhaust the resources of the others.

/// The limits of a machine, from `[limits]` of its machine file. A request that would exceed a limit fails
/// with an error that names the limit; other clients are not affected. Tests try each limit at one less,
/// itself and one more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    values: [u32; Limit::ALL.len()],
}

/// A single limit of [`Limits`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Number of live domains on one node.
    DomainsPerNode,
    /// Number of connections to the monitor of one node.
    ConnectionsPerNode,
    /// Number of connections of one process to its monitor.
    ConnectionsPerProcess,
    /// Number of names exported by one domain.
    NamesPerDomain,
    /// Number of pending requests of one domain: for a name, or for a listener with a full backlog.
    WaitingPerDomain,
    /// Number of channels of one listener that are opened but not accepted yet.
    Backlog,
    /// Number of channels across windows, and in streams of virtual machines without one, that one domain
    /// opened and that are not released yet.
    WindowChannelsPerDomain,
    /// Number of live children of one domain.
    ChildrenPerDomain,
    /// Number of regions of the machine.
    Regions,
    /// Number of existing regions created by one domain.
    RegionsPerDomain,
    /// Total memory of the regions created by one domain, in MiB.
    RegionMibPerDomain,
    /// Number of capabilities created by one domain, regardless of the holder.
    CapabilitiesPerDomain,
    /// Number of region mappings in the machine.
    Mappings,
    /// Number of region mappings of one domain.
    MappingsPerDomain,
    /// Time for a domain to release revoked memory, in milliseconds.
    RevokeMs,
    /// Output of one domain that the monitor retains, in KiB.
    OutputKibPerDomain,
    /// Output of all domains that the monitor retains, in MiB.
    OutputMib,
    /// Memory for the history of nodes, domains, channels and links, in MiB.
    HistoryMib,
}

impl Limit {
    /// All limits, in the order in which tables list them.
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

    /// Returns the key in machine files.
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

    /// Returns a short description of the limit.
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

    /// Returns the default value, in the unit named by [`meaning`](Self::meaning).
    #[must_use]
    pub const fn default_value(self) -> u32 {
        match self {
            // As many as one monitor can serve with the usual limit on descriptors.
            Limit::DomainsPerNode | Limit::ConnectionsPerNode => 4096,
            Limit::ConnectionsPerProcess => 256,
            Limit::NamesPerDomain | Limit::WaitingPerDomain | Limit::ChildrenPerDomain => 1024,
            // The same as a kernel's listening socket.
            Limit::Backlog => 128,
            // With the usual shape they take 3 of the usual 64 MiB.
            Limit::WindowChannelsPerDomain => 256,
            // Each takes a descriptor of a monitor.
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

    /// Returns the greatest value allowed in a machine file; the smallest is 1.
    #[must_use]
    pub const fn max_value(self) -> u32 {
        match self {
            Limit::Backlog => 65_536,
            // Beyond this a monitor runs out of descriptors.
            Limit::DomainsPerNode | Limit::ConnectionsPerNode | Limit::Regions | Limit::Mappings => 65_536,
            // Uses the monitor's own memory.
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

    /// Returns the limits with one value changed, which must be at least 1.
    #[must_use]
    pub fn with(mut self, limit: Limit, value: u32) -> Limits {
        self.values[limit.index()] = value.clamp(1, limit.max_value());
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
    fn each_limit_has_an_index_a_key_and_a_valid_default() {
        for (index, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(limit.index(), index, "{limit:?}");
            assert!((1..=limit.max_value()).contains(&limit.default_value()), "{limit:?}");
            assert_eq!(Limit::ALL.into_iter().filter(|other| other.key() == limit.key()).count(), 1);
            let changed = Limits::default().with(limit, 7);
            assert_eq!(changed.of(limit), 7);
            let others = Limit::ALL.into_iter().filter(|other| *other != limit);
            assert!(others.into_iter().all(|other| changed.of(other) == other.default_value()));
        }
    }
}
