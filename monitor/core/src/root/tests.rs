//! The machine's decisions, driven by reports and time alone.

use std::time::Duration;

use tombolo_base::{Isa, NodeId};
use tombolo_control::FINGERPRINT;
use tombolo_control::monitor::GivenCapability;
use tombolo_control::{
    Attachment, ClientMessage, Exit, Fault, MonitorMessage, Order, ProgramSpec, Reply, Report, Request,
    SpawnRequest, StartOrder, Wire,
};
use tombolo_link::{ChannelConfig, TransportKind};
use tombolo_machine::Machine;
use tombolo_naming::Scope;

use super::{ClientId, Core, Effect, Resource};

mod attached;
mod facts;
mod link_streams;
mod names;
mod observing;
pub(super) mod regions;
mod relays;
mod resource_counts;
mod services;
mod start_capabilities;
mod steering;
mod streams;
mod traces;
mod windows;

const MACHINE: &str = r#"
name = "test"
[[node]]
name = "host"
kind = "host"
[[node]]
name = "arm0"
kind = "vm"
isa = "aarch64"
[[node]]
name = "arm1"
kind = "vm"
isa = "aarch64"
"#;

pub(super) const HOST: NodeId = NodeId(0);
pub(super) const ARM0: NodeId = NodeId(1);
pub(super) const ARM1: NodeId = NodeId(2);
pub(super) const SECOND: u64 = 1_000_000_000;

/// A machine under test, with the messages delivered to each client, and all other orders, in order.
pub(super) struct Bench {
    pub(super) core: Core,
    pub(super) delivered: Vec<(ClientId, MonitorMessage, Vec<Attachment>, Vec<Resource>)>,
    pub(super) orders: Vec<(NodeId, Order)>,
    pub(super) effects: Vec<Effect>,
}

impl Bench {
    /// Returns a machine whose nodes are all up, with windows of 1 MiB and `vectors` doorbells.
    pub(super) fn up(vectors: u16) -> Bench {
        Bench::up_with(vectors, "")
    }

    /// Returns the same with additional text in its machine file.
    pub(super) fn up_with(vectors: u16, more: &str) -> Bench {
        let text = format!("{MACHINE}\n{more}");
        let machine = Machine::parse(&text, std::path::Path::new("test.toml"), Isa::X86_64).unwrap();
        let core = Core::new(machine, 0);
        let mut bench = Bench { core, delivered: vec![], orders: vec![], effects: vec![] };
        bench.core.boot_all(0);
        bench.collect();
        let started = |node: &tombolo_machine::Node| node.as_attached().is_none();
        for node in
            bench.core.machine.nodes().iter().filter(|node| started(node)).cloned().collect::<Vec<_>>()
        {
            bench.core.node_started(node.id, 100, node.is_behind_window().then_some((1 << 20, vectors)));
            let ready = Report::Ready { version: FINGERPRINT, isa: node.isa, cores: 2, pid: 100 };
            bench.report(node.id, ready);
        }
        assert!(bench.core.boot_progress().booting.is_empty());
        bench
    }

    pub(super) fn collect(&mut self) {
        for effect in self.core.take_effects() {
            match effect {
                Effect::Order {
                    node,
                    order: Order::Deliver { connection, attachments, message, .. },
                    passed,
                } => {
                    let message = MonitorMessage::from_bytes(&message).unwrap();
                    self.delivered.push(((node, connection), message, attachments, passed));
                }
                Effect::Order { node, order, .. } => self.orders.push((node, order)),
                other => self.effects.push(other),
            }
        }
    }

    pub(super) fn report(&mut self, node: NodeId, report: Report) {
        self.core.report(0, node, report, None);
        self.collect();
    }

    pub(super) fn attach(&mut self, client: ClientId) -> tombolo_base::DomainId {
        let (node, connection) = client;
        self.report(node, Report::Joined { connection, pid: 7, domain: None });
        let attach = Request::Attach { version: FINGERPRINT, program: "test".into() };
        match self.ask(client, attach) {
            Some(Reply::Attach { domain, spawned: false, .. }) => domain,
            other => panic!("{other:?}"),
        }
    }

    /// Sends a request and returns the immediate answer, if any.
    pub(super) fn ask(&mut self, client: ClientId, body: Request) -> Option<Reply> {
        let message = ClientMessage { request: 9, body }.to_bytes().unwrap();
        self.delivered.clear();
        self.report(client.0, Report::Asked { connection: client.1, message });
        self.answer(client)
    }

    pub(super) fn answer(&self, client: ClientId) -> Option<Reply> {
        let of =
            |(to, message, ..): &&(ClientId, MonitorMessage, _, _)| *to == client && message.number() == 9;
        self.delivered.iter().find(of).map(|(_, message, ..)| message.body.clone())
    }

    pub(super) fn export(&mut self, client: ClientId, name: &str) -> Option<Reply> {
        self.ask(client, Request::Export { scope: Scope::Machine, name: name.into() })
    }

    pub(super) fn connect(&mut self, client: ClientId, name: &str) -> Option<Reply> {
        let timeout = Duration::from_secs(1);
        self.connect_in(client, Scope::Machine, name, timeout)
    }

    pub(super) fn connect_in(
        &mut self,
        client: ClientId,
        scope: Scope,
        name: &str,
        timeout: Duration,
    ) -> Option<Reply> {
        let config = ChannelConfig::default();
        self.ask(client, Request::Connect { scope, name: name.into(), timeout, config, by: None })
    }

    pub(super) fn spawn(&mut self, client: ClientId, node: &str) -> Option<Reply> {
        let spawn = SpawnRequest {
            node: node.into(),
            own_image: true,
            program: ProgramSpec::new(""),
            given: Vec::new(),
        };
        self.ask(client, Request::Spawn { spawn })
    }
}

#[test]
fn name_has_one_owner_and_ends_with_it() {
    let mut bench = Bench::up(4);
    let owner = bench.attach((HOST, 1));
    bench.attach((ARM0, 1));
    assert_eq!(bench.export((HOST, 1), "pong"), Some(Reply::Export { listener: 1 }));
    let taken = Fault::NameTaken { name: "pong".into(), owner };
    assert_eq!(bench.export((ARM0, 1), "pong"), Some(Reply::Failed { fault: taken }));
    let bad = Fault::BadName { name: "no spaces".into() };
    assert_eq!(bench.export((ARM0, 1), "no spaces"), Some(Reply::Failed { fault: bad }));
    bench.report(HOST, Report::Left { connection: 1 });
    assert_eq!(bench.export((ARM0, 1), "pong"), Some(Reply::Export { listener: 1 }));
}

#[test]
fn request_before_attaching_is_refused() {
    let mut bench = Bench::up(4);
    bench.report(HOST, Report::Joined { connection: 1, pid: 7, domain: None });
    assert!(matches!(
        bench.ask((HOST, 1), Request::Nodes { from: 0 }),
        Some(Reply::Failed { fault: Fault::Refused { .. } })
    ));
    let old = Request::Attach { version: 999, program: String::new() };
    assert!(matches!(bench.ask((HOST, 1), old), Some(Reply::Failed { fault: Fault::Refused { .. } })));
}

#[test]
fn maximum_number_of_nodes_is_listed_in_pages() {
    let count = tombolo_machine::file::MAX_NODES;
    let nodes: String = (3..count)
        .map(|number| format!("[[node]]\nname = \"n{number}\"\nkind = \"vm\"\nisa = \"aarch64\"\n"))
        .collect();
    let mut bench = Bench::up_with(2, &nodes);
    bench.attach((HOST, 1));
    // Long causes are truncated to their share.
    (3..40).for_each(|number| bench.core.node_lost(NodeId(number), &"why ".repeat(5000)));
    bench.collect();
    let mut all = Vec::new();
    loop {
        let Some(Reply::Nodes { nodes, more }) =
            bench.ask((HOST, 1), Request::Nodes { from: all.len() as u32 })
        else {
            panic!("{:?}", bench.delivered)
        };
        let page = MonitorMessage { request: 9 | 8 << 24, body: Reply::Nodes { nodes: nodes.clone(), more } };
        assert!(!nodes.is_empty() && page.to_bytes().is_ok());
        all.extend(nodes.into_iter().map(|node| node.id.0));
        if !more {
            break;
        }
    }
    assert_eq!(all, (0..count as u16).collect::<Vec<u16>>());
    let unknown = bench.ask((HOST, 1), Request::Restart { node: "mars".into(), force: false });
    assert!(matches!(unknown, Some(Reply::Failed { fault: Fault::NoSuchNode { .. } })), "{unknown:?}");
}

#[test]
fn connection_waits_for_its_name_and_times_out() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    bench.attach((HOST, 2));
    assert_eq!(bench.connect((HOST, 1), "late"), None);
    bench.export((HOST, 2), "late");
    assert!(matches!(bench.answer((HOST, 1)), Some(Reply::Connect { .. })));
    assert_eq!(bench.connect((HOST, 1), "never"), None);
    assert_eq!(bench.core.next_tick(), Some(SECOND));
    bench.core.tick(SECOND);
    bench.collect();
    let fault = Fault::NoSuchName { name: "never".into() };
    assert_eq!(bench.answer((HOST, 1)), Some(Reply::Failed { fault }));
    assert_eq!(bench.core.next_tick(), None);
}

#[test]
fn two_domains_of_one_virtual_machine_are_joined_by_its_own_agent() {
    let mut bench = Bench::up(4);
    bench.attach((ARM0, 1));
    bench.attach((ARM0, 2));
    bench.export((ARM0, 1), "pong");
    assert!(matches!(bench.connect((ARM0, 2), "pong"), Some(Reply::Connect { .. })));
    for (_, _, attachments, passed) in &bench.delivered {
        assert!(matches!(attachments[..], [Attachment::PairEnd { stream: false, .. }]) && passed.is_empty());
    }
}

/// Returns an image with a build for the virtual machines alone.
fn image() -> tombolo_machine::Image {
    // An executable's header with one loadable segment.
    let mut elf = vec![0; 64 + 56];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    for (offset, value) in [(16, 2), (18, 183), (20, 1), (32, 64), (52, 64), (54, 56), (56, 1), (64, 1)] {
        elf[offset] = value;
    }
    tombolo_machine::Image::from_bytes("test", elf).unwrap()
}

/// Starts a domain on arm0 for a client and returns its id.
pub(super) fn start(bench: &mut Bench, client: ClientId) -> tombolo_base::DomainId {
    start_at(bench, 0, client)
}

fn start_at(bench: &mut Bench, now: u64, client: ClientId) -> tombolo_base::DomainId {
    let domain = order_start_at(bench, now, client, image()).domain;
    bench.report_at(now, ARM0, Report::Started { domain, pid: 55 });
    assert_eq!(bench.answer(client), Some(Reply::Spawn { domain }));
    domain
}

/// Returns the start order that the agent gets when a client requests a domain.
fn order_start(bench: &mut Bench, client: ClientId) -> StartOrder {
    order_start_at(bench, 0, client, image())
}

pub(super) fn order_start_giving(
    bench: &mut Bench,
    client: ClientId,
    given: Vec<GivenCapability>,
) -> Option<StartOrder> {
    let program = ProgramSpec::new("test.tbi");
    let spawn = SpawnRequest { node: "arm0".into(), own_image: false, program, given };
    let message = ClientMessage { request: 9, body: Request::Spawn { spawn } }.to_bytes().unwrap();
    bench.delivered.clear();
    let before = bench.orders.len();
    bench.core.report(0, client.0, Report::Asked { connection: client.1, message }, Some(Ok(image())));
    bench.collect();
    bench.orders[before..].iter().find_map(|(_, order)| match order {
        Order::Start { order } => Some(order.clone()),
        _ => None,
    })
}

fn order_start_at(
    bench: &mut Bench,
    now: u64,
    client: ClientId,
    image: tombolo_machine::Image,
) -> StartOrder {
    let spawn = Request::Spawn {
        spawn: SpawnRequest {
            node: "arm0".into(),
            own_image: false,
            program: ProgramSpec::new("test.tbi"),
            given: Vec::new(),
        },
    };
    let message = ClientMessage { request: 9, body: spawn }.to_bytes().unwrap();
    let report = Report::Asked { connection: client.1, message };
    bench.delivered.clear();
    bench.core.report(now, client.0, report, Some(Ok(image)));
    bench.collect();
    let Some((ARM0, Order::Start { order })) = bench.orders.last() else { panic!("{:?}", bench.delivered) };
    order.clone()
}

#[test]
fn program_is_sent_once_through_the_window() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    start(&mut bench, (HOST, 1));
    let program = |order: &Order| match order {
        Order::Program { hash, window_offset_bytes: Some(_), .. } => Some(*hash),
        _ => None,
    };
    let sent: Vec<_> = bench.orders.iter().filter_map(|(_, order)| program(order)).collect();
    assert_eq!(sent.len(), 1);
    assert!(bench.effects.iter().any(|effect| matches!(effect, Effect::WriteProgram { node: ARM0, .. })));
    bench.report(ARM0, Report::ProgramTaken { hash: sent[0] });
    start(&mut bench, (HOST, 1));
    assert_eq!(bench.orders.iter().filter_map(|(_, order)| program(order)).count(), 1);
}

#[test]
fn missing_build_lists_available_targets() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let parent = start(&mut bench, (HOST, 1));
    bench.report(ARM0, Report::Joined { connection: 5, pid: 55, domain: Some(parent) });
    let attach = Request::Attach { version: FINGERPRINT, program: String::new() };
    assert!(matches!(bench.ask((ARM0, 5), attach), Some(Reply::Attach { spawned: true, .. })));
    let fault = match bench.spawn((ARM0, 5), "host") {
        Some(Reply::Failed { fault }) => fault,
        other => panic!("{other:?}"),
    };
    assert!(
        matches!(&fault, Fault::NoBuildForIsa { isa, available, .. } if *isa == Isa::X86_64.into() && available[..] == [Isa::Aarch64.into()])
    );
    // Its own image suffices for a node like its own.
    assert_eq!(bench.spawn((ARM0, 5), "arm1"), None);
    assert!(matches!(bench.orders.last(), Some((ARM1, Order::Start { .. }))));
}

#[test]
fn domain_is_killed_with_its_parent() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let domain = start(&mut bench, (HOST, 1));
    bench.report(HOST, Report::Left { connection: 1 });
    assert!(bench.orders.contains(&(ARM0, Order::Signal { domain, signal: 9 })));
}

#[test]
fn replies_to_a_lost_client_never_reach_its_successor() {
    let comes_back = |bench: &mut Bench, node| {
        bench.core.node_started(node, 101, Some((1 << 20, 4)));
        bench.report(node, Report::Ready { version: FINGERPRINT, isa: Isa::Aarch64, cores: 1, pid: 1 });
    };
    let is_replaced = |bench: &mut Bench| {
        bench.core.node_lost(ARM1, "gone");
        bench.ask((HOST, 1), Request::Restart { node: "arm1".into(), force: false });
        comes_back(bench, ARM1);
        bench.attach((ARM1, 1));
        bench.delivered.clear();
    };
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    bench.attach((ARM1, 1));
    let domain = start(&mut bench, (HOST, 1));
    assert_eq!(bench.ask((ARM1, 1), Request::Input { domain, stream: 0, bytes: vec![1] }), None);
    is_replaced(&mut bench);
    bench.report(ARM0, Report::InputTaken { domain, stream: 0 });
    assert_eq!(bench.answer((ARM1, 1)), None);

    bench.core.node_lost(ARM0, "gone");
    assert_eq!(bench.ask((ARM1, 1), Request::Restart { node: "arm0".into(), force: false }), None);
    is_replaced(&mut bench);
    comes_back(&mut bench, ARM0);
    assert_eq!(bench.answer((ARM1, 1)), None);

    // Nor do children of the first: one that has not started yet, and one that has.
    for starts in [false, true] {
        let domain = order_start(&mut bench, (ARM1, 1)).domain;
        if starts {
            bench.report(ARM0, Report::Started { domain, pid: 55 });
        }
        is_replaced(&mut bench);
        assert!(bench.orders.contains(&(ARM0, Order::Signal { domain, signal: 9 })));
        bench.report(ARM0, Report::Output { domain, stream: 1, bytes: vec![1] });
        bench.report(ARM0, Report::Ended { domain, exit: Exit::Signalled { signal: 9 } });
        let delivered: Vec<_> = bench.delivered.iter().filter(|(to, ..)| *to == (ARM1, 1)).collect();
        assert!(
            delivered.iter().all(|(_, message, ..)| matches!(message.body, Reply::Attach { .. })),
            "{delivered:?}"
        );
    }

    // Nor does memory that was being created for it.
    for lost in [false, true] {
        bench.orders.clear();
        let create = Request::RegionCreate { place: regions::in_memory_of("arm0"), length_bytes: 1 };
        assert_eq!(bench.ask((ARM1, 1), create), None);
        let Some((ARM0, Order::RegionMake { region, .. })) = bench.orders.pop() else { panic!("no order") };
        is_replaced(&mut bench);
        match lost {
            true => bench.core.node_lost(ARM0, "gone"),
            false => {
                let failed = Some("out of memory".into());
                bench.core.report(0, ARM0, Report::RegionMade { region, failed, read_only: false }, None);
            }
        }
        bench.collect();
        assert_eq!(bench.answer((ARM1, 1)), None);
    }
}

#[test]
fn domain_ignoring_a_signal_is_killed_after_grace() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let domain = start(&mut bench, (HOST, 1));
    let kill = Request::Kill { domain, signal: 15, grace: Duration::from_secs(2) };
    assert_eq!(bench.ask((HOST, 1), kill), Some(Reply::Done));
    assert_eq!(bench.orders.last(), Some(&(ARM0, Order::Signal { domain, signal: 15 })));
    bench.core.tick(2 * SECOND);
    bench.collect();
    assert_eq!(bench.orders.last(), Some(&(ARM0, Order::Signal { domain, signal: 9 })));
    bench.report(ARM0, Report::Ended { domain, exit: Exit::Signalled { signal: 9 } });
    assert_eq!(bench.core.next_tick(), None);
    let again = Request::Kill { domain, signal: 9, grace: Duration::ZERO };
    let fault = Fault::NoSuchDomain { domain };
    assert_eq!(bench.ask((HOST, 1), again), Some(Reply::Failed { fault }));
}

#[test]
fn a_lost_node_takes_its_domains_and_hangs_up_its_channels() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let domain = start(&mut bench, (HOST, 1));
    bench.report(ARM0, Report::Joined { connection: 5, pid: 55, domain: Some(domain) });
    bench.ask((ARM0, 5), Request::Attach { version: FINGERPRINT, program: String::new() });
    bench.export((HOST, 1), "pong");
    let Some(Reply::Connect { grant }) = bench.connect((ARM0, 5), "pong") else { panic!() };
    bench.delivered.clear();
    bench.core.node_lost(ARM0, "its process was ended by signal 9");
    bench.collect();
    assert!(bench.orders.contains(&(HOST, Order::HangUp { channel: grant.channel })));
    let ended = bench.delivered.iter().any(|(client, message, ..)| {
        *client == (HOST, 1)
            && matches!(&message.body, Reply::Ended { domain: who, exit: Exit::NodeLost { .. } } if *who == domain)
    });
    assert!(ended);
    assert!(matches!(bench.spawn((HOST, 1), "arm0"), Some(Reply::Failed { fault: Fault::NodeDown { .. } })));
}

#[test]
fn a_restarted_node_has_a_new_generation_and_its_old_ids_are_refused() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let old = start(&mut bench, (HOST, 1));
    let restart = || Request::Restart { node: "arm0".into(), force: false };
    assert!(matches!(bench.ask((HOST, 1), restart()), Some(Reply::Failed { .. })), "it is up");
    bench.core.node_lost(ARM0, "gone");
    bench.collect();
    assert_eq!(bench.ask((HOST, 1), restart()), None);
    bench.core.node_started(ARM0, 101, Some((1 << 20, 4)));
    bench.report(ARM0, Report::Ready { version: FINGERPRINT, isa: Isa::Aarch64, cores: 1, pid: 1 });
    assert_eq!(bench.answer((HOST, 1)), Some(Reply::Done));
    let new = start(&mut bench, (HOST, 1));
    assert_eq!((old.generation().get(), new.generation().get(), old.index(), new.index()), (1, 2, 1, 1));
    let kill = Request::Kill { domain: old, signal: 9, grace: Duration::ZERO };
    assert!(matches!(bench.ask((HOST, 1), kill), Some(Reply::Failed { .. })));
}

#[test]
fn running_node_is_restarted_only_by_force() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let victim = start(&mut bench, (HOST, 1));
    let restart = |node: &str, force| Request::Restart { node: node.into(), force };
    let refused = |reply: Option<Reply>| match reply {
        Some(Reply::Failed { fault: Fault::Refused { why } }) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(bench.ask((HOST, 1), restart("arm0", false))).contains("node arm0 is up"));
    assert!(refused(bench.ask((HOST, 1), restart("host", true))).contains("is the host"));
    bench.effects.clear();
    assert_eq!(bench.ask((HOST, 1), restart("arm0", true)), None);
    let done: Vec<bool> = bench
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Destroy { node: ARM0 } => Some(false),
            Effect::Boot { node: ARM0, generation } => Some(generation.get() == 2),
            _ => None,
        })
        .collect();
    assert_eq!(done, [false, true], "it ends before it starts");
    assert!(!bench.core.is_alive(victim));
    assert!(refused(bench.ask((HOST, 1), restart("arm0", false))).contains("node arm0 is starting"));
    // A node that hangs while it starts is also stopped, and the waiting client is notified.
    bench.attach((HOST, 2));
    bench.delivered.clear();
    let message = ClientMessage { request: 9, body: restart("arm0", true) }.to_bytes().unwrap();
    bench.report(HOST, Report::Asked { connection: 2, message });
    assert!(matches!(bench.answer((HOST, 1)), Some(Reply::Failed { fault: Fault::NodeDown { .. } })));
    bench.core.node_started(ARM0, 101, Some((1 << 20, 4)));
    bench.report(ARM0, Report::Ready { version: FINGERPRINT, isa: Isa::Aarch64, cores: 1, pid: 1 });
    assert_eq!(bench.answer((HOST, 2)), Some(Reply::Done));
}

#[test]
fn incompatible_protocol_is_refused_with_fingerprints() {
    let mut bench = Bench::up(4);
    let other = FINGERPRINT ^ 1;
    bench.report(HOST, Report::Joined { connection: 1, pid: 7, domain: None });
    let answer = bench.ask((HOST, 1), Request::Attach { version: other, program: "old".into() });
    let Some(Reply::Failed { fault: Fault::Refused { why } }) = answer else { panic!("{answer:?}") };
    for fingerprint in [other, FINGERPRINT] {
        assert!(why.contains(&format!("{fingerprint:08x}")), "{why}");
    }
    assert!(matches!(bench.attach((HOST, 2)).node(), HOST), "others are served");
    bench.core.node_lost(ARM0, "gone");
    bench.collect();
    assert_eq!(bench.ask((HOST, 2), Request::Restart { node: "arm0".into(), force: false }), None);
    bench.core.node_started(ARM0, 101, Some((1 << 20, 4)));
    bench.report(ARM0, Report::Ready { version: other, isa: Isa::Aarch64, cores: 1, pid: 1 });
    let answer = bench.answer((HOST, 2));
    let Some(Reply::Failed { fault: Fault::NodeDown { node, cause } }) = answer else { panic!("{answer:?}") };
    assert_eq!(node, "arm0");
    for fingerprint in [other, FINGERPRINT] {
        assert!(cause.contains(&format!("{fingerprint:08x}")), "{cause}");
    }
}

#[test]
fn node_that_never_reports_times_out() {
    let machine = Machine::parse(MACHINE, std::path::Path::new("test.toml"), Isa::X86_64).unwrap();
    let mut core = Core::new(machine, 0);
    core.boot_all(0);
    core.take_effects();
    let due = core.next_tick().unwrap();
    core.tick(due - 1);
    assert!(core.boot_progress().down.is_empty());
    core.tick(due);
    assert_eq!(core.boot_progress().down.len(), 3);
    assert!(core.take_effects().iter().any(|effect| matches!(effect, Effect::Destroy { node: ARM0 })));
}

#[test]
fn slow_console_viewer_learns_what_it_lost() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    bench.core.console_output(ARM0, b"first\n");
    assert_eq!(bench.ask((HOST, 1), Request::ConsoleOpen { node: "arm0".into() }), Some(Reply::Done));
    let shown = |bench: &Bench| {
        let total = |sum: (u64, usize), message: &MonitorMessage| match &message.body {
            Reply::Console { dropped, bytes, .. } => (sum.0 + dropped, sum.1 + bytes.len()),
            _ => sum,
        };
        bench.delivered.iter().map(|(_, message, ..)| message).fold((0, 0), total)
    };
    assert_eq!(shown(&bench), (0, 6));
    let printed = 2 * super::console::RETAINED_BYTES;
    for _ in 0..printed / 1024 {
        bench.core.console_output(ARM0, &[b'x'; 1024]);
        bench.collect();
    }
    loop {
        let (_, before) = shown(&bench);
        let taken = Request::ConsoleTaken { node: "arm0".into(), bytes: 8192 };
        let message = ClientMessage { request: 0, body: taken }.to_bytes().unwrap();
        bench.report(HOST, Report::Asked { connection: 1, message });
        if shown(&bench).1 == before {
            break;
        }
    }
    let (dropped, seen) = shown(&bench);
    assert!(dropped > 0);
    assert_eq!(dropped as usize + seen, printed + 6);
    let fault = bench.ask((HOST, 1), Request::ConsoleOpen { node: "host".into() });
    assert!(matches!(fault, Some(Reply::Failed { fault: Fault::Refused { .. } })));
}

#[test]
fn invalid_message_ends_its_connection() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    bench.report(HOST, Report::Asked { connection: 1, message: vec![255; 40] });
    assert!(bench.orders.contains(&(HOST, Order::Dismiss { connection: 1 })));
}

#[test]
fn late_console_viewer_learns_what_was_dropped() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let forgotten = 1000;
    bench.core.console_output(ARM0, &vec![b'x'; super::console::RETAINED_BYTES + forgotten]);
    bench.ask((HOST, 1), Request::ConsoleOpen { node: "arm0".into() });
    let dropped = bench.delivered.iter().find_map(|(_, message, ..)| match message.body {
        Reply::Console { dropped, .. } => Some(dropped),
        _ => None,
    });
    assert_eq!(dropped, Some(forgotten as u64));
}

#[test]
fn report_about_another_nodes_domain_is_ignored() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let domain = start(&mut bench, (HOST, 1));
    bench.delivered.clear();
    bench.report(ARM1, Report::Ended { domain, exit: Exit::Exited { status: 0 } });
    bench.report(ARM1, Report::Output { domain, stream: 1, bytes: b"x".to_vec() });
    bench.report(ARM1, Report::Joined { connection: 1, pid: 1, domain: Some(domain) });
    let attach = Request::Attach { version: FINGERPRINT, program: String::new() };
    assert_eq!(bench.ask((ARM1, 1), attach), None);
    assert!(bench.delivered.is_empty());
    bench.report(ARM0, Report::Ended { domain, exit: Exit::Exited { status: 0 } });
    assert!(matches!(bench.delivered[..], [(_, MonitorMessage { body: Reply::Ended { .. }, .. }, ..)]));
}

#[test]
fn program_is_resent_after_a_failed_start() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let lost = start(&mut bench, (HOST, 1));
    bench.report(ARM0, Report::NotStarted { domain: lost, why: "it did not arrive".into() });
    start(&mut bench, (HOST, 1));
    let programs = bench.orders.iter().filter(|(_, order)| matches!(order, Order::Program { .. }));
    assert_eq!(programs.count(), 2);
}

#[test]
fn node_forgets_a_program_after_a_failed_start() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let first = order_start(&mut bench, (HOST, 1)).domain;
    let second = order_start(&mut bench, (HOST, 1)).domain;
    bench.orders.clear();
    bench.report(ARM0, Report::NotStarted { domain: first, why: "no processes are left".into() });
    assert!(matches!(bench.orders[..], [(ARM0, Order::Forget { .. })]), "{:?}", bench.orders);
    // It is forgotten only once.
    bench.report(ARM0, Report::NotStarted { domain: second, why: "no processes are left".into() });
    assert_eq!(bench.orders.len(), 1, "{:?}", bench.orders);
}

#[test]
fn a_program_that_cannot_be_passed_fails_the_start_with_the_reason() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    start(&mut bench, (HOST, 1));
    let StartOrder { domain, build, .. } = order_start(&mut bench, (HOST, 1));
    let why = "cannot keep a program in memory: full";
    bench.core.program_store_failed(ARM1, build, why);
    bench.core.program_store_failed(ARM0, build, why);
    bench.collect();
    let answers: Vec<_> = bench.delivered.iter().map(|(_, message, ..)| &message.body).collect();
    let [Reply::Failed { fault: Fault::StartFailed { node, why: said } }] = answers[..] else {
        panic!("{answers:?} in place of a failed start")
    };
    assert_eq!((node.as_str(), said.as_str()), ("arm0", why));
    // The agent reports it too, later.
    bench.report(ARM0, Report::NotStarted { domain, why: "it was not sent".into() });
    assert_eq!(bench.delivered.len(), 1);
}

#[test]
fn program_in_flight_twice_frees_both_ranges() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    // Each start fails, so that the program counts as absent before the agent has reported copying it.
    let send = |bench: &mut Bench| {
        let lost = start(bench, (HOST, 1));
        bench.report(ARM0, Report::NotStarted { domain: lost, why: "it did not arrive".into() });
        let sent = bench.orders.iter().rev().find_map(|(_, order)| match order {
            Order::Program { hash, window_offset_bytes: Some(offset), .. } => Some((*hash, *offset)),
            _ => None,
        });
        sent.expect("it was sent")
    };
    let (hash, first) = send(&mut bench);
    let (_, second) = send(&mut bench);
    assert_ne!(first, second, "one is copied while the other is written");
    bench.report(ARM0, Report::ProgramTaken { hash });
    assert_eq!(send(&mut bench), (hash, first), "what was sent first was taken first");
    (0..2).for_each(|_| bench.report(ARM0, Report::ProgramTaken { hash }));
    assert_eq!(send(&mut bench), (hash, first), "both came back");
}

#[test]
fn fault_text_is_truncated_to_the_message_size() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let node = "x".repeat(tombolo_control::records::MAX_GIVEN_NAME as usize);
    let requests = [
        Request::Restart { node: node.clone(), force: false },
        Request::ConsoleOpen { node: node.clone() },
        Request::Export { scope: Scope::Machine, name: node.clone() },
    ];
    let mut replies: Vec<_> = requests.into_iter().map(|request| bench.ask((HOST, 1), request)).collect();
    replies.push(bench.spawn((HOST, 1), &node));
    for reply in replies {
        assert!(
            matches!(&reply, Some(Reply::Failed { fault }) if fault.to_string().len() < 1000),
            "{reply:?}"
        );
    }
}

#[test]
fn child_that_ended_before_attaching_is_refused() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let domain = start(&mut bench, (HOST, 1));
    bench.report(ARM0, Report::Joined { connection: 5, pid: 55, domain: Some(domain) });
    bench.report(ARM0, Report::Ended { domain, exit: Exit::Signalled { signal: 9 } });
    let attach = Request::Attach { version: FINGERPRINT, program: String::new() };
    let fault = Fault::NoSuchDomain { domain };
    assert_eq!(bench.ask((ARM0, 5), attach), Some(Reply::Failed { fault }));
    bench.report(ARM0, Report::Left { connection: 5 });
    let Some(Reply::Domains { domains, .. }) = bench.ask((HOST, 1), Request::Domains { after: 0 }) else {
        panic!()
    };
    assert_eq!(domains.len(), 1, "only who asks is left: {domains:?}");
}

#[test]
fn late_request_of_a_dead_domain_opens_nothing() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let domain = start(&mut bench, (HOST, 1));
    bench.report(ARM0, Report::Joined { connection: 5, pid: 55, domain: Some(domain) });
    let attach = Request::Attach { version: FINGERPRINT, program: String::new() };
    assert!(matches!(bench.ask((ARM0, 5), attach), Some(Reply::Attach { spawned: true, .. })));
    assert_eq!(bench.connect((ARM0, 5), "late"), None);
    bench.report(ARM0, Report::Ended { domain, exit: Exit::Signalled { signal: 9 } });
    // Its connection still exists when the name appears, and so may a late message.
    assert_eq!(bench.export((HOST, 1), "late"), Some(Reply::Export { listener: 1 }));
    let incoming = |bench: &Bench| {
        bench.delivered.iter().any(|(_, message, ..)| matches!(message.body, Reply::Incoming { .. }))
    };
    assert!(!incoming(&bench));
    assert_eq!(bench.connect((ARM0, 5), "late"), None);
    assert!(!incoming(&bench) && bench.core.next_tick().is_none());
    assert_eq!(bench.export((ARM0, 5), "of the dead"), None);
}

#[test]
fn clock_going_back_during_boot_is_tolerated() {
    let machine = Machine::parse(MACHINE, std::path::Path::new("test.toml"), Isa::X86_64).unwrap();
    let mut core = Core::new(machine, SECOND);
    core.boot_all(SECOND);
    core.report(0, HOST, Report::Ready { version: FINGERPRINT, isa: Isa::X86_64, cores: 1, pid: 1 }, None);
    let up = core.boot_progress().up;
    assert_eq!((up.len(), up[0].boot), (1, Duration::ZERO));
}
