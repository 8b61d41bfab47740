use std::vec::Vec;

use tombolo_ring::{SlotSize, Variant};

use super::*;

type TestEnd = ChannelEnd<DeferredSignals>;

fn both(slots: u32) -> (TestEnd, TestEnd) {
    let config = ChannelConfig::new(SlotSize::B64, slots, Variant::EpochCredit).unwrap();
    let memory = SharedMemory::zeroed(ChannelLayout::new(config).length_bytes());
    let end = |side| {
        ChannelEnd::attach(&memory, side, config, WakeOrder::Fence, DeferredSignals::default()).unwrap()
    };
    (end(Side::A), end(Side::B))
}

fn recv(end: &mut TestEnd) -> Result<Option<Vec<u8>>, EndError> {
    end.try_recv(|message| {
        let mut bytes = std::vec![0; message.len()];
        message.copy_to(&mut bytes).unwrap();
        bytes
    })
}

#[test]
fn messages_go_both_ways_and_a_sleeping_peer_is_rung_once() {
    let (mut a, mut b) = both(4);
    a.try_send(b"to B").unwrap();
    assert!(!a.signals_mut().take_ring(), "nobody sleeps");
    assert_eq!(recv(&mut b), Ok(Some(b"to B".to_vec())));
    assert!(b.prepare_to_sleep(Awaited::Message));
    a.try_send(b"wake up").unwrap();
    a.try_send(b"twice").unwrap();
    assert!(a.signals_mut().take_ring());
    assert!(!a.signals_mut().take_ring());
    b.finish_sleep(false);
    assert_eq!(recv(&mut b), Ok(Some(b"wake up".to_vec())));
    assert!(!b.prepare_to_sleep(Awaited::Message), "one is there");
}

#[test]
fn sender_waits_for_room_and_is_rung() {
    let (mut a, mut b) = both(2);
    while a.try_send(b"x").is_ok() {}
    assert_eq!(a.try_send(b"x"), Err(EndError::Full));
    assert!(a.prepare_to_sleep(Awaited::Room));
    while recv(&mut b).unwrap().is_some() {}
    let _ = b.readable();
    assert!(b.signals_mut().take_ring());
    a.finish_sleep(false);
    a.try_send(b"x").unwrap();
}

#[test]
fn a_close_is_received_after_earlier_messages() {
    let (mut a, mut b) = both(4);
    a.try_send(b"last").unwrap();
    a.close();
    assert!(a.signals_mut().take_ring());
    assert_eq!(recv(&mut b), Ok(Some(b"last".to_vec())));
    assert_eq!(recv(&mut b), Err(EndError::Closed));
    assert_eq!(a.try_send(b"more"), Err(EndError::Closed));
    assert!(b.peer_closed());
}

#[test]
fn sender_detects_the_end_of_the_peer() {
    let (mut a, mut b) = both(64);
    a.close();
    assert_eq!(b.try_send(b"it may be asleep"), Ok(()));
    assert_eq!(b.try_send(b"it is not"), Err(EndError::Closed));
}

#[test]
fn nothing_is_sent_after_an_end() {
    let (mut a, mut b) = both(4);
    a.close();
    assert_eq!(recv(&mut b), Err(EndError::Closed));
    assert_eq!(b.try_send(b"to nobody"), Err(EndError::Closed), "there is room, and nobody to read it");

    let (mut a, mut b) = both(4);
    a.try_send(b"last words").unwrap();
    b.signals_mut().report_peer_gone();
    b.poll_signals();
    assert_eq!(b.try_send(b"to nobody"), Err(EndError::PeerDied));
    assert_eq!(recv(&mut b), Ok(Some(b"last words".to_vec())));

    let (mut a, mut b) = both(4);
    a.close();
    b.signals_mut().report_peer_gone();
    b.poll_signals();
    assert_eq!(
        b.try_send(b"to nobody"),
        Err(EndError::Closed),
        "closed also when the peer is then reported gone"
    );
    b.close();
    assert_eq!(b.try_send(b"to nobody"), Err(EndError::Closed));
}

#[test]
fn peer_death_found_by_receive_ends_sending() {
    let (_a, mut b) = both(4);
    // Another channel read the lifeline, so this end was not notified.
    b.signals_mut().report_peer_gone();
    assert_eq!(recv(&mut b), Err(EndError::PeerDied));
    assert_eq!(b.try_send(b"to nobody"), Err(EndError::PeerDied));
    let (_a, mut b) = both(4);
    b.signals_mut().report_peer_gone();
    assert_eq!(b.try_recv_batch(2, |_| ()), Err(EndError::PeerDied));
    assert_eq!(b.try_send(b"to nobody"), Err(EndError::PeerDied));
}

#[test]
fn message_too_long_is_refused_without_effect() {
    let (mut a, mut b) = both(4);
    let max_bytes = a.max_message_bytes();
    assert_eq!(a.try_send(&std::vec![0; max_bytes + 1]), Err(EndError::TooLong));
    a.try_send(&std::vec![7; max_bytes]).unwrap();
    assert_eq!(recv(&mut b), Ok(Some(std::vec![7; max_bytes])));
}

#[test]
fn peer_violation_ends_the_channel_permanently() {
    let config = ChannelConfig::new(SlotSize::B64, 4, Variant::EpochCredit).unwrap();
    let memory = SharedMemory::zeroed(ChannelLayout::new(config).length_bytes());
    let mut a =
        TestEnd::attach(&memory, Side::A, config, WakeOrder::Fence, DeferredSignals::default()).unwrap();
    memory.words().iter().skip(128).for_each(|word| {
        word.store(u64::MAX, tombolo_base::sync::Ordering::Relaxed);
    });
    assert_eq!(recv(&mut a), Err(EndError::Broken));
    let violation = a.violation();
    assert!(
        matches!(violation, Some(Violation::LapTag { .. } | Violation::ReservedBits { .. })),
        "{violation:?}"
    );
    assert_eq!(recv(&mut a), Err(EndError::Broken));
    assert_eq!(a.try_send(b"x"), Err(EndError::Broken));
    assert_eq!(a.violation(), violation, "the first one stays");
}
