//! Synthetic machines, for the tests of views and of the API.

use std::num::NonZeroU16;
use std::time::Duration;

use tombolo::nodes::{NodeInfo, NodeKind, Target};
use tombolo::{ChannelId, DomainId, Exit, NodeId, TransportKind};
use tombolo_admin::observe::{
    CoreSample, DomainSample, EndSample, Flow, NodePhase, NodeSample, PowerSample, Seen, SeenChannel,
    SeenDomain, SeenNode,
};

/// Creates a machine of these nodes.
pub(crate) fn seen(nodes: impl IntoIterator<Item = SeenNode>) -> Seen {
    let mut seen = Seen { now_ns: 60_000_000_000, wall_ns: 1_700_000_060_000_000_000, ..Seen::default() };
    seen.nodes.extend(nodes.into_iter().map(|node| (node.info.id, node)));
    seen
}

/// Creates a node that is up, with processors that have these loads.
pub(crate) fn node(id: u16, name: &str, target: &str, loads: &[u16], speed: u32) -> SeenNode {
    let target = Target::from_name(target).unwrap();
    let core = |load: &u16| CoreSample {
        load_permille: *load,
        governor: 0,
        frequency_khz: 2_000_000,
        min_khz: 1_000_000,
        max_khz: 3_000_000,
        floor_khz: 800_000,
        ceiling_khz: 3_500_000,
    };
    SeenNode {
        info: NodeInfo {
            up: true,
            cause: String::new(),
            cores: loads.len() as u16,
            domains: 1,
            boot: Duration::from_millis(2900),
            pid: 7,
            ..NodeInfo::new(NodeId(id), name, if id == 0 { NodeKind::Host } else { NodeKind::Vm }, target.isa)
        },
        phase: NodePhase::Up,
        target,
        sample: Some(NodeSample {
            cores: loads.iter().map(core).collect(),
            governors: vec!["performance".into()],
            memory_used_bytes: 1 << 30,
            memory_bytes: 4 << 30,
            power: vec![PowerSample { name: "package-0".into(), power_mw: 12_500 }],
            speed,
            period_ms: 1000,
            cost_ppm: 150,
            own_load_permille: 0,
        }),
        sampled_ns: 59_000_000_000,
        engines: Vec::new(),
    }
}

/// Creates a node on the host's kernel, whose processes have this load.
pub(crate) fn user_node(id: u16, name: &str, target: &str, own_load_permille: u32) -> SeenNode {
    let mut node = node(id, name, target, &[], 0);
    (node.info.kind, node.info.cores) = (NodeKind::User, 2);
    let sample = node.sample.as_mut().unwrap();
    sample.governors.clear();
    sample.power.clear();
    (sample.own_load_permille, sample.memory_used_bytes, sample.memory_bytes) =
        (own_load_permille, 12 << 20, 0);
    node
}

/// Returns the id of a domain of the first generation of a node.
pub(crate) fn id(node: u16, index: u32) -> DomainId {
    DomainId::new(NodeId(node), NonZeroU16::MIN, index)
}

/// Creates a live domain with this load.
pub(crate) fn domain(node: u16, index: u32, program: &str, load_permille: u32) -> SeenDomain {
    let id = id(node, index);
    SeenDomain {
        id,
        node: NodeId(node),
        program: program.into(),
        arguments: "--fast".into(),
        pid: 100 + index as i32,
        parent: (index > 1).then(|| self::id(0, 1)),
        since_ns: u64::from(index) * 1_000_000_000,
        exit: None,
        ended_ns: 0,
        paused: false,
        restartable: false,
        repeatable: true,
        channels: 1,
        output_bytes: 12,
        sample: Some(DomainSample {
            domain: id,
            load_permille,
            resident_bytes: u64::from(index) << 20,
            threads: 2,
            stopped: false,
        }),
    }
}

/// Marks a domain as ended.
pub(crate) fn ended(domain: SeenDomain, exit: Exit) -> SeenDomain {
    SeenDomain { exit: Some(exit), ended_ns: 50_000_000_000, ..domain }
}

/// Creates a channel over which `a` has sent `sent` messages, half of which `b` has received.
pub(crate) fn channel(number: u64, a: DomainId, b: DomainId, sent: u64) -> SeenChannel {
    let end = |domain, peer, accepting, sent, received| EndSample {
        domain,
        channel: ChannelId(number),
        accepting,
        transport: TransportKind::Shm,
        peer: Some(peer),
        open: true,
        sent,
        sent_bytes: sent * 8,
        received,
        received_bytes: received * 8,
        rings: 1,
        sleeps: 2,
        stalls: 3,
        slots: 64,
        credit_slots: 60,
        max_message_bytes: 8,
    };
    SeenChannel {
        id: ChannelId(number),
        connecting: Some(end(a, b, false, sent, 0)),
        accepting: Some(end(b, a, true, 0, sent / 2)),
        forth: Flow { rate_mhz: sent * 1000, bytes_per_s: sent * 8 },
        back: Flow { rate_mhz: 0, bytes_per_s: 0 },
        via: Vec::new(),
    }
}
