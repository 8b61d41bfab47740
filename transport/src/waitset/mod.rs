//! Waiting for any number of channels, at a cost that depends on those on which something happens and on no others.
//!
//! A channel in a set is in one of two states:
//!
//! * **armed**: this end has announced a sleep (see [`Transport::announce_sleep`]), and the kernel watches its bell.
//!   Nobody looks at it. It costs nothing, however many there are.
//! * **hot**: it had something to say not long ago. It is looked at in memory, in turn with the other hot ones, and its
//!   peer rings no bell. After some looks in vain, or when the set sleeps, it is armed; one barrier does for all that are
//!   armed together.
//!
//! What is told is told *by level*: a channel comes up again, in turn with the others, for as long as it has
//! something. How each kind of thing is told is said at [`Ready`].
//!
//! Two things can be ready at once and one of them always: then each still has its turn. Hot channels are a queue; what
//! the kernel has to say is another, asked for after every few answers; the two are served alternately.

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
use tombolo_platform::time::{Deadline, now_ns};
use tombolo_platform::{Errno, OsError};

use crate::contract::{Announced, EndError, Endpoint, Transport, TransportExt};
use crate::wait::Spin;
use member::{ChannelMember, Member};
pub use slab::Token;
use slab::{NO_INDEX, Slab};
pub use timers::Schedule;
use timers::Timers;
pub use waker::Waker;

/// Answers from memory between two questions to the kernel, each of which costs as much as a few of them.
const ANSWERS_PER_QUESTION: u32 = 16;

/// Rounds over the hot channels, while spinning, between two questions to the kernel.
const ROUNDS_PER_QUESTION: u32 = 256;

/// Cold channels among the hot ones from which on it may be worth a barrier to arm them.
const COLD_FEW: usize = 8;

/// Keys that are no tokens.
const WAKER_KEY: u64 = NO_INDEX as u64;
const TIMER_KEY: u64 = 1 << 32 | NO_INDEX as u64;

/// What a wait found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ready {
    /// What is awaited of this channel is there: a message or an end to receive, or room to send. By level: told again
    /// until it is taken.
    Channel(Token),
    /// Something happened on this descriptor, as it was added: by level, by edge, or once. A hint, as with `epoll`: what
    /// was done to the descriptor since may have used it up.
    Descriptor(Token, event::Ready),
    /// This timer went off, so many times since it was last told. One that does so only once is removed by being told.
    Timer(Token, u64),
    /// The owner of the set said so, with [`WaitSet::tell`].
    Outside(Token),
    /// Somebody called [`Waker::wake`].
    Woken,
}

/// What waiting has cost so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WaitStats {
    /// Looks at channels in memory.
    pub looks: u64,
    /// Questions to the kernel, sleeps included.
    pub questions: u64,
    /// Channels that were armed.
    pub armed: u64,
    /// Barriers that arming took.
    pub barriers: u64,
    /// Channels that the kernel named.
    pub rung: u64,
}

/// Channels, descriptors and timers to wait for.
///
/// The set owns its channels, so that none can end while it is waited for; they are used in place through
/// [`get_mut`](Self::get_mut) and come back with [`remove`](Self::remove).
#[derive(Debug)]
pub struct WaitSet<C> {
    members: Slab<Member<C>>,
    /// Channels that are not armed, each once, the next to be looked at first; also tokens of some that are gone.
    hot: VecDeque<Token>,
    /// How many of them were looked at in vain often enough to be armed.
    cold: usize,
    /// What the kernel and the clock said and nobody was told yet.
    known: VecDeque<Ready>,
    /// The turn is that of `known`.
    known_first: bool,
    answers: u32,
    timers: Timers,
    spin: Spin,
    /// The last wait found nothing: a program may be polling the descriptor.
    parked: bool,
    stats: WaitStats,
    candidates: Vec<Token>,
    events: Events,
    waker: Waker,
    timer: TimerFd,
    epoll: Epoll,
}

fn full() -> OsError {
    OsError::new("put more into a waitset", Errno::NOSPC)
}

impl<C: Endpoint> WaitSet<C> {
    /// An empty one, which spins for [`Spin::default`] before it sleeps.
    ///
    /// # Errors
    /// `EMFILE`: it takes three descriptors.
    pub fn new() -> Result<Self, OsError> {
        let (epoll, waker, timer) = (Epoll::new()?, Waker::new()?, TimerFd::new()?);
        epoll.add(&waker, Interest::Read, Trigger::Level, WAKER_KEY)?;
        epoll.add(&timer, Interest::Read, Trigger::Level, TIMER_KEY)?;
        Ok(WaitSet {
            members: Slab::new(),
            hot: VecDeque::new(),
            cold: 0,
            known: VecDeque::new(),
            known_first: true,
            answers: 0,
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

    /// How long to look at hot channels before sleeping.
    pub fn set_spin(&mut self, spin: Spin) {
        self.spin = spin;
    }

    /// Adds a channel, waiting for `awaited`.
    ///
    /// # Errors
    /// `ENOSPC`, see [`Epoll::add`]. The channel is closed.
    pub fn add(&mut self, channel: C, awaited: Interest) -> Result<Token, OsError> {
        let member = Member::Channel(ChannelMember::new(channel, awaited));
        let token = self.members.insert(member).ok_or_else(full)?;
        if let Some(Member::Channel(member)) = self.members.get_mut(token) {
            if let Err(error) = member.register(&self.epoll, token) {
                self.members.remove(token);
                return Err(error);
            }
            // What its bell said until now, while it was opened, is of no interest.
            member.disarm(true);
        }
        self.hot.push_back(token);
        self.changed();
        Ok(token)
    }

    /// Adds a descriptor. It is the set's from now on; give it a duplicate to keep your own.
    ///
    /// # Errors
    /// As [`Epoll::add`]. The descriptor is closed.
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

    /// Waits for something else on a descriptor, or again if it is told [`Once`](Trigger::Once); false when it is not in.
    ///
    /// # Errors
    /// As [`Epoll::change`].
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

    /// A token for something that the owner of the set watches itself, and [tells](Self::tell) of.
    ///
    /// # Errors
    /// `ENOSPC` when four thousand million things are in.
    pub fn add_outside(&mut self) -> Result<Token, OsError> {
        self.members.insert(Member::Outside).ok_or_else(full)
    }

    /// Lets a wait return [`Ready::Outside`] in its turn, once however often it is told before that.
    pub fn tell(&mut self, token: Token) {
        let outside = Ready::Outside(token);
        if self.members.get(token).is_some() && !self.known.contains(&outside) {
            self.known.push_back(outside);
            self.changed();
        }
    }

    /// Adds a timer.
    ///
    /// # Errors
    /// `ENOSPC` when four thousand million things are in.
    pub fn add_timer(&mut self, schedule: Schedule) -> Result<Token, OsError> {
        let once = schedule.period_ns.is_none_or(|period| period == 0);
        let due_ns = Some(schedule.first_ns);
        let token = self.members.insert(Member::Timer { due_ns, once }).ok_or_else(full)?;
        self.timers.set(token, schedule);
        self.changed();
        Ok(token)
    }

    /// Sets a timer anew, whatever it was set to; false when it is not in, as one that has been told its only time.
    pub fn set_timer(&mut self, token: Token, schedule: Schedule) -> bool {
        let Some(Member::Timer { due_ns, once }) = self.members.get_mut(token) else { return false };
        if let Some(due_ns) = *due_ns {
            self.timers.unset(token, due_ns);
        }
        *due_ns = Some(schedule.first_ns);
        *once = schedule.period_ns.is_none_or(|period| period == 0);
        // What it did before it was set anew is not to be told any more.
        self.known.retain(|known| !matches!(known, Ready::Timer(told, _) if *told == token));
        self.timers.set(token, schedule);
        self.changed();
        true
    }

    /// A channel of the set.
    #[must_use]
    pub fn get(&self, token: Token) -> Option<&C> {
        match self.members.get(token) {
            Some(Member::Channel(member)) => Some(&member.channel),
            _ => None,
        }
    }

    /// A channel of the set, to do anything with. It is looked at by the next wait.
    #[inline]
    pub fn get_mut(&mut self, token: Token) -> Option<&mut C> {
        self.heat(token, false);
        match self.members.get_mut(token) {
            Some(Member::Channel(member)) => Some(&mut member.channel),
            _ => None,
        }
    }

    /// Sends on a channel of the set. Unlike the same through [`get_mut`](Self::get_mut) this leaves an idle channel
    /// idle: whoever tells ten thousand of them something does not have to look at all of them afterwards.
    ///
    /// `None` when the channel is not in.
    ///
    /// # Errors
    /// As [`Transport::try_send`].
    pub fn try_send(&mut self, token: Token, message: &[u8]) -> Option<Result<(), EndError>> {
        let Some(Member::Channel(member)) = self.members.get_mut(token) else { return None };
        let transport = member.channel.transport_mut();
        let sent = transport.try_send(message);
        // What the kernel has not taken wants to be looked after; a refusal may have listened to the bell.
        if sent.is_err() || transport.unsent() {
            self.heat(token, false);
        }
        Some(sent)
    }

    /// Waits for something else on a channel; false when it is not in.
    pub fn set_interest(&mut self, token: Token, awaited: Interest) -> bool {
        self.heat(token, false);
        match self.members.get_mut(token) {
            Some(Member::Channel(member)) => {
                member.awaited = awaited;
                true
            }
            _ => false,
        }
    }

    /// Takes something out. Nothing more is told of it, also not what has happened already. The channel, if it was one.
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
            Member::Outside => None,
            Member::Timer { due_ns, .. } => {
                if let Some(due_ns) = due_ns {
                    self.timers.unset(token, due_ns);
                }
                None
            }
        }
    }

    /// How many channels, descriptors and timers are in.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether nothing is in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tokens of everything that is in, in no particular order.
    pub fn tokens(&self) -> impl Iterator<Item = Token> {
        self.members.tokens()
    }

    /// What interrupts a wait, from any thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// What waiting has cost so far.
    #[must_use]
    pub fn stats(&self) -> WaitStats {
        self.stats
    }

    /// Waits until something is ready, and says what; `None` when nothing was by the end of `timeout`. Then, until the
    /// set is used again, everything is armed, and its descriptor becomes readable with the first thing that happens.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<Ready>, OsError> {
        if let Some(ready) = self.look()? {
            return Ok(Some(ready));
        }
        let deadline = Deadline::after(timeout);
        loop {
            if let Some(ready) = self.spin(deadline)? {
                return Ok(Some(ready));
            }
            self.arm(true)?;
            let found = match self.look_at_hot() {
                // One of them had something at the last look.
                Some(ready) => Some(ready),
                None => {
                    self.ask(Some(self.until(deadline)))?;
                    self.next_known().or_else(|| self.look_at_hot())
                }
            };
            if let Some(ready) = found {
                return Ok(Some(self.answer(ready)));
            }
            if deadline.passed() {
                // Bells that were rung in vain left their channels hot.
                self.arm(true)?;
                return match self.look_at_hot() {
                    Some(ready) => Ok(Some(self.answer(ready))),
                    None => self.park().map(|()| None),
                };
            }
        }
    }

    /// What is ready now, as far as can be told without arming anything, so that the peers of hot channels go on
    /// ringing no bell: for programs that poll and never sleep. What comes by bell is found by one in sixteen calls.
    ///
    /// # Errors
    /// What the kernel answered.
    #[inline]
    pub fn look(&mut self) -> Result<Option<Ready>, OsError> {
        self.parked = false;
        self.answers += 1;
        if self.answers >= ANSWERS_PER_QUESTION && self.known.is_empty() {
            self.ask(Some(Deadline::at_ns(0)))?;
            self.arm_if_many_are_cold()?;
        }
        let found = if self.known_first {
            self.next_known().or_else(|| self.look_at_hot())
        } else {
            self.look_at_hot().or_else(|| self.next_known())
        };
        Ok(found.map(|ready| self.answer(ready)))
    }
}

impl<C: Endpoint> WaitSet<C> {
    /// Takes turns.
    fn answer(&mut self, ready: Ready) -> Ready {
        self.known_first = matches!(ready, Ready::Channel(_));
        ready
    }

    /// Looks at the hot channels, and now and then asks the kernel, until something is found or the budget is spent.
    fn spin(&mut self, deadline: Deadline) -> Result<Option<Ready>, OsError> {
        if self.hot.is_empty() {
            return Ok(None);
        }
        let (mut spin, mut rounds) = (self.spin, 0_u32);
        let found = spin.run(
            self,
            deadline.as_ns(),
            |_| now_ns(),
            |set| {
                rounds += 1;
                if rounds.is_multiple_of(ROUNDS_PER_QUESTION)
                    && let Err(error) = set.ask(Some(Deadline::at_ns(0)))
                {
                    return Some(Err(error));
                }
                set.next_known().or_else(|| set.look_at_hot()).map(|ready| Ok(set.answer(ready)))
            },
        );
        self.spin = spin;
        found.transpose()
    }

    /// How long a sleep may last.
    fn until(&self, deadline: Deadline) -> Deadline {
        self.timers.next_ns().map_or(deadline, |due_ns| deadline.min(Deadline::at_ns(due_ns)))
    }

    /// Something changed that a program which polls the descriptor does not know of.
    fn changed(&mut self) {
        if std::mem::take(&mut self.parked) {
            self.waker.nudge();
        }
    }

    fn park(&mut self) -> Result<(), OsError> {
        self.timer.set(self.timers.next_ns().map(Deadline::at_ns))?;
        self.parked = true;
        Ok(())
    }

    /// The next of what the kernel and the clock said that is still of interest.
    fn next_known(&mut self) -> Option<Ready> {
        while let Some(ready) = self.known.pop_front() {
            match ready {
                Ready::Timer(token, _) => match self.members.get(token) {
                    Some(Member::Timer { once: true, .. }) => {
                        self.members.remove(token);
                        return Some(ready);
                    }
                    Some(_) => return Some(ready),
                    None => {}
                },
                Ready::Channel(token) | Ready::Descriptor(token, _) | Ready::Outside(token) => {
                    if self.members.get(token).is_some() {
                        return Some(ready);
                    }
                }
                Ready::Woken => return Some(ready),
            }
        }
        None
    }

    /// Looks once at each hot channel, from the one whose turn it is, up to the first that has something.
    fn look_at_hot(&mut self) -> Option<Ready> {
        for _ in 0..self.hot.len() {
            let token = self.hot.pop_front()?;
            let Some(Member::Channel(member)) = self.members.get_mut(token) else { continue };
            self.stats.looks += 1;
            if member.look() {
                self.cold -= usize::from(member.is_cold()).min(self.cold);
                member.warm();
                self.hot.push_back(token);
                return Some(Ready::Channel(token));
            }
            if member.looked_in_vain() {
                if member.arms_for_free() && arm_for_free(member, &self.epoll, token) {
                    self.stats.armed += 1;
                    continue;
                }
                self.cold += 1;
            }
            self.hot.push_back(token);
        }
        None
    }

    /// Makes an armed channel a hot one. `rung` says that its bell was heard.
    fn heat(&mut self, token: Token, rung: bool) {
        let Some(Member::Channel(member)) = self.members.get_mut(token) else { return };
        if member.armed {
            member.disarm(rung);
            self.hot.push_back(token);
            self.changed();
        } else if rung {
            // Late, or a lifeline that hung up.
            member.disarm(true);
        }
    }

    fn arm_if_many_are_cold(&mut self) -> Result<(), OsError> {
        if self.cold >= COLD_FEW && 2 * self.cold >= self.hot.len() { self.arm(false) } else { Ok(()) }
    }

    /// Arms the hot channels, all or the cold ones. Those that have something by then stay hot.
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
            barrier::everywhere();
        }
        let mut result = Ok(());
        for token in candidates.drain(..) {
            let Some(Member::Channel(member)) = self.members.get_mut(token) else { continue };
            let settled = member.settle(&self.epoll, token);
            if settled == Ok(true) {
                self.stats.armed += 1;
            } else {
                member.warm();
                self.hot.push_back(token);
            }
            result = result.and(settled.map(|_| ()));
        }
        self.candidates = candidates;
        self.cold = 0;
        result
    }

    /// Asks the kernel, and the clock, what happened; sleeps up to `deadline` if nothing did.
    fn ask(&mut self, deadline: Option<Deadline>) -> Result<(), OsError> {
        self.answers = 0;
        self.stats.questions += 1;
        self.epoll.wait(&mut self.events, deadline)?;
        let events = std::mem::take(&mut self.events);
        for (key, ready) in events.iter() {
            match key {
                WAKER_KEY => {
                    if self.waker.answer() {
                        self.known.push_back(Ready::Woken);
                    }
                }
                TIMER_KEY => self.timer.went_off(),
                _ => self.happened(Token::from_bits(key), ready),
            }
        }
        self.events = events;
        if let Some(next_ns) = self.timers.next_ns() {
            let now_ns = now_ns();
            if next_ns <= now_ns {
                self.go_off(now_ns);
            }
        }
        Ok(())
    }

    fn happened(&mut self, token: Token, ready: event::Ready) {
        match self.members.get(token) {
            Some(Member::Channel(_)) => {
                self.stats.rung += 1;
                self.heat(token, true);
            }
            Some(Member::Descriptor(_)) => self.known.push_back(Ready::Descriptor(token, ready)),
            // Removed between happening and being heard of.
            Some(Member::Timer { .. } | Member::Outside) | None => {}
        }
    }

    fn go_off(&mut self, now_ns: u64) {
        while let Some((token, times, again_ns)) = self.timers.pop_due(now_ns) {
            if let Some(Member::Timer { due_ns, .. }) = self.members.get_mut(token) {
                *due_ns = again_ns;
                self.known.push_back(Ready::Timer(token, times));
            }
        }
    }
}

/// True when it is armed.
fn arm_for_free<C: Endpoint>(member: &mut ChannelMember<C>, epoll: &Epoll, token: Token) -> bool {
    if member.announce() == Announced::NeedsBarrier {
        barrier::everywhere();
    }
    // If the kernel refuses, it stays hot, and the next sleep says why.
    member.settle(epoll, token) == Ok(true)
}

impl<C> AsFd for WaitSet<C> {
    /// Readable when a wait would find something, provided that the last one found nothing. So an outer `epoll` that
    /// has it says when to wait here, with no timeout, until nothing is found.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
