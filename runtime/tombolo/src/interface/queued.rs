//! An end of a channel whose server has other clients too.

use std::collections::VecDeque;
use std::time::Duration;

use tombolo_interface::{Body, Carries, Outgoing, Port, Sent, Source};
use tombolo_platform::event::Interest;
use tombolo_transport::TransportExt;

use crate::channel::Channel;
use crate::error::Error;

/// Answers of one client that wait for room in its ring before the service leaves its calls where they are.
const QUEUED: usize = 64;

/// Beyond [`QUEUED`], for calls whose responders are dropped all at once.
const QUEUED_AT_MOST: usize = QUEUED + tombolo_interface::MAX_OUTSTANDING;

/// The serving end of a channel of one client of several: it never waits for room. What finds none is queued,
/// and sent by [`flush`](Self::flush).
#[derive(Debug)]
pub struct Queued {
    channel: Channel,
    answers: VecDeque<Vec<u8>>,
}

impl Queued {
    /// Of a channel that was opened with the hash of the interface.
    #[must_use]
    pub fn new(channel: Channel) -> Self {
        Queued { channel, answers: VecDeque::new() }
    }

    /// The channel that it serves.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The channel, for a waitset.
    pub fn channel_mut(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// Whether more of the client's calls should be served. Not while 64 answers wait, or more.
    #[must_use]
    pub fn takes_calls(&self) -> bool {
        self.answers.len() < QUEUED
    }

    /// Sends what was queued, as far as there is room.
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

    /// What to wait for: calls, unless too many answers wait; room, if any does.
    pub fn interest(&mut self) -> Interest {
        match self.answers.len() {
            0 if !self.channel.carrier.unsent() => Interest::Read,
            QUEUED.. => Interest::Write,
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
        if self.answers.len() >= QUEUED_AT_MOST {
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
