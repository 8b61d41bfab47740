//! The side that has requests.

use alloc::vec::Vec;

use crate::wire::{Brought, Completion, Configuration, MESSAGE_BYTES, Message, Operation, Request, Status};
use crate::{MAX_DEPTH, Violation};

/// As many requests as can be are under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("as many requests as the device accepts are under way")]
pub struct Full;

/// A request that was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done<T> {
    /// What the caller gave with it.
    pub context: T,
    /// The result.
    pub status: Status,
    /// What was asked for.
    pub operation: Operation,
    /// How much was asked for. When a read was done, the buffer holds as much.
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
    /// How often it was used: the upper half of a tag.
    generation: u16,
    pending: Option<Pending<T>>,
}

/// The requests of one side that are under way. `T` is what the caller wants to find again with an answer.
#[derive(Debug)]
pub struct Requester<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u16>,
    /// Once the device has said what it is, or been agreed on otherwise.
    configuration: Option<Configuration>,
}

impl<T> Requester<T> {
    /// No requests, and up to `depth` at once, from 1 to [`MAX_DEPTH`].
    #[must_use]
    pub fn new(depth: u16) -> Self {
        let depth = depth.clamp(1, MAX_DEPTH);
        let slots = (0..depth).map(|_| Slot { generation: 0, pending: None }).collect();
        Requester { slots, free: (0..depth).rev().collect(), configuration: None }
    }

    /// What the device is, when it has said so.
    #[must_use]
    pub fn configuration(&self) -> Option<Configuration> {
        self.configuration
    }

    /// How many requests are under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether another request can be made.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let depth = self.configuration.map_or(1, |configuration| usize::from(configuration.depth));
        !self.free.is_empty() && self.under_way() < depth
    }

    /// Makes a request: the message to send with its buffer. If that fails, [`withdraw`](Self::withdraw) it.
    /// `deadline_ns` is for [`overdue`](Self::overdue), on the caller's clock.
    ///
    /// # Errors
    /// [`Full`], with what the caller gave.
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

    /// Forgets a request that was not sent. What the caller gave with it, if it was under way.
    pub fn withdraw(&mut self, tag: u32) -> Option<T> {
        self.take(tag).map(|pending| pending.context)
    }

    /// Takes note of an answer and of how its buffer came.
    ///
    /// # Errors
    /// The peer broke the protocol; nothing has changed.
    pub fn answered(&mut self, message: Message, brought: Brought) -> Result<Done<T>, Violation> {
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
            (Operation::Read, Status::Done) => Brought::Content(length_bytes),
            _ => Brought::Empty,
        };
        if brought != expected {
            return Err(Violation::Buffer(operation));
        }
        let pending = self.take(tag).ok_or(Violation::Tag(tag))?;
        self.configuration = configuration.or(self.configuration);
        Ok(Done { context: pending.context, status, operation, length_bytes })
    }

    /// Whether a request's deadline has passed.
    #[must_use]
    pub fn overdue(&self, now_ns: u64) -> bool {
        self.slots.iter().flat_map(|slot| &slot.pending).any(|pending| pending.deadline_ns <= now_ns)
    }

    /// The channel has ended, and every request with it: what the caller gave with each. Tags that the peer
    /// knows are not valid any more.
    pub fn lost(&mut self) -> Vec<T> {
        self.configuration = None;
        let mut contexts = Vec::with_capacity(self.under_way());
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
