//! Waits for any number of channels, at a cost that depends only on the number of active ones.
//!
//! A channel in a set is in one of two states:
//!
//! * **armed**: this end has announced a sleep (see [`Transport::announce_sleep`]), and the kernel watches
//!   its bell. It is not polled and costs nothing, however many there are.
//! * **hot**: it was ready recently. It is polled in memory, in turn with the other hot channels, and its
//!   peer rings no bell. After some empty polls, or when the set sleeps, it is armed; one barrier serves all
//!   channels that are armed together.
//!
//! Readiness is *level-triggered*: a channel is reported again, in turn with the others, for as long as it is
//! ready. [`Ready`] describes how each kind of member is reported.
//!
//! Members that are always ready do not starve others. Hot channels form one queue; events from the kernel,
//! which is queried after every few reports, form another. The two are served alternately.

mod member;
mod slab;
mod timers;
mod waker;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tombolo_platform::barrier;
pub use tombolo_platform::epoll::Trigger;
use tombolo_platform::epoll::{Epoll, Events, TimerFd};
use tombolo_platform::event::{self, Interest};
use tombolo_platform::time::{Deadline, Timeout, now_ns};
use tombolo_platform::{Errno, OsError};

use crate::contract::{Announced, EndError, HasTransport, Transport, TransportExt};
use crate::wait::Spin;
use member::{ChannelMember, Member};
pub use slab::Token;
use slab::{NO_INDEX, Slab};
pub use timers::Schedule;
use timers::Timers;
pub use waker::Waker;

/// Reports from memory between two queries of the kernel, each of which costs as much as a few of them.
const REPORTS_PER_QUERY: u32 = 16;

/// Rounds over the hot channels, while spinning, between two queries of the kernel.
const ROUNDS_PER_QUERY: u32 = 64;

/// Maximum number of hot channels for which a wait polls all of them several times before it reads the clock.
const MAX_POLLED_BRIEFLY: usize = 4;

/// Minimum number of cold channels among the hot ones for which arming may be worth a barrier.
const MIN_COLD_TO_ARM: usize = 8;

/// Keys that are not tokens.
const WAKER_KEY: u64 = NO_INDEX as u64;
const TIMER_KEY: u64 = 1 << 32 | NO_INDEX as u64;

/// Event found by a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ready {
    /// The channel has a message or an end to receive, or room to send, as awaited. Level-triggered: reported
    /// again until it is handled.
    Channel(Token),
    /// The descriptor had an event, reported as configured when it was added: level-triggered, edge-triggered
    /// or once. A hint, as with `epoll`: operations on the descriptor since then may have consumed it.
    Descriptor(Token, event::Ready),
    /// The timer expired this many times since it was last reported. A one-shot timer is removed when it is
    /// reported.
    Timer(Token, u64),
    /// The owner of the set called [`WaitSet::notify`].
    External(Token),
    /// A thread called [`Waker::wake`].
    Woken,
}

/// Work done for waiting so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WaitStats {
    /// Number of polls of channels in memory.
    pub looks: u64,
    /// Number of queries of the kernel, including sleeps.
    pub questions: u64,
    /// Number of channels armed.
    pub armed: u64,
    /// Number of barriers executed for arming.
    pub barriers: u64,
    /// Number of channels reported by the kernel.
    pub rung: u64,
}

/// Set of channels, descriptors and timers to wait for.
///
/// The set owns its channels, so that none can be dropped while it is waited for. Use them in place through
/// [`get_mut`](Self::get_mut) and take them out with [`remove`](Self::remove).
#[derive(Debug)]
pub struct WaitSet<C> {
    members: Slab<Member<C>>,
    /// Channels that are not armed, each once, in polling order; also stale tokens of removed channels.
    hot: VecDeque<Token>,
    /// Number of hot channels with enough empty polls to be armed.
    cold: usize,
    /// Events from the kernel and the clock that were not reported yet.
    pending: VecDeque<Ready>,
    /// Whether `pending` is served next.
    pending_first: bool,
    reports: u32,
    timers: Timers,
    spin: Spin,
    /// Whether the last wait found nothing, so that a program may be polling the descriptor.
    parked: bool,
    stats: WaitStats,
    candidates: Vec<Token>,
    events: Events,
    waker: Waker,
    timer: TimerFd,
    epoll: Epoll,
}

fn full() -> OsError {
    OsError::new("add to a waitset", Errno::NOSPC)
}

impl<C: HasTransport> WaitSet<C> {
    /// Creates an empty set, which spins for [`Spin::default`] before it sleeps.
    ///
    /// # Errors
    /// `EMFILE`: the set needs three descriptors.
    pub fn new() -> Result<Self, OsError> {
        let (epoll, waker, timer) = (Epoll::new()?, Waker::new()?, TimerFd::new()?);
        epoll.add(&waker, Interest::Read, Trigger::Level, WAKER_KEY)?;
        epoll.add(&timer, Interest::Read, Trigger::Level, TIMER_KEY)?;
        Ok(WaitSet {
            members: Slab::new(),
            hot: VecDeque::new(),
            cold: 0,
            pending: VecDeque::new(),
            pending_first: true,
            reports: 0,
            timers: Timers::default(),
            spin: Spin::default(),
            parked: false,
            stats: WaitStats::default(),
            candidates: Vec::new(),
            events: Events::new(),
            waker,
            timer,
            epoll,
        })
    }

    /// Sets the time to poll hot channels before sleeping.
    pub fn set_spin(&mut self, spin: Spin) {
        self.spin = spin;
    }

    /// Adds a channel, waiting for `awaited`. Closes the channel on failure.
    ///
    /// # Errors
    /// `ENOSPC`; see [`Epoll::add`]. The channel is closed.
    pub fn add(&mut self, channel: C, awaited: Interest) -> Result<Token, OsError> {
        self.try_add(channel, awaited).map_err(|(error, _)| error)
    }

    /// Adds a channel, waiting for `awaited`. Returns the channel on failure.
    ///
    /// # Errors
    /// Same as [`add`](Self::add), together with the channel, which was neither added nor closed.
    pub fn try_add(&mut self, channel: C, awaited: Interest) -> Result<Token, (OsError, C)> {
        let mut member = ChannelMember::new(channel, awaited);
        let Some(token) = self.members.next_token() else { return Err((full(), member.channel)) };
        if let Err(error) = member.register(&self.epoll, token) {
            return Err((error, member.release(&self.epoll)));
        }
        // Rings from before, while it was opened, are irrelevant.
        member.disarm(true);
        let inserted = self.members.insert(Member::Channel(member));
        debug_assert_eq!(inserted, Some(token));
        self.hot.push_back(token);
        self.nudge_poller();
        Ok(token)
    }

    /// Adds a descriptor, which the set then owns; pass a duplicate to keep your own.
    ///
    /// # Errors
    /// Same as [`Epoll::add`]. The descriptor is closed.
    pub fn add_descriptor(
        &mut self,
        fd: OwnedFd,
        interest: Interest,
        trigger: Trigger,
    ) -> Result<Token, OsError> {
        let token = self.members.insert(Member::Descriptor(fd)).ok_or_else(full)?;
        let added = match self.members.get(token).and_then(Member::descriptor) {
            Some(fd) => self.epoll.add(fd, interest, trigger, token.to_bits()),
            None => Ok(()),
        };
        match added {
            Ok(()) => Ok(token),
            Err(error) => {
                self.members.remove(token);
                Err(error)
            }
        }
    }

    /// Changes the interest in a descriptor, or rearms one that is reported [`Once`](Trigger::Once). Returns
    /// false if it is not in the set.
    ///
    /// # Errors
    /// Same as [`Epoll::change`].
    pub fn change_descriptor(
        &mut self,
        token: Token,
        interest: Interest,
        trigger: Trigger,
    ) -> Result<bool, OsError> {
        match self.members.get(token).and_then(Member::descriptor) {
            Some(fd) => self.epoll.change(fd, interest, trigger, token.to_bits()).map(|()| true),
            None => Ok(false),
        }
    }

    /// Adds a token for something that the owner of the set watches itself and reports with
    /// [`notify`](Self::notify).
    ///
    /// # Errors
    /// `ENOSPC` when the set has 2³² - 1 members.
    pub fn add_external(&mut self) -> Result<Token, OsError> {
        self.members.insert(Member::External).ok_or_else(full)
    }

    /// Makes a wait return [`Ready::External`] in its turn. Several calls before that are reported once.
    pub fn notify(&mut self, token: Token) {
        let external = Ready::External(token);
        if self.members.get(token).is_some() && !self.pending.contains(&external) {
            self.pending.push_back(external);
            self.nudge_poller();
        }
    }

    /// Adds a timer that expires at the times of `schedule`.
    ///
    /// # Errors
    /// `ENOSPC` when the set has 2³² - 1 members.
    pub fn add_timer(&mut self, schedule: Schedule) -> Result<Token, OsError> {
        let once = schedule.period_ns.is_none_or(|period| period == 0);
        let due_ns = Some(schedule.first_ns);
        let token = self.members.insert(Member::Timer { due_ns, once }).ok_or_else(full)?;
        self.timers.set(token, schedule);
        self.nudge_poller();
        Ok(token)
    }

    /// Resets a timer. Returns false if it is not in the set, such as a one-shot timer that was reported.
    pub fn set_timer(&mut self, token: Token, schedule: Schedule) -> bool {
        let Some(Member::Timer { due_ns, once }) = self.members.get_mut(token) else { return false };
        if let Some(due_ns) = *due_ns {
            self.timers.unset(token, due_ns);
        }
        *due_ns = Some(schedule.first_ns);
        *once = schedule.period_ns.is_none_or(|period| period == 0);
        // Earlier expirations are no longer reported.
        self.pending.retain(|ready| !matches!(ready, Ready::Timer(timer, _) if *timer == token));
        self.timers.set(token, schedule);
        self.nudge_poller();
        true
    }

    /// Returns the channel with this token.
    #[must_use]
    pub fn get(&self, token: Token) -> Option<&C> {
        match self.members.get(token) {
            Some(Member::Channel(member)) => Some(&member.channel),
            _ => None,
        }
    }

    /// Returns the channel with this token, for any operation. The next wait polls it.
    #[inline]
    pub fn get_mut(&mut self, token: Token) -> Option<&mut C> {
        self.make_hot(token, false);
        match self.members.get_mut(token) {
            Some(Member::Channel(member)) => Some(&mut member.channel),
            _ => None,
        }
    }

    /// Returns two different channels at once, for any operation. The next wait polls both.
    #[inline]
    pub fn get_two_mut(&mut self, first: Token, second: Token) -> Option<[&mut C; 2]> {
        self.make_hot(first, false);
        self.make_hot(second, false);
        match self.members.get_two_mut([first, second])? {
            [Member::Channel(first), Member::Channel(second)] => {
                Some([&mut first.channel, &mut second.channel])
            }
            _ => None,
        }
    }

    /// Sends on a channel of the set. Unlike a send through [`get_mut`](Self::get_mut) it leaves an idle
    /// channel idle: a program that sends to ten thousand of them need not have all of them polled
    /// afterwards.
    ///
    /// Returns `None` if the channel is not in the set.
    ///
    /// # Errors
    /// Same as [`Transport::try_send`].
    pub fn try_send(&mut self, token: Token, message: &[u8]) -> Option<Result<(), EndError>> {
        let Some(Member::Channel(member)) = self.members.get_mut(token) else { return None };
        let transport = member.channel.transport_mut();
        let sent = transport.try_send(message);
        // Unsent bytes must be watched; a refused send may have read the bell.
        if sent.is_err() || transport.has_unsent() {
            self.make_hot(token, false);
        }
        Some(sent)
    }

    /// Changes the awaited condition of a channel. Returns false if it is not in the set.
    pub fn set_interest(&mut self, token: Token, awaited: Interest) -> bool {
        self.make_hot(token, false);
        match self.members.get_mut(token) {
            Some(Member::Channel(member)) => {
                member.awaited = awaited;
                true
            }
            _ => false,
        }
    }

    /// Removes a member. Nothing more is reported about it, not even past events. Returns the channel, if it
    /// was one.
    pub fn remove(&mut self, token: Token) -> Option<C> {
        match self.members.remove(token)? {
            Member::Channel(member) => {
                if member.is_cold() && !member.armed {
                    self.cold = self.cold.saturating_sub(1);
                }
                Some(member.release(&self.epoll))
            }
            Member::Descriptor(fd) => {
                self.epoll.remove(&fd);
                None
            }
            Member::External => None,
            Member::Timer { due_ns, .. } => {
                if let Some(due_ns) = due_ns {
                    self.timers.unset(token, due_ns);
                }
                None
            }
        }
    }

    /// Returns the number of channels, descriptors and timers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether the set has no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the tokens of all members, in no particular order.
    pub fn tokens(&self) -> impl Iterator<Item = Token> {
        self.members.tokens()
    }

    /// Returns a handle that interrupts a wait from any thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Returns the work done for waiting so far.
    #[must_use]
    pub fn stats(&self) -> WaitStats {
        self.stats
    }

    /// Waits until a member is ready and returns it, or `None` after `timeout`. After `None`, until the set
    /// is used again, everything is armed, and the set's descriptor becomes readable with the first event.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<Ready>, OsError> {
        self.wait_until(&mut Timeout::new(timeout))
    }

    /// Same as [`wait`](Self::wait), for callers that may have to wait again within the same timeout.
    ///
    /// # Errors
    /// Same as [`wait`](Self::wait).
    pub fn wait_until(&mut self, timeout: &mut Timeout) -> Result<Option<Ready>, OsError> {
        if let Some(ready) = self.poll()? {
            return Ok(Some(ready));
        }
        if !timeout.is_zero()
            && let Some(ready) = self.poll_briefly()
        {
            return Ok(Some(ready));
        }
        let deadline = timeout.deadline();
        loop {
            if let Some(ready) = self.spin(deadline)? {
                return Ok(Some(ready));
            }
            self.arm(true)?;
            let found = match self.poll_hot() {
                // The last poll found a ready channel.
                Some(ready) => Some(ready),
                None => {
                    self.query_kernel(Some(self.sleep_deadline(deadline)))?;
                    self.next_pending().or_else(|| self.poll_hot())
                }
            };
            if let Some(ready) = found {
                return Ok(Some(self.record_report(ready)));
            }
            if deadline.passed() {
                // Spurious rings left their channels hot.
                self.arm(true)?;
                return match self.poll_hot() {
                    Some(ready) => Ok(Some(self.record_report(ready))),
                    None => self.park().map(|()| None),
                };
            }
        }
    }

    /// Returns what is ready now without arming anything, so that the peers of hot channels still ring no
    /// bell: for programs that poll and never sleep. One in sixteen calls also queries the kernel.
    ///
    /// # Errors
    /// An error of the kernel.
    #[inline]
    pub fn poll(&mut self) -> Result<Option<Ready>, OsError> {
        self.parked = false;
        self.reports += 1;
        if self.reports >= REPORTS_PER_QUERY && self.pending.is_empty() {
            self.query_kernel(Some(Deadline::at_ns(0)))?;
            self.arm_if_many_are_cold()?;
        }
        let found = if self.pending_first {
            self.next_pending().or_else(|| self.poll_hot())
        } else {
            self.poll_hot().or_else(|| self.next_pending())
        };
        Ok(found.map(|ready| self.record_report(ready)))
    }
}

impl<C: HasTransport> WaitSet<C> {
    /// Alternates between the two queues.
    fn record_report(&mut self, ready: Ready) -> Ready {
        self.pending_first = matches!(ready, Ready::Channel(_));
        ready
    }

    /// Polls the hot channels several times without reading the clock, if they are so few that this takes no
    /// longer than reading it.
    fn poll_briefly(&mut self) -> Option<Ready> {
        if self.hot.is_empty() || self.hot.len() > MAX_POLLED_BRIEFLY {
            return None;
        }
        let mut spin = self.spin;
        let found = spin.poll_briefly(|| self.poll_hot());
        self.spin = spin;
        found.map(|ready| self.record_report(ready))
    }

    /// Polls the hot channels, and occasionally the kernel, until something is found or the budget is spent.
    fn spin(&mut self, deadline: Deadline) -> Result<Option<Ready>, OsError> {
        if self.hot.is_empty() {
            return Ok(None);
        }
        let (mut spin, mut rounds) = (self.spin, 0_u32);
        let found = spin.run(
            self,
            deadline.as_ns(),
            |_| now_ns(),
            |_| std::thread::yield_now(),
            |set| {
                rounds += 1;
                if rounds.is_multiple_of(ROUNDS_PER_QUERY)
                    && let Err(error) = set.query_kernel(Some(Deadline::at_ns(0)))
                {
                    return Some(Err(error));
                }
                set.next_pending().or_else(|| set.poll_hot()).map(|ready| Ok(set.record_report(ready)))
            },
        );
        self.spin = spin;
        found.transpose()
    }

    /// Returns when a sleep must end: at `deadline` or with the next timer.
    fn sleep_deadline(&self, deadline: Deadline) -> Deadline {
        self.timers.next_ns().map_or(deadline, |due_ns| deadline.min(Deadline::at_ns(due_ns)))
    }

    /// Records a change that a program polling the descriptor does not know of.
    fn nudge_poller(&mut self) {
        if std::mem::take(&mut self.parked) {
            self.waker.nudge();
        }
    }

    fn park(&mut self) -> Result<(), OsError> {
        self.timer.set(self.timers.next_ns().map(Deadline::at_ns))?;
        self.parked = true;
        Ok(())
    }

    /// Returns the next event from the kernel or the clock that is still valid.
    fn next_pending(&mut self) -> Option<Ready> {
        while let Some(ready) = self.pending.pop_front() {
            match ready {
                Ready::Timer(token, _) => match self.members.get(token) {
                    Some(Member::Timer { once: true, .. }) => {
                        self.members.remove(token);
                        return Some(ready);
                    }
                    Some(_) => return Some(ready),
                    None => {}
                },
                Ready::Channel(token) | Ready::Descriptor(token, _) | Ready::External(token) => {
                    if self.members.get(token).is_some() {
                        return Some(ready);
                    }
                }
                Ready::Woken => return Some(ready),
            }
        }
        None
    }

    /// Polls each hot channel once, in turn, up to the first that is ready.
    fn poll_hot(&mut self) -> Option<Ready> {
        for _ in 0..self.hot.len() {
            let token = self.hot.pop_front()?;
            let Some(Member::Channel(member)) = self.members.get_mut(token) else { continue };
            self.stats.looks += 1;
            if member.is_ready() {
                self.cold -= usize::from(member.is_cold()).min(self.cold);
                member.reset_empty_polls();
                self.hot.push_back(token);
                return Some(Ready::Channel(token));
            }
            if member.count_empty_poll() {
                if member.arming_is_free() && arm_free_channel(member, &self.epoll, token) {
                    self.stats.armed += 1;
                    continue;
                }
                self.cold += 1;
            }
            self.hot.push_back(token);
        }
        None
    }

    /// Makes an armed channel hot. `rung` means that its bell rang.
    fn make_hot(&mut self, token: Token, rung: bool) {
        let Some(Member::Channel(member)) = self.members.get_mut(token) else { return };
        if member.armed {
            member.disarm(rung);
            self.hot.push_back(token);
            self.nudge_poller();
        } else if rung {
            // A late ring, or a lifeline that hung up.
            member.disarm(true);
        }
    }

    fn arm_if_many_are_cold(&mut self) -> Result<(), OsError> {
        if self.cold >= MIN_COLD_TO_ARM && 2 * self.cold >= self.hot.len() { self.arm(false) } else { Ok(()) }
    }

    /// Arms the hot channels, all of them or only the cold ones. Those that are ready by then stay hot.
    fn arm(&mut self, all: bool) -> Result<(), OsError> {
        let mut candidates = std::mem::take(&mut self.candidates);
        let mut needs_barrier = false;
        let members = &mut self.members;
        self.hot.retain(|token| match members.get_mut(*token) {
            Some(Member::Channel(member)) if all || member.is_cold() => {
                needs_barrier |= member.announce() == Announced::NeedsBarrier;
                candidates.push(*token);
                false
            }
            Some(_) => true,
            None => false,
        });
        if needs_barrier {
            self.stats.barriers += 1;
            barrier::global();
        }
        let mut result = Ok(());
        for token in candidates.drain(..) {
            let Some(Member::Channel(member)) = self.members.get_mut(token) else { continue };
            let armed_now = member.finish_arming(&self.epoll, token);
            if armed_now == Ok(true) {
                self.stats.armed += 1;
            } else {
                member.reset_empty_polls();
                self.hot.push_back(token);
            }
            result = result.and(armed_now.map(|_| ()));
        }
        self.candidates = candidates;
        self.cold = 0;
        result
    }

    /// Queries the kernel and the clock for events. Sleeps up to `deadline` if there are none.
    fn query_kernel(&mut self, deadline: Option<Deadline>) -> Result<(), OsError> {
        self.reports = 0;
        self.stats.questions += 1;
        self.epoll.wait(&mut self.events, deadline)?;
        let events = std::mem::take(&mut self.events);
        for (key, ready) in events.iter() {
            match key {
                WAKER_KEY => {
                    if self.waker.acknowledge() {
                        self.pending.push_back(Ready::Woken);
                    }
                }
                TIMER_KEY => self.timer.acknowledge(),
                _ => self.handle_event(Token::from_bits(key), ready),
            }
        }
        self.events = events;
        if let Some(next_ns) = self.timers.next_ns() {
            let now_ns = now_ns();
            if next_ns <= now_ns {
                self.expire_timers(now_ns);
            }
        }
        Ok(())
    }

    fn handle_event(&mut self, token: Token, ready: event::Ready) {
        match self.members.get(token) {
            Some(Member::Channel(_)) => {
                self.stats.rung += 1;
                self.make_hot(token, true);
            }
            Some(Member::Descriptor(_)) => self.pending.push_back(Ready::Descriptor(token, ready)),
            // Removed after the event happened.
            Some(Member::Timer { .. } | Member::External) | None => {}
        }
    }

    fn expire_timers(&mut self, now_ns: u64) {
        while let Some((token, times, again_ns)) = self.timers.pop_due(now_ns) {
            if let Some(Member::Timer { due_ns, .. }) = self.members.get_mut(token) {
                *due_ns = again_ns;
                self.pending.push_back(Ready::Timer(token, times));
            }
        }
    }
}

/// Arms a channel for which that is free. Returns whether it was armed.
fn arm_free_channel<C: HasTransport>(member: &mut ChannelMember<C>, epoll: &Epoll, token: Token) -> bool {
    if member.announce() == Announced::NeedsBarrier {
        barrier::global();
    }
    // If the kernel refuses, the channel stays hot, and the next sleep reports the error.
    member.finish_arming(epoll, token) == Ok(true)
}

impl<C> AsFd for WaitSet<C> {
    /// Returns a descriptor that is readable when a wait would find something, provided that the last one
    /// found nothing. An outer `epoll` with this descriptor thus shows when to wait here, without a timeout,
    /// until nothing is found.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
