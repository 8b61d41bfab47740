//! Faults depend only on the seed, and are only those that a transport may have.

use std::time::Duration;

use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::event::Interest;
use tombolo_platform::socket::{SocketKind, pair};
use tombolo_platform::time::Deadline;
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::wrap::{ChannelEnding, Checked, Faults, Faulty, InjectedCounts};
use tombolo_transport::{ChannelError, EndError, MemoryChannel, Transport, TransportExt, shm};

const MAX_WAIT: Duration = Duration::from_secs(30);

fn channel() -> (MemoryChannel, MemoryChannel) {
    let (a, b) = pair(SocketKind::Stream).unwrap();
    let hello = Hello::new(ChannelConfig::default(), 0, None);
    let deadline = Deadline::after(MAX_WAIT);
    std::thread::scope(|scope| {
        let a = scope.spawn(move || shm::connect(a, hello, deadline).unwrap());
        (shm::accept(b, hello, deadline).map(|b| (a.join().unwrap(), b))).unwrap()
    })
}

fn faulty(faults: Faults, seed: u64) -> (Faulty<MemoryChannel>, MemoryChannel) {
    let (a, b) = channel();
    (Faulty::new(a, faults, seed).unwrap(), b)
}

/// Returns the results of the same calls for a seed.
fn outcomes(seed: u64) -> (Vec<bool>, InjectedCounts) {
    let (mut a, mut b) = faulty(Faults::FREQUENT, seed);
    let (mut outcomes, mut buffer) = (Vec::new(), Vec::new());
    for number in 0..200_u8 {
        b.try_send(&[number]).unwrap();
        outcomes.push(a.try_send(&[number]).is_ok());
        outcomes.push(a.readable());
        while a.try_recv_into(&mut buffer).unwrap().is_none() {
            outcomes.push(false);
        }
        assert_eq!(buffer, [number]);
        outcomes.push(wait::prepare_to_sleep(&mut a, tombolo_platform::event::Interest::Read));
        a.finish_sleep(true);
        while b.try_recv_into(&mut buffer).unwrap().is_some() {}
    }
    (outcomes, a.injected())
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let (first, injected) = outcomes(7);
    assert_eq!((first.clone(), injected), outcomes(7));
    assert_ne!(first, outcomes(8).0);
    assert!(injected.refusals > 0 && injected.delays > 0 && injected.wake_ups > 0, "{injected:?}");
}

#[test]
fn without_faults_nothing_is_injected() {
    let (mut a, mut b) = faulty(Faults::default(), 1);
    for number in 0..50_u8 {
        a.try_send(&[number]).unwrap();
        assert_eq!(b.try_recv_into(&mut Vec::new()), Ok(Some(1)));
        b.try_send(&[number]).unwrap();
        assert!(a.readable() && a.is_ready(Interest::Write));
        assert_eq!(a.try_recv_into(&mut Vec::new()), Ok(Some(1)));
    }
    assert_eq!(a.injected(), InjectedCounts::default());
    let mut inner = a.into_inner();
    inner.try_send(b"without").unwrap();
}

/// With any faults, a program that waits receives everything, once and in order.
#[test]
fn frequent_faults_delay_and_lose_nothing() {
    for seed in 0..8 {
        let (a, b) = channel();
        // Checked on the inside: injected faults are not a violation by the transport.
        let (a, mut b) = Checked::pair(a, b);
        let mut a = Faulty::new(a, Faults::FREQUENT, seed).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut spin = Spin::new(0);
                (0..300_u32).for_each(|number| {
                    wait::send(&mut a, &mut spin, &number.to_le_bytes(), MAX_WAIT).unwrap();
                });
                for number in 0..300_u32 {
                    let mut buffer = Vec::new();
                    wait::recv_into(&mut a, &mut spin, &mut buffer, MAX_WAIT).unwrap();
                    assert_eq!(buffer, number.to_le_bytes());
                }
            });
            let (mut spin, mut buffer) = (Spin::new(0), Vec::new());
            for number in 0..300_u32 {
                wait::recv_into(&mut b, &mut spin, &mut buffer, MAX_WAIT).unwrap();
                assert_eq!(buffer, number.to_le_bytes());
            }
            (0..300_u32)
                .for_each(|number| wait::send(&mut b, &mut spin, &number.to_le_bytes(), MAX_WAIT).unwrap());
        });
    }
}

/// Tests one message before the last, the last, and one after it.
#[test]
fn ending_comes_after_the_configured_messages() {
    for (ending, expected) in [
        (ChannelEnding::PeerDies { after: 4 }, EndError::PeerDied),
        (ChannelEnding::Closes { after: 4 }, EndError::Closed),
    ] {
        let (mut a, mut b) = faulty(Faults { ending: Some(ending), ..Faults::default() }, 3);
        let mut buffer = Vec::new();
        b.try_send(b"1").unwrap();
        assert_eq!(a.try_recv_into(&mut buffer), Ok(Some(1)));
        a.try_send(b"2").unwrap();
        a.try_send(b"3").unwrap();
        assert!(!a.readable());
        a.try_send(b"4").unwrap();
        for _ in 0..3 {
            assert_eq!(a.try_send(b"5"), Err(expected));
            assert_eq!(a.try_recv_into(&mut buffer), Err(expected));
            assert!(a.readable() && a.is_ready(Interest::Write));
        }
        // Its peer gets what was sent, and then an end.
        for number in [b"2", b"3", b"4"] {
            wait::recv_into(&mut b, &mut Spin::new(0), &mut buffer, MAX_WAIT).unwrap();
            assert_eq!(buffer, number);
        }
        assert_eq!(
            wait::recv_into(&mut b, &mut Spin::new(0), &mut buffer, MAX_WAIT),
            Err(ChannelError::Closed)
        );
    }
}
