//! Operations with deadlines on any transport: spin for about the cost of a wake, then sleep.

use std::time::Duration;

use tombolo_platform::event::{Interest, poll};
use tombolo_platform::time::{Deadline, now_ns};

use crate::contract::Transport;
use crate::error::{Awaited, ChannelError};

/// How long to spin before sleeping, in nanoseconds: about what it costs to be woken by another processor
/// through the kernel. Spinning longer than a wake costs wastes more than it can save.
pub const DEFAULT_SPIN_NS: u64 = 50_000;

/// A budget that fades: spinning in vain halves it, down to a sixteenth, and spinning with success restores it.
///
/// With more waiters than processors, spinning only keeps the peer from running; the budget finds that out.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    full_ns: u64,
    budget_ns: u64,
}

impl Spin {
    /// A budget of `full_ns`; zero sleeps at once.
    #[must_use]
    pub const fn new(full_ns: u64) -> Self {
        Spin { full_ns, budget_ns: full_ns }
    }

    /// Calls `attempt` until it gives something or the budget is spent.
    fn run<T>(&mut self, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        // Reading the clock costs as much as a poll of a ring or more, so look at it now and then only.
        const POLLS_PER_LOOK: u32 = 64;
        let start_ns = now_ns();
        while self.budget_ns > 0 {
            for _ in 0..POLLS_PER_LOOK {
                if let Some(found) = attempt() {
                    self.budget_ns = self.full_ns;
                    return Some(found);
                }
                tombolo_base::sync::spin_hint();
            }
            if now_ns() - start_ns >= self.budget_ns {
                self.budget_ns = (self.budget_ns / 2).max(self.full_ns / 16);
                break;
            }
        }
        None
    }
}

impl Default for Spin {
    fn default() -> Self {
        Spin::new(DEFAULT_SPIN_NS)
    }
}

/// Repeats `attempt` on `channel` until it is not [`ChannelError::WouldBlock`] or the deadline passes.
fn until<C: Transport, T>(
    channel: &mut C,
    spin: &mut Spin,
    timeout: Duration,
    (interest, awaited): (Interest, Awaited),
    mut attempt: impl FnMut(&mut C) -> Result<T, ChannelError>,
) -> Result<T, ChannelError> {
    let mut once = |channel: &mut C| match attempt(channel) {
        Err(ChannelError::WouldBlock) => None,
        result => Some(result),
    };
    if let Some(result) = once(channel) {
        return result;
    }
    let deadline = Deadline::after(timeout);
    loop {
        if let Some(result) = spin.run(|| once(channel)) {
            return result;
        }
        let slept = if channel.about_to_sleep(interest) {
            let mut sources = Vec::with_capacity(2);
            channel.sources(interest, &mut sources);
            poll(&sources, Some(deadline)).map(|_| ())
        } else {
            Ok(())
        };
        channel.wake_up();
        slept?;
        if let Some(result) = once(channel) {
            return result;
        }
        if deadline.passed() {
            return Err(ChannelError::TimedOut(awaited));
        }
    }
}

/// Sends a message, waiting for room up to `timeout`.
///
/// # Errors
/// [`ChannelError::TimedOut`] when the peer did not take enough in time: nothing was sent. Otherwise as
/// [`Transport::try_send`].
pub fn send<C: Transport>(
    channel: &mut C,
    spin: &mut Spin,
    message: &[u8],
    timeout: Duration,
) -> Result<(), ChannelError> {
    until(channel, spin, timeout, (Interest::Write, Awaited::Room), |channel| channel.try_send(message))
}

/// Receives the next message in place of what `buffer` held, waiting up to `timeout`.
///
/// # Errors
/// [`ChannelError::TimedOut`] when none came in time. Otherwise as [`Transport::try_recv_into`].
pub fn recv_into<C: Transport>(
    channel: &mut C,
    spin: &mut Spin,
    buffer: &mut Vec<u8>,
    timeout: Duration,
) -> Result<usize, ChannelError> {
    until(channel, spin, timeout, (Interest::Read, Awaited::Message), |channel| {
        channel.try_recv_into(buffer)?.ok_or(ChannelError::WouldBlock)
    })
}

/// Waits until one of `channels` has something to receive, an end included, and says which: the first after
/// `start`, so that a caller who passes one more than the last answer serves all of them in turn.
///
/// # Errors
/// [`ChannelError::TimedOut`] when nothing happened on any.
pub fn any<C: Transport>(
    channels: &mut [&mut C],
    spin: &mut Spin,
    timeout: Duration,
    start: usize,
) -> Result<usize, ChannelError> {
    let first_ready = |channels: &mut [&mut C]| {
        let count = channels.len();
        (0..count).map(|step| (start + step) % count).find(|index| channels[*index].readable())
    };
    let deadline = Deadline::after(timeout);
    loop {
        if let Some(index) = spin.run(|| first_ready(channels)) {
            return Ok(index);
        }
        let mut all_quiet = true;
        for channel in channels.iter_mut() {
            all_quiet &= channel.about_to_sleep(Interest::Read);
        }
        let slept = if all_quiet {
            let mut sources = Vec::with_capacity(2 * channels.len());
            for channel in channels.iter() {
                channel.sources(Interest::Read, &mut sources);
            }
            poll(&sources, Some(deadline)).map(|_| ())
        } else {
            Ok(())
        };
        for channel in channels.iter_mut() {
            channel.wake_up();
        }
        slept?;
        if let Some(index) = first_ready(channels) {
            return Ok(index);
        }
        if deadline.passed() {
            return Err(ChannelError::TimedOut(Awaited::Any));
        }
    }
}
