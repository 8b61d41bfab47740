//! Queue of messages that the peer's channel had no room for.
//!
//! The hub and its workers never block on a full channel. A side that blocks does not receive, so with both
//! directions full each would wait for the other until one of them times out.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tombolo::{Error, Interest, Token, WaitSet};

/// A message from one side to the other.
pub trait Message {
    /// Encodes the message for sending.
    fn encode(&self) -> Vec<u8>;

    /// Merges a later message into this one if possible; returns whether it did.
    fn try_merge(&mut self, later: &Self) -> bool;
}

/// Messages waiting for room in the channel, in FIFO order.
#[derive(Debug)]
pub struct Outbox<M> {
    messages: VecDeque<M>,
    /// Time at which the first of them found no room.
    full_since: Option<Instant>,
}

impl<M> Default for Outbox<M> {
    fn default() -> Self {
        Self { messages: VecDeque::new(), full_since: None }
    }
}

impl<M: Message> Outbox<M> {
    /// Adds a message at the end, or merges it with the last one.
    pub fn push(&mut self, message: M) {
        if !self.messages.back_mut().is_some_and(|last| last.try_merge(&message)) {
            self.messages.push_back(message);
        }
    }

    /// Returns whether no message is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns how long the channel has been full.
    #[must_use]
    pub fn full_for(&self) -> Duration {
        self.full_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Sends queued messages while there is room, and makes the wait set report when there is room again.
    ///
    /// # Errors
    /// Errors of the channel, such as the end of the peer.
    pub fn flush(&mut self, set: &mut WaitSet, channel: Token) -> Result<(), Error> {
        let was_full = self.full_since.is_some();
        self.drain(|message| match set.try_send(channel, message) {
            Ok(()) => Ok(true),
            Err(Error::WouldBlock) => Ok(false),
            Err(error) => Err(error),
        })?;
        if self.full_since.is_some() != was_full {
            set.set_interest(channel, if was_full { Interest::Read } else { Interest::ReadWrite });
        }
        Ok(())
    }

    /// Passes messages to `send` until it reports that there is no room.
    fn drain<E>(&mut self, mut send: impl FnMut(&[u8]) -> Result<bool, E>) -> Result<(), E> {
        while let Some(message) = self.messages.front() {
            if !send(&message.encode())? {
                self.full_since.get_or_insert_with(Instant::now);
                return Ok(());
            }
            self.full_since = None;
            self.messages.pop_front();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{FromHub, FromWorker, PARKERS_MAX};

    fn drained<M: Message>(outbox: &mut Outbox<M>, mut room: usize) -> Vec<Vec<u8>> {
        let mut sent = Vec::new();
        let drained: Result<(), ()> = outbox.drain(|message| {
            let Some(left) = room.checked_sub(1) else { return Ok(false) };
            room = left;
            sent.push(message.to_vec());
            Ok(true)
        });
        drained.unwrap();
        sent
    }

    #[test]
    fn queued_messages_are_sent_later_in_order() {
        let start = |thread| FromWorker::Start { thread };
        let mut outbox = Outbox::default();
        (1..=3).for_each(|thread| outbox.push(start(thread)));
        assert_eq!(drained(&mut outbox, 2), [start(1).encode(), start(2).encode()]);
        assert!(!outbox.is_empty() && outbox.full_since.is_some());
        outbox.push(start(4));
        assert_eq!(drained(&mut outbox, 9), [start(3).encode(), start(4).encode()]);
        assert!(outbox.is_empty() && outbox.full_since.is_none());
    }

    #[test]
    fn wake_ups_of_same_threads_are_merged() {
        let mut outbox = Outbox::default();
        for round in 0..1000_u64 {
            outbox.push(FromHub::Wake { parkers: vec![round % 4] });
        }
        outbox.push(FromHub::Start { thread: 1, stack: 2, length: 3 });
        outbox.push(FromHub::Wake { parkers: vec![1, 2] });
        let expected = [
            FromHub::Wake { parkers: vec![0, 1, 2, 3] },
            FromHub::Start { thread: 1, stack: 2, length: 3 },
            FromHub::Wake { parkers: vec![1, 2] },
        ];
        assert_eq!(drained(&mut outbox, 9), expected.each_ref().map(FromHub::encode));
    }

    #[test]
    fn merged_wake_up_has_few_threads_of_one_domain() {
        let wake = |wake_domain, parkers: Vec<u64>| FromWorker::Wake { wake_domain, parkers };
        let mut outbox = Outbox::default();
        let most = PARKERS_MAX as u64;
        (0..=most).for_each(|parker| outbox.push(wake(1, vec![parker])));
        outbox.push(wake(2, vec![7]));
        let expected = [wake(1, (0..most).collect()), wake(1, vec![most]), wake(2, vec![7])];
        assert_eq!(drained(&mut outbox, 9), expected.each_ref().map(FromWorker::encode));
    }
}
