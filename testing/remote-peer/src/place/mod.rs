//! Operations that differ between Linux and boards.

#[cfg(target_os = "none")]
mod board;
#[cfg(not(target_os = "none"))]
mod linux;

#[cfg(target_os = "none")]
pub(crate) use board::*;
#[cfg(not(target_os = "none"))]
pub(crate) use linux::*;

#[cfg(target_os = "none")]
use tombolo_bare as tombolo;

use tombolo::{ChannelOptions, Error};
use tombolo_link::ChannelConfig;
use tombolo_ring::Variant;

/// Returns the options of a channel with this configuration.
pub(crate) fn options(config: ChannelConfig, interface_hash: u64) -> Result<ChannelOptions, Error> {
    let options = ChannelOptions::default().slot_bytes(config.slot.bytes())?.slots(config.slots)?;
    let options = options.interface_hash(interface_hash);
    Ok(if config.variant == Variant::UsedFlag { options.used_flag() } else { options })
}
