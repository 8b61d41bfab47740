//! Messages between rank 0 and the other ranks.

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use crate::layout::Layout;

/// First number of a hello, which identifies the version of the format.
const VERSION: u64 = 0x5243_4345_0000_0001;

/// Rank number and build parameters of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    pub(super) rank: usize,
    pub(super) built_for_bytes: usize,
    pub(super) layout: Layout,
}

/// A message between rank 0 and another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// To rank 0: the parameters of the sender.
    Hello(Hello),
    /// Capability for the job's memory, and number of ranks on the receiver's kernel, including itself.
    Welcome { capability: u64, ranks_on_kernel: usize },
    /// The job does not start.
    Refusal(String),
    /// Either way: the sender has called `RCCE_finalize`.
    Finalized,
    /// From rank 0: a rank has ended without calling `RCCE_finalize`.
    Ended { rank: usize },
}

impl Message {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let numbers = match self {
            Message::Hello(Hello { rank, built_for_bytes, layout }) => {
                let Layout { ranks, buffer_bytes, shared_bytes } = *layout;
                let lengths = [*rank, *built_for_bytes, ranks, buffer_bytes, shared_bytes];
                [1, VERSION].into_iter().chain(lengths.map(|length| length as u64)).collect()
            }
            Message::Welcome { capability, ranks_on_kernel } => vec![2, *capability, *ranks_on_kernel as u64],
            Message::Refusal(_) => vec![3],
            Message::Finalized => vec![4],
            Message::Ended { rank } => vec![5, *rank as u64],
        };
        let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
        if let Message::Refusal(why) = self {
            // Far below the maximum message length of a channel.
            bytes.extend(why.bytes().take(320));
        }
        bytes
    }

    /// Decodes a message; `None` if it is not one of this version.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Message> {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let number = |index: usize| chunks.get(index).map(|chunk| u64::from_le_bytes(*chunk));
        let length = |index: usize| number(index).and_then(|number| usize::try_from(number).ok());
        let message = match number(0)? {
            3 => return Some(Message::Refusal(String::from_utf8_lossy(&bytes[8..]).into_owned())),
            1 if number(1)? == VERSION => {
                let layout = Layout { ranks: length(4)?, buffer_bytes: length(5)?, shared_bytes: length(6)? };
                let hello = Hello { rank: length(2)?, built_for_bytes: length(3)?, layout };
                layout.is_valid().then_some(Message::Hello(hello))?
            }
            2 => Message::Welcome { capability: number(1)?, ranks_on_kernel: length(2)? },
            4 => Message::Finalized,
            5 => Message::Ended { rank: length(1)? },
            _ => return None,
        };
        rest.is_empty().then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_invalid_ones_are_refused() {
        let layout = Layout { ranks: 48, buffer_bytes: 8192, shared_bytes: 1 << 20 };
        let all = [
            Message::Hello(Hello { rank: 3, built_for_bytes: 4096, layout }),
            Message::Welcome { capability: 7 << 40, ranks_on_kernel: 2 },
            Message::Refusal("too few ranks".to_owned()),
            Message::Finalized,
            Message::Ended { rank: 5 },
        ];
        for message in all {
            let mut bytes = message.to_bytes();
            assert_eq!(Message::from_bytes(&bytes), Some(message.clone()));
            if !matches!(message, Message::Refusal(_)) {
                bytes.pop();
                assert_eq!(Message::from_bytes(&bytes), None);
            }
        }
        assert_eq!(Message::from_bytes(&[]), None);
        assert_eq!(Message::from_bytes(&9_u64.to_le_bytes()), None);
        let invalid = Layout { ranks: 1000, ..layout };
        let hello = Message::Hello(Hello { rank: 3, built_for_bytes: 4096, layout: invalid });
        assert_eq!(Message::from_bytes(&hello.to_bytes()), None);
    }

    #[test]
    fn any_bytes_decode_or_are_refused() {
        let mut random = tombolo_base::Random::new(5);
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..random.index(80)).map(|_| random.word() as u8).collect();
            if bytes.len() >= 8 {
                bytes[..8].copy_from_slice(&(random.index(7) as u64).to_le_bytes());
            }
            if let Some(message) = Message::from_bytes(&bytes)
                && !matches!(message, Message::Refusal(_))
            {
                assert!(message.to_bytes().len() <= bytes.len());
            }
        }
    }
}
