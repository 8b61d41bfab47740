//! Waiting for the first of several operations, on hubs of any nodes.

use std::time::{Duration, Instant};

use tombolo_hub::{Operation, Order, Select, Taken};

use crate::lock::Owned;
use crate::pool::{Block, Pool};
use crate::task::{Hub, Task, Ticket, of_hub};
use crate::{Chan, Event, HubError, Resource, Semaphore, Value};

/// How long after the deadline the hubs' last answers are waited for.
const GRACE: Duration = Duration::from_secs(5);

/// Operations of which one is to be done. Each hub may be in it once.
#[derive(Debug)]
pub struct Selecting {
    task: Task,
    arms: Vec<Arm>,
}

#[derive(Debug)]
struct Arm {
    hub: Hub,
    /// The value to send; `None` to take.
    value: Option<Vec<u8>>,
}

/// The operation that was done.
#[derive(Debug)]
pub struct Chosen {
    /// Its index, as it was added.
    pub index: usize,
    hub: Hub,
    taken: Taken,
}

impl Task {
    /// A select without operations yet.
    #[must_use]
    pub fn select(&self) -> Selecting {
        Selecting { task: self.clone(), arms: Vec::new() }
    }
}

impl Selecting {
    fn add(&mut self, hub: &Hub, value: Option<Vec<u8>>) -> usize {
        self.arms.push(Arm { hub: hub.clone(), value });
        self.arms.len() - 1
    }

    /// Adds sending this value; its index.
    pub fn send<T: Value>(&mut self, chan: &Chan<T>, value: &T) -> usize {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        self.add(&chan.hub, Some(bytes))
    }

    /// Adds receiving; its index. [`Chosen::value`] has the value then.
    pub fn recv<T>(&mut self, chan: &Chan<T>) -> usize {
        self.add(&chan.hub, None)
    }

    /// Adds waiting for a semaphore; its index.
    pub fn semaphore(&mut self, semaphore: &Semaphore) -> usize {
        self.add(&semaphore.hub, None)
    }

    /// Adds waiting for an event; its index.
    pub fn event(&mut self, event: &Event) -> usize {
        self.add(&event.hub, None)
    }

    /// Adds locking a resource; its index. [`Chosen::owned`] has the lock then.
    pub fn resource(&mut self, resource: &Resource) -> usize {
        self.add(&resource.hub, None)
    }

    /// Adds taking a block of a pool; its index. [`Chosen::block`] has it then.
    pub fn pool(&mut self, pool: &Pool) -> usize {
        self.add(&pool.hub, None)
    }

    fn names(&self) -> String {
        let names = self.arms.iter().map(|arm| format!("'{}'", arm.hub.name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Waits up to the deadline of the task until one operation is done. The others have no effect.
    ///
    /// # Errors
    /// [`HubError::NothingReady`]; [`HubError::Select`] for a hub that is in it twice, or for none;
    /// [`HubError::Fault`] with the hub that is closed or refuses its operation, [`HubError::Lost`] with the
    /// hub whose node has died. Then no operation was done, save that a hub which died may have done its
    /// own.
    pub fn wait(self) -> Result<Chosen, HubError> {
        let places: Vec<_> = self.arms.iter().map(|arm| self.task.place(&arm.hub)).collect();
        let select = Select::new(&places).map_err(|error| HubError::Select { hubs: self.names(), error })?;
        let withdrawn = vec![false; self.arms.len()];
        let mut wait = Wait { selecting: &self, select, tickets: Vec::new(), withdrawn, lost: None };
        wait.post()?;
        let result = wait.run();
        wait.forget();
        let (index, taken) = result?;
        Ok(Chosen { index, hub: self.arms[index].hub.clone(), taken })
    }
}

/// A select that is under way.
struct Wait<'s> {
    selecting: &'s Selecting,
    select: Select,
    tickets: Vec<Option<Ticket>>,
    /// Whether each operation was withdrawn already.
    withdrawn: Vec<bool>,
    /// The first hub that was lost.
    lost: Option<HubError>,
}

impl Wait<'_> {
    /// Sends all operations.
    fn post(&mut self) -> Result<(), HubError> {
        for arm in &self.selecting.arms {
            let operation = match &arm.value {
                Some(value) => Operation::Put { value },
                None => Operation::Get,
            };
            match self.selecting.task.send(&arm.hub, operation, true) {
                Ok(ticket) => self.tickets.push(Some(ticket)),
                Err(error) => {
                    self.forget();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(usize, Taken), HubError> {
        let deadline = Instant::now() + self.selecting.task.timeout();
        let mut given_up = false;
        loop {
            self.hear()?;
            if let Some((index, result)) = self.select.take_result() {
                let arm = &self.selecting.arms[index];
                return match result {
                    Ok(taken) => Ok((index, taken)),
                    Err(fault) => Err(self.lost.take().unwrap_or_else(|| of_hub(&arm.hub, fault))),
                };
            }
            if self.select.is_over() {
                let hubs = self.selecting.names();
                return Err(self.lost.take().unwrap_or(HubError::NothingReady { hubs }));
            }
            // What is only tried is answered at once.
            let until =
                if given_up || self.selecting.task.timeout().is_zero() { deadline + GRACE } else { deadline };
            if !self.selecting.task.listen(until)? {
                if std::mem::replace(&mut given_up, true) {
                    return Err(self.no_answer());
                }
                let mut orders = Vec::new();
                self.select.give_up(&mut orders);
                self.carry_out(orders)?;
            }
        }
    }

    fn no_answer(&self) -> HubError {
        let unanswered = self.selecting.arms.iter().zip(&self.tickets).find(|(_, ticket)| ticket.is_some());
        let (hub, node) = match unanswered {
            Some((arm, _)) => (arm.hub.name.clone(), arm.hub.node.clone()),
            None => (self.selecting.names(), String::new()),
        };
        HubError::NoAnswer { hub, node }
    }

    /// Takes in what the hubs said.
    fn hear(&mut self) -> Result<(), HubError> {
        for index in 0..self.tickets.len() {
            let arm = &self.selecting.arms[index];
            while let Some(ticket) = self.tickets[index] {
                let mut orders = Vec::new();
                match self.selecting.task.heard(&arm.hub, ticket) {
                    Ok(None) => break,
                    Ok(Some(outcome)) => {
                        if outcome.is_final() {
                            self.tickets[index] = None;
                        }
                        self.select.heard(index, outcome, &mut orders);
                    }
                    Err(error) => {
                        self.tickets[index] = None;
                        self.lost.get_or_insert(error);
                        self.select.lost(index, tombolo_hub::Fault::NoSuchHub, &mut orders);
                    }
                }
                self.carry_out(orders)?;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, orders: Vec<Order>) -> Result<(), HubError> {
        for order in orders {
            let (arm, operation) = match order {
                Order::Claim { arm, offer } => (arm, Operation::Claim { offer }),
                Order::Unclaim { arm, offer } => (arm, Operation::Unclaim { offer }),
                Order::Withdraw { arm } => (arm, Operation::Withdraw),
            };
            self.withdrawn[arm] |= operation == Operation::Withdraw;
            let Some(ticket) = self.tickets[arm] else { continue };
            match self.selecting.task.send_about(&self.selecting.arms[arm].hub, ticket, operation) {
                // Its end is heard of in a moment.
                Ok(()) | Err(HubError::Lost { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends what the hubs have not answered for good. What was claimed and comes late is kept.
    fn forget(&mut self) {
        let arms = self.selecting.arms.iter().zip(&mut self.tickets).zip(&self.withdrawn);
        for ((arm, ticket), withdrawn) in arms {
            if let Some(ticket) = ticket.take() {
                self.selecting.task.forget(&arm.hub, ticket, !withdrawn);
            }
        }
    }
}

impl Chosen {
    fn belongs_to(&self, hub: &Hub) -> Result<(), HubError> {
        if self.hub.name == hub.name {
            return Ok(());
        }
        Err(of_hub(hub, tombolo_hub::Fault::NotHeld))
    }

    /// The value that was received from this channel.
    ///
    /// # Errors
    /// [`HubError::BadValue`]; [`Fault::NotHeld`](crate::Fault::NotHeld) when another operation was done.
    pub fn value<T: Value>(self, chan: &Chan<T>) -> Result<T, HubError> {
        self.belongs_to(&chan.hub)?;
        chan.value(self.taken)
    }

    /// The lock of this resource.
    ///
    /// # Errors
    /// [`Fault::NotHeld`](crate::Fault::NotHeld) when another operation was done.
    pub fn owned(self, resource: &Resource) -> Result<Owned, HubError> {
        self.belongs_to(&resource.hub)?;
        resource.owned(self.taken)
    }

    /// The block of this pool.
    ///
    /// # Errors
    /// As [`owned`](Self::owned).
    pub fn block(self, pool: &Pool) -> Result<Block, HubError> {
        self.belongs_to(&pool.hub)?;
        pool.block(self.taken)
    }
}
