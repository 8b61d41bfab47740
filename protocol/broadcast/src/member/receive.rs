//! Receive path: messages from other members.

use super::Member;
use crate::wire::{Chunk, MAX_HEADER_BYTES, Message};
use crate::{MemberId, Order, Violation};

impl Member {
    /// Handles a message from a member, with `bytes` as returned by [`transmit`](Self::transmit) there.
    ///
    /// # Errors
    /// [`Violation`]: close the sender's channel and report its death.
    pub fn receive(&mut self, from: MemberId, bytes: &[u8]) -> Result<(), Violation> {
        let (length_bytes, max_bytes) = (bytes.len(), self.config.chunk_bytes as usize);
        let message = Message::decode(bytes).ok_or(Violation::Malformed { from, length_bytes })?;
        if let Message::Chunk { chunk, .. } | Message::Submit(chunk) = &message
            && chunk.data.len() > max_bytes
        {
            return Err(Violation::TooLong { from, length_bytes: chunk.data.len(), max_bytes });
        }
        self.handle_message(from, message)
    }

    /// Returns the length of the longest message between members, in bytes, for a configuration and a number
    /// of members.
    #[must_use]
    pub fn longest_message_bytes(config: &crate::Config, members: usize) -> usize {
        let sync = 24 + members * 8 + 2 * members * 24;
        (config.chunk_bytes as usize + MAX_HEADER_BYTES).max(sync)
    }

    pub(super) fn handle_message(&mut self, from: MemberId, message: Message) -> Result<(), Violation> {
        if self.pending_departures.contains_key(&from) && matches!(message, Message::Leave) {
            self.leaving_members.insert(from);
        }
        let known = self.view.members.contains(&from) && from != self.own;
        if self.expelled || !known && !tombolo_base::canary!("broadcast hears the dead") {
            return Ok(());
        }
        if matches!(message, Message::Leave) {
            self.leaving_members.insert(from);
            return Ok(());
        }
        if self.is_joining && !matches!(message, Message::Sync(_)) {
            return self.defer_message(from, message);
        }
        match message {
            Message::Chunk { source, seq, stable, chunk } => {
                self.receive_chunk(from, source, seq, stable, chunk)
            }
            Message::Flags { received, taken } => self.receive_flags(from, received, &taken),
            Message::Submit(chunk) => self.receive_submission(from, chunk),
            Message::Sync(sync) => self.receive_sync(from, sync),
            Message::Leave => Ok(()),
        }
    }

    /// Keeps a message from a member that learned earlier than this member itself that it has joined. The
    /// chunk is not acknowledged, so that each sender sends little more than its buffers hold.
    fn defer_message(&mut self, from: MemberId, message: Message) -> Result<(), Violation> {
        let of_peer = self.early_messages.iter().filter(|(peer, _)| *peer == from).count();
        if of_peer > 2 * usize::from(self.config.buffers) + self.max_waiting() {
            return Err(Violation::Flood { from });
        }
        self.early_messages.push_back((from, message));
        Ok(())
    }

    /// Returns the maximum number of chunks of a member that wait to be ordered.
    fn max_waiting(&self) -> usize {
        let longest = self.config.max_message_bytes.div_ceil(self.config.chunk_bytes);
        self.config.window_chunks as usize + longest as usize + 1
    }

    /// Returns the number of chunks of a member that wait to be ordered.
    fn waiting_count(&self, origin: MemberId) -> usize {
        self.unordered.iter().chain(&self.ordered).filter(|chunk| chunk.origin == origin).count()
    }

    fn receive_chunk(
        &mut self,
        from: MemberId,
        source: MemberId,
        seq: u64,
        stable: u64,
        chunk: Chunk,
    ) -> Result<(), Violation> {
        if let Some(link) = self.links.get_mut(&from) {
            link.received += 1;
        }
        let Some(stream) = self.streams.get_mut(&source) else {
            // A chunk of a stream that was dropped, because all members have all of it.
            let known = source <= self.view.highest;
            return if known { Ok(()) } else { Err(Violation::UnknownSource { from, root: source }) };
        };
        let is_new = seq > stream.have || tombolo_base::canary!("broadcast takes twice");
        if is_new && source != self.own {
            if seq > stream.have + 1 {
                return Err(Violation::Gap { from, root: source, seq, have: stream.have });
            }
            if stream.retained.len() > 2 * self.config.window_chunks as usize {
                return Err(Violation::Flood { from });
            }
            self.append(source, chunk);
        }
        if let Some(stream) = self.streams.get_mut(&source)
            && self.agreed
        {
            stream.drop_stable(stable);
        }
        self.publish_own_chunks();
        Ok(())
    }

    fn receive_flags(
        &mut self,
        from: MemberId,
        received: u64,
        taken: &[(MemberId, u64)],
    ) -> Result<(), Violation> {
        let Some(link) = self.links.get_mut(&from) else { return Ok(()) };
        if received > link.sent {
            return Err(Violation::Flags { from, received, sent: link.sent });
        }
        link.acknowledged = link.acknowledged.max(received);
        let acknowledged = link.acknowledged;
        for slot in &mut self.slots {
            slot.targets.retain(|(peer, sent)| *peer != from || sent.is_none_or(|sent| sent > acknowledged));
        }
        for (source, seq) in taken {
            if !self.agreed && self.streams.contains_key(source) {
                self.early_flags.insert((from, *source), *seq);
            }
            let stream = self.streams.get_mut(source);
            if let Some(child) = stream.and_then(|stream| stream.children.get_mut(&from)) {
                child.taken = child.taken.max(*seq);
                self.drop_stable_at_root(*source);
            }
        }
        self.publish_own_chunks();
        Ok(())
    }

    fn receive_submission(&mut self, from: MemberId, chunk: Chunk) -> Result<(), Violation> {
        if self.config.order != Order::Total {
            return Err(Violation::NotOrdered { from });
        }
        if chunk.origin != from {
            return Err(Violation::UnknownSource { from, root: chunk.origin });
        }
        if self.waiting_count(from) > self.max_waiting() {
            return Err(Violation::Flood { from });
        }
        self.sequence_chunk(chunk);
        self.publish_own_chunks();
        Ok(())
    }
}
