//! Nodes that join by themselves, and the memory of their windows across their lives.

use tombolo_base::{ChannelId, Isa, NodeId};
use tombolo_capability::Rights;
use tombolo_control::{Attachment, AttachmentWindow, FINGERPRINT, Fault, Reply, Report, Request};

use super::regions::in_window_of;
use super::{Bench, Effect, HOST, SECOND};

const CARD: NodeId = NodeId(3);
const ON_HOST: (NodeId, u32) = (HOST, 1);
const ON_CARD: (NodeId, u32) = (CARD, 1);

const NODE: &str = "[[node]]\nname = \"card0\"\nkind = \"attached\"\nisa = \"aarch64\"\nwindow = \"file:/w\"\n\
                    window_mib = 1";

fn bench() -> Bench {
    Bench::up_with(4, NODE)
}

/// Performs the root's steps for a joiner, and its monitor's report.
fn join(bench: &mut Bench) {
    bench.core.node_offered(CARD, (1 << 20, 4), 4096);
    bench.core.node_joining(0, CARD, 8192);
    bench.report(CARD, Report::Ready { version: FINGERPRINT, isa: Isa::Aarch64, cores: 1, pid: 5 });
}

fn lose(bench: &mut Bench) {
    bench.core.node_lost(CARD, "it left");
    bench.collect();
}

fn used_window_bytes(bench: &Bench) -> u64 {
    bench.core.list_nodes()[3].window_bytes.0
}

fn cause(bench: &Bench) -> String {
    bench.core.list_nodes()[3].cause.clone()
}

#[test]
fn attached_node_is_optional_and_awaited_after_each_loss() {
    let mut bench = bench();
    assert!(bench.core.boot_progress().down.is_empty());
    assert_eq!(cause(&bench), "waiting for `tombolo join`");
    bench.core.joiner_refused(CARD, "another key");
    assert_eq!(cause(&bench), "waiting for `tombolo join`; the last joiner was refused: another key");
    bench.attach(ON_HOST);
    let spawned = bench.spawn(ON_HOST, "card0");
    assert!(matches!(spawned, Some(Reply::Failed { fault: Fault::NodeDown { .. } })), "{spawned:?}");
    for generation in 1..4 {
        let node = &bench.core.list_nodes()[3];
        assert_eq!((node.up, node.generation), (false, generation));
        join(&mut bench);
        assert_eq!(cause(&bench), "");
        bench.effects.clear();
        lose(&mut bench);
        let boots = bench.effects.iter().filter(|effect| matches!(effect, Effect::Boot { node: CARD, .. }));
        assert_eq!(boots.count(), 1);
        assert_eq!(cause(&bench), "waiting for `tombolo join`; it left");
    }
    // Its window can no longer be opened: the root does not retry without end.
    bench.effects.clear();
    lose(&mut bench);
    assert!(bench.effects.is_empty());
    assert_eq!(cause(&bench), "it left");
}

#[test]
fn restart_of_an_attached_node_is_answered() {
    let mut bench = bench();
    bench.attach(ON_HOST);
    let restart = |force| Request::Restart { node: "card0".into(), force };
    for force in [false, true] {
        let answer = bench.ask(ON_HOST, restart(force));
        assert!(matches!(answer, Some(Reply::Failed { fault: Fault::Refused { .. } })), "{answer:?}");
    }
    lose(&mut bench);
    assert_eq!(bench.ask(ON_HOST, restart(false)), None);
    bench.core.tick(59 * SECOND);
    assert_eq!(bench.answer(ON_HOST), None);
    bench.core.tick(61 * SECOND);
    bench.collect();
    let answer = bench.answer(ON_HOST);
    assert!(matches!(answer, Some(Reply::Failed { fault: Fault::NodeDown { .. } })), "{answer:?}");
}

#[test]
fn channel_range_is_freed_when_the_host_releases_it() {
    let mut bench = bench();
    join(&mut bench);
    bench.attach(ON_HOST);
    bench.attach(ON_CARD);
    bench.export(ON_CARD, "pong");
    let Some(Reply::Connect { grant }) = bench.connect(ON_HOST, "pong") else { panic!() };
    let place = grant.window.expect("a place");
    let (_, _, attachments, _) = &bench.delivered[0];
    let expected = [
        Attachment::WindowMemory(AttachmentWindow { window: 2 }),
        Attachment::Lifeline,
        Attachment::Interrupt { vector: 2, window: 2 },
        Attachment::Ringer { vector: 2, window: 2 },
    ];
    assert_eq!(attachments[..], expected);
    assert_eq!(place.ring, None);
    assert!(place.offset_bytes > 4096);
    let lent = used_window_bytes(&bench);
    assert!(lent > 0);
    lose(&mut bench);
    join(&mut bench);
    assert_eq!(used_window_bytes(&bench), lent, "the host's end may still write to it");
    bench.report(HOST, Report::Released { channel: grant.channel });
    assert_eq!(used_window_bytes(&bench), 0);
}

#[test]
fn region_mapped_by_the_host_is_not_reused_before_release() {
    let mut bench = bench();
    join(&mut bench);
    bench.attach(ON_HOST);
    let mapped = bench.create_region(ON_HOST, in_window_of("card0"));
    let free = bench.create_region(ON_HOST, in_window_of("card0"));
    assert_ne!(mapped.region, free.region);
    let (map, ..) = bench.map(ON_HOST, &mapped, Rights::READ_WRITE);
    assert!(map.file_offset_bytes > 4096);
    assert_eq!(used_window_bytes(&bench), 2 * 8192);
    lose(&mut bench);
    assert_eq!(bench.take_hang_ups(), [(HOST, 1)]);
    assert_eq!(used_window_bytes(&bench), 8192, "what was not mapped is free");
    join(&mut bench);
    bench.report(HOST, Report::Released { channel: ChannelId(1) });
    assert_eq!(used_window_bytes(&bench), 0);
}
