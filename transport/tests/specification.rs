//! The bytes of a stream shown in `docs/specs/channel.md` match the bytes that are sent.

use std::num::NonZeroU16;
use std::os::fd::AsFd;
use std::time::Duration;

use tombolo_base::{DomainId, NodeId};
use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::Deadline;
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::socket::{self, SocketKind};
use tombolo_ring::{SlotSize, Variant};
use tombolo_transport::{StreamChannel, Transport};

fn specified_bytes() -> Vec<u8> {
    let specification = include_str!("../../docs/specs/channel.md");
    let section = specification.split("\n## ").find(|section| section.starts_with("Streams")).unwrap();
    let dump = section.split("```").nth(1).unwrap();
    let hex = |line: &str| -> Vec<u8> {
        line.split_whitespace().skip(1).map_while(|word| u8::from_str_radix(word, 16).ok()).collect()
    };
    dump.lines().flat_map(hex).collect()
}

#[test]
fn a_stream_matches_the_specification() {
    let config = ChannelConfig::new(SlotSize::B32, 4, Variant::EpochCredit).unwrap();
    let domain = DomainId::new(NodeId(1), NonZeroU16::new(2).unwrap(), 3);
    let hello = Hello::new(config, 0x1122_3344_5566_7788, Some(domain));
    let (ours, theirs) = socket::pair(SocketKind::Stream).unwrap();
    let mut peer = hello.to_bytes().to_vec();
    peer.extend_from_slice(&1_u64.to_le_bytes());
    socket::send(&ours, &peer, &[]).unwrap();
    let deadline = Deadline::after(Duration::from_secs(30));
    // Barriers do not apply to a stream.
    let hello = Hello { expedited_barrier: true, ..hello };
    let mut channel = StreamChannel::open(theirs, hello, deadline).unwrap();
    channel.try_send(b"to B").unwrap();
    channel.try_send(b"").unwrap();
    drop(channel);

    let (mut sent, mut buffer) = (Vec::new(), [0; 256]);
    loop {
        assert!(poll(&[(ours.as_fd(), Interest::Read)], Some(deadline)).unwrap()[0].any());
        match socket::receive(&ours, &mut buffer).unwrap().length {
            0 => break,
            length => sent.extend_from_slice(&buffer[..length]),
        }
    }
    assert_eq!(sent, specified_bytes());
}
