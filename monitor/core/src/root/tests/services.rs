//! Channels opened by capability.

use tombolo_capability::{CapabilityFault, CapabilityId, CapabilityInfo, Rights};
use tombolo_machine::Limit;

use super::*;

const SERVER: ClientId = (HOST, 1);
const CLIENT: ClientId = (ARM0, 1);

impl Bench {
    fn service(&mut self, listener: Option<u32>) -> (CapabilityInfo, u32) {
        match self.ask(SERVER, Request::ServiceCreate { listener }) {
            Some(Reply::ServiceCreate { capability, listener }) => (capability, listener),
            other => panic!("{other:?}"),
        }
    }

    fn connect_by(&mut self, client: ClientId, capability: CapabilityId) -> Option<Reply> {
        let (scope, timeout, config) = (Scope::Machine, Duration::from_secs(1), ChannelConfig::default());
        let name = String::new();
        self.ask(client, Request::Connect { scope, name, timeout, config, by: Some(capability) })
    }

    fn derive_connect_right(&mut self, of: &CapabilityInfo, to: tombolo_base::DomainId) -> CapabilityInfo {
        let (rights, channel) = (Rights::CONNECT, tombolo_base::ChannelId(0));
        let derive =
            Request::CapabilityDerive { capability: of.id, extent: None, rights, holder: Some(to), channel };
        match self.ask(SERVER, derive) {
            Some(Reply::CapabilityDerive { capability }) => capability,
            other => panic!("{other:?}"),
        }
    }
}

fn refused(reply: Option<Reply>) -> CapabilityFault {
    match reply {
        Some(Reply::Failed { fault: Fault::Capability { fault } }) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_service_without_a_name_is_reached_by_those_with_a_capability() {
    let mut bench = Bench::up(8);
    bench.attach(SERVER);
    let client = bench.attach(CLIENT);
    let (all, listener) = bench.service(None);
    assert!(matches!(refused(bench.connect_by(CLIENT, all.id)), CapabilityFault::NotYours { .. }));
    let derived = bench.derive_connect_right(&all, client);
    assert!(matches!(bench.connect_by(CLIENT, derived.id), Some(Reply::Connect { .. })));
    let came = bench.delivered.iter().find_map(|(to, message, ..)| match &message.body {
        Reply::Incoming { listener, .. } if *to == SERVER => Some(*listener),
        _ => None,
    });
    assert_eq!(came, Some(listener));
    let revoke = Request::CapabilityRevoke { capability: all.id, itself: false };
    assert!(matches!(bench.ask(SERVER, revoke), Some(Reply::CapabilityRevoke { removed: 1, .. })));
    assert!(matches!(refused(bench.connect_by(CLIENT, derived.id)), CapabilityFault::Gone { .. }));
}

#[test]
fn service_ends_with_its_listener_and_client() {
    let mut bench = Bench::up(8);
    bench.attach(SERVER);
    let client = bench.attach(CLIENT);
    assert_eq!(bench.export(SERVER, "pong"), Some(Reply::Export { listener: 1 }));
    let none = bench.ask(SERVER, Request::ServiceCreate { listener: Some(7) });
    assert!(matches!(&none, Some(Reply::Failed { fault: Fault::Refused { .. } })), "{none:?}");
    let (named, listener) = bench.service(Some(1));
    assert_eq!(listener, 1);
    let (unnamed, other) = bench.service(None);
    assert_eq!(bench.service(Some(other)).1, other);
    let (to_named, to_unnamed) =
        (bench.derive_connect_right(&named, client), bench.derive_connect_right(&unnamed, client));
    bench.ask(SERVER, Request::Withdraw { listener: 1 });
    assert!(matches!(refused(bench.connect_by(CLIENT, to_named.id)), CapabilityFault::Gone { .. }));
    assert!(matches!(bench.connect_by(CLIENT, to_unnamed.id), Some(Reply::Connect { .. })));
    bench.report(HOST, Report::Left { connection: 1 });
    assert!(matches!(refused(bench.connect_by(CLIENT, to_unnamed.id)), CapabilityFault::Gone { .. }));
    let held = bench.core.resource_counts();
    for what in ["services", "regions", "capabilities"] {
        assert!(held.contains(&(what, 0)), "{what}: {held:?}");
    }
}

#[test]
fn waiter_at_a_service_learns_of_revocation() {
    let mut bench = Bench::up_with(64, "[limits]\nbacklog = 1\n");
    bench.attach(SERVER);
    let client = bench.attach(CLIENT);
    assert_eq!(bench.core.machine.limits().of(Limit::Backlog), 1);
    let (all, _) = bench.service(None);
    let derived = bench.derive_connect_right(&all, client);
    assert!(matches!(bench.connect_by(CLIENT, derived.id), Some(Reply::Connect { .. })));
    assert_eq!(bench.connect_by(CLIENT, derived.id), None, "the backlog is full");
    bench.delivered.clear();
    bench.ask(SERVER, Request::CapabilityRevoke { capability: all.id, itself: false });
    assert!(matches!(refused(bench.answer(CLIENT)), CapabilityFault::Gone { .. }));
}
