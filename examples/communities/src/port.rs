//! The channel between master and worker as a trait, and an implementation within a process.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Error of a port; a lost port is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// The peer is gone, or the channel with it.
    #[error("{0}")]
    Lost(String),
    /// Nothing happened in time.
    #[error("nothing happened for {0:?}")]
    TimedOut(Duration),
}

/// One end of a message channel.
pub trait Port {
    /// Returns the maximum length of a message, in bytes.
    fn max_message_bytes(&self) -> usize;

    /// Maximum length of data sent beside the channel: the graph should be cut into pieces of this length.
    fn max_bulk_bytes(&self) -> usize {
        self.max_message_bytes()
    }

    /// Enables or disables sending long data beside the channel; enabled by default.
    fn use_bulk(&mut self, _use_it: bool) {}

    /// Sends `message` completely; returns `false` if there is no room now.
    ///
    /// # Errors
    /// The channel is unusable.
    fn try_send(&mut self, message: &[u8]) -> Result<bool, PortError>;

    /// Replaces the content of `buffer` by the next message; returns `false` if no message has arrived.
    ///
    /// # Errors
    /// The channel is unusable; everything sent before was received.
    fn try_recv(&mut self, buffer: &mut Vec<u8>) -> Result<bool, PortError>;

    /// Like [`Port::try_send`], but waits for room.
    ///
    /// # Errors
    /// Also [`PortError::TimedOut`].
    fn send(&mut self, message: &[u8], timeout: Duration) -> Result<(), PortError>;

    /// Like [`Port::try_recv`], but waits for a message.
    ///
    /// # Errors
    /// Also [`PortError::TimedOut`].
    fn recv(&mut self, buffer: &mut Vec<u8>, timeout: Duration) -> Result<(), PortError>;

    /// Waits until one of `ports` has a message or is lost, or the time is up. May return early.
    fn wait_any(ports: &mut [&mut Self], timeout: Duration)
    where
        Self: Sized;
}

/// One end of a channel between threads. Dropping it closes the channel.
#[derive(Debug)]
pub struct LocalPort {
    incoming: Arc<Queue>,
    outgoing: Arc<Queue>,
    /// Signalled on events of this end.
    bell: Arc<Bell>,
    /// Signalled on events of the far end.
    far_bell: Arc<Bell>,
}

/// Creates channels between threads; the thread that holds their near ends can wait on all of them.
#[derive(Debug, Default)]
pub struct LocalHub {
    bell: Arc<Bell>,
}

#[derive(Debug)]
struct Queue {
    state: Mutex<QueueState>,
    capacity: usize,
    max_message_bytes: usize,
}

#[derive(Debug, Default)]
struct QueueState {
    messages: VecDeque<Vec<u8>>,
    closed: bool,
}

/// Event counter of the ports that share it.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<u64>,
    changed: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bell {
    fn ring(&self) {
        *lock(&self.rung) += 1;
        self.changed.notify_all();
    }

    fn count(&self) -> u64 {
        *lock(&self.rung)
    }

    /// Waits for an event after `seen`; returns `false` at the deadline.
    fn wait_past(&self, seen: u64, deadline: Instant) -> bool {
        let mut rung = lock(&self.rung);
        while *rung == seen {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            rung = self.changed.wait_timeout(rung, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl LocalHub {
    /// Creates a channel that holds up to `capacity` messages in each direction, and returns its near and far
    /// ends.
    #[must_use]
    pub fn channel(&self, capacity: usize, max_message_bytes: usize) -> (LocalPort, LocalPort) {
        let queue = || Arc::new(Queue { state: Mutex::default(), capacity, max_message_bytes });
        let (there, back) = (queue(), queue());
        let far_bell = Arc::new(Bell::default());
        let near = LocalPort {
            incoming: Arc::clone(&back),
            outgoing: Arc::clone(&there),
            bell: Arc::clone(&self.bell),
            far_bell: Arc::clone(&far_bell),
        };
        let far =
            LocalPort { incoming: there, outgoing: back, bell: far_bell, far_bell: Arc::clone(&self.bell) };
        (near, far)
    }
}

impl LocalPort {
    fn until<T>(
        &mut self,
        timeout: Duration,
        mut attempt: impl FnMut(&mut Self) -> Result<Option<T>, PortError>,
    ) -> Result<T, PortError> {
        let deadline = Instant::now() + timeout;
        loop {
            let seen = self.bell.count();
            if let Some(done) = attempt(self)? {
                return Ok(done);
            }
            if !self.bell.wait_past(seen, deadline) {
                return Err(PortError::TimedOut(timeout));
            }
        }
    }
}

impl Port for LocalPort {
    fn max_message_bytes(&self) -> usize {
        self.outgoing.max_message_bytes
    }

    fn try_send(&mut self, message: &[u8]) -> Result<bool, PortError> {
        if message.len() > self.outgoing.max_message_bytes {
            return Err(PortError::Lost(format!("a message of {} bytes is too long", message.len())));
        }
        {
            let mut state = lock(&self.outgoing.state);
            if state.closed {
                return Err(PortError::Lost("the other thread has ended".to_owned()));
            }
            if state.messages.len() >= self.outgoing.capacity {
                return Ok(false);
            }
            state.messages.push_back(message.to_owned());
        }
        self.far_bell.ring();
        Ok(true)
    }

    fn try_recv(&mut self, buffer: &mut Vec<u8>) -> Result<bool, PortError> {
        {
            let mut state = lock(&self.incoming.state);
            match state.messages.pop_front() {
                Some(message) => *buffer = message,
                None if state.closed => {
                    return Err(PortError::Lost("the other thread has ended".to_owned()));
                }
                None => return Ok(false),
            }
        }
        self.far_bell.ring();
        Ok(true)
    }

    fn send(&mut self, message: &[u8], timeout: Duration) -> Result<(), PortError> {
        self.until(timeout, |port| Ok(port.try_send(message)?.then_some(())))
    }

    fn recv(&mut self, buffer: &mut Vec<u8>, timeout: Duration) -> Result<(), PortError> {
        self.until(timeout, |port| Ok(port.try_recv(buffer)?.then_some(())))
    }

    fn wait_any(ports: &mut [&mut Self], timeout: Duration) {
        let Some(bell) = ports.first().map(|port| Arc::clone(&port.bell)) else { return };
        let deadline = Instant::now() + timeout;
        loop {
            let seen = bell.count();
            let ready = ports.iter().any(|port| {
                let state = lock(&port.incoming.state);
                state.closed || !state.messages.is_empty()
            });
            if ready || !bell.wait_past(seen, deadline) {
                return;
            }
        }
    }
}

impl Drop for LocalPort {
    fn drop(&mut self) {
        for queue in [&self.incoming, &self.outgoing] {
            lock(&queue.state).closed = true;
        }
        self.far_bell.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn messages_arrive_in_order_and_the_end_is_seen() {
        let hub = LocalHub::default();
        let (mut here, mut there) = hub.channel(2, 8);
        let mut buffer = Vec::new();
        assert_eq!(here.try_recv(&mut buffer), Ok(false));
        assert_eq!(
            (here.try_send(b"a"), here.try_send(b"b"), here.try_send(b"c")),
            (Ok(true), Ok(true), Ok(false))
        );
        assert!(here.try_send(b"nine byte").is_err());
        drop(here);
        there.recv(&mut buffer, SOON).unwrap();
        assert_eq!(buffer, b"a");
        LocalPort::wait_any(&mut [&mut there], SOON);
        there.recv(&mut buffer, SOON).unwrap();
        assert_eq!(buffer, b"b");
        assert!(matches!(there.recv(&mut buffer, SOON), Err(PortError::Lost(_))));
    }

    #[test]
    fn a_wait_ends_at_its_deadline() {
        let (mut here, _there) = LocalHub::default().channel(1, 8);
        let short = Duration::from_millis(1);
        assert_eq!(here.recv(&mut Vec::new(), short), Err(PortError::TimedOut(short)));
        here.send(b"", short).unwrap();
        assert_eq!(here.send(b"", short), Err(PortError::TimedOut(short)));
    }
}
