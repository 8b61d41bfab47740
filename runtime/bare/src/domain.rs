//! Attaches a program to a machine, as a domain.

use alloc::borrow::ToOwned;
use alloc::rc::Rc;
use alloc::string::String;
use core::time::Duration;

use tombolo_base::{DomainId, DomainTimeouts};
use tombolo_control::{FINGERPRINT, Grant, Membership, Reply, Request};
use tombolo_naming::split_scope;

use crate::channel::{Channel, ChannelOptions};
use crate::env;
use crate::error::Error;
use crate::link::{GrantedObjects, Link, REPLY_TIMEOUT, unexpected};
use crate::time::{self, Instant};

/// Minimum time for a peer that has connected to open the channel: it may be slow on a busy host.
const MIN_OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// This program as a domain of a machine. Clones refer to the same domain.
///
/// Its timeout applies to its operations and to the channels and listeners that it opens: 30 seconds, unless
/// [`with_timeout`](Self::with_timeout) sets another, or [`within`](Self::within) another for one operation.
#[derive(Clone, Debug)]
pub struct Domain {
    pub(crate) link: Rc<Link>,
    id: DomainId,
    node: String,
    machine: String,
    timeouts: DomainTimeouts,
}

impl Domain {
    /// Attaches to the machine of the board. Call it once: the board's program is one domain.
    ///
    /// # Errors
    /// [`Error::Monitor`], for example if the program has already attached.
    pub fn attach() -> Result<Domain, Error> {
        let link = Rc::new(Link::new());
        let program = env::args().next().unwrap_or_default();
        match link.request(Request::Attach { version: FINGERPRINT, program }, REPLY_TIMEOUT)? {
            Reply::Attach { domain, node, machine, .. } => {
                Ok(Domain { link, id: domain, node, machine, timeouts: DomainTimeouts::default() })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Id of the domain in its machine.
    #[must_use]
    pub fn id(&self) -> DomainId {
        self.id
    }

    /// Name of the node that this domain runs on.
    #[must_use]
    pub fn node_name(&self) -> &str {
        &self.node
    }

    /// Name of the machine that this domain belongs to.
    #[must_use]
    pub fn machine_name(&self) -> &str {
        &self.machine
    }

    /// Whether the machine started this program, which is true for all programs on boards.
    #[must_use]
    pub fn was_spawned(&self) -> bool {
        true
    }

    /// Returns the same domain with `timeout` for its operations and channels.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Domain {
        Domain { timeouts: DomainTimeouts::new(timeout), ..self }
    }

    /// Returns the same domain with `timeout` for its operations. A channel that it opens still has the
    /// domain's own timeout.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Domain {
        Domain { timeouts: self.timeouts.within(timeout), ..self.clone() }
    }

    /// Returns the job that this program was started in.
    ///
    /// # Errors
    /// [`Error::Job`] if it was not started as part of a job.
    pub fn job(&self) -> Result<Job, Error> {
        Ok(Job { domain: self.clone(), membership: Membership::from_variables(|name| env::var(name).ok())? })
    }

    /// Claims a machine-wide name under which other domains can [`connect`](Self::connect).
    /// [`ChannelOptions::export`] does the same with other options.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the name is taken or invalid.
    pub fn export(&self, name: &str) -> Result<Listener, Error> {
        ChannelOptions::default().export(self, name)
    }

    /// Opens a channel to the domain that exports `name`, waiting for a domain to export it and to accept.
    /// `@NODE/NAME` is a name on the given node. [`ChannelOptions::connect`] does the same with other
    /// options.
    ///
    /// # Errors
    /// [`Error::Monitor`] if no domain exports the name in time, or there is no route to it.
    /// [`Error::Refused`] by the far side. [`Error::TimedOut`] if it did not accept in time.
    pub fn connect(&self, name: &str) -> Result<Channel, Error> {
        ChannelOptions::default().connect(self, name)
    }

    /// Sleeps until a doorbell rings, the monitor sends a message, or `timeout` has passed: for programs that
    /// wait for several objects, each of which was announced ([`Channel::announce_sleep`]). A doorbell that
    /// rang since the previous call ends the sleep immediately.
    ///
    /// # Errors
    /// [`Error::MonitorProtocol`].
    pub fn sleep(&self, timeout: Duration) -> Result<(), Error> {
        time::sleep_until(time::after_ns(timeout));
        self.link.process_messages()
    }
}

impl ChannelOptions {
    /// Like [`Domain::export`], with these options.
    ///
    /// # Errors
    /// Same as [`Domain::export`].
    pub fn export(&self, domain: &Domain, name: &str) -> Result<Listener, Error> {
        let (scope, own_name) = split_scope(name);
        let request = Request::Export { scope, name: own_name.to_owned() };
        match domain.link.request(request, REPLY_TIMEOUT)? {
            Reply::Export { listener } => {
                let (domain, name, options) = (domain.clone(), name.to_owned(), self.clone());
                let timeout = domain.timeouts.channel();
                let state = ListenerState { domain, number: listener, name, options };
                Ok(Listener { state: Rc::new(state), timeout })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Like [`Domain::connect`], with these options.
    ///
    /// # Errors
    /// Same as [`Domain::connect`].
    pub fn connect(&self, domain: &Domain, name: &str) -> Result<Channel, Error> {
        let timeout = domain.timeouts.operation();
        let start = Instant::now();
        let (scope, name) = split_scope(name);
        let request =
            Request::Connect { scope, name: name.to_owned(), timeout, config: self.config, by: None };
        match domain.link.request_with_objects(request, timeout.saturating_add(REPLY_TIMEOUT))? {
            (Reply::Connect { grant }, objects) => {
                domain.open((&grant, objects), self, timeout.saturating_sub(start.elapsed()))
            }
            (other, _) => Err(unexpected(&other)),
        }
    }
}

impl Domain {
    fn open(
        &self,
        granted: (&Grant, GrantedObjects),
        options: &ChannelOptions,
        timeout: Duration,
    ) -> Result<Channel, Error> {
        Channel::open(&self.link, granted, self.id, options, (timeout, self.timeouts.channel()))
    }
}

/// Job of this program: the domains started by one `tombolo run`, with ranks from 0, and the rank of this
/// domain.
#[derive(Clone, Debug)]
pub struct Job {
    domain: Domain,
    membership: Membership,
}

impl core::ops::Deref for Job {
    type Target = Membership;

    fn deref(&self) -> &Membership {
        &self.membership
    }
}

impl Job {
    /// Opens the channel between this domain and another rank of the job, which has to make the same call.
    /// There is one such channel per pair of ranks; further channels need [names](Membership::name).
    ///
    /// # Errors
    /// [`Error::Job`] if the rank does not exist or is this one. Otherwise like [`Domain::connect`] and
    /// [`Listener::accept`].
    pub fn channel_to(&self, rank: u32) -> Result<Channel, Error> {
        let name = self.membership.name_between("channel", rank)?;
        if self.rank() < rank {
            self.domain.export(&name)?.within(self.domain.timeouts.operation()).accept()
        } else {
            self.domain.connect(&name)
        }
    }

    /// Returns the same job with `timeout` for its operations.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Job {
        Job { domain: self.domain.within(timeout), membership: self.membership.clone() }
    }
}

/// Name claimed by this domain, which accepts connections. Clones refer to the same listener; dropping the
/// last one releases the name.
#[derive(Clone, Debug)]
pub struct Listener {
    state: Rc<ListenerState>,
    timeout: Duration,
}

/// State shared by the clones.
#[derive(Debug)]
struct ListenerState {
    domain: Domain,
    number: u32,
    name: String,
    options: ChannelOptions,
}

impl Listener {
    /// Name of the listener.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Returns the same listener with the timeout `timeout`.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Listener {
        Listener { state: Rc::clone(&self.state), timeout }
    }

    /// Waits for a domain to connect, and opens the channel.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if no domain connected; [`Error::Refused`] if the two sides are incompatible,
    /// after which further connections can be accepted.
    pub fn accept(&self) -> Result<Channel, Error> {
        let start = Instant::now();
        let ListenerState { domain, number, options, .. } = &*self.state;
        let incoming = |link: &Link| link.next_incoming(*number);
        let (grant, objects) = domain.link.wait(self.timeout, "a domain to connect", incoming)?;
        domain.link.accepted(1);
        let remaining = self.timeout.saturating_sub(start.elapsed());
        domain.open((&grant, objects), options, remaining.max(MIN_OPEN_TIMEOUT))
    }
}

impl Drop for ListenerState {
    fn drop(&mut self) {
        self.domain.link.remove_listener(self.number);
    }
}
