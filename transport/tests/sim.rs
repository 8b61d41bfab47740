//! A simulated link repeats its behavior for a seed, keeps the order, and distinguishes a close from a death.

use std::time::Duration;

use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::event::Interest;
use tombolo_platform::time::Deadline;
use tombolo_transport::sim::{self, Conditions, SimChannel};
use tombolo_transport::{EndError, Transport, TransportExt};

fn channel(conditions: Conditions, seed: u64) -> (SimChannel, SimChannel) {
    let (a, b) = sim::link(conditions, seed);
    let hello = Hello::new(ChannelConfig::default(), 0, None);
    let deadline = Deadline::after(Duration::from_secs(30));
    std::thread::scope(|scope| {
        let a = scope.spawn(|| sim::open(a, hello, deadline).unwrap());
        let b = sim::open(b, hello, deadline).unwrap();
        (a.join().unwrap(), b)
    })
}

/// Returns how many polls each of a hundred messages took to arrive, on a link with a known clock.
fn polls_until_arrival(seed: u64) -> Vec<u32> {
    let (mut a, mut b) = channel(Conditions { poll_ns: 10, ..Conditions::default() }, seed);
    let mut buffer = Vec::new();
    (0..100_u8)
        .map(|number| {
            a.try_send(&[number]).unwrap();
            let mut polls = 0;
            while b.try_recv_into(&mut buffer).unwrap().is_none() {
                polls += 1;
            }
            assert_eq!(buffer, [number]);
            polls
        })
        .collect()
}

#[test]
fn delays_come_from_the_seed() {
    assert_eq!(polls_until_arrival(5), polls_until_arrival(5));
    assert_ne!(polls_until_arrival(5), polls_until_arrival(6));
    // From the shortest latency to the longest, in polls of ten nanoseconds; one is spent by the send.
    let Conditions { latency_ns, jitter_ns, .. } = Conditions::default();
    let (least, most) = (latency_ns as u32 / 10, (latency_ns + jitter_ns) as u32 / 10);
    assert!(
        polls_until_arrival(7).iter().all(|count| (least - 2..=most).contains(count)),
        "{:?}",
        polls_until_arrival(7)
    );
}

#[test]
fn packets_keep_their_order() {
    let (mut a, mut b) =
        channel(Conditions { latency_ns: 0, jitter_ns: 100_000, ..Conditions::default() }, 9);
    (0..200_u8).for_each(|number| a.try_send(&[number]).unwrap());
    let mut buffer = Vec::new();
    for number in 0..200_u8 {
        while b.try_recv_into(&mut buffer).unwrap().is_none() {}
        assert_eq!(buffer, [number]);
    }
}

#[test]
fn room_is_counted_in_bytes() {
    let (mut a, mut b) = channel(Conditions { room_bytes: 100, ..Conditions::default() }, 1);
    a.try_send(&[0; 99]).unwrap();
    assert!(a.is_ready(Interest::Write));
    a.try_send(&[0; 1]).unwrap();
    assert!(!a.is_ready(Interest::Write));
    assert_eq!(a.try_send(b""), Err(EndError::Full));
    while b.try_recv_into(&mut Vec::new()).unwrap().is_none() {}
    assert!(a.is_ready(Interest::Write));
}

/// Messages sent before a kill arrive, then the death is reported; the killed end can do nothing more.
#[test]
fn a_kill_is_reported_as_a_death() {
    let (mut a, mut b) = channel(Conditions::default(), 2);
    b.try_send(b"last words").unwrap();
    b.end().killer().kill();
    assert_eq!(b.try_send(b"more"), Err(EndError::PeerDied));
    assert_eq!(b.try_recv_into(&mut Vec::new()), Err(EndError::PeerDied));
    let mut buffer = Vec::new();
    while a.try_recv_into(&mut buffer).unwrap().is_none() {}
    assert_eq!(buffer, b"last words");
    // Dropping a killed end sends nothing.
    drop(b);
    for _ in 0..2 {
        assert_eq!(a.try_recv_into(&mut buffer), Err(EndError::PeerDied));
        assert_eq!(a.try_send(b"to nobody"), Err(EndError::PeerDied));
    }
}
