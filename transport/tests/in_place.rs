//! Messages that are read and written where they lie, and batches: the same on every way to carry a channel.

use std::os::fd::OwnedFd;
use std::time::Duration;

use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::socket::{Kind, pair};
use tombolo_platform::time::Deadline;
use tombolo_ring::{SlotSize, Variant};
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{
    ChannelError, Draft, MemoryChannel, Message, NotAdded, StreamChannel, Transport, shm,
};

const LONG: Duration = Duration::from_secs(30);
const SLOTS: u32 = 8;

fn hello(variant: Variant) -> Hello {
    Hello::new(ChannelConfig::new(SlotSize::B64, SLOTS, variant).unwrap(), 0, None)
}

fn open<C: Send>(
    connect: impl FnOnce(OwnedFd) -> Result<C, ChannelError> + Send,
    accept: impl FnOnce(OwnedFd) -> Result<C, ChannelError> + Send,
) -> (C, C) {
    let (a, b) = pair(Kind::Stream).unwrap();
    std::thread::scope(|scope| {
        let accepted = scope.spawn(move || accept(b).unwrap());
        (connect(a).unwrap(), accepted.join().unwrap())
    })
}

fn memory(variant: Variant) -> (MemoryChannel, MemoryChannel) {
    let deadline = Deadline::after(LONG);
    open(
        |socket| shm::connect(socket, hello(variant), deadline),
        |socket| shm::accept(socket, hello(variant), deadline),
    )
}

fn stream() -> (StreamChannel, StreamChannel) {
    let deadline = Deadline::after(LONG);
    let end = |socket| StreamChannel::open(socket, hello(Variant::EpochCredit), deadline);
    open(end, end)
}

/// Runs a case on each.
macro_rules! on_each {
    ($($case:ident),* $(,)?) => {
        $(#[test]
        fn $case() {
            cases::$case(memory(Variant::EpochCredit));
            cases::$case(memory(Variant::UsedFlag));
            cases::$case(stream());
        })*
    };
}

on_each!(
    what_is_written_in_place_is_read_in_place,
    a_batch_arrives_whole_and_in_order,
    waiting_reads_in_place,
    errors_leave_the_closures_alone,
);

mod cases {
    use super::*;

    /// Polls, for a stream is not there at once.
    fn received<C: Transport, R>(channel: &mut C, mut read: impl FnMut(&Message<'_>) -> R) -> R {
        wait::recv_in_place(channel, &mut Spin::default(), LONG, &mut read).unwrap()
    }

    fn write(draft: &mut Draft<'_>, byte: u8) {
        let bytes = vec![byte; draft.len()];
        draft.write_at(0, &bytes).unwrap();
        if draft.len() >= 8 {
            draft.write_u64_le(0, u64::from(byte)).unwrap();
        }
    }

    pub(super) fn what_is_written_in_place_is_read_in_place<C: Transport>((mut a, mut b): (C, C)) {
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

    pub(super) fn a_batch_arrives_whole_and_in_order<C: Transport>((mut a, mut b): (C, C)) {
        assert_eq!(a.try_send_batch(|_| ()).unwrap(), 0);
        for start in [0, 100] {
            let sent = a.try_send_batch(|batch| {
                for number in start..start + 6_u64 {
                    batch.push(&number.to_le_bytes()).unwrap();
                }
                let too_long = [0; 9 * 56];
                let refused = NotAdded::TooLong { length_bytes: too_long.len(), max_bytes: 8 * 56 };
                assert_eq!(batch.push(&too_long), Err(refused));
                assert_eq!(batch.len(), 6);
            });
            assert_eq!(sent.unwrap(), 6);
            let mut numbers = Vec::new();
            while numbers.len() < 6 {
                let room = 6 - numbers.len();
                let count = b.try_recv_batch(room, |message| numbers.push(message.read_u64_le(0).unwrap()));
                assert!(count.unwrap() <= room);
            }
            assert_eq!(numbers, (start..start + 6).collect::<Vec<_>>());
        }
        assert_eq!(b.try_recv_batch(0, |_| panic!("none was asked for")).unwrap(), 0);
        assert_eq!(b.try_recv_batch(5, |_| panic!("there is none")).unwrap(), 0);
    }

    pub(super) fn waiting_reads_in_place<C: Transport + Send>((mut a, mut b): (C, C)) {
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..100_u64 {
                    wait::send(&mut a, &mut Spin::new(0), &number.to_le_bytes(), LONG).unwrap();
                }
            });
            for number in 0..100_u64 {
                let read = |message: &Message<'_>| message.read_u64_le(0).unwrap();
                assert_eq!(wait::recv_in_place(&mut b, &mut Spin::new(0), LONG, read).unwrap(), number);
            }
        });
    }

    pub(super) fn errors_leave_the_closures_alone<C: Transport>((mut a, mut b): (C, C)) {
        let too_long = ChannelError::TooLong { length_bytes: 8 * 56 + 1, max_bytes: 8 * 56 };
        let refused = a.try_send_in_place(8 * 56 + 1, |_| panic!("it is too long"));
        assert_eq!(refused, Err(too_long));
        a.try_send(b"last").unwrap();
        a.close();
        assert_eq!(received(&mut b, |message| message.to_vec()), b"last");
        let wait = wait::recv_in_place(&mut b, &mut Spin::default(), LONG, |_| panic!("no message"));
        assert_eq!(wait, Err::<(), _>(ChannelError::Closed));
        assert_eq!(b.try_recv_batch(3, |_| panic!("no message")), Err(ChannelError::Closed));
        // A stream closes one way; the other learns of it when it looks.
        let sent = b.try_send_in_place(1, |_| ()).and_then(|()| b.try_send(b"."));
        assert_eq!(sent, Err(ChannelError::Closed));
    }
}

/// What only rings promise: a batch shows all at once, and ends where the ring is full.
#[test]
fn a_batch_fills_the_ring_and_is_refused_beyond() {
    for variant in [Variant::EpochCredit, Variant::UsedFlag] {
        let (mut a, mut b) = memory(variant);
        let sent = a.try_send_batch(|batch| {
            for _ in 0..SLOTS {
                assert_eq!(batch.push(b"x"), Ok(()));
            }
            assert!(!b.readable(), "nothing shows before all does");
            assert_eq!(batch.push(b"x"), Err(NotAdded::Full));
        });
        assert_eq!(sent, Ok(u64::from(SLOTS)));
        assert_eq!(b.try_recv_batch(usize::MAX, |message| assert_eq!(message.len(), 1)), Ok(SLOTS as usize));
        // A sleep for room would end: what was refused has room again.
        assert!(!a.about_to_sleep(tombolo_platform::event::Interest::Write));
        a.wake_up();
        b.close();
        assert!((0..100).any(|_| {
            let sent = a.try_send_batch(|batch| batch.push(b"x").unwrap_or_default());
            sent == Err(ChannelError::Closed)
        }));
    }
}
