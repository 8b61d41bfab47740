//! Channels between nodes without a link.

use std::time::Duration;

use tombolo_base::{ChannelId, DomainId, NodeId, WindowId};
use tombolo_control::{
    Exit, FINGERPRINT, Fault, Grant, OWN_PROGRAM, Order, Reply, Report, Request, StartOrder,
};
use tombolo_link::{Side, TransportKind};
use tombolo_naming::Scope;

use super::{ARM0, ARM1, Bench, HOST, SECOND};
use crate::root::Resource;

/// Connection number of the relay.
const RELAY: u32 = 50;

/// Returns the relay that the root has ordered last, on the host.
fn last_ordered_relay(bench: &Bench) -> DomainId {
    let started = bench.orders.iter().rev().find_map(|order| match order {
        (HOST, Order::Start { order: StartOrder { domain, build: OWN_PROGRAM, program } }) => {
            assert_eq!(program.arguments, ["relay"]);
            Some(*domain)
        }
        _ => None,
    });
    started.expect("a relay was started")
}

/// Starts and attaches the process of a relay.
fn attach_relay(bench: &mut Bench, connection: u32, domain: DomainId) {
    bench.report(HOST, Report::Started { domain, pid: 77 });
    bench.report(HOST, Report::Joined { connection, pid: 77, domain: Some(domain) });
    let attach = Request::Attach { version: FINGERPRINT, program: "tombolod".into() };
    assert!(matches!(
        bench.ask((HOST, connection), attach),
        Some(Reply::Attach { domain: own, spawned: true, .. }) if own == domain
    ));
}

fn two_arms() -> (Bench, DomainId, DomainId) {
    let mut bench = Bench::up(4);
    let (owner, opener) = (bench.attach((ARM0, 1)), bench.attach((ARM1, 1)));
    bench.export((ARM0, 1), "pong");
    (bench, owner, opener)
}

/// Returns the ends granted to the clients of a connection, in order.
fn ends(bench: &Bench, client: (NodeId, u32)) -> Vec<(Grant, Vec<Resource>)> {
    let end = |body: &Reply| match body {
        Reply::Connect { grant } | Reply::Incoming { grant, .. } => Some(grant.clone()),
        _ => None,
    };
    let theirs = bench.delivered.iter().filter(|(to, ..)| *to == client);
    theirs.filter_map(|(_, message, _, passed)| Some((end(&message.body)?, passed.clone()))).collect()
}

fn names(grant: &Grant) -> Vec<&str> {
    grant.via.iter().map(|relay| relay.name.as_str()).collect()
}

#[test]
fn a_channel_between_two_virtual_machines_is_relayed_by_the_host() {
    let (mut bench, owner, opener) = two_arms();
    assert_eq!(bench.connect((ARM1, 1), "pong"), None, "it waits for the relay");
    let relay = last_ordered_relay(&bench);
    attach_relay(&mut bench, RELAY, relay);
    let ready = Request::Export { scope: Scope::Machine, name: "relay".into() };
    assert!(matches!(bench.ask((HOST, RELAY), ready), Some(Reply::Export { .. })));

    let [(connecting, _)] = &ends(&bench, (ARM1, 1))[..] else { panic!("{:?}", bench.delivered) };
    let [(accepting, _)] = &ends(&bench, (ARM0, 1))[..] else { panic!("{:?}", bench.delivered) };
    let relayed = ends(&bench, (HOST, RELAY));
    let [(far, far_passed), (near, near_passed)] = &relayed[..] else { panic!("{relayed:?}") };
    // The ends see each other, and one channel.
    assert_eq!((connecting.side, connecting.peer, connecting.peer_node.as_str()), (Side::A, owner, "arm0"));
    assert_eq!((accepting.side, accepting.peer, accepting.peer_node.as_str()), (Side::B, opener, "arm1"));
    assert_eq!((names(connecting), names(accepting)), (vec!["host"], vec!["host"]));
    // The relay sees on each side the end there, and no relay before it.
    assert_eq!((near.side, near.peer, far.side, far.peer), (Side::B, opener, Side::A, owner));
    assert!(near.via.is_empty() && far.via.is_empty());
    let all = [connecting, accepting, near, far];
    assert!(all.iter().all(|grant| grant.channel == connecting.channel && grant.config == connecting.config));
    assert!(all.iter().all(|grant| grant.transport == TransportKind::Window));
    // Two hops, each in its own window.
    assert_eq!((connecting.hop, accepting.hop), (near.hop, far.hop));
    assert_ne!(near.hop, far.hop);
    assert!(near_passed.contains(&Resource::WindowMemory(WindowId(1))));
    assert!(far_passed.contains(&Resource::WindowMemory(WindowId(0))));

    // The next channel needs no further relay.
    let channel = connecting.channel;
    let starts = bench.orders.len();
    assert!(
        matches!(bench.connect((ARM1, 1), "pong"), Some(Reply::Connect { grant }) if grant.channel != channel)
    );
    assert_eq!(bench.orders.len(), starts);
    // No domain can connect to a relay.
    assert_eq!(bench.connect_in((HOST, RELAY), Scope::Machine, "relay", Duration::ZERO), {
        let fault = Fault::NoSuchName { name: "relay".into() };
        Some(Reply::Failed { fault })
    });
}

fn bench_with_relayed_channel() -> (Bench, DomainId, Grant, Grant) {
    let (mut bench, ..) = two_arms();
    bench.connect((ARM1, 1), "pong");
    let relay = last_ordered_relay(&bench);
    attach_relay(&mut bench, RELAY, relay);
    bench.ask((HOST, RELAY), Request::Export { scope: Scope::Machine, name: "relay".into() });
    let relayed = ends(&bench, (HOST, RELAY));
    let [(far, _), (near, _)] = &relayed[..] else { panic!("{relayed:?}") };
    let (near, far) = (near.clone(), far.clone());
    (bench, relay, near, far)
}

#[test]
fn end_death_hangs_up_its_hop_until_the_relay_releases() {
    let (mut bench, _, near, far) = bench_with_relayed_channel();
    bench.orders.clear();
    bench.report(ARM1, Report::Released { channel: near.hop });
    assert_eq!(bench.orders, [(HOST, Order::HangUp { channel: near.hop })]);
    // The relay has delivered all pending messages.
    bench.report(HOST, Report::Released { channel: near.hop });
    bench.report(HOST, Report::Released { channel: far.hop });
    assert_eq!(bench.orders.last(), Some(&(ARM0, Order::HangUp { channel: far.hop })));
    assert_eq!(bench.core.relays.via(near.channel), [HOST]);
    bench.report(ARM0, Report::Released { channel: far.hop });
    assert!(bench.core.relays.via(near.channel).is_empty());
    assert!(bench.core.channels.is_empty());
}

#[test]
fn relay_death_hangs_up_both_ends_and_next_starts_anew() {
    let (mut bench, relay, near, far) = bench_with_relayed_channel();
    bench.orders.clear();
    for hop in [near.hop, far.hop] {
        bench.report(HOST, Report::Released { channel: hop });
    }
    bench.report(HOST, Report::Ended { domain: relay, exit: Exit::Signalled { signal: 9 } });
    bench.report(HOST, Report::Left { connection: RELAY });
    let hung_up = |node, channel| bench.orders.contains(&(node, Order::HangUp { channel }));
    assert!(hung_up(ARM1, near.hop) && hung_up(ARM0, far.hop));
    assert_eq!(bench.connect((ARM1, 1), "pong"), None);
    let next = last_ordered_relay(&bench);
    assert_ne!(next, relay);
    attach_relay(&mut bench, RELAY + 1, next);
    bench.ask((HOST, RELAY + 1), Request::Export { scope: Scope::Machine, name: "relay".into() });
    assert!(matches!(bench.answer((ARM1, 1)), Some(Reply::Connect { .. })));
}

#[test]
fn failed_relay_start_fails_its_waiters() {
    let failed = |bench: &Bench, what: &str| {
        let answers = bench.delivered.iter().filter(|(to, ..)| *to == (ARM1, 1));
        let faults: Vec<_> = answers.map(|(_, message, ..)| message.body.clone()).collect();
        assert!(
            matches!(&faults[..], [Reply::Failed { fault: Fault::Refused { why } }]
                if why.contains("the relay on node host") && why.contains(what)),
            "{faults:?}"
        );
    };
    let (mut bench, ..) = two_arms();
    bench.connect((ARM1, 1), "pong");
    let relay = last_ordered_relay(&bench);
    bench.report(HOST, Report::NotStarted { domain: relay, why: "no memory".into() });
    failed(&bench, "no memory");

    bench.connect((ARM1, 1), "pong");
    let relay = last_ordered_relay(&bench);
    bench.report(HOST, Report::Ended { domain: relay, exit: Exit::Exited { status: 1 } });
    failed(&bench, "with status 1");

    bench.connect((ARM1, 1), "pong");
    let relay = last_ordered_relay(&bench);
    bench.core.tick(31 * SECOND);
    bench.collect();
    failed(&bench, "within 30 s");
    assert!(bench.orders.contains(&(HOST, Order::Signal { domain: relay, signal: 9 })));
    assert_eq!(bench.core.relays.next_tick(), None);
}

#[test]
fn client_leaving_during_relay_start_is_dropped() {
    let (mut bench, ..) = two_arms();
    bench.connect((ARM1, 1), "pong");
    let relay = last_ordered_relay(&bench);
    bench.report(ARM1, Report::Left { connection: 1 });
    attach_relay(&mut bench, RELAY, relay);
    bench.ask((HOST, RELAY), Request::Export { scope: Scope::Machine, name: "relay".into() });
    assert!(ends(&bench, (HOST, RELAY)).is_empty() && bench.core.channels.is_empty());
}

/// Checks that ranges lent in the near window are freed if the window of the far node is full.
#[test]
fn failed_hop_frees_the_earlier_hops() {
    let (mut bench, ..) = two_arms();
    bench.attach((HOST, 1));
    bench.connect((ARM1, 1), "pong");
    let relay = last_ordered_relay(&bench);
    attach_relay(&mut bench, RELAY, relay);
    bench.ask((HOST, RELAY), Request::Export { scope: Scope::Machine, name: "relay".into() });
    let lent =
        |bench: &Bench| bench.core.list_nodes().iter().map(|node| node.window_bytes.0).collect::<Vec<_>>();
    // Use up all doorbells of the accepting node.
    while matches!(bench.connect((HOST, 1), "pong"), Some(Reply::Connect { .. })) {}
    let before = (lent(&bench), bench.core.channels.len());
    let fault = bench.connect((ARM1, 1), "pong");
    assert!(matches!(&fault, Some(Reply::Failed { fault: Fault::Limit { .. } })), "{fault:?}");
    assert_eq!((lent(&bench), bench.core.channels.len()), before);
    assert_eq!(bench.core.relays.via(ChannelId(u64::MAX)), []);
}
