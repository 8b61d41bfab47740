//! A program's place in a machine.

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
use crate::link::{ANSWER_TIMEOUT, Given, Link, unexpected};
use crate::time::{self, Instant};

/// How long a peer that has connected may take to open the channel, at least: it may be slow, on a busy host.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

/// This program as a domain of a machine. Cloning names the same domain.
///
/// Its operations wait up to its timeout, and so do the channels and listeners that it opens: 30 seconds,
/// unless [`with_timeout`](Self::with_timeout) sets another or [`within`](Self::within) another for one
/// operation.
#[derive(Clone, Debug)]
pub struct Domain {
    pub(crate) link: Rc<Link>,
    id: DomainId,
    node: String,
    machine: String,
    timeouts: DomainTimeouts,
}

impl Domain {
    /// Attaches to the machine of the board. Once: the board's program is one domain.
    ///
    /// # Errors
    /// [`Error::Monitor`], among others when this was done before.
    pub fn attach() -> Result<Domain, Error> {
        let link = Rc::new(Link::new());
        let program = env::args().next().unwrap_or_default();
        match link.ask(Request::Attach { version: FINGERPRINT, program }, ANSWER_TIMEOUT)? {
            Reply::Attach { domain, node, machine, .. } => {
                Ok(Domain { link, id: domain, node, machine, timeouts: DomainTimeouts::default() })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> DomainId {
        self.id
    }

    /// The name of the node that it runs on.
    #[must_use]
    pub fn node_name(&self) -> &str {
        &self.node
    }

    /// The name of the machine.
    #[must_use]
    pub fn machine_name(&self) -> &str {
        &self.machine
    }

    /// Whether the machine started it, as it does all programs on boards.
    #[must_use]
    pub fn was_spawned(&self) -> bool {
        true
    }

    /// The same domain, whose operations and channels wait up to `timeout`.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Domain {
        Domain { timeouts: DomainTimeouts::new(timeout), ..self }
    }

    /// The same domain for an operation that waits up to `timeout`. A channel that is opened has the domain's
    /// own.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Domain {
        Domain { timeouts: self.timeouts.within(timeout), ..self.clone() }
    }

    /// The job that this program was started in.
    ///
    /// # Errors
    /// [`Error::Job`] when it was not started as one of a job.
    pub fn job(&self) -> Result<Job, Error> {
        Ok(Job { domain: self.clone(), membership: Membership::from_variables(|name| env::var(name).ok())? })
    }

    /// Takes up a name, machine-wide, under which others [`connect`](Self::connect).
    /// [`ChannelOptions::export`] does so with other options than the default.
    ///
    /// # Errors
    /// [`Error::Monitor`]: the name is taken, or is not a name.
    pub fn export(&self, name: &str) -> Result<Listener, Error> {
        ChannelOptions::default().export(self, name)
    }

    /// Opens a channel to the domain that exports `name`, waiting for one to do so and to accept.
    /// `@NODE/NAME` is a name of that node. [`ChannelOptions::connect`] does so with other options than the
    /// default.
    ///
    /// # Errors
    /// [`Error::Monitor`]: no domain exports it in time, no link leads there. [`Error::Refused`] by the far
    /// side. [`Error::TimedOut`] when it did not accept in time.
    pub fn connect(&self, name: &str) -> Result<Channel, Error> {
        ChannelOptions::default().connect(self, name)
    }

    /// Sleeps until a doorbell rings, the monitor has something to say, or `timeout` has passed: for a
    /// program that waits for several things, each of which it has announced ([`Channel::announce_sleep`]).
    /// What rang before this was called, and since it last was, ends it at once.
    ///
    /// # Errors
    /// [`Error::MonitorProtocol`].
    pub fn sleep(&self, timeout: Duration) -> Result<(), Error> {
        time::sleep_until(time::after_ns(timeout));
        self.link.listen()
    }
}

impl ChannelOptions {
    /// As [`Domain::export`], with these options.
    ///
    /// # Errors
    /// As [`Domain::export`].
    pub fn export(&self, domain: &Domain, name: &str) -> Result<Listener, Error> {
        let (scope, own_name) = split_scope(name);
        let request = Request::Export { scope, name: own_name.to_owned() };
        match domain.link.ask(request, ANSWER_TIMEOUT)? {
            Reply::Export { listener } => {
                let (domain, name, options) = (domain.clone(), name.to_owned(), self.clone());
                let timeout = domain.timeouts.channel();
                let taken = Taken { domain, number: listener, name, options };
                Ok(Listener { taken: Rc::new(taken), timeout })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// As [`Domain::connect`], with these options.
    ///
    /// # Errors
    /// As [`Domain::connect`].
    pub fn connect(&self, domain: &Domain, name: &str) -> Result<Channel, Error> {
        let timeout = domain.timeouts.operation();
        let start = Instant::now();
        let (scope, name) = split_scope(name);
        let request =
            Request::Connect { scope, name: name.to_owned(), timeout, config: self.config, by: None };
        match domain.link.ask_and_get(request, timeout.saturating_add(ANSWER_TIMEOUT))? {
            (Reply::Connect { grant }, given) => {
                domain.open((&grant, given), self, timeout.saturating_sub(start.elapsed()))
            }
            (other, _) => Err(unexpected(&other)),
        }
    }
}

impl Domain {
    fn open(
        &self,
        granted: (&Grant, Given),
        options: &ChannelOptions,
        timeout: Duration,
    ) -> Result<Channel, Error> {
        Channel::open(&self.link, granted, self.id, options, (timeout, self.timeouts.channel()))
    }
}

/// The domains that one `tombolo run` started, with ranks from 0, and this one's place among them.
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
    /// Opens the channel between this domain and another of the job, which does the same. It is one channel
    /// for each pair; more have [names](Membership::name).
    ///
    /// # Errors
    /// [`Error::Job`]: there is no such rank, or it is this one. As [`Domain::connect`] and
    /// [`Listener::accept`].
    pub fn channel_to(&self, rank: u32) -> Result<Channel, Error> {
        let name = self.membership.name_between("channel", rank)?;
        if self.rank() < rank {
            self.domain.export(&name)?.within(self.domain.timeouts.operation()).accept()
        } else {
            self.domain.connect(&name)
        }
    }

    /// The same job for an operation that waits up to `timeout`.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Job {
        Job { domain: self.domain.within(timeout), membership: self.membership.clone() }
    }
}

/// A name that this domain has taken up. Clones are of the same one; dropping the last gives the name back.
#[derive(Clone, Debug)]
pub struct Listener {
    taken: Rc<Taken>,
    timeout: Duration,
}

/// What clones have in common.
#[derive(Debug)]
struct Taken {
    domain: Domain,
    number: u32,
    name: String,
    options: ChannelOptions,
}

impl Listener {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.taken.name
    }

    /// The same listener, which waits up to `timeout`.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Listener {
        Listener { taken: Rc::clone(&self.taken), timeout }
    }

    /// Waits for a domain to connect, and opens the channel.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when none did; [`Error::Refused`] when the two sides do not fit, after which
    /// others can still be accepted.
    pub fn accept(&self) -> Result<Channel, Error> {
        let start = Instant::now();
        let Taken { domain, number, options, .. } = &*self.taken;
        let incoming = |link: &Link| link.next_incoming(*number);
        let (grant, given) = domain.link.wait(self.timeout, "a domain to connect", incoming)?;
        domain.link.accepted(1);
        let remaining = self.timeout.saturating_sub(start.elapsed());
        domain.open((&grant, given), options, remaining.max(LEAST_PATIENCE))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.domain.link.forget_listener(self.number);
    }
}
