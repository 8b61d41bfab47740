//! What tasks were told, and what must hold of it.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_hub::{Outcome, Taken};

/// A value: no two that are sent are the same.
pub(super) type Value = u64;

/// A hub in one life of its node.
pub(super) type HubLife = (usize, u32, u32);

/// An operation of a task: the number of the task and of the operation.
pub(super) type Deed = (u64, u32);

/// A request that a node has and has not answered for good.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) deed: Deed,
    pub(super) hub: HubLife,
    pub(super) priority: u8,
    pub(super) gets: bool,
    pub(super) tentative: bool,
    pub(super) port: bool,
    /// The first value that it puts, and how many.
    pub(super) values: Option<(Value, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) open: BTreeMap<(u64, u32), Open>,
    /// Requests that are on their way to a node, with their priorities.
    arriving: BTreeMap<(u64, u32), u8>,
    done: BTreeSet<Deed>,
    /// Values in order of acceptance, by hub.
    pub(super) accepted: BTreeMap<HubLife, Vec<Value>>,
    pub(super) delivered: BTreeSet<Value>,
    /// Values of requests that were not answered when their tasks ended. Of several at once some may be in.
    unknown: BTreeSet<Value>,
    /// Units that are in a hub.
    pub(super) units: BTreeMap<HubLife, i64>,
    /// Tokens by hub, with the task that holds each.
    pub(super) held: BTreeMap<(HubLife, u64), u64>,
}

impl Book {
    /// A node answered a request. `lifted` says that some task inherits a priority there.
    pub(super) fn hear(&mut self, key: (u64, u32), outcome: &Outcome, lifted: bool) -> Result<(), String> {
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
        if !self.done.insert(open.deed) {
            return Err(format!("operation {:?} was done twice", open.deed));
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

    /// The first values of a request, or all of them, are in the hub.
    fn accept(&mut self, open: &Open, most: u64) {
        if let Some((first, count)) = open.values {
            self.accepted.entry(open.hub).or_default().extend(first..first + count.min(most));
        }
    }

    fn deliver(&mut self, bytes: &[u8]) -> Result<(), String> {
        let value = Value::from_le_bytes(bytes.try_into().map_err(|_| "a value of another length")?);
        if self.delivered.insert(value) { Ok(()) } else { Err(format!("value {value} was delivered twice")) }
    }

    /// Compares what was taken out of a hub with what is to be in it, in any order.
    pub(super) fn check_left(&self, hub: HubLife, taken: &[Value]) -> Result<(), String> {
        let known = |value: &&Value| !self.unknown.contains(value);
        let taken: BTreeSet<Value> = taken.iter().filter(known).copied().collect();
        let left: BTreeSet<Value> = self.left(hub).into_iter().collect();
        if taken == left { Ok(()) } else { Err(format!("{taken:?} are in {hub:?}, and should be {left:?}")) }
    }

    /// The one that got something was at least as urgent as the others that waited for it. At a port a pair
    /// that is claimed late was formed before others came.
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

    /// A task has sent a request; it counts for nothing until its node has it.
    pub(super) fn arriving(&mut self, task: u64, number: u32, priority: u8) {
        self.arriving.insert((task, number), priority);
    }

    /// A node has the request.
    pub(super) fn arrived(&mut self, task: u64, number: u32) {
        if let Some(priority) = self.arriving.remove(&(task, number))
            && let Some(open) = self.open.get_mut(&(task, number))
        {
            open.priority = priority;
        }
    }

    /// A task ended: what it waited for and held.
    pub(super) fn ended(&mut self, task: u64) {
        let ended = self.open.iter().filter(|((of, _), _)| *of == task);
        let values =
            ended.filter_map(|(_, open)| open.values).flat_map(|(first, count)| first..first + count);
        self.unknown.extend(values);
        self.open.retain(|(of, _), _| *of != task);
        self.arriving.retain(|(of, _), _| *of != task);
        self.held.retain(|_, holder| *holder != task);
    }

    /// A node was lost, with all of its hubs.
    pub(super) fn lost(&mut self, node: usize, life: u32) {
        let there = |hub: &HubLife| hub.0 == node && hub.1 == life;
        self.open.retain(|_, open| !there(&open.hub));
        self.accepted.retain(|hub, _| !there(hub));
        self.units.retain(|hub, _| !there(hub));
        self.held.retain(|(hub, _), _| !there(hub));
    }

    /// The values that are to be in a hub, in order.
    pub(super) fn left(&self, hub: HubLife) -> Vec<Value> {
        let accepted = self.accepted.get(&hub).into_iter().flatten();
        accepted.filter(|value| !self.delivered.contains(value)).copied().collect()
    }
}
