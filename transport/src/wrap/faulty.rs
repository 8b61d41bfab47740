//! Injects every fault that the contract allows and that a program must handle, derived from a seed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tombolo_base::Random;
use tombolo_platform::OsError;
use tombolo_platform::event::{Interest, drain, eventfd, signal};

use crate::capabilities::Capabilities;
use crate::contract::{Description, EndError, Transport};
use crate::message::Message;

/// Frequency of each fault. All zero means never.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Percentage of sends that start a streak without room.
    pub refusals_percent: u8,
    /// Percentage of polls with a message that start a streak in which the message is hidden.
    pub delays_percent: u8,
    /// Percentage of sleeps that end at once without a reason, or do not start.
    pub wake_ups_percent: u8,
    /// Maximum length of a streak, in attempts.
    pub streak: u32,
    /// How the channel ends by itself, if it does.
    pub ending: Option<ChannelEnding>,
}

impl Faults {
    /// Capabilities that a channel with faults lacks: its room cannot be counted, and its sleeps end without
    /// a reason.
    pub const LACKS: Capabilities = Capabilities::NO_SPURIOUS_RESULTS
        .with(Capabilities::COUNTED_ROOM)
        .with(Capabilities::BELL_FOR_MESSAGES)
        .with(Capabilities::BELL_FOR_ROOM)
        .with(Capabilities::WHOLE_BATCHES);
    /// Frequent transient faults of every kind, and no end.
    pub const FREQUENT: Faults =
        Faults { refusals_percent: 20, delays_percent: 20, wake_ups_percent: 30, streak: 8, ending: None };
}

/// Spontaneous end of a channel, after a number of messages sent and received at this end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelEnding {
    /// As if the peer had died: messages that it sent and that were not received are lost. The peer sees this
    /// end close.
    PeerDies {
        /// Number of messages in both directions together.
        after: u64,
    },
    /// As if the program had closed this end: it sends and receives nothing more.
    Closes {
        /// Number of messages in both directions together.
        after: u64,
    },
}

/// Faults injected so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InjectedCounts {
    /// Number of sends that were refused.
    pub refusals: u64,
    /// Number of polls that hid a message.
    pub delays: u64,
    /// Number of sleeps that ended without a reason.
    pub wake_ups: u64,
}

/// Transport that injects faults. The same seed and calls give the same faults. Messages are neither lost nor
/// reordered.
#[derive(Debug)]
pub struct Faulty<T> {
    inner: T,
    faults: Faults,
    random: Random,
    /// Number of sends still to refuse.
    sends_to_refuse: u32,
    /// Number of polls from which a message is still to be hidden.
    polls_to_hide: u32,
    /// Whether a message was shown, so that it cannot be hidden again.
    readable_reported: bool,
    /// Whether room was shown, so that it cannot be refused again.
    room_reported: bool,
    passed: u64,
    /// How the channel ended: an end that was seen is not hidden again.
    ended: Option<EndError>,
    /// Reason why nothing more can be sent.
    unsendable: Option<EndError>,
    /// Event counter, signalled while a sleep is to end without a reason.
    spurious_wake_up: OwnedFd,
    injected: InjectedCounts,
}

impl<T: Transport> Faulty<T> {
    /// Injects `faults` into `inner`.
    ///
    /// # Errors
    /// Too many open files.
    pub fn new(inner: T, faults: Faults, seed: u64) -> Result<Self, OsError> {
        Ok(Faulty {
            inner,
            faults,
            random: Random::new(seed),
            sends_to_refuse: 0,
            polls_to_hide: 0,
            readable_reported: false,
            room_reported: false,
            passed: 0,
            ended: None,
            unsendable: None,
            spurious_wake_up: eventfd()?,
            injected: InjectedCounts::default(),
        })
    }

    /// Returns the faults injected so far.
    #[must_use]
    pub fn injected(&self) -> InjectedCounts {
        self.injected
    }

    /// Returns the transport without faults.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.inner
    }

    fn roll(&mut self, percent: u8) -> bool {
        percent > 0 && self.random.below(100) < u64::from(percent)
    }

    /// Returns the length of a streak that starts now.
    fn streak(&mut self) -> u32 {
        let longest = u64::from(self.faults.streak.max(1));
        self.random.below(longest) as u32 + 1
    }

    /// Whether this poll hides a message.
    fn must_hide(&mut self) -> bool {
        if self.readable_reported {
            return false;
        }
        if self.polls_to_hide == 0 && self.roll(self.faults.delays_percent) {
            // One more for the poll that finds it.
            self.polls_to_hide = self.streak() + 1;
        }
        self.polls_to_hide = self.polls_to_hide.saturating_sub(1);
        self.injected.delays += u64::from(self.polls_to_hide > 0);
        self.polls_to_hide > 0
    }

    /// Whether this send is refused without a reason.
    fn must_refuse(&mut self) -> bool {
        if self.sends_to_refuse == 0 && self.roll(self.faults.refusals_percent) {
            // One more for the attempt that succeeds.
            self.sends_to_refuse = self.streak() + 1;
        }
        self.sends_to_refuse = self.sends_to_refuse.saturating_sub(1);
        self.injected.refusals += u64::from(self.sends_to_refuse > 0);
        self.sends_to_refuse > 0
    }

    /// Whether there is something to receive that is not hidden now.
    fn reports_readable(&mut self) -> bool {
        if self.ended.is_some() {
            return true;
        }
        if !self.inner.is_ready(Interest::Read) || self.must_hide() {
            return false;
        }
        self.readable_reported = true;
        true
    }

    /// Whether there is room that is not refused now.
    fn reports_room(&mut self) -> bool {
        if self.ended.is_some() || self.unsendable.is_some() {
            return true;
        }
        self.room_reported = self.inner.is_ready(Interest::Write) && !self.must_refuse();
        self.room_reported
    }

    /// Counts a message, and ends the channel after the last one.
    fn count_message(&mut self) {
        self.passed += 1;
        let (after, error) = match self.faults.ending {
            Some(ChannelEnding::PeerDies { after }) => (after, EndError::PeerDied),
            Some(ChannelEnding::Closes { after }) => (after, EndError::Closed),
            None => return,
        };
        if self.passed >= after {
            self.inner.close();
            self.ended = Some(error);
        }
    }
}

impl<T: Transport> Transport for Faulty<T> {
    crate::forward_transport!(inner: stats failure announce_sleep);

    fn describe(&self) -> Description {
        let inner = self.inner.describe();
        Description { capabilities: inner.capabilities.without(Faults::LACKS), ..inner }
    }

    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        if let Some(error) = self.ended.or(self.unsendable) {
            return Err(error);
        }
        let fits = message.len() <= self.inner.describe().max_message_bytes;
        if fits && !std::mem::take(&mut self.room_reported) && self.must_refuse() {
            return Err(EndError::Full);
        }
        let sent = self.inner.try_send(message);
        match &sent {
            Ok(()) => self.count_message(),
            Err(EndError::Full | EndError::TooLong) => {}
            // A peer that violated the protocol ends receiving too, and at once.
            Err(EndError::Broken) => self.ended = Some(EndError::Broken),
            Err(error) => self.unsendable = Some(*error),
        }
        sent
    }

    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        if let Some(error) = self.ended {
            return Err(error);
        }
        if self.inner.is_ready(Interest::Read) && self.must_hide() {
            return Ok(None);
        }
        self.readable_reported = false;
        let received = self.inner.try_recv_in_place(read);
        match &received {
            Ok(Some(_)) => self.count_message(),
            Ok(None) => {}
            Err(error) => self.ended = Some(*error),
        }
        received
    }

    fn is_ready(&mut self, awaited: Interest) -> bool {
        match awaited {
            Interest::Read => self.reports_readable(),
            Interest::Write => self.reports_room(),
            Interest::ReadWrite => self.reports_readable() || self.reports_room(),
        }
    }

    /// The transport's own last poll always counts: a message may be hidden from the program, but never from
    /// this poll.
    fn may_sleep(&mut self, awaited: Interest) -> bool {
        if !self.inner.may_sleep(awaited) || self.ended.is_some() {
            return false;
        }
        if !self.roll(self.faults.wake_ups_percent) {
            return true;
        }
        self.injected.wake_ups += 1;
        if self.random.chance(500) {
            return false;
        }
        // Fails only when the counter is full, which also wakes the sleeper.
        let _ = signal(&self.spurious_wake_up);
        true
    }

    fn sources<'a>(&'a self, awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        self.inner.sources(awaited, sources);
        sources.push((self.spurious_wake_up.as_fd(), Interest::Read));
    }

    fn finish_sleep(&mut self, rung: bool) {
        drain(&self.spurious_wake_up);
        self.inner.finish_sleep(rung);
    }

    fn close(&mut self) {
        self.ended = Some(EndError::Closed);
        self.inner.close();
    }
}
