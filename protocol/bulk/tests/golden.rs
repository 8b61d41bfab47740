//! Golden encodings of every message, and rejected ones. `docs/specs/bulk.md` shows the same bytes.

use proptest::prelude::*;
use tombolo_bulk::wire::{
    MAX_MESSAGE_BYTES, MAX_SEGMENTS, Malformed, Offer, PIECE_WORDS, PoolId, PoolIndex, Preface, Veto, decode,
};
use tombolo_bulk::{Layout, Message, Segment, Session, SessionEvent, Terms, Trust, Verb, Violation};

const TERMS: Terms = Terms { trust: Trust::Full, max_pools: 32, max_segments: 32, max_metadata_bytes: 2048 };

fn hex(bytes: &[u8]) -> String {
    let words: Vec<String> = bytes
        .chunks(8)
        .map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "))
        .collect();
    words.join(" | ")
}

fn encoded(message: &Message<'_>, number: u32) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(number, &mut out);
    assert_eq!(decode(&out), Ok((message.clone(), number)));
    out
}

fn offer() -> Offer {
    Offer {
        pool_index: PoolIndex::new(true, 3).unwrap(),
        pool: PoolId { domain: 0x0001_0002_0000_0003, number: 4 },
        layout: Layout::new(65536, 16).unwrap(),
        capability: 0x1122_3344_5566_7788,
        offset_bytes: 4096,
        may_forward: true,
    }
}

#[test]
fn bytes_are_golden() {
    let pool_index = PoolIndex::new(true, 3).unwrap();
    assert_eq!(hex(&encoded(&Message::Terms(TERMS), 0)), "01 02 00 08 00 00 00 00 | 01 20 20 00 00 00 00 00");
    let half = Message::Terms(Terms { trust: Trust::Half, ..TERMS });
    assert_eq!(hex(&encoded(&half, 0)), "01 02 00 08 00 00 00 00 | 03 20 20 00 00 00 00 00");
    assert_eq!(
        hex(&encoded(&Message::Assign(offer()), 1)),
        "02 83 01 00 01 00 00 00 | 03 00 00 00 02 00 01 00 | 04 00 00 00 00 00 00 00 | \
         00 00 01 00 00 00 00 00 | 10 00 00 00 00 00 00 00 | 88 77 66 55 44 33 22 11 | 00 10 00 00 00 00 00 00"
    );
    assert_eq!(hex(&encoded(&Message::Assigned(pool_index), 2)), "03 83 00 00 02 00 00 00");
    assert_eq!(hex(&encoded(&Message::Vetoed(pool_index, Veto::Known), 3)), "04 83 04 00 03 00 00 00");
    assert_eq!(hex(&encoded(&Message::Unassign(pool_index), 4)), "05 83 00 00 04 00 00 00");
    assert_eq!(hex(&encoded(&Message::Unassigned(pool_index), 5)), "06 83 00 00 05 00 00 00");
    assert_eq!(hex(&encoded(&Message::Kept(pool_index), 6)), "07 83 00 00 06 00 00 00");
}

/// Returns two sessions that have agreed on terms, with pool 0 of the connecting side on both.
fn agreed(terms: Terms) -> (Session, Session) {
    agreed_on(terms, if terms.trust == Trust::Full { offer().capability } else { 0 })
}

fn agreed_on(terms: Terms, capability: u64) -> (Session, Session) {
    let (mut left, mut right) = (Session::new(false, terms), Session::new(true, terms));
    let offset_bytes = if capability == 0 { 0 } else { offer().offset_bytes };
    let pool_index = PoolIndex::new(false, 0).unwrap();
    let offer = Offer { pool_index, capability, offset_bytes, ..offer() };
    send(&mut left, &mut right, &Message::Terms(terms)).unwrap();
    send(&mut right, &mut left, &Message::Terms(terms)).unwrap();
    send(&mut left, &mut right, &Message::Assign(offer)).unwrap();
    send(&mut right, &mut left, &Message::Assigned(offer.pool_index)).unwrap();
    (left, right)
}

fn send(from: &mut Session, to: &mut Session, message: &Message<'static>) -> Result<(), Violation> {
    let mut out = Vec::new();
    from.prepare(message, &mut out).unwrap();
    from.record_sent(message);
    to.receive(&out).map(|_| ())
}

#[test]
fn a_transfer_of_two_pieces_is_golden() {
    let (left, mut right) = agreed(TERMS);
    let pool_index = PoolIndex::new(false, 0).unwrap();
    let piece = |buffer, offset_bytes| Segment { pool_index, buffer, offset_bytes, length_bytes: 512 };
    let mut out = Vec::new();
    left.prepare_transfer(Verb::Move, &[piece(1, 0), piece(2, 64)], b"abc", &mut out).unwrap();
    assert_eq!(
        hex(&out),
        "08 02 03 00 02 00 00 00 | 00 00 00 00 01 00 00 00 | 00 00 00 00 00 00 00 00 | 00 02 00 00 00 00 00 00 | \
         00 00 00 00 02 00 00 00 | 40 00 00 00 00 00 00 00 | 00 02 00 00 00 00 00 00 | 61 62 63"
    );
    let Ok(SessionEvent::Transfer(transfer)) = right.receive(&out) else { panic!("no transfer") };
    assert_eq!(transfer.segments().collect::<Vec<_>>(), [piece(1, 0), piece(2, 64)]);
    assert_eq!((transfer.verb, transfer.metadata), (Verb::Move, &b"abc"[..]));
}

#[test]
fn content_is_golden_and_belongs_to_pools_that_are_copied() {
    let (left, mut right) = agreed_on(TERMS, 0);
    let pool_index = PoolIndex::new(false, 0).unwrap();
    let piece = Segment { pool_index, buffer: 1, offset_bytes: 64, length_bytes: 3 };
    let mut out = Vec::new();
    left.prepare_content(piece, &mut out).unwrap().copy_from_slice(b"abc");
    assert_eq!(
        hex(&out),
        "0c 00 03 00 02 00 00 00 | 01 00 00 00 00 00 00 00 | 40 00 00 00 00 00 00 00 | 61 62 63"
    );
    let Ok(SessionEvent::Content(content)) = right.clone().receive(&out) else { panic!("no content") };
    assert_eq!((content.buffer, content.offset_bytes, content.bytes), (1, 64, &b"abc"[..]));

    // An empty or invalid part, a reserved byte, and a pool whose memory both sides map.
    for (offset_bytes, length_bytes) in [(0, 0), (0, 65_536), (65_536, 1), (u64::MAX, 2)] {
        let piece = Segment { offset_bytes, length_bytes, ..piece };
        assert!(left.prepare_content(piece, &mut Vec::new()).is_err(), "{offset_bytes} {length_bytes}");
    }
    for (byte, value) in [(2, 2), (8, 200), (12, 1), (22, 1)] {
        let mut wrong = out.clone();
        wrong[byte] = value;
        assert!(right.clone().receive(&wrong).is_err(), "byte {byte}");
    }
    right.receive(&out).unwrap();
    let (left, mut right) = agreed(TERMS);
    assert!(left.prepare_content(piece, &mut Vec::new()).is_err());
    assert!(right.receive(&out).is_err());
}

proptest! {
    /// The fast path for one piece behaves as the general one: for valid messages, for invalid ones, and
    /// for messages out of turn.
    #[test]
    fn a_piece_is_the_same_by_either_way(
        verb in 0_usize..4,
        pool_index in (any::<bool>(), 0_u8..3),
        buffer in prop_oneof![0_u32..20, any::<u32>()],
        range in (prop_oneof![0_u64..70_000, any::<u64>()], prop_oneof![0_u64..70_000, any::<u64>()]),
        trusts in any::<bool>(),
        flip in prop_oneof![Just(None), (0_usize..32, 0_u8..8).prop_map(Some)],
    ) {
        let trust = if trusts { Trust::Full } else { Trust::None };
        let (left, right) = agreed(Terms { trust, ..TERMS });
        let pool_index = PoolIndex::new(pool_index.0, pool_index.1).unwrap();
        let segment = Segment { pool_index, buffer, offset_bytes: range.0, length_bytes: range.1 };
        let mut out = Vec::new();
        let prepared = left.prepare_transfer(Verb::ALL[verb], &[segment], &[], &mut out);
        let words = left.prepare_piece(Verb::ALL[verb], segment);
        prop_assert_eq!(prepared, words.map(|_| ()));
        let mut words = words.unwrap_or([verb as u64; PIECE_WORDS]);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if prepared.is_ok() {
            prop_assert_eq!(&bytes, &out);
        }
        if let Some((byte, bit)) = flip {
            words[byte / 8] ^= 1 << (byte % 8 * 8 + usize::from(bit));
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (mut hurried, mut thorough) = (right.clone(), right);
        let short = hurried.receive_piece(words);
        match thorough.receive(&bytes) {
            // The fast path does not handle transfers whose memory arrives separately.
            Ok(SessionEvent::Transfer(transfer)) if trusts || !transfer.verb.carries_content() => {
                prop_assert_eq!(short, transfer.segments().next().map(|segment| (transfer.verb, segment)));
                prop_assert_eq!(hurried.last_received(), thorough.last_received());
            }
            _ => prop_assert_eq!((short, hurried.last_received()), (None, right_last())),
        }
    }
}

/// Returns the number of the last message that the accepting side received in [`agreed`].
fn right_last() -> u32 {
    agreed(TERMS).1.last_received()
}

#[test]
fn limits_at_their_edges() {
    let terms = Terms { max_pools: 2, max_segments: 2, max_metadata_bytes: 8, ..TERMS };
    let (mut left, right) = agreed(terms);
    let pool_index = PoolIndex::new(false, 0).unwrap();
    let piece = |buffer| Segment { pool_index, buffer, offset_bytes: 0, length_bytes: 65536 };
    let mut out = Vec::new();
    let mut try_send = |segments: &[Segment], metadata: &[u8]| {
        out.clear();
        let sent = left.prepare_transfer(Verb::Share, segments, metadata, &mut out).is_ok();
        assert_eq!(right.clone().receive(&out).is_ok(), sent);
        sent
    };
    assert!(!try_send(&[], b""));
    assert!(try_send(&[piece(0)], b"12345678"));
    assert!(!try_send(&[piece(0)], b"123456789"));
    assert!(try_send(&[piece(0), piece(15)], b""));
    assert!(!try_send(&[piece(0), piece(1), piece(2)], b""));
    assert!(!try_send(&[piece(0), piece(0)], b""));
    assert!(!try_send(&[Segment { offset_bytes: 1, ..piece(0) }], b""));
    assert!(left.free_pool_index().is_ok());
    left.record_sent(&Message::Assign(Offer { pool_index: PoolIndex::new(false, 1).unwrap(), ..offer() }));
    assert!(left.free_pool_index().is_err());
}

#[test]
fn content_is_copied_per_pool() {
    let (mut left, mut right) = agreed(TERMS);
    let pool_index = |number| PoolIndex::new(false, number).unwrap();
    for (number, capability) in [(1, 0), (2, offer().capability), (31, 0)] {
        let offset_bytes = if capability == 0 { 0 } else { offer().offset_bytes };
        let offer = Offer { pool_index: pool_index(number), capability, offset_bytes, ..offer() };
        send(&mut left, &mut right, &Message::Assign(offer)).unwrap();
    }
    for session in [&left, &right] {
        let copied: Vec<u8> = (0..32).filter(|number| session.is_copied(pool_index(*number))).collect();
        assert_eq!(copied, [1, 31]);
        assert!(!session.is_copied(PoolIndex::new(true, 1).unwrap()), "that is another");
    }
}

#[test]
fn session_is_over_full_beyond_the_agreed_pool_limit() {
    let (mut left, mut right) = agreed(Terms { max_pools: 2, ..TERMS });
    for (number, is_over_full) in [(1, false), (2, true)] {
        let pool_index = PoolIndex::new(false, number).unwrap();
        send(&mut left, &mut right, &Message::Assign(Offer { pool_index, ..offer() })).unwrap();
        assert_eq!(right.is_over_full(), is_over_full, "{number}");
    }
    send(&mut right, &mut left, &Message::Vetoed(PoolIndex::new(false, 2).unwrap(), Veto::TooManyPools))
        .unwrap();
    assert!(!right.is_over_full());
}

/// Each invalid message of a peer ends the session with the reason.
#[test]
fn invalid_messages_are_refused() {
    let pool_index = PoolIndex::new(false, 0).unwrap();
    let terms = Terms { max_segments: 1, max_metadata_bytes: 4, ..TERMS };
    let piece = Segment { pool_index, buffer: 1, offset_bytes: 0, length_bytes: 64 };
    let transfer = |change: &dyn Fn(&mut Vec<u8>)| {
        let (left, mut right) = agreed(terms);
        let mut out = Vec::new();
        left.prepare_transfer(Verb::Move, &[piece], b"1234", &mut out).unwrap();
        change(&mut out);
        right.receive(&out).map(|_| ())
    };
    assert_eq!(transfer(&|_| {}), Ok(()));
    // A buffer that does not exist, a piece beyond its end, a pool that was not assigned, a wrong number.
    assert!(matches!(transfer(&|out| out[12] = 16), Err(Violation::Range { buffer: 16, .. })));
    assert!(matches!(transfer(&|out| out[16..24].fill(0xff)), Err(Violation::Range { .. })));
    assert!(matches!(transfer(&|out| out[26] = 2), Err(Violation::Range { .. })));
    assert!(matches!(transfer(&|out| out[8] = 1), Err(Violation::PoolState(_))));
    assert!(matches!(transfer(&|out| out[8] = 0x80), Err(Violation::PoolState(_))));
    assert!(matches!(transfer(&|out| out[4] = 9), Err(Violation::Number { expected: 2, found: 9 })));
    assert!(matches!(transfer(&|out| out[9] = 1), Err(Violation::Malformed(Malformed::Field(_)))));
    assert!(matches!(transfer(&|out| out[0] = 77), Err(Violation::Malformed(Malformed::Kind(77)))));
    assert!(matches!(transfer(&|out| out[0] = 10), Err(Violation::Malformed(Malformed::Field(_)))));
    assert!(matches!(transfer(&|out| out.truncate(31)), Err(Violation::Malformed(Malformed::Length { .. }))));
    assert!(matches!(transfer(&|out| out.push(0)), Err(Violation::Malformed(Malformed::Length { .. }))));
    // Terms twice, an index of the other side, an index twice, an answer without a request.
    let (mut left, mut right) = agreed(terms);
    assert_eq!(send(&mut left.clone(), &mut right, &left.first_message()), Err(Violation::OutOfTurn));
    for (message, pool_index) in [
        (Message::Assign(Offer { pool_index: PoolIndex::new(true, 1).unwrap(), ..offer() }), "assign"),
        (Message::Assign(Offer { pool_index, ..offer() }), "assign"),
        (Message::Assigned(pool_index), "assigned"),
        (Message::Vetoed(pool_index, Veto::Declined), "vetoed"),
        (Message::Unassigned(pool_index), "unassigned"),
        (Message::Kept(pool_index), "kept"),
    ] {
        let (_, mut right) = agreed(terms);
        assert_eq!(
            right.receive(&encoded(&message, 2)),
            Err(Violation::PoolState(pool_index)),
            "{message:?}"
        );
    }
    send(&mut left, &mut agreed(terms).1, &Message::Unassign(pool_index)).unwrap();
}

#[test]
fn different_trust_is_reported() {
    let mut right = Session::new(true, Terms { trust: Trust::None, ..TERMS });
    let bytes = encoded(&Message::Terms(TERMS), 0);
    assert_eq!(right.receive(&bytes), Ok(SessionEvent::Terms { agreed: None, theirs: Trust::Full }));
    // Messages that do not fit the kind of trust.
    let (_, mut right) = agreed(Terms { trust: Trust::None, ..TERMS });
    let wrong = Offer { pool_index: PoolIndex::new(false, 1).unwrap(), ..offer() };
    assert!(matches!(right.receive(&encoded(&Message::Assign(wrong), 2)), Err(Violation::PoolState(_))));
}

#[test]
fn the_longest_message_has_the_stated_length() {
    let (left, _) = agreed(TERMS);
    let pool_index = PoolIndex::new(false, 0).unwrap();
    let pieces: Vec<Segment> =
        (0..16).map(|buffer| Segment { pool_index, buffer, offset_bytes: 0, length_bytes: 1 }).collect();
    let mut out = Vec::new();
    left.prepare_transfer(Verb::Move, &pieces, &[7; 2048], &mut out).unwrap();
    assert_eq!(out.len() + (MAX_SEGMENTS - 16) * 24, MAX_MESSAGE_BYTES);
}

#[test]
fn preface_is_golden_and_others_are_refused() {
    let preface = Preface { endpoint: 0x0102_0304_0506_0708, pools: 2 };
    let bytes = *b"tombulk1\x08\x07\x06\x05\x04\x03\x02\x01\x02\0\0\0\0\0\0\0";
    assert_eq!(preface.encode(), bytes);
    assert_eq!(Preface::decode(&bytes), Some(preface));
    for length in 0..24 {
        assert_eq!(Preface::decode(&bytes[..length]), None);
    }
    for at in (0..8).chain(17..24) {
        let mut other = bytes;
        other[at] ^= 0x80;
        assert_eq!(Preface::decode(&other), None, "byte {at}");
    }
    for (pools, fits) in [(31, true), (32, true), (33, false)] {
        let bytes = Preface { pools, ..preface }.encode();
        assert_eq!(Preface::decode(&bytes).is_some(), fits, "{pools} pools");
    }
}
