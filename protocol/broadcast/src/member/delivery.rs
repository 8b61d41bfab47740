//! Delivery of messages and events to the program.

use alloc::vec::Vec;

use super::{Event, Member};
use crate::{MemberId, Order};

impl Member {
    /// Returns the next event for the program, if there is one.
    ///
    /// Messages that a program does not take stay with the members, and block their sources.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.is_joining || self.expelled {
                return None;
            }
            let Some(source) = self.next_source() else { return self.next_departure() };
            if let Some(event) = self.announce_late_joiner(source).or_else(|| self.take_chunk(source)) {
                return Some(event);
            }
        }
    }

    /// Returns the stream whose next chunk is to be taken.
    fn next_source(&self) -> Option<MemberId> {
        match self.config.order {
            Order::PerSource => {
                // Sources take turns by message.
                let after = (core::ops::Bound::Excluded(self.last_served), core::ops::Bound::Unbounded);
                let around = self.streams.range(after).chain(self.streams.range(..=self.last_served));
                around
                    .filter(|(source, stream)| stream.taken < stream.have && self.is_announced(**source))
                    .map(|(source, _)| *source)
                    .next()
            }
            Order::Total => {
                // Sequencers follow each other in the order of their ids.
                for (source, stream) in &self.streams {
                    if stream.taken < stream.have {
                        let next = stream.retained(stream.taken + 1)?;
                        return self.is_announced(next.origin).then_some(*source);
                    }
                    if stream.end != Some(stream.have) {
                        return None;
                    }
                }
                None
            }
        }
    }

    /// Whether the program may take messages of a member: the member was announced, or can be announced now.
    /// It cannot be before members have agreed on a view with it, or without it.
    fn is_announced(&self, member: MemberId) -> bool {
        let is_departing =
            self.pending_departures.contains_key(&member) || self.agreed && self.view.is_gone(member);
        self.announced.contains(&member) || is_departing
    }

    /// Announces a member that joined and was gone before this member heard of it, if the next chunk of a
    /// stream is its first.
    fn announce_late_joiner(&mut self, source: MemberId) -> Option<Event> {
        let stream = self.streams.get(&source)?;
        let origin = stream.retained(stream.taken + 1)?.origin;
        if self.announced.contains(&origin) || self.pending_departures.contains_key(&origin) {
            return None;
        }
        self.await_last_of(origin);
        Some(Event::Joined(origin))
    }

    /// Takes the next chunk of a stream. Returns the message if the chunk is its last.
    fn take_chunk(&mut self, source: MemberId) -> Option<Event> {
        let limit = self.config.max_message_bytes as usize;
        let stream = self.streams.get_mut(&source)?;
        let chunk = stream.retained(stream.taken + 1)?.clone();
        stream.taken += 1;
        self.drop_stable_at_root(source);
        self.publish_own_chunks();
        if chunk.first {
            self.partial_messages.insert(chunk.origin, Vec::new());
        }
        // There is no partial message if the message began before this member joined.
        let message = self.partial_messages.get_mut(&chunk.origin)?;
        message.extend_from_slice(&chunk.data);
        if message.len() > limit {
            // Longer than the configuration allows.
            self.partial_messages.remove(&chunk.origin);
            return None;
        }
        if !chunk.last {
            return None;
        }
        self.last_served = source;
        let data = self.partial_messages.remove(&chunk.origin)?;
        Some(Event::Message { from: chunk.origin, data })
    }

    /// Returns the next member that is gone and whose messages have all been taken.
    fn next_departure(&mut self) -> Option<Event> {
        if !self.agreed {
            return None;
        }
        let taken = |source: &MemberId, awaited: &u64| {
            self.streams.get(source).is_none_or(|stream| stream.taken >= *awaited)
        };
        let (departed, _) = self
            .pending_departures
            .iter()
            .find(|(_, all)| all.iter().all(|(source, last)| taken(source, last)))?;
        let departed = *departed;
        self.pending_departures.remove(&departed);
        self.partial_messages.remove(&departed);
        Some(Event::Left { member: departed, in_order: self.leaving_members.remove(&departed) })
    }
}
