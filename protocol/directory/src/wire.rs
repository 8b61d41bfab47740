//! Encoding of messages: a head of 16 bytes and, if a message carries content, a page or a difference.
//!
//! | bytes | content |
//! |---|---|
//! | 0 | kind: 1 want, 2 recall, 3 yield, 4 grant, 5 lost, 6 held, 7 reported, 8 difference, 9, 10 below |
//! | 1 | access: 0 none, 1 read, 2 write |
//! | 2 | 1 if content follows, or is asked for |
//! | 3 | `ahead` of a want, the rank of lost |
//! | 4–7 | the page, little-endian |
//! | 8–15 | pages of held, ranks of reported, number of confirm (9) and confirmed (10), else 0; little-endian
//! |

use crate::difference;
use crate::message::{Access, Message};
use crate::ranks::{Rank, Ranks};

/// Length of the head before the content, in bytes.
pub const HEAD_BYTES: usize = 16;

const DIFFERENCE: u8 = 8;

/// Error of bytes that are not a valid message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} bytes that are not a message about a page")]
pub struct Malformed(pub usize);

/// Encodes the head of a message.
#[must_use]
pub fn head<C>(message: &Message<C>) -> [u8; HEAD_BYTES] {
    let (kind, access, flag, small, page, long) = match message {
        Message::Want { page, access, ahead } => (1, *access, false, *ahead, *page, 0),
        Message::Recall { page, leave, content } => (2, *leave, *content, 0, *page, 0),
        Message::Yield { page, content } => (3, Access::None, content.is_some(), 0, *page, 0),
        Message::Grant { page, access, content } => (4, *access, content.is_some(), 0, *page, 0),
        Message::Lost { page, with } => (5, Access::None, false, with.0, *page, 0),
        Message::Held { first, count, access } => (6, *access, false, 0, *first, u64::from(*count)),
        Message::Reported { dead } => (7, Access::None, false, 0, 0, dead.0),
        Message::Difference { page, .. } => (8, Access::None, true, 0, *page, 0),
        Message::Confirm { number } => (9, Access::None, false, 0, 0, *number),
        Message::Confirmed { number } => (10, Access::None, false, 0, 0, *number),
    };
    let mut bytes = [0; HEAD_BYTES];
    bytes[..4].copy_from_slice(&[kind, access as u8, u8::from(flag), small]);
    bytes[4..8].copy_from_slice(&page.to_le_bytes());
    bytes[8..].copy_from_slice(&long.to_le_bytes());
    bytes
}

/// Decodes a message with content of exactly `page_bytes`, or a difference of at most
/// [`difference::max_bytes`].
///
/// # Errors
/// [`Malformed`].
pub fn decode(bytes: &[u8], page_bytes: usize) -> Result<Message<&[u8]>, Malformed> {
    let malformed = Malformed(bytes.len());
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(malformed)?;
    let [kind, access, flag, small, ..] = *head;
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (page, low, high) = (word(4), word(8), word(12));
    let access = match access {
        0 => Access::None,
        1 => Access::Read,
        2 => Access::Write,
        _ => return Err(malformed),
    };
    let flag = match flag {
        0 => false,
        1 => true,
        _ => return Err(malformed),
    };
    let content = match rest.len() {
        0 => None,
        length if kind == DIFFERENCE && length <= difference::max_bytes(page_bytes) => Some(rest),
        length if kind != DIFFERENCE && length == page_bytes => Some(rest),
        _ => return Err(malformed),
    };
    let carries = matches!(kind, 3 | 4 | DIFFERENCE);
    let long = u64::from(high) << 32 | u64::from(low);
    let message = match kind {
        1 => Message::Want { page, access, ahead: small },
        2 => Message::Recall { page, leave: access, content: flag },
        3 => Message::Yield { page, content },
        4 => Message::Grant { page, access, content },
        5 => Message::Lost { page, with: Rank(small) },
        6 => Message::Held { first: page, count: low, access },
        7 => Message::Reported { dead: Ranks(long) },
        DIFFERENCE => Message::Difference { page, content: content.ok_or(malformed)? },
        9 => Message::Confirm { number: long },
        10 => Message::Confirmed { number: long },
        _ => return Err(malformed),
    };
    // Unused fields are 0, so that each message has a unique encoding.
    let fits = if carries { flag == content.is_some() } else { content.is_none() };
    if fits && self::head(&message) == *head { Ok(message) } else { Err(malformed) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message() -> impl Strategy<Value = Message<Vec<u8>>> {
        let access = prop_oneof![Just(Access::None), Just(Access::Read), Just(Access::Write)];
        let content = prop_oneof![Just(None), proptest::collection::vec(any::<u8>(), 32).prop_map(Some)];
        (0..10, any::<u32>(), access, any::<u8>(), any::<u64>(), any::<bool>(), content).prop_map(
            |(kind, page, access, small, long, flag, content)| match kind {
                0 => Message::Want { page, access, ahead: small },
                1 => Message::Recall { page, leave: access, content: flag },
                2 => Message::Yield { page, content },
                3 => Message::Grant { page, access, content },
                4 => Message::Lost { page, with: Rank(small) },
                5 => Message::Held { first: page, count: long as u32, access },
                6 => Message::Reported { dead: Ranks(long) },
                7 => Message::Difference { page, content: content.unwrap_or_else(|| vec![1; 5]) },
                8 => Message::Confirm { number: long },
                _ => Message::Confirmed { number: long },
            },
        )
    }

    fn bytes(message: &Message<Vec<u8>>) -> Vec<u8> {
        let mut bytes = head(message).to_vec();
        bytes.extend(message.content().into_iter().flatten());
        bytes
    }

    proptest! {
        #[test]
        fn messages_round_trip(message in message()) {
            let bytes = bytes(&message);
            prop_assert_eq!(decode(&bytes, 32).map(|read| read.map(<[u8]>::to_vec)), Ok(message));
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_canonical(given in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(message) = decode(&given, 32) {
                prop_assert_eq!(bytes(&message.map(<[u8]>::to_vec)), given);
            }
        }
    }

    #[test]
    fn encoding_matches_the_specification() {
        let grant = Message::Grant { page: 0x0102_0304, access: Access::Write, content: Some(()) };
        assert_eq!(head(&grant), [4, 2, 1, 0, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        let held = Message::<()>::Held { first: 7, count: 9, access: Access::Read };
        assert_eq!(head(&held), [6, 1, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        let want = Message::<()>::Want { page: 1, access: Access::Read, ahead: 8 };
        assert_eq!(head(&want), [1, 1, 0, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        for wrong in [&[][..], &[0; 16], &[1; 15], &[1; 17]] {
            assert_eq!(decode(wrong, 32), Err(Malformed(wrong.len())));
        }
    }
}
