//! Side that issues requests.

use alloc::vec::Vec;

use crate::wire::{
    BufferArrival, Completion, Configuration, MESSAGE_BYTES, Message, Operation, Request, Status,
};
use crate::{MAX_DEPTH, Violation};

/// Error of a request beyond the maximum number in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("as many requests as the device accepts are under way")]
pub struct Full;

/// Request that was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done<T> {
    /// Context given by the caller.
    pub context: T,
    /// Result of the request.
    pub status: Status,
    /// Requested operation.
    pub operation: Operation,
    /// Requested length. After a successful read, the buffer holds this many bytes.
    pub length_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pending<T> {
    context: T,
    operation: Operation,
    length_bytes: u64,
    deadline_ns: u64,
}

#[derive(Debug)]
struct Slot<T> {
    /// Number of times that the slot was used: the upper half of a tag.
    generation: u16,
    pending: Option<Pending<T>>,
}

/// Requests of one side that are in flight. `T` is the caller's context, returned with the answer.
#[derive(Debug)]
pub struct Requester<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u16>,
    /// Configuration, once the device has reported it or it was agreed on otherwise.
    configuration: Option<Configuration>,
}

impl<T> Requester<T> {
    /// Creates a requester for up to `depth` requests at once, from 1 to [`MAX_DEPTH`].
    #[must_use]
    pub fn new(depth: u16) -> Self {
        let depth = depth.clamp(1, MAX_DEPTH);
        let slots = (0..depth).map(|_| Slot { generation: 0, pending: None }).collect();
        Requester { slots, free: (0..depth).rev().collect(), configuration: None }
    }

    /// Returns the configuration of the device, once it was reported.
    #[must_use]
    pub fn configuration(&self) -> Option<Configuration> {
        self.configuration
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether another request can be made.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let depth = self.configuration.map_or(1, |configuration| usize::from(configuration.depth));
        !self.free.is_empty() && self.in_flight() < depth
    }

    /// Creates a request and returns the message to send with its buffer. If sending fails,
    /// [`withdraw`](Self::withdraw) it. `deadline_ns` is for [`has_overdue`](Self::has_overdue), on the
    /// caller's clock.
    ///
    /// # Errors
    /// [`Full`], with the caller's context.
    pub fn request(
        &mut self,
        (operation, durable): (Operation, bool),
        (offset_bytes, length_bytes): (u64, u64),
        deadline_ns: u64,
        context: T,
    ) -> Result<(u32, [u8; MESSAGE_BYTES]), (Full, T)> {
        if !self.has_room() {
            return Err((Full, context));
        }
        let Some(index) = self.free.pop() else { return Err((Full, context)) };
        let slot = &mut self.slots[usize::from(index)];
        slot.pending = Some(Pending { context, operation, length_bytes, deadline_ns });
        let tag = u32::from(slot.generation) << 16 | u32::from(index);
        let request = Request { tag, operation, durable, offset_bytes, length_bytes };
        Ok((tag, Message::Request(request).encode()))
    }

    /// Removes a request that was not sent. Returns the caller's context, if it was in flight.
    pub fn withdraw(&mut self, tag: u32) -> Option<T> {
        self.take(tag).map(|pending| pending.context)
    }

    /// Handles an answer, and the way in which its buffer arrived.
    ///
    /// # Errors
    /// The peer violated the protocol. Nothing has changed.
    pub fn handle_answer(&mut self, message: Message, arrival: BufferArrival) -> Result<Done<T>, Violation> {
        let (tag, status, configuration) = match message {
            Message::Completion(Completion { tag, status }) => (tag, status, None),
            Message::Configured(tag, configuration) => (tag, Status::Done, Some(configuration)),
            Message::Request(_) => return Err(Violation::Direction),
        };
        let pending = self.pending(tag).ok_or(Violation::Tag(tag))?;
        let (operation, length_bytes) = (pending.operation, pending.length_bytes);
        if (operation == Operation::Configure && status == Status::Done) != configuration.is_some() {
            return Err(Violation::OutOfTurn);
        }
        let expected = match (operation, status) {
            (Operation::Read, Status::Done) => BufferArrival::Content(length_bytes),
            _ => BufferArrival::Empty,
        };
        if arrival != expected {
            return Err(Violation::Buffer(operation));
        }
        let pending = self.take(tag).ok_or(Violation::Tag(tag))?;
        self.configuration = configuration.or(self.configuration);
        Ok(Done { context: pending.context, status, operation, length_bytes })
    }

    /// Whether the deadline of any request has passed.
    #[must_use]
    pub fn has_overdue(&self, now_ns: u64) -> bool {
        self.slots.iter().flat_map(|slot| &slot.pending).any(|pending| pending.deadline_ns <= now_ns)
    }

    /// Ends all requests because the channel has ended, and returns the caller's contexts. Tags known to the
    /// peer become invalid.
    pub fn reset(&mut self) -> Vec<T> {
        self.configuration = None;
        let mut contexts = Vec::with_capacity(self.in_flight());
        for index in 0..self.slots.len() {
            let tag = u32::from(self.slots[index].generation) << 16 | index as u32;
            contexts.extend(self.withdraw(tag));
        }
        contexts
    }

    fn pending(&self, tag: u32) -> Option<&Pending<T>> {
        let slot = self.slots.get((tag & 0xffff) as usize)?;
        slot.pending.as_ref().filter(|_| u32::from(slot.generation) == tag >> 16)
    }

    fn take(&mut self, tag: u32) -> Option<Pending<T>> {
        self.pending(tag)?;
        let index = tag as u16;
        let slot = self.slots.get_mut(usize::from(index))?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        slot.pending.take()
    }
}
