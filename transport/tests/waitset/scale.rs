//! Idle members cost nothing.

use std::os::fd::AsFd;
use std::time::Duration;

use tombolo_platform::event::{Interest, poll};
use tombolo_platform::time::{Deadline, now_ns};
use tombolo_transport::wait::Spin;
use tombolo_transport::waitset::{Ready, Schedule, WaitStats};
use tombolo_transport::{Transport, WaitSet};

use crate::pairs::{ChannelPair, deadline, finds_nothing, next_channel, recv, set_with_channels};

/// Returns the cost of a few hundred messages over one channel next to `idle` others.
fn cost<K: ChannelPair>(idle: usize) -> [WaitStats; 2] {
    [0, 20_000].map(|spin_ns| {
        let (mut set, tokens, mut far) = set_with_channels::<K>(idle + 1);
        set.set_spin(Spin::new(spin_ns));
        assert!(finds_nothing(&mut set));
        let before = set.stats();
        for _ in 0..300 {
            far[0].try_send(b"x").unwrap();
            assert_eq!(next_channel(&mut set), tokens[0]);
            recv(&mut set, tokens[0]).unwrap().unwrap();
            if spin_ns == 0 {
                // Asleep in between.
                assert!(finds_nothing(&mut set));
            }
        }
        let after = set.stats();
        WaitStats {
            looks: after.looks - before.looks,
            questions: after.questions - before.questions,
            armed: after.armed - before.armed,
            barriers: after.barriers - before.barriers,
            rung: after.rung - before.rung,
        }
    })
}

pub(crate) fn idle_channels_are_not_polled<K: ChannelPair>() {
    let (few, many) = (cost::<K>(1), cost::<K>(120));
    assert_eq!(few, many, "the cost depends on the number of idle channels");
}

pub(crate) fn outer_poll_sees_every_event<K: ChannelPair>() {
    let readable = |set: &WaitSet<K::Channel>, timeout| {
        poll(&[(set.as_fd(), Interest::Read)], Some(Deadline::after(timeout))).unwrap()[0].readable
    };
    let (mut set, tokens, mut far) = set_with_channels::<K>(3);
    for round in 0..10 {
        assert!(finds_nothing(&mut set));
        assert!(!readable(&set, Duration::ZERO));
        far[round % 3].try_send(b"x").unwrap();
        assert!(readable(&set, Duration::from_secs(60)));
        assert_eq!(next_channel(&mut set), tokens[round % 3]);
        recv(&mut set, tokens[round % 3]).unwrap();
    }
    assert!(finds_nothing(&mut set));
    // For timers, also when they are set while the program is about to poll.
    set.add_timer(Schedule::once(now_ns() + 1_000_000)).unwrap();
    let until = deadline();
    loop {
        assert!(readable(&set, Duration::from_secs(60)) && !until.passed());
        match set.wait(Duration::ZERO).unwrap() {
            Some(Ready::Timer(..)) => break,
            other => assert_eq!(other, None),
        }
    }
    assert!(finds_nothing(&mut set) && !readable(&set, Duration::ZERO));
    // For channels that are used or added meanwhile.
    set.get_mut(tokens[0]).unwrap();
    far[0].try_send(b"x").unwrap();
    assert!(readable(&set, Duration::from_secs(60)));
    assert_eq!(next_channel(&mut set), tokens[0]);
    recv(&mut set, tokens[0]).unwrap();
    assert!(finds_nothing(&mut set));
    let (near, mut far) = K::pair();
    far.try_send(b"x").unwrap();
    let token = set.add(near, Interest::Read).unwrap();
    assert!(readable(&set, Duration::from_secs(60)));
    assert_eq!(next_channel(&mut set), token);
    set.waker().wake();
    recv(&mut set, token).unwrap();
    assert_eq!(set.wait(Duration::ZERO).unwrap(), Some(Ready::Woken));
}

/// Uses as many channels as the usual limit on open files allows.
#[test]
fn hundreds_of_channels_are_added_and_removed() {
    let (mut set, tokens, mut far) = set_with_channels::<crate::pairs::Shm>(200);
    assert!(finds_nothing(&mut set));
    let barriers = set.stats().barriers;
    for channel in &mut far {
        channel.try_send(b"all at once").unwrap();
    }
    let mut reported: Vec<_> = (0..200)
        .map(|_| {
            let token = next_channel(&mut set);
            recv(&mut set, token).unwrap().unwrap();
            token
        })
        .collect();
    reported.sort_unstable();
    assert_eq!(reported, tokens);
    assert!(finds_nothing(&mut set));
    assert!(set.stats().barriers <= barriers + 20, "a barrier arms many: {:?}", set.stats());
    // Sending to all of them polls none of them.
    let looks = set.stats().looks;
    for token in &tokens {
        set.try_send(*token, b"to all").unwrap().unwrap();
    }
    assert!(finds_nothing(&mut set));
    assert_eq!(set.stats().looks, looks);
    for (index, token) in tokens.iter().enumerate() {
        if index % 3 != 0 {
            assert!(set.remove(*token).is_some());
        }
    }
    far.iter_mut().for_each(|channel| {
        let _ = channel.try_send(b"x");
    });
    for _ in 0..67 {
        let token = next_channel(&mut set);
        assert!(tokens.iter().position(|known| *known == token).unwrap() % 3 == 0);
        recv(&mut set, token).unwrap().unwrap();
    }
    assert!(finds_nothing(&mut set));
    assert_eq!(set.len(), 67);
}
