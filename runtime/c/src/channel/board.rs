//! End of a channel on a board.

use core::time::Duration;

use tombolo_bare::prelude::*;
use tombolo_bare::{Channel, Error};

use super::{Received, deliver};
use crate::status::{Failure, Status};

/// One end of a channel.
#[derive(Debug)]
pub(crate) struct End {
    channel: Channel,
    /// Message that was longer than the caller's buffer: the next receive returns it.
    pending: Option<Vec<u8>>,
    /// Receive buffer, which grows to the longest message.
    room: Vec<u8>,
}

impl End {
    pub(super) fn new(channel: Channel) -> End {
        End { channel, pending: None, room: Vec::new() }
    }

    /// Whether the next message is already here.
    pub(super) fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    pub(crate) fn channel(&mut self) -> Result<&mut Channel, Failure> {
        Ok(&mut self.channel)
    }

    /// Declares what an interface used over the channel passes.
    pub(super) fn carry(&mut self, capabilities: bool, buffers: bool) -> Result<(), Failure> {
        match capabilities || buffers {
            true => Err(Failure::new(
                Status::CannotCarry,
                "the interface passes capabilities or buffers, which programs in C on boards have not",
            )),
            false => Ok(()),
        }
    }

    /// Receives the next message into `target`; returns its length.
    pub(super) fn receive(&mut self, target: &mut [u8], timeout_ns: u64) -> Result<Received, Failure> {
        if let Some(pending) = self.pending.take() {
            return Ok(deliver(pending, target, &mut self.pending));
        }
        let length = match timeout_ns {
            0 => self.channel.try_recv_into(&mut self.room)?.ok_or(Error::WouldBlock)?,
            _ => self.channel.within(Duration::from_nanos(timeout_ns)).recv_into(&mut self.room)?,
        };
        match target.get_mut(..length) {
            Some(target) => {
                target.copy_from_slice(&self.room);
                Ok(Received::Whole(length))
            }
            None => Ok(deliver(core::mem::take(&mut self.room), target, &mut self.pending)),
        }
    }
}
