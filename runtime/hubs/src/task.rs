//! Tasks, which use hubs.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tombolo::names::{Record, Value as Attribute};
use tombolo::{Domain, Error};
use tombolo_hub::{Fault, Kind, Operation, Outcome, Request, Status};

use crate::HubError;
use crate::connections::{Connections, GRACE, Ticket};
use crate::hub::{Hub, HubInfo};
use crate::server::RECORD_PREFIX;

/// Priority of a task if neither it nor its application file sets one.
const DEFAULT_PRIORITY: u8 = 100;

/// Maximum duration of a wait with the task locked.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// Environment variable with the priority of a program's tasks, set from an application file.
pub const PRIORITY_VARIABLE: &str = "TOMBOLO_TASK_PRIORITY";

/// User of hubs: one thread of a program, or the futures of one executor, with a priority and a timeout for
/// waits.
///
/// Clones share connections. Threads may share a task, but then wait for each other up to 50 ms at a time, so
/// a task per thread is better. When a task ends, with its program or before, its requests are withdrawn and
/// what it holds is released.
#[derive(Clone, Debug)]
pub struct Task {
    connections: Arc<Mutex<Connections>>,
    priority: u8,
    timeout: Duration,
}

impl Task {
    /// Creates a task of this program.
    ///
    /// # Errors
    /// [`HubError::Tombolo`] with `EMFILE`: a task needs three descriptors.
    pub fn attach(domain: &Domain) -> Result<Task, HubError> {
        let connections = Arc::new(Mutex::new(Connections::new(domain)?));
        let declared = std::env::var(PRIORITY_VARIABLE).ok().and_then(|text| text.parse().ok());
        let timeout = Duration::from_secs(30);
        Ok(Task { connections, priority: declared.unwrap_or(DEFAULT_PRIORITY), timeout })
    }

    /// Returns the same task with the timeout `timeout`; with zero, operations make a single attempt.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Task {
        Task { timeout, ..self.clone() }
    }

    /// Returns the same task with this priority for hubs that are opened with it: 0 to 255, larger is more
    /// urgent. The default is that of the application file, or else 100.
    #[must_use]
    pub fn with_priority(&self, priority: u8) -> Task {
        Task { priority, ..self.clone() }
    }

    /// Timeout of operations that wait.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the highest priority of a task that waits for a resource owned by this task, as far as its
    /// messages have arrived; 0 for none.
    ///
    /// # Errors
    /// [`HubError::Tombolo`].
    pub fn inherited_priority(&self) -> Result<u8, HubError> {
        let mut connections = self.lock();
        connections.process_pending()?;
        Ok(connections.inherited_priority())
    }

    /// Opens a hub of one of these kinds, waiting for its name up to the deadline of the task. An empty
    /// `value_type` matches values of every type.
    ///
    /// # Errors
    /// [`HubError::Unknown`], [`HubError::OtherKind`], [`HubError::OtherType`].
    pub fn hub(&self, name: &str, kinds: &[Kind], value_type: &str) -> Result<Hub, HubError> {
        let unknown = || HubError::Unknown { hub: name.to_owned() };
        let domain = self.lock().domain().clone();
        let record = match domain.names().wait_for(&format!("{RECORD_PREFIX}{name}"), self.timeout) {
            Ok(record) => record,
            Err(Error::TimedOut { .. } | Error::Text { .. }) => return Err(unknown()),
            Err(error) if error.name_fault().is_some() => return Err(unknown()),
            Err(error) => return Err(error.into()),
        };
        let (Some(service), Some(node)) = (text(&record, "service"), text(&record, "node")) else {
            return Err(unknown());
        };
        let service = self.lock().connect(service, node, name)?;
        let info = HubInfo {
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
        let opened = self.request_and_wait(&info, operation).map_err(|error| match error.fault() {
            Some(Fault::OtherKind(actual)) => other_kind(&info, kinds, actual),
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
            return Err(other_kind(&info, kinds, kind));
        }
        let (memory, counts) = match memory {
            counts if kind.has_count() => (0, self.lock().counts(service, counts)),
            blocks => (blocks, None),
        };
        let info = Arc::new(HubInfo { number, kind, capacity, value_bytes, memory, counts, ..info });
        Ok(Hub { task: self.clone(), info })
    }

    /// Returns the status of all hubs of the machine, by name, with the node of each. For programs that
    /// repeat this and reuse the connections of this task.
    ///
    /// # Errors
    /// [`HubError::Tombolo`]. Hubs that end meanwhile, or do not answer within the timeout of the task plus 5
    /// seconds, are left out.
    pub fn list(&self) -> Result<Vec<(String, Status)>, HubError> {
        let domain = self.lock().domain().clone();
        let mut all = Vec::new();
        for record in domain.names().find(&format!("r'^{RECORD_PREFIX}'"))? {
            let Some(name) = record.name.strip_prefix(RECORD_PREFIX) else { continue };
            let Ok(hub) = self.hub(name, &Kind::ALL, "") else { continue };
            if let Ok(status) = hub.status() {
                all.push((hub.node().to_owned(), status));
            }
        }
        Ok(all)
    }

    /// Waits up to `timeout` for a message of any hub, and handles it; returns false if there was none. An
    /// operation that was [started](Hub::start_get) may be done then.
    ///
    /// # Errors
    /// [`HubError::Tombolo`]; [`HubError::Violation`] by a server.
    pub fn wait_for_message(&self, timeout: Duration) -> Result<bool, HubError> {
        self.wait_for_message_until(Instant::now() + timeout)
    }

    /// Handles the messages that have arrived; returns whether there were any. Afterwards the task's
    /// descriptor ([`AsRawFd`]) becomes readable with the next message: for programs with an event loop of
    /// their own, which start operations and call this again when it is readable.
    ///
    /// # Errors
    /// Same as [`wait_for_message`](Self::wait_for_message).
    pub fn process_messages(&self) -> Result<bool, HubError> {
        self.lock().process_pending()
    }

    pub(crate) fn wait_for_message_until(&self, deadline: Instant) -> Result<bool, HubError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // Releases the lock in between for other threads that share the task.
            let received = self.lock().wait_for_message(left.min(SLICE))?;
            if received || left <= SLICE {
                return Ok(received);
            }
        }
    }

    /// Async version of [`wait_for_message_until`](Self::wait_for_message_until).
    pub(crate) fn wait_for_message_async(&self, deadline: Instant) -> MessageFuture<'_> {
        MessageFuture { task: self, deadline, number: None }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Connections> {
        // After a panic, at worst one message was not handled.
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn request<'v>(
        &self,
        hub: &HubInfo,
        operation: Operation<'v>,
        tentative: bool,
    ) -> Request<'v> {
        let timeout_us = match u32::try_from(self.timeout.as_micros()) {
            // A nonzero timeout must not become a single attempt.
            Ok(0) if !self.timeout.is_zero() => 1,
            Ok(micros) => micros,
            Err(_) => u32::MAX,
        };
        Request { number: 0, hub: hub.number, priority: self.priority, tentative, timeout_us, operation }
    }

    /// Sends a request without waiting.
    pub(crate) fn send(
        &self,
        hub: &HubInfo,
        operation: Operation<'_>,
        tentative: bool,
    ) -> Result<Ticket, HubError> {
        self.lock().request(hub, self.request(hub, operation, tentative))
    }

    /// Sends a message about an earlier request.
    pub(crate) fn send_follow_up(
        &self,
        hub: &HubInfo,
        ticket: Ticket,
        operation: Operation<'_>,
    ) -> Result<(), HubError> {
        let request = Request { timeout_us: 0, ..self.request(hub, operation, false) };
        self.lock().send_follow_up(hub, ticket, request)
    }

    /// Sends a request that is answered immediately, and waits for the answer.
    pub(crate) fn request_and_wait(
        &self,
        hub: &HubInfo,
        operation: Operation<'_>,
    ) -> Result<Outcome, HubError> {
        let ticket = self.send(hub, operation, false)?;
        let deadline = Instant::now() + self.timeout + GRACE;
        loop {
            match self.next_answer(hub, ticket)? {
                Some(Outcome::Failed(fault)) => return Err(hub.fault_error(fault)),
                Some(outcome) => return Ok(outcome),
                None => {}
            }
            if !self.wait_for_message_until(deadline)? {
                self.abandon(hub, ticket, true);
                return Err(hub.no_answer_error());
            }
        }
    }

    /// Returns the next answer to a request, if one has arrived.
    pub(crate) fn next_answer(&self, hub: &HubInfo, ticket: Ticket) -> Result<Option<Outcome>, HubError> {
        self.lock().next_answer(hub, ticket)
    }

    /// Stops waiting for a request, and withdraws it if `withdraw` is set.
    pub(crate) fn abandon(&self, hub: &HubInfo, ticket: Ticket, withdraw: bool) {
        let known = self.lock().abandon(hub, ticket);
        if known && withdraw {
            // Without a server there is nothing to withdraw.
            let _ = self.send_follow_up(hub, ticket, Operation::Withdraw);
        }
    }
}

impl AsRawFd for Task {
    /// Readable when a message arrives after [`process_messages`](Task::process_messages). The descriptor is
    /// the same for all clones, and open while there is one.
    fn as_raw_fd(&self) -> RawFd {
        self.lock().descriptor()
    }
}

/// Future that waits for a message of any hub; false at the deadline.
#[derive(Debug)]
pub(crate) struct MessageFuture<'t> {
    task: &'t Task,
    deadline: Instant,
    number: Option<u64>,
}

impl Future for MessageFuture<'_> {
    type Output = Result<bool, HubError>;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.task.lock().poll_message(&mut this.number, context, this.deadline)
    }
}

impl Drop for MessageFuture<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.task.lock().remove_waiter(number);
        }
    }
}

fn other_kind(hub: &HubInfo, kinds: &[Kind], actual: Kind) -> HubError {
    let wanted = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" or ");
    HubError::OtherKind { hub: hub.name.clone(), node: hub.node.clone(), wanted, actual }
}

fn text<'r>(record: &'r Record, attribute: &str) -> Option<&'r str> {
    match record.attributes.get(attribute) {
        Some(Attribute::Text(text)) => Some(text),
        _ => None,
    }
}

/// Returns the status of all hubs of the machine, by name, with the node of each.
///
/// # Errors
/// [`HubError::Tombolo`]. Hubs that end meanwhile are left out.
pub fn list(domain: &Domain) -> Result<Vec<(String, Status)>, HubError> {
    Task::attach(domain)?.within(Duration::from_secs(5)).list()
}
