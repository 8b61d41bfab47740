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
struct Account {
    /// Messages accepted from this side that the other has not received.
    on_its_way: VecDeque<Entry>,
    accepted: u64,
    /// Whether this side closed or was dropped.
    closed: bool,
}

/// Handle of one side on the ledger. Dropping it records the end of the side.
#[derive(Debug)]
pub(super) struct Witness {
    accounts: Arc<Mutex<[Account; 2]>>,
    side: Side,
}

const fn index(side: Side) -> usize {
    match side {
        Side::A => 0,
        Side::B => 1,
    }
}

impl Witness {
    /// Creates a ledger and the handles for both sides.
    pub(super) fn pair() -> (Witness, Witness) {
        let accounts = Arc::new(Mutex::new(<[Account; 2]>::default()));
        (Witness { accounts: accounts.clone(), side: Side::A }, Witness { accounts, side: Side::B })
    }

    /// Locks the ledger, ignoring poison: a case that fails does so on one side first, and the other must
    /// still be able to report.
    fn lock(&self) -> MutexGuard<'_, [Account; 2]> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers `message` to the channel by calling `send`. The message is entered before the peer can see it,
    /// and removed if it was not accepted.
    pub(super) fn sending<E>(&self, message: &[u8], send: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut accounts = self.lock();
        let result = send();
        if result.is_ok() {
            // The peer may already have the message, but needs the lock to report it.
            let account = &mut accounts[index(self.side)];
            let number = account.accepted;
            account.accepted += 1;
            let (length_bytes, digest) = (message.len(), digest(message));
            account.on_its_way.push_back(Entry { number, length_bytes, digest });
        }
        result
    }

    /// Compares a received message with the one that the peer sent.
    pub(super) fn received(&self, message: &[u8]) -> Result<(), String> {
        let mut accounts = self.lock();
        let account = &mut accounts[index(self.side.other())];
        let Some(expected) = account.on_its_way.pop_front() else {
            let (length_bytes, accepted) = (message.len(), account.accepted);
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
        Err(match account.on_its_way.iter().find(is_found) {
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
    pub(super) fn ended(&self, error: EndError) -> Result<(), String> {
        let mut accounts = self.lock();
        let account = &mut accounts[index(self.side.other())];
        let (left, closed) = (account.on_its_way.len(), account.closed);
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
    pub(super) fn closes(&self) {
        self.lock()[index(self.side)].closed = true;
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.closes();
    }
}
