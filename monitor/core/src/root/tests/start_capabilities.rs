//! Capabilities that domains are started with, and their end with the domain.

use tombolo_capability::{CapabilityFault, CapabilityInfo, Extent, Rights};

use super::regions::in_window_of;
use super::*;

const STARTER: ClientId = (HOST, 1);
const CHILD: ClientId = (ARM0, 1);

fn given_capability(name: &str, of: &CapabilityInfo, rights: Rights) -> GivenCapability {
    GivenCapability { name: name.into(), capability: of.id, extent: None, rights }
}

impl Bench {
    /// Starts and attaches the child of an order.
    fn attach_started(&mut self, order: &StartOrder) {
        self.report(ARM0, Report::Started { domain: order.domain, pid: 8 });
        self.report(ARM0, Report::Joined { connection: 1, pid: 8, domain: Some(order.domain) });
        let attach = Request::Attach { version: FINGERPRINT, program: "test".into() };
        assert!(matches!(self.ask(CHILD, attach), Some(Reply::Attach { spawned: true, .. })));
    }

    fn request_given(&mut self, name: &str) -> Option<Reply> {
        self.ask(CHILD, Request::Given { name: name.into() })
    }

    fn table_size(&self, what: &str) -> usize {
        self.core.resource_counts().into_iter().find(|(name, _)| *name == what).map_or(0, |(_, count)| count)
    }
}

#[test]
fn program_accepts_only_its_initial_capabilities() {
    let mut bench = Bench::up(4);
    let starter = bench.attach(STARTER);
    let all = bench.create_region(STARTER, in_window_of("arm0"));
    let mut part = given_capability("part", &all, Rights::READ);
    part.extent = Some(Extent::new(4096, 4096));
    let given = vec![given_capability("all", &all, Rights::READ_WRITE), part];
    let order = order_start_giving(&mut bench, STARTER, given).expect("it starts");
    bench.attach_started(&order);
    let Some(Reply::Given { capability, region, .. }) = bench.request_given("part") else {
        panic!("{:?}", bench.delivered)
    };
    assert_eq!((capability.rights, capability.extent), (Rights::READ, Extent::new(4096, 4096)));
    assert_eq!((capability.holder, capability.granter), (order.domain, None), "it is taken up");
    assert_eq!((region.id, region.maker), (all.region, starter));
    assert_eq!(bench.request_given("part"), bench.request_given("part"), "also again");
    let missing = bench.request_given("more");
    let text = match &missing {
        Some(Reply::Failed { fault: fault @ Fault::NotGiven { .. } }) => fault.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(text.contains("'more'") && text.contains("all, part"), "{text}");
    let revoke = Request::CapabilityRevoke { capability: all.id, itself: false };
    assert!(matches!(bench.ask(STARTER, revoke), Some(Reply::CapabilityRevoke { removed: 2, .. })));
    let gone = bench.request_given("all");
    assert!(
        matches!(
            &gone,
            Some(Reply::Failed { fault: Fault::Capability { fault: CapabilityFault::Gone { .. } } })
        ),
        "{gone:?}"
    );
}

#[test]
fn a_child_that_ends_or_does_not_start_leaves_nothing_behind() {
    let mut bench = Bench::up(4);
    bench.attach(STARTER);
    let all = bench.create_region(STARTER, in_window_of("arm0"));
    let before = bench.table_size("capabilities");
    let ended =
        order_start_giving(&mut bench, STARTER, vec![given_capability("all", &all, Rights::ALL)]).unwrap();
    bench.attach_started(&ended);
    assert_eq!(bench.table_size("capabilities"), before + 1);
    bench.report(ARM0, Report::Ended { domain: ended.domain, exit: Exit::Exited { status: 1 } });
    assert_eq!(bench.table_size("capabilities"), before);
    let refused =
        order_start_giving(&mut bench, STARTER, vec![given_capability("all", &all, Rights::ALL)]).unwrap();
    assert_eq!(bench.table_size("capabilities"), before + 1);
    bench.report(ARM0, Report::NotStarted { domain: refused.domain, why: "no memory".into() });
    assert_eq!(bench.table_size("capabilities"), before);
}

#[test]
fn invalid_initial_capability_fails_the_start() {
    let mut bench = Bench::up(4);
    bench.attach(STARTER);
    let all = bench.create_region(STARTER, in_window_of("arm0"));
    let derive = Request::CapabilityDerive {
        capability: all.id,
        extent: None,
        rights: Rights::READ,
        holder: None,
        channel: tombolo_base::ChannelId(0),
    };
    let Some(Reply::CapabilityDerive { capability: read }) = bench.ask(STARTER, derive) else { panic!() };
    let before = bench.core.resource_counts();
    let long = "x".repeat(200);
    for (given, expected) in [
        (
            vec![given_capability("a", &all, Rights::READ), given_capability("a", &all, Rights::READ)],
            "two capabilities",
        ),
        (
            vec![given_capability("a", &all, Rights::READ), given_capability("b", &read, Rights::READ)],
            "rights",
        ),
        (vec![given_capability("no spaces", &all, Rights::READ)], "no spaces"),
        (vec![given_capability(&long, &all, Rights::READ)], "name"),
        (vec![given_capability("a", &all, Rights::ALL | Rights::CONNECT)], "rights"),
    ] {
        assert_eq!(order_start_giving(&mut bench, STARTER, given), None, "{expected}");
        let Some(Reply::Failed { fault }) = bench.answer(STARTER) else { panic!("{:?}", bench.delivered) };
        assert!(fault.to_string().contains(expected), "{fault}");
        let after = bench.core.resource_counts();
        let differ = |((name, before), (_, after)): (&(&str, usize), &(&str, usize))| {
            // The program is kept for later starts.
            (before != after && !name.contains("programs") && !name.contains("bytes of windows"))
                .then(|| format!("{name}: {before} {after}"))
        };
        assert_eq!(before.iter().zip(&after).find_map(differ), None);
    }
}
