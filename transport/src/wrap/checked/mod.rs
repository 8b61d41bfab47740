//! Checks a transport and its user, and panics when either breaks the contract.

mod ledger;

use std::os::fd::BorrowedFd;

use tombolo_platform::event::Interest;

use crate::capabilities::Capabilities;
use crate::contract::{Announced, Description, EndError, Stats, Transport};
use crate::message::{Batch, Draft, Message, NotAdded};
use ledger::LedgerHandle;

/// Transport that checks whether the transport inside keeps the contract: its description never changes,
/// refused calls have no effect, its counters match the traffic, an end is final, and nothing sleeps
/// unannounced. A violation panics with the culprit and the last operations.
///
/// [`Checked::pair`] also checks both ends together: every accepted message is received once, in order and
/// unchanged, and an end comes after all of them and has a reason. [`Checked::new`] checks one end, and only
/// what no peer can cause, so that it can be used with hostile peers.
///
/// Checking both ends takes a lock for each message, which orders memory accesses: it hides wake-ups that are
/// lost for lack of a barrier. Test races with [`Checked::new`].
#[derive(Debug)]
pub struct Checked<T> {
    /// Handle on the ledger shared with the peer's end. Declared before `inner`, because it must record the
    /// close first.
    ledger: Option<LedgerHandle>,
    inner: T,
    enabled: bool,
    declared: Description,
    /// First final result of receiving.
    end: Option<EndError>,
    /// First final result of sending.
    unsendable: Option<EndError>,
    closed: bool,
    /// Whether it reported something to receive and no receive followed.
    reported_readable: bool,
    announced: Option<Interest>,
    history: History,
}

/// Transport that is checked in debug builds and plain in others.
#[cfg(debug_assertions)]
pub type DebugChecked<T> = Checked<T>;

/// Transport that is checked in debug builds and plain in others.
#[cfg(not(debug_assertions))]
pub type DebugChecked<T> = T;

/// Wraps `transport` in [`Checked`] where debug assertions are on.
#[cfg(debug_assertions)]
pub fn debug_checked<T: Transport>(transport: T) -> DebugChecked<T> {
    Checked::new(transport)
}

/// Wraps `transport` in [`Checked`] where debug assertions are on.
#[cfg(not(debug_assertions))]
pub fn debug_checked<T: Transport>(transport: T) -> DebugChecked<T> {
    transport
}

/// Returns the transport inside [`debug_checked`].
#[cfg(debug_assertions)]
pub fn into_unchecked<T: Transport>(debug_checked: DebugChecked<T>) -> T {
    debug_checked.into_inner()
}

/// Returns the transport inside [`debug_checked`].
#[cfg(not(debug_assertions))]
pub fn into_unchecked<T: Transport>(debug_checked: DebugChecked<T>) -> T {
    debug_checked
}

/// Last operations, for the report of a violation.
#[derive(Debug, Default)]
struct History {
    operations: [(&'static str, usize); 12],
    count: usize,
}

impl History {
    #[inline]
    fn record(&mut self, operation: &'static str, number: usize) {
        let slot = self.count % self.operations.len();
        self.operations[slot] = (operation, number);
        self.count += 1;
    }
}

impl std::fmt::Display for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kept = self.operations.len().min(self.count);
        (self.count - kept..self.count).try_for_each(|index| {
            let (operation, number) = self.operations[index % self.operations.len()];
            write!(f, " {operation}({number})")
        })
    }
}

impl<T: Transport> Checked<T> {
    /// Checks one end of a channel.
    #[must_use]
    pub fn new(inner: T) -> Self {
        let declared = inner.describe();
        Checked {
            ledger: None,
            inner,
            enabled: true,
            declared,
            end: None,
            unsendable: None,
            closed: false,
            reported_readable: false,
            announced: None,
            history: History::default(),
        }
    }

    /// Forwards everything without checks, for callers that only need the type.
    #[must_use]
    pub fn unchecked(inner: T) -> Self {
        Checked { enabled: false, ..Checked::new(inner) }
    }

    /// Checks both ends of a channel that has not been used yet.
    #[must_use]
    pub fn pair(a: T, b: T) -> (Self, Self) {
        let (ledger_a, ledger_b) = LedgerHandle::pair();
        let watched = |inner, ledger| Checked { ledger: Some(ledger), ..Checked::new(inner) };
        (watched(a, ledger_a), watched(b, ledger_b))
    }

    /// Returns the transport, no longer checked.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.inner
    }

    /// Returns the transport. Operations on it are not checked and may look like a violation later.
    #[must_use]
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// Whether effects that a peer could cause count as a violation: only if both ends are known to be
    /// correct.
    fn checks_both_ends(&self) -> bool {
        self.ledger.is_some()
    }

    /// Whether the channel has ended in a way that no peer can change.
    fn has_final_end(&self) -> bool {
        self.end.is_some() && self.checks_both_ends()
    }

    #[cold]
    #[track_caller]
    fn report_violation(&self, who: &str, what: &str) {
        if !self.enabled {
            return;
        }
        let stats = self.inner.stats();
        panic!(
            "{who} broke the contract of a {} channel: {what}\noperations until then:{}\n{stats:?}",
            self.declared.kind, self.history
        )
    }

    #[track_caller]
    fn require(&self, holds: bool, what: &str) {
        if !holds {
            self.report_violation("the transport", what);
        }
    }

    /// Checks that the description is unchanged and that the counters changed by exactly this traffic.
    fn check_counters(&self, before: Stats, sent: (u64, u64), received: (u64, u64)) {
        self.require(self.inner.describe() == self.declared, "its description changed");
        let now = self.inner.stats();
        let counted = |now: u64, before: u64, passed: u64| now == before + passed;
        self.require(
            counted(now.messages_sent, before.messages_sent, sent.0)
                && counted(now.bytes_sent, before.bytes_sent, sent.1)
                && counted(now.messages_received, before.messages_received, received.0)
                && counted(now.bytes_received, before.bytes_received, received.1),
            "its counters do not match what passed",
        );
        let in_memory = self.declared.capabilities.contains(Capabilities::SHARED_MEMORY);
        self.require(now.unsent_bytes == 0 || !in_memory, "a store to memory waits to be sent");
    }

    fn check_send(&mut self, length_bytes: usize, before: Stats, answer: &Result<(), EndError>) {
        let max_bytes = self.declared.max_message_bytes;
        let sent = if answer.is_ok() { (1, length_bytes as u64) } else { (0, 0) };
        self.check_counters(before, sent, (0, 0));
        match answer {
            Ok(()) => {
                self.require(!self.closed, "it accepted a message after it was closed");
                self.require(length_bytes <= max_bytes, "it accepted a message longer than its limit");
                self.require(
                    !self.has_final_end() && self.unsendable.is_none(),
                    "it accepted a message after it had ended",
                );
            }
            Err(EndError::TooLong) => {
                self.require(length_bytes > max_bytes, "it refused a message within its limit as too long");
            }
            Err(EndError::Full) => {
                self.require(!self.closed, "it reported no room instead of the close");
                self.require(length_bytes <= max_bytes, "it reported no room for a message that never fits");
            }
            Err(error) => {
                self.check_cause(*error);
                self.unsendable.get_or_insert(*error);
            }
        }
    }

    fn check_cause(&self, error: EndError) {
        let has_cause = error != EndError::Broken || self.inner.failure().is_some();
        self.require(has_cause, "it failed without giving the cause");
    }

    fn check_receive(&mut self, received: (u64, u64), before: Stats, end: Option<EndError>) {
        self.check_counters(before, (0, 0), received);
        let reported_readable = std::mem::replace(&mut self.reported_readable, false);
        let Some(error) = end else {
            self.require(!self.closed, "receiving found no end after it was closed");
            self.require(!self.has_final_end(), "receiving found no end after the end");
            let false_report = reported_readable && received.0 == 0 && self.checks_both_ends();
            self.require(!false_report, "it reported something to receive, but there was nothing");
            return;
        };
        let is_end = !matches!(error, EndError::Full | EndError::TooLong);
        self.require(is_end, "a receive returned an error of sending");
        self.check_cause(error);
        if self.closed {
            return;
        }
        match self.end {
            Some(first) => {
                self.require(first == error || !self.checks_both_ends(), "it ended twice, in two ways");
            }
            None => {
                if let Some(Err(what)) = self.ledger.as_ref().map(|ledger| ledger.check_end(error)) {
                    self.report_violation("the transport", &what);
                }
                self.end = Some(error);
            }
        }
    }

    fn check_readable(&mut self, readable: bool) {
        self.require(readable || !self.closed, "it shows no end after it was closed");
        self.require(readable || !self.has_final_end(), "it shows no end after the end");
        self.require(
            readable || !self.reported_readable || !self.checks_both_ends(),
            "something to receive vanished",
        );
        self.reported_readable = readable;
    }

    fn check_received_message(&self, message: &[u8]) {
        if let Some(Err(what)) = self.ledger.as_ref().map(|ledger| ledger.check_received(message)) {
            self.report_violation("the transport", &what);
        }
    }
}

/// Fills the transport's batch with the messages of a caller's batch, checking each of them.
fn checked_batch(
    ledger: &LedgerHandle,
    bytes: &mut u64,
    max_message_bytes: usize,
    inner: &mut Batch<'_>,
    fill: impl FnOnce(&mut Batch<'_>),
) {
    let mut push = |message: &[u8]| {
        let pushed = ledger.record_send(message, || inner.push(message));
        *bytes += if pushed.is_ok() { message.len() as u64 } else { 0 };
        pushed.map_err(|error| match error {
            NotAdded::Full => EndError::Full,
            NotAdded::TooLong { .. } => EndError::TooLong,
            NotAdded::Ended => EndError::Closed,
        })
    };
    fill(&mut Batch::one_by_one(max_message_bytes, &mut push));
}

impl<T: Transport> Transport for Checked<T> {
    crate::forward_transport!(inner: describe stats failure park);

    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        self.history.record("send", message.len());
        let before = self.inner.stats();
        let answer = match &self.ledger {
            Some(ledger) => ledger.record_send(message, || self.inner.try_send(message)),
            None => self.inner.try_send(message),
        };
        self.check_send(message.len(), before, &answer);
        answer
    }

    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        self.history.record("receive", 0);
        let before = self.inner.stats();
        let (mut copy, mut length_bytes) = (None, 0);
        let wants_copy = self.ledger.is_some();
        let answer = self.inner.try_recv_in_place(|message| {
            length_bytes = message.len() as u64;
            copy = wants_copy.then(|| message.to_vec());
            read(message)
        });
        match &answer {
            Ok(Some(_)) => {
                let fits = length_bytes <= self.declared.max_message_bytes as u64;
                self.require(fits, "it received more than its limit");
                self.check_receive((1, length_bytes), before, None);
                if let Some(message) = copy {
                    self.check_received_message(&message);
                }
            }
            Ok(None) => self.check_receive((0, 0), before, None),
            Err(error) => {
                let received = self.inner.stats().messages_received - before.messages_received;
                self.check_receive((received, received * length_bytes), before, Some(*error));
            }
        }
        answer
    }

    fn try_recv_batch(&mut self, max: usize, mut read: impl FnMut(&Message<'_>)) -> Result<usize, EndError> {
        self.history.record("receive a batch", max);
        let before = self.inner.stats();
        let (mut copies, mut bytes, mut count) = (Vec::new(), 0, 0);
        let wants_copies = self.ledger.is_some();
        let answer = self.inner.try_recv_batch(max, |message| {
            bytes += message.len() as u64;
            count += 1;
            if wants_copies {
                copies.push(message.to_vec());
            }
            read(message);
        });
        copies.iter().for_each(|message| self.check_received_message(message));
        match &answer {
            // Nothing was requested, so nothing was polled.
            Ok(0) if max == 0 => {}
            Ok(received) => {
                self.require(
                    *received as u64 == count && *received <= max,
                    "a batch of another size than it reported",
                );
                self.check_receive((count, bytes), before, None);
            }
            Err(error) => self.check_receive((count, bytes), before, Some(*error)),
        }
        answer
    }

    fn try_send_in_place(
        &mut self,
        length_bytes: usize,
        write: impl FnOnce(&mut Draft<'_>),
    ) -> Result<(), EndError> {
        self.history.record("send in place", length_bytes);
        let before = self.inner.stats();
        let answer = match &self.ledger {
            Some(ledger) if length_bytes <= self.declared.max_message_bytes => {
                let mut message = vec![0; length_bytes];
                write(&mut Draft::of_bytes(&mut message));
                let inner = &mut self.inner;
                ledger.record_send(&message, || {
                    inner.try_send_in_place(length_bytes, |draft| {
                        // Cannot fail: the draft has the length of the message.
                        let _ = draft.write_at(0, &message);
                    })
                })
            }
            _ => self.inner.try_send_in_place(length_bytes, write),
        };
        self.check_send(length_bytes, before, &answer);
        answer
    }

    fn try_send_batch(&mut self, fill: impl FnOnce(&mut Batch<'_>)) -> Result<u64, EndError> {
        self.history.record("send a batch", 0);
        let before = self.inner.stats();
        let Some(ledger) = &self.ledger else {
            let answer = self.inner.try_send_batch(fill);
            let accepted = self.inner.stats().messages_sent - before.messages_sent;
            let reported = answer.as_ref().copied().unwrap_or(0);
            self.require(reported == accepted, "it sent a batch of another size than it reported");
            return answer;
        };
        let mut bytes = 0;
        let max_bytes = self.declared.max_message_bytes;
        let answer =
            self.inner.try_send_batch(|inner| checked_batch(ledger, &mut bytes, max_bytes, inner, fill));
        match &answer {
            Ok(count) => {
                self.check_counters(before, (*count, bytes), (0, 0));
                let after_end = self.closed || self.has_final_end() || self.unsendable.is_some();
                self.require(*count == 0 || !after_end, "it accepted a batch after it had ended");
            }
            Err(error) => self.check_send(0, before, &Err(*error)),
        }
        answer
    }

    fn is_ready(&mut self, awaited: Interest) -> bool {
        let ready = self.inner.is_ready(awaited);
        match awaited {
            Interest::Read => self.check_readable(ready),
            Interest::Write => {
                let ended = self.closed || self.unsendable.is_some();
                self.require(ready || !ended, "it lets a sender wait after the end");
            }
            Interest::ReadWrite => {
                self.require(ready || !self.closed, "it shows no end after it was closed");
            }
        }
        ready
    }

    fn announce_sleep(&mut self, awaited: Interest) -> Announced {
        self.history.record("announce", awaited as usize);
        self.announced = Some(self.announced.map_or(awaited, |before| union(before, awaited)));
        self.inner.announce_sleep(awaited)
    }

    fn may_sleep(&mut self, awaited: Interest) -> bool {
        self.history.record("last look", awaited as usize);
        let may_sleep = self.inner.may_sleep(awaited);
        if may_sleep {
            self.require(!self.closed, "it would sleep after it was closed");
            let for_messages = awaited != Interest::Write;
            self.require(
                !(for_messages && self.has_final_end()),
                "it would sleep for messages after the end",
            );
            let announced = self.announced.is_some_and(|announced| union(announced, awaited) == announced);
            if !announced {
                self.report_violation("the program", "it is about to sleep without an announcement");
            }
        }
        may_sleep
    }

    fn sources<'a>(&'a self, awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        let before = sources.len();
        self.inner.sources(awaited, sources);
        let promised = self.declared.capabilities.contains(Capabilities::DESCRIPTORS);
        self.require(sources.len() > before || !promised, "it has nothing to sleep on");
    }

    fn finish_sleep(&mut self, rung: bool) {
        self.history.record("woken", usize::from(rung));
        self.announced = None;
        self.inner.finish_sleep(rung);
    }

    fn close(&mut self) {
        self.history.record("close", 0);
        self.closed = true;
        if let Some(ledger) = &self.ledger {
            ledger.record_close();
        }
        self.inner.close();
    }
}

/// Returns the union of the interests of two sleeps.
fn union(one: Interest, other: Interest) -> Interest {
    if one == other { one } else { Interest::ReadWrite }
}
