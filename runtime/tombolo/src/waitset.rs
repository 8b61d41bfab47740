//! Waits for many channels, timers and descriptors at once.

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
use tombolo_transport::contract::HasTransport;
use tombolo_transport::wait::Spin;
use tombolo_transport::waitset::{self, Ready as Told, Schedule};

pub use tombolo_interface::Waited;
pub use tombolo_platform::epoll::Trigger;
pub use tombolo_platform::event::{Interest, Ready as DescriptorReady};
pub use tombolo_transport::waitset::{Token, WaitStats};

pub use crate::future::HasChannel;

use crate::bulk::{BulkChannel, NotSent};
use crate::channel::{Carrier, Channel};
use crate::error::Error;
use crate::exits::Ended;
use crate::future::Registration;
use crate::listener::{Accepted, Listener};
use crate::monitor::side::Side;
use crate::monitor::{Inbox, MonitorLink};
use crate::side::SideStream;
use crate::spawn::Child;

/// Object that a [`WaitSet`] found ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ready {
    /// The awaited event of this channel is there: a message or the end to receive, or room to send. Reported
    /// until it is consumed.
    Channel(Token),
    /// A domain connected to this listener: [`Listener::accept`] will not wait for one. Also reported if the
    /// monitor is gone, which `accept` then returns. Reported until it is consumed.
    Listener(Token),
    /// This child has ended: [`Child::wait`] returns its exit. Also reported if the monitor is gone, which
    /// `wait` then returns. Reported once.
    Child(Token),
    /// Bytes or the end arrived on this side stream, or what was sent has been accepted: call
    /// [`try_recv`](SideStream::try_recv) until it returns nothing, and [`try_send`](SideStream::try_send).
    /// Also reported if the monitor is gone, which they then return. Reported until it is consumed.
    Side(Token),
    /// There was an event on this descriptor, as selected when it was added. Only a hint, as with `epoll`:
    /// the program may have consumed the event since.
    Descriptor(Token, DescriptorReady),
    /// This timer has expired this number of times since the last report. A one-shot timer is removed.
    Timer(Token, u64),
    /// [`Waker::wake`] was called.
    Woken,
}

impl Ready {
    /// Token of the object; `None` for [`Woken`](Ready::Woken).
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

/// Interrupts the wait of a [`WaitSet`] from any thread. Clones refer to the same set.
#[derive(Clone, Debug)]
pub struct Waker {
    waker: waitset::Waker,
    called: Arc<AtomicBool>,
}

impl Waker {
    /// Makes the current wait, or else the next one, return [`Ready::Woken`]. Several calls before that are
    /// reported once.
    pub fn wake(&self) {
        self.called.store(true, Ordering::SeqCst);
        self.waker.wake();
    }
}

/// Waker for messages of the monitor, whichever thread reads them.
#[derive(Debug)]
struct MonitorWaker {
    waker: waitset::Waker,
    arrived: AtomicBool,
}

impl std::task::Wake for MonitorWaker {
    fn wake(self: Arc<Self>) {
        self.arrived.store(true, Ordering::SeqCst);
        self.waker.wake();
    }
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

/// Member of the underlying waitset.
#[derive(Debug)]
struct Member<T>(T);

impl<T: Waited<End: HasChannel>> HasTransport for Member<T> {
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

/// Object whose events the monitor reports.
#[derive(Debug)]
struct WatchedObject {
    link: Arc<MonitorLink>,
    kind: ObjectKind,
}

#[derive(PartialEq, Eq, Debug)]
enum ObjectKind {
    Listener(u32),
    Child {
        ended: Ended,
        reported: bool,
    },
    Side(DomainId),
    /// Connection to the monitor itself.
    Link,
}

/// Set of channels, listeners, children, timers and descriptors to wait for. The cost of a wait depends on
/// the number of active members: ten thousand idle channels beside a busy one cost nothing.
///
/// The set owns its channels, in the form that the program needs: a [`Channel`], a [`BulkChannel`], the
/// program's state of a client (see [`Waited`]), or a reference to one of these. Use them in place as
/// `set[token]`; [`remove`](Self::remove) returns them. Everything else is only registered. Ready members are
/// reported one at a time and in turn, so that a channel that is never empty does not starve the others.
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
/// **With the state of a client.** A server that keeps state for each client has it in the set:
///
/// ```
/// use tombolo::{Channel, Error, WaitSet, Waited};
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
///
/// let mut clients = WaitSet::<Client>::new()?;
/// # Ok::<(), Error>(())
/// ```
///
/// **In another event loop.** The set has a descriptor ([`AsFd`]). After [`wait`](Self::wait) with a timeout
/// of zero has found nothing, the descriptor becomes readable at the first event; then call `wait` with a
/// timeout of zero until it finds nothing again. A set can be a member of another set in the same way.
///
/// **Threads.** One thread waits; other threads interrupt it with a [`Waker`].
#[derive(Debug)]
pub struct WaitSet<T = Channel> {
    /// Registration of futures. Dropped before the descriptor that it watches.
    registration: Option<Registration>,
    set: waitset::WaitSet<Member<T>>,
    watched: HashMap<Token, WatchedObject>,
    channels: usize,
    /// Whether the state of objects that the monitor reports may have changed.
    must_check_links: bool,
    /// Object reported last that may have further events.
    has_more: Option<Token>,
    monitor_events: Arc<MonitorWaker>,
    monitor_waker: std::task::Waker,
    called: Arc<AtomicBool>,
}

impl<T: Waited<End: HasChannel>> WaitSet<T> {
    /// Creates an empty set.
    ///
    /// # Errors
    /// [`Error::Os`] with `EMFILE`: a set needs three descriptors.
    pub fn new() -> Result<Self, Error> {
        let set = waitset::WaitSet::new()?;
        let monitor_events = Arc::new(MonitorWaker { waker: set.waker(), arrived: AtomicBool::new(false) });
        Ok(WaitSet {
            registration: None,
            set,
            watched: HashMap::new(),
            channels: 0,
            must_check_links: false,
            has_more: None,
            monitor_waker: Arc::clone(&monitor_events).into(),
            monitor_events,
            called: Arc::default(),
        })
    }

    /// Sets how long to poll recently active channels before sleeping, in nanoseconds. The default of 50,000
    /// is about the cost of a wake-up; 0 sleeps at once, `u64::MAX` never while there are such channels.
    pub fn set_spin_ns(&mut self, spin_ns: u64) {
        self.set.set_spin(Spin::new(spin_ns));
    }

    /// Adds a channel, to be reported when there is something to receive, including its end;
    /// [`set_interest`](Self::set_interest) changes that.
    ///
    /// A bulk channel also receives messages that produce no event for the program, and queues arrivals that
    /// the set does not see. After [`Ready::Channel`], call [`recv`](BulkChannel::recv) with a timeout of
    /// zero until it finds nothing; also once before the first wait, for events that arrived while something
    /// else was awaited.
    ///
    /// # Errors
    /// [`Error::Os`] with `ENOSPC` if this user has reached the limit in
    /// `/proc/sys/fs/epoll/max_user_watches`. Returns the channel.
    pub fn add(&mut self, channel: T) -> Result<Token, Box<NotSent<T>>> {
        match self.set.try_add(Member(channel), Interest::Read) {
            Ok(token) => {
                self.channels += 1;
                Ok(token)
            }
            Err((error, Member(channel))) => Err(NotSent::new(error.into(), channel)),
        }
    }

    /// Changes the event that is awaited on a channel, for example to room while there is something left to
    /// send. Returns false if the channel is not in the set.
    pub fn set_interest(&mut self, token: Token, awaited: Interest) -> bool {
        self.set.set_interest(token, awaited)
    }

    /// Adds a listener, to be reported when a domain connects. It need not outlive the set: a listener that
    /// was dropped is not reported any more.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn add_listener<L: Accepted>(&mut self, listener: &Listener<L>) -> Result<Token, Error> {
        self.watch(listener.link(), ObjectKind::Listener(listener.number()))
    }

    /// Adds a child, to be reported when it has ended.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn add_child(&mut self, child: &Child) -> Result<Token, Error> {
        self.watch(child.link(), ObjectKind::Child { ended: child.ended().clone(), reported: false })
    }

    /// Adds a side stream, to be reported when something has arrived, or what was sent has been accepted. It
    /// need not outlive the set: one that was dropped is not reported any more.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn add_side(&mut self, side: &SideStream) -> Result<Token, Error> {
        self.watch(side.link(), ObjectKind::Side(side.domain()))
    }

    /// Adds any other descriptor. The set keeps a duplicate of it.
    ///
    /// # Errors
    /// [`Error::Os`] with `EPERM` for an object that is always ready, such as a file; with `EMFILE`; with
    /// `ENOSPC` as for [`add`](Self::add).
    pub fn add_descriptor(
        &mut self,
        descriptor: impl AsFd,
        interest: Interest,
        trigger: Trigger,
    ) -> Result<Token, Error> {
        Ok(self.set.add_descriptor(duplicate(descriptor.as_fd())?, interest, trigger)?)
    }

    /// Changes the awaited events of a descriptor, or re-arms one reported [`Once`](Trigger::Once). Returns
    /// false if it is not in the set.
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

    /// Adds a timer that expires once, `after` from now, and is then removed.
    ///
    /// # Errors
    /// [`Error::Os`] with `ENOSPC` if the set has four thousand million members.
    pub fn add_timer(&mut self, after: Duration) -> Result<Token, Error> {
        Ok(self.set.add_timer(once(after))?)
    }

    /// Adds a periodic timer, starting now. A late report does not delay later ones, and missed expiries are
    /// counted. A period of zero expires once.
    ///
    /// # Errors
    /// Same as [`add_timer`](Self::add_timer).
    pub fn add_interval(&mut self, period: Duration) -> Result<Token, Error> {
        Ok(self.set.add_timer(Schedule::every(period, now_ns()))?)
    }

    /// Resets a timer to expire once, `after` from now, for example to extend a deadline. Returns false if it
    /// is not in the set, for example because it has expired and was removed.
    pub fn reset_timer(&mut self, token: Token, after: Duration) -> bool {
        self.set.set_timer(token, once(after))
    }

    /// Returns a channel of the set; `None` if the token is not that of a channel.
    #[must_use]
    pub fn get(&self, token: Token) -> Option<&T> {
        self.set.get(token).map(|member| &member.0)
    }

    /// Returns a channel of the set for any use. The next wait polls it.
    #[inline]
    pub fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        self.set.get_mut(token).map(|member| &mut member.0)
    }

    /// Removes a member. Nothing more is reported of it, not even events that have already happened. Returns
    /// the channel, if it was one.
    pub fn remove(&mut self, token: Token) -> Option<T> {
        if let Some(removed) = self.watched.remove(&token) {
            self.forget_link_if_unused(&removed.link);
        }
        let Member(channel) = self.set.remove(token)?;
        self.channels -= 1;
        Some(channel)
    }

    /// Number of channels in the set.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Returns a waker that interrupts a wait from any thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker { waker: self.set.waker(), called: Arc::clone(&self.called) }
    }

    /// Returns the counters of waits so far.
    #[must_use]
    pub fn stats(&self) -> WaitStats {
        self.set.stats()
    }

    /// Waits until a member is ready, and returns which.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if none was ready within `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Result<Ready, Error> {
        self.recheck_last();
        // Checked first, so that members that are ready already cost no read of the clock.
        if !self.must_check_links
            && let Some(told) = self.set.poll()?
            && let Some(ready) = self.convert(told)?
        {
            return Ok(ready);
        }
        let mut within = Timeout::new(timeout);
        loop {
            if std::mem::take(&mut self.must_check_links) {
                self.poll_links()?;
            }
            match self.set.wait_until(&mut within)? {
                Some(told) => {
                    if let Some(ready) = self.convert(told)? {
                        return Ok(ready);
                    }
                }
                None => return Err(Error::TimedOut { what: "anything in a waitset".into(), timeout }),
            }
        }
    }

    fn convert(&mut self, told: Told) -> Result<Option<Ready>, Error> {
        Ok(match told {
            Told::Channel(token) => Some(Ready::Channel(token)),
            Told::Descriptor(token, ready) => match self.watched.get(&token) {
                Some(_) => {
                    self.must_check_links = true;
                    None
                }
                None => Some(Ready::Descriptor(token, ready)),
            },
            Told::Timer(token, times) => Some(Ready::Timer(token, times)),
            Told::External(token) => self.report_object(token),
            Told::Woken => {
                self.must_check_links |= self.monitor_events.arrived.swap(false, Ordering::SeqCst);
                self.called.swap(false, Ordering::SeqCst).then_some(Ready::Woken)
            }
        })
    }

    /// Reports an object if its event still holds.
    fn report_object(&mut self, token: Token) -> Option<Ready> {
        let watched = self.watched.get_mut(&token)?;
        if !watched.link.with_inbox(|arrived, over| is_ready(&watched.kind, arrived, over)) {
            return None;
        }
        match &mut watched.kind {
            ObjectKind::Listener(_) => {
                self.has_more = Some(token);
                Some(Ready::Listener(token))
            }
            ObjectKind::Child { reported, .. } => {
                *reported = true;
                Some(Ready::Child(token))
            }
            ObjectKind::Side(_) => {
                self.has_more = Some(token);
                Some(Ready::Side(token))
            }
            ObjectKind::Link => None,
        }
    }

    fn watch(&mut self, link: &Arc<MonitorLink>, kind: ObjectKind) -> Result<Token, Error> {
        if self.token_of(link).is_none() {
            // Edge-triggered, because another thread may read what arrives.
            let descriptor = duplicate(link.descriptor())?;
            let token = self.set.add_descriptor(descriptor, Interest::ReadWrite, Trigger::Edge)?;
            self.watched.insert(token, WatchedObject { link: Arc::clone(link), kind: ObjectKind::Link });
        }
        let token = self.set.add_external()?;
        self.watched.insert(token, WatchedObject { link: Arc::clone(link), kind });
        // Also wakes a program that polls the descriptor.
        self.set.notify(token);
        self.must_check_links = true;
        Ok(token)
    }

    fn token_of(&self, link: &Arc<MonitorLink>) -> Option<Token> {
        let is_link =
            |watched: &WatchedObject| watched.kind == ObjectKind::Link && Arc::ptr_eq(&watched.link, link);
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

    /// Reads the messages of the monitors and marks the objects that they make ready.
    fn poll_links(&mut self) -> Result<(), Error> {
        for watched in self.watched.values().filter(|watched| watched.kind == ObjectKind::Link) {
            loop {
                watched.link.observe(&self.monitor_waker);
                // Messages read here wake all observers, so they have to be registered again.
                if !watched.link.read_now()? {
                    break;
                }
            }
        }
        let links = self.watched.values().filter(|watched| watched.kind == ObjectKind::Link);
        for WatchedObject { link, .. } in links {
            let its_own = self.watched.iter().filter(|(_, watched)| Arc::ptr_eq(&watched.link, link));
            // Under one lock: there may be thousands of children.
            link.with_inbox(|arrived, over| {
                for (token, watched) in its_own {
                    if is_ready(&watched.kind, arrived, over) {
                        self.set.notify(*token);
                    }
                }
            });
        }
        Ok(())
    }

    /// Marks the object reported last as ready again, if it has more events.
    fn recheck_last(&mut self) {
        if let Some(token) = self.has_more.take()
            && let Some(WatchedObject { link, kind }) = self.watched.get(&token)
            && link.with_inbox(|arrived, over| is_ready(kind, arrived, over))
        {
            self.set.notify(token);
        }
    }
}

impl<T: Waited<End = Channel>> WaitSet<T> {
    /// Sends on a channel of the set, if there is room. Unlike a send through [`get_mut`](Self::get_mut),
    /// this leaves an idle channel idle: after sending to ten thousand channels, the next wait does not have
    /// to poll each of them.
    ///
    /// # Errors
    /// Same as [`Channel::try_send`]; [`Error::Os`] with `ENOENT` if the channel is not in the set.
    pub fn try_send(&mut self, token: Token, message: &[u8]) -> Result<(), Error> {
        let sent = self.set.try_send(token, message);
        match (sent, self.get(token)) {
            (Some(Ok(())), _) => Ok(()),
            (Some(Err(error)), Some(member)) => Err(member.end().refused(error, message.len())),
            _ => Err(OsError::new("send on a channel that is not in the waitset", Errno::NOENT).into()),
        }
    }
}

impl<T: Waited<End: HasChannel>> Index<Token> for WaitSet<T> {
    type Output = T;

    /// Returns a channel of the set.
    ///
    /// # Panics
    /// If the token is not that of a channel in the set; use [`get`](WaitSet::get) if that is possible.
    fn index(&self, token: Token) -> &T {
        self.get(token).expect("a token of a channel in the wait set")
    }
}

impl<T: Waited<End: HasChannel>> IndexMut<Token> for WaitSet<T> {
    /// Like [`get_mut`](WaitSet::get_mut).
    ///
    /// # Panics
    /// If the token is not that of a channel in the set.
    #[inline]
    fn index_mut(&mut self, token: Token) -> &mut T {
        self.get_mut(token).expect("a token of a channel in the wait set")
    }
}

/// Whether an object has an event to report. The end of the monitor is one for every object that it reports.
fn is_ready(kind: &ObjectKind, arrived: &Inbox, over: bool) -> bool {
    match kind {
        ObjectKind::Link | ObjectKind::Child { reported: true, .. } => false,
        ObjectKind::Listener(number) => {
            over || arrived.incoming.get(number).is_some_and(|waiting| !waiting.is_empty())
        }
        ObjectKind::Child { ended, .. } => over || ended.get().is_some(),
        ObjectKind::Side(domain) => over || Side::is_ready(arrived, *domain),
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
    /// Readable when a wait would find something, provided that the last wait found nothing.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}
