//! Names and services of this domain, and what is accepted there.

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

/// How long a client that was accepted has to open its end, at least: an emulated node on a busy host is
/// slow.
const TO_OPEN: Duration = Duration::from_secs(10);

/// What a [`Listener`] accepts: a [`Channel`], a [`BulkChannel`](crate::BulkChannel), or an
/// [`Opening`](crate::Opening).
pub trait Accepted: sealed::Accepted {}

impl<T: sealed::Accepted> Accepted for T {}

pub(crate) mod sealed {
    use std::time::Duration;

    use crate::channel::Channel;
    use crate::domain::Domain;
    use crate::error::Error;

    pub trait Accepted: Sized + Send + 'static {
        /// What this side says of it beside the options of the channel.
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

/// A name that this domain has taken up, or a [service without one](Domain::serve). Clones are of the same
/// one; dropping the last gives it back.
pub struct Listener<T: Accepted = Channel> {
    taken: Arc<Taken<T::Terms>>,
    timeout: Duration,
    accepts: PhantomData<fn() -> T>,
}

/// What clones have in common.
#[derive(Debug)]
struct Taken<S> {
    domain: Domain,
    number: u32,
    name: String,
    options: ChannelOptions,
    terms: S,
}

impl<T: Accepted> Listener<T> {
    /// The listener of that number; of one that is reached by capability alone the name is empty.
    pub(crate) fn new(
        domain: &Domain,
        (number, name): (u32, String),
        options: ChannelOptions,
        terms: T::Terms,
    ) -> Listener<T> {
        let timeout = domain.channel_timeout();
        let taken = Taken { domain: domain.clone(), number, name, options, terms };
        Listener { taken: Arc::new(taken), timeout, accepts: PhantomData }
    }

    /// The name; empty for one that is reached by capability alone.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.taken.name
    }

    /// The same listener, which waits up to `timeout`.
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
        &self.taken.domain
    }

    pub(crate) fn number(&self) -> u32 {
        self.taken.number
    }

    /// Waits for a domain to connect, and opens the channel.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when none did; [`Error::Refused`] when the two sides do not fit, and of bulk
    /// channels [`Error::Bulk`]. An [`Opening`](crate::Opening) needs a request of the listener's kind:
    /// [`Error::TimedOut`] also for none in 10 s, [`Error::Violation`] for something else. Others can still
    /// be accepted after each of them.
    pub fn accept(&self) -> Result<T, Error> {
        self.incoming()?.open()
    }

    /// Waits for a domain to connect, and leaves it to the program whether and on which thread the channel is
    /// opened.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when none did.
    pub fn incoming(&self) -> Result<Incoming<T>, Error> {
        let deadline = Deadline::after(self.timeout);
        let number = self.number();
        let (grant, fds) = self
            .link()
            .wait(self.timeout, &self.awaits(), |arrived| arrived.incoming.get_mut(&number)?.pop_front())?;
        Ok(self.connected(grant, fds, deadline))
    }

    /// What it waits for.
    pub(crate) fn awaits(&self) -> String {
        match self.name() {
            "" => "that a domain connects by a capability".into(),
            name => format!("that a domain connects to '{name}'"),
        }
    }

    /// Tells the monitor that a connection was accepted.
    pub(crate) fn connected(&self, grant: Grant, fds: Vec<OwnedFd>, deadline: Deadline) -> Incoming<T> {
        // Room for one more; if the monitor is gone, the channel may still come to be.
        let _ = self.link().tell(Request::Accepted { count: 1 });
        Incoming { listener: self.clone(), grant, fds, deadline }
    }
}

impl<T: Accepted> Clone for Listener<T> {
    fn clone(&self) -> Self {
        Listener { taken: Arc::clone(&self.taken), ..*self }
    }
}

impl<T: Accepted> fmt::Debug for Listener<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("taken", &self.taken).field("timeout", &self.timeout).finish()
    }
}

impl<S> Drop for Taken<S> {
    fn drop(&mut self) {
        self.domain.link.forget_listener(self.number);
    }
}

/// A domain that has connected to a [`Listener`], whose channel is not open yet. Dropped, it sees its channel
/// end.
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
    /// The domain that has connected, as the monitor has it.
    #[must_use]
    pub fn peer(&self) -> DomainId {
        self.grant.peer
    }

    /// Opens the channel: within what is left of the listener's timeout, or 10 seconds if that is longer.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn open(self) -> Result<T, Error> {
        let Incoming { listener, grant, fds, deadline } = self;
        let Taken { domain, options, terms, .. } = &*listener.taken;
        let patience = || deadline.remaining().max(TO_OPEN);
        let channel = Channel::open(grant, fds, domain.channel_owner(), options, patience())?;
        T::over(channel, domain, terms, patience())
    }
}
