//! Messages of a peer on a device channel.

use tombolo_virtqueue::{
    BufferArrival, Configuration, Device, Features, Message, Operation, Request, Requester, Server, Status,
};

use crate::read::Choices;

const BUFFER_BYTES: u64 = 4096;

fn disk() -> Configuration {
    let features = Features::FLUSH.and(Features::ZERO);
    Configuration { device: Device::Block, features, depth: 4, block_bytes: 512, capacity_bytes: 1 << 20 }
}

/// Feeds both sides of a queue the messages of a peer. The server answers requests, and each request of the
/// requester must come back exactly once.
pub(super) fn queue(input: &[u8]) {
    let mut choices = Choices::new(input);
    let (mut requester, mut server) = (Requester::new(8), Server::new(disk()));
    let mut made = 0_u32;
    let mut back = Vec::new();
    while !choices.is_empty() {
        let what = if requester.configuration().is_none() { Operation::Configure } else { Operation::Read };
        if let Ok((_, bytes)) = requester.request((what, false), (0, 512), u64::MAX, made) {
            made += 1;
            assert!(Message::decode(&bytes).is_ok());
        }
        let content = choices.byte();
        let arrival =
            if content == 0 { BufferArrival::Empty } else { BufferArrival::Content(u64::from(content) * 64) };
        let piece = choices.piece();
        let Ok(message) = Message::decode(piece) else { continue };
        assert_eq!(message.encode(), piece, "what is decoded is what would be encoded");
        if let Ok(done) = requester.handle_answer(message, arrival) {
            back.push(done.context);
        }
        if let Ok((request, allowed)) = server.handle_request(message, arrival, BUFFER_BYTES) {
            let in_device = request.offset_bytes.checked_add(request.length_bytes);
            let is_data = matches!(request.operation, Operation::Read | Operation::Write | Operation::Zero);
            assert!(allowed.is_err() || !is_data || in_device.is_some_and(|end| end <= 1 << 20));
            if content.is_multiple_of(2) {
                server.answer(&request, Status::Failed).expect("it is open");
                server.answer(&request, Status::Done).expect_err("it was answered");
            }
        }
        assert!(server.unanswered() <= 4 && requester.in_flight() <= 8);
    }
    back.extend(requester.reset());
    back.sort_unstable();
    assert_eq!(back, (0..made).collect::<Vec<_>>(), "each request comes back once");
}

pub(super) fn queue_seeds() -> Vec<Vec<u8>> {
    let request = |tag, operation, length_bytes| {
        Message::Request(Request { tag, operation, durable: false, offset_bytes: 512, length_bytes })
    };
    let completion = |tag, status| Message::Completion(tombolo_virtqueue::Completion { tag, status });
    let messages = [
        (0, request(1, Operation::Configure, 0)),
        (0, Message::Configured(0, disk())),
        (0, request(2, Operation::Read, 512)),
        (8, request(3, Operation::Write, 512)),
        (8, completion(0x1_0000, Status::Done)),
        (0, completion(1, Status::Failed)),
        (0, request(4, Operation::Flush, 0)),
    ];
    let bytes = messages.iter().flat_map(|(content, message)| {
        let message = message.encode();
        [*content, message.len() as u8, 0].into_iter().chain(message)
    });
    vec![bytes.collect()]
}
