//! Nodes, and links between them.

use serde::Serialize;
use tombolo::nodes::NodeKind;
use tombolo_admin::observe::{NodePhase, NodeSample, Seen, SeenLink, SeenNode};

use super::{Missing, ms, node_name, node_named};

/// Row of a node. Unknown values, of a node that is down or not yet sampled, are null.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct NodeRow {
    pub key: String,
    pub id: u16,
    pub name: String,
    pub kind: &'static str,
    pub isa: &'static str,
    pub target: &'static str,
    pub phase: &'static str,
    pub cause: String,
    pub generation: u16,
    /// Whether the node runs on the host's kernel: then `load` and `memory_used_bytes` are those of its own
    /// processes and are included in the host's.
    pub shared: bool,
    pub cores: usize,
    pub load: Option<u64>,
    pub speed: Option<u32>,
    pub memory_used_bytes: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub domains: u32,
    pub power_mw: Option<u64>,
    pub window_lent_bytes: u64,
    pub window_bytes: u64,
}

/// Processor of a node, from its last sample.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct CoreRow {
    pub load: u16,
    pub khz: Option<u32>,
    pub min_khz: Option<u32>,
    pub max_khz: Option<u32>,
    pub floor_khz: Option<u32>,
    pub ceiling_khz: Option<u32>,
    pub governor: Option<String>,
}

/// Power meter of a node.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct PowerRow {
    pub name: String,
    pub mw: u32,
}

/// Copy engine of a node.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct EngineRow {
    pub name: String,
    pub latency_ns: u64,
    pub bytes_per_s: u64,
}

/// Details of one node, with its row.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct NodeDetail {
    #[serde(flatten)]
    pub node: NodeRow,
    pub core_list: Vec<CoreRow>,
    pub governors: Vec<String>,
    pub power: Vec<PowerRow>,
    pub engines: Vec<EngineRow>,
    pub boot_ms: u64,
    pub pid: i32,
    pub period_ms: Option<u32>,
    pub cost_ppm: Option<u32>,
    pub sampled_ms: u64,
    pub can_restart: bool,
    pub has_console: bool,
}

/// A link between two nodes.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct LinkRow {
    pub key: String,
    pub a: String,
    pub b: String,
    pub transport: &'static str,
    pub channels: u32,
    pub forth_bytes_per_s: u64,
    pub back_bytes_per_s: u64,
    pub forth_per_s: f64,
    pub back_per_s: f64,
    pub round_trip_ns: Option<u64>,
}

/// Returns the total load of all processors in thousandths of one, or of the node's processes if it has no
/// processors of its own.
pub(crate) fn load(sample: &NodeSample) -> u64 {
    let cores = sample.cores.iter().map(|core| u64::from(core.load_permille));
    cores.sum::<u64>() + u64::from(sample.own_load_permille)
}

/// Returns whether a node runs on another node's kernel. Its resource usage is included in that of the other
/// node, so sums leave it out.
pub(crate) fn shares_kernel(node: &SeenNode) -> bool {
    node.info.kind == NodeKind::User
}

/// Returns the total power of all meters in mW, if there are any.
fn power_mw(sample: &NodeSample) -> Option<u64> {
    let meters = sample.power.iter().map(|meter| u64::from(meter.power_mw));
    (!sample.power.is_empty()).then(|| meters.sum())
}

/// Returns `None` for 0, which means unknown.
fn nonzero(number: u32) -> Option<u32> {
    (number != 0).then_some(number)
}

impl From<&SeenNode> for NodeRow {
    fn from(node: &SeenNode) -> NodeRow {
        let (info, sample) = (&node.info, node.sample.as_ref());
        NodeRow {
            key: info.name.clone(),
            id: info.id.0,
            name: info.name.clone(),
            kind: info.kind.name(),
            isa: info.isa.name(),
            target: node.target.name(),
            phase: match node.phase {
                NodePhase::Starting => "starting",
                NodePhase::Up => "up",
                NodePhase::Down => "down",
            },
            cause: if node.phase == NodePhase::Up { String::new() } else { info.cause.clone() },
            generation: info.generation,
            shared: shares_kernel(node),
            cores: sample.map_or(0, |sample| sample.cores.len()).max(usize::from(info.cores)),
            load: sample.map(load),
            speed: sample.and_then(|sample| nonzero(sample.speed)),
            memory_used_bytes: sample.map(|sample| sample.memory_used_bytes),
            memory_bytes: sample.map(|sample| sample.memory_bytes).filter(|bytes| *bytes > 0),
            domains: info.domains,
            power_mw: sample.and_then(power_mw),
            window_lent_bytes: info.window_bytes.0,
            window_bytes: info.window_bytes.1,
        }
    }
}

/// Returns the rows of all nodes, by number.
#[must_use]
pub fn nodes(seen: &Seen) -> Vec<NodeRow> {
    seen.nodes.values().map(NodeRow::from).collect()
}

/// Returns the details of the node with this name.
///
/// # Errors
/// If no node has this name.
pub fn node(seen: &Seen, name: &str) -> Result<NodeDetail, Missing> {
    let node = node_named(seen, name)?;
    let sample = node.sample.as_ref();
    let (kind, down) = (node.info.kind, node.phase == NodePhase::Down);
    Ok(NodeDetail {
        node: NodeRow::from(node),
        core_list: sample.map(cores).unwrap_or_default(),
        governors: sample.map(|sample| sample.governors.clone()).unwrap_or_default(),
        power: sample
            .iter()
            .flat_map(|sample| &sample.power)
            .map(|meter| PowerRow { name: meter.name.clone(), mw: meter.power_mw })
            .collect(),
        engines: node
            .engines
            .iter()
            .map(|engine| EngineRow {
                name: engine.name.clone(),
                latency_ns: engine.latency_ns,
                bytes_per_s: engine.bytes_per_s,
            })
            .collect(),
        boot_ms: u64::try_from(node.info.boot.as_millis()).unwrap_or(u64::MAX),
        pid: node.info.pid,
        period_ms: sample.map(|sample| sample.period_ms),
        cost_ppm: sample.map(|sample| sample.cost_ppm),
        sampled_ms: ms(node.sampled_ns),
        can_restart: down && kind != NodeKind::Host,
        has_console: matches!(kind, NodeKind::Vm | NodeKind::Bare),
    })
}

fn cores(sample: &NodeSample) -> Vec<CoreRow> {
    let row = |core: &tombolo_admin::observe::CoreSample| CoreRow {
        load: core.load_permille,
        khz: nonzero(core.frequency_khz),
        min_khz: nonzero(core.min_khz),
        max_khz: nonzero(core.max_khz),
        floor_khz: nonzero(core.floor_khz),
        ceiling_khz: nonzero(core.ceiling_khz),
        governor: sample.governors.get(usize::from(core.governor)).cloned(),
    };
    sample.cores.iter().map(row).collect()
}

/// Returns the row of a link between two nodes.
#[must_use]
pub fn link(seen: &Seen, link: &SeenLink) -> LinkRow {
    let (a, b) = (node_name(seen, link.a), node_name(seen, link.b));
    LinkRow {
        key: format!("{a}-{b}"),
        a,
        b,
        transport: link.transport.name(),
        channels: link.channels,
        forth_bytes_per_s: link.forth.bytes_per_s,
        back_bytes_per_s: link.back.bytes_per_s,
        forth_per_s: link.forth.rate_mhz as f64 / 1000.0,
        back_per_s: link.back.rate_mhz as f64 / 1000.0,
        round_trip_ns: (link.round_trip_ns != 0).then_some(link.round_trip_ns),
    }
}

/// Returns the rows of all links.
#[must_use]
pub fn links(seen: &Seen) -> Vec<LinkRow> {
    seen.links.values().map(|each| link(seen, each)).collect()
}
