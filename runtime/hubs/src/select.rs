//! Waits for the first of several operations on hubs of any nodes.

use std::time::Instant;

use tombolo_hub::{Fault, Operation, Select, SelectCommand, Taken};

use crate::connections::{GRACE, Ticket};
use crate::hub::Hub;
use crate::lock::Owned;
use crate::pool::{Block, Pool};
use crate::task::Task;
use crate::tracing;
use crate::{Chan, Event, HubError, Resource, Semaphore, Value};

/// Operations of which exactly one is performed. Each hub may occur once.
#[derive(Debug)]
pub struct SelectBuilder {
    task: Task,
    arms: Vec<Arm>,
}

#[derive(Debug)]
struct Arm {
    hub: Hub,
    /// Value to send; `None` to take one.
    value: Option<Vec<u8>>,
}

/// Operation that was performed.
#[derive(Debug)]
pub struct Selected {
    /// Index of the operation, in the order of addition.
    pub index: usize,
    hub: Hub,
    taken: Taken,
}

impl Task {
    /// Creates a select without operations.
    #[must_use]
    pub fn select(&self) -> SelectBuilder {
        SelectBuilder { task: self.clone(), arms: Vec::new() }
    }
}

impl SelectBuilder {
    /// Adds a put of `value` into a hub, and returns its index.
    pub fn put(&mut self, hub: &Hub, value: &[u8]) -> usize {
        self.add(hub, Some(value.to_vec()))
    }

    /// Adds a get from a hub, and returns its index.
    pub fn get(&mut self, hub: &Hub) -> usize {
        self.add(hub, None)
    }

    fn add(&mut self, hub: &Hub, value: Option<Vec<u8>>) -> usize {
        self.arms.push(Arm { hub: hub.clone(), value });
        self.arms.len() - 1
    }

    /// Adds a send of a value, and returns its index.
    pub fn send<T: Value>(&mut self, chan: &Chan<T>, value: &T) -> usize {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        self.add(&chan.hub, Some(bytes))
    }

    /// Adds a receive, and returns its index. [`Selected::value`] returns the value.
    pub fn recv<T>(&mut self, chan: &Chan<T>) -> usize {
        self.get(&chan.hub)
    }

    /// Adds a wait for a semaphore, and returns its index.
    pub fn semaphore(&mut self, semaphore: &Semaphore) -> usize {
        self.get(&semaphore.hub)
    }

    /// Adds a wait for an event, and returns its index.
    pub fn event(&mut self, event: &Event) -> usize {
        self.get(&event.hub)
    }

    /// Adds the locking of a resource, and returns its index. [`Selected::owned`] returns the lock.
    pub fn resource(&mut self, resource: &Resource) -> usize {
        self.get(&resource.hub)
    }

    /// Adds the allocation of a block, and returns its index. [`Selected::block`] returns the block.
    pub fn pool(&mut self, pool: &Pool) -> usize {
        self.get(&pool.hub)
    }

    fn names(&self) -> String {
        let names = self.arms.iter().map(|arm| format!("'{}'", arm.hub.name()));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Sends the requests to all hubs, without waiting for the first result.
    ///
    /// # Errors
    /// [`HubError::Select`] if a hub occurs twice, or there is none; [`HubError::Lost`].
    pub fn start(self) -> Result<Selection, HubError> {
        let order_key = |arm: &Arm| self.task.lock().order_key(&arm.hub.info);
        let keys: Vec<_> = self.arms.iter().map(order_key).collect();
        let select = Select::new(&keys).map_err(|error| HubError::Select { hubs: self.names(), error })?;
        let deadline = Instant::now() + self.task.timeout();
        // A single attempt is answered immediately.
        let has_given_up = self.task.timeout().is_zero();
        let (tickets, withdrawn) = (Vec::new(), vec![false; self.arms.len()]);
        let available = self.available();
        let mut started = Selection {
            builder: self,
            select,
            available,
            tickets,
            withdrawn,
            lost: None,
            deadline,
            has_given_up,
        };
        if started.available.is_none() {
            started.send_requests()?;
        }
        Ok(started)
    }

    /// Returns a value that an earlier operation of the task took and did not use, from the first hub that
    /// has one.
    fn available(&self) -> Option<Selected> {
        let mut taking = self.arms.iter().enumerate().filter(|(_, arm)| arm.value.is_none());
        taking.find_map(|(index, arm)| {
            let taken = self.task.lock().take_late_value(&arm.hub.info)?;
            Some(Selected { index, hub: arm.hub.clone(), taken })
        })
    }

    /// Waits up to the deadline of the task until one operation is performed. The others have no effect.
    ///
    /// # Errors
    /// [`HubError::NothingReady`]; [`HubError::Select`] if a hub occurs twice, or there is none;
    /// [`HubError::Fault`] with the hub that is closed or refuses its operation, [`HubError::Lost`] with the
    /// hub whose node has died. No operation was performed then, except that a hub that died may have
    /// performed its own.
    pub fn wait(self) -> Result<Selected, HubError> {
        self.start()?.wait()
    }

    /// Async [`wait`](Self::wait). If the future is dropped, either no operation was performed, or its result
    /// is kept for the next operation that takes from that hub.
    ///
    /// # Errors
    /// Same as [`wait`](Self::wait).
    pub async fn wait_async(self) -> Result<Selected, HubError> {
        self.start()?.wait_async().await
    }
}

/// Select in progress. Dropping it before it is done withdraws it.
#[derive(Debug)]
#[must_use = "dropped, it is withdrawn"]
pub struct Selection {
    builder: SelectBuilder,
    select: Select,
    /// Result, if it was available from the beginning.
    available: Option<Selected>,
    tickets: Vec<Option<Ticket>>,
    /// Whether each operation was withdrawn already.
    withdrawn: Vec<bool>,
    /// Error of the first hub that was lost.
    lost: Option<HubError>,
    deadline: Instant,
    /// Whether the hubs were told that the deadline has passed.
    has_given_up: bool,
}

impl Selection {
    /// Sends all operations to their hubs.
    fn send_requests(&mut self) -> Result<(), HubError> {
        for arm in &self.builder.arms {
            let operation = match &arm.value {
                Some(value) => Operation::Put { value },
                None => Operation::Get,
            };
            self.tickets.push(Some(self.builder.task.send(&arm.hub.info, operation, true)?));
        }
        Ok(())
    }

    /// Returns the operation that was performed, if one was according to the messages handled so far.
    /// [`Task::wait_for_message`] waits for more.
    ///
    /// # Errors
    /// Same as [`SelectBuilder::wait`].
    pub fn try_take(&mut self) -> Result<Option<Selected>, HubError> {
        if let Some(available) = self.available.take() {
            return Ok(Some(available));
        }
        self.handle_answers()?;
        if let Some((index, result)) = self.select.take_result() {
            let hub = &self.builder.arms[index].hub;
            return match result {
                Ok(taken) => {
                    tracing::operation(hub.name(), hub.kind(), &taken);
                    Ok(Some(Selected { index, hub: hub.clone(), taken }))
                }
                Err(fault) => Err(self.lost.take().unwrap_or_else(|| hub.info.fault_error(fault))),
            };
        }
        if self.select.is_finished() {
            let hubs = self.builder.names();
            return Err(self.lost.take().unwrap_or(HubError::NothingReady { hubs }));
        }
        if Instant::now() >= self.next_deadline() {
            if std::mem::replace(&mut self.has_given_up, true) {
                return Err(self.no_answer_error());
            }
            let mut commands = Vec::new();
            self.select.abandon(&mut commands);
            self.execute(commands)?;
        }
        Ok(None)
    }

    /// Waits until one operation is performed.
    ///
    /// # Errors
    /// Same as [`SelectBuilder::wait`].
    pub fn wait(mut self) -> Result<Selected, HubError> {
        let mut span = None;
        loop {
            if let Some(chosen) = self.try_take()? {
                return Ok(chosen);
            }
            span = span.or_else(|| tracing::wait_span("select"));
            self.builder.task.wait_for_message_until(self.next_deadline())?;
        }
    }

    /// Async version of [`wait`](Self::wait).
    ///
    /// # Errors
    /// Same as [`SelectBuilder::wait`].
    pub async fn wait_async(mut self) -> Result<Selected, HubError> {
        loop {
            if let Some(chosen) = self.try_take()? {
                return Ok(chosen);
            }
            self.builder.task.wait_for_message_async(self.next_deadline()).await?;
        }
    }

    /// Latest time for the next call of [`try_take`](Self::try_take).
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        if self.has_given_up { self.deadline + GRACE } else { self.deadline }
    }

    fn no_answer_error(&self) -> HubError {
        let unanswered = self.builder.arms.iter().zip(&self.tickets).find(|(_, ticket)| ticket.is_some());
        match unanswered {
            Some((arm, _)) => arm.hub.info.no_answer_error(),
            None => HubError::NoAnswer { hub: self.builder.names(), node: String::new() },
        }
    }

    /// Handles the answers of the hubs.
    fn handle_answers(&mut self) -> Result<(), HubError> {
        for index in 0..self.tickets.len() {
            while let Some(ticket) = self.tickets[index] {
                let mut commands = Vec::new();
                let arm = &self.builder.arms[index];
                match self.builder.task.next_answer(&arm.hub.info, ticket) {
                    Ok(None) => break,
                    Ok(Some(outcome)) => {
                        if outcome.is_final() {
                            self.tickets[index] = None;
                        }
                        self.select.handle_outcome(index, outcome, &mut commands);
                    }
                    Err(error) => {
                        self.tickets[index] = None;
                        self.lost.get_or_insert(error);
                        self.select.handle_loss(index, Fault::NoSuchHub, &mut commands);
                    }
                }
                self.execute(commands)?;
            }
        }
        Ok(())
    }

    fn execute(&mut self, commands: Vec<SelectCommand>) -> Result<(), HubError> {
        for command in commands {
            let (arm, operation) = match command {
                SelectCommand::Claim { arm, offer } => (arm, Operation::Claim { offer }),
                SelectCommand::Unclaim { arm, offer } => (arm, Operation::Unclaim { offer }),
                SelectCommand::Withdraw { arm } => (arm, Operation::Withdraw),
            };
            self.withdrawn[arm] |= operation == Operation::Withdraw;
            let Some(ticket) = self.tickets[arm] else { continue };
            let hub = &self.builder.arms[arm].hub;
            match self.builder.task.send_follow_up(&hub.info, ticket, operation) {
                // Its end will be reported shortly.
                Ok(()) | Err(HubError::Lost { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Selection {
    /// Abandons the operations without a final answer. A claimed value that arrives late is kept.
    fn drop(&mut self) {
        let arms = self.builder.arms.iter().zip(&mut self.tickets).zip(&self.withdrawn);
        for ((arm, ticket), withdrawn) in arms {
            if let Some(ticket) = ticket.take() {
                self.builder.task.abandon(&arm.hub.info, ticket, !withdrawn);
            }
        }
    }
}

impl Selected {
    fn belongs_to(&self, hub: &Hub) -> Result<(), HubError> {
        if self.hub.name() == hub.name() {
            return Ok(());
        }
        Err(hub.info.fault_error(Fault::NotHeld))
    }

    /// Returns what was taken, for a hub of any kind.
    #[must_use]
    pub fn into_taken(self) -> Taken {
        self.taken
    }

    /// Returns the value that was received from this channel.
    ///
    /// # Errors
    /// [`HubError::BadValue`]; [`Fault::NotHeld`] if another operation was performed.
    pub fn value<T: Value>(self, chan: &Chan<T>) -> Result<T, HubError> {
        self.belongs_to(&chan.hub)?;
        chan.value(self.taken)
    }

    /// Returns the lock of this resource.
    ///
    /// # Errors
    /// [`Fault::NotHeld`] if another operation was performed.
    pub fn owned(self, resource: &Resource) -> Result<Owned, HubError> {
        self.belongs_to(&resource.hub)?;
        resource.owned(self.taken)
    }

    /// Returns the block of this pool.
    ///
    /// # Errors
    /// Same as [`owned`](Self::owned).
    pub fn block(self, pool: &Pool) -> Result<Block, HubError> {
        self.belongs_to(&pool.hub)?;
        pool.block(self.taken)
    }
}
