//! Waiting for many things at once.

mod future;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::{Index, IndexMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tombolo_base::DomainId;
use tombolo_platform::time::{Timeout, now_ns};
use tombolo_platform::{Deadline, Errno, OsError};
use tombolo_transport::contract::Endpoint;
use tombolo_transport::wait::Spin;
use tombolo_transport::waitset::{self, Ready as Told, Schedule};

pub use tombolo_platform::epoll::Trigger;
pub use tombolo_platform::event::{Interest, Ready as DescriptorReady};
pub use tombolo_transport::waitset::{Token, WaitStats};

use crate::bulk::{BulkChannel, NotSent};
use crate::channel::{Carrier, Channel};
use crate::error::Error;
use crate::exits::Ended;
use crate::future::{HasChannel, Registration};
use crate::listener::{Accepted, Listener};
use crate::monitor::side::Side;
use crate::monitor::{Arrived, MonitorLink};
use crate::side::SideStream;
use crate::spawn::Child;

/// What a [`WaitSet`] found ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ready {
    /// What is awaited of this channel is there: a message or an end to receive, or room to send. Told again
    /// until it is taken.
    Channel(Token),
    /// A domain connected to this listener: [`Listener::accept`] does not wait for one. Also when the monitor
    /// is gone, which it then says. Told again until it is taken.
    Listener(Token),
    /// This child has ended: [`Child::wait`] says how. Also when the monitor is gone, which it then says.
    /// Told once.
    Child(Token),
    /// Something came by this side stream, an end included, or what was sent by it has been taken: then
    /// [`try_recv`](SideStream::try_recv) until it finds nothing, and [`try_send`](SideStream::try_send).
    /// Also when the monitor is gone, which they then say. Told again until it is taken.
    Side(Token),
    /// Something happened on this descriptor, told as it was added. A hint, as with `epoll`: what was done to
    /// the descriptor since may have used it up.
    Descriptor(Token, DescriptorReady),
    /// This timer expired this number of times since it was last told. A one-shot timer is then removed.
    Timer(Token, u64),
    /// [`Waker::wake`] was called.
    Woken,
}

impl Ready {
    /// What it is about; `None` for [`Woken`](Ready::Woken).
    #[must_use]
    pub fn token(self) -> Option<Token> {
        match self {
            Ready::Channel(token)
            | Ready::Listener(token)
            | Ready::Child(token)
            | Ready::Side(token)
            | Ready::Descriptor(token, _)
            | Ready::Timer(token, _) => Some(token),
            Ready::Woken => None,
        }
    }
}

/// Interrupts a [`WaitSet`]'s wait, from any thread. Cloning names the same set.
#[derive(Clone, Debug)]
pub struct Waker {
    waker: waitset::Waker,
    called: Arc<AtomicBool>,
}

impl Waker {
    /// Makes the wait that is under way, or else the next one, return [`Ready::Woken`]. Several calls before
    /// that are told once.
    pub fn wake(&self) {
        self.called.store(true, Ordering::SeqCst);
        self.waker.wake();
    }
}

/// Woken when the monitor has said something, whichever thread read it.
#[derive(Debug)]
struct News {
    waker: waitset::Waker,
    arrived: AtomicBool,
}

impl std::task::Wake for News {
    fn wake(self: Arc<Self>) {
        self.arrived.store(true, Ordering::SeqCst);
        self.waker.wake();
    }
}

/// A channel with what the program keeps beside it, for a [`WaitSet`].
///
/// [`Channel`], [`BulkChannel`] and references to them are such. A server implements it for what it knows of
/// a client, so that the set finds that together with the channel:
///
/// ```
/// use tombolo::{Channel, Waited};
///
/// struct Client {
///     channel: Channel,
///     name: String,
/// }
///
/// impl Waited for Client {
///     type End = Channel;
///
///     fn end(&self) -> &Channel {
///         &self.channel
///     }
///
///     fn end_mut(&mut self) -> &mut Channel {
///         &mut self.channel
///     }
/// }
/// ```
pub trait Waited {
    /// [`Channel`] or [`BulkChannel`].
    type End: HasChannel;

    /// The channel, always the same one.
    fn end(&self) -> &Self::End;

    /// The channel, always the same one.
    fn end_mut(&mut self) -> &mut Self::End;
}

macro_rules! waited_itself {
    ($end:ty) => {
        impl Waited for $end {
            type End = $end;

            #[inline]
            fn end(&self) -> &$end {
                self
            }

            #[inline]
            fn end_mut(&mut self) -> &mut $end {
                self
            }
        }
    };
}

waited_itself!(Channel);
waited_itself!(BulkChannel);

impl<T: Waited> Waited for &mut T {
    type End = T::End;

    #[inline]
    fn end(&self) -> &T::End {
        (**self).end()
    }

    #[inline]
    fn end_mut(&mut self) -> &mut T::End {
        (**self).end_mut()
    }
}

/// What the set below holds.
#[derive(Debug)]
struct Member<T>(T);

impl<T: Waited> Endpoint for Member<T> {
    type Transport = Carrier;

    #[inline]
    fn transport(&self) -> &Carrier {
        &self.0.end().channel().carrier
    }

    #[inline]
    fn transport_mut(&mut self) -> &mut Carrier {
        &mut self.0.end_mut().channel_mut().carrier
    }
}

/// What a monitor tells of.
#[derive(Debug)]
struct Watched {
    link: Arc<MonitorLink>,
    what: What,
}

#[derive(PartialEq, Eq, Debug)]
enum What {
    Listener(u32),
    Child {
        ended: Ended,
        told: bool,
    },
    Side(DomainId),
    /// The connection to the monitor itself.
    Link,
}

/// Channels, listeners, children, timers and descriptors to wait for, all at once, at a cost that depends on
/// those on which something happens: ten thousand idle channels beside a busy one cost nothing.
///
/// The set holds its channels, each as the program keeps it: a [`Channel`], a [`BulkChannel`], what the
/// program knows of a client (see [`Waited`]), or a reference to one of these. They are used in place, as
/// `set[token]`, and [`remove`](Self::remove) gives them back. Everything else is registered and stays where
/// it is. What is ready is told one at a time and in turn, so that a channel that is never empty starves no
/// other.
///
/// ```no_run
/// use std::time::Duration;
/// use tombolo::{Domain, Error, Ready, WaitSet};
///
/// # fn main() -> Result<(), Error> {
/// let domain = Domain::attach()?;
/// let listener = domain.export("echo")?;
/// let mut set = WaitSet::new()?;
/// set.add_listener(&listener)?;
/// let report = set.add_interval(Duration::from_secs(10))?;
/// let mut message = Vec::new();
/// loop {
///     match set.wait(Duration::from_secs(60))? {
///         Ready::Listener(_) => {
///             set.add(listener.accept()?)?;
///         }
///         Ready::Channel(token) => match set[token].try_recv_into(&mut message) {
///             Ok(Some(_)) => set[token].try_send(&message)?,
///             Ok(None) => {}
///             Err(_) => drop(set.remove(token)),
///         },
///         Ready::Timer(token, _) if token == report => println!("{} channels", set.channels()),
///         _ => {}
///     }
/// }
/// # }
/// ```
///
/// **In another event loop.** The set is a descriptor ([`AsFd`]). Once [`wait`](Self::wait) with no timeout
/// has found nothing, the descriptor becomes readable with the first thing that happens; then wait with no
/// timeout until it finds nothing again. A set can be in a set in the same way.
///
/// **Threads.** One thread waits; others have a [`Waker`].
#[derive(Debug)]
pub struct WaitSet<T = Channel> {
    /// Of futures. It goes before the descriptor that it watches.
    registration: Option<Registration>,
    set: waitset::WaitSet<Member<T>>,
    watched: HashMap<Token, Watched>,
    channels: usize,
    /// Something a monitor tells of may have changed.
    look_again: bool,
    /// Told last, and of which there may be more.
    more_of: Option<Token>,
    news: Arc<News>,
    news_waker: std::task::Waker,
    called: Arc<AtomicBool>,
}

impl<T: Waited> WaitSet<T> {
    /// An empty set.
    ///
    /// # Errors
    /// [`Error::Os`] with `EMFILE`: it takes three descriptors.
    pub fn new() -> Result<Self, Error> {
        let set = waitset::WaitSet::new()?;
        let news = Arc::new(News { waker: set.waker(), arrived: AtomicBool::new(false) });
        Ok(WaitSet {
            registration: None,
            set,
            watched: HashMap::new(),
            channels: 0,
            look_again: false,
            more_of: None,
            news_waker: Arc::clone(&news).into(),
            news,
            called: Arc::default(),
        })
    }

    /// How long to look at channels on which something happened lately before sleeping, in nanoseconds:
    /// 50,000 unless said, about the cost of being woken; 0 sleeps at once, `u64::MAX` never while there are
    /// any.
    pub fn set_spin_ns(&mut self, spin_ns: u64) {
        self.set.set_spin(Spin::new(spin_ns));
    }

    /// Adds a channel, to be told when there is something to receive, an end included;
    /// [`set_interest`](Self::set_interest) changes that.
    ///
    /// Of a bulk channel something may come that is for the channel alone: after [`Ready::Channel`] call
    /// [`recv`](BulkChannel::recv) within no time until it finds nothing, and once before the first wait, for
    /// what came while something else was awaited is not reported.
    ///
    /// # Errors
    /// [`Error::Os`] with `ENOSPC` when this user waits for as much as `/proc/sys/fs/epoll/max_user_watches`
    /// allows. The channel comes back.
    pub fn add(&mut self, channel: T) -> Result<Token, Box<NotSent<T>>> {
        match self.set.try_add(Member(channel), Interest::Read) {
            Ok(token) => {
                self.channels += 1;
                Ok(token)
            }
            Err((error, Member(channel))) => Err(NotSent::new(error.into(), channel)),
        }
    }

    /// Waits for something else on a channel: for room too, say, while there is something left to send. False
    /// when it is not in.
    pub fn set_interest(&mut self, token: Token, awaited: Interest) -> bool {
        self.set.set_interest(token, awaited)
    }

    /// Adds a listener, to be told when a domain connects. It need not outlive the set: nothing more is told
    /// of one that was dropped.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn add_listener<L: Accepted>(&mut self, listener: &Listener<L>) -> Result<Token, Error> {
        self.watch(listener.link(), What::Listener(listener.number()))
    }

    /// Adds a child, to be told when it has ended.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn add_child(&mut self, child: &Child) -> Result<Token, Error> {
        self.watch(child.link(), What::Child { ended: child.ended().clone(), told: false })
    }

    /// Adds a side stream, to be told when something has come by it, or what was sent has been taken. It need
    /// not outlive the set: of one that is dropped nothing more is told.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn add_side(&mut self, side: &SideStream) -> Result<Token, Error> {
        self.watch(side.link(), What::Side(side.domain()))
    }

    /// Adds a descriptor of something else. The set keeps a duplicate of it.
    ///
    /// # Errors
    /// [`Error::Os`]: `EPERM` for what is always ready, such as a file; `EMFILE`; `ENOSPC` as for
    /// [`add`](Self::add).
    pub fn add_descriptor(
        &mut self,
        descriptor: impl AsFd,
        interest: Interest,
        trigger: Trigger,
    ) -> Result<Token, Error> {
        Ok(self.set.add_descriptor(duplicate(descriptor.as_fd())?, interest, trigger)?)
    }

    /// Waits for something else on a descriptor, or anew on one told [`Once`](Trigger::Once). False when it
    /// is not in.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn change_descriptor(
        &mut self,
        token: Token,
        interest: Interest,
        trigger: Trigger,
    ) -> Result<bool, Error> {
        Ok(self.set.change_descriptor(token, interest, trigger)?)
    }

    /// Adds a timer that goes off once, `after` from now, and is then gone.
    ///
    /// # Errors
    /// [`Error::Os`] with `ENOSPC` when four thousand million things are in.
    pub fn add_timer(&mut self, after: Duration) -> Result<Token, Error> {
        Ok(self.set.add_timer(once(after))?)
    }

    /// Adds a timer that goes off every `period` from now on, counted from now: being late once makes no
    /// later one late, and what was missed is counted. A period of zero goes off once.
    ///
    /// # Errors
    /// As [`add_timer`](Self::add_timer).
    pub fn add_interval(&mut self, period: Duration) -> Result<Token, Error> {
        Ok(self.set.add_timer(Schedule::every(period, now_ns()))?)
    }

    /// Lets a timer go off once, `after` from now, whatever it was set to: how a deadline is put off. False
    /// when it is not in, as one that was told and is gone.
    pub fn reset_timer(&mut self, token: Token, after: Duration) -> bool {
        self.set.set_timer(token, once(after))
    }

    /// A channel of the set; `None` when the token is not of one.
    #[must_use]
    pub fn get(&self, token: Token) -> Option<&T> {
        self.set.get(token).map(|member| &member.0)
    }

    /// A channel of the set, to do anything with. The next wait looks at it.
    #[inline]
    pub fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        self.set.get_mut(token).map(|member| &mut member.0)
    }

    /// Takes anything out. Nothing more is told of it, also not what has happened already. The channel, if it
    /// was one.
    pub fn remove(&mut self, token: Token) -> Option<T> {
        if let Some(removed) = self.watched.remove(&token) {
            self.forget_link_if_unused(&removed.link);
        }
        let Member(channel) = self.set.remove(token)?;
        self.channels -= 1;
        Some(channel)
    }

    /// How many channels are in.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// What interrupts a wait, from any thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker { waker: self.set.waker(), called: Arc::clone(&self.called) }
    }

    /// What waiting has cost so far.
    #[must_use]
    pub fn stats(&self) -> WaitStats {
        self.set.stats()
    }

    /// Waits until something is ready, and says what.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when nothing was by the end of `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Result<Ready, Error> {
        self.look_at_last();
        // Looked at first, so that what is ready already costs no look at the clock.
        if !self.look_again
            && let Some(told) = self.set.look()?
            && let Some(ready) = self.translate(told)?
        {
            return Ok(ready);
        }
        let mut within = Timeout::new(timeout);
        loop {
            if std::mem::take(&mut self.look_again) {
                self.look_at_links()?;
            }
            match self.set.wait_until(&mut within)? {
                Some(told) => {
                    if let Some(ready) = self.translate(told)? {
                        return Ok(ready);
                    }
                }
                None => return Err(Error::TimedOut { what: "anything in a waitset".into(), timeout }),
            }
        }
    }

    fn translate(&mut self, told: Told) -> Result<Option<Ready>, Error> {
        Ok(match told {
            Told::Channel(token) => Some(Ready::Channel(token)),
            Told::Descriptor(token, ready) => match self.watched.get(&token) {
                Some(_) => {
                    self.look_again = true;
                    None
                }
                None => Some(Ready::Descriptor(token, ready)),
            },
            Told::Timer(token, times) => Some(Ready::Timer(token, times)),
            Told::Outside(token) => self.tell_watched(token),
            Told::Woken => {
                self.look_again |= self.news.arrived.swap(false, Ordering::SeqCst);
                self.called.swap(false, Ordering::SeqCst).then_some(Ready::Woken)
            }
        })
    }

    /// What a monitor told of, if it still is so.
    fn tell_watched(&mut self, token: Token) -> Option<Ready> {
        let watched = self.watched.get_mut(&token)?;
        if !watched.link.look(|arrived, over| is_ready(&watched.what, arrived, over)) {
            return None;
        }
        match &mut watched.what {
            What::Listener(_) => {
                self.more_of = Some(token);
                Some(Ready::Listener(token))
            }
            What::Child { told, .. } => {
                *told = true;
                Some(Ready::Child(token))
            }
            What::Side(_) => {
                self.more_of = Some(token);
                Some(Ready::Side(token))
            }
            What::Link => None,
        }
    }

    fn watch(&mut self, link: &Arc<MonitorLink>, what: What) -> Result<Token, Error> {
        if self.token_of(link).is_none() {
            // By edge: it may be another thread that reads what arrives.
            let descriptor = duplicate(link.descriptor())?;
            let token = self.set.add_descriptor(descriptor, Interest::ReadWrite, Trigger::Edge)?;
            self.watched.insert(token, Watched { link: Arc::clone(link), what: What::Link });
        }
        let token = self.set.add_outside()?;
        self.watched.insert(token, Watched { link: Arc::clone(link), what });
        // Also tells a program that polls the descriptor.
        self.set.tell(token);
        self.look_again = true;
        Ok(token)
    }

    fn token_of(&self, link: &Arc<MonitorLink>) -> Option<Token> {
        let is_link = |watched: &Watched| watched.what == What::Link && Arc::ptr_eq(&watched.link, link);
        self.watched.iter().find(|(_, watched)| is_link(watched)).map(|(token, _)| *token)
    }

    fn forget_link_if_unused(&mut self, link: &Arc<MonitorLink>) {
        let uses = self.watched.values().filter(|watched| Arc::ptr_eq(&watched.link, link)).count();
        if uses == 1
            && let Some(token) = self.token_of(link)
        {
            self.watched.remove(&token);
            self.set.remove(token);
        }
    }

    /// Reads what the monitors have said and notes what is ready by it.
    fn look_at_links(&mut self) -> Result<(), Error> {
        for watched in self.watched.values().filter(|watched| watched.what == What::Link) {
            loop {
                watched.link.observe(&self.news_waker);
                // What is read here is told to all observers, so they have to be put in place again.
                if !watched.link.read_now()? {
                    break;
                }
            }
        }
        let links = self.watched.values().filter(|watched| watched.what == What::Link);
        for Watched { link, .. } in links {
            let its_own = self.watched.iter().filter(|(_, watched)| Arc::ptr_eq(&watched.link, link));
            // Under one lock: there may be thousands of children.
            link.look(|arrived, over| {
                for (token, watched) in its_own {
                    if is_ready(&watched.what, arrived, over) {
                        self.set.tell(*token);
                    }
                }
            });
        }
        Ok(())
    }

    /// Tells of what was told last once more, if there is more of it.
    fn look_at_last(&mut self) {
        if let Some(token) = self.more_of.take()
            && let Some(Watched { link, what }) = self.watched.get(&token)
            && link.look(|arrived, over| is_ready(what, arrived, over))
        {
            self.set.tell(token);
        }
    }
}

impl<T: Waited<End = Channel>> WaitSet<T> {
    /// Sends on a channel of the set, if there is room. Unlike the same through [`get_mut`](Self::get_mut)
    /// this leaves an idle channel idle, so that the next wait need not look at each of ten thousand that
    /// were told something.
    ///
    /// # Errors
    /// As [`Channel::try_send`]; [`Error::Os`] with `ENOENT` when the channel is not in.
    pub fn try_send(&mut self, token: Token, message: &[u8]) -> Result<(), Error> {
        let sent = self.set.try_send(token, message);
        match (sent, self.get(token)) {
            (Some(Ok(())), _) => Ok(()),
            (Some(Err(error)), Some(member)) => Err(member.end().refused(error, message.len())),
            _ => Err(OsError::new("send on a channel that is not in the waitset", Errno::NOENT).into()),
        }
    }
}

impl<T: Waited> Index<Token> for WaitSet<T> {
    type Output = T;

    /// A channel of the set.
    ///
    /// # Panics
    /// The token is not of a channel that is in. [`get`](WaitSet::get) asks.
    fn index(&self, token: Token) -> &T {
        self.get(token).expect("a token of a channel in the wait set")
    }
}

impl<T: Waited> IndexMut<Token> for WaitSet<T> {
    /// As [`get_mut`](WaitSet::get_mut).
    ///
    /// # Panics
    /// The token is not of a channel that is in.
    #[inline]
    fn index_mut(&mut self, token: Token) -> &mut T {
        self.get_mut(token).expect("a token of a channel in the wait set")
    }
}

/// Whether there is something to tell of it. The end of the monitor is, of everything that it would tell of.
fn is_ready(what: &What, arrived: &Arrived, over: bool) -> bool {
    match what {
        What::Link | What::Child { told: true, .. } => false,
        What::Listener(number) => {
            over || arrived.incoming.get(number).is_some_and(|waiting| !waiting.is_empty())
        }
        What::Child { ended, .. } => over || ended.get().is_some(),
        What::Side(domain) => over || Side::is_ready(arrived, *domain),
    }
}

fn duplicate(descriptor: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    let copied = descriptor.try_clone_to_owned();
    copied.map_err(|error| tombolo_platform::OsError::from_io("duplicate a descriptor", &error).into())
}

fn once(after: Duration) -> Schedule {
    Schedule::once(Deadline::after(after).as_ns())
}

impl<T> AsFd for WaitSet<T> {
    /// Readable when a wait would find something, provided that the last one found nothing.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}
