//! Descriptors from a monitor that connect the two ends of a channel.

use std::os::fd::OwnedFd;

use tombolo_control::Grant;
use tombolo_link::TransportKind;
use tombolo_platform::{Errno, OsError};
use tombolo_transport::{ChannelError, Joint, window};

/// Informs the peer that the channel will not be opened, because its future was dropped. Otherwise the peer
/// would report a death.
pub(crate) fn withdraw(grant: &Grant, fds: Vec<OwnedFd>) {
    // Without a usable grant there is no way to inform the peer.
    if let Ok(joint) = joint(grant, fds) {
        joint.withdraw(grant.side);
    }
}

/// Converts a grant and its descriptors to the object that connects the two ends.
pub(crate) fn joint(grant: &Grant, fds: Vec<OwnedFd>) -> Result<Joint, ChannelError> {
    // The kernel drops descriptors that exceed the process's limit.
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
