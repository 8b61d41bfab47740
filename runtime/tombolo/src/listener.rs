//! Listeners for names and services of this domain, and the connections that they accept.

use std::fmt;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tombolo_base::DomainId;
use tombolo_control::{Grant, Request};
use tombolo_platform::Deadline;

use crate::channel::Channel;
use crate::domain::Domain;
use crate::error::Error;
use crate::monitor::MonitorLink;
use crate::options::ChannelOptions;

/// Minimum time for an accepted client to open its end: an emulated node on a busy host is slow.
const MIN_OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Type that a [`Listener`] accepts: a [`Channel`], a [`BulkChannel`](crate::BulkChannel), or an
/// [`Opening`](crate::Opening).
pub trait Accepted: sealed::Accepted {}

impl<T: sealed::Accepted> Accepted for T {}

pub(crate) mod sealed {
    use std::time::Duration;

    use crate::channel::Channel;
    use crate::domain::Domain;
    use crate::error::Error;

    pub trait Accepted: Sized + Send + 'static {
        /// Terms of this side in addition to the options of the channel.
        type Terms: Clone + Send + Sync + std::fmt::Debug;

        fn over(
            channel: Channel,
            domain: &Domain,
            terms: &Self::Terms,
            timeout: Duration,
        ) -> Result<Self, Error>;
    }
}

impl sealed::Accepted for Channel {
    type Terms = ();

    fn over(channel: Channel, _: &Domain, (): &(), _: Duration) -> Result<Channel, Error> {
        Ok(channel)
    }
}

/// Name claimed by this domain, or a [service without one](Domain::serve), that accepts connections. Clones
/// refer to the same listener; dropping the last one releases the name.
pub struct Listener<T: Accepted = Channel> {
    state: Arc<ListenerState<T::Terms>>,
    timeout: Duration,
    accepts: PhantomData<fn() -> T>,
}

/// State shared by the clones.
#[derive(Debug)]
struct ListenerState<S> {
    domain: Domain,
    number: u32,
    name: String,
    options: ChannelOptions,
    terms: S,
}

impl<T: Accepted> Listener<T> {
    /// Creates a listener with the monitor's number for it; the name is empty if only a capability leads to
    /// it.
    pub(crate) fn new(
        domain: &Domain,
        (number, name): (u32, String),
        options: ChannelOptions,
        terms: T::Terms,
    ) -> Listener<T> {
        let timeout = domain.channel_timeout();
        let state = ListenerState { domain: domain.clone(), number, name, options, terms };
        Listener { state: Arc::new(state), timeout, accepts: PhantomData }
    }

    /// Name of the listener; empty if only a capability leads to it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Returns the same listener with the timeout `timeout`.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Listener<T> {
        Listener { timeout, ..self.clone() }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn link(&self) -> &Arc<MonitorLink> {
        &self.domain().link
    }

    pub(crate) fn domain(&self) -> &Domain {
        &self.state.domain
    }

    pub(crate) fn number(&self) -> u32 {
        self.state.number
    }

    /// Waits for a domain to connect, and opens the channel.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if no domain connected; [`Error::Refused`] if the two sides are incompatible, and
    /// [`Error::Bulk`] for bulk channels. An [`Opening`](crate::Opening) needs a request of the listener's
    /// kind: also [`Error::TimedOut`] if none arrives within 10 s, and [`Error::Violation`] for any other
    /// message. The listener can accept further connections after each of these.
    pub fn accept(&self) -> Result<T, Error> {
        self.incoming()?.open()
    }

    /// Waits for a domain to connect. The program decides whether, and on which thread, to open the channel.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if no domain connected.
    pub fn incoming(&self) -> Result<Incoming<T>, Error> {
        let deadline = Deadline::after(self.timeout);
        let number = self.number();
        let (grant, fds) = self
            .link()
            .wait(self.timeout, &self.awaits(), |arrived| arrived.incoming.get_mut(&number)?.pop_front())?;
        Ok(self.connected(grant, fds, deadline))
    }

    /// Describes the awaited event in errors.
    pub(crate) fn awaits(&self) -> String {
        match self.name() {
            "" => "a domain that connects by a capability".into(),
            name => format!("a domain that connects to '{name}'"),
        }
    }

    /// Acknowledges an accepted connection to the monitor.
    pub(crate) fn connected(&self, grant: Grant, fds: Vec<OwnedFd>, deadline: Deadline) -> Incoming<T> {
        // Frees one place in the backlog. If the monitor is gone, the channel can still be opened.
        let _ = self.link().notify(Request::Accepted { count: 1 });
        Incoming { listener: self.clone(), grant, fds, deadline }
    }
}

impl<T: Accepted> Clone for Listener<T> {
    fn clone(&self) -> Self {
        Listener { state: Arc::clone(&self.state), ..*self }
    }
}

impl<T: Accepted> fmt::Debug for Listener<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("state", &self.state).field("timeout", &self.timeout).finish()
    }
}

impl<S> Drop for ListenerState<S> {
    fn drop(&mut self) {
        self.domain.link.forget_listener(self.number);
    }
}

/// Connection from a domain to a [`Listener`] whose channel is not open yet. If it is dropped, the domain
/// sees its channel end.
///
/// ```no_run
/// # use tombolo::{Domain, Error};
/// # fn serve(domain: &Domain) -> Result<(), Error> {
/// let listener = domain.export("store")?;
/// let incoming = listener.incoming()?;
/// println!("domain {} connects", incoming.peer());
/// // A client that is slow to open its end keeps no others waiting.
/// std::thread::spawn(move || incoming.open());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Incoming<T: Accepted = Channel> {
    listener: Listener<T>,
    grant: Grant,
    fds: Vec<OwnedFd>,
    deadline: Deadline,
}

impl<T: Accepted> Incoming<T> {
    /// Domain that connected, as reported by the monitor.
    #[must_use]
    pub fn peer(&self) -> DomainId {
        self.grant.peer
    }

    /// Opens the channel within the rest of the listener's timeout, or 10 seconds if that is longer.
    ///
    /// # Errors
    /// Same as [`Listener::accept`].
    pub fn open(self) -> Result<T, Error> {
        let Incoming { listener, grant, fds, deadline } = self;
        let ListenerState { domain, options, terms, .. } = &*listener.state;
        let patience = || deadline.remaining().max(MIN_OPEN_TIMEOUT);
        let channel = Channel::open(grant, fds, domain.channel_owner(), options, patience())?;
        T::over(channel, domain, terms, patience())
    }
}
