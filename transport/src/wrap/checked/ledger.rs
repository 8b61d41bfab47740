//! What both ends of a channel know together, when both are in this process: every message, in order, once.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tombolo_link::Side;

use crate::contract::EndError;

/// A message that was accepted and not received yet.
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

/// What one side has done.
#[derive(Debug, Default)]
struct Account {
    /// Accepted from this side, not received by the other.
    on_its_way: VecDeque<Entry>,
    accepted: u64,
    /// It closed, or was dropped.
    closed: bool,
}

/// One side's hand on the ledger. Dropping it is the side's end.
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
    /// A ledger, in the hands of both sides.
    pub(super) fn pair() -> (Witness, Witness) {
        let accounts = Arc::new(Mutex::new(<[Account; 2]>::default()));
        (Witness { accounts: accounts.clone(), side: Side::A }, Witness { accounts, side: Side::B })
    }

    /// A case that fails does so on one side first: the other then still has its say.
    fn lock(&self) -> MutexGuard<'_, [Account; 2]> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers `message` to the channel by calling `send`. It stands in the ledger before the peer can see it, and no
    /// longer if it was not accepted.
    pub(super) fn sending<E>(&self, message: &[u8], send: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut accounts = self.lock();
        let result = send();
        if result.is_ok() {
            // The peer may have it already, but needs the lock to say so.
            let account = &mut accounts[index(self.side)];
            let number = account.accepted;
            account.accepted += 1;
            let (length_bytes, digest) = (message.len(), digest(message));
            account.on_its_way.push_back(Entry { number, length_bytes, digest });
        }
        result
    }

    /// Holds `message` against what the peer sent.
    pub(super) fn received(&self, message: &[u8]) -> Result<(), String> {
        let mut accounts = self.lock();
        let account = &mut accounts[index(self.side.other())];
        let Some(expected) = account.on_its_way.pop_front() else {
            let (length_bytes, accepted) = (message.len(), account.accepted);
            return Err(format!(
                "a message of {length_bytes} bytes was received, and all {accepted} that were sent had been: it was \
                 repeated or made up"
            ));
        };
        let found = (message.len(), digest(message));
        if found == (expected.length_bytes, expected.digest) {
            return Ok(());
        }
        let is_found = |entry: &&Entry| found == (entry.length_bytes, entry.digest);
        Err(match account.on_its_way.iter().find(is_found) {
            Some(later) => format!(
                "message {} was received before message {}: order changed, or one was lost",
                later.number, expected.number
            ),
            None => format!(
                "what was received in place of message {} ({} bytes) is none that was sent and not received \
                 ({} bytes)",
                expected.number,
                expected.length_bytes,
                message.len()
            ),
        })
    }

    /// Holds the end that the channel came to against what the peer did.
    pub(super) fn ended(&self, error: EndError) -> Result<(), String> {
        let mut accounts = self.lock();
        let account = &mut accounts[index(self.side.other())];
        let (left, closed) = (account.on_its_way.len(), account.closed);
        match error {
            EndError::Closed if !closed => Err("it ended as closed, and the peer's end is open".to_owned()),
            EndError::Closed if left > 0 => {
                Err(format!("it ended as closed before {left} messages that the peer had sent were received"))
            }
            EndError::PeerDied if !closed => Err("the peer's death was reported, and it lives".to_owned()),
            EndError::PeerDied => Err("the peer's death was reported, and it closed in order".to_owned()),
            _ => Ok(()),
        }
    }

    /// This side closes from here on.
    pub(super) fn closes(&self) {
        self.lock()[index(self.side)].closed = true;
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.closes();
    }
}
