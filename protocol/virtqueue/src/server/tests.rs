use proptest::prelude::*;

use super::*;
use crate::requester::Requester;
use crate::wire::{Device, Features};

const BUFFER_BYTES: u64 = 4096;

fn disk(depth: u16) -> Configuration {
    let features = Features::FLUSH.and(Features::DISCARD);
    Configuration { device: Device::Block, features, depth, block_bytes: 512, capacity_bytes: 1 << 20 }
}

/// Returns both ends, after the configuration was requested.
fn ends(depth: u16) -> (Requester<u32>, Server) {
    let (mut requester, mut server) = (Requester::new(depth), Server::new(disk(depth)));
    let (_, asked) = requester.request((Operation::Configure, false), (0, 0), u64::MAX, 0).unwrap();
    assert!(!requester.has_room(), "nothing else is asked before the device has said what it is");
    let (request, allowed) = send_request(&mut server, &asked, BufferArrival::Empty).unwrap();
    assert_eq!(allowed, Ok(()));
    let answer = server.answer(&request, Status::Done).unwrap();
    requester.handle_answer(Message::decode(&answer).unwrap(), BufferArrival::Empty).unwrap();
    assert_eq!(requester.configuration(), Some(disk(depth)));
    (requester, server)
}

fn send_request(
    server: &mut Server,
    bytes: &[u8],
    arrival: BufferArrival,
) -> Result<(Request, Result<(), Status>), Violation> {
    server.handle_request(Message::decode(bytes)?, arrival, BUFFER_BYTES)
}

#[test]
fn answers_come_in_any_order_and_each_once() {
    let (mut requester, mut server) = ends(2);
    let read = |requester: &mut Requester<u32>, context| {
        requester.request((Operation::Read, false), (0, 512), 50, context).map(|(_, bytes)| bytes)
    };
    let (first, second) = (read(&mut requester, 1).unwrap(), read(&mut requester, 2).unwrap());
    assert_eq!(read(&mut requester, 3).unwrap_err().1, 3, "two at once");
    let (first, _) = send_request(&mut server, &first, BufferArrival::Empty).unwrap();
    let (second, _) = send_request(&mut server, &second, BufferArrival::Empty).unwrap();
    let answer = Message::decode(&server.answer(&second, Status::Done).unwrap()).unwrap();
    // A successful read returns exactly the requested length.
    for arrival in [BufferArrival::Empty, BufferArrival::Content(511)] {
        assert_eq!(requester.handle_answer(answer, arrival), Err(Violation::Buffer(Operation::Read)));
    }
    let done = requester.handle_answer(answer, BufferArrival::Content(512)).unwrap();
    assert_eq!((done.context, done.status), (2, Status::Done));
    assert_eq!(requester.handle_answer(answer, BufferArrival::Content(512)), Err(Violation::Tag(second.tag)));
    assert_eq!(server.answer(&second, Status::Done), Err(NotInFlight(second.tag)));
    // A slot that is used again has another tag.
    let third = read(&mut requester, 3).unwrap();
    let (third, _) = send_request(&mut server, &third, BufferArrival::Empty).unwrap();
    assert_ne!(third.tag, second.tag);
    let answer = Message::decode(&server.answer(&first, Status::Failed).unwrap()).unwrap();
    assert_eq!(requester.handle_answer(answer, BufferArrival::Empty).unwrap().context, 1);
    assert!(!requester.has_overdue(49) && requester.has_overdue(50));
    assert_eq!((requester.reset(), requester.in_flight()), (vec![3], 0));
    let late = Message::Completion(Completion { tag: third.tag, status: Status::Failed });
    assert_eq!(requester.handle_answer(late, BufferArrival::Empty), Err(Violation::Tag(third.tag)));
}

#[test]
fn peer_violations_are_reported() {
    let request = |tag, operation, length_bytes| {
        let request = Request { tag, operation, durable: false, offset_bytes: 0, length_bytes };
        Message::Request(request)
    };
    let read = |tag| request(tag, Operation::Read, 512);
    let mut fresh = Server::new(disk(2));
    assert_eq!(fresh.handle_request(read(1), BufferArrival::Empty, BUFFER_BYTES), Err(Violation::OutOfTurn));
    let (_, mut server) = ends(2);
    let mut handle = |message, arrival| server.handle_request(message, arrival, BUFFER_BYTES).map(|_| ());
    assert_eq!(handle(request(1, Operation::Configure, 0), BufferArrival::Empty), Err(Violation::OutOfTurn));
    let completion = Message::Completion(Completion { tag: 1, status: Status::Done });
    assert_eq!(handle(completion, BufferArrival::Empty), Err(Violation::Direction));
    for (message, arrival) in [
        (request(1, Operation::Write, 512), BufferArrival::Empty),
        (request(1, Operation::Write, 512), BufferArrival::Content(511)),
        (request(1, Operation::Read, 512), BufferArrival::Content(512)),
        (request(1, Operation::Read, BUFFER_BYTES + 1), BufferArrival::Empty),
        (request(1, Operation::Flush, 0), BufferArrival::Content(0)),
    ] {
        assert!(matches!(handle(message, arrival), Err(Violation::Buffer(_))), "{message:?} {arrival:?}");
    }
    assert_eq!(handle(read(1), BufferArrival::Empty), Ok(()));
    assert_eq!(handle(read(1), BufferArrival::Empty), Err(Violation::DuplicateTag(1)));
    assert_eq!(handle(read(2), BufferArrival::Empty), Ok(()));
    assert_eq!(handle(read(3), BufferArrival::Empty), Err(Violation::Depth(2)));
    let (mut requester, _) = ends(2);
    assert_eq!(requester.handle_answer(read(0), BufferArrival::Empty), Err(Violation::Direction));
}

/// Step of one of the two sides of a run.
#[derive(Clone, Debug)]
enum Step {
    Ask(bool),
    /// The server answers one of the open requests.
    Answer(usize, bool),
    /// A message of any content, to either side.
    Noise(bool, [u8; 8]),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<bool>().prop_map(Step::Ask),
        (any::<usize>(), any::<bool>()).prop_map(|(which, done)| Step::Answer(which, done)),
        (any::<bool>(), any::<[u8; 8]>()).prop_map(|(up, bytes)| Step::Noise(up, bytes)),
    ]
}

proptest! {
    /// Buffers are counted: each request takes one, and each comes back with exactly one answer, for any
    /// messages of a peer in between.
    #[test]
    fn no_buffer_is_lost_or_comes_back_twice(steps in proptest::collection::vec(step(), 0..200)) {
        let (mut requester, mut server) = ends(4);
        let mut open: Vec<Request> = Vec::new();
        let (mut sent, mut back) = (0_u32, Vec::new());
        for step in steps {
            match step {
                Step::Ask(write) => {
                    let (operation, arrival) =
                        if write { (Operation::Write, BufferArrival::Content(512)) } else { (Operation::Read, BufferArrival::Empty) };
                    match requester.request((operation, false), (0, 512), u64::MAX, sent) {
                        Ok((_, bytes)) => {
                            sent += 1;
                            open.push(send_request(&mut server, &bytes, arrival).unwrap().0);
                        }
                        Err(_) => prop_assert_eq!(requester.in_flight(), 4),
                    }
                }
                Step::Answer(..) if open.is_empty() => {}
                Step::Answer(which, done) => {
                    let request = open.swap_remove(which % open.len());
                    let status = if done { Status::Done } else { Status::Failed };
                    let answer = Message::decode(&server.answer(&request, status).unwrap()).unwrap();
                    let has_content = done && request.operation == Operation::Read;
                    let arrival = if has_content { BufferArrival::Content(512) } else { BufferArrival::Empty };
                    back.push(requester.handle_answer(answer, arrival).unwrap().context);
                }
                Step::Noise(up, bytes) => {
                    let mut noise = [0; MESSAGE_BYTES];
                    noise[..8].copy_from_slice(&bytes);
                    // Uses tags that were never issued, so that requests in flight are not answered by
                    // chance.
                    noise[7] |= 0x80;
                    if let Ok(message) = Message::decode(&noise) {
                        if up {
                            prop_assert!(requester.handle_answer(message, BufferArrival::Empty).is_err());
                        } else if let Ok((request, _)) = server.handle_request(message, BufferArrival::Empty, BUFFER_BYTES) {
                            server.answer(&request, Status::Failed).unwrap();
                        }
                    }
                }
            }
            prop_assert_eq!((server.unanswered(), requester.in_flight()), (open.len(), open.len()));
        }
        back.extend(requester.reset());
        back.sort_unstable();
        prop_assert_eq!(back, (0..sent).collect::<Vec<_>>());
    }
}
