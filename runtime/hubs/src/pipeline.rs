//! Several operations of one task under way at once, so that a value does not cost a round trip.

use std::collections::VecDeque;

use crate::hub::Pending;
use crate::{Chan, HubError, Value};

/// The most operations that one sender or receiver has under way.
pub const MAX_WINDOW: usize = 256;

/// Sends values without waiting for the answer to each. From [`Chan::sender`].
///
/// Dropped before [`flush`](Self::flush), what is under way is withdrawn: it may have been sent.
#[derive(Debug)]
pub struct Sender<'c, T> {
    chan: &'c Chan<T>,
    window: usize,
    under_way: VecDeque<(Pending, T)>,
}

/// Receives values, asking for several before the first has come. From [`Chan::receiver`].
///
/// It takes values that other receivers could have. What comes for one that was dropped is for the next
/// operations of the task on this channel, and may come after values that were sent later.
#[derive(Debug)]
pub struct Receiver<'c, T> {
    chan: &'c Chan<T>,
    window: usize,
    under_way: VecDeque<Pending>,
}

/// Values that a [`Sender`] did not send, and why.
#[derive(Debug)]
pub struct NotAllSent<T> {
    /// Why the first of them was not sent.
    pub error: HubError,
    /// The values, in order. With [`HubError::Lost`] and [`HubError::NoAnswer`] they may have been delivered
    /// all the same.
    pub values: Vec<T>,
}

impl<T> From<NotAllSent<T>> for HubError {
    fn from(failed: NotAllSent<T>) -> HubError {
        failed.error
    }
}

impl<T> std::fmt::Display for NotAllSent<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} values were not sent: {}", self.values.len(), self.error)
    }
}

impl<T: std::fmt::Debug> std::error::Error for NotAllSent<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<T: Value> Chan<T> {
    /// Sends with up to `window` values under way, 1 to [`MAX_WINDOW`]; other numbers are taken as the
    /// nearest.
    #[must_use]
    pub fn sender(&self, window: usize) -> Sender<'_, T> {
        Sender { chan: self, window: window.clamp(1, MAX_WINDOW), under_way: VecDeque::new() }
    }

    /// Receives with up to `window` values asked for, as [`sender`](Self::sender).
    #[must_use]
    pub fn receiver(&self, window: usize) -> Receiver<'_, T> {
        Receiver { chan: self, window: window.clamp(1, MAX_WINDOW), under_way: VecDeque::new() }
    }
}

impl<T: Value> Sender<'_, T> {
    /// Sends a value, waiting while the window is full.
    ///
    /// # Errors
    /// Of this value or earlier ones, which come back. Nothing is under way then.
    pub fn send(&mut self, value: T) -> Result<(), NotAllSent<T>> {
        while self.under_way.len() >= self.window {
            if let Err(mut failed) = self.settle_first() {
                failed.values.push(value);
                return Err(failed);
            }
        }
        match self.chan.hub().start_put(&crate::chan::bytes_of(&value)) {
            Ok(pending) => self.under_way.push_back((pending, value)),
            Err(error) => return Err(self.fail(error, value)),
        }
        Ok(())
    }

    /// Waits until all values are sent.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn flush(&mut self) -> Result<(), NotAllSent<T>> {
        while !self.under_way.is_empty() {
            self.settle_first()?;
        }
        Ok(())
    }

    fn settle_first(&mut self) -> Result<(), NotAllSent<T>> {
        let Some((pending, value)) = self.under_way.pop_front() else { return Ok(()) };
        pending.wait().map(drop).map_err(|error| self.fail(error, value))
    }

    /// Waits for the ends of all others: some may be sent.
    fn fail(&mut self, error: HubError, value: T) -> NotAllSent<T> {
        let mut values = vec![value];
        for (pending, value) in self.under_way.drain(..) {
            if pending.wait().is_err() {
                values.push(value);
            }
        }
        NotAllSent { error, values }
    }
}

impl<T: Value> Receiver<'_, T> {
    /// Receives the next value, waiting up to the deadline of the task.
    ///
    /// # Errors
    /// As [`Chan::recv`].
    pub fn recv(&mut self) -> Result<T, HubError> {
        while self.under_way.len() < self.window {
            self.under_way.push_back(self.chan.hub().start_get()?);
        }
        let Some(first) = self.under_way.pop_front() else { return self.chan.recv() };
        self.chan.value(first.wait()?)
    }
}

impl<T: Value> Iterator for Receiver<'_, T> {
    type Item = Result<T, HubError>;

    /// The next value; `None` when the channel is closed and empty.
    fn next(&mut self) -> Option<Self::Item> {
        match self.recv() {
            Err(error) if error.is_closed() => None,
            received => Some(received),
        }
    }
}
