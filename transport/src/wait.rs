//! Operations with deadlines on any transport: spin for about the cost of a wake, then sleep.

use std::time::Duration;

use tombolo_platform::barrier;
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::time::{Deadline, now_ns};

use crate::capabilities::Capabilities;
use crate::contract::{Announced, EndError, Transport};
use crate::error::{Awaited, ChannelError};
use crate::message::Message;

/// How long to spin before sleeping, in nanoseconds: about what it costs to be woken by another processor
/// through the kernel. Spinning longer than a wake costs wastes more than it can save.
pub const DEFAULT_SPIN_NS: u64 = 50_000;

/// Looks in quick succession before anything else, a hundred nanoseconds of them: an answer from a processor that shares a cache
/// comes within these. The processor's hint for a loop that spins would double the time between two looks.
const LOOKS_AT_ONCE: u32 = 32;

/// Polls between two looks at the clock, which costs as much as a poll of a ring or more.
const POLLS_PER_LOOK: u32 = 16;

/// Vain waits after which the whole budget is tried once more, at first and at most: twice as many after each trial that was
/// in vain, too.
const WAITS_TO_TRIAL: u32 = 16;
const MAX_WAITS_TO_TRIAL: u32 = 256;

/// A budget that fades: spinning in vain halves it, down to a 64th, and spinning with success restores it.
///
/// With more waiters than processors, spinning only keeps the peer from running; the budget finds that out. A
/// peer that does answer in time, but later than the faded budget, is found out by trying the whole now and then. Two that
/// wait for each other with faded budgets both sleep, and are late because they sleep: trials soon are what wakes such a pair,
/// and trials that get rare are what keeps them cheap where they find nothing.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    full_ns: u64,
    budget_ns: u64,
    vain_waits: u32,
    waits_to_trial: u32,
}

impl Spin {
    /// A budget of `full_ns`; zero sleeps at once.
    #[must_use]
    pub const fn new(full_ns: u64) -> Self {
        Spin { full_ns, budget_ns: full_ns, vain_waits: 0, waits_to_trial: WAITS_TO_TRIAL }
    }

    /// Calls `attempt` a few times, or once if there is no budget, without a look at the clock.
    ///
    /// From one place, so that what is attempted is compiled into its caller: it is what lies between a message and its
    /// answer.
    #[inline(always)]
    pub fn glance<T>(&mut self, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        let looks = if self.full_ns == 0 { 1 } else { LOOKS_AT_ONCE };
        for look in 0..looks {
            let found = attempt();
            if found.is_some() {
                if look > 0 {
                    self.restore();
                }
                return found;
            }
        }
        None
    }

    /// Calls `attempt` until it gives something, the budget is spent or the deadline passes.
    pub(crate) fn run<T>(&mut self, deadline: Deadline, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        if self.full_ns == 0 {
            return None;
        }
        let remaining_ns = u64::try_from(deadline.remaining().as_nanos()).unwrap_or(u64::MAX);
        let start_ns = now_ns();
        loop {
            let spent_ns = now_ns() - start_ns;
            if spent_ns >= remaining_ns {
                return None;
            }
            if spent_ns >= self.budget_ns {
                self.fade();
                return None;
            }
            for _ in 0..POLLS_PER_LOOK {
                tombolo_base::sync::spin_hint();
                let found = attempt();
                if found.is_some() {
                    self.restore();
                    return found;
                }
            }
        }
    }
}

impl Spin {
    fn restore(&mut self) {
        *self = Spin::new(self.full_ns);
    }

    fn fade(&mut self) {
        self.vain_waits += 1;
        self.budget_ns = (self.budget_ns / 2).max(self.full_ns / 64);
        if self.vain_waits == self.waits_to_trial {
            self.budget_ns = self.full_ns;
            self.vain_waits = 0;
            self.waits_to_trial = (2 * self.waits_to_trial).min(MAX_WAITS_TO_TRIAL);
        }
    }
}

impl Default for Spin {
    fn default() -> Self {
        Spin::new(DEFAULT_SPIN_NS)
    }
}

/// Calls `attempt` on `channels` until it gives something; `None` when the deadline passed.
///
/// The deadline starts when the first few attempts were in vain, so that those cost no look at the clock.
#[inline]
fn until<C: Transport, T>(
    channels: &mut [&mut C],
    spin: &mut Spin,
    timeout: Duration,
    awaited: Interest,
    mut attempt: impl FnMut(&mut [&mut C]) -> Option<T>,
) -> Result<Option<T>, ChannelError> {
    let found = spin.glance(|| attempt(channels));
    if found.is_some() {
        return Ok(found);
    }
    let deadline = Deadline::after(timeout);
    loop {
        let found = spin.run(deadline, || attempt(channels));
        if found.is_some() {
            return Ok(found);
        }
        if deadline.passed() {
            return Ok(attempt(channels));
        }
        sleep(channels, awaited, deadline)?;
        let found = attempt(channels);
        if found.is_some() {
            return Ok(found);
        }
    }
}

/// For a caller with one channel and a sleep of its own: announces the sleep, and says whether it may begin on the channel's
/// [sources](Transport::sources); if not, look again. After either [`woken`](Transport::woken).
#[must_use = "sleeping on what is already there can last forever"]
pub fn about_to_sleep<C: Transport>(channel: &mut C, awaited: Interest) -> bool {
    if channel.announce_sleep(awaited) == Announced::NeedsBarrier {
        barrier::everywhere();
    }
    channel.may_sleep(awaited)
}

/// Sleeps until one of `channels` is rung or the deadline passes; not at all when one has what is awaited.
fn sleep<C: Transport>(
    channels: &mut [&mut C],
    awaited: Interest,
    deadline: Deadline,
) -> Result<(), ChannelError> {
    let can_sleep = |channel: &&mut C| channel.capabilities().contains(Capabilities::DESCRIPTORS);
    if !channels.iter().all(can_sleep) {
        // What cannot wake this thread has to be looked at again and again; others may run in between.
        channels.iter_mut().for_each(|channel| channel.woken(true));
        std::thread::yield_now();
        return Ok(());
    }
    let mut needs_barrier = false;
    for channel in channels.iter_mut() {
        needs_barrier |= channel.announce_sleep(awaited) == Announced::NeedsBarrier;
    }
    if needs_barrier {
        barrier::everywhere();
    }
    let mut ready = Ok(Vec::new());
    let mut sources_each = Vec::new();
    if channels.iter_mut().all(|channel| channel.may_sleep(awaited)) {
        if let [channel] = channels
            && let Some(rung) = channel.doze(deadline)
        {
            channel.woken(rung);
            return Ok(());
        }
        let mut sources = Vec::with_capacity(2 * channels.len());
        for channel in channels.iter() {
            let before = sources.len();
            channel.sources(awaited, &mut sources);
            sources_each.push(sources.len() - before);
        }
        ready = poll(&sources, Some(deadline));
    }
    let mut of_source = ready.as_deref().unwrap_or_default().iter();
    for (index, channel) in channels.iter_mut().enumerate() {
        let count = sources_each.get(index).copied().unwrap_or(0);
        let rung = of_source.by_ref().take(count).fold(false, |rung, ready| rung | ready.any());
        channel.woken(rung);
    }
    ready?;
    Ok(())
}

/// [`until`] for one channel and an attempt that says [`EndError::Full`].
#[inline]
fn until_possible<C: Transport, T>(
    channel: &mut C,
    spin: &mut Spin,
    timeout: Duration,
    (interest, awaited): (Interest, Awaited),
    length_bytes: usize,
    mut attempt: impl FnMut(&mut C) -> Result<T, EndError>,
) -> Result<T, ChannelError> {
    let result = until(&mut [channel], spin, timeout, interest, |channels| match attempt(channels[0]) {
        Err(EndError::Full) => None,
        result => Some(result),
    })?;
    match result {
        Some(Ok(result)) => Ok(result),
        Some(Err(error)) => Err(ChannelError::of(channel, error, length_bytes)),
        None => Err(ChannelError::TimedOut(awaited)),
    }
}

/// Sends a message, waiting for room up to `timeout`. On a stream it also waits, within the same time, until the
/// kernel has all of it; one that was accepted is never reported as timed out.
///
/// # Errors
/// [`ChannelError::TimedOut`] when the peer did not take enough in time: nothing was sent. Otherwise as
/// [`Transport::try_send`].
#[inline(always)]
pub fn send<C: Transport>(
    channel: &mut C,
    spin: &mut Spin,
    message: &[u8],
    timeout: Duration,
) -> Result<(), ChannelError> {
    let accepted = match channel.try_send(message) {
        Ok(()) if channel.unsent() => true,
        Ok(()) => return Ok(()),
        Err(EndError::Full) => false,
        Err(error) => return Err(ChannelError::of(channel, error, message.len())),
    };
    send_slow(channel, spin, message, timeout, accepted)
}

/// There was no room at first, or the kernel has not taken all of what was accepted.
#[inline(never)]
fn send_slow<C: Transport>(
    channel: &mut C,
    spin: &mut Spin,
    message: &[u8],
    timeout: Duration,
    mut accepted: bool,
) -> Result<(), ChannelError> {
    let awaited = (Interest::Write, Awaited::Room);
    let sent = until_possible(channel, spin, timeout, awaited, message.len(), |channel| {
        if !accepted {
            channel.try_send(message)?;
            accepted = true;
        }
        if channel.unsent() { Err(EndError::Full) } else { Ok(()) }
    });
    match sent {
        Err(ChannelError::TimedOut(_)) if accepted => Ok(()),
        sent => sent,
    }
}

/// Receives the next message in place of what `buffer` held, waiting up to `timeout`.
///
/// # Errors
/// [`ChannelError::TimedOut`] when none came in time. Otherwise as [`Transport::try_recv_into`].
#[inline]
pub fn recv_into<C: Transport>(
    channel: &mut C,
    spin: &mut Spin,
    buffer: &mut Vec<u8>,
    timeout: Duration,
) -> Result<usize, ChannelError> {
    until_possible(channel, spin, timeout, (Interest::Read, Awaited::Message), 0, |channel| {
        channel.try_recv_into(buffer)?.ok_or(EndError::Full)
    })
}

/// Receives the next message where it lies, waiting up to `timeout`.
///
/// # Errors
/// As [`recv_into`].
#[inline(always)]
pub fn recv_in_place<C: Transport, R>(
    channel: &mut C,
    spin: &mut Spin,
    timeout: Duration,
    read: impl FnOnce(&Message<'_>) -> R,
) -> Result<R, ChannelError> {
    // A message ends the wait, so that there is never a second one for `read`.
    let mut read = Some(read);
    let mut deadline = None;
    loop {
        // In one place, and with small results, so that it is compiled into the caller and stays in registers.
        let glimpsed = spin.glance(|| {
            match channel.try_recv_in_place(|message| read.take().map(|read| read(message))) {
                Ok(received) => received.flatten().map(Ok),
                Err(error) => Some(Err(error)),
            }
        });
        match glimpsed {
            Some(Ok(received)) => return Ok(received),
            Some(Err(error)) => return Err(ChannelError::of(channel, error, 0)),
            None => await_message(channel, spin, timeout, &mut deadline)?,
        }
    }
}

/// Waits until a look at the channel is worth it. The deadline starts with the first wait.
#[inline(never)]
fn await_message<C: Transport>(
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
    let is_readable = |channels: &mut [&mut C]| channels[0].readable().then_some(());
    until(&mut [channel], spin, deadline.remaining(), Interest::Read, is_readable)?.ok_or(timed_out)
}

/// Waits until one of `channels` has something to receive, an end included, and says which: the first from
/// `start` on, so that a caller who passes one more than the last answer serves all of them in turn.
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
        (0..count).map(|step| (start % count + step) % count).find(|index| channels[*index].readable())
    };
    until(channels, spin, timeout, Interest::Read, first_ready)?.ok_or(ChannelError::TimedOut(Awaited::Any))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_in_vain(spin: &mut Spin) {
        assert_eq!(spin.run(Deadline::after(Duration::from_secs(60)), || None::<()>), None);
    }

    #[test]
    fn a_budget_fades_and_comes_back() {
        let mut spin = Spin::new(6_400);
        for expected_ns in [3_200, 1_600, 800, 400, 200, 100, 100] {
            wait_in_vain(&mut spin);
            assert_eq!(spin.budget_ns, expected_ns);
        }
        assert_eq!(spin.run(Deadline::after(Duration::from_secs(60)), || Some(5)), Some(5));
        assert_eq!(spin.budget_ns, 6_400);
    }

    #[test]
    fn the_whole_budget_is_tried_soon_and_then_ever_less_often() {
        let mut spin = Spin::new(640);
        let mut trials_of = |waits: u32| {
            let trials = (1..=waits).filter(|_| {
                wait_in_vain(&mut spin);
                spin.budget_ns == 640
            });
            trials.collect::<Vec<u32>>()
        };
        assert_eq!(trials_of(1008), [16, 48, 112, 240, 496, 752, 1008]);
        assert_eq!(spin.run(Deadline::after(Duration::from_secs(60)), || Some(5)), Some(5));
        let again = (1..=48).filter(|_| {
            wait_in_vain(&mut spin);
            spin.budget_ns == 640
        });
        assert_eq!(again.collect::<Vec<u32>>(), [16, 48]);
    }

    #[test]
    fn no_budget_is_one_look_and_a_deadline_that_passed_none() {
        let mut looks = 0;
        assert_eq!(Spin::new(0).glance(|| looks_at(&mut looks)), None);
        assert_eq!(Spin::new(0).run(Deadline::after(Duration::from_secs(60)), || looks_at(&mut looks)), None);
        assert_eq!(looks, 1);
        assert_eq!(Spin::new(1 << 40).run(Deadline::after(Duration::ZERO), || looks_at(&mut looks)), None);
        assert_eq!(looks, 1);
    }

    fn looks_at(looks: &mut u32) -> Option<()> {
        *looks += 1;
        None
    }
}
