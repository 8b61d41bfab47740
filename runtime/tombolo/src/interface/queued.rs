//! Serving end of a channel whose server has other clients as well.

use std::collections::VecDeque;
use std::time::Duration;

use tombolo_interface::{Body, Carries, Outgoing, Port, Sent, Source};
use tombolo_platform::event::Interest;
use tombolo_transport::TransportExt;

use crate::channel::Channel;
use crate::error::Error;

/// Answers of one client that may be queued before the service stops taking its calls.
const QUEUE_THRESHOLD: usize = 64;

/// Maximum number of queued answers: [`QUEUE_THRESHOLD`], and one for each call whose responder may be
/// dropped at once.
const QUEUE_CAPACITY: usize = QUEUE_THRESHOLD + tombolo_interface::MAX_OUTSTANDING;

/// Serving end of a channel for one client of several. It never waits for room: answers that find none are
/// queued and sent by [`flush`](Self::flush).
#[derive(Debug)]
pub struct Queued {
    channel: Channel,
    answers: VecDeque<Vec<u8>>,
}

impl Queued {
    /// Wraps a channel that was opened with the hash of the interface.
    #[must_use]
    pub fn new(channel: Channel) -> Self {
        Queued { channel, answers: VecDeque::new() }
    }

    /// Returns the channel that it serves.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Returns the channel mutably, for a waitset.
    pub fn channel_mut(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// Whether more of the client's calls should be served: not while 64 or more answers are queued.
    #[must_use]
    pub fn takes_calls(&self) -> bool {
        self.answers.len() < QUEUE_THRESHOLD
    }

    /// Sends queued answers as far as there is room.
    ///
    /// # Errors
    /// The end of the channel.
    pub fn flush(&mut self) -> Result<(), Error> {
        while let Some(answer) = self.answers.front() {
            match self.channel.try_send(answer) {
                Ok(()) => drop(self.answers.pop_front()),
                Err(Error::WouldBlock) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the events to wait for: calls, unless too many answers are queued; room, if any answer is
    /// queued.
    pub fn interest(&mut self) -> Interest {
        match self.answers.len() {
            0 if !self.channel.carrier.has_unsent() => Interest::Read,
            QUEUE_THRESHOLD.. => Interest::Write,
            _ => Interest::ReadWrite,
        }
    }
}

impl Port for Queued {
    type Error = Error;

    fn now_ns(&self) -> u64 {
        self.channel.now_ns()
    }

    fn max_message_bytes(&self) -> usize {
        self.channel.max_message_bytes()
    }

    fn carries(&self) -> Carries {
        self.channel.carries()
    }

    fn bound(&mut self, needs: Carries) {
        self.channel.bound(needs);
    }

    fn is_polled(&self) -> bool {
        self.channel.is_polled()
    }

    fn send<B: Body>(&mut self, message: &Outgoing<'_, B>, _: Duration) -> Result<Sent, Error> {
        if self.answers.is_empty() {
            match Port::send(&mut self.channel, message, Duration::ZERO)? {
                Sent::Accepted => return Ok(Sent::Accepted),
                Sent::NoRoom => {}
            }
        }
        if self.answers.len() >= QUEUE_CAPACITY {
            return Ok(Sent::NoRoom);
        }
        let mut bytes = vec![0; message.length_bytes()];
        message.write(&mut *bytes);
        self.answers.push_back(bytes);
        Ok(Sent::Accepted)
    }

    fn recv(&mut self, timeout: Duration, read: impl FnMut(Source<'_>)) -> Result<bool, Error> {
        Port::recv(&mut self.channel, timeout, read)
    }
}
