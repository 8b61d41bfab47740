//! Size of the root's tables. After clients leave, it must return to the value before they came.

use super::Core;

impl Core {
    /// Returns the size of every table by name.
    ///
    /// Excludes the programs that agents keep for later starts and retained console output, which are bounded
    /// and stay.
    #[must_use]
    pub fn resource_counts(&self) -> Vec<(&'static str, usize)> {
        let windows = || self.windows.iter().flatten();
        let mut held = vec![
            ("clients", self.clients.len()),
            ("domains", self.domains.len()),
            ("domains with children", self.domains.families()),
            ("exports of nodes", self.node_exports.len()),
            ("services", self.services.len()),
            ("connections that wait for a name", self.waiting.len()),
            ("channels in windows", self.channels.len()),
            ("channels in streams", self.streams.len()),
            ("sentences", self.pending_kills.len()),
            ("ends held back", self.deferred_exits.len()),
            ("effects", self.effects.len()),
            ("restarts awaited", self.nodes.iter().filter(|node| node.restarting.is_some()).count()),
            ("viewers of consoles", self.nodes.iter().map(|node| node.console.viewers()).sum()),
            ("programs in windows", windows().map(|window| window.programs.len()).sum()),
            ("doorbells lent", windows().map(super::WindowRecord::allocated_vectors).sum()),
            (
                "bytes of windows lent",
                windows().map(|window| window.allocator.allocated_bytes() as usize).sum(),
            ),
        ];
        held.extend(self.names.resource_counts());
        held.extend(self.remote_names.resource_counts());
        held.extend(self.traces.resource_counts());
        held.extend(self.regions.resource_counts());
        held.extend(self.observing.resource_counts());
        held.extend(self.steering.resource_counts());
        held
    }
}
