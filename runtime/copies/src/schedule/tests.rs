use proptest::prelude::*;

use super::*;

fn bytes(region: u64, start: u64, length_bytes: u64) -> ByteRange {
    ByteRange { region, start, length_bytes }
}

fn copy(from: u64, to: u64, length_bytes: u64) -> Work {
    Work { reads: Some(bytes(1, from, length_bytes)), writes: bytes(1, to, length_bytes), fence: false }
}

fn fenced(work: Work) -> Work {
    Work { fence: true, ..work }
}

fn completions(schedule: &mut Schedule<()>) -> Vec<(u32, Option<CopyFault>)> {
    std::iter::from_fn(|| schedule.take_completion()).map(|end| (end.descriptor, end.fault)).collect()
}

fn take(schedule: &mut Schedule<()>) -> Option<Piece> {
    schedule.next().map(|(piece, ())| piece)
}

#[test]
fn clients_take_turns_by_pieces() {
    let mut schedule = Schedule::new();
    schedule.add(1, 10, copy(0, 1 << 40, 3 * PIECE_BYTES), ()).unwrap();
    schedule.add(2, 20, copy(1 << 41, 1 << 42, 100), ()).unwrap();
    let order: Vec<Piece> = std::iter::from_fn(|| take(&mut schedule)).collect();
    let clients: Vec<u64> = order.iter().map(|piece| piece.client).collect();
    assert_eq!(clients, [1, 2, 1, 1]);
    schedule.piece_ended(&order[1], None);
    assert_eq!(completions(&mut schedule), [(20, None)]);
    for piece in [order[0], order[3], order[2]] {
        assert!(schedule.take_completion().is_none());
        schedule.piece_ended(&piece, None);
    }
    assert_eq!(completions(&mut schedule), [(10, None)]);
    assert!(!schedule.is_ready() && schedule.queues.is_empty());
}

#[test]
fn fence_waits_for_earlier_descriptors_and_fails_with_them() {
    let mut schedule = Schedule::new();
    schedule.add(1, 1, copy(0, 100, 10), ()).unwrap();
    schedule.add(1, 2, copy(20, 200, 10), ()).unwrap();
    assert_eq!(schedule.add(1, 3, copy(100, 300, 10), ()), Err(CopyFault::IN_USE));
    schedule.add(1, 3, fenced(copy(100, 300, 10)), ()).unwrap();
    assert_eq!(schedule.add(1, 4, copy(300, 400, 10), ()), Err(CopyFault::IN_USE));
    schedule.add(1, 4, copy(40, 500, 10), ()).unwrap();
    let (one, two) = (take(&mut schedule).unwrap(), take(&mut schedule).unwrap());
    assert!(take(&mut schedule).is_none(), "behind a fence nothing starts before it");
    schedule.piece_ended(&two, None);
    assert!(take(&mut schedule).is_none());
    schedule.piece_ended(&one, Some(CopyFault::FAILED));
    let ended = [(2, None), (1, Some(CopyFault::FAILED)), (3, Some(CopyFault::EARLIER))];
    assert_eq!(completions(&mut schedule), ended);
    let four = take(&mut schedule).unwrap();
    schedule.piece_ended(&four, None);
    assert_eq!(completions(&mut schedule), [(4, None)]);
}

#[test]
fn fence_does_not_affect_other_clients() {
    let mut schedule = Schedule::new();
    schedule.add(1, 1, copy(0, 100, 10), ()).unwrap();
    assert_eq!(schedule.add(2, 1, fenced(copy(100, 200, 10)), ()), Err(CopyFault::IN_USE));
    schedule.add(2, 1, fenced(copy(300, 200, 10)), ()).unwrap();
    assert!(take(&mut schedule).is_some() && take(&mut schedule).is_some());
}

#[test]
fn cancelled_descriptor_stays_until_its_pieces_end() {
    let mut schedule = Schedule::new();
    schedule.add(1, 1, copy(0, 1 << 40, 2 * PIECE_BYTES), ()).unwrap();
    let piece = take(&mut schedule).unwrap();
    schedule.cancel(1, 1);
    assert!(completions(&mut schedule).is_empty() && take(&mut schedule).is_none());
    assert_eq!(schedule.add(2, 9, copy(0, 1 << 50, 10), ()), Ok(()), "both read");
    assert_eq!(schedule.add(2, 8, copy(100, 1 << 40, 10), ()), Err(CopyFault::IN_USE));
    schedule.remove_client(1);
    assert_eq!(schedule.add(2, 8, copy(100, 1 << 40, 10), ()), Err(CopyFault::IN_USE), "it is still written");
    schedule.piece_ended(&piece, None);
    assert!(completions(&mut schedule).is_empty(), "no client to tell");
    assert_eq!(schedule.add(2, 8, copy(100, 1 << 40, 10), ()), Ok(()));
}

#[test]
fn descriptors_per_client_are_limited() {
    let mut schedule = Schedule::new();
    for number in 0..MAX_DESCRIPTORS as u32 {
        let at = u64::from(number) * 100;
        schedule.add(1, number, copy(at, (1 << 40) + at, 100), ()).unwrap();
    }
    assert_eq!(schedule.add(1, 999, copy(1 << 41, 1 << 42, 1), ()), Err(CopyFault::TOO_MANY));
    assert_eq!(schedule.add(2, 0, copy(1 << 41, 1 << 42, 1), ()), Ok(()));
    assert_eq!(schedule.add(2, 0, copy(1 << 43, 1 << 44, 1), ()), Err(CopyFault::NUMBER_IN_USE));
    assert_eq!(schedule.add(2, 1, copy(1 << 43, (1 << 43) + 1, 2), ()), Err(CopyFault::OVERLAP));
}

#[test]
fn empty_copy_ends_in_order() {
    let mut schedule = Schedule::new();
    schedule.add(1, 1, copy(0, 100, 10), ()).unwrap();
    schedule.add(1, 2, fenced(copy(0, 100, 0)), ()).unwrap();
    schedule.add(1, 3, copy(0, 100, 0), ()).unwrap();
    assert_eq!(completions(&mut schedule), [(3, None)]);
    let piece = take(&mut schedule).unwrap();
    schedule.piece_ended(&piece, None);
    assert_eq!(completions(&mut schedule), [(1, None), (2, None)]);
}

#[derive(Clone, Debug)]
enum Step {
    Add { client: u64, fence: bool, from: u64, to: u64, length_bytes: u64 },
    Start,
    End { which: usize, fails: bool },
    Cancel { client: u64, which: u32 },
    Leave { client: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let add = (1..4u64, any::<bool>(), 0..64u64, 0..64u64, 0..12u64).prop_map(
        |(client, fence, from, to, length)| {
            let unit = PIECE_BYTES / 4;
            Step::Add { client, fence, from: from * unit, to: to * unit, length_bytes: length * unit }
        },
    );
    let end =
        (any::<usize>(), prop::bool::weighted(0.1)).prop_map(|(which, fails)| Step::End { which, fails });
    let cancel = (1..4u64, 0..64u32).prop_map(|(client, which)| Step::Cancel { client, which });
    prop_oneof![
        4 => add,
        4 => Just(Step::Start),
        4 => end,
        1 => cancel,
        1 => (1..4u64).prop_map(|client| Step::Leave { client }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::default())]
    /// In any sequence of steps, no two pieces in progress conflict, no piece starts before its fence
    /// permits, and each descriptor of a client that stays ends exactly once.
    #[test]
    fn nothing_conflicts_and_everything_ends_once(steps in prop::collection::vec(step(), 0..120)) {
        let mut schedule: Schedule<Work> = Schedule::new();
        let mut running: Vec<Piece> = Vec::new();
        let mut open: Vec<(u64, u32)> = Vec::new();
        let mut next = 0u32;
        let close = |schedule: &mut Schedule<Work>, open: &mut Vec<(u64, u32)>| {
            while let Some(end) = schedule.take_completion() {
                let at = open.iter().position(|it| *it == (end.client, end.descriptor));
                prop_assert!(at.is_some(), "{end:?} ended twice, or its client has left");
                open.remove(at.unwrap());
            }
            Ok(())
        };
        for step in steps {
            match step {
                Step::Add { client, fence, from, to, length_bytes } => {
                    let work = Work { fence, ..copy(from, to, length_bytes) };
                    if schedule.add(client, next, work, work).is_ok() {
                        open.push((client, next));
                        next += 1;
                    }
                }
                Step::Start => {
                    if let Some((piece, work)) = schedule.next() {
                        let work = *work;
                        for other in &running {
                            let other_work = *schedule.payload(other).expect("in progress");
                            prop_assert!(other.serial == piece.serial || !other_work.conflicts(&work));
                            let before = other.client == piece.client && other.serial < piece.serial;
                            prop_assert!(!(before && work.fence), "a fenced one started too early");
                        }
                        running.push(piece);
                    }
                }
                Step::End { which, fails } if !running.is_empty() => {
                    let piece = running.swap_remove(which % running.len());
                    schedule.piece_ended(&piece, fails.then_some(CopyFault::FAILED));
                }
                Step::End { .. } => {}
                Step::Cancel { client, which } => schedule.cancel(client, which),
                Step::Leave { client } => {
                    schedule.remove_client(client);
                    // Its number is not reused before all of its pieces have ended: a server numbers clients
                    // consecutively.
                    if schedule.queues.contains_key(&client) {
                        break;
                    }
                    open.retain(|(of, _)| *of != client);
                }
            }
            close(&mut schedule, &mut open)?;
        }
        let gone: Vec<u64> =
            schedule.queues.iter().filter(|(_, queue)| queue.removed).map(|(client, _)| *client).collect();
        open.retain(|(client, _)| !gone.contains(client));
        loop {
            running.extend(std::iter::from_fn(|| schedule.next().map(|(piece, _)| piece)));
            let Some(piece) = running.pop() else { break };
            schedule.piece_ended(&piece, None);
        }
        close(&mut schedule, &mut open)?;
        prop_assert!(open.is_empty() && schedule.queues.is_empty(), "{open:?}");
    }
}
