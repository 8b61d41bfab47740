//! Reports of a waitset, and how long they are repeated.

use std::os::fd::AsFd;
use std::time::Duration;

use tombolo_platform::event::{self, Interest};
use tombolo_platform::time::{Deadline, now_ns};
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::waitset::{Ready, Schedule, Trigger};
use tombolo_transport::{EndError, MemoryChannel, Transport, TransportExt, WaitSet};

use crate::pairs::{
    ChannelPair, MAX_WAIT, finds_nothing, next, next_channel, recv, set_with_channels, spins,
};

pub(crate) fn reports_by_level_until_all_is_taken<K: ChannelPair>() {
    for spin in spins() {
        let (mut set, tokens, mut far) = set_with_channels::<K>(3);
        set.set_spin(spin);
        assert!(finds_nothing(&mut set));
        far[1].try_send(b"one").unwrap();
        far[1].try_send(b"two").unwrap();
        for _ in 0..40 {
            assert_eq!(next(&mut set), Ready::Channel(tokens[1]));
        }
        for expected in [b"one", b"two"] {
            assert_eq!(next_channel(&mut set), tokens[1]);
            assert_eq!(recv(&mut set, tokens[1]).unwrap().unwrap(), expected);
        }
        assert!(finds_nothing(&mut set));
        far[2].try_send(b"x").unwrap();
        assert_eq!(next_channel(&mut set), tokens[2]);
    }
}

pub(crate) fn reports_messages_sent_before_adding<K: ChannelPair>() {
    let (near, mut far) = K::pair();
    far.try_send(b"early").unwrap();
    let mut set = WaitSet::new().unwrap();
    let token = set.add(near, Interest::Read).unwrap();
    assert_eq!(next_channel(&mut set), token);
    assert_eq!(recv(&mut set, token).unwrap().unwrap(), b"early");
    assert!(finds_nothing(&mut set));
}

pub(crate) fn reports_room<K: ChannelPair>() {
    for spin in spins() {
        let (mut set, tokens, mut far) = set_with_channels::<K>(2);
        set.set_spin(spin);
        let message = vec![7; set.get(tokens[0]).unwrap().max_message_bytes()];
        let mut sent = 0;
        while set.try_send(tokens[0], &message).unwrap().is_ok() {
            sent += 1;
        }
        assert!(finds_nothing(&mut set), "nobody waits for room yet");
        assert!(set.set_interest(tokens[0], Interest::ReadWrite));
        assert!(finds_nothing(&mut set), "there is none");
        // Both at once: the one awaited first comes first.
        far[0].try_send(b"and a message").unwrap();
        assert_eq!(next_channel(&mut set), tokens[0]);
        assert!(recv(&mut set, tokens[0]).unwrap().is_some());
        assert!(set.set_interest(tokens[0], Interest::Write));
        assert!(finds_nothing(&mut set), "there still is no room");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut spin, mut buffer) = (Spin::new(0), Vec::new());
                for _ in 0..=sent {
                    wait::recv_into(&mut far[0], &mut spin, &mut buffer, MAX_WAIT).unwrap();
                }
            });
            assert_eq!(next_channel(&mut set), tokens[0]);
            while let Err(error) = set.try_send(tokens[0], &message).unwrap() {
                assert_eq!(error, EndError::Full);
                assert_eq!(next_channel(&mut set), tokens[0]);
            }
            // A stream may have kept some bytes; the set sends them.
            set.set_interest(tokens[0], Interest::Read);
            while set.get_mut(tokens[0]).unwrap().has_unsent() {
                assert!(set.wait(Duration::from_millis(1)).unwrap().is_none());
            }
        });
    }
}

pub(crate) fn reports_ends<K: ChannelPair>() {
    for spin in spins() {
        let (mut set, tokens, mut far) = set_with_channels::<K>(3);
        set.set_spin(spin);
        assert!(finds_nothing(&mut set));
        far[2].try_send(b"last").unwrap();
        drop(far.remove(2));
        assert_eq!(next_channel(&mut set), tokens[2]);
        assert_eq!(recv(&mut set, tokens[2]).unwrap().unwrap(), b"last");
        for _ in 0..3 {
            assert_eq!(next_channel(&mut set), tokens[2]);
            assert_eq!(recv(&mut set, tokens[2]), Err(EndError::Closed));
        }
        assert!(set.remove(tokens[2]).is_some());
        assert!(finds_nothing(&mut set));
        // A sender is reported too.
        set.set_interest(tokens[0], Interest::Write);
        let message = vec![0; set.get(tokens[0]).unwrap().max_message_bytes()];
        while set.try_send(tokens[0], &message).unwrap().is_ok() {}
        assert!(finds_nothing(&mut set));
        far.clear();
        let mut reported = [next_channel(&mut set), next_channel(&mut set)];
        reported.sort_unstable();
        assert_eq!(reported, tokens[..2]);
    }
}

pub(crate) fn removed_members_are_no_longer_reported<K: ChannelPair>() {
    let (mut set, tokens, mut far) = set_with_channels::<K>(4);
    assert!(finds_nothing(&mut set));
    // Armed and rung; hot and full; and one that stays.
    for index in [0, 1, 2] {
        far[index].try_send(b"x").unwrap();
    }
    assert!(set.remove(tokens[0]).is_some());
    let first = next_channel(&mut set);
    assert!(first == tokens[1] || first == tokens[2]);
    let mut removed = set.remove(first).unwrap();
    let other = if first == tokens[1] { tokens[2] } else { tokens[1] };
    for _ in 0..40 {
        assert_eq!(next_channel(&mut set), other);
    }
    assert!(recv(&mut set, other).unwrap().is_some());
    assert!(finds_nothing(&mut set));
    // A removed channel is intact.
    let mut buffer = Vec::new();
    assert_eq!(wait::recv_into(&mut removed, &mut Spin::new(0), &mut buffer, MAX_WAIT), Ok(1));
    assert!(
        set.remove(first).is_none() && set.get(first).is_none() && !set.set_interest(first, Interest::Read)
    );
    assert_eq!(set.try_send(first, b"y"), None);
    // Its slot is reused by another member, which is not mistaken for it.
    let again = set.add(removed, Interest::Read).unwrap();
    assert_ne!(again, first);
    assert!(finds_nothing(&mut set));
    assert_eq!(set.len(), 3);
}

/// A program polls an armed channel for so long that it reads its bell itself, then waits.
pub(crate) fn use_beside_the_set_loses_no_wake_up<K: ChannelPair>() {
    let (mut set, tokens, mut far) = set_with_channels::<K>(1);
    for round in 0..20_u8 {
        assert!(finds_nothing(&mut set));
        far[0].try_send(&[round]).unwrap();
        let mut buffer = Vec::new();
        let (until, last) = (Deadline::after(Duration::from_millis(3)), Deadline::after(MAX_WAIT));
        let channel = set.get_mut(tokens[0]).unwrap();
        // On a busy host this thread may not run again before the time has passed.
        while !until.passed() || (buffer.is_empty() && !last.passed()) {
            let _ = channel.try_recv_into(&mut buffer).unwrap();
        }
        assert_eq!(buffer, [round]);
        std::thread::scope(|scope| {
            scope.spawn(|| far[0].try_send(&[round, round]).unwrap());
            assert_eq!(next_channel(&mut set), tokens[0]);
        });
        assert_eq!(recv(&mut set, tokens[0]).unwrap().unwrap(), [round, round]);
    }
}

pub(crate) fn echoes_asleep_and_awake<K: ChannelPair>() {
    for (near_spin_ns, far_spin_ns) in [(0, 0), (0, 20_000), (20_000, 0), (20_000, 20_000), (2_000, 3_000)] {
        let (mut set, tokens, mut far) = set_with_channels::<K>(5);
        set.set_spin(Spin::new(near_spin_ns));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut spin, mut buffer) = (Spin::new(far_spin_ns), Vec::new());
                for number in 0..2_000_u32 {
                    let channel = &mut far[number as usize * 3 % 5];
                    wait::send(channel, &mut spin, &number.to_le_bytes(), MAX_WAIT).unwrap();
                    wait::recv_into(channel, &mut spin, &mut buffer, MAX_WAIT).unwrap();
                    assert_eq!(buffer, number.to_le_bytes());
                }
            });
            for number in 0..2_000_u32 {
                let token = next_channel(&mut set);
                assert_eq!(token, tokens[number as usize * 3 % 5]);
                let message = recv(&mut set, token).unwrap().unwrap();
                set.try_send(token, &message).unwrap().unwrap();
            }
        });
    }
}

#[test]
fn a_waker_interrupts_the_wait_under_way_or_the_next() {
    let mut set = WaitSet::<MemoryChannel>::new().unwrap();
    let waker = set.waker();
    waker.wake();
    waker.wake();
    assert_eq!(next(&mut set), Ready::Woken);
    assert!(finds_nothing(&mut set));
    std::thread::scope(|scope| {
        let from_task = std::task::Waker::from(std::sync::Arc::new(waker.clone()));
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            from_task.wake();
        });
        assert_eq!(next(&mut set), Ready::Woken);
    });
    drop(set);
    waker.wake();
}

#[test]
fn descriptors_are_reported_as_they_were_added() {
    let mut set = WaitSet::<MemoryChannel>::new().unwrap();
    let counter = event::eventfd().unwrap();
    let copy = || counter.try_clone().unwrap();
    let level = set.add_descriptor(copy(), Interest::Read, Trigger::Level).unwrap();
    assert!(finds_nothing(&mut set));
    event::signal(&counter).unwrap();
    for _ in 0..3 {
        assert!(
            matches!(next(&mut set), Ready::Descriptor(token, ready) if token == level && ready.readable)
        );
    }
    set.remove(level);
    assert!(finds_nothing(&mut set));
    let edge = set.add_descriptor(copy(), Interest::Read, Trigger::Edge).unwrap();
    assert!(matches!(next(&mut set), Ready::Descriptor(token, _) if token == edge));
    assert!(finds_nothing(&mut set));
    set.remove(edge);
    let once = set.add_descriptor(copy(), Interest::Read, Trigger::Once).unwrap();
    assert!(matches!(next(&mut set), Ready::Descriptor(token, _) if token == once));
    assert!(finds_nothing(&mut set));
    assert!(set.change_descriptor(once, Interest::Read, Trigger::Once).unwrap());
    assert!(matches!(next(&mut set), Ready::Descriptor(token, _) if token == once));
    assert!(!set.change_descriptor(level, Interest::Read, Trigger::Once).unwrap());
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(set.add_descriptor(file.into(), Interest::Read, Trigger::Level).is_err());
    assert_eq!(set.len(), 1);
}

#[test]
fn timers_expire_and_can_be_reset() {
    let mut set = WaitSet::<MemoryChannel>::new().unwrap();
    let start_ns = now_ns();
    let later = set.add_timer(Schedule::once(start_ns + 3_000_000)).unwrap();
    let sooner = set.add_timer(Schedule::once(start_ns + 1_000_000)).unwrap();
    let never = set.add_timer(Schedule::once(start_ns + 2_000_000)).unwrap();
    set.remove(never);
    assert_eq!((next(&mut set), next(&mut set)), (Ready::Timer(sooner, 1), Ready::Timer(later, 1)));
    assert!(now_ns() >= start_ns + 3_000_000);
    assert!(finds_nothing(&mut set) && set.is_empty());
    assert!(!set.set_timer(later, Schedule::once(0)), "it is gone");

    let again = set.add_timer(Schedule::every(Duration::from_micros(500), now_ns())).unwrap();
    let mut times = 0;
    while times < 10 {
        let Ready::Timer(token, more) = next(&mut set) else { panic!("something else") };
        assert_eq!(token, again);
        times += more;
    }
    std::thread::sleep(Duration::from_millis(5));
    assert!(matches!(next(&mut set), Ready::Timer(_, missed) if missed >= 9));
    // Long overdue, but reset before it was reported.
    std::thread::sleep(Duration::from_millis(1));
    assert!(set.set_timer(again, Schedule::once(u64::MAX)));
    assert!(finds_nothing(&mut set));
    assert!(set.set_timer(again, Schedule::once(now_ns() + 500_000)));
    assert_eq!(next(&mut set), Ready::Timer(again, 1));
    assert!(set.is_empty());
}

#[test]
fn a_wait_ends_at_its_deadline() {
    let (mut set, _tokens, _far) = set_with_channels::<crate::pairs::Shm>(2);
    for spin in [Spin::new(0), Spin::new(20_000), Spin::new(u64::MAX)] {
        set.set_spin(spin);
        let deadline = Deadline::after(Duration::from_micros(2_500));
        assert_eq!(set.wait(Duration::from_micros(2_500)).unwrap(), None);
        assert!(deadline.passed());
    }
}

#[test]
fn a_set_can_be_in_a_set() {
    let (mut inner, tokens, mut far) = set_with_channels::<crate::pairs::Shm>(2);
    let mut outer = WaitSet::<MemoryChannel>::new().unwrap();
    let copy = inner.as_fd().try_clone_to_owned().unwrap();
    let token = outer.add_descriptor(copy, Interest::Read, Trigger::Level).unwrap();
    assert!(finds_nothing(&mut inner) && finds_nothing(&mut outer));
    far[1].try_send(b"x").unwrap();
    assert!(matches!(next(&mut outer), Ready::Descriptor(reported, _) if reported == token));
    assert_eq!(inner.wait(Duration::ZERO).unwrap(), Some(Ready::Channel(tokens[1])));
    recv(&mut inner, tokens[1]).unwrap();
    assert!(finds_nothing(&mut inner) && finds_nothing(&mut outer));
}
