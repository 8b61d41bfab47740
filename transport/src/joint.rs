//! What joins the two ends of a channel that is not open yet.

use std::os::fd::OwnedFd;

use tombolo_link::Side;

use crate::stream::StreamChannel;
use crate::{shm, window};

/// What joins the two ends of a channel, as a monitor hands it out.
#[derive(Debug)]
pub enum Joint {
    /// The socket between two processes of one kernel, for shared memory.
    Shm(OwnedFd),
    /// The socket between two processes, for a byte stream.
    Stream(OwnedFd),
    /// A range of a window.
    Window(window::Lent),
}

impl Joint {
    /// Tells the peer that `side` will not open the channel. Otherwise the peer would take the end for a
    /// death.
    pub fn withdraw(self, side: Side) {
        match self {
            Joint::Shm(socket) => shm::withdraw(&socket),
            Joint::Stream(socket) => StreamChannel::withdraw(&socket),
            // Without its memory there is no way to tell the peer.
            Joint::Window(lent) => drop(window::withdraw(lent, side)),
        }
    }
}
