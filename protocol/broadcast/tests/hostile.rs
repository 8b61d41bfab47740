//! Member of a group whose other members send arbitrary data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use tombolo_broadcast::wire::{Chunk, Message, Progress, Sync};
use tombolo_broadcast::{Config, Member, MemberId, Order, View};

/// Generates a number such as members use, or one that breaks arithmetic.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..8_u64, 1 => Just(u64::MAX), 1 => Just(u64::MAX >> 1), 1 => Just((u64::MAX >> 1) - 1)]
}

fn id() -> impl Strategy<Value = MemberId> {
    number().prop_map(MemberId)
}

fn chunk() -> impl Strategy<Value = Chunk> {
    (id(), number(), any::<bool>(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..20)).prop_map(
        |(origin, number, first, last, data)| Chunk { origin, number, first, last, data: Arc::from(data) },
    )
}

fn sync() -> impl Strategy<Value = Sync> {
    let all: BTreeSet<MemberId> = (0..4).map(MemberId).collect();
    let members = prop_oneof![Just(all), prop::collection::btree_set(id(), 0..6)];
    let progress = (number(), number()).prop_map(|(have, taken)| Progress { have, taken: taken.min(have) });
    (members, any::<bool>(), prop::collection::btree_map(id(), progress, 0..6)).prop_map(
        |(members, is_joining, streams): (_, _, BTreeMap<MemberId, Progress>)| Sync {
            view: View::of(members),
            is_joining,
            streams,
        },
    )
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        4 => (id(), number(), number(), chunk())
            .prop_map(|(source, seq, stable, chunk)| Message::Chunk { source, seq, stable, chunk }),
        2 => (number(), prop::collection::vec((id(), number()), 0..4))
            .prop_map(|(received, taken)| Message::Flags { received, taken }),
        2 => chunk().prop_map(Message::Submit),
        3 => sync().prop_map(Message::Sync),
        1 => Just(Message::Leave),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Receive(u64, Message),
    Died(u64),
    Connected(u64),
    Broadcast(usize),
    Take,
    Leave,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..5_u64, message()).prop_map(|(from, message)| Step::Receive(from, message)),
        1 => (0..6_u64).prop_map(Step::Died),
        1 => (0..7_u64).prop_map(Step::Connected),
        2 => (0..70_usize).prop_map(Step::Broadcast),
        3 => Just(Step::Take),
        1 => Just(Step::Leave),
    ]
}

proptest! {
    #[test]
    fn no_message_makes_a_member_fail(
        joins in any::<bool>(),
        total in any::<bool>(),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let order = if total { Order::Total } else { Order::PerSource };
        let config =
            Config { fan_out: 2, chunk_bytes: 16, buffers: 2, window_chunks: 4, max_message_bytes: 64, order };
        let (own, others) = (MemberId(3), (0..3).map(MemberId));
        let mut member =
            if joins { Member::joining(own, others, config) } else { Member::founding(own, others, config) };
        for step in steps {
            match step {
                Step::Receive(from, message) => {
                    let mut bytes = Vec::new();
                    message.encode(&mut bytes);
                    if member.receive(MemberId(from), &bytes).is_err() {
                        member.peer_died(MemberId(from));
                    }
                }
                Step::Died(peer) => member.peer_died(MemberId(peer)),
                Step::Connected(peer) => member.peer_connected(MemberId(peer)),
                Step::Broadcast(length) => drop(member.broadcast(&vec![1; length])),
                Step::Take => drop(member.next_event()),
                Step::Leave => member.leave(),
            }
            for peer in member.peers().collect::<Vec<_>>() {
                while let Some(message) = member.transmit(peer) {
                    let mut bytes = Vec::new();
                    message.encode(&mut bytes);
                    prop_assert_eq!(Message::decode(&bytes), Some(message), "what is sent is valid");
                }
            }
            let usage = member.usage();
            prop_assert!(usage.buffers <= 2 && usage.retained_chunks < 200, "{:?}", usage);
        }
    }
}
