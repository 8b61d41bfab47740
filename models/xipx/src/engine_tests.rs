use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::*;
use tombolo_base::coherence::{EmulatedCache, Evictions, Flushed};
use tombolo_base::{Coherent, Random};

const FIFO_BYTES: usize = 512;

/// Receiving and sending sides of one node.
struct Node<C: CacheMaintenance> {
    inbox: Inbox<C>,
    outboxes: Vec<Outbox<C>>,
}

impl<C: CacheMaintenance> Node<C> {
    fn new(memory: &SharedMemory<C>, layout: Layout, own: u16) -> Self {
        let outbox = |to| Outbox::new(memory, layout, own, to).unwrap();
        let outboxes = (0..layout.nodes() as u16).map(outbox).collect();
        Node { inbox: Inbox::new(memory, layout, own).unwrap(), outboxes }
    }

    fn deliver(&mut self) {
        while self.inbox.deliver(|_| ()) {}
    }
}

fn coherent(nodes: u16) -> (SharedMemory, Vec<Node<Coherent>>) {
    let layout = Layout::new(nodes.into(), FIFO_BYTES).unwrap();
    let memory = SharedMemory::zeroed(layout.total_bytes());
    let all = (0..nodes).map(|own| Node::new(&memory, layout, own)).collect();
    (memory, all)
}

fn content(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let length = random.index(FIFO_BYTES / 2 - HEADER_BYTES + 1);
    (0..length).map(|_| random.word() as u8).collect()
}

/// Random messages between two devices of each of three nodes, themselves included, each pair in order.
fn run(rate: Option<u32>, seed: u64) {
    let layout = Layout::new(3, FIFO_BYTES).unwrap();
    let memory = SharedMemory::zeroed(layout.total_bytes());
    let view = |node: u16| {
        let evictions =
            Evictions { seed: seed ^ u64::from(node) << 32, one_in: rate.and_then(NonZeroU32::new) };
        EmulatedCache::view(memory.clone(), evictions)
    };
    let mut nodes: Vec<Node<Flushed>> = (0..3).map(|own| Node::new(&view(own), layout, own)).collect();
    nodes.iter_mut().for_each(|node| assert!(node.inbox.open(0) && node.inbox.open(7)));
    let mut random = Random::new(seed);
    let (mut sent, mut received) = (BTreeMap::new(), BTreeMap::new());
    let (mut left, mut message, mut idle) = (150, Message::default(), 0);
    while left > 0 || sent != received {
        idle += 1;
        assert!(idle < 5000, "stuck: {sent:?} {received:?}");
        let own = random.index(3);
        let channel = [0, 7][random.index(2)];
        match random.index(3) {
            0 if left > 0 => {
                let (to, from) = (random.index(3), [0, 7][random.index(2)]);
                let key = (own, from, to, channel);
                let count: &mut u64 = sent.entry(key).or_default();
                let bytes = content(*count ^ seed ^ u64::from(from) << 40);
                match nodes[own].outboxes[to].try_send(from, channel, &bytes) {
                    Ok(_) => (*count, left, idle) = (*count + 1, left - 1, 0),
                    Err(Refusal::FifoFull | Refusal::DeviceFull) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
            1 => nodes[own].deliver(),
            _ => {
                if nodes[own].inbox.take(channel, &mut message) {
                    let source = message.source;
                    let key = (usize::from(source.node), source.channel, own, channel);
                    let count: &mut u64 = received.entry(key).or_default();
                    assert_eq!(message.bytes, content(*count ^ seed ^ u64::from(source.channel) << 40));
                    (*count, idle) = (*count + 1, 0);
                }
            }
        }
        sent.retain(|_, count| *count > 0);
    }
    for node in &nodes {
        assert_eq!((node.inbox.counters.late, node.inbox.counters.invalid), (0, 0));
    }
}

#[test]
fn messages_arrive_whole_and_in_order_at_every_rate_of_evictions() {
    for rate in [None, Some(64), Some(4), Some(2)] {
        for seed in 0..20 {
            run(rate, seed);
        }
    }
}

#[test]
fn unread_device_blocks_only_its_senders() {
    let (_, mut nodes) = coherent(2);
    assert!(nodes[1].inbox.open(3) && nodes[1].inbox.open(4));
    let message = [1; FIFO_BYTES / 2 - HEADER_BYTES];
    for _ in 0..2 {
        assert_eq!(nodes[0].outboxes[1].try_send(0, 3, &message), Ok(false));
    }
    assert_eq!(nodes[0].outboxes[1].try_send(0, 4, &message), Err(Refusal::FifoFull));
    nodes[1].deliver();
    assert_eq!(nodes[0].outboxes[1].try_send(0, 3, &[]), Err(Refusal::DeviceFull));
    // Others are not blocked: another channel, and another sender.
    for round in 0..20_u8 {
        assert_eq!(nodes[0].outboxes[1].try_send(0, 4, &[round; 200]), Ok(false));
        nodes[1].deliver();
        let mut got = Message::default();
        assert!(nodes[1].inbox.take(4, &mut got));
        assert_eq!(got.bytes, [round; 200]);
    }
    assert_eq!(nodes[1].outboxes[1].try_send(0, 3, &[]), Ok(false));
    let mut got = Message::default();
    assert!(nodes[1].inbox.take(3, &mut got));
    assert_eq!(nodes[0].outboxes[1].try_send(0, 3, &message), Ok(false));
}

#[test]
fn message_to_closed_device_does_not_reach_the_next() {
    let (_, mut nodes) = coherent(2);
    assert_eq!(nodes[0].outboxes[1].try_send(0, 9, b"early"), Err(Refusal::NotOpen));
    assert!(nodes[1].inbox.open(9) && !nodes[1].inbox.open(9));
    nodes[0].outboxes[1].try_send(0, 9, b"first").unwrap();
    nodes[1].inbox.close(9);
    assert_eq!(nodes[0].outboxes[1].try_send(0, 9, b"closed"), Err(Refusal::NotOpen));
    assert!(nodes[1].inbox.open(9));
    nodes[0].outboxes[1].try_send(5, 9, b"second").unwrap();
    nodes[1].deliver();
    let mut got = Message::default();
    assert!(nodes[1].inbox.take(9, &mut got));
    assert_eq!((got.bytes.as_slice(), got.source), (&b"second"[..], Address { node: 0, channel: 5 }));
    assert!(!nodes[1].inbox.take(9, &mut got));
    assert_eq!(nodes[1].inbox.counters, Counters { delivered: 1, late: 1, invalid: 0 });
    assert!(!nodes[1].inbox.open(CHANNELS), "no such channel");
    assert_eq!(nodes[1].inbox.free_channel(), Some(0));
}

#[test]
fn sleeping_node_is_interrupted_once_per_sleep() {
    let (_, mut nodes) = coherent(2);
    nodes[1].inbox.open(0);
    nodes[1].inbox.arm();
    assert_eq!(nodes[0].outboxes[1].try_send(0, 0, b"wakes"), Ok(true));
    assert_eq!(nodes[0].outboxes[1].try_send(0, 0, b"does not"), Ok(false));
    assert_eq!(nodes[1].outboxes[1].try_send(0, 0, b"wakes, too"), Ok(true));
    nodes[1].inbox.arm();
    assert!(nodes[1].inbox.is_armed());
    assert_eq!(nodes[0].outboxes[1].try_send(0, 0, b"wakes again"), Ok(true));
    nodes[1].inbox.disarm();
    assert_eq!(nodes[1].outboxes[1].try_send(0, 0, b"is awake"), Ok(false));
}

#[test]
fn forged_messages_are_counted_and_refused() {
    let (memory, mut nodes) = coherent(2);
    nodes[1].inbox.open(2);
    let layout = Layout::new(2, FIFO_BYTES).unwrap();
    let fifo = memory.slice(layout.fifo_at(1, 0), layout.fifo().total_bytes()).unwrap();
    let mut hostile = Sender::new(&fifo, layout.fifo()).unwrap();
    let tag = |node, channel, target| {
        Tag { source: Address { node, channel }, channel: target, generation: 1 }.to_word()
    };
    for word in [tag(1, 0, 2), tag(0, CHANNELS, 2), tag(0, 0, CHANNELS)] {
        hostile.try_send(word, b"false").unwrap();
    }
    hostile.try_send(tag(0, 0, 3), b"not open").unwrap();
    for _ in 0..3 {
        // More than the device has room for.
        nodes[1].deliver();
        hostile.try_send(tag(0, 0, 2), &[0; 240]).unwrap();
    }
    nodes[1].deliver();
    assert_eq!(nodes[1].inbox.counters, Counters { delivered: 2, late: 1, invalid: 4 });
    // A FIFO with an inconsistent index.
    fifo.words()[7].store(u64::MAX, Ordering::Relaxed);
    assert_eq!(nodes[1].inbox.violation(0), None);
    nodes[1].deliver();
    assert!(matches!(nodes[1].inbox.violation(0), Some(Broken::Sent { .. })));
    assert!(nodes[1].inbox.violation(9).is_none());
    // A table whose count of taken lines decreases.
    let word = layout.devices(1, 0) / 8 + 2;
    let entry = Entry { generation: 1, taken_lines: 1 };
    memory.words()[word].store(entry.to_word().to_le(), Ordering::Relaxed);
    let refused = nodes[0].outboxes[1].try_send(0, 2, b"");
    assert!(matches!(refused, Err(Refusal::Broken(Broken::Taken { taken: 1, sent: 0, before: 0 }))));
}

#[test]
fn control_words_round_trip() {
    let tag = Tag { source: Address { node: 1, channel: 2 }, channel: 3, generation: 0xfffe };
    assert_eq!(tag.to_word(), 0xfffe_0003_0002_0001);
    assert_eq!(Tag::from_word(tag.to_word()), tag);
    let entry = Entry { generation: 0xffff, taken_lines: 5 };
    assert_eq!(Entry::from_word(entry.to_word()), entry);
    assert!(entry.is_open() && !Entry::default().is_open());
}
