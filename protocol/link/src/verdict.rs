//! The verdict that ends a handshake: the same in memory, on streams and on simulated links.

use crate::handshake::HandshakeError;

/// The channel may open.
pub const ACCEPTED: u64 = 1;
/// The hellos differ; the peer can find out how by itself.
pub const DISAGREED: u64 = 2;
/// The program declined; the upper half holds its reason.
const DECLINED: u64 = 3;
/// This side waited for the other until its deadline and is gone.
pub const WITHDRAWN: u64 = 4;
/// What a relay writes when the end behind it is gone; see [`crate::far_end`]. Not part of the handshake.
pub(crate) const GONE: u64 = 5;

/// The verdict of a program that declines the channel.
#[must_use]
pub const fn declined(reason: u32) -> u64 {
    DECLINED | (reason as u64) << 32
}

/// Interprets the peer's verdict for a side that accepts. `verdict` must not be 0, which stands for none
/// yet.
///
/// # Errors
/// [`HandshakeError`] unless the peer accepts too.
pub fn judge(verdict: u64) -> Result<(), HandshakeError> {
    match verdict & 0xffff_ffff {
        ACCEPTED => Ok(()),
        DECLINED => Err(HandshakeError::Declined { reason: (verdict >> 32) as u32 }),
        DISAGREED => Err(HandshakeError::Refuted),
        WITHDRAWN => Err(HandshakeError::Withdrawn),
        _ => Err(HandshakeError::Nonsense { found: verdict }),
    }
}
