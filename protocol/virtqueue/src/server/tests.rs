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
    let (request, allowed) = ask(&mut server, &asked, Brought::Empty).unwrap();
    assert_eq!(allowed, Ok(()));
    let answer = server.answer(&request, Status::Done).unwrap();
    requester.answered(Message::decode(&answer).unwrap(), Brought::Empty).unwrap();
    assert_eq!(requester.configuration(), Some(disk(depth)));
    (requester, server)
}

fn ask(
    server: &mut Server,
    bytes: &[u8],
    brought: Brought,
) -> Result<(Request, Result<(), Status>), Violation> {
    server.asked(Message::decode(bytes)?, brought, BUFFER_BYTES)
}

#[test]
fn answers_come_in_any_order_and_each_once() {
    let (mut requester, mut server) = ends(2);
    let read = |requester: &mut Requester<u32>, context| {
        requester.request((Operation::Read, false), (0, 512), 50, context).map(|(_, bytes)| bytes)
    };
    let (first, second) = (read(&mut requester, 1).unwrap(), read(&mut requester, 2).unwrap());
    assert_eq!(read(&mut requester, 3).unwrap_err().1, 3, "two at once");
    let (first, _) = ask(&mut server, &first, Brought::Empty).unwrap();
    let (second, _) = ask(&mut server, &second, Brought::Empty).unwrap();
    let answer = Message::decode(&server.answer(&second, Status::Done).unwrap()).unwrap();
    // A successful read returns exactly the requested length.
    for brought in [Brought::Empty, Brought::Content(511)] {
        assert_eq!(requester.answered(answer, brought), Err(Violation::Buffer(Operation::Read)));
    }
    let done = requester.answered(answer, Brought::Content(512)).unwrap();
    assert_eq!((done.context, done.status), (2, Status::Done));
    assert_eq!(requester.answered(answer, Brought::Content(512)), Err(Violation::Tag(second.tag)));
    assert_eq!(server.answer(&second, Status::Done), Err(Unanswerable(second.tag)));
    // A slot that is used again has another tag.
    let third = read(&mut requester, 3).unwrap();
    let (third, _) = ask(&mut server, &third, Brought::Empty).unwrap();
    assert_ne!(third.tag, second.tag);
    let answer = Message::decode(&server.answer(&first, Status::Failed).unwrap()).unwrap();
    assert_eq!(requester.answered(answer, Brought::Empty).unwrap().context, 1);
    assert!(!requester.overdue(49) && requester.overdue(50));
    assert_eq!((requester.lost(), requester.under_way()), (vec![3], 0));
    let late = Message::Completion(Completion { tag: third.tag, status: Status::Failed });
    assert_eq!(requester.answered(late, Brought::Empty), Err(Violation::Tag(third.tag)));
}

#[test]
fn a_peer_that_breaks_the_protocol() {
    let request = |tag, operation, length_bytes| {
        let request = Request { tag, operation, durable: false, offset_bytes: 0, length_bytes };
        Message::Request(request)
    };
    let read = |tag| request(tag, Operation::Read, 512);
    let mut fresh = Server::new(disk(2));
    assert_eq!(fresh.asked(read(1), Brought::Empty, BUFFER_BYTES), Err(Violation::OutOfTurn));
    let (_, mut server) = ends(2);
    let mut asked = |message, brought| server.asked(message, brought, BUFFER_BYTES).map(|_| ());
    assert_eq!(asked(request(1, Operation::Configure, 0), Brought::Empty), Err(Violation::OutOfTurn));
    let completion = Message::Completion(Completion { tag: 1, status: Status::Done });
    assert_eq!(asked(completion, Brought::Empty), Err(Violation::Direction));
    for (message, brought) in [
        (request(1, Operation::Write, 512), Brought::Empty),
        (request(1, Operation::Write, 512), Brought::Content(511)),
        (request(1, Operation::Read, 512), Brought::Content(512)),
        (request(1, Operation::Read, BUFFER_BYTES + 1), Brought::Empty),
        (request(1, Operation::Flush, 0), Brought::Content(0)),
    ] {
        assert!(matches!(asked(message, brought), Err(Violation::Buffer(_))), "{message:?} {brought:?}");
    }
    assert_eq!(asked(read(1), Brought::Empty), Ok(()));
    assert_eq!(asked(read(1), Brought::Empty), Err(Violation::Twice(1)));
    assert_eq!(asked(read(2), Brought::Empty), Ok(()));
    assert_eq!(asked(read(3), Brought::Empty), Err(Violation::Depth(2)));
    let (mut requester, _) = ends(2);
    assert_eq!(requester.answered(read(0), Brought::Empty), Err(Violation::Direction));
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
                    let (operation, brought) =
                        if write { (Operation::Write, Brought::Content(512)) } else { (Operation::Read, Brought::Empty) };
                    match requester.request((operation, false), (0, 512), u64::MAX, sent) {
                        Ok((_, bytes)) => {
                            sent += 1;
                            open.push(ask(&mut server, &bytes, brought).unwrap().0);
                        }
                        Err(_) => prop_assert_eq!(requester.under_way(), 4),
                    }
                }
                Step::Answer(..) if open.is_empty() => {}
                Step::Answer(which, done) => {
                    let request = open.swap_remove(which % open.len());
                    let status = if done { Status::Done } else { Status::Failed };
                    let answer = Message::decode(&server.answer(&request, status).unwrap()).unwrap();
                    let has_content = done && request.operation == Operation::Read;
                    let brought = if has_content { Brought::Content(512) } else { Brought::Empty };
                    back.push(requester.answered(answer, brought).unwrap().context);
                }
                Step::Noise(up, bytes) => {
                    let mut noise = [0; MESSAGE_BYTES];
                    noise[..8].copy_from_slice(&bytes);
                    // Uses tags that were never issued, so that requests in flight are not answered by
                    // chance.
                    noise[7] |= 0x80;
                    if let Ok(message) = Message::decode(&noise) {
                        if up {
                            prop_assert!(requester.answered(message, Brought::Empty).is_err());
                        } else if let Ok((request, _)) = server.asked(message, Brought::Empty, BUFFER_BYTES) {
                            server.answer(&request, Status::Failed).unwrap();
                        }
                    }
                }
            }
            prop_assert_eq!((server.open(), requester.under_way()), (open.len(), open.len()));
        }
        back.extend(requester.lost());
        back.sort_unstable();
        prop_assert_eq!(back, (0..sent).collect::<Vec<_>>());
    }
}
