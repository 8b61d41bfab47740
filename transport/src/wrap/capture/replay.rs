//! Plays a capture: the peer says what it said then.

use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tombolo_platform::event::{Interest, drain, set_timer, timer};
use tombolo_platform::time::now_ns;

use super::format::{About, CaptureError, Event, Record};
use super::read::read_all;
use crate::capabilities::Capabilities;
use crate::contract::{Announced, Description, EndError, Stats, Transport};
use crate::error::ChannelError;
use crate::message::Message;

/// When the messages of a capture come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// At once, but never before what had been sent by then.
    AtOnce,
    /// Also not sooner after the beginning than they came then.
    AsRecorded,
}

/// A channel whose peer is a capture.
///
/// What was received then is received now, in the same order, and what was sent then must be sent now: a message
/// comes only when everything that had been sent before it was sent again. Sending anything else is
/// [`ChannelError::Diverged`], which names the record, and final.
#[derive(Debug)]
pub struct Replay {
    about: About,
    records: VecDeque<Record>,
    pace: Pace,
    began_ns: u64,
    /// Ends a sleep when it is time for the next message.
    timer: OwnedFd,
    diverged: Option<String>,
    closed: bool,
    stats: Stats,
}

impl Replay {
    /// Plays the capture in `source`, all of which is read first.
    ///
    /// # Errors
    /// [`CaptureError`] when it is no whole capture.
    pub fn new(source: impl Read, pace: Pace) -> Result<Self, CaptureError> {
        let (about, records) = read_all(source)?;
        let timer =
            timer().map_err(|error| CaptureError::Io { offset_bytes: 0, source: error.errno.into() })?;
        Ok(Replay {
            about,
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

    /// What the capture is of.
    #[must_use]
    pub fn about(&self) -> About {
        self.about
    }

    /// Messages of the capture that were neither sent nor received again yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        let is_message = |record: &&Record| matches!(record.event, Event::Sent(_) | Event::Received(_));
        self.records.iter().filter(is_message).count()
    }

    /// The record that comes next, if it is the peer's turn.
    fn peers_turn(&self) -> Option<&Record> {
        self.records.front().filter(|record| !matches!(record.event, Event::Sent(_)))
    }

    /// How long until the next record of the peer is due; `None` when it is not the peer's turn.
    fn due_in_ns(&self) -> Option<u64> {
        let record = self.peers_turn()?;
        Some(match self.pace {
            Pace::AtOnce => 0,
            Pace::AsRecorded => (self.began_ns + record.time_ns).saturating_sub(now_ns()),
        })
    }

    /// How the channel ended then, once it is time for that.
    fn end(&self) -> Option<EndError> {
        if self.diverged.is_some() {
            return Some(EndError::Broken);
        }
        if self.closed {
            return Some(EndError::Closed);
        }
        match &self.peers_turn()?.event {
            Event::PeerDied => Some(EndError::PeerDied),
            Event::Failed(_) => Some(EndError::Broken),
            // Where the capture ends the channel may have gone on: nobody knows what came.
            Event::ClosedByPeer | Event::End { .. } => Some(EndError::Closed),
            Event::Sent(_) | Event::Received(_) | Event::ClosedHere => None,
        }
    }

    fn diverge(&mut self, what: String) -> EndError {
        self.diverged.get_or_insert(what);
        EndError::Broken
    }
}

/// Whether the channel ended then by what the peer did.
fn is_end_by_peer(record: &Record) -> bool {
    matches!(record.event, Event::ClosedByPeer | Event::PeerDied | Event::Failed(_))
}

/// What was to be sent, for a message about it.
fn briefly(message: &[u8]) -> String {
    let shown = &message[..message.len().min(16)];
    let more = if message.len() > shown.len() { "..." } else { "" };
    format!("{} bytes \"{}{more}\"", message.len(), shown.escape_ascii())
}

impl Transport for Replay {
    fn describe(&self) -> Description {
        let About { transport: kind, max_message_bytes, .. } = self.about;
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
        match &self.peers_turn()?.event {
            Event::Failed(text) => Some(ChannelError::Violation(text.clone())),
            _ => None,
        }
    }

    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        if message.len() > self.about.max_message_bytes as usize {
            return Err(EndError::TooLong);
        }
        if self.closed || self.diverged.is_some() || self.peers_turn().is_some_and(is_end_by_peer) {
            return self.end().map_or(Err(EndError::Full), Err);
        }
        // The next one that was sent then: the program may send before it has received all that it had by then.
        let sent = |record: &Record| matches!(record.event, Event::Sent(_));
        let Some(index) = self.records.iter().position(sent) else {
            let what = format!("it sends {}, and nothing more was sent then", briefly(message));
            return Err(self.diverge(what));
        };
        let same = |record: &Record| matches!(&record.event, Event::Sent(then) if then == message);
        match self.records.remove(index) {
            Some(record) if same(&record) => {}
            Some(Record { offset_bytes, event: Event::Sent(then), .. }) => {
                let (then, now) = (briefly(&then), briefly(message));
                return Err(
                    self.diverge(format!("at byte {offset_bytes} of it, {then} were sent, now {now}"))
                );
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

    /// There is always room.
    fn is_ready(&mut self, awaited: Interest) -> bool {
        awaited != Interest::Read || self.closed || self.diverged.is_some() || self.due_in_ns() == Some(0)
    }

    fn announce_sleep(&mut self, _awaited: Interest) -> Announced {
        Announced::Complete
    }

    /// A wait for a message while it is the program's turn lasts until its deadline.
    fn may_sleep(&mut self, awaited: Interest) -> bool {
        if self.is_ready(awaited) {
            return false;
        }
        self.stats.sleeps += 1;
        let due = self.due_in_ns().map(Duration::from_nanos);
        // Without a timer the sleep ends with the deadline, later than it could.
        due.is_none_or(|due| set_timer(&self.timer, due).is_ok())
    }

    fn sources<'a>(&'a self, _awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        sources.push((self.timer.as_fd(), Interest::Read));
    }

    fn woken(&mut self, _rung: bool) {
        drain(&self.timer);
    }

    fn close(&mut self) {
        self.closed = true;
    }
}
