//! Messages of the monitors: each decoded message can be encoded, and decodes to the same message again.

use std::time::Duration;

use tombolo_base::{ChannelId, DomainId, Isa, NodeId};
use tombolo_control::capabilities::Kind;
use tombolo_control::monitor::GivenCapability;
use tombolo_control::{
    Attachment, CapabilityId, ClientMessage, Exit, Extent, Fault, Grant, MonitorMessage, Order, ProgramSpec,
    RelayNode, Reply, Report, Request, Rights, SpawnRequest, StartOrder, Unsendable, Wire, request,
};
use tombolo_link::{ChannelConfig, Side, TransportKind};
use tombolo_naming::Scope;

fn round_trip<M: Wire + PartialEq + std::fmt::Debug>(input: &[u8]) {
    let Ok(message) = M::from_bytes(input) else { return };
    // Parts of the input may overlap; encoded separately they may exceed the maximum length.
    match message.to_bytes() {
        Ok(bytes) => assert_eq!(M::from_bytes(&bytes), Ok(message)),
        Err(Unsendable::TooLong { length_bytes, .. }) => assert!(length_bytes <= 2 * input.len() + 64),
        Err(error) => panic!("{message:?} was read and cannot be written: {error}"),
    }
}

/// Encodes a seed message, which is short enough to be sent.
pub(super) fn bytes(message: &impl Wire) -> Vec<u8> {
    message.to_bytes().unwrap_or_default()
}

pub(super) fn client(input: &[u8]) {
    round_trip::<ClientMessage>(input);
}

pub(super) fn monitor(input: &[u8]) {
    round_trip::<MonitorMessage>(input);
    // The text of a fault contains strings written by the other side.
    if let Ok(MonitorMessage { body: Reply::Failed { fault }, .. }) = MonitorMessage::from_bytes(input) {
        assert!(fault.to_string().len() < 100_000);
    }
}

pub(super) fn order(input: &[u8]) {
    round_trip::<Order>(input);
}

pub(super) fn report(input: &[u8]) {
    round_trip::<Report>(input);
}

fn domain() -> DomainId {
    DomainId::new(NodeId(1), std::num::NonZeroU16::MIN, 7)
}

pub(super) fn spawn() -> SpawnRequest {
    let program = ProgramSpec {
        arguments: vec!["one".into(), "two".into()],
        environment: vec![("KEY".into(), "value".into())],
        directory: "/".into(),
        stdin: true,
        side: Some("SIDE_FD".into()),
        ..ProgramSpec::new("a.tbi")
    };
    let given = GivenCapability {
        name: "buffers".into(),
        capability: CapabilityId(7),
        extent: Some(Extent::new(4096, 8192)),
        rights: Rights::READ,
    };
    SpawnRequest { node: "arm0".into(), own_image: true, program, given: vec![given] }
}

pub(super) fn requests() -> Vec<Request> {
    let config = ChannelConfig::default();
    vec![
        Request::Attach { version: tombolo_control::FINGERPRINT, program: "fuzz".into() },
        Request::Export { scope: Scope::Own, name: "pong".into() },
        Request::Withdraw { listener: 1 },
        Request::Connect {
            scope: Scope::Machine,
            name: "pong".into(),
            timeout: Duration::from_secs(1),
            config,
            by: Some(CapabilityId(7)),
        },
        Request::Spawn { spawn: spawn() },
        Request::Kill { domain: domain(), signal: 15, grace: Duration::from_secs(1) },
        Request::Domains { after: 0 },
        Request::Nodes { from: 0 },
        Request::ConsoleOpen { node: "arm0".into() },
        Request::ConsoleInput { node: "arm0".into(), bytes: b"ls\n".to_vec() },
        Request::ConsoleTaken { node: "arm0".into(), bytes: 3 },
        Request::OutputTaken { domain: domain(), stream: 1, bytes: 10 },
        Request::Input { domain: domain(), stream: 0, bytes: vec![1, 2, 3] },
        Request::Restart { node: "arm0".into(), force: true },
        Request::Accepted { count: 1 },
        Request::Given { name: "buffers".into() },
        Request::CapabilitySplit {
            capability: CapabilityId(7),
            kind: Kind::Pool,
            parts: vec![Extent::new(0, 4096), Extent::new(8192, 4096)],
        },
        Request::ServiceCreate { listener: Some(3) },
    ]
}

pub(super) fn client_seeds() -> Vec<Vec<u8>> {
    requests().into_iter().map(|body| bytes(&ClientMessage { request: 9, body })).collect()
}

pub(super) fn monitor_seeds() -> Vec<Vec<u8>> {
    let grant = Grant {
        channel: ChannelId(3),
        side: Side::B,
        peer: domain(),
        peer_node: "arm0".into(),
        transport: TransportKind::Shm,
        config: ChannelConfig::default(),
        window: None,
        hop: ChannelId(4),
        via: vec![RelayNode { node: tombolo_base::NodeId(0), name: "host".into() }],
    };
    let fault = Fault::NoSuchNode { name: "mars".into(), available: vec!["host".into(), "arm0".into()] };
    let bodies = [
        Reply::Failed { fault },
        Reply::Done,
        Reply::Attach { domain: domain(), node: "host".into(), machine: "duo".into(), spawned: true },
        Reply::Connect { grant: grant.clone() },
        Reply::Incoming { listener: 1, grant },
        Reply::Output { domain: domain(), stream: 2, bytes: vec![7; 20] },
        Reply::Ended { domain: domain(), exit: Exit::NodeLost { cause: "gone".into() } },
    ];
    // Replies that fit several calls answer one of them here.
    let asked = |body: &Reply| match body {
        Reply::Failed { .. } | Reply::Done => request(Request::KILL, 9),
        _ => 9,
    };
    bodies.into_iter().map(|body| bytes(&MonitorMessage { request: asked(&body), body })).collect()
}

pub(super) fn order_seeds() -> Vec<Vec<u8>> {
    let start = StartOrder { domain: domain(), build: [7; 32], program: spawn().program };
    let orders = [
        Order::Program { hash: [7; 32], length_bytes: 1000, window_offset_bytes: Some(4096), stream: None },
        Order::Start { order: start },
        Order::Deliver {
            connection: 1,
            channel: ChannelId(3),
            attachments: vec![Attachment::Lifeline, Attachment::Interrupt { vector: 3, window: 1 }],
            message: vec![1, 2, 3],
        },
        Order::Stop,
    ];
    orders.iter().map(bytes).collect()
}

pub(super) fn reports() -> Vec<Report> {
    let version = tombolo_control::FINGERPRINT;
    vec![
        Report::Ready { version, isa: Isa::Aarch64, cores: 1, pid: 1 },
        Report::Joined { connection: 1, pid: 55, domain: None },
        Report::Left { connection: 1 },
        Report::Started { domain: domain(), pid: 55 },
        Report::NotStarted { domain: domain(), why: "no".into() },
        Report::Ended { domain: domain(), exit: Exit::Signalled { signal: 9 } },
        Report::Output { domain: domain(), stream: 1, bytes: vec![1; 10] },
        Report::ProgramTaken { hash: [7; 32] },
        Report::Released { channel: ChannelId(1) },
        Report::InputTaken { domain: domain(), stream: 3 },
    ]
}

pub(super) fn report_seeds() -> Vec<Vec<u8>> {
    reports().iter().map(bytes).collect()
}
