//! Messages of a peer on a bulk channel.

use tombolo_bulk::table::UPSTREAM;
use tombolo_bulk::wire::{Offer, PIECE_WORDS, PoolId, PoolIndex, Preface, decode};
use tombolo_bulk::{Layout, Message, Segment, Session, SessionEvent, Table, Terms, Trust, Verb};

use crate::read::Choices;

const TERMS: Terms = Terms { trust: Trust::Full, max_pools: 3, max_segments: 4, max_metadata_bytes: 32 };
const COUNT: u32 = 5;

/// Feeds one side of a session untrusted messages, each preceded by its length.
pub(super) fn session(input: &[u8]) {
    let mut choices = Choices::new(input);
    let mut session = Session::new(true, TERMS);
    session.record_sent(&session.first_message());
    let mut tables: Vec<(PoolIndex, Table)> = Vec::new();
    let mut out = Vec::new();
    while !choices.is_empty() {
        let piece = choices.piece();
        if let Ok((message, number)) = decode(piece) {
            message.encode(number, &mut out);
            assert_eq!(out, piece, "what is decoded is what would be encoded");
        }
        if let Some(preface) = Preface::decode(piece) {
            assert_eq!(preface.encode(), piece, "what is decoded is what would be encoded");
        }
        let short = piece_of(piece).and_then(|words| session.clone().receive_piece(words));
        let Ok(heard) = session.receive(piece) else {
            assert_eq!(short, None, "what is refused is refused in a hurry too");
            return;
        };
        let alone = match &heard {
            SessionEvent::Transfer(transfer) if transfer.len() == 1 && transfer.metadata.is_empty() => {
                transfer.segments().next().map(|segment| (transfer.verb, segment))
            }
            _ => None,
        };
        assert_eq!(short, alone, "a piece is the same by either way");
        let answer = match heard {
            SessionEvent::Offered(offer) if session.is_over_full() || offer.layout.count() > COUNT => {
                Message::Vetoed(offer.pool_index, tombolo_bulk::wire::Veto::TooManyPools)
            }
            SessionEvent::Offered(offer) => {
                tables.push((offer.pool_index, Table::assigned(offer.layout)));
                Message::Assigned(offer.pool_index)
            }
            SessionEvent::Unassign(pool_index) => {
                let at =
                    tables.iter().position(|(known, _)| *known == pool_index).expect("a pool of the session");
                if tables[at].1.unassign(UPSTREAM).is_ok() {
                    tables.swap_remove(at);
                    Message::Unassigned(pool_index)
                } else {
                    Message::Kept(pool_index)
                }
            }
            SessionEvent::Transfer(transfer) => {
                for Segment { pool_index, buffer, .. } in transfer.segments() {
                    let table = tables
                        .iter_mut()
                        .find(|(known, _)| *known == pool_index)
                        .expect("a pool of the session");
                    if table.1.receive(transfer.verb, buffer, UPSTREAM).is_err() {
                        return;
                    }
                    let counts = table.1.counts();
                    let sum = counts.free + counts.held + counts.lent + counts.borrowed + counts.away;
                    assert_eq!(sum, table.1.layout().count());
                }
                continue;
            }
            SessionEvent::Content(content) => {
                assert!(session.is_copied(content.pool_index), "content of a pool that both sides map");
                let table = tables.iter().find(|(known, _)| *known == content.pool_index);
                let layout = table.expect("a pool of the session").1.layout();
                assert!(content.buffer < layout.count());
                assert!(layout.holds(content.offset_bytes, content.bytes.len() as u64));
                continue;
            }
            SessionEvent::Terms { agreed: None, .. } => return,
            _ => continue,
        };
        session.prepare(&answer, &mut out).expect("an answer to what was heard");
        session.record_sent(&answer);
    }
}

pub(super) fn session_seeds() -> Vec<Vec<u8>> {
    vec![seed_with(5), seed_with(0)]
}

/// Builds the messages of a peer whose pool has this capability. With capability 0 content is copied.
fn seed_with(capability: u64) -> Vec<u8> {
    let pool_index = PoolIndex::new(false, 0).expect("a place");
    let layout = Layout::new(4096, COUNT).expect("a layout");
    let pool = PoolId { domain: 1, number: 1 };
    let offer = Offer { pool_index, pool, layout, capability, offset_bytes: 0, may_forward: true };
    let mut other = Session::new(false, TERMS);
    let mut seed = Vec::new();
    let mut bytes = Vec::new();
    let add = |seed: &mut Vec<u8>, bytes: &[u8]| {
        seed.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        seed.extend_from_slice(bytes);
    };
    // The other side receives the answers that it expects.
    let exchanges = [
        (Message::Terms(TERMS), Message::Terms(TERMS)),
        (Message::Assign(offer), Message::Assigned(pool_index)),
    ];
    for (message, answer) in exchanges {
        message.encode(other.next_number(), &mut bytes);
        other.record_sent(&message);
        add(&mut seed, &bytes);
        answer.encode(other.last_received().wrapping_add(1), &mut bytes);
        other.receive(&bytes).expect("an answer");
    }
    for (verb, buffer) in [(Verb::Move, 0), (Verb::Share, 1), (Verb::Share, 1), (Verb::Move, 2)] {
        let segment = Segment { pool_index, buffer, offset_bytes: 8, length_bytes: 100 };
        if let Ok(content) = other.prepare_content(segment, &mut bytes) {
            content.fill(buffer as u8);
            other.record_transfer_sent();
            add(&mut seed, &bytes);
        }
        other.prepare_transfer(verb, &[segment], b"metadata", &mut bytes).expect("a transfer");
        other.record_transfer_sent();
        add(&mut seed, &bytes);
    }
    Message::Unassign(pool_index).encode(other.next_number(), &mut bytes);
    add(&mut seed, &bytes);
    seed
}

/// Splits a message of the length of a one-piece transfer into its words.
fn piece_of(bytes: &[u8]) -> Option<[u64; PIECE_WORDS]> {
    let (words, []) = bytes.as_chunks::<8>() else { return None };
    Some(<[[u8; 8]; PIECE_WORDS]>::try_from(words).ok()?.map(u64::from_le_bytes))
}
