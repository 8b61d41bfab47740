//! Side that has the device.

use alloc::vec::Vec;

use crate::wire::{
    BufferArrival, Completion, Configuration, MESSAGE_BYTES, Message, Operation, Request, Status,
};
use crate::{MAX_DEPTH, Violation};

/// Error of an answer to a request that is not in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("request {0:#x} is not under way")]
pub struct NotInFlight(pub u32);

/// Unanswered requests of the peer.
#[derive(Debug)]
pub struct Server {
    configuration: Configuration,
    configured: bool,
    unanswered: Vec<u32>,
}

impl Server {
    /// Creates a server for this device, without requests. Its depth is limited to [`MAX_DEPTH`].
    #[must_use]
    pub fn new(configuration: Configuration) -> Self {
        let depth = configuration.depth.clamp(1, MAX_DEPTH);
        let configuration = Configuration { depth, ..configuration };
        Server { configuration, configured: false, unanswered: Vec::with_capacity(usize::from(depth)) }
    }

    /// Returns the configuration of the device.
    #[must_use]
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Returns the number of unanswered requests.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    /// Handles a request, and the way in which its buffer of `buffer_bytes` arrived. It must be
    /// [answered](Self::answer) in any case; an inner `Err` is the status for a request that the device does
    /// not support.
    ///
    /// # Errors
    /// The peer violated the protocol. Nothing has changed.
    pub fn handle_request(
        &mut self,
        message: Message,
        arrival: BufferArrival,
        buffer_bytes: u64,
    ) -> Result<(Request, Result<(), Status>), Violation> {
        let Message::Request(request) = message else { return Err(Violation::Direction) };
        let Request { tag, operation, length_bytes, .. } = request;
        if (operation == Operation::Configure) == self.configured {
            return Err(Violation::OutOfTurn);
        }
        if self.unanswered.contains(&tag) {
            return Err(Violation::DuplicateTag(tag));
        }
        if self.unanswered.len() >= usize::from(self.configuration.depth) {
            return Err(Violation::Depth(self.configuration.depth));
        }
        let fits = match (operation, arrival) {
            (_, BufferArrival::Content(bytes)) => operation.carries_content() && bytes == length_bytes,
            (Operation::Read, BufferArrival::Empty) => length_bytes <= buffer_bytes,
            (_, BufferArrival::Empty) => !operation.carries_content(),
        };
        if !fits {
            return Err(Violation::Buffer(operation));
        }
        self.configured = true;
        self.unanswered.push(tag);
        Ok((request, self.configuration.check(&request)))
    }

    /// Answers a request: returns the message to send with its buffer, which must be moved if a read
    /// succeeded, and passed otherwise. `request` must come from [`handle_request`](Self::handle_request).
    ///
    /// # Errors
    /// [`NotInFlight`].
    pub fn answer(&mut self, request: &Request, status: Status) -> Result<[u8; MESSAGE_BYTES], NotInFlight> {
        let tag = request.tag;
        let at = self.unanswered.iter().position(|unanswered| *unanswered == tag).ok_or(NotInFlight(tag))?;
        self.unanswered.swap_remove(at);
        let message = match (request.operation, status) {
            (Operation::Configure, Status::Done) => Message::Configured(tag, self.configuration),
            _ => Message::Completion(Completion { tag, status }),
        };
        Ok(message.encode())
    }
}

#[cfg(test)]
mod tests;
