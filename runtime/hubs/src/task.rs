//! A task: what uses hubs.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tombolo::names::{Record, Value as Attribute};
use tombolo::{Domain, Error};
use tombolo_hub::{Fault, Kind, Operation, Outcome, Request, Status};

use crate::HubError;
use crate::connections::{Connections, GRACE, Ticket};
use crate::hub::{About, Hub};
use crate::server::RECORDS;

/// The priority of a task that sets none, and whose application file sets none.
const DEFAULT_PRIORITY: u8 = 100;

/// How long a task waits for one message without a look at anything else.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// The variable with the priority of the tasks of a program, which an application file sets.
pub const PRIORITY_VARIABLE: &str = "TOMBOLO_TASK_PRIORITY";

/// What uses hubs: one thread of a program, with a priority and a deadline for each of its waits; or the
/// futures of one executor.
///
/// Clones share connections. Threads may share a task, but wait for each other then, up to 50 ms at a time:
/// better give each its own. A task that ends, with its program or before,
/// waits for nothing and holds nothing any more.
#[derive(Clone, Debug)]
pub struct Task {
    connections: Arc<Mutex<Connections>>,
    priority: u8,
    timeout: Duration,
}

impl Task {
    /// A task of this program.
    ///
    /// # Errors
    /// [`HubError::Tombolo`] with `EMFILE`: it takes three descriptors.
    pub fn attach(domain: &Domain) -> Result<Task, HubError> {
        let connections = Arc::new(Mutex::new(Connections::new(domain)?));
        let declared = std::env::var(PRIORITY_VARIABLE).ok().and_then(|text| text.parse().ok());
        let timeout = Duration::from_secs(30);
        Ok(Task { connections, priority: declared.unwrap_or(DEFAULT_PRIORITY), timeout })
    }

    /// The same task, whose operations wait up to `timeout`; with no time they only try.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Task {
        Task { timeout, ..self.clone() }
    }

    /// The same task with this priority, for hubs that are opened with it: 0 to 255, larger is more urgent,
    /// that of the application file, or else 100, where none was set.
    #[must_use]
    pub fn with_priority(&self, priority: u8) -> Task {
        Task { priority, ..self.clone() }
    }

    /// How long operations wait.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The highest priority that waits for a resource which this task owns, by what has been heard: while the
    /// task computes it hears nothing. 0 for none.
    ///
    /// # Errors
    /// [`HubError::Tombolo`].
    pub fn inherited_priority(&self) -> Result<u8, HubError> {
        let mut connections = self.lock();
        connections.hear_all()?;
        Ok(connections.inherits())
    }

    /// Opens a hub of one of these kinds, waiting for its name up to the deadline of the task. An empty
    /// `value_type` fits values of every type.
    ///
    /// # Errors
    /// [`HubError::Unknown`], [`HubError::OtherKind`], [`HubError::OtherType`].
    pub fn hub(&self, name: &str, kinds: &[Kind], value_type: &str) -> Result<Hub, HubError> {
        let unknown = || HubError::Unknown { hub: name.to_owned() };
        let domain = self.lock().domain().clone();
        let record = match domain.names().wait_for(&format!("{RECORDS}{name}"), self.timeout) {
            Ok(record) => record,
            Err(Error::TimedOut { .. } | Error::Text { .. }) => return Err(unknown()),
            Err(error) if error.name_fault().is_some() => return Err(unknown()),
            Err(error) => return Err(error.into()),
        };
        let (Some(service), Some(node)) = (text(&record, "service"), text(&record, "node")) else {
            return Err(unknown());
        };
        let service = self.lock().connect(service, node, name)?;
        let about = About {
            name: name.to_owned(),
            node: node.to_owned(),
            service,
            number: 0,
            kind: Kind::Port,
            capacity: 0,
            value_bytes: 0,
            memory: 0,
            counts: None,
        };
        let kind = if let [kind] = kinds { Some(*kind) } else { None };
        let operation = Operation::Open { name, kind, value_type: tombolo_hub::type_number(value_type) };
        let opened = self.ask(&about, operation).map_err(|error| match error.fault() {
            Some(Fault::OtherKind(actual)) => other_kind(&about, kinds, actual),
            Some(Fault::OtherType) => {
                let wanted = value_type.to_owned();
                HubError::OtherType { hub: name.to_owned(), node: node.to_owned(), wanted }
            }
            Some(Fault::NoSuchHub) => unknown(),
            _ => error,
        })?;
        let Outcome::Opened { hub: number, kind, capacity, value_bytes, memory } = opened else {
            return Err(unknown());
        };
        if !kinds.contains(&kind) {
            return Err(other_kind(&about, kinds, kind));
        }
        let (memory, counts) = match memory {
            counts if kind.has_count() => (0, self.lock().counts(service, counts)),
            blocks => (blocks, None),
        };
        let about = Arc::new(About { number, kind, capacity, value_bytes, memory, counts, ..about });
        Ok(Hub { task: self.clone(), about })
    }

    /// What all hubs of the machine look like, by name: with the node of each. For programs that look again
    /// and again, and keep the connections of this task.
    ///
    /// # Errors
    /// [`HubError::Tombolo`]. Hubs that end meanwhile, or do not answer within the time of the task and 5
    /// seconds, are left out.
    pub fn list(&self) -> Result<Vec<(String, Status)>, HubError> {
        let domain = self.lock().domain().clone();
        let mut all = Vec::new();
        for record in domain.names().find(&format!("r'^{RECORDS}'"))? {
            let Some(name) = record.name.strip_prefix(RECORDS) else { continue };
            let Ok(hub) = self.hub(name, &Kind::ALL, "") else { continue };
            if let Ok(status) = hub.status() {
                all.push((hub.node().to_owned(), status));
            }
        }
        Ok(all)
    }

    /// Waits up to `timeout` until something is heard of any hub; false when nothing was. Then an operation
    /// that was [begun](Hub::start_get) may be done.
    ///
    /// # Errors
    /// [`HubError::Tombolo`]; [`HubError::Violation`] of a server.
    pub fn listen(&self, timeout: Duration) -> Result<bool, HubError> {
        self.listen_until(Instant::now() + timeout)
    }

    /// Takes in what has come; whether something had. Then the task's descriptor ([`AsRawFd`]) becomes
    /// readable with what comes next: for programs with an event loop of their own, which begin operations
    /// and look again when it is readable.
    ///
    /// # Errors
    /// As [`listen`](Self::listen).
    pub fn hear(&self) -> Result<bool, HubError> {
        self.lock().hear_all()
    }

    pub(crate) fn listen_until(&self, deadline: Instant) -> Result<bool, HubError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // Other threads that share the task have a turn between.
            let heard = self.lock().listen(left.min(SLICE))?;
            if heard || left <= SLICE {
                return Ok(heard);
            }
        }
    }

    /// The same as a future.
    pub(crate) fn listen_async(&self, deadline: Instant) -> Listening<'_> {
        Listening { task: self, deadline, number: None }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Connections> {
        // What a panic leaves half done is a message that was not taken in.
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn request<'v>(&self, hub: &About, operation: Operation<'v>, tentative: bool) -> Request<'v> {
        let timeout_us = match u32::try_from(self.timeout.as_micros()) {
            // One that waits at all is not only tried.
            Ok(0) if !self.timeout.is_zero() => 1,
            Ok(micros) => micros,
            Err(_) => u32::MAX,
        };
        Request { number: 0, hub: hub.number, priority: self.priority, tentative, timeout_us, operation }
    }

    /// Sends a request, and does not wait.
    pub(crate) fn send(
        &self,
        hub: &About,
        operation: Operation<'_>,
        tentative: bool,
    ) -> Result<Ticket, HubError> {
        self.lock().request(hub, self.request(hub, operation, tentative))
    }

    /// Sends what is about another request.
    pub(crate) fn send_about(
        &self,
        hub: &About,
        ticket: Ticket,
        operation: Operation<'_>,
    ) -> Result<(), HubError> {
        let request = Request { timeout_us: 0, ..self.request(hub, operation, false) };
        self.lock().send_about(hub, ticket, request)
    }

    /// Asks something that is answered at once.
    pub(crate) fn ask(&self, hub: &About, operation: Operation<'_>) -> Result<Outcome, HubError> {
        let ticket = self.send(hub, operation, false)?;
        let deadline = Instant::now() + self.timeout + GRACE;
        loop {
            match self.heard(hub, ticket)? {
                Some(Outcome::Failed(fault)) => return Err(hub.fault(fault)),
                Some(outcome) => return Ok(outcome),
                None => {}
            }
            if !self.listen_until(deadline)? {
                self.forget(hub, ticket, true);
                return Err(hub.no_answer());
            }
        }
    }

    /// The next answer to a request, if one has come.
    pub(crate) fn heard(&self, hub: &About, ticket: Ticket) -> Result<Option<Outcome>, HubError> {
        self.lock().heard(hub, ticket)
    }

    /// Stops waiting for a request, which is to be withdrawn unless that was done.
    pub(crate) fn forget(&self, hub: &About, ticket: Ticket, withdraw: bool) {
        let known = self.lock().forget(hub, ticket);
        if known && withdraw {
            // Without a server there is nothing to withdraw.
            let _ = self.send_about(hub, ticket, Operation::Withdraw);
        }
    }
}

impl AsRawFd for Task {
    /// Readable when something comes after [`hear`](Task::hear). It is the same for all clones, and open
    /// while there is one.
    fn as_raw_fd(&self) -> RawFd {
        self.lock().descriptor()
    }
}

/// Waits until something was heard of any hub; false at the deadline.
#[derive(Debug)]
pub(crate) struct Listening<'t> {
    task: &'t Task,
    deadline: Instant,
    number: Option<u64>,
}

impl Future for Listening<'_> {
    type Output = Result<bool, HubError>;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.task.lock().poll_listen(&mut this.number, context, this.deadline)
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.task.lock().leave(number);
        }
    }
}

fn other_kind(hub: &About, kinds: &[Kind], actual: Kind) -> HubError {
    let wanted = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" or ");
    HubError::OtherKind { hub: hub.name.clone(), node: hub.node.clone(), wanted, actual }
}

fn text<'r>(record: &'r Record, attribute: &str) -> Option<&'r str> {
    match record.attributes.get(attribute) {
        Some(Attribute::Text(text)) => Some(text),
        _ => None,
    }
}

/// What all hubs of the machine look like, by name: with the node of each.
///
/// # Errors
/// [`HubError::Tombolo`]. Hubs that end meanwhile are left out.
pub fn list(domain: &Domain) -> Result<Vec<(String, Status)>, HubError> {
    Task::attach(domain)?.within(Duration::from_secs(5)).list()
}
