//! Regions: origin of their memory, access to it, and its release.

use tombolo_base::{ChannelId, DomainId, WindowId};
use tombolo_capability::{CapabilityFault, CapabilityInfo, MemoryOptions, Rights, Seal};
use tombolo_control::{AttachmentWindow, RegionMap, RegionPlace};

use super::windows::ARMS;
use super::*;

const OWNER: ClientId = (HOST, 1);
const OTHER: ClientId = (ARM0, 1);

pub(in crate::root) fn in_memory_of(node: &str) -> RegionPlace {
    let options = MemoryOptions { huge_page_bytes: 0, numa_node: None };
    RegionPlace::Memory { node: node.into(), options }
}

pub(super) fn in_window_of(node: &str) -> RegionPlace {
    RegionPlace::Window { node: node.into(), alignment_bytes: 0, coherent: true }
}

impl Bench {
    /// Requests a region, and creates memory for it on its node.
    pub(in crate::root) fn region(
        &mut self,
        client: ClientId,
        place: RegionPlace,
        length_bytes: u64,
    ) -> Option<Reply> {
        let answer = self.ask(client, Request::RegionCreate { place, length_bytes });
        let make = std::mem::take(&mut self.orders).into_iter().find_map(|(node, order)| match order {
            Order::RegionMake { region, .. } => Some((node, region)),
            _ => None,
        });
        let Some((node, region)) = make else { return answer };
        self.delivered.clear();
        self.report(node, Report::RegionMade { region, failed: None, read_only: false });
        self.answer(client)
    }

    pub(super) fn create_region(&mut self, client: ClientId, place: RegionPlace) -> CapabilityInfo {
        match self.region(client, place, 8000) {
            Some(Reply::RegionCreate { capability }) => capability,
            other => panic!("{other:?}"),
        }
    }

    fn derive_capability(
        &mut self,
        client: ClientId,
        of: &CapabilityInfo,
        to: DomainId,
        rights: Rights,
    ) -> CapabilityInfo {
        let derive = Request::CapabilityDerive {
            capability: of.id,
            extent: None,
            rights,
            holder: Some(to),
            channel: ChannelId(0),
        };
        match self.ask(client, derive) {
            Some(Reply::CapabilityDerive { capability }) => capability,
            other => panic!("{other:?}"),
        }
    }

    /// Maps a region. Returns the answer, with its attachments.
    pub(super) fn map(
        &mut self,
        client: ClientId,
        of: &CapabilityInfo,
        rights: Rights,
    ) -> (RegionMap, Vec<Attachment>, Vec<Resource>) {
        let request = Request::RegionMap { capability: of.id, rights, pool: false };
        let Some(Reply::RegionMap { map }) = self.ask(client, request) else {
            panic!("{:?}", self.delivered)
        };
        let (_, _, attachments, passed) = self.delivered.pop().expect("an answer");
        (map, attachments, passed)
    }

    fn fault(&mut self, client: ClientId, request: Request) -> CapabilityFault {
        match self.ask(client, request) {
            Some(Reply::Failed { fault: Fault::Capability { fault } }) => fault,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn take_hang_ups(&mut self) -> Vec<(NodeId, u64)> {
        let hung_up = |(node, order): (NodeId, Order)| match order {
            Order::HangUp { channel } => Some((node, channel.0)),
            _ => None,
        };
        std::mem::take(&mut self.orders).into_iter().filter_map(hung_up).collect()
    }
}

#[test]
fn window_memory_is_freed_when_all_have_released_it() {
    let mut bench = Bench::up(4);
    bench.attach(OWNER);
    let there = bench.attach(OTHER);
    let before = bench.core.resource_counts();
    let all = bench.create_region(OWNER, in_window_of("arm0"));
    assert!(
        matches!(bench.effects.pop(), Some(Effect::ClearWindow { window: WindowId(0), range }) if range.length_bytes == 8192)
    );
    let (map, attachments, passed) = bench.map(OWNER, &all, Rights::READ_WRITE);
    assert_eq!(attachments, [Attachment::Passed, Attachment::Lifeline]);
    assert_eq!(passed, [Resource::RegionInWindow { window: WindowId(0), writable: true }]);
    let derived = bench.derive_capability(OWNER, &all, there, Rights::READ);
    let (there_map, attachments, passed) = bench.map(OTHER, &derived, Rights::READ);
    assert_eq!(
        (attachments, passed),
        (vec![Attachment::WindowToRead(AttachmentWindow { window: 0 }), Attachment::Lifeline], vec![])
    );
    assert_eq!(there_map.file_offset_bytes, map.file_offset_bytes);
    let delete = |of: &CapabilityInfo| Request::CapabilityDelete { capability: of.id };
    assert_eq!(bench.ask(OWNER, delete(&all)), Some(Reply::Done));
    assert_eq!(bench.ask(OTHER, delete(&derived)), Some(Reply::Done));
    assert_eq!(bench.take_hang_ups(), [(HOST, 1), (ARM0, 2)]);
    assert_ne!(bench.core.resource_counts(), before, "both may have it mapped yet");
    bench.report(HOST, Report::Released { channel: ChannelId(1) });
    bench.report(HOST, Report::Released { channel: ChannelId(2) });
    assert_ne!(bench.core.resource_counts(), before, "the host's word about a node is no evidence");
    bench.report(ARM0, Report::Released { channel: ChannelId(2) });
    assert_eq!(bench.core.resource_counts(), before);
}

#[test]
fn shared_window_memory_outlives_each_node() {
    let mut bench = Bench::up_with(4, ARMS);
    let other = (ARM1, 1);
    bench.attach(OTHER);
    let there = bench.attach(other);
    let host = bench.attach(OWNER);
    // Between these two nodes, the window of either denotes the one that both have.
    for name in ["arms", "arm1"] {
        let all = bench.create_region(OTHER, in_window_of(name));
        assert!(matches!(bench.effects.pop(), Some(Effect::ClearWindow { window: WindowId(2), .. })));
        assert_eq!(bench.ask(OTHER, Request::CapabilityDelete { capability: all.id }), Some(Reply::Done));
    }
    let all = bench.create_region(OTHER, in_window_of("arms"));
    let derived = bench.derive_capability(OTHER, &all, there, Rights::READ_WRITE);
    let (_, attachments, passed) = bench.map(other, &derived, Rights::READ_WRITE);
    let memory = Attachment::WindowMemory(AttachmentWindow { window: 2 });
    assert_eq!((attachments, passed), (vec![memory, Attachment::Lifeline], vec![]));
    let derived = bench.derive_capability(OTHER, &all, host, Rights::READ);
    let map = Request::RegionMap { capability: derived.id, rights: Rights::READ, pool: false };
    assert!(matches!(bench.ask(OWNER, map), Some(Reply::Failed { .. })), "the host is not in this window");
    let refused = bench.region(OWNER, in_window_of("arms"), 1);
    assert!(
        matches!(&refused, Some(Reply::Failed { fault: Fault::Refused { why } }) if why.contains("not in window"))
    );

    bench.orders.clear();
    bench.core.node_lost(ARM0, "killed");
    bench.collect();
    assert_eq!(bench.take_hang_ups(), [], "others hold capabilities to it");
    for client in [OWNER, other] {
        bench.report(client.0, Report::Left { connection: client.1 });
    }
    let lent = |bench: &Bench| {
        let mut held = bench.core.resource_counts().into_iter();
        held.find(|(what, _)| what.contains("bytes of windows")).map_or(0, |(_, bytes)| bytes)
    };
    assert_eq!(lent(&bench), 8192, "it may be mapped yet");
    bench.report(ARM1, Report::Released { channel: ChannelId(1) });
    assert_eq!(lent(&bench), 0);
}

#[test]
fn kernel_memory_is_kept_by_its_agent_until_freed() {
    let mut bench = Bench::up(4);
    let owner = bench.attach(OWNER);
    let there = bench.attach(OTHER);
    let before = bench.core.resource_counts();
    let all = bench.create_region(OWNER, in_memory_of("host"));
    let (_, attachments, passed) = bench.map(OWNER, &all, Rights::READ);
    assert_eq!(attachments[0], Attachment::Region { region: all.region, writable: false });
    assert_eq!(passed, []);
    let derived = bench.derive_capability(OWNER, &all, there, Rights::READ);
    let fault =
        bench.fault(OTHER, Request::RegionMap { capability: derived.id, rights: Rights::READ, pool: false });
    assert_eq!(fault, CapabilityFault::NotReachable { region: all.region, from: there });
    // The rights of a domain that attached by itself end with its connection, the mapping with its report.
    bench.report(HOST, Report::Left { connection: 1 });
    bench.report(ARM0, Report::Left { connection: 1 });
    assert!(!bench.orders.iter().any(|(_, order)| matches!(order, Order::RegionForget { .. })));
    bench.report(HOST, Report::Released { channel: ChannelId(1) });
    let forget = Order::RegionForget { region: all.region };
    assert_eq!(bench.orders.last(), Some(&(HOST, forget)));
    bench.attach(OWNER);
    bench.attach(OTHER);
    assert_eq!(bench.core.resource_counts(), before);
    assert!(!bench.core.is_alive(owner));
}

#[test]
fn failed_or_late_memory_leaves_no_state() {
    let mut bench = Bench::up(4);
    bench.attach(OWNER);
    bench.attach(OTHER);
    let before = bench.core.resource_counts();
    let create = |node: &str| Request::RegionCreate { place: in_memory_of(node), length_bytes: 1 };
    let ordered_region = |bench: &mut Bench| {
        bench.orders.drain(..).find_map(|(_, order)| match order {
            Order::RegionMake { region, .. } => Some(region),
            _ => None,
        })
    };
    assert_eq!(bench.ask(OWNER, create("host")), None);
    let region = ordered_region(&mut bench).unwrap();
    bench.report(ARM0, Report::RegionMade { region, failed: None, read_only: false });
    assert_eq!(bench.answer(OWNER), None, "another node's word");
    bench.report(HOST, Report::RegionMade { region, failed: Some("out of memory".into()), read_only: false });
    assert!(
        matches!(bench.answer(OWNER), Some(Reply::Failed { fault: Fault::System { what } }) if what == "out of memory")
    );
    assert_eq!(bench.ask(OTHER, create("host")), None);
    let region = ordered_region(&mut bench).unwrap();
    bench.report(ARM0, Report::Left { connection: 1 });
    bench.report(HOST, Report::RegionMade { region, failed: None, read_only: false });
    assert_eq!(bench.orders.last(), Some(&(HOST, Order::RegionForget { region })));
    // Pending creations on a node end with it.
    bench.delivered.clear();
    assert_eq!(bench.ask(OWNER, create("arm0")), None);
    bench.core.node_lost(ARM0, "killed");
    bench.collect();
    assert!(matches!(bench.answer(OWNER), Some(Reply::Failed { fault: Fault::NodeDown { .. } })));
    bench.ask(OWNER, Request::Restart { node: "arm0".into(), force: false });
    bench.core.node_started(ARM0, 100, Some((1 << 20, 4)));
    bench.report(ARM0, Report::Ready { version: FINGERPRINT, isa: Isa::Aarch64, cores: 2, pid: 100 });
    bench.attach(OTHER);
    assert_eq!(bench.core.resource_counts(), before);
}

#[test]
fn unchecked_file_does_not_count_as_memory() {
    let mut bench = Bench::up_with(4, "[limits]\nregion_mib_per_domain = 1\n");
    bench.attach(OWNER);
    let file = |length_bytes| Request::RegionCreate { place: RegionPlace::File, length_bytes };
    for length_bytes in [u64::MAX, u64::MAX, 1 << 20] {
        assert_eq!(bench.ask(OWNER, file(length_bytes)), None);
    }
    let memory = |length_bytes| Request::RegionCreate { place: in_memory_of("host"), length_bytes };
    assert_eq!(bench.ask(OWNER, memory(1 << 20)), None);
    assert!(matches!(bench.ask(OWNER, memory(1)), Some(Reply::Failed { fault: Fault::Limit { .. } })));
}

#[test]
fn unavailable_memory_is_refused() {
    let mut bench = Bench::up(4);
    bench.attach(OWNER);
    let fails = |bench: &mut Bench, place: RegionPlace, length_bytes| match bench.region(
        OWNER,
        place,
        length_bytes,
    ) {
        Some(Reply::Failed { fault }) => fault,
        other => panic!("{other:?}"),
    };
    assert!(matches!(fails(&mut bench, in_memory_of("mars"), 1), Fault::NoSuchNode { .. }));
    assert!(matches!(fails(&mut bench, in_window_of("host"), 1), Fault::Refused { .. }));
    let beyond = fails(&mut bench, in_window_of("arm0"), 1 << 20);
    assert!(matches!(&beyond, Fault::Limit { what } if what.contains("window_mib")), "{beyond}");
    for length_bytes in [0, u64::MAX] {
        let empty = fails(&mut bench, in_memory_of("host"), length_bytes);
        assert!(matches!(empty, Fault::Capability { fault: CapabilityFault::BadExtent { .. } }), "{empty}");
    }
    for huge_page_bytes in [1, 4096, 3 << 20] {
        let options = MemoryOptions { huge_page_bytes, numa_node: None };
        let odd = fails(&mut bench, RegionPlace::Memory { node: "host".into(), options }, 1);
        assert!(matches!(odd, Fault::Refused { .. }), "{odd}");
    }
    let odd = RegionPlace::Window { node: "arm0".into(), alignment_bytes: 4097, coherent: false };
    let odd = fails(&mut bench, odd, 1);
    assert!(matches!(&odd, Fault::Refused { why } if why.contains("4097")), "{odd}");
    let far = RegionPlace::Window { node: "arm0".into(), alignment_bytes: 1 << 40, coherent: false };
    let far = fails(&mut bench, far, 1);
    assert!(matches!(&far, Fault::Limit { what } if what.contains("longest 0")), "{far}");
    let foreign = fails(&mut bench, RegionPlace::Foreign { address: u64::MAX }, 2);
    assert!(matches!(foreign, Fault::Capability { .. }), "{foreign}");
}

#[test]
fn revocation_is_answered_when_nothing_is_mapped() {
    let mut bench = Bench::up(4);
    bench.attach(OWNER);
    let child = start(&mut bench, OWNER);
    let client = (ARM0, 7);
    bench.report(ARM0, Report::Joined { connection: 7, pid: 55, domain: Some(child) });
    bench.ask(client, Request::Attach { version: FINGERPRINT, program: String::new() });
    let all = bench.create_region(OWNER, in_window_of("arm0"));
    let derived = bench.derive_capability(OWNER, &all, child, Rights::READ);
    bench.map(client, &derived, Rights::READ);
    bench.orders.clear();
    let revoke = Request::CapabilityRevoke { capability: all.id, itself: false };
    assert_eq!(bench.ask(OWNER, revoke.clone()), None);
    assert_eq!(bench.take_hang_ups(), [(ARM0, 1)]);
    // The child does not unmap in time, and is killed, which is reported like any end of it.
    bench.core.tick(SECOND);
    bench.collect();
    assert_eq!(bench.orders, [(ARM0, Order::Signal { domain: child, signal: 9 })]);
    bench.report(ARM0, Report::Ended { domain: child, exit: Exit::Signalled { signal: 9 } });
    assert_eq!(bench.answer(OWNER), None, "its process may have it mapped yet");
    bench.report(ARM0, Report::Released { channel: ChannelId(1) });
    assert_eq!(bench.answer(OWNER), Some(Reply::CapabilityRevoke { removed: 0, killed: vec![child] }));
    // A domain that the machine did not start is not killed: the answer names it as a holder.
    let visitor = bench.attach(OTHER);
    let derived = bench.derive_capability(OWNER, &all, visitor, Rights::READ);
    bench.map(OTHER, &derived, Rights::READ);
    bench.ask(OWNER, revoke);
    bench.orders.clear();
    for seconds in 1..=2 {
        bench.core.tick(seconds * SECOND);
    }
    bench.collect();
    assert_eq!(bench.orders, []);
    let held = CapabilityFault::StillHeld { capability: all.id, holders: vec![visitor] };
    assert_eq!(bench.answer(OWNER), Some(Reply::Failed { fault: Fault::Capability { fault: held } }));
}

#[test]
fn seal_is_applied_by_the_owning_kernel() {
    let mut bench = Bench::up(4);
    bench.attach(OWNER);
    let all = bench.create_region(OWNER, in_memory_of("arm0"));
    let seal = |seal| Request::RegionSeal { capability: all.id, seal };
    assert!(matches!(
        bench.ask(OWNER, seal(Seal::Open)),
        Some(Reply::Failed { fault: Fault::Refused { .. } })
    ));
    assert_eq!(bench.ask(OWNER, seal(Seal::Frozen)), None);
    assert_eq!(bench.orders, [(ARM0, Order::RegionSeal { region: all.region, seal: Seal::Frozen })]);
    bench.report(ARM0, Report::RegionSealed { region: all.region, failed: Some("busy".into()) });
    assert!(matches!(bench.answer(OWNER), Some(Reply::Failed { fault: Fault::System { .. } })));
    assert_eq!(bench.ask(OWNER, seal(Seal::Frozen)), None);
    bench.report(ARM0, Report::RegionSealed { region: all.region, failed: None });
    assert_eq!(bench.answer(OWNER), Some(Reply::Done));
    let fault = bench
        .fault(OWNER, Request::RegionMap { capability: all.id, rights: Rights::READ_WRITE, pool: false });
    assert_eq!(fault, CapabilityFault::Sealed { region: all.region, seal: Seal::Frozen });
}
