//! What a side says in the end of a handshake: the same in memory, on streams and on simulated links.

use crate::handshake::HandshakeError;

/// The channel may open.
pub const ACCEPTED: u64 = 1;
/// Hellos do not agree; the peer can see for itself why.
pub const DISAGREED: u64 = 2;
/// The program declined; its reason, a number, is in the upper half.
const DECLINED: u64 = 3;
/// This side waited for the other as long as it could, and is gone.
pub const WITHDRAWN: u64 = 4;

/// The verdict of a program that does not want the channel.
#[must_use]
pub const fn declined(reason: u32) -> u64 {
    DECLINED | (reason as u64) << 32
}

/// What the peer's verdict comes to for a side that accepts. It is not 0, which is none.
///
/// # Errors
/// [`HandshakeError`] for all but one that accepts, too.
pub fn judge(verdict: u64) -> Result<(), HandshakeError> {
    match verdict & 0xffff_ffff {
        ACCEPTED => Ok(()),
        DECLINED => Err(HandshakeError::Declined { reason: (verdict >> 32) as u32 }),
        DISAGREED => Err(HandshakeError::Refuted),
        WITHDRAWN => Err(HandshakeError::Withdrawn),
        _ => Err(HandshakeError::Nonsense { found: verdict }),
    }
}
