//! Pipelined sends and receives: several values of one task in flight, so that a value costs neither a round
//! trip nor a message of its own.

use std::collections::VecDeque;
use std::time::Duration;

use tombolo_hub::{BatchBuf, BatchReader, Fault, Kind, MAX_BATCH, Taken};

use crate::hub::Pending;
use crate::{Chan, HubError, Value};

/// Maximum number of values that one sender or receiver has in flight.
pub const MAX_WINDOW: usize = 2 * MAX_BATCH as usize;

/// Sends values without waiting for the answer to each. Created by [`Chan::sender`].
///
/// A value is sent immediately if nothing is in flight. Otherwise it may be held back until half a window has
/// been collected, a value is sent after the answer to earlier ones, or [`flush`](Self::flush) is called; a
/// fifo takes the collected values as one message. Dropping the sender without `flush` withdraws what is in
/// flight: it may have been sent.
#[derive(Debug)]
pub struct Sender<'c, T> {
    chan: &'c Chan<T>,
    window: usize,
    /// Maximum number of values per message.
    batch_size: usize,
    /// Values for the next message, also in encoded form in `batch`.
    collected: Vec<T>,
    batch: BatchBuf,
    /// Messages without an answer, with their values.
    in_flight: VecDeque<(Pending, Vec<T>)>,
    /// Number of values in these messages.
    sent: usize,
    bytes: Vec<u8>,
}

/// Receives values, requesting several before the first has arrived. Created by [`Chan::receiver`].
///
/// It takes values that other receivers could have had. Dropping it withdraws its requests, which costs a
/// round trip; values that it holds then are kept for the next operations of the task on this channel,
/// including selects.
#[derive(Debug)]
pub struct Receiver<'c, T: Value> {
    chan: &'c Chan<T>,
    /// Maximum number of values per message, and number of messages requested at a time.
    batch_size: u32,
    messages: usize,
    received: BatchReader,
    in_flight: VecDeque<Pending>,
}

/// Values that a [`Sender`] did not send, with the error.
#[derive(Debug)]
pub struct NotAllSent<T> {
    /// Reason why the first of them was not sent.
    pub error: HubError,
    /// The values, in order. With [`HubError::Lost`] and [`HubError::NoAnswer`] they may have been delivered
    /// nevertheless.
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
    /// Creates a sender with up to `window` values in flight, clamped to the range from 1 to [`MAX_WINDOW`].
    #[must_use]
    pub fn sender(&self, window: usize) -> Sender<'_, T> {
        let window = window.clamp(1, MAX_WINDOW);
        Sender {
            chan: self,
            window,
            batch_size: if self.supports_batches() { half(window) } else { 1 },
            collected: Vec::new(),
            batch: BatchBuf::new(),
            in_flight: VecDeque::new(),
            sent: 0,
            bytes: Vec::new(),
        }
    }

    /// Creates a receiver with up to `window` values requested, clamped as in [`sender`](Self::sender).
    #[must_use]
    pub fn receiver(&self, window: usize) -> Receiver<'_, T> {
        let window = window.clamp(1, MAX_WINDOW);
        let (batch_size, messages) = if self.supports_batches() { (half(window), 1) } else { (1, window) };
        let batch_size = u32::try_from(batch_size).unwrap_or(MAX_BATCH);
        Receiver {
            chan: self,
            batch_size,
            messages,
            received: BatchReader::default(),
            in_flight: VecDeque::new(),
        }
    }

    fn supports_batches(&self) -> bool {
        self.hub().kind() == Kind::Fifo
    }
}

/// Half of a window: while one half is in flight, the other is collected or consumed.
fn half(window: usize) -> usize {
    (window / 2).clamp(1, MAX_BATCH as usize)
}

impl<T: Value> Sender<'_, T> {
    /// Sends a value, waiting while the window is full.
    ///
    /// # Errors
    /// The error of this value or of earlier ones, which are returned. Nothing is in flight then.
    pub fn send(&mut self, value: T) -> Result<(), NotAllSent<T>> {
        if let Err(mut failed) = self.make_room(&value) {
            failed.values.push(value);
            return Err(failed);
        }
        self.batch.push(&self.bytes);
        self.collected.push(value);
        if self.in_flight.is_empty() || self.collected.len() >= self.batch_size {
            self.start()
        } else {
            Ok(())
        }
    }

    /// Encodes a value, and waits until there is room to collect it.
    fn make_room(&mut self, value: &T) -> Result<(), NotAllSent<T>> {
        self.bytes.clear();
        value.encode(&mut self.bytes);
        let most = self.chan.hub().value_bytes();
        if self.bytes.len() > most as usize {
            let error = self.chan.hub().info.fault_error(Fault::TooLong(most));
            return Err(self.fail(error, Vec::new()));
        }
        if !self.batch.has_room(self.bytes.len()) {
            self.start()?;
        }
        if self.collected.is_empty() {
            self.complete_answered()?;
        }
        while self.sent + self.collected.len() >= self.window {
            if self.in_flight.is_empty() {
                self.start()?;
            }
            self.complete_first()?;
        }
        Ok(())
    }

    /// Waits until all values are sent.
    ///
    /// # Errors
    /// Same as [`send`](Self::send).
    pub fn flush(&mut self) -> Result<(), NotAllSent<T>> {
        self.start()?;
        while !self.in_flight.is_empty() {
            self.complete_first()?;
        }
        Ok(())
    }

    /// Sends the collected values.
    fn start(&mut self) -> Result<(), NotAllSent<T>> {
        let Some(batch) = self.batch.batch() else { return Ok(()) };
        let hub = self.chan.hub();
        let started = match batch.iter().next() {
            Some(value) if batch.count() == 1 => hub.start_put(value),
            _ => hub.start_put_many(batch),
        };
        let values = std::mem::take(&mut self.collected);
        self.batch.clear();
        match started {
            Ok(pending) => {
                self.sent += values.len();
                self.in_flight.push_back((pending, values));
                Ok(())
            }
            Err(error) => Err(self.fail(error, values)),
        }
    }

    /// Handles answers that have arrived.
    fn complete_answered(&mut self) -> Result<(), NotAllSent<T>> {
        for _ in 0..self.in_flight.len() {
            let received = self.chan.hub().task.lock().wait_for_message(Duration::ZERO);
            match received {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Err(self.fail(error, Vec::new())),
            }
        }
        while let Some((pending, _)) = self.in_flight.front_mut() {
            let result = pending.try_take();
            if matches!(result, Ok(None)) {
                break;
            }
            let values = self.in_flight.pop_front().map(|(_, values)| values).unwrap_or_default();
            self.sent -= values.len();
            result.map_err(|error| self.fail(error, values))?;
        }
        Ok(())
    }

    fn complete_first(&mut self) -> Result<(), NotAllSent<T>> {
        let Some((pending, values)) = self.in_flight.pop_front() else { return Ok(()) };
        self.sent -= values.len();
        pending.wait().map(drop).map_err(|error| self.fail(error, values))
    }

    /// Waits for the results of all other values, some of which may be sent.
    fn fail(&mut self, error: HubError, values: Vec<T>) -> NotAllSent<T> {
        let mut failed = unsent_values(error, values);
        // Values sent before this one complete first.
        for (pending, values) in self.in_flight.drain(..) {
            if let Err(error) = pending.wait() {
                failed.values.extend(unsent_values(error, values).values);
            }
        }
        failed.values.append(&mut self.collected);
        self.batch.clear();
        self.sent = 0;
        failed
    }
}

/// Returns the values that a hub did not take.
fn unsent_values<T>(error: HubError, mut values: Vec<T>) -> NotAllSent<T> {
    match error {
        HubError::Partial { hub, node, put, fault: Some(fault) } => {
            let values = values.split_off(values.len().min(put as usize));
            NotAllSent { error: HubError::Fault { hub, node, fault }, values }
        }
        error => NotAllSent { error, values },
    }
}

impl<T: Value> Receiver<'_, T> {
    /// Receives the next value, waiting up to the deadline of the task.
    ///
    /// # Errors
    /// Same as [`Chan::recv`].
    pub fn recv(&mut self) -> Result<T, HubError> {
        if let Some(value) = self.received.next_value() {
            return self.chan.decode(value);
        }
        self.request_more()?;
        let Some(first) = self.in_flight.pop_front() else { return self.chan.recv() };
        match first.wait()? {
            Taken::Values(values) => {
                self.received = values.into();
                // The next values are in flight while these are used.
                self.request_more()?;
                match self.received.next_value() {
                    Some(value) => self.chan.decode(value),
                    None => self.chan.recv(),
                }
            }
            taken => self.chan.value(taken),
        }
    }

    fn request_more(&mut self) -> Result<(), HubError> {
        let hub = self.chan.hub();
        while self.in_flight.len() < self.messages {
            self.in_flight.push_back(if self.batch_size > 1 {
                hub.start_get_many(self.batch_size)?
            } else {
                hub.start_get()?
            });
        }
        Ok(())
    }
}

impl<T: Value> Drop for Receiver<'_, T> {
    fn drop(&mut self) {
        let withdrawn = self.in_flight.drain(..).filter_map(Pending::withdraw).collect();
        self.chan.hub().keep_values(std::mem::take(&mut self.received), withdrawn);
    }
}

impl<T: Value> Iterator for Receiver<'_, T> {
    type Item = Result<T, HubError>;

    /// Returns the next value; `None` if the channel is closed and empty.
    fn next(&mut self) -> Option<Self::Item> {
        match self.recv() {
            Err(error) if error.is_closed() => None,
            received => Some(received),
        }
    }
}
