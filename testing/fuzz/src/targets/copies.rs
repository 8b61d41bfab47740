//! Commands of a peer for copies across a channel.

use std::time::Duration;

use tombolo_base::SharedMemory;
use tombolo_engine::far::{Access, Offers, Server};
use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::{Deadline, socket};
use tombolo_transport::{ChannelError, StreamChannel};

const BYTES: usize = 4096;
const MARK: u8 = 0x5A;

/// Feeds a server the bytes of a stream peer, its hello included. The server offers one memory for reading
/// and one for writing; the private memory between them must stay unreachable.
pub(super) fn commands(input: &[u8]) {
    let Ok((theirs, own)) = socket::pair(socket::SocketKind::Stream) else { return };
    if socket::send(&theirs, input, &[]).is_err()
        || rustix::net::shutdown(&theirs, rustix::net::Shutdown::Write).is_err()
    {
        return;
    }
    let hello = Hello::new(ChannelConfig::default(), 0, None);
    let until = Deadline::after(Duration::from_secs(10));
    let Ok(channel) = StreamChannel::open(own, hello, until) else { return };
    let all = SharedMemory::zeroed(3 * BYTES);
    let part = |index: usize| all.slice(index * BYTES, BYTES).expect("it lies inside");
    let (readable, writable, private) = (part(0), part(2), part(1));
    for memory in [&readable, &private] {
        memory.copy_in(0, &[MARK; BYTES]).expect("it fits");
    }
    let mut offers = Offers::new();
    offers.offer(readable.clone(), Access::Read).expect("the first");
    offers.offer(writable, Access::Write).expect("the second");
    let mut server = Server::new(channel, offers);
    let mut drain = vec![0; 4 * BYTES];
    // Each command consumes at least one byte of the input.
    for _ in 0..=input.len() {
        match server.serve_one(Duration::ZERO) {
            // Reads the answers, to make room for the next.
            Ok(()) => while matches!(socket::receive(&theirs, &mut drain), Ok(heard) if heard.length > 0) {},
            Err(ChannelError::Closed | ChannelError::PeerDied | ChannelError::Violation(_)) => break,
            Err(error) => panic!("{error:?}"),
        }
    }
    for (memory, what) in
        [(readable, "what may be read was written"), (private, "what is private was written")]
    {
        let mut bytes = [0; BYTES];
        memory.copy_out(0, &mut bytes).expect("it fits");
        assert!(bytes.iter().all(|byte| *byte == MARK), "{what}");
    }
}

pub(super) fn commands_seeds() -> Vec<Vec<u8>> {
    let command = |kind: u32, option: u32, length: u64, source: [u64; 2], target: [u64; 2], behind: &[u8]| {
        let mut message = Vec::new();
        message.extend(kind.to_le_bytes());
        message.extend(option.to_le_bytes());
        message.extend(length.to_le_bytes());
        for word in source.into_iter().chain(target) {
            message.extend(word.to_le_bytes());
        }
        message.extend(behind);
        message
    };
    let nothing = [0, 0];
    // First word: index in the low half, generation in the high half.
    let (readable, writable) = (|at| [1 << 32, at], |at| [1 << 32 | 1, at]);
    let orders = [
        command(1, 0, 5, nothing, writable(100), b"bytes"),
        command(2, 0, 64, readable(4032), nothing, b""),
        command(3, 0xEE, 4096, nothing, writable(0), b""),
        command(4, 0, 2048, readable(1), writable(7), b""),
        command(4, 1 << 8, 1 << 40, readable(0), writable(0), b""),
        command(1, 0, 1, nothing, readable(0), b"x"),
    ];
    let mut seed = Hello::new(ChannelConfig::default(), 0, None).to_bytes().to_vec();
    // The verdict.
    seed.extend(1_u64.to_le_bytes());
    let mut seeds = Vec::new();
    for order in orders {
        seed.extend((order.len() as u32).to_le_bytes());
        seed.extend(order);
        seeds.push(seed.clone());
    }
    seeds
}
