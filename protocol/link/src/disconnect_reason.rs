//! Reports of a relay about the end behind it, before it releases a channel.
//!
//! An end of a relayed channel sees its lifeline hang up when the relay releases its end for any reason. A
//! live relay writes the reason to its verdict word; a relay that died cannot. The word therefore
//! distinguishes the death of the end from the death of the relay, without a third party.

use tombolo_base::sync::Ordering;
use tombolo_base::{CacheMaintenance, NodeId, OutOfRange, SharedMemory};

use crate::handshake::VERDICT_WORD;
use crate::layout::{ChannelLayout, Side};
use crate::verdict::GONE;

/// Reason why a relay releases a channel that was not closed in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DisconnectReason {
    /// The domain at the far end died, or its node was lost.
    Died,
    /// Another relay, on this node, died.
    RelayDied(NodeId),
    /// The domain at the far end, or something in its place, violated the protocol.
    Broken,
}

/// Codes are in bits 32 to 48; a node's number is in bits 48 to 64.
const DIED: u64 = 0;
const RELAY_DIED: u64 = 1;
const BROKEN: u64 = 2;

impl DisconnectReason {
    /// Encodes the reason as a word, for memory and streams.
    #[must_use]
    pub const fn to_word(self) -> u64 {
        GONE | match self {
            DisconnectReason::Died => DIED << 32,
            DisconnectReason::RelayDied(node) => RELAY_DIED << 32 | (node.0 as u64) << 48,
            DisconnectReason::Broken => BROKEN << 32,
        }
    }

    /// Decodes a peer's word. Returns `None` if it encodes no reason.
    #[must_use]
    pub fn from_word(word: u64) -> Option<DisconnectReason> {
        if word & 0xffff_ffff != GONE {
            return None;
        }
        match word >> 32 & 0xffff {
            DIED => Some(DisconnectReason::Died),
            RELAY_DIED => Some(DisconnectReason::RelayDied(NodeId((word >> 48) as u16))),
            BROKEN => Some(DisconnectReason::Broken),
            _ => None,
        }
    }
}

/// Reports the reason why `side` of the channel in `memory` is about to be released.
///
/// # Errors
/// [`OutOfRange`] when the memory is too short for the line.
pub fn report<C: CacheMaintenance>(
    memory: &SharedMemory<C>,
    side: Side,
    reason: DisconnectReason,
) -> Result<(), OutOfRange> {
    ChannelLayout::hello_line(memory, side)?.store_through_le(
        VERDICT_WORD,
        reason.to_word(),
        Ordering::Release,
    );
    Ok(())
}

/// Returns the reason why the peer of `side` released the channel, if it reported one.
#[must_use]
pub fn disconnect_reason<C: CacheMaintenance>(
    memory: &SharedMemory<C>,
    side: Side,
) -> Option<DisconnectReason> {
    let line = ChannelLayout::hello_line(memory, side.other()).ok()?;
    DisconnectReason::from_word(line.load_current_le(VERDICT_WORD, Ordering::Acquire))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_are_golden() {
        for (reason, word) in [
            (DisconnectReason::Died, 0x0000_0000_0000_0005),
            (DisconnectReason::RelayDied(NodeId(3)), 0x0003_0001_0000_0005),
            (DisconnectReason::Broken, 0x0000_0002_0000_0005),
        ] {
            assert_eq!(reason.to_word(), word);
            assert_eq!(DisconnectReason::from_word(word), Some(reason));
        }
        for other in [0, 1, 4, 6, 0x0000_0003_0000_0005, u64::MAX] {
            assert_eq!(DisconnectReason::from_word(other), None, "{other:#x}");
        }
    }

    #[test]
    fn each_side_reads_the_reason_of_the_other() {
        let memory = SharedMemory::zeroed(256);
        assert_eq!(disconnect_reason(&memory, Side::A), None);
        report(&memory, Side::B, DisconnectReason::Broken).unwrap();
        assert_eq!(
            (disconnect_reason(&memory, Side::A), disconnect_reason(&memory, Side::B)),
            (Some(DisconnectReason::Broken), None)
        );
        assert!(report(&SharedMemory::zeroed(8), Side::B, DisconnectReason::Died).is_err());
        assert_eq!(disconnect_reason(&SharedMemory::zeroed(8), Side::A), None);
    }
}
