//! The machine as a whole.

use serde::Serialize;
use tombolo::observe::NodePhase;

use super::ms;
use crate::keeper::{MonitorState, Picture};

/// What the page's head says.
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
    pub domains: usize,
    pub channels: usize,
    pub regions: usize,
    pub messages_per_s: u64,
    pub bytes_per_s: u64,
    pub tracing: bool,
}

/// The machine as a whole.
#[must_use]
pub fn machine(picture: &Picture, steer: bool) -> MachineRow {
    let seen = &picture.seen;
    let (mut rate_mhz, mut bytes_per_s) = (0_u64, 0_u64);
    for flow in seen.channels.values().flat_map(|channel| [channel.forth, channel.back]) {
        rate_mhz = rate_mhz.saturating_add(flow.rate_mhz);
        bytes_per_s = bytes_per_s.saturating_add(flow.bytes_per_s);
    }
    let (monitor, trouble) = match &picture.monitor {
        MonitorState::Connected => ("connected", None),
        MonitorState::Gone { why } => ("gone", Some(why.clone())),
    };
    MachineRow {
        key: "machine",
        name: picture.machine.clone(),
        version: env!("CARGO_PKG_VERSION"),
        steer,
        monitor,
        trouble,
        now_ms: ms(picture.now_ns),
        wall_ms: ms(picture.wall_ns),
        nodes: seen.nodes.len(),
        nodes_up: seen.nodes.values().filter(|node| node.phase == NodePhase::Up).count(),
        domains: seen.live().count(),
        channels: seen.channels.len(),
        regions: seen.regions.len(),
        messages_per_s: rate_mhz / 1000,
        bytes_per_s,
        tracing: picture.tracing,
    }
}
