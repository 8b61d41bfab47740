//! Operations with deadlines on any transport: [`tombolo_link::wait`], with the clock and the sleep of Linux.

use std::time::Duration;

use tombolo_base::sync::delay_poll;
pub use tombolo_link::wait::{DEFAULT_SPIN_NS, Spin};
use tombolo_link::wait::{Waiter, until};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::time::{Deadline, now_ns};
use tombolo_platform::{OsError, barrier};

use crate::capabilities::Capabilities;
use crate::contract::{Announced, EndError, Transport, TransportExt};
use crate::error::{Awaited, ChannelError};
use crate::message::Message;

/// Announces a sleep for a caller that sleeps on one channel itself. Returns whether it may sleep on the
/// channel's [sources](Transport::sources); if not, poll again. Call
/// [`finish_sleep`](Transport::finish_sleep) in either case.
#[must_use = "sleeping on what is already there can last forever"]
pub fn prepare_to_sleep<C: Transport>(channel: &mut C, awaited: Interest) -> bool {
    if channel.announce_sleep(awaited) == Announced::NeedsBarrier {
        barrier::global();
    }
    channel.may_sleep(awaited)
}

/// Channels of a wait.
struct ChannelsWaiter<'a, 'b, C> {
    channels: &'a mut [&'b mut C],
    awaited: Interest,
    /// For each channel, whether one of its sources ended the last sleep.
    rung: WakeCause,
}

enum WakeCause {
    /// There was no sleep.
    None,
    /// Same for all channels: there is only one, or the source is unknown.
    All(bool),
    Each(Vec<bool>),
}

impl<'a, 'b, C: Transport> ChannelsWaiter<'a, 'b, C> {
    fn new(channels: &'a mut [&'b mut C], awaited: Interest) -> Self {
        ChannelsWaiter { channels, awaited, rung: WakeCause::None }
    }

    /// Whether sleeps on all channels end through descriptors.
    fn can_sleep(&self) -> bool {
        self.channels
            .iter()
            .all(|channel| channel.describe().capabilities.contains(Capabilities::DESCRIPTORS))
    }

    /// Sleeps on all sources of all channels. Returns for each channel whether one of its sources was ready.
    fn poll(&self, deadline: Deadline) -> Result<Vec<bool>, OsError> {
        let mut sources = Vec::with_capacity(2 * self.channels.len());
        let mut ends = Vec::with_capacity(self.channels.len());
        for channel in self.channels.iter() {
            channel.sources(self.awaited, &mut sources);
            ends.push(sources.len());
        }
        let ready = poll(&sources, Some(deadline))?;
        let mut start = 0;
        let is_rung = |end| {
            let own = &ready[start..end];
            start = end;
            own.iter().any(|ready| ready.any())
        };
        Ok(ends.into_iter().map(is_rung).collect())
    }
}

impl<C: Transport> Waiter for ChannelsWaiter<'_, '_, C> {
    type Error = OsError;

    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn yield_now(&self) {
        std::thread::yield_now();
    }

    fn announce(&mut self) -> Announced {
        self.rung = WakeCause::None;
        if !self.can_sleep() {
            return Announced::Complete;
        }
        let mut announced = Announced::Complete;
        for channel in self.channels.iter_mut() {
            if channel.announce_sleep(self.awaited) == Announced::NeedsBarrier {
                announced = Announced::NeedsBarrier;
            }
        }
        announced
    }

    fn barrier(&mut self) {
        barrier::global();
    }

    fn may_sleep(&mut self) -> bool {
        !self.can_sleep() || self.channels.iter_mut().all(|channel| channel.may_sleep(self.awaited))
    }

    fn sleep(&mut self, until_ns: u64) -> Result<(), OsError> {
        if !self.can_sleep() {
            // Nothing can wake this thread, so it must poll. Let others run in between.
            std::thread::yield_now();
            self.rung = WakeCause::All(true);
            return Ok(());
        }
        let deadline = Deadline::at_ns(until_ns);
        if let [channel] = &mut *self.channels
            && let Some(rung) = channel.park(deadline)
        {
            self.rung = WakeCause::All(rung);
            return Ok(());
        }
        self.rung = WakeCause::Each(self.poll(deadline)?);
        Ok(())
    }

    fn finish_sleep(&mut self) -> Result<(), OsError> {
        for (index, channel) in self.channels.iter_mut().enumerate() {
            channel.finish_sleep(match &self.rung {
                WakeCause::None => false,
                WakeCause::All(rung) => *rung,
                WakeCause::Each(rung) => rung[index],
            });
        }
        Ok(())
    }
}

/// Sends a message, waiting for room up to `timeout`. On a stream it also waits, within the same time, until
/// the kernel has taken all of it; an accepted message is never reported as timed out.
///
/// # Errors
/// [`ChannelError::TimedOut`] if the peer did not receive enough in time; nothing was sent. Otherwise as
/// [`Transport::try_send`].
#[inline(always)]
pub fn send<C: Transport>(
    channel: &mut C,
    spin: &mut Spin,
    message: &[u8],
    timeout: Duration,
) -> Result<(), ChannelError> {
    let accepted = match channel.try_send(message) {
        Ok(()) if channel.has_unsent() => true,
        Ok(()) => return Ok(()),
        Err(EndError::Full) => false,
        Err(error) => return Err(ChannelError::of(channel, error, message.len())),
    };
    send_blocking(channel, spin, message, timeout, accepted)
}

/// Continues a send that found no room, or an accepted message that the kernel has not taken completely.
#[inline(never)]
fn send_blocking<C: Transport>(
    channel: &mut C,
    spin: &mut Spin,
    message: &[u8],
    timeout: Duration,
    mut accepted: bool,
) -> Result<(), ChannelError> {
    let channels = &mut [&mut *channel];
    let sent = until(&mut ChannelsWaiter::new(channels, Interest::Write), spin, timeout, |waiter| {
        let channel = &mut *waiter.channels[0];
        if !accepted {
            match channel.try_send(message) {
                Ok(()) => accepted = true,
                Err(EndError::Full) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        if channel.has_unsent() { None } else { Some(Ok(())) }
    })?;
    match sent {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(ChannelError::of(channel, error, message.len())),
        None if accepted => Ok(()),
        None => Err(ChannelError::TimedOut(Awaited::Room)),
    }
}

/// Receives the next message into `buffer`, replacing its contents. Waits up to `timeout`.
///
/// # Errors
/// [`ChannelError::TimedOut`] if no message arrived in time. Otherwise as [`Transport::try_recv_in_place`].
#[inline]
pub fn recv_into<C: Transport>(
    channel: &mut C,
    spin: &mut Spin,
    buffer: &mut Vec<u8>,
    timeout: Duration,
) -> Result<usize, ChannelError> {
    recv_in_place(channel, spin, timeout, |message| {
        message.copy_into(buffer);
        message.len()
    })
}

/// Receives the next message in place. Waits up to `timeout`.
///
/// # Errors
/// Same as [`recv_into`].
#[inline(always)]
pub fn recv_in_place<C: Transport, R>(
    channel: &mut C,
    spin: &mut Spin,
    timeout: Duration,
    read: impl FnOnce(&Message<'_>) -> R,
) -> Result<R, ChannelError> {
    // A message ends the wait, so `read` is called at most once.
    let mut read = Some(read);
    let mut deadline = None;
    loop {
        // Not a closure for `poll_briefly`: its result would be passed through memory.
        for poll in 0..spin.brief_polls() {
            match channel.try_recv_in_place(|message| read.take().map(|read| read(message))) {
                Ok(Some(Some(received))) => {
                    spin.record_success(poll);
                    return Ok(received);
                }
                Ok(_) => delay_poll(),
                Err(error) => return Err(ChannelError::of(channel, error, 0)),
            }
        }
        wait_for_message(channel, spin, timeout, &mut deadline)?;
    }
}

/// Waits until polling the channel is worthwhile. The deadline starts with the first wait.
#[inline(never)]
fn wait_for_message<C: Transport>(
    channel: &mut C,
    spin: &mut Spin,
    timeout: Duration,
    deadline: &mut Option<Deadline>,
) -> Result<(), ChannelError> {
    let is_first = deadline.is_none();
    let deadline = *deadline.get_or_insert_with(|| Deadline::after(timeout));
    let timed_out = ChannelError::TimedOut(Awaited::Message);
    if !is_first && deadline.passed() {
        return Err(timed_out);
    }
    let channels = &mut [channel];
    let mut waiter = ChannelsWaiter::new(channels, Interest::Read);
    let is_readable = |waiter: &mut ChannelsWaiter<'_, '_, C>| waiter.channels[0].readable().then_some(());
    until(&mut waiter, spin, deadline.remaining(), is_readable)?.ok_or(timed_out)
}

/// Waits until one of `channels` has something to receive, including its end, and returns the channel's
/// index. Searches from `start` on, so that a caller that passes the last index plus one serves all channels
/// in turn.
///
/// # Errors
/// [`ChannelError::TimedOut`] if there was no event on any of them.
pub fn any<C: Transport>(
    channels: &mut [&mut C],
    spin: &mut Spin,
    timeout: Duration,
    start: usize,
) -> Result<usize, ChannelError> {
    let first_ready = |waiter: &mut ChannelsWaiter<'_, '_, C>| {
        let count = waiter.channels.len();
        let mut in_turn = (0..count).map(|step| (start % count + step) % count);
        in_turn.find(|index| waiter.channels[*index].readable())
    };
    let mut waiter = ChannelsWaiter::new(channels, Interest::Read);
    until(&mut waiter, spin, timeout, first_ready)?.ok_or(ChannelError::TimedOut(Awaited::Any))
}
