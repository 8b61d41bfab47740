//! Hubs of any kind, with values as bytes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tombolo::region::{CapabilityId, Mapping, Rights};
use tombolo_hub::{Batch, BatchReader, Fault, Kind, Operation, Outcome, Status, Taken, Violation};

use crate::HubError;
use crate::connections::{Connections, GRACE, Ticket};
use crate::counts::LentCounts;
use crate::task::{SLICE, Task};
use crate::tracing;

/// Location and properties of a hub.
#[derive(Debug)]
pub(crate) struct HubInfo {
    pub(crate) name: String,
    pub(crate) node: String,
    /// Index of the connection to its server.
    pub(crate) service: usize,
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) capacity: u32,
    pub(crate) value_bytes: u32,
    /// Number of the capability to the memory of a pool.
    pub(crate) memory: u64,
    /// Counts of the server, for a semaphore or an event whose server is on the same kernel.
    pub(crate) counts: Option<LentCounts>,
}

impl HubInfo {
    pub(crate) fn fault_error(&self, fault: Fault) -> HubError {
        HubError::Fault { hub: self.name.clone(), node: self.node.clone(), fault }
    }

    pub(crate) fn lost_error(&self, why: String) -> HubError {
        HubError::Lost { hub: self.name.clone(), node: self.node.clone(), why }
    }

    pub(crate) fn no_answer_error(&self) -> HubError {
        HubError::NoAnswer { hub: self.name.clone(), node: self.node.clone() }
    }

    /// Performs an operation on a count that the server has lent. `None` if the count is not lent, or the
    /// operation would have to wait.
    fn try_lent_count(
        &self,
        connections: &mut Connections,
        operation: &Operation<'_>,
    ) -> Result<Option<Taken>, HubError> {
        let Some(count) = self.counts.as_ref().and_then(|counts| counts.of(self.number)) else {
            return Ok(None);
        };
        if !connections.is_alive(self.service)? {
            return Ok(None);
        }
        let done = match operation {
            Operation::Put { value: [] } if count.put(self.capacity) => Taken::Put,
            Operation::Get if count.get() => Taken::Unit,
            _ => return Ok(None),
        };
        tracing::operation(&self.name, self.kind, &done);
        Ok(Some(done))
    }

    /// Converts the final outcome of a request.
    fn convert_outcome(&self, outcome: Outcome) -> Result<Taken, HubError> {
        match outcome {
            Outcome::Done(taken) => {
                tracing::operation(&self.name, self.kind, &taken);
                Ok(taken)
            }
            Outcome::Failed(fault) => Err(self.fault_error(fault)),
            Outcome::Partial { put, fault } => {
                let (hub, node) = (self.name.clone(), self.node.clone());
                Err(HubError::Partial { hub, node, put, fault })
            }
            _ => Err(self.unexpected_answer()),
        }
    }

    /// Error for an answer that does not match the request.
    pub(crate) fn unexpected_answer(&self) -> HubError {
        HubError::Violation { node: self.node.clone(), violation: Violation::Malformed(0) }
    }
}

/// Hub of any kind, as used by one task: generic operations on values as bytes.
///
/// The other types of this crate and the bindings for C and Python are built on it. Rust programs use it for
/// hubs whose kind or type is known only at run time.
#[derive(Clone, Debug)]
pub struct Hub {
    pub(crate) task: Task,
    pub(crate) info: Arc<HubInfo>,
}

impl Hub {
    /// Name of the hub.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// Node that the hub is on.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.info.node
    }

    /// Task that uses the hub.
    #[must_use]
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// Kind of the hub.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.info.kind
    }

    /// Maximum number of values, units or blocks; 0 for a port.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.info.capacity
    }

    /// Maximum size of a value, or size of a block, in bytes.
    #[must_use]
    pub fn value_bytes(&self) -> u32 {
        self.info.value_bytes
    }

    /// Maps the memory of a pool; `None` if its node has another kernel, or the hub has no memory. Block `n`
    /// is at offset `n` times [`value_bytes`](Self::value_bytes).
    ///
    /// # Errors
    /// [`HubError::Tombolo`] if the pool has ended.
    pub fn map(&self) -> Result<Option<Mapping>, HubError> {
        if self.info.memory == 0 {
            return Ok(None);
        }
        let domain = self.task.lock().domain().clone();
        let capability = domain.capability(CapabilityId(self.info.memory))?;
        // Memory of another kernel cannot be mapped.
        Ok(capability.map(Rights::READ | Rights::WRITE).ok())
    }

    /// Returns the same hub with the timeout `timeout`; with zero, operations make a single attempt.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Hub {
        Hub { task: self.task.within(timeout), info: Arc::clone(&self.info) }
    }

    /// Returns the same hub, whose operations do not wait.
    pub(crate) fn nonblocking(&self) -> Hub {
        self.within(Duration::ZERO)
    }

    /// Sends, raises or signals, waiting up to the deadline of the task.
    ///
    /// # Errors
    /// [`Fault::TimedOut`], or [`Fault::WouldBlock`] if the timeout is zero; [`Fault::Closed`],
    /// [`Fault::TooLong`], [`HubError::Lost`].
    pub fn put(&self, value: &[u8]) -> Result<(), HubError> {
        self.complete(Operation::Put { value }).map(drop)
    }

    /// Receives, awaits, locks or allocates, waiting up to the deadline of the task.
    ///
    /// # Errors
    /// Same as [`put`](Self::put); [`Fault::AlreadyHeld`] for a resource that this task owns.
    pub fn get(&self) -> Result<Taken, HubError> {
        self.complete(Operation::Get)
    }

    /// Performs an operation to its end. An answer that arrives soon costs no read of the clock.
    fn complete(&self, operation: Operation<'_>) -> Result<Taken, HubError> {
        let info = &*self.info;
        let takes_values = takes_values(&operation);
        let mut connections = self.task.lock();
        if takes_values && let Some(late) = connections.take_late_value(info) {
            return Ok(late);
        }
        if let Some(done) = info.try_lent_count(&mut connections, &operation)? {
            return Ok(done);
        }
        let ticket = connections.request(info, self.task.request(info, operation, false))?;
        let limit = self.task.timeout() + GRACE;
        let answer = connections.next_answer_within(info, ticket, limit.min(SLICE));
        drop(connections);
        match answer? {
            Some(outcome) => info.convert_outcome(outcome),
            None => {
                let deadline = Instant::now() + limit;
                Pending { hub: self.clone(), state: State::Requested { ticket, deadline, takes_values } }
                    .wait()
            }
        }
    }

    /// Starts the operation of [`put`](Self::put) without waiting for its end.
    ///
    /// # Errors
    /// [`HubError::Lost`], [`HubError::Tombolo`].
    pub fn start_put(&self, value: &[u8]) -> Result<Pending, HubError> {
        self.start(Operation::Put { value })
    }

    /// Starts the operation of [`get`](Self::get) without waiting for its end.
    ///
    /// # Errors
    /// Same as [`start_put`](Self::start_put).
    pub fn start_get(&self) -> Result<Pending, HubError> {
        if let Some(late) = self.task.lock().take_late_value(&self.info) {
            return Ok(Pending { hub: self.clone(), state: State::Done(late) });
        }
        self.start(Operation::Get)
    }

    /// Starts to put several values into a fifo, in order and in one message, each as soon as there is room.
    /// If not all could be put, the result is [`HubError::Partial`], or another error if none was.
    ///
    /// # Errors
    /// Same as [`start_put`](Self::start_put).
    pub fn start_put_many(&self, values: Batch<'_>) -> Result<Pending, HubError> {
        self.start(Operation::PutMany { values })
    }

    /// Starts to take values from a fifo, up to `most` of them in one message, as soon as there is at least
    /// one. The result is [`Taken::Values`], or [`Taken::Value`] with a value that arrived too late for an
    /// earlier operation.
    ///
    /// # Errors
    /// Same as [`start_put`](Self::start_put).
    pub fn start_get_many(&self, most: u32) -> Result<Pending, HubError> {
        if let Some(late) = self.task.lock().take_late_value(&self.info) {
            return Ok(Pending { hub: self.clone(), state: State::Done(late) });
        }
        self.start(Operation::GetMany { max_values: most.clamp(1, tombolo_hub::MAX_BATCH) })
    }

    /// Keeps received but unused values for the next operations of the task on this hub.
    pub(crate) fn keep_values(&self, mut unused: BatchReader, others: Vec<Taken>) {
        let mut values = Vec::new();
        while let Some(value) = unused.next_value() {
            values.push(Taken::Value(value.into()));
        }
        for taken in others {
            match taken {
                Taken::Values(batch) => values.extend(batch.iter().map(|value| Taken::Value(value.into()))),
                taken => values.push(taken),
            }
        }
        self.task.lock().keep_values(&self.info, values);
    }

    fn start(&self, operation: Operation<'_>) -> Result<Pending, HubError> {
        if let Some(done) = self.info.try_lent_count(&mut self.task.lock(), &operation)? {
            return Ok(Pending { hub: self.clone(), state: State::Done(done) });
        }
        let deadline = Instant::now() + self.task.timeout() + GRACE;
        let ticket = self.task.send(&self.info, operation, false)?;
        let takes_values = takes_values(&operation);
        Ok(Pending { hub: self.clone(), state: State::Requested { ticket, deadline, takes_values } })
    }

    /// Returns a block or a lock, identified by its fencing token.
    ///
    /// # Errors
    /// [`Fault::NotHeld`], [`HubError::Lost`].
    pub fn give_back(&self, token: u64) -> Result<(), HubError> {
        self.request(Operation::GiveBack { token })?;
        tracing::released(self.name(), self.kind(), token);
        Ok(())
    }

    /// Like [`give_back`](Self::give_back), without waiting for the answer. If the server has ended, so has
    /// the block or lock.
    pub fn release(&self, token: u64) {
        if let Ok(ticket) = self.task.send(&self.info, Operation::GiveBack { token }, false) {
            self.task.lock().ignore(ticket);
            tracing::released(self.name(), self.kind(), token);
        }
    }

    /// Closes the hub: puts fail from now on, and gets fail once it is empty.
    ///
    /// # Errors
    /// [`Fault::AlreadyClosed`], [`HubError::Lost`].
    pub fn close(&self) -> Result<(), HubError> {
        match self.request(Operation::Close)? {
            Outcome::Done(_) => Ok(()),
            _ => Err(self.info.unexpected_answer()),
        }
    }

    /// Returns the status of the hub. Only a hint: other tasks use the hub concurrently.
    ///
    /// # Errors
    /// [`HubError::Lost`].
    pub fn status(&self) -> Result<Status, HubError> {
        match self.request(Operation::Status)? {
            Outcome::Status(status) => Ok(*status),
            _ => Err(self.info.unexpected_answer()),
        }
    }

    fn request(&self, operation: Operation<'_>) -> Result<Outcome, HubError> {
        self.task.request_and_wait(&self.info, operation)
    }
}

fn takes_values(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Get | Operation::GetMany { .. })
}

/// Operation in progress. Dropping it before it is done withdraws it; what it still obtains is kept for the
/// next operation on the hub.
#[derive(Debug)]
#[must_use = "dropped, it is withdrawn"]
pub struct Pending {
    hub: Hub,
    state: State,
}

#[derive(Debug)]
enum State {
    Requested { ticket: Ticket, deadline: Instant, takes_values: bool },
    Done(Taken),
    Taken,
}

impl Pending {
    /// Returns the result, if the operation is done according to the messages handled so far.
    /// [`Task::wait_for_message`] waits for more.
    ///
    /// # Errors
    /// Errors of the operation. After an error or a result the operation is over.
    pub fn try_take(&mut self) -> Result<Option<Taken>, HubError> {
        let info = &self.hub.info;
        let State::Requested { ticket, deadline, takes_values } = self.state else {
            return match std::mem::replace(&mut self.state, State::Taken) {
                State::Done(taken) => Ok(Some(taken)),
                _ => Err(info.fault_error(Fault::NotHeld)),
            };
        };
        let answer = self.hub.task.lock().next_answer(info, ticket);
        // A value that arrived late for an earlier operation completes this one, which is withdrawn.
        if takes_values
            && matches!(answer, Ok(None))
            && let Some(late) = self.hub.task.lock().take_late_value(info)
        {
            self.hub.task.abandon(info, ticket, true);
            self.state = State::Taken;
            return Ok(Some(late));
        }
        let result = match answer {
            Ok(None) if Instant::now() < deadline => return Ok(None),
            Ok(None) => {
                self.hub.task.abandon(info, ticket, true);
                Err(info.no_answer_error())
            }
            Ok(Some(outcome)) => info.convert_outcome(outcome).map(Some),
            Err(error) => Err(error),
        };
        self.state = State::Taken;
        result
    }

    /// Latest time for the next call of [`try_take`](Self::try_take); now, if the operation is done.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        match self.state {
            State::Requested { deadline, .. } => deadline,
            _ => Instant::now(),
        }
    }

    /// Withdraws the operation, and waits up to 5 seconds for the hub's confirmation. Returns what the
    /// operation obtained nevertheless.
    pub(crate) fn withdraw(mut self) -> Option<Taken> {
        let info = &self.hub.info;
        if let State::Requested { ticket, .. } = self.state {
            self.hub.task.send_follow_up(info, ticket, Operation::Withdraw).ok()?;
            let deadline = Instant::now() + GRACE;
            loop {
                let answer = self.hub.task.lock().next_answer(info, ticket);
                if let Some(outcome) = answer.ok()? {
                    self.state = State::Taken;
                    return if let Outcome::Done(taken) = outcome { Some(taken) } else { None };
                }
                if !self.hub.task.wait_for_message_until(deadline).ok()? {
                    return None;
                }
            }
        }
        self.try_take().ok()?
    }

    /// Waits until the operation is done.
    ///
    /// # Errors
    /// Errors of the operation; [`HubError::NoAnswer`] 5 seconds after its deadline.
    pub fn wait(mut self) -> Result<Taken, HubError> {
        let mut span = None;
        loop {
            if let Some(taken) = self.try_take()? {
                return Ok(taken);
            }
            span = span.or_else(|| tracing::wait_span(self.hub.name()));
            self.hub.task.wait_for_message_until(self.deadline())?;
        }
    }

    /// Async version of [`wait`](Self::wait).
    ///
    /// # Errors
    /// Same as [`wait`](Self::wait).
    pub async fn wait_async(mut self) -> Result<Taken, HubError> {
        // Other futures run on the thread meanwhile, so the wait cannot be recorded as a span.
        tracing::wait_started(self.hub.name());
        loop {
            if let Some(taken) = self.try_take()? {
                return Ok(taken);
            }
            self.hub.task.wait_for_message_async(self.deadline()).await?;
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let State::Requested { ticket, .. } = self.state {
            self.hub.task.abandon(&self.hub.info, ticket, true);
        }
    }
}
