//! Channels in windows: resources of each end, sharing of doorbells when they run out, and release of
//! everything.

use tombolo_base::WindowId;
use tombolo_control::{AttachmentWindow, Grant};

use super::*;

/// Returns the attachments of the grant of a channel to a client.
fn received_grant(bench: &Bench, client: ClientId) -> (Grant, Vec<Attachment>, Vec<Resource>) {
    let of = |(to, message, attachments, passed): &(_, MonitorMessage, Vec<_>, Vec<_>)| {
        let grant = match &message.body {
            Reply::Connect { grant } | Reply::Incoming { grant, .. } if *to == client => grant.clone(),
            _ => return None,
        };
        Some((grant, attachments.clone(), passed.clone()))
    };
    bench.delivered.iter().find_map(of).unwrap_or_else(|| panic!("{:?}", bench.delivered))
}

fn bell(peer: u16, vector: u16) -> Resource {
    Resource::Bell { window: WindowId(0), peer, vector }
}

/// Returns whether an effect clears a page of a window.
fn is_page(effect: &Effect) -> bool {
    matches!(effect, Effect::ClearWindow { range, .. } if range.length_bytes == 4096)
}

#[test]
fn window_channel_gets_and_frees_a_range_and_doorbells() {
    let mut bench = Bench::up(4);
    let before = bench.core.resource_counts();
    bench.attach((HOST, 1));
    bench.attach((ARM0, 1));
    bench.export((HOST, 1), "pong");
    for vector in [2, 3] {
        let Some(Reply::Connect { grant }) = bench.connect((ARM0, 1), "pong") else { panic!() };
        assert_eq!(
            (grant.transport, grant.window.as_ref().unwrap().ring),
            (TransportKind::Window, Some(vector))
        );
    }
    let (_, attachments, passed) = received_grant(&bench, (HOST, 1));
    assert_eq!(attachments.len(), 4);
    let window = WindowId(0);
    assert_eq!(passed, [Resource::WindowMemory(window), bell(0, 3), bell(1, 3)]);

    // Four doorbells: the monitors' own, the shared one and two. Both ends of the next channel share.
    let Some(Reply::Connect { grant }) = bench.connect((ARM0, 1), "pong") else { panic!() };
    let place = grant.window.unwrap();
    let (_, _, passed) = received_grant(&bench, (HOST, 1));
    let (channel, offset_bytes) = (grant.channel, place.offset_bytes);
    let shared = {
        // The page of each direction follows the channel.
        let group = Some(offset_bytes + place.length_bytes + 4096);
        Resource::SharedBell { channel, window, offset_bytes, accepting: true, group }
    };
    assert_eq!(passed, [Resource::WindowMemory(window), shared, bell(1, 1)]);
    assert_eq!(place.ring, Some(1), "the host's shared doorbell");
    let (_, attachments, _) = received_grant(&bench, (ARM0, 1));
    let shared = {
        let group = Some(offset_bytes + place.length_bytes);
        Attachment::SharedBell { offset_bytes, window: 0, accepting: false, group }
    };
    assert_eq!(attachments[2], shared);

    let first = tombolo_base::ChannelId(1);
    bench.report(ARM0, Report::Released { channel: first });
    assert_eq!(bench.orders.last(), Some(&(HOST, Order::HangUp { channel: first })));
    let ring = |bench: &mut Bench| {
        let Some(Reply::Connect { grant }) = bench.connect((ARM0, 1), "pong") else { panic!() };
        (grant.channel, grant.window.unwrap().ring.unwrap())
    };
    assert_eq!(ring(&mut bench).1, 1, "one side still holds the doorbell of the first");
    bench.report(ARM0, Report::Released { channel: first });
    assert_eq!(ring(&mut bench).1, 1, "told twice by one side");
    bench.report(HOST, Report::Released { channel: first });
    assert_eq!(ring(&mut bench).1, 2);
    let pages = |bench: &Bench| bench.effects.iter().filter(|effect| is_page(effect)).count();
    assert_eq!(pages(&bench), 2, "a page of groups for each direction, cleared once");
    let forgotten = |effect: &Effect| matches!(effect, Effect::RemoveSharedBell { .. });
    assert!(!bench.effects.iter().any(forgotten));
    for channel in 1..=6 {
        for node in [ARM0, HOST] {
            bench.report(node, Report::Released { channel: tombolo_base::ChannelId(channel) });
        }
    }
    assert_eq!(bench.effects.iter().filter(|effect| forgotten(effect)).count(), 3);
    for client in [(HOST, 1), (ARM0, 1)] {
        bench.report(client.0, Report::Left { connection: client.1 });
    }
    assert_eq!(bench.core.resource_counts(), before);
}

#[test]
fn incoherent_window_has_no_groups() {
    for (coherence, groups) in [("", true), ("coherence = \"flush\"\ncache_seed = 3\n", false)] {
        let mut bench = Bench::up_with(4, &format!("{ARMS}{coherence}"));
        bench.attach((ARM0, 1));
        bench.attach((ARM1, 1));
        bench.export((ARM0, 1), "pong");
        for shares in [false, true] {
            bench.effects.clear();
            bench.delivered.clear();
            let Some(Reply::Connect { grant }) = bench.connect((ARM1, 1), "pong") else { panic!() };
            let place = grant.window.unwrap();
            assert_eq!(place.group.is_some(), groups && shares, "{coherence}");
            let (_, attachments, _) = received_grant(&bench, (ARM0, 1));
            let group = match attachments[2] {
                Attachment::SharedBell { group, .. } => group,
                _ => None,
            };
            assert_eq!(group, place.group, "the one who rings and the monitor know the same word");
            assert_eq!(bench.effects.iter().any(is_page), groups && shares);
        }
    }
}

pub(super) const ARMS: &str =
    "[[window]]\nname = \"arms\"\nnodes = [\"arm0\", \"arm1\"]\nsize_mib = 2\ndoorbells = 3\n";

#[test]
fn two_virtual_machines_with_a_window_are_joined_by_it() {
    let mut bench = Bench::up_with(4, ARMS);
    let before = bench.core.resource_counts();
    bench.attach((ARM0, 1));
    bench.attach((ARM1, 1));
    bench.export((ARM0, 1), "pong");
    bench.effects.clear();
    let Some(Reply::Connect { grant }) = bench.connect((ARM1, 1), "pong") else { panic!() };
    let place = grant.window.clone().unwrap();
    assert_eq!((place.offset_bytes, place.ring), (4096, Some(2)), "no control channel is in this window");
    let arms = WindowId(2);
    assert!(matches!(bench.effects[..], [Effect::ClearWindow { window, .. }] if window == arms));
    let number = AttachmentWindow { window: 2 };
    let expected = |vector| {
        let (memory, registers) = (Attachment::WindowMemory(number), Attachment::Registers(number));
        vec![memory, Attachment::Lifeline, vector, registers]
    };
    let interrupt = Attachment::Interrupt { vector: 2, window: 2 };
    for client in [(ARM0, 1), (ARM1, 1)] {
        let (_, attachments, passed) = received_grant(&bench, client);
        assert_eq!((attachments, passed), (expected(interrupt.clone()), vec![]));
    }
    assert_eq!(received_grant(&bench, (ARM0, 1)).0.window.unwrap().ring, Some(1 << 16 | 2));
    // Each has one doorbell to lend: the second channel shares.
    let Some(Reply::Connect { grant }) = bench.connect((ARM1, 1), "pong") else { panic!() };
    assert_eq!(grant.window.unwrap().ring, Some(1));
    let (_, attachments, _) = received_grant(&bench, (ARM0, 1));
    assert!(matches!(attachments[2], Attachment::SharedBell { window: 2, accepting: true, .. }));

    let group = received_grant(&bench, (ARM0, 1)).0.window.unwrap().group;
    assert!(group.is_some() && bench.effects.iter().any(is_page));

    // One end dies with its node: the other is hung up, and the resources of both are freed once it has
    // released its end.
    bench.orders.clear();
    bench.core.node_lost(ARM1, "killed");
    bench.collect();
    let order_count = |node: NodeId| bench.orders.iter().filter(move |(to, _)| *to == node).count();
    assert!(order_count(ARM0) >= 2, "{:?}", bench.orders);
    for channel in [1, 2] {
        bench.report(ARM0, Report::Released { channel: tombolo_base::ChannelId(channel) });
    }
    bench.report(ARM0, Report::Left { connection: 1 });
    assert_eq!(bench.core.resource_counts(), before);
}
