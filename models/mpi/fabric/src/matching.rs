//! Matching of posted receives and unexpected messages.

use std::collections::{HashMap, VecDeque};

use crate::engine::NO_ADDRESS;
use crate::wire::Envelope;

/// A posted receive that no message has matched yet.
#[derive(Debug)]
pub(crate) struct Posted<M> {
    pub(crate) tag: u64,
    /// Mask of tag bits to ignore.
    pub(crate) ignore: u64,
    /// The sender, or [`NO_ADDRESS`] for any.
    pub(crate) source: u64,
    pub(crate) context: usize,
    pub(crate) report: bool,
    /// Bytes used so far of a buffer for several messages.
    pub(crate) used: usize,
    /// Id of the buffer for several messages, if it is one.
    pub(crate) multi: Option<u64>,
    pub(crate) memory: M,
}

/// A message that no receive has matched yet.
#[derive(Debug)]
pub(crate) struct Unexpected {
    pub(crate) peer: u32,
    pub(crate) envelope: Envelope,
    pub(crate) length: usize,
    pub(crate) body: Body,
}

/// Location of the bytes of an unexpected message.
#[derive(Debug)]
pub(crate) enum Body {
    Buffered(Box<[u8]>),
    /// At the sender, under this id of its operation.
    AtSender(u64),
}

/// Queues of posted receives and unexpected messages, once for tagged and once for untagged messages. Both
/// are FIFO: a message goes to the first receive that matches, a receive gets the first message that matches.
#[derive(Debug)]
pub(crate) struct Matching<M> {
    posted: VecDeque<Posted<M>>,
    unexpected: VecDeque<Unexpected>,
    /// Messages that a peek has claimed, by the context of the peek.
    claimed: HashMap<usize, Unexpected>,
}

impl<M> Default for Matching<M> {
    fn default() -> Self {
        Matching { posted: VecDeque::new(), unexpected: VecDeque::new(), claimed: HashMap::new() }
    }
}

#[inline(always)]
fn matches_receive(tag: u64, ignore: u64, source: u64, sent_tag: u64, sender: u64) -> bool {
    (tag ^ sent_tag) & !ignore == 0 && (source == NO_ADDRESS || source == sender)
}

impl<M> Matching<M> {
    pub(crate) fn post(&mut self, posted: Posted<M>) {
        self.posted.push_back(posted);
    }

    /// Puts back a receive that was taken and still has room.
    pub(crate) fn post_first(&mut self, posted: Posted<M>) {
        self.posted.push_front(posted);
    }

    /// Removes and returns the receive that a message goes to.
    #[inline]
    pub(crate) fn take_posted(&mut self, tag: u64, sender: u64) -> Option<Posted<M>> {
        let is_match =
            |posted: &Posted<M>| matches_receive(posted.tag, posted.ignore, posted.source, tag, sender);
        if self.posted.front().is_some_and(is_match) {
            return self.posted.pop_front();
        }
        let index = self.posted.iter().position(is_match)?;
        self.posted.remove(index)
    }

    pub(crate) fn push_unexpected(&mut self, unexpected: Unexpected) {
        self.unexpected.push_back(unexpected);
    }

    /// Finds the message that a receive would get. `sender` maps a peer to its address vector index.
    pub(crate) fn find(
        &self,
        tag: u64,
        ignore: u64,
        source: u64,
        sender: impl Fn(u32) -> u64,
    ) -> Option<usize> {
        let is_match = |message: &Unexpected| {
            matches_receive(
                tag,
                ignore,
                source,
                message.envelope.tag,
                if source == NO_ADDRESS { 0 } else { sender(message.peer) },
            )
        };
        self.unexpected.iter().position(is_match)
    }

    pub(crate) fn has_unexpected(&self) -> bool {
        !self.unexpected.is_empty()
    }

    pub(crate) fn peek_unexpected(&self, index: usize) -> Option<&Unexpected> {
        self.unexpected.get(index)
    }

    pub(crate) fn take_unexpected(&mut self, index: usize) -> Option<Unexpected> {
        self.unexpected.remove(index)
    }

    /// Finds the message that a peer has offered under its operation `op`.
    pub(crate) fn find_offered(&self, peer: u32, op: u64) -> Option<usize> {
        let is_op = |message: &Unexpected| matches!(message.body, Body::AtSender(peer_op) if peer_op == op);
        self.unexpected.iter().position(|message| message.peer == peer && is_op(message))
    }

    pub(crate) fn claim(&mut self, context: usize, index: usize) {
        if let Some(message) = self.unexpected.remove(index) {
            self.claimed.insert(context, message);
        }
    }

    pub(crate) fn take_claimed(&mut self, context: usize) -> Option<Unexpected> {
        self.claimed.remove(&context)
    }

    /// Removes and returns all receives for which `predicate` is true.
    pub(crate) fn remove_posted(&mut self, predicate: impl Fn(&Posted<M>) -> bool) -> Vec<Posted<M>> {
        let mut taken = Vec::new();
        let mut index = 0;
        while let Some(posted) = self.posted.get(index) {
            if predicate(posted) {
                taken.extend(self.posted.remove(index));
            } else {
                index += 1;
            }
        }
        taken
    }

    /// Removes the first receive with that context.
    pub(crate) fn cancel(&mut self, context: usize) -> Option<Posted<M>> {
        let index = self.posted.iter().position(|posted| posted.context == context)?;
        self.posted.remove(index)
    }
}
