//! Reference model of the hubs: records replies to tasks and checks the invariants.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_hub::{Outcome, Taken};

/// Value sent through a hub; each is sent only once.
pub(super) type Value = u64;

/// A hub in one life of its node: node, life, hub.
pub(super) type HubLife = (usize, u32, u32);

/// Operation of a task: numbers of the task and of the operation.
pub(super) type OperationId = (u64, u32);

/// A request without a final answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) operation_id: OperationId,
    pub(super) hub: HubLife,
    pub(super) priority: u8,
    pub(super) gets: bool,
    pub(super) tentative: bool,
    pub(super) port: bool,
    /// First value that it puts, and the number of values.
    pub(super) values: Option<(Value, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct OperationModel {
    pub(super) open: BTreeMap<(u64, u32), Open>,
    /// Priorities of requests in flight to a node.
    arriving: BTreeMap<(u64, u32), u8>,
    done: BTreeSet<OperationId>,
    /// Accepted values of each hub, in order.
    pub(super) accepted: BTreeMap<HubLife, Vec<Value>>,
    pub(super) delivered: BTreeSet<Value>,
    /// Values of requests that were unanswered when their tasks ended. The hub may have accepted some of
    /// them.
    unknown: BTreeSet<Value>,
    /// Number of units in each semaphore.
    pub(super) units: BTreeMap<HubLife, i64>,
    /// Task that holds each token of a hub.
    pub(super) held: BTreeMap<(HubLife, u64), u64>,
}

impl OperationModel {
    /// Records and checks an answer to a request. `lifted` is set if any task inherits a priority at the
    /// node.
    pub(super) fn check_answer(
        &mut self,
        key: (u64, u32),
        outcome: &Outcome,
        lifted: bool,
    ) -> Result<(), String> {
        if !outcome.is_final() {
            return Ok(());
        }
        let Some(open) = self.open.remove(&key) else { return Ok(()) };
        let taken = match outcome {
            Outcome::Done(taken) => taken,
            Outcome::Partial { put, .. } => {
                self.accept(&open, u64::from(*put));
                return Ok(());
            }
            _ => return Ok(()),
        };
        if !self.done.insert(open.operation_id) {
            return Err(format!("operation {:?} was done twice", open.operation_id));
        }
        self.check_priority(&open, lifted)?;
        match taken {
            Taken::Put => {
                *self.units.entry(open.hub).or_default() += 1;
                self.accept(&open, u64::MAX);
            }
            Taken::Value(bytes) => self.deliver(bytes)?,
            Taken::Values(values) => values.iter().try_for_each(|value| self.deliver(value))?,
            Taken::Unit => *self.units.entry(open.hub).or_default() -= 1,
            Taken::Block { token, .. } => drop(self.held.insert((open.hub, *token), key.0)),
        }
        Ok(())
    }

    /// Records that the hub accepted the first `most` values of a request.
    fn accept(&mut self, open: &Open, most: u64) {
        if let Some((first, count)) = open.values {
            self.accepted.entry(open.hub).or_default().extend(first..first + count.min(most));
        }
    }

    fn deliver(&mut self, bytes: &[u8]) -> Result<(), String> {
        let value = Value::from_le_bytes(bytes.try_into().map_err(|_| "a value of another length")?);
        if self.delivered.insert(value) { Ok(()) } else { Err(format!("value {value} was delivered twice")) }
    }

    /// Compares the values taken out of a hub with the expected ones, in any order.
    pub(super) fn check_no_value_left(&self, hub: HubLife, taken: &[Value]) -> Result<(), String> {
        let known = |value: &&Value| !self.unknown.contains(value);
        let taken: BTreeSet<Value> = taken.iter().filter(known).copied().collect();
        let left: BTreeSet<Value> = self.remaining_values(hub).into_iter().collect();
        if taken == left { Ok(()) } else { Err(format!("{taken:?} are in {hub:?}, and should be {left:?}")) }
    }

    /// Checks that no waiting request had a higher priority than the one served. Ports are exempt: there a
    /// pair may have been matched before the others arrived.
    fn check_priority(&self, served: &Open, lifted: bool) -> Result<(), String> {
        let passed = self.open.values().find(|open| {
            (open.hub, open.gets) == (served.hub, served.gets)
                && !open.tentative
                && open.priority > served.priority
        });
        match passed {
            Some(passed) if !lifted && !served.tentative && served.gets && !served.port => Err(format!(
                "a request of priority {} was served before one of priority {}",
                served.priority, passed.priority
            )),
            _ => Ok(()),
        }
    }

    /// Records a request in flight. Its priority does not count until it arrives at the node.
    pub(super) fn arriving(&mut self, task: u64, number: u32, priority: u8) {
        self.arriving.insert((task, number), priority);
    }

    /// Records that a request arrived at its node.
    pub(super) fn arrived(&mut self, task: u64, number: u32) {
        if let Some(priority) = self.arriving.remove(&(task, number))
            && let Some(open) = self.open.get_mut(&(task, number))
        {
            open.priority = priority;
        }
    }

    /// Removes the requests and tokens of a task that ended.
    pub(super) fn ended(&mut self, task: u64) {
        let ended = self.open.iter().filter(|((of, _), _)| *of == task);
        let values =
            ended.filter_map(|(_, open)| open.values).flat_map(|(first, count)| first..first + count);
        self.unknown.extend(values);
        self.open.retain(|(of, _), _| *of != task);
        self.arriving.retain(|(of, _), _| *of != task);
        self.held.retain(|_, holder| *holder != task);
    }

    /// Removes all hubs of a lost node.
    pub(super) fn lost(&mut self, node: usize, life: u32) {
        let there = |hub: &HubLife| hub.0 == node && hub.1 == life;
        self.open.retain(|_, open| !there(&open.hub));
        self.accepted.retain(|hub, _| !there(hub));
        self.units.retain(|hub, _| !there(hub));
        self.held.retain(|(hub, _), _| !there(hub));
    }

    /// Lists the values that a hub must contain, in order.
    pub(super) fn remaining_values(&self, hub: HubLife) -> Vec<Value> {
        let accepted = self.accepted.get(&hub).into_iter().flatten();
        accepted.filter(|value| !self.delivered.contains(value)).copied().collect()
    }
}
