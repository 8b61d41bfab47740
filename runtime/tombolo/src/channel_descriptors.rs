//! Descriptors from a monitor that connect the two ends of a channel.

use std::os::fd::OwnedFd;

use tombolo_control::Grant;
use tombolo_link::TransportKind;
use tombolo_platform::{Errno, OsError};
use tombolo_transport::{ChannelError, PendingChannel, window};

/// Informs the peer that the channel will not be opened, because its future was dropped. Otherwise the peer
/// would report a death.
pub(crate) fn withdraw(grant: &Grant, fds: Vec<OwnedFd>) {
    // Without a usable grant there is no way to inform the peer.
    if let Ok(channel) = pending_channel(grant, fds) {
        channel.withdraw(grant.side);
    }
}

/// Converts a grant and its descriptors to the object that connects the two ends.
pub(crate) fn pending_channel(grant: &Grant, fds: Vec<OwnedFd>) -> Result<PendingChannel, ChannelError> {
    // The kernel drops descriptors that exceed the process's limit.
    let no_room = || OsError::new("receive the descriptors of a channel (see `ulimit -n`)", Errno::MFILE);
    let missing = || ChannelError::Violation("the monitor's grant lacks a place in the window".into());
    let mut fds = fds.into_iter();
    let mut next = || fds.next().ok_or_else(no_room);
    Ok(match grant.transport {
        TransportKind::Shm => PendingChannel::Shm(next()?),
        TransportKind::Socket => PendingChannel::Stream(next()?),
        TransportKind::Window => {
            let place = grant.window.as_ref().ok_or_else(missing)?;
            PendingChannel::Window(window::WindowResources {
                memory: next()?,
                offset_bytes: place.offset_bytes,
                length_bytes: place.length_bytes,
                lifeline: next()?,
                bell: next()?,
                peer_doorbell: next()?,
                doorbell_target: place.ring,
                caches: place.caches,
                group: place.group,
            })
        }
    })
}
