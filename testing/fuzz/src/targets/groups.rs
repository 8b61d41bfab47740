//! Messages of the other members of a group.

use tombolo_broadcast::wire::{Chunk, Message, Progress, Sync};
use tombolo_broadcast::{Config, Member, MemberId, Order, View};

use crate::read::Choices;

const MEMBERS: u64 = 4;

fn config(order: Order) -> Config {
    Config { fan_out: 2, chunk_bytes: 16, buffers: 2, window_chunks: 4, max_message_bytes: 64, order }
}

/// Feeds a founding or joining member the messages of others. It must not fail, must stay within its limits,
/// and must send only valid messages.
pub(super) fn member(input: &[u8]) {
    let mut choices = Choices::new(input);
    let kind = choices.byte();
    let order = if kind & 1 == 0 { Order::PerSource } else { Order::Total };
    let (own, others) = (MemberId(MEMBERS - 1), (0..MEMBERS - 1).map(MemberId));
    let mut member = match kind & 2 {
        0 => Member::founding(own, others, config(order)),
        _ => Member::joining(own, others, config(order)),
    };
    while !choices.is_empty() {
        let what = choices.byte();
        let peer = MemberId(u64::from(what % 5));
        match what / 32 {
            0 => member.peer_died(peer),
            1 => member.peer_connected(MemberId(u64::from(what % 7))),
            2 => {
                let _ = member.broadcast(choices.piece());
            }
            3 => drop(member.next_event()),
            4 => member.leave(),
            _ => {
                let piece = choices.piece();
                if let Some(message) = Message::decode(piece) {
                    let mut bytes = Vec::new();
                    message.encode(&mut bytes);
                    assert_eq!(bytes, piece, "what is decoded is what would be encoded");
                }
                if member.receive(peer, piece).is_err() {
                    member.peer_died(peer);
                }
            }
        }
        for peer in member.peers().collect::<Vec<_>>() {
            while let Some(message) = member.transmit(peer) {
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                assert_eq!(Message::decode(&bytes), Some(message), "what is sent is valid");
            }
        }
        let usage = member.usage();
        assert!(usage.buffers <= 2 && usage.retained_chunks < 600, "{usage:?}");
    }
}

pub(super) fn member_seeds() -> Vec<Vec<u8>> {
    let chunk = |origin, number| Chunk {
        origin: MemberId(origin),
        number,
        first: true,
        last: true,
        data: std::sync::Arc::from(*b"data"),
    };
    let view = View::of((0..MEMBERS).map(MemberId));
    let streams = (0..MEMBERS - 1).map(|source| (MemberId(source), Progress { have: 3, taken: 2 })).collect();
    let messages = [
        Message::Sync(Sync { view, is_joining: false, streams }),
        Message::Chunk { source: MemberId(0), seq: 1, stable: 0, chunk: chunk(0, 1) },
        Message::Chunk { source: MemberId(0), seq: 4, stable: 3, chunk: chunk(2, 9) },
        Message::Flags { received: 1, taken: vec![(MemberId(3), 1)] },
        Message::Submit(chunk(1, 1)),
        Message::Leave,
    ];
    let mut seeds = Vec::new();
    for kind in 0..4 {
        let mut seed = vec![kind];
        // Messages from each other member, with operations of the program between them.
        for message in &messages {
            for peer in [165, 166, 167] {
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                seed.push(peer);
                seed.extend([bytes.len() as u8, 0]);
                seed.extend(bytes);
            }
            seed.extend([64, 4, 0, b'w', b'o', b'r', b'd', 96, 96, 0]);
        }
        seeds.push(seed);
    }
    seeds
}
