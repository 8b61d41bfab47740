//! A program's place in a machine.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tombolo_base::{DomainId, DomainTimeouts};
use tombolo_control::{FINGERPRINT, Grant, Reply, Request};
use tombolo_naming::{Scope, split_scope};
use tombolo_platform::{Deadline, barrier};
use tombolo_transport::trace::Recorder;

use crate::address::{Address, To};
use crate::channel::{Channel, Owner};
use crate::error::Error;
use crate::find;
use crate::listener::{Accepted, Listener};
use crate::monitor::{ANSWER_TIMEOUT, MonitorLink, OutputSink, Stream, unexpected};
use crate::opening;
use crate::options::ChannelOptions;
use crate::recorder;

/// How many monitors of a plain host may end, one after another, while a program attaches.
const ATTACH_ATTEMPTS: u32 = 3;

/// This program as a domain of a machine. Cloning names the same domain; threads may share it.
///
/// Its operations wait up to its timeout, and so do the channels and listeners that it opens: 30 seconds,
/// unless [`with_timeout`](Self::with_timeout) sets another or [`within`](Self::within) another for one
/// operation.
#[derive(Clone, Debug)]
pub struct Domain {
    pub(crate) link: Arc<MonitorLink>,
    recorder: Arc<Recorder>,
    id: DomainId,
    node: String,
    machine: String,
    spawned: bool,
    timeouts: DomainTimeouts,
}

impl Domain {
    /// Attaches to the machine of this program: the one that started it, or the one that `TOMBOLO_MACHINE`
    /// names, or the only one that is up. On a plain host with none it starts a monitor for this host alone,
    /// so that no configuration is needed; that monitor ends by itself when its last program has ended.
    ///
    /// # Errors
    /// [`Error::NoMachine`] says what to set or start.
    pub fn attach() -> Result<Domain, Error> {
        Self::attach_to(&find::Target::from_environment()?)
    }

    /// Attaches to the machine of that name.
    ///
    /// # Errors
    /// [`Error::NoMachine`] when it is not up.
    pub fn attach_to_machine(name: &str) -> Result<Domain, Error> {
        Self::attach_to(&find::Target::machine(name)?)
    }

    pub(crate) fn attach_to(target: &find::Target) -> Result<Domain, Error> {
        for _ in 1..ATTACH_ATTEMPTS {
            match Self::attach_once(target) {
                // The monitor of a plain host ended as this program came: it was connected to, and did not
                // listen any more.
                Err(Error::MonitorLost { .. }) if target.is_started_here() => {}
                result => return result,
            }
        }
        Self::attach_once(target)
    }

    fn attach_once(target: &find::Target) -> Result<Domain, Error> {
        // Of a process with several threads the kernel waits until every processor has switched threads,
        // which took more than 30 seconds on a busy host, and a peer that waits for a handshake gives up.
        // Most programs attach before they have a second thread.
        barrier::register();
        let socket = target.connect()?;
        let link = Arc::new(MonitorLink::new(socket, target.machine_name().to_owned(), own_output()));
        let program = std::env::args_os().next().unwrap_or_default();
        let program = std::path::Path::new(&program).file_name().unwrap_or_default();
        let request = Request::Attach {
            version: FINGERPRINT,
            program: program.to_string_lossy().chars().take(64).collect(),
        };
        match link.ask(request, ANSWER_TIMEOUT)? {
            (Reply::Attach { domain, node, machine, spawned }, fds) => {
                let recorder = link.recorder.get_or_init(|| recorder::recorder_of(domain, fds)).clone();
                let timeouts = DomainTimeouts::default();
                Ok(Domain { link, recorder, id: domain, node, machine, spawned, timeouts })
            }
            (other, _) => Err(unexpected(&other)),
        }
    }

    #[cfg(test)]
    pub(crate) fn of_link(link: Arc<MonitorLink>, id: DomainId) -> Domain {
        let recorder = Recorder::none();
        let (node, machine) = ("host".into(), "test".into());
        Domain { link, recorder, id, node, machine, spawned: true, timeouts: DomainTimeouts::default() }
    }

    /// Whose its channels are, and what they count and trace with.
    pub(crate) fn channel_owner(&self) -> Owner<'_> {
        Owner {
            id: self.id,
            recorder: &self.recorder,
            link: Arc::downgrade(&self.link),
            timeout: self.timeouts.channel(),
        }
    }

    /// The same domain, whose operations and channels wait up to `timeout`.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use tombolo::{Domain, Error};
    /// # fn main() -> Result<(), Error> {
    /// let domain = Domain::attach()?.with_timeout(Duration::from_secs(5));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Domain {
        Domain { timeouts: DomainTimeouts::new(timeout), ..self }
    }

    /// The same domain for an operation that waits up to `timeout`. A channel that is opened has the domain's
    /// own.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use tombolo::{Domain, Error};
    /// # fn main() -> Result<(), Error> {
    /// # let domain = Domain::attach()?;
    /// let channel = domain.within(Duration::from_secs(60)).connect("late-riser")?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Domain {
        Domain { timeouts: self.timeouts.within(timeout), ..self.clone() }
    }

    /// How long an operation waits.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeouts.operation()
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

    /// Whether the machine started it (`tombolo run`, or another domain), so that it has an image.
    #[must_use]
    pub fn was_spawned(&self) -> bool {
        self.spawned
    }

    /// Takes up a name under which others [`connect`](Self::connect): machine-wide, or of the node that this
    /// program runs on if it is written `@/NAME`. [`ChannelOptions::export`] does so with other options than
    /// the default.
    ///
    /// # Errors
    /// [`Error::Monitor`]: the name is taken, or is not a name.
    pub fn export(&self, name: &str) -> Result<Listener, Error> {
        ChannelOptions::default().export(self, name)
    }

    /// Opens a channel to the domain that exports a name, waiting for one to do so and to accept; or to a
    /// listener by its [endpoint](crate::Endpoint) or a [capability](Listener::capability) to it. `@/NAME` is
    /// a name of the node that this program runs on, `@NODE/NAME` one of that node.
    /// [`ChannelOptions::connect`] does so with other options than the default.
    ///
    /// # Errors
    /// [`Error::Monitor`]: no domain exports it in time, no link leads there, the capability does not give
    /// the right or was revoked. [`Error::Refused`] by the far side. [`Error::TimedOut`] when it did not
    /// accept in time.
    pub fn connect(&self, to: impl Into<Address>) -> Result<Channel, Error> {
        ChannelOptions::default().connect(self, to)
    }

    /// Whose name is meant, and which. The own node by its name is the own node, and as near.
    pub(crate) fn in_scope(&self, name: &str) -> (Scope, String) {
        let (scope, rest) = split_scope(name);
        (self.own_or(scope), rest.to_owned())
    }

    pub(crate) fn own_or(&self, scope: Scope) -> Scope {
        match scope {
            Scope::Node(node) if node == self.node => Scope::Own,
            scope => scope,
        }
    }

    /// What is asked of the monitor to connect.
    pub(crate) fn connection(&self, to: Address, options: &ChannelOptions) -> Request {
        let (scope, name, by) = match to.0 {
            To::Name(name) => {
                let (scope, name) = self.in_scope(&name);
                (scope, name, None)
            }
            To::Service(service) => (Scope::Machine, String::new(), Some(service)),
        };
        Request::Connect { scope, name, timeout: self.timeout(), config: options.config, by }
    }

    /// Takes up a name.
    pub(crate) fn listen_as<T: Accepted>(
        &self,
        name: &str,
        options: ChannelOptions,
        terms: T::Terms,
    ) -> Result<Listener<T>, Error> {
        let (scope, own_name) = self.in_scope(name);
        let request = Request::Export { scope, name: own_name };
        match self.link.ask(request, ANSWER_TIMEOUT)?.0 {
            Reply::Export { listener } => {
                Ok(Listener::new(self, (listener, name.to_owned()), options, terms))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// How long what is opened waits.
    pub(crate) fn channel_timeout(&self) -> Duration {
        self.timeouts.channel()
    }
}

impl ChannelOptions {
    /// As [`Domain::export`], with these options.
    ///
    /// # Errors
    /// As [`Domain::export`].
    pub fn export(&self, domain: &Domain, name: &str) -> Result<Listener, Error> {
        domain.listen_as(name, self.clone(), ())
    }

    /// As [`Domain::connect`], with these options.
    ///
    /// # Errors
    /// As [`Domain::connect`]; with a [request](Self::request) also [`Error::OpeningRefused`] with the
    /// listener's reason.
    pub fn connect(&self, domain: &Domain, to: impl Into<Address>) -> Result<Channel, Error> {
        let deadline = Deadline::after(domain.timeout());
        let to = to.into();
        let request = domain.connection(to.clone(), self);
        match domain.link.ask(request, domain.timeout().saturating_add(ANSWER_TIMEOUT))? {
            (Reply::Connect { grant }, fds) => self.opened(domain, (grant, fds), &to, deadline),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Opens the end that the monitor gave, and asks the listener if there is a request for it.
    pub(crate) fn opened(
        &self,
        domain: &Domain,
        (grant, fds): (Grant, Vec<OwnedFd>),
        to: &Address,
        deadline: Deadline,
    ) -> Result<Channel, Error> {
        let options = self.asking();
        let mut channel = Channel::open(grant, fds, domain.channel_owner(), &options, deadline.remaining())?;
        if let Some(request) = &self.request {
            opening::ask(&mut channel, to, request, deadline)?;
        }
        Ok(channel)
    }
}

/// Children's output goes to this program's own until it says otherwise.
fn own_output() -> OutputSink {
    Box::new(|_, stream, bytes| {
        let _ = match stream {
            Stream::Output => std::io::stdout().write_all(bytes),
            Stream::Error => std::io::stderr().write_all(bytes),
        };
    })
}
