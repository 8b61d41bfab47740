//! The machine as a whole.

use serde::Serialize;
use tombolo_admin::observe::{NodePhase, Seen, SeenNode};

use super::ms;
use super::nodes::{load, shares_kernel};
use crate::cache::{MonitorState, Snapshot};

/// Data of the page's header.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct MachineRow {
    pub key: &'static str,
    pub name: String,
    pub version: &'static str,
    pub steer: bool,
    pub monitor: &'static str,
    pub trouble: Option<String>,
    pub now_ms: u64,
    pub wall_ms: u64,
    pub nodes: usize,
    pub nodes_up: usize,
    pub cores: usize,
    pub load: Option<u64>,
    pub domains: usize,
    pub channels: usize,
    pub regions: usize,
    pub messages_per_s: u64,
    pub bytes_per_s: u64,
    pub tracing: bool,
}

/// Returns the row of the machine as a whole.
#[must_use]
pub fn machine(snapshot: &Snapshot, steer: bool) -> MachineRow {
    let seen = &snapshot.seen;
    let (mut rate_mhz, mut bytes_per_s) = (0_u64, 0_u64);
    for flow in seen.channels.values().flat_map(|channel| [channel.forth, channel.back]) {
        rate_mhz = rate_mhz.saturating_add(flow.rate_mhz);
        bytes_per_s = bytes_per_s.saturating_add(flow.bytes_per_s);
    }
    let (monitor, trouble) = match &snapshot.monitor {
        MonitorState::Connected => ("connected", None),
        MonitorState::Gone { why } => ("gone", Some(why.clone())),
    };
    let (cores, load) = processors(seen);
    MachineRow {
        key: "machine",
        name: snapshot.machine.clone(),
        version: env!("CARGO_PKG_VERSION"),
        steer,
        monitor,
        trouble,
        now_ms: ms(snapshot.now_ns),
        wall_ms: ms(snapshot.wall_ns),
        nodes: seen.nodes.len(),
        nodes_up: seen.nodes.values().filter(|node| node.phase == NodePhase::Up).count(),
        cores,
        load,
        domains: seen.live().count(),
        channels: seen.channels.len(),
        regions: seen.regions.len(),
        messages_per_s: rate_mhz / 1000,
        bytes_per_s,
        tracing: snapshot.tracing,
    }
}

/// Returns the number of processors of a machine and their total load, in thousandths of a processor; `None`
/// before the first sample. Nodes on the host's kernel are part of the host's load.
fn processors(seen: &Seen) -> (usize, Option<u64>) {
    let own = |node: &&SeenNode| node.phase == NodePhase::Up && !shares_kernel(node);
    let samples = seen.nodes.values().filter(own).filter_map(|node| node.sample.as_ref());
    samples.fold((0, None), |(cores, sum), sample| {
        (cores + sample.cores.len(), Some(sum.unwrap_or(0) + load(sample)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn user_nodes_count_once() {
        let foreign = testing::user_node(2, "s390x-user", "s390x", 300);
        let mut seen = testing::seen([
            testing::node(0, "host", "x86_64", &[400, 100], 0),
            testing::node(1, "arm0", "aarch64", &[900], 0),
            foreign,
        ]);
        assert_eq!(processors(&seen), (3, Some(1400)));
        seen.nodes.values_mut().for_each(|node| node.phase = NodePhase::Down);
        assert_eq!(processors(&seen), (0, None));
    }
}
