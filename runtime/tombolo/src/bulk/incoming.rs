//! One end of a bulk channel: receives messages, with a fast path for the most frequent one, a transfer of a
//! single mapped buffer.

use std::sync::Arc;
use std::time::Duration;

use tombolo_bulk::wire::PIECE_WORDS;
use tombolo_bulk::{PoolChannel, Segment, Table, Trust, Verb};
use tombolo_platform::Deadline;

use crate::error::Error;

use super::arrival::{Arrival, Received};
use super::buffer::{Buffer, Handle, Shared};
use super::channel::{Assignment, BulkChannel};
use super::content::Content;
use super::pool::{Inner, Pool};

impl BulkChannel {
    /// Receives one message and queues what arrives with it.
    pub(super) fn process_message(&mut self, budget: &mut TimeBudget) -> Result<(), Error> {
        let mut metadata = Vec::new();
        if let Some(arrival) = self.receive_arrival(&mut metadata, budget)? {
            self.arrived.push_back((self.session.last_received(), arrival, metadata));
        }
        Ok(())
    }

    /// Receives one message if there is one, and queues what arrives with it. Returns whether there was one.
    pub(super) fn try_process_message(&mut self) -> Result<bool, Error> {
        match self.poll_message_out_of_line(Duration::ZERO)? {
            Polled::Nothing => Ok(false),
            found => self.handle_and_queue(found).map(|()| true),
        }
    }

    /// Returns the buffer if the next message transfers one by `verb`. Any other message is handled as in
    /// [`process_message`](Self::process_message).
    #[inline(always)]
    pub(super) fn expect(
        &mut self,
        verb: Verb,
        metadata: &mut Vec<u8>,
        timeout: Duration,
    ) -> Result<Option<Handle>, Error> {
        if !self.arrived.is_empty() {
            return Ok(None);
        }
        match self.poll_message(timeout)? {
            Polled::Nothing => Ok(None),
            Polled::Piece(received, segment) if received == verb => {
                metadata.clear();
                self.receive_right(verb, segment)
            }
            found => self.handle_and_queue(found).map(|()| None),
        }
    }

    /// Returns a buffer of `pool` if the next message gives one back, as if it had been taken from the pool.
    /// Any other message is handled and its arrival queued.
    #[inline(always)]
    pub(super) fn expect_return(&mut self, pool: &Pool, timeout: Duration) -> Result<Option<Handle>, Error> {
        match self.poll_message(timeout)? {
            Polled::Nothing => Ok(None),
            Polled::Piece(verb, segment) if !verb.carries_content() && pool.trust() == Trust::Full => {
                self.receive_back(verb, segment, Some(pool))
            }
            found => self.handle_and_queue(found).map(|()| None),
        }
    }

    /// Receives one message and handles it. Returns the arrival that the program has to know about, if any.
    pub(super) fn receive_arrival(
        &mut self,
        metadata: &mut Vec<u8>,
        budget: &mut TimeBudget,
    ) -> Result<Option<Arrival>, Error> {
        match self.poll_message_out_of_line(budget.timeout)? {
            Polled::Nothing if budget.timeout.is_zero() => Err(Error::WouldBlock),
            Polled::Nothing => {
                let received = self.channel.within(budget.remaining()).recv_into(&mut self.inbox);
                received.map_err(|error| self.handle_channel_error(budget.with_total_timeout(error)))?;
                self.handle_message(Polled::Message, metadata)
            }
            found => self.handle_message(found, metadata),
        }
    }

    /// Handles a message that was found, and queues what arrives with it.
    fn handle_and_queue(&mut self, found: Polled) -> Result<(), Error> {
        let mut metadata = Vec::new();
        if let Some(arrival) = self.handle_message(found, &mut metadata)? {
            self.arrived.push_back((self.session.last_received(), arrival, metadata));
        }
        Ok(())
    }

    fn handle_message(&mut self, found: Polled, metadata: &mut Vec<u8>) -> Result<Option<Arrival>, Error> {
        let (verb, segment) = match found {
            Polled::Nothing => return Ok(None),
            Polled::Message => {
                return self.handle_inbox(metadata).map_err(|error| self.handle_channel_error(error));
            }
            Polled::Piece(verb, segment) => (verb, segment),
        };
        metadata.clear();
        Ok(match verb {
            Verb::Move => {
                let handle = self.receive_right(verb, segment)?;
                handle.map(|handle| Arrival::Moved(Received::one(Buffer::new(handle))))
            }
            Verb::Share => {
                let handle = self.receive_right(verb, segment)?;
                handle.map(|handle| Arrival::Shared(Received::one(Shared::new(handle))))
            }
            Verb::Pass | Verb::Release => self.receive_back(verb, segment, None)?.and(None),
        })
    }

    /// Returns dropped buffers, then polls for a message: at most for `timeout`, and only as long as polling
    /// needs no system call.
    #[inline(always)]
    fn poll_message(&mut self, timeout: Duration) -> Result<Polled, Error> {
        // No combinators: their closures are not inlined, and a segment that is returned through memory in
        // one width and read back in another stalls on store forwarding.
        if let Err(error) = self.give_back() {
            return Err(self.handle_channel_error(error));
        }
        match self.poll_channel(timeout) {
            Ok(found) => Ok(found),
            Err(error) => Err(self.handle_channel_error(error)),
        }
    }

    /// Like [`poll_message`](Self::poll_message), for callers outside the fast path.
    #[inline(never)]
    fn poll_message_out_of_line(&mut self, timeout: Duration) -> Result<Polled, Error> {
        self.poll_message(timeout)
    }

    #[inline(always)]
    fn poll_channel(&mut self, timeout: Duration) -> Result<Polled, Error> {
        let BulkChannel { channel, inbox, .. } = self;
        let mut words = [0; PIECE_WORDS];
        let found = channel.glance(timeout, |message| {
            // A message of this length is a transfer of a single piece.
            if let Some(read) = message.to_words() {
                words = read;
                return true;
            }
            message.copy_into(inbox);
            false
        });
        match found {
            Ok(None) => Ok(Polled::Nothing),
            Ok(Some(false)) => Ok(Polled::Message),
            Err(error) => Err(self.channel.refused(error, 0)),
            Ok(Some(true)) => match self.session.receive_piece(words) {
                Some((verb, segment)) => Ok(Polled::Piece(verb, segment)),
                None => {
                    self.inbox.clear();
                    self.inbox.extend(words.iter().flat_map(|word| word.to_le_bytes()));
                    Ok(Polled::Message)
                }
            },
        }
    }

    /// Handles the end of the channel if the error reports one, and returns the error.
    #[cold]
    fn handle_channel_error(&mut self, error: Error) -> Error {
        match error {
            Error::PeerDied { .. } | Error::RelayDied { .. } => self.on_channel_end(true),
            Error::Closed { .. } | Error::Violation { .. } => self.on_channel_end(false),
            _ => {}
        }
        error
    }

    #[cold]
    fn protocol_violation(&mut self, what: String) -> Error {
        let error = self.violation(what);
        self.handle_channel_error(error)
    }

    /// Takes the right to one mapped buffer with its contents. Returns `None` if the pool was revoked
    /// meanwhile.
    #[inline(always)]
    fn receive_right(&mut self, verb: Verb, segment: Segment) -> Result<Option<Handle>, Error> {
        self.receive_piece(verb, segment, |pool, link, _| {
            let mut handle = Handle::whole(Arc::clone(pool), segment.buffer, Content::Pool);
            (handle.offset_bytes, handle.length_bytes) = (segment.offset_bytes, segment.length_bytes);
            (handle.from, handle.is_borrowed) = (Some(link), verb == Verb::Share);
            handle
        })
    }

    /// Takes back the right to one buffer, whose contents are undefined. The buffer becomes free, or is taken
    /// immediately if it belongs to the `wanted` pool.
    #[inline(always)]
    fn receive_back(
        &mut self,
        verb: Verb,
        segment: Segment,
        wanted: Option<&Pool>,
    ) -> Result<Option<Handle>, Error> {
        let taken = self.receive_piece(verb, segment, |pool, _, table| {
            wanted.filter(|wanted| Arc::ptr_eq(pool, &wanted.inner))?;
            let buffer = table.allocate()?;
            Some(Handle::whole(Arc::clone(pool), buffer, Content::Pool))
        });
        taken.map(Option::flatten)
    }

    #[inline(always)]
    fn receive_piece<R>(
        &mut self,
        verb: Verb,
        segment: Segment,
        then: impl FnOnce(&Arc<Inner>, PoolChannel, &mut Table) -> R,
    ) -> Result<Option<R>, Error> {
        let assigned = self.assigned.iter().find(|assigned| assigned.pool_index == segment.pool_index);
        let Some(Assignment { pool, link, .. }) = assigned else {
            return Err(
                self.protocol_violation("something was said of a pool that is not on the channel".into())
            );
        };
        let mut state = pool.lock();
        if state.table.is_revoked() {
            // The pool was revoked after the peer sent the message.
            return Ok(None);
        }
        match state.table.receive(verb, segment.buffer, *link) {
            Ok(()) => {
                pool.invalidate(segment.buffer);
                Ok(Some(then(pool, *link, &mut state.table)))
            }
            Err(error) => {
                drop(state);
                Err(self.protocol_violation(format!("{verb}: {error}")))
            }
        }
    }
}

/// Time budget for an operation of several waits. The clock is read only at the first actual wait.
#[derive(Debug)]
pub(super) struct TimeBudget {
    timeout: Duration,
    deadline: Option<Deadline>,
}

impl TimeBudget {
    pub(super) fn of(timeout: Duration) -> TimeBudget {
        TimeBudget { timeout, deadline: None }
    }

    pub(super) fn remaining(&mut self) -> Duration {
        let timeout = self.timeout;
        self.deadline.get_or_insert_with(|| Deadline::after(timeout)).remaining()
    }

    /// Reports the timeout of the whole operation, not the shorter one of its last wait.
    pub(super) fn with_total_timeout(&self, error: Error) -> Error {
        match error {
            Error::TimedOut { what, .. } => Error::TimedOut { what, timeout: self.timeout },
            error => error,
        }
    }
}

/// Result of polling the channel.
enum Polled {
    /// One piece without metadata, which nearly all transfers are.
    Piece(Verb, Segment),
    /// Another message, stored in the inbox.
    Message,
    Nothing,
}
