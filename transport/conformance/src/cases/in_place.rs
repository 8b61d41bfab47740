//! Messages read and written in place, and batches: the same on every transport.

use tombolo_ring::SlotSize;
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{ChannelError, Draft, EndError, Message, NotAdded, Transport, TransportExt};

use crate::carrier::shape;
use crate::patience::{expect_in_time, patience};
use crate::subject::{Pair, Subject};

const SLOTS: u32 = 8;

/// Returns a channel of each variant.
fn channels(subject: &Subject) -> impl Iterator<Item = Pair> {
    subject.variants().map(|variant| subject.pair(shape(SlotSize::B64, SLOTS, variant)))
}

/// Receives by polling, because a stream takes time.
fn received<T: Transport, R>(channel: &mut T, mut read: impl FnMut(&Message<'_>) -> R) -> R {
    expect_in_time(|| wait::recv_in_place(channel, &mut Spin::default(), patience(), &mut read)).unwrap()
}

fn write(draft: &mut Draft<'_>, byte: u8) {
    let bytes = vec![byte; draft.len()];
    draft.write_at(0, &bytes).unwrap();
    if draft.len() >= 8 {
        draft.write_u64_le(0, u64::from(byte)).unwrap();
    }
}

pub(crate) fn in_place_writes_are_read_in_place(subject: &Subject) {
    for (mut a, mut b) in channels(subject) {
        for (byte, length_bytes) in (1..).zip([0, 1, 8, 55, 56, 57, 64, 200, 8 * 56]) {
            a.try_send_in_place(length_bytes, |draft| write(draft, byte)).unwrap();
            received(&mut b, |message| {
                assert_eq!((message.len(), message.is_empty()), (length_bytes, length_bytes == 0));
                let bytes = message.to_vec();
                if length_bytes >= 8 {
                    assert_eq!(message.read_u64_le(0), Ok(u64::from(byte)));
                    assert!(bytes[8..].iter().all(|found| *found == byte));
                    let mut last = [0];
                    message.read_at(length_bytes - 1, &mut last).unwrap();
                    assert_eq!(last[0], *bytes.last().unwrap());
                } else {
                    assert_eq!(bytes, vec![byte; length_bytes]);
                }
                assert!(message.read_u64_le(length_bytes).is_err());
            });
        }
        assert_eq!(b.stats().messages_received, 9);
    }
}

pub(crate) fn a_batch_arrives_whole_and_in_order(subject: &Subject) {
    for (mut a, mut b) in channels(subject) {
        assert_eq!(a.try_send_batch(|_| ()).unwrap(), 0);
        for start in [0, 100] {
            let sent = a.try_send_batch(|batch| {
                for number in start..start + 3_u64 {
                    batch.push(&number.to_le_bytes()).unwrap();
                }
                // The same as words: one, an even number, and as many as fit in a slot.
                batch.push_words([start + 3]).unwrap();
                batch.push_words([start + 4, 1, 2, 3]).unwrap();
                batch.push_words([start + 5, 1, 2, 3, 4, 5, 6]).unwrap();
                let too_long = [0; 9 * 56];
                let refused = NotAdded::TooLong { length_bytes: too_long.len(), max_bytes: 8 * 56 };
                assert_eq!(batch.push(&too_long), Err(refused));
                assert_eq!(batch.len(), 6);
            });
            assert_eq!(sent.unwrap(), 6);
            let mut numbers = Vec::new();
            while numbers.len() < 6 {
                let room = 6 - numbers.len();
                let count = b.try_recv_batch(room, |message| {
                    let number = message.read_u64_le(0).unwrap();
                    numbers.push(number);
                    let of_one = (message.len() == 8).then_some([number]);
                    let of_seven = (message.len() == 56).then_some([number, 1, 2, 3, 4, 5, 6]);
                    assert_eq!((message.to_words(), message.to_words()), (of_one, of_seven));
                    let rest = (1..message.len() / 8).map(|index| message.read_u64_le(8 * index).unwrap());
                    assert!(rest.eq(1..message.len() as u64 / 8));
                });
                assert!(count.unwrap() <= room);
            }
            assert_eq!(numbers, (start..start + 6).collect::<Vec<_>>());
        }
        assert_eq!(b.try_recv_batch(0, |_| panic!("none was asked for")).unwrap(), 0);
        assert_eq!(b.try_recv_batch(5, |_| panic!("there is none")).unwrap(), 0);
    }
}

pub(crate) fn waiting_reads_in_place(subject: &Subject) {
    for (mut a, mut b) in channels(subject) {
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..100_u64 {
                    wait::send(&mut a, &mut Spin::new(0), &number.to_le_bytes(), patience()).unwrap();
                }
            });
            for number in 0..100_u64 {
                let read = |message: &Message<'_>| message.read_u64_le(0).unwrap();
                assert_eq!(wait::recv_in_place(&mut b, &mut Spin::new(0), patience(), read).unwrap(), number);
            }
        });
    }
}

pub(crate) fn errors_do_not_call_the_closures(subject: &Subject) {
    for (mut a, mut b) in channels(subject) {
        let refused = a.try_send_in_place(8 * 56 + 1, |_| panic!("it is too long"));
        assert_eq!(refused, Err(EndError::TooLong));
        a.try_send(b"last").unwrap();
        a.close();
        assert_eq!(received(&mut b, |message| message.to_vec()), b"last");
        let wait = wait::recv_in_place(&mut b, &mut Spin::default(), patience(), |_| panic!("no message"));
        assert_eq!(wait, Err::<(), _>(ChannelError::Closed));
        assert_eq!(b.try_recv_batch(3, |_| panic!("no message")), Err(EndError::Closed));
        // A stream closes in one direction; the other direction detects it when it polls.
        let sent = b.try_send_in_place(1, |_| ()).and_then(|()| b.try_send(b"."));
        assert_eq!(sent, Err(EndError::Closed));
        let batch = b.try_send_batch(|batch| assert!(batch.push(b"too late").is_err()));
        assert_eq!(batch, Err(EndError::Closed));
    }
}

/// Promised only by rings: a batch becomes visible all at once, and ends where the ring is full.
pub(crate) fn a_batch_fills_the_ring_and_is_refused_beyond(subject: &Subject) {
    for (mut a, mut b) in channels(subject) {
        let sent = a.try_send_batch(|batch| {
            for _ in 0..SLOTS {
                assert_eq!(batch.push(b"x"), Ok(()));
            }
            assert!(!b.readable(), "nothing shows before all does");
            assert_eq!(batch.push(b"x"), Err(NotAdded::Full));
        });
        assert_eq!(sent, Ok(u64::from(SLOTS)));
        assert_eq!(b.try_recv_batch(usize::MAX, |message| assert_eq!(message.len(), 1)), Ok(SLOTS as usize));
        // A sleep for room would end, because the refused message now fits.
        assert!(!wait::prepare_to_sleep(&mut a, tombolo_platform::event::Interest::Write));
        a.finish_sleep(true);
        b.close();
        assert!((0..100).any(|_| {
            let sent = a.try_send_batch(|batch| batch.push(b"x").unwrap_or_default());
            sent == Err(EndError::Closed)
        }));
    }
}
