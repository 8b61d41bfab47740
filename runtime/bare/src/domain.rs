//! A program's place in a machine.

use alloc::borrow::ToOwned;
use alloc::rc::Rc;
use alloc::string::String;
use core::time::Duration;

use tombolo_base::DomainId;
use tombolo_control::FINGERPRINT;
use tombolo_control::{Reply, Request};
use tombolo_naming::split_scope;

use crate::channel::{Channel, ChannelOptions};
use crate::env;
use crate::error::Error;
use crate::link::{ANSWER_TIMEOUT, Link, unexpected};
use crate::time::{self, Instant};

/// How long whoever connected may take to open the channel, at least: it may be slow, on a busy host.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

/// This program as a domain of a machine. Cloning names the same domain.
#[derive(Clone)]
pub struct Domain {
    pub(crate) link: Rc<Link>,
    id: DomainId,
    node: String,
    machine: String,
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
            Reply::Attach { domain, node, machine, .. } => Ok(Domain { link, id: domain, node, machine }),
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

    /// Takes up a name, machine-wide, under which others [`connect`](Self::connect).
    ///
    /// # Errors
    /// [`Error::Monitor`]: the name is taken, or is none.
    pub fn export(&self, name: &str, options: &ChannelOptions) -> Result<Listener, Error> {
        let (scope, own_name) = split_scope(name);
        let request = Request::Export { scope, name: own_name.to_owned() };
        match self.link.ask(request, ANSWER_TIMEOUT)? {
            Reply::Export { listener } => Ok(Listener {
                domain: self.clone(),
                number: listener,
                name: name.to_owned(),
                options: options.clone(),
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// Opens a channel to whoever exports `name`, waiting up to `timeout` for somebody to do so and to accept.
    /// `@NODE/NAME` is a name of that node.
    ///
    /// # Errors
    /// [`Error::Monitor`]: nobody exports it in time, no link leads there. [`Error::Refused`] by the far side.
    /// [`Error::TimedOut`] when it did not accept in time.
    pub fn connect(&self, name: &str, options: &ChannelOptions, timeout: Duration) -> Result<Channel, Error> {
        let start = Instant::now();
        let (scope, name) = split_scope(name);
        let request = Request::Connect { scope, name: name.to_owned(), timeout, config: options.config };
        match self.link.ask(request, timeout.saturating_add(ANSWER_TIMEOUT))? {
            Reply::Connect { grant } => {
                let remaining = timeout.saturating_sub(start.elapsed());
                Channel::open(&self.link, &grant, self.id, options, remaining)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Sleeps until a doorbell rings, the monitor has something to say, or `timeout` has passed: for a program that
    /// waits for several things, each of which it has announced ([`Channel::announce_sleep`]). What rang before this
    /// was called, and since it last was, ends it at once.
    ///
    /// # Errors
    /// [`Error::MonitorProtocol`].
    pub fn sleep(&self, timeout: Duration) -> Result<(), Error> {
        time::sleep_until(time::after_ns(timeout));
        self.link.listen()
    }
}

/// A name that this domain has taken up. Dropping it gives the name back.
pub struct Listener {
    domain: Domain,
    number: u32,
    name: String,
    options: ChannelOptions,
}

impl Listener {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits up to `timeout` for somebody to connect, and opens the channel.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when nobody did; [`Error::Refused`] when the two sides do not fit, after which others can
    /// still be accepted.
    pub fn accept(&self, timeout: Duration) -> Result<Channel, Error> {
        let start = Instant::now();
        let link = &self.domain.link;
        let grant = link.wait(timeout, "somebody to connect", |link| link.next_incoming(self.number))?;
        link.accepted(1);
        let patience = timeout.saturating_sub(start.elapsed()).max(LEAST_PATIENCE);
        Channel::open(link, &grant, self.domain.id, &self.options, patience)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.domain.link.forget_listener(self.number);
    }
}
