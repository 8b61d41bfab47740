//! Send path: messages to other members.

use alloc::vec::Vec;

use super::{Member, Slot};
use crate::wire::Message;
use crate::{MemberId, Order};

impl Member {
    /// Returns the next message for a member, if there is one. It counts as sent: if the channel does not
    /// accept it now, it must be sent before anything else.
    pub fn transmit(&mut self, peer: MemberId) -> Option<Message> {
        if self.expelled {
            return None;
        }
        let link = self.links.get_mut(&peer)?;
        if core::mem::take(&mut link.sync_due) {
            return Some(Message::Sync(self.snapshot.clone()));
        }
        if let Some(flags) = self.flags_for(peer) {
            return Some(flags);
        }
        self.chunk_for(peer).or_else(|| self.submission_for(peer)).or_else(|| self.leave_message_for(peer))
    }

    fn leave_message_for(&mut self, peer: MemberId) -> Option<Message> {
        if !self.leaving || !self.is_drained() {
            return None;
        }
        let link = self.links.get_mut(&peer)?;
        (!core::mem::replace(&mut link.leave_sent, true)).then_some(Message::Leave)
    }

    /// Returns the message that notifies a former member that it was expelled. Send it last, if its channel
    /// still works.
    #[must_use]
    pub fn expulsion_message(&self) -> Message {
        Message::Sync(self.snapshot.clone())
    }

    /// Returns the members that [`transmit`](Self::transmit) may have something for: all but this one.
    pub fn peers(&self) -> impl Iterator<Item = MemberId> {
        self.links.keys().copied()
    }

    /// Moves chunks from the queue into free buffers.
    pub(super) fn fill_slots(&mut self) {
        // Chunks that all have taken are not kept, and a child that got a chunk on another path does not need
        // it.
        let streams = &self.streams;
        let is_kept =
            |slot: &Slot| streams.get(&slot.source).is_some_and(|stream| stream.retained(slot.seq).is_some());
        for slot in self.slots.iter_mut().filter(|slot| !is_kept(slot)) {
            slot.targets.retain(|(_, sent)| sent.is_some());
        }
        self.slots.retain(|slot| !slot.targets.is_empty());
        while self.slots.len() < usize::from(self.config.buffers)
            && let Some((source, seq)) = self.queue.pop_front()
        {
            let Some(stream) = self.streams.get_mut(&source).filter(|stream| stream.retained(seq).is_some())
            else {
                continue;
            };
            let mut targets = Vec::new();
            for (member, child) in &mut stream.children {
                if child.reached < seq {
                    child.reached = seq;
                    targets.push((*member, None));
                }
            }
            if !targets.is_empty() {
                self.slots.push(Slot { source, seq, targets });
            }
        }
    }

    fn chunk_for(&mut self, peer: MemberId) -> Option<Message> {
        let link = self.links.get_mut(&peer)?;
        for slot in &mut self.slots {
            let Some(index) = slot.targets.iter().position(|target| *target == (peer, None)) else {
                continue;
            };
            let Some(stream) = self.streams.get(&slot.source) else { continue };
            let Some(chunk) = stream.retained(slot.seq) else { continue };
            link.sent += 1;
            slot.targets[index].1 = Some(link.sent);
            let (source, seq, stable) = (slot.source, slot.seq, stream.stable);
            return Some(Message::Chunk { source, seq, stable, chunk: chunk.clone() });
        }
        None
    }

    fn submission_for(&mut self, peer: MemberId) -> Option<Message> {
        if self.config.order != Order::Total || self.sequencer() != Some(peer) {
            return None;
        }
        self.set_submission_target(peer);
        let chunk = self.outbox.get(self.submitted)?.clone();
        self.submitted += 1;
        Some(Message::Submit(chunk))
    }

    /// Returns the acknowledgements for the peer's chunks that were not sent yet.
    fn flags_for(&mut self, peer: MemberId) -> Option<Message> {
        if self.is_joining || tombolo_base::canary!("broadcast waits for a buffer") && !self.queue.is_empty()
        {
            return None;
        }
        let link = self.links.get_mut(&peer)?;
        let mut taken = Vec::new();
        // While members exchange progress, streams have no parents.
        for (source, stream) in &mut self.streams {
            if stream.parent == Some(peer) {
                let below = stream.subtree_taken();
                if below > stream.reported_taken {
                    stream.reported_taken = below;
                    taken.push((*source, below));
                }
            }
        }
        if taken.is_empty() && link.acknowledged_to_peer == link.received {
            return None;
        }
        link.acknowledged_to_peer = link.received;
        Some(Message::Flags { received: link.received, taken })
    }
}
