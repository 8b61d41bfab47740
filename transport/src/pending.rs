//! Connection between the two ends of a channel before it is opened.

use std::os::fd::OwnedFd;

use tombolo_link::Side;

use crate::stream::StreamChannel;
use crate::{shm, window};

/// Connection between the two ends of a channel, as handed out by a monitor.
#[derive(Debug)]
pub enum PendingChannel {
    /// Socket between two processes of one kernel, for shared memory.
    Shm(OwnedFd),
    /// Socket between two processes, for a byte stream.
    Stream(OwnedFd),
    /// Range of a window.
    Window(window::WindowResources),
}

impl PendingChannel {
    /// Notifies the peer that `side` will not open the channel. Without that the peer would see a death.
    pub fn withdraw(self, side: Side) {
        match self {
            PendingChannel::Shm(socket) => shm::withdraw(&socket),
            PendingChannel::Stream(socket) => StreamChannel::withdraw(&socket),
            // Without its memory the peer cannot be notified.
            PendingChannel::Window(resources) => drop(window::withdraw(resources, side)),
        }
    }
}
