//! Replays a capture: the peer behaves as it did when it was recorded.

use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tombolo_platform::event::{Interest, drain, set_timer, timer};
use tombolo_platform::time::now_ns;

use super::format::{CaptureError, CaptureHeader, Event, Record};
use super::read::read_all;
use crate::capabilities::Capabilities;
use crate::contract::{Announced, Description, EndError, Stats, Transport};
use crate::error::ChannelError;
use crate::message::Message;

/// Arrival times of the messages of a replayed capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// At once, but never before everything that was sent before them.
    AtOnce,
    /// In addition, no earlier after the start than when they were recorded.
    AsRecorded,
}

/// Channel whose peer is a capture.
///
/// Received messages are received again in the same order, and sent messages must be sent again: a message
/// arrives only after everything sent before it was sent again. Sending anything else fails with
/// [`ChannelError::Diverged`], which names the record and is final.
#[derive(Debug)]
pub struct Replay {
    header: CaptureHeader,
    records: VecDeque<Record>,
    pace: Pace,
    began_ns: u64,
    /// Timer that ends a sleep when the next message is due.
    timer: OwnedFd,
    diverged: Option<String>,
    closed: bool,
    stats: Stats,
}

impl Replay {
    /// Replays the capture in `source`, after reading it completely.
    ///
    /// # Errors
    /// [`CaptureError`] when it is not a complete capture.
    pub fn new(source: impl Read, pace: Pace) -> Result<Self, CaptureError> {
        let (header, records) = read_all(source)?;
        let timer =
            timer().map_err(|error| CaptureError::Io { offset_bytes: 0, source: error.errno.into() })?;
        Ok(Replay {
            header,
            records: records
                .into_iter()
                .filter(|record| !matches!(record.event, Event::ClosedHere))
                .collect(),
            pace,
            began_ns: now_ns(),
            timer,
            diverged: None,
            closed: false,
            stats: Stats::default(),
        })
    }

    /// Returns the description of the channel that the capture was taken from.
    #[must_use]
    pub fn header(&self) -> CaptureHeader {
        self.header
    }

    /// Returns the number of messages of the capture that were not sent or received again yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        let is_message = |record: &&Record| matches!(record.event, Event::Sent(_) | Event::Received(_));
        self.records.iter().filter(is_message).count()
    }

    /// Returns the next record, if it is the peer's turn.
    fn next_peer_record(&self) -> Option<&Record> {
        self.records.front().filter(|record| !matches!(record.event, Event::Sent(_)))
    }

    /// Returns the time until the peer's next record is due, in nanoseconds, or `None` if it is not the
    /// peer's turn.
    fn due_in_ns(&self) -> Option<u64> {
        let record = self.next_peer_record()?;
        Some(match self.pace {
            Pace::AtOnce => 0,
            Pace::AsRecorded => (self.began_ns + record.time_ns).saturating_sub(now_ns()),
        })
    }

    /// Returns how the recorded channel ended, once that record is due.
    fn end(&self) -> Option<EndError> {
        if self.diverged.is_some() {
            return Some(EndError::Broken);
        }
        if self.closed {
            return Some(EndError::Closed);
        }
        match &self.next_peer_record()?.event {
            Event::PeerDied => Some(EndError::PeerDied),
            Event::Failed(_) => Some(EndError::Broken),
            // The channel may have continued after the capture ended, with unknown results.
            Event::ClosedByPeer | Event::End { .. } => Some(EndError::Closed),
            Event::Sent(_) | Event::Received(_) | Event::ClosedHere => None,
        }
    }

    fn diverge(&mut self, what: String) -> EndError {
        self.diverged.get_or_insert(what);
        EndError::Broken
    }
}

/// Whether the record is an end caused by the peer.
fn is_end_by_peer(record: &Record) -> bool {
    matches!(record.event, Event::ClosedByPeer | Event::PeerDied | Event::Failed(_))
}

/// Returns an excerpt of an expected message for an error message.
fn excerpt(message: &[u8]) -> String {
    let prefix = &message[..message.len().min(16)];
    let more = if message.len() > prefix.len() { "..." } else { "" };
    format!("{} bytes \"{}{more}\"", message.len(), prefix.escape_ascii())
}

impl Transport for Replay {
    fn describe(&self) -> Description {
        let CaptureHeader { transport: kind, max_message_bytes, .. } = self.header;
        let max_message_bytes = max_message_bytes as usize;
        Description { kind, capabilities: Capabilities::DESCRIPTORS, max_message_bytes }
    }

    fn stats(&self) -> Stats {
        self.stats
    }

    fn failure(&self) -> Option<ChannelError> {
        if let Some(what) = &self.diverged {
            return Some(ChannelError::Diverged(what.clone()));
        }
        match &self.next_peer_record()?.event {
            Event::Failed(text) => Some(ChannelError::Violation(text.clone())),
            _ => None,
        }
    }

    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        if message.len() > self.header.max_message_bytes as usize {
            return Err(EndError::TooLong);
        }
        if self.closed || self.diverged.is_some() || self.next_peer_record().is_some_and(is_end_by_peer) {
            return self.end().map_or(Err(EndError::Full), Err);
        }
        // Finds the next sent record: the program may send before it has received everything that it had
        // then.
        let sent = |record: &Record| matches!(record.event, Event::Sent(_));
        let Some(index) = self.records.iter().position(sent) else {
            let what =
                format!("it sends {}, but the capture contains nothing more to send", excerpt(message));
            return Err(self.diverge(what));
        };
        let same = |record: &Record| matches!(&record.event, Event::Sent(then) if then == message);
        match self.records.remove(index) {
            Some(record) if same(&record) => {}
            Some(Record { offset_bytes, event: Event::Sent(then), .. }) => {
                let (then, now) = (excerpt(&then), excerpt(message));
                return Err(self.diverge(format!(
                    "the capture has {then} at byte {offset_bytes}, the program sends {now}"
                )));
            }
            _ => return Err(EndError::Full),
        }
        self.stats.messages_sent += 1;
        self.stats.bytes_sent += message.len() as u64;
        Ok(())
    }

    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        if self.closed || self.diverged.is_some() {
            return self.end().map_or(Ok(None), Err);
        }
        if self.due_in_ns() != Some(0) {
            return Ok(None);
        }
        if let Some(end) = self.end() {
            return Err(end);
        }
        let Some(Record { event: Event::Received(message), .. }) = self.records.pop_front() else {
            return Ok(None);
        };
        self.stats.messages_received += 1;
        self.stats.bytes_received += message.len() as u64;
        Ok(Some(read(&Message::of_bytes(&message))))
    }

    /// Sending never waits for room.
    fn is_ready(&mut self, awaited: Interest) -> bool {
        awaited != Interest::Read || self.closed || self.diverged.is_some() || self.due_in_ns() == Some(0)
    }

    fn announce_sleep(&mut self, _awaited: Interest) -> Announced {
        Announced::Complete
    }

    /// A wait for a message on the program's turn lasts until its deadline.
    fn may_sleep(&mut self, awaited: Interest) -> bool {
        if self.is_ready(awaited) {
            return false;
        }
        self.stats.sleeps += 1;
        let due = self.due_in_ns().map(Duration::from_nanos);
        // If the timer cannot be set, the sleep ends at its deadline, later than necessary.
        due.is_none_or(|due| set_timer(&self.timer, due).is_ok())
    }

    fn sources<'a>(&'a self, _awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        sources.push((self.timer.as_fd(), Interest::Read));
    }

    fn finish_sleep(&mut self, _rung: bool) {
        drain(&self.timer);
    }

    fn close(&mut self) {
        self.closed = true;
    }
}
