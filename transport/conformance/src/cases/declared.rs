//! What a transport says of itself is so.

use tombolo_link::ChannelConfig;
use tombolo_transport::{Capabilities, Transport};

use crate::carrier::{Carrier, pair};
use crate::messages::{check, message, recv_awake, send};

/// Both ends say what the suite was told, and go on saying it when the channel has ended.
pub(crate) fn capabilities_are_those_of_the_carrier<C: Carrier>() {
    let (mut a, b) = pair::<C>(ChannelConfig::default());
    assert_eq!(a.kind(), b.kind());
    assert_eq!(a.limits(), b.limits());
    assert_eq!((a.capabilities(), b.capabilities()), (C::CAPABILITIES, C::CAPABILITIES));
    let (traits, atomics) = (a.kind().traits(), C::CAPABILITIES.contains(Capabilities::ATOMICS));
    assert_eq!(atomics, traits.atomics, "what the link declares");
    assert!(!atomics || C::CAPABILITIES.contains(Capabilities::SHARED_MEMORY), "atomics on no memory");
    drop(b);
    a.close();
    assert_eq!(a.capabilities(), C::CAPABILITIES);
}

/// Two sides that poll ring nobody and never sleep.
pub(crate) fn silence_while_awake<C: Carrier>() {
    let (mut a, mut b) = pair::<C>(ChannelConfig::default());
    a.wake_up();
    b.wake_up();
    for number in 0..500 {
        send(&mut a, 0, &message(number, 20));
        check(&recv_awake(&mut b), number, 20);
        send(&mut b, 0, &message(!number, 20));
        check(&recv_awake(&mut a), !number, 20);
    }
    for stats in [a.stats(), b.stats()] {
        assert_eq!((stats.rings, stats.sleeps), (0, 0));
    }
}
