//! Attaches a program to a machine, as a domain.

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

/// Attempts to attach on a plain host, where a monitor can end while the program connects to it.
const ATTACH_ATTEMPTS: u32 = 3;

/// This program as a domain of a machine. Clones refer to the same domain; threads may share it.
///
/// Its timeout applies to its operations and to the channels and listeners that it opens: 30 seconds, unless
/// [`with_timeout`](Self::with_timeout) sets another, or [`within`](Self::within) another for one operation.
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
    /// Attaches to the machine of this program: the one that started it, the one that `TOMBOLO_MACHINE`
    /// names, or the only one that is up. On a plain host with no machine, it starts a monitor for this host
    /// alone, so no configuration is needed. That monitor ends by itself after its last program has ended.
    ///
    /// # Errors
    /// [`Error::NoMachine`] with a hint on what to set or start.
    pub fn attach() -> Result<Domain, Error> {
        Self::attach_to(&find::Target::from_environment()?)
    }

    /// Attaches to the machine with the given name.
    ///
    /// # Errors
    /// [`Error::NoMachine`] if the machine is not up.
    pub fn attach_to_machine(name: &str) -> Result<Domain, Error> {
        Self::attach_to(&find::Target::machine(name)?)
    }

    pub(crate) fn attach_to(target: &find::Target) -> Result<Domain, Error> {
        for _ in 1..ATTACH_ATTEMPTS {
            match Self::attach_once(target) {
                // The monitor of a plain host was ending: it accepted the connection and then closed it.
                Err(Error::MonitorLost { .. }) if target.is_started_here() => {}
                result => return result,
            }
        }
        Self::attach_once(target)
    }

    fn attach_once(target: &find::Target) -> Result<Domain, Error> {
        // In a process with several threads, the kernel waits until every processor has switched contexts.
        // This took more than 30 seconds on a busy host, and a peer waiting for a handshake gives up before.
        // Most programs attach before they create a second thread.
        barrier::register();
        let socket = target.connect()?;
        let link = Arc::new(MonitorLink::new(socket, target.machine_name().to_owned(), forward_output()));
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
        let recorder = Recorder::disabled();
        let (node, machine) = ("host".into(), "test".into());
        Domain { link, recorder, id, node, machine, spawned: true, timeouts: DomainTimeouts::default() }
    }

    /// Owner of the channels that this domain opens.
    pub(crate) fn channel_owner(&self) -> Owner<'_> {
        Owner {
            id: self.id,
            recorder: &self.recorder,
            link: Arc::downgrade(&self.link),
            timeout: self.timeouts.channel(),
        }
    }

    /// Returns the same domain with `timeout` for its operations and channels.
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

    /// Returns the same domain with `timeout` for its operations. A channel that it opens still has the
    /// domain's own timeout.
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

    /// Timeout of the operations of this domain.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeouts.operation()
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

    /// Whether the machine started this program (`tombolo run`, or another domain), so that it has an image.
    #[must_use]
    pub fn was_spawned(&self) -> bool {
        self.spawned
    }

    /// Claims a name under which other domains can [`connect`](Self::connect): machine-wide, or on this
    /// program's node if it is written `@/NAME`. [`ChannelOptions::export`] does the same with other options.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the name is taken or invalid.
    pub fn export(&self, name: &str) -> Result<Listener, Error> {
        ChannelOptions::default().export(self, name)
    }

    /// Opens a channel to the domain that exports a name, waiting for a domain to export it and to accept; or
    /// to a listener by its [endpoint](crate::Endpoint) or by a [capability](Listener::capability) for it.
    /// `@/NAME` is a name on this program's node, `@NODE/NAME` one on the given node.
    /// [`ChannelOptions::connect`] does the same with other options.
    ///
    /// [`Error::Monitor`] if no domain exports the name in time, there is no route to it, or the capability
    /// lacks the right or was revoked. [`Error::Refused`] by the far side. [`Error::TimedOut`] if it did not
    /// accept in time.
    pub fn connect(&self, to: impl Into<Address>) -> Result<Channel, Error> {
        ChannelOptions::default().connect(self, to)
    }

    /// Splits a name into its scope and the name within it. This node's own name is [`Scope::Own`], the fast
    /// path.
    pub(crate) fn in_scope(&self, name: &str) -> (Scope, String) {
        let (scope, rest) = split_scope(name);
        (self.normalize_scope(scope), rest.to_owned())
    }

    pub(crate) fn normalize_scope(&self, scope: Scope) -> Scope {
        match scope {
            Scope::Node(node) if node == self.node => Scope::Own,
            scope => scope,
        }
    }

    /// Builds the request to the monitor for a connection.
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

    /// Claims a name and returns its listener.
    pub(crate) fn export_name<T: Accepted>(
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

    /// Timeout of the channels that this domain opens.
    pub(crate) fn channel_timeout(&self) -> Duration {
        self.timeouts.channel()
    }
}

impl ChannelOptions {
    /// Like [`Domain::export`], with these options.
    ///
    /// # Errors
    /// Same as [`Domain::export`].
    pub fn export(&self, domain: &Domain, name: &str) -> Result<Listener, Error> {
        domain.export_name(name, self.clone(), ())
    }

    /// Like [`Domain::connect`], with these options.
    ///
    /// # Errors
    /// Same as [`Domain::connect`]; with a [request](Self::request) also [`Error::OpeningRefused`] with the
    /// listener's reason.
    pub fn connect(&self, domain: &Domain, to: impl Into<Address>) -> Result<Channel, Error> {
        let deadline = Deadline::after(domain.timeout());
        let to = to.into();
        let request = domain.connection(to.clone(), self);
        match domain.link.ask(request, domain.timeout().saturating_add(ANSWER_TIMEOUT))? {
            (Reply::Connect { grant }, fds) => self.open_granted(domain, (grant, fds), &to, deadline),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Opens the end that the monitor granted, and sends the request to the listener if there is one.
    pub(crate) fn open_granted(
        &self,
        domain: &Domain,
        (grant, fds): (Grant, Vec<OwnedFd>),
        to: &Address,
        deadline: Deadline,
    ) -> Result<Channel, Error> {
        let options = self.with_request_hash();
        let mut channel = Channel::open(grant, fds, domain.channel_owner(), &options, deadline.remaining())?;
        if let Some(request) = &self.request {
            opening::send_request(&mut channel, to, request, deadline)?;
        }
        Ok(channel)
    }
}

/// Writes the output of children to this program's own output, the default.
fn forward_output() -> OutputSink {
    Box::new(|_, stream, bytes| {
        let _ = match stream {
            Stream::Output => std::io::stdout().write_all(bytes),
            Stream::Error => std::io::stderr().write_all(bytes),
        };
    })
}
