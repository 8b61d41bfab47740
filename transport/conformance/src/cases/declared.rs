//! The description of a transport is true.

use tombolo_link::{ChannelConfig, CostOrigin};
use tombolo_transport::cost::{Effort, measure, reflect};
use tombolo_transport::{Capabilities, Transport};

use crate::messages::{check, message, recv_polling, send};
use crate::patience::patience;
use crate::subject::Subject;

/// Both ends report the capabilities known to the suite, also after the channel has ended.
pub(crate) fn capabilities_are_those_of_the_carrier(subject: &Subject) {
    let (mut a, b) = subject.pair(ChannelConfig::default());
    let description = a.describe();
    assert_eq!(description, b.describe());
    assert_eq!(description.capabilities, subject.capabilities);
    let (traits, atomics) = (description.kind.traits(), subject.capabilities.contains(Capabilities::ATOMICS));
    assert_eq!(atomics, traits.atomics, "what the link declares");
    assert!(!atomics || subject.capabilities.contains(Capabilities::SHARED_MEMORY), "atomics on no memory");
    drop(b);
    a.close();
    assert_eq!(a.describe(), description);
}

/// Uses round trips, from either end; the channel still works afterwards.
pub(crate) fn cost_can_be_measured(subject: &Subject) {
    let (mut a, mut b) = subject.pair(ChannelConfig::default());
    let rounds = subject.effort(30);
    for _ in 0..2 {
        let cost = std::thread::scope(|scope| {
            let reflected = scope.spawn(|| reflect(&mut b, patience()));
            let effort = Effort { rounds: rounds as u32, timeout: patience() };
            let cost = measure(&mut a, effort).unwrap();
            assert_eq!(reflected.join().unwrap(), Ok(3 * rounds));
            cost
        });
        assert_eq!(cost.origin, CostOrigin::Measured);
        let declared = a.describe().kind.declared_cost();
        assert_eq!(declared.origin, CostOrigin::Declared);
        for curve in [cost.to_peer, cost.from_peer, declared.to_peer, declared.from_peer] {
            assert!(curve.bytes_per_s > 0, "{cost:?}");
            assert!(curve.time_ns(1 << 20) >= curve.latency_ns);
        }
        std::mem::swap(&mut a, &mut b);
    }
    send(&mut a, 0, b"after");
    assert_eq!(recv_polling(&mut b), b"after");
}

/// Two sides that poll neither ring nor sleep.
pub(crate) fn no_syscalls_while_awake(subject: &Subject) {
    let (mut a, mut b) = subject.pair(ChannelConfig::default());
    a.finish_sleep(true);
    b.finish_sleep(true);
    for number in 0..500 {
        send(&mut a, 0, &message(number, 20));
        check(&recv_polling(&mut b), number, 20);
        send(&mut b, 0, &message(!number, 20));
        check(&recv_polling(&mut a), !number, 20);
    }
    for stats in [a.stats(), b.stats()] {
        assert_eq!((stats.rings, stats.sleeps), (0, 0));
    }
}
