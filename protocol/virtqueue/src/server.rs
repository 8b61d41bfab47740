//! Side that has the device.

use alloc::vec::Vec;

use crate::wire::{Brought, Completion, Configuration, MESSAGE_BYTES, Message, Operation, Request, Status};
use crate::{MAX_DEPTH, Violation};

/// Error of an answer to a request that is not in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("request {0:#x} is not under way")]
pub struct Unanswerable(pub u32);

/// Unanswered requests of the peer.
#[derive(Debug)]
pub struct Server {
    configuration: Configuration,
    configured: bool,
    open: Vec<u32>,
}

impl Server {
    /// Creates a server for this device, without requests. Its depth is limited to [`MAX_DEPTH`].
    #[must_use]
    pub fn new(configuration: Configuration) -> Self {
        let depth = configuration.depth.clamp(1, MAX_DEPTH);
        let configuration = Configuration { depth, ..configuration };
        Server { configuration, configured: false, open: Vec::with_capacity(usize::from(depth)) }
    }

    /// Returns the configuration of the device.
    #[must_use]
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Returns the number of unanswered requests.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Handles a request, and the way in which its buffer of `buffer_bytes` arrived. It must be
    /// [answered](Self::answer) in any case; an inner `Err` is the status for a request that the device does
    /// not support.
    ///
    /// # Errors
    /// The peer violated the protocol. Nothing has changed.
    pub fn asked(
        &mut self,
        message: Message,
        brought: Brought,
        buffer_bytes: u64,
    ) -> Result<(Request, Result<(), Status>), Violation> {
        let Message::Request(request) = message else { return Err(Violation::Direction) };
        let Request { tag, operation, length_bytes, .. } = request;
        if (operation == Operation::Configure) == self.configured {
            return Err(Violation::OutOfTurn);
        }
        if self.open.contains(&tag) {
            return Err(Violation::Twice(tag));
        }
        if self.open.len() >= usize::from(self.configuration.depth) {
            return Err(Violation::Depth(self.configuration.depth));
        }
        let fits = match (operation, brought) {
            (_, Brought::Content(bytes)) => operation.brings_content() && bytes == length_bytes,
            (Operation::Read, Brought::Empty) => length_bytes <= buffer_bytes,
            (_, Brought::Empty) => !operation.brings_content(),
        };
        if !fits {
            return Err(Violation::Buffer(operation));
        }
        self.configured = true;
        self.open.push(tag);
        Ok((request, self.configuration.check(&request)))
    }

    /// Answers a request: returns the message to send with its buffer, which must be moved if a read
    /// succeeded, and passed otherwise. `request` must come from [`asked`](Self::asked).
    ///
    /// # Errors
    /// [`Unanswerable`].
    pub fn answer(&mut self, request: &Request, status: Status) -> Result<[u8; MESSAGE_BYTES], Unanswerable> {
        let tag = request.tag;
        let at = self.open.iter().position(|open| *open == tag).ok_or(Unanswerable(tag))?;
        self.open.swap_remove(at);
        let message = match (request.operation, status) {
            (Operation::Configure, Status::Done) => Message::Configured(tag, self.configuration),
            _ => Message::Completion(Completion { tag, status }),
        };
        Ok(message.encode())
    }
}

#[cfg(test)]
mod tests;
