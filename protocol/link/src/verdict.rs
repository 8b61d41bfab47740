//! Verdicts that end a handshake, the same in memory, on streams and on simulated links.

use crate::handshake::HandshakeError;

/// The channel may open.
pub const ACCEPTED: u64 = 1;
/// The hellos differ. The peer can determine the difference itself.
pub const DISAGREED: u64 = 2;
/// The program declined. The upper half holds its reason.
const DECLINED: u64 = 3;
/// This side waited until its deadline and has left.
pub const WITHDRAWN: u64 = 4;
/// Written by a relay when the end behind it is gone; see [`crate::disconnect_reason`]. Not part of the
/// handshake.
pub(crate) const GONE: u64 = 5;

/// Returns the verdict of a program that declines the channel.
#[must_use]
pub const fn declined(reason: u32) -> u64 {
    DECLINED | (reason as u64) << 32
}

/// Interprets the peer's verdict for a side that accepts. `verdict` must not be 0, which means that there is
/// none yet.
///
/// # Errors
/// [`HandshakeError`] unless the peer accepts too.
pub fn check_verdict(verdict: u64) -> Result<(), HandshakeError> {
    match verdict & 0xffff_ffff {
        ACCEPTED => Ok(()),
        DECLINED => Err(HandshakeError::Declined { reason: (verdict >> 32) as u32 }),
        DISAGREED => Err(HandshakeError::RefusedByPeer),
        WITHDRAWN => Err(HandshakeError::Withdrawn),
        _ => Err(HandshakeError::InvalidWord { found: verdict }),
    }
}
