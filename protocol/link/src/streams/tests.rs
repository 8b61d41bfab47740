use proptest::prelude::*;

use super::*;

/// Carries the bytes that one side has for the link to the other, in pieces of this size.
fn carry(from: &mut Streams, to: &mut Streams, piece_bytes: usize) -> Result<(), StreamsError> {
    let bytes = from.outgoing().to_vec();
    from.consume_outgoing(bytes.len());
    bytes.chunks(piece_bytes.max(1)).try_for_each(|piece| to.receive(piece))
}

fn run_until_idle(a: &mut Streams, b: &mut Streams) {
    while !(a.outgoing().is_empty() && b.outgoing().is_empty()) {
        carry(a, b, 7).unwrap();
        carry(b, a, 1000).unwrap();
    }
}

fn take(side: &mut Streams, stream: u64) -> Vec<u8> {
    let mut all = Vec::new();
    while !side.pending(stream).is_empty() {
        let part = side.pending(stream).to_vec();
        side.consume_pending(stream, part.len());
        all.extend(part);
    }
    all
}

#[test]
fn frames_are_golden() {
    let (mut a, mut b) = (Streams::new(), Streams::new());
    a.open(0x0102);
    assert_eq!(a.outgoing(), b"\x02\x01\0\0\0\0\0\0\x01\0\0\0\0\0\x04\0");
    assert_eq!(a.send(0x0102, b"early"), 0, "the far side has not opened it");
    b.open(0x0102);
    run_until_idle(&mut a, &mut b);
    assert_eq!(a.send(0x0102, b"abc"), 3);
    assert_eq!(a.outgoing(), b"\x02\x01\0\0\0\0\0\0\x02\0\0\0\x03\0\0\0abc");
    run_until_idle(&mut a, &mut b);
    assert_eq!(take(&mut b, 0x0102), b"abc");
    a.end(0x0102);
    assert_eq!(a.outgoing(), b"\x02\x01\0\0\0\0\0\0\x04\0\0\0\0\0\0\0");
}

#[test]
fn stalled_reader_blocks_only_its_own_sender() {
    let (mut a, mut b) = (Streams::new(), Streams::new());
    for stream in [1, 2] {
        a.open(stream);
        b.open(stream);
    }
    run_until_idle(&mut a, &mut b);
    let mut sent = 0;
    loop {
        let count = a.send(1, &[7; MAX_DATA_BYTES]);
        sent += count;
        if count == 0 {
            break;
        }
        run_until_idle(&mut a, &mut b);
    }
    assert_eq!(sent, WINDOW_BYTES as usize);
    assert_eq!(a.send(2, b"still"), 5);
    run_until_idle(&mut a, &mut b);
    assert_eq!(take(&mut b, 2), b"still");
    assert_eq!(take(&mut b, 1).len(), sent);
    run_until_idle(&mut a, &mut b);
    assert_eq!(a.send(1, b"again"), 5);
}

#[test]
fn outgoing_backlog_is_bounded() {
    let (mut a, mut b) = (Streams::new(), Streams::new());
    for stream in 0..64 {
        a.open(stream);
        b.open(stream);
    }
    run_until_idle(&mut a, &mut b);
    for stream in 0..64 {
        a.send(stream, &[1; MAX_DATA_BYTES]);
    }
    assert!(a.outgoing().len() <= MAX_WAITING_BYTES + MAX_DATA_BYTES + HEAD_BYTES);
}

#[test]
fn data_sent_before_an_end_arrives() {
    let (mut a, mut b) = (Streams::new(), Streams::new());
    a.open(1);
    b.open(1);
    run_until_idle(&mut a, &mut b);
    a.send(1, b"last words");
    a.end(1);
    run_until_idle(&mut a, &mut b);
    assert!(!b.is_done(1));
    assert_eq!(take(&mut b, 1), b"last words");
    assert!(b.is_done(1));
    b.end(1);
    run_until_idle(&mut a, &mut b);
    assert_eq!((a.count(), b.count()), (0, 0));
}

#[test]
fn end_of_an_unopened_stream_ends_the_remote_one() {
    let (mut a, mut b) = (Streams::new(), Streams::new());
    a.open(1);
    b.end(1);
    run_until_idle(&mut a, &mut b);
    assert!(a.is_done(1));
    a.end(1);
    run_until_idle(&mut a, &mut b);
    assert_eq!((a.count(), b.count()), (0, 0));
    // The other order: it has ended before this side opens it.
    b.end(2);
    run_until_idle(&mut a, &mut b);
    a.open(2);
    assert!(a.is_done(2));
    a.end(2);
    run_until_idle(&mut a, &mut b);
    assert_eq!((a.count(), b.count()), (0, 0));
}

#[test]
fn protocol_violations_are_refused() {
    let frame = |stream: u64, kind: u32, count: u32| {
        let mut bytes = Vec::new();
        push(&mut bytes, stream, kind, count, &[]);
        bytes
    };
    let fresh = || {
        let (mut a, mut b) = (Streams::new(), Streams::new());
        a.open(1);
        b.open(1);
        run_until_idle(&mut a, &mut b);
        a
    };
    let no_room =
        |stream, length_bytes, room_bytes| StreamsError::NoRoom { stream, length_bytes, room_bytes };
    for (bytes, error) in [
        (frame(1, 9, 0), StreamsError::Kind(9)),
        (frame(1, DATA, 1 + MAX_DATA_BYTES as u32), StreamsError::Length(1 + MAX_DATA_BYTES as u32)),
        (frame(2, DATA, 1), no_room(2, 1, 0)),
        (frame(1, OPEN, 1), StreamsError::State { stream: 1, kind: OPEN }),
        (frame(2, OPEN, WINDOW_BYTES + 1), StreamsError::State { stream: 2, kind: OPEN }),
        (frame(1, ROOM, 1), StreamsError::State { stream: 1, kind: ROOM }),
        (frame(2, ROOM, 0), StreamsError::State { stream: 2, kind: ROOM }),
    ] {
        assert_eq!(fresh().receive(&bytes), Err(error));
    }
    let mut side = fresh();
    assert_eq!(side.receive(&frame(1, END, 0)), Ok(()));
    assert_eq!(side.receive(&frame(1, DATA, 1)), Err(no_room(1, 1, 0)));
    let mut side = Streams::new();
    let many = (0..=MAX_UNACCEPTED as u64).map(|stream| side.receive(&frame(stream, OPEN, 0)));
    let outcomes: Vec<_> = many.collect();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_err()).count(), 1);
    assert_eq!(outcomes.last(), Some(&Err(StreamsError::TooMany)));
}

#[derive(Clone, Debug)]
enum Step {
    Open(bool, u64),
    End(bool, u64),
    Send(bool, u64, u16),
    Deliver(bool, u64, u16),
    Carry(bool, u16),
}

fn step() -> impl Strategy<Value = Step> {
    let at = || (any::<bool>(), 0..3_u64);
    prop_oneof![
        2 => at().prop_map(|(side, stream)| Step::Open(side, stream)),
        1 => at().prop_map(|(side, stream)| Step::End(side, stream)),
        6 => (at(), any::<u16>()).prop_map(|((side, stream), count)| Step::Send(side, stream, count)),
        6 => (at(), any::<u16>()).prop_map(|((side, stream), count)| Step::Deliver(side, stream, count)),
        8 => (any::<bool>(), any::<u16>()).prop_map(|(side, count)| Step::Carry(side, count)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 96, ..ProptestConfig::default() })]

    /// For any actions of the two sides, neither considers the other broken, bytes arrive in order and once,
    /// no more than the window waits, and in the end no state is left.
    #[test]
    fn two_sides_agree(steps in prop::collection::vec(step(), 0..120)) {
        let mut sides = [Streams::new(), Streams::new()];
        // By sending side and stream: bytes sent, and how many of them were taken by the receiver.
        let mut sent = [[0_u32; 3]; 2];
        let mut taken = [[0_u32; 3]; 2];
        let mut ended = [[false; 3]; 2];
        let mut opened = [[false; 3]; 2];
        for step in steps {
            match step {
                Step::Open(side, stream) => {
                    let (at, number) = (usize::from(side), stream as usize);
                    // A monitor opens a number once.
                    if !opened[at][number] && !ended[at][number] {
                        opened[at][number] = true;
                        sides[at].open(stream);
                    }
                }
                Step::End(side, stream) => {
                    let (at, number) = (usize::from(side), stream as usize);
                    if !ended[at][number] {
                        ended[at][number] = true;
                        sides[at].end(stream);
                    }
                }
                Step::Send(side, stream, count) => {
                    let at = usize::from(side);
                    let first = sent[at][stream as usize];
                    let bytes: Vec<u8> = (first..first + u32::from(count)).map(|it| it as u8).collect();
                    sent[at][stream as usize] += sides[at].send(stream, &bytes) as u32;
                }
                Step::Deliver(side, stream, count) => {
                    let at = usize::from(side);
                    let part = sides[at].pending(stream);
                    let part = part[..part.len().min(count.into())].to_vec();
                    sides[at].consume_pending(stream, part.len());
                    let total = &mut taken[1 - at][stream as usize];
                    for byte in part {
                        prop_assert_eq!(byte, *total as u8);
                        *total += 1;
                    }
                    prop_assert!(*total <= sent[1 - at][stream as usize]);
                }
                Step::Carry(side, count) => {
                    let at = usize::from(side);
                    let bytes = sides[at].outgoing();
                    let bytes = bytes[..bytes.len().min(count.into())].to_vec();
                    sides[at].consume_outgoing(bytes.len());
                    prop_assert_eq!(sides[1 - at].receive(&bytes), Ok(()));
                }
            }
            for side in &sides {
                for record in side.streams.values() {
                    prop_assert!(record.pending.len() <= WINDOW_BYTES as usize);
                }
            }
        }
        for stream in 0..3 {
            for (side, ended) in sides.iter_mut().zip(&ended) {
                if !ended[stream as usize] {
                    side.end(stream);
                }
            }
        }
        let [a, b] = &mut sides;
        run_until_idle(a, b);
        prop_assert_eq!((a.count(), b.count(), a.unaccepted, b.unaccepted), (0, 0, 0, 0));
    }

    /// No input makes a side panic or keep more than its window.
    #[test]
    fn any_bytes_are_refused_or_bounded(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        let mut side = Streams::new();
        side.open(1);
        let _ = side.receive(&bytes);
        prop_assert!(side.pending(1).len() <= WINDOW_BYTES as usize);
    }
}
