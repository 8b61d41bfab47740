//! What a monitor hands out to join the two ends of a channel.

use std::os::fd::OwnedFd;

use tombolo_control::Grant;
use tombolo_link::TransportKind;
use tombolo_platform::{Errno, OsError};
use tombolo_transport::{ChannelError, Joint, window};

/// Tells the peer that a channel is not opened after all: its future was dropped. Otherwise the peer would
/// take the end for a death.
pub(crate) fn withdraw(grant: &Grant, fds: Vec<OwnedFd>) {
    // Without a usable grant there is no way to tell the peer.
    if let Ok(joint) = joint(grant, fds) {
        joint.withdraw(grant.side);
    }
}

/// What joins the two ends of a channel.
pub(crate) fn joint(grant: &Grant, fds: Vec<OwnedFd>) -> Result<Joint, ChannelError> {
    // The kernel drops those that a process has no room for.
    let no_room = || OsError::new("receive the descriptors of a channel (see `ulimit -n`)", Errno::MFILE);
    let missing = || ChannelError::Violation("the monitor's grant lacks a place in the window".into());
    let mut fds = fds.into_iter();
    let mut next = || fds.next().ok_or_else(no_room);
    Ok(match grant.transport {
        TransportKind::Shm => Joint::Shm(next()?),
        TransportKind::Socket => Joint::Stream(next()?),
        TransportKind::Window => {
            let place = grant.window.as_ref().ok_or_else(missing)?;
            Joint::Window(window::Lent {
                memory: next()?,
                offset_bytes: place.offset_bytes,
                length_bytes: place.length_bytes,
                lifeline: next()?,
                bell: next()?,
                ringer: next()?,
                ring: place.ring,
                caches: place.caches,
                group: place.group,
            })
        }
    })
}
