//! Ledger of all messages on a channel whose ends are both in this process.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tombolo_link::Side;

use crate::contract::EndError;

/// Message that was accepted and not yet received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    number: u64,
    length_bytes: usize,
    digest: u64,
}

fn digest(message: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(message);
    hasher.finish()
}

/// State of one side.
#[derive(Debug, Default)]
struct SideLedger {
    /// Messages accepted from this side that the other has not received.
    in_transit: VecDeque<Entry>,
    accepted: u64,
    /// Whether this side closed or was dropped.
    closed: bool,
}

/// Handle of one side on the ledger. Dropping it records the end of the side.
#[derive(Debug)]
pub(super) struct LedgerHandle {
    sides: Arc<Mutex<[SideLedger; 2]>>,
    side: Side,
}

const fn index(side: Side) -> usize {
    match side {
        Side::A => 0,
        Side::B => 1,
    }
}

impl LedgerHandle {
    /// Creates a ledger and the handles for both sides.
    pub(super) fn pair() -> (LedgerHandle, LedgerHandle) {
        let sides = Arc::new(Mutex::new(<[SideLedger; 2]>::default()));
        (LedgerHandle { sides: sides.clone(), side: Side::A }, LedgerHandle { sides, side: Side::B })
    }

    /// Locks the ledger, ignoring poison: a case that fails does so on one side first, and the other must
    /// still be able to report.
    fn lock(&self) -> MutexGuard<'_, [SideLedger; 2]> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers `message` to the channel by calling `send`. The message is entered before the peer can see it,
    /// and removed if it was not accepted.
    pub(super) fn record_send<E>(
        &self,
        message: &[u8],
        send: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut sides = self.lock();
        let result = send();
        if result.is_ok() {
            // The peer may already have the message, but needs the lock to report it.
            let side_ledger = &mut sides[index(self.side)];
            let number = side_ledger.accepted;
            side_ledger.accepted += 1;
            let (length_bytes, digest) = (message.len(), digest(message));
            side_ledger.in_transit.push_back(Entry { number, length_bytes, digest });
        }
        result
    }

    /// Compares a received message with the one that the peer sent.
    pub(super) fn check_received(&self, message: &[u8]) -> Result<(), String> {
        let mut sides = self.lock();
        let side_ledger = &mut sides[index(self.side.other())];
        let Some(expected) = side_ledger.in_transit.pop_front() else {
            let (length_bytes, accepted) = (message.len(), side_ledger.accepted);
            return Err(format!(
                "a message of {length_bytes} bytes was received after all {accepted} that were sent: it is a duplicate \
                 or was never sent"
            ));
        };
        let found = (message.len(), digest(message));
        if found == (expected.length_bytes, expected.digest) {
            return Ok(());
        }
        let is_found = |entry: &&Entry| found == (entry.length_bytes, entry.digest);
        Err(match side_ledger.in_transit.iter().find(is_found) {
            Some(later) => format!(
                "message {} was received before message {}: the order changed or one was lost",
                later.number, expected.number
            ),
            None => format!(
                "a message of {2} bytes that was never sent, or received before, was received in place of \
                 message {0} ({1} bytes)",
                expected.number,
                expected.length_bytes,
                message.len()
            ),
        })
    }

    /// Compares the end of the channel with the actions of the peer.
    pub(super) fn check_end(&self, error: EndError) -> Result<(), String> {
        let mut sides = self.lock();
        let side_ledger = &mut sides[index(self.side.other())];
        let (left, closed) = (side_ledger.in_transit.len(), side_ledger.closed);
        match error {
            EndError::Closed if !closed => Err("it ended as closed, but the peer's end is open".to_owned()),
            EndError::Closed if left > 0 => {
                Err(format!("it ended as closed with {left} messages of the peer not received"))
            }
            EndError::PeerDied if !closed => Err("the peer's death was reported, but it is alive".to_owned()),
            EndError::PeerDied => Err("the peer's death was reported, but it closed in order".to_owned()),
            _ => Ok(()),
        }
    }

    /// Records that this side closes.
    pub(super) fn record_close(&self) {
        self.lock()[index(self.side)].closed = true;
    }
}

impl Drop for LedgerHandle {
    fn drop(&mut self) {
        self.record_close();
    }
}
