//! State machine of one scope.

mod barriers;
mod locks;
mod records;
mod semaphores;
#[cfg(test)]
mod tests;
mod waits;
mod watches;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use tombolo_base::DomainId;

use crate::limits::Limits;
use crate::name::NaturalName;

use crate::name_faults::NameFault;
use crate::names::{Answer, Notice, ObjectInfo, Operation};
use barriers::{Barrier, BarrierPlace};
use locks::Lock;
use records::StoredRecord;
use semaphores::{Permit, Semaphore};
use waits::{Index, Wait, WaitFor};
use watches::Watch;

/// Point in time, in nanoseconds from an arbitrary origin.
pub type Nanos = u64;

/// Connection of a client, whose end is known by evidence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Session(pub u64);

/// Key of a pending request of a session.
type WaitKey = (Session, u32);

/// Resources that a session holds in this scope.
#[derive(Debug)]
struct SessionState {
    domain: DomainId,
    records: BTreeSet<String>,
    watches: BTreeSet<u64>,
    waits: BTreeSet<u32>,
    locks: BTreeSet<String>,
    permits: BTreeSet<u64>,
    places: BTreeSet<u64>,
    /// Size of the notices in transit to it, in bytes.
    notice_bytes: usize,
}

impl SessionState {
    fn holdings(&self) -> usize {
        self.locks.len() + self.permits.len() + self.places.len()
    }
}

/// Message to be sent to a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Answer to a request.
    Answer {
        /// Session that sent the request.
        session: Session,
        /// Number of the request.
        request: u32,
        /// Answer or fault.
        result: Result<Answer, NameFault>,
    },
    /// Report of a watch.
    Notice {
        /// Session that watches.
        session: Session,
        /// Contents of the report.
        notice: Notice,
    },
    /// Withdrawal of an exported name.
    Withdrawn {
        /// Name that is no longer exported.
        name: String,
    },
}

/// Exporter of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// Session that exports the name.
    pub session: Session,
    /// Domain of that session.
    pub domain: DomainId,
    /// Number of the export within the session.
    pub listener: u32,
}

/// Names of a node or a machine, and all state attached to them.
#[derive(Debug)]
pub struct Naming {
    limits: Limits,
    /// Increases with every change. Versions, fencing tokens and the numbers of watches, permits and places
    /// are values of this counter, so they are never reused.
    revision: u64,
    sessions: BTreeMap<Session, SessionState>,
    records: BTreeMap<NaturalName, StoredRecord>,
    store_bytes: usize,
    watches: BTreeMap<u64, Watch>,
    watch_index: Index<u64>,
    waits: BTreeMap<WaitKey, Wait>,
    await_index: Index<WaitKey>,
    deadlines: BTreeSet<(Nanos, WaitKey)>,
    locks: BTreeMap<String, Lock>,
    semaphores: BTreeMap<String, Semaphore>,
    permits: BTreeMap<u64, Permit>,
    barriers: BTreeMap<u64, Barrier>,
    /// Barrier that a name denotes for new parties.
    barrier_names: BTreeMap<String, u64>,
    places: BTreeMap<u64, BarrierPlace>,
    outputs: Vec<Output>,
}

impl Naming {
    /// Returns the sizes of all tables, by content, for leak checks. The bytes of records come last.
    #[must_use]
    pub fn resource_counts(&self) -> [(&'static str, usize); 12] {
        [
            ("sessions", self.sessions.len()),
            ("records", self.records.len()),
            ("watches", self.watches.len()),
            ("waits", self.waits.len()),
            ("deadlines", self.deadlines.len()),
            ("locks", self.locks.len()),
            ("semaphores", self.semaphores.len()),
            ("permits", self.permits.len()),
            ("barriers", self.barriers.len()),
            ("names of barriers", self.barrier_names.len()),
            ("places at barriers", self.places.len()),
            ("bytes of records", self.store_bytes),
        ]
    }

    /// Creates an empty scope in this generation of its node. Numbers of a later generation exceed those of
    /// all earlier ones, so fencing tokens increase across restarts.
    #[must_use]
    pub fn new(limits: Limits, generation: u16) -> Self {
        Naming {
            limits,
            revision: u64::from(generation) << 48,
            sessions: BTreeMap::new(),
            records: BTreeMap::new(),
            store_bytes: 0,
            watches: BTreeMap::new(),
            watch_index: Index::default(),
            waits: BTreeMap::new(),
            await_index: Index::default(),
            deadlines: BTreeSet::new(),
            locks: BTreeMap::new(),
            semaphores: BTreeMap::new(),
            permits: BTreeMap::new(),
            barriers: BTreeMap::new(),
            barrier_names: BTreeMap::new(),
            places: BTreeMap::new(),
            outputs: Vec::new(),
        }
    }

    /// Adds a session. Does nothing if it exists.
    pub fn open(&mut self, session: Session, domain: DomainId) {
        self.sessions.entry(session).or_insert_with(|| SessionState {
            domain,
            records: BTreeSet::new(),
            watches: BTreeSet::new(),
            waits: BTreeSet::new(),
            locks: BTreeSet::new(),
            permits: BTreeSet::new(),
            places: BTreeSet::new(),
            notice_bytes: 0,
        });
    }

    /// Closes a session: releases everything it held, and serves waiters for that.
    pub fn close(&mut self, session: Session) {
        let Some(state) = self.sessions.remove(&session) else { return };
        // Removes watches first, so that nothing is sent to the closed session.
        for watch in &state.watches {
            self.drop_watch(*watch);
        }
        let dropped: Vec<WaitFor> =
            state.waits.iter().filter_map(|request| self.drop_wait((session, *request))).collect();
        // Only after all of its requests are gone, so that released objects are not granted to the session
        // itself.
        for what in dropped {
            self.serve_queued_behind(&what);
        }
        for place in state.places {
            self.remove_party(place, state.domain, true);
        }
        for permit in state.permits {
            self.release_permit(permit);
        }
        for lock in &state.locks {
            self.release_lock(lock);
        }
        for name in state.records {
            self.remove_orphaned_record(&name);
        }
    }

    /// Handles a request. Request number 0 gets no answer, and so must not wait.
    pub fn request(&mut self, now: Nanos, session: Session, request: u32, operation: Operation) {
        let result = if self.sessions.contains_key(&session) {
            self.perform(now, (session, request), operation)
        } else {
            Err(NameFault::Refused { why: "attach to the monitor first".into() })
        };
        match result {
            Ok(Some(answer)) => self.answer((session, request), Ok(answer)),
            Ok(None) => {}
            Err(fault) => self.answer((session, request), Err(fault)),
        }
    }

    /// Executes a request. Returns `None` if it waits or gets no answer.
    fn perform(
        &mut self,
        now: Nanos,
        key: WaitKey,
        operation: Operation,
    ) -> Result<Option<Answer>, NameFault> {
        let (session, _) = key;
        let answer = match operation {
            Operation::Find { query, after, limit } => self.find(&query, &after, limit)?,
            Operation::Await { query, timeout } => return self.await_record(now, key, &query, timeout),
            Operation::Set { name, attributes, remove, mode, lifetime, condition, want_previous } => {
                let change = records::Change { attributes, remove, mode, lifetime };
                self.set(session, name, change, &condition, want_previous)?
            }
            Operation::Delete { name, condition, want_previous } => {
                self.delete(session, &name, &condition, want_previous)?
            }
            Operation::Watch { query, events, once, capacity } => {
                self.watch(session, &query, events, once, capacity)?
            }
            Operation::Taken { watch, count } => {
                self.acknowledge_notices(session, watch, count);
                return Ok(None);
            }
            Operation::Unwatch { watch } => self.unwatch(session, watch)?,
            Operation::Publish { name, attributes } => self.publish(session, name, attributes)?,
            Operation::Lock { name, timeout } => return self.lock(now, key, name, timeout),
            Operation::Unlock { name, token } => self.unlock(session, &name, token)?,
            Operation::Semaphore { name, permits } => self.create_semaphore(name, permits)?,
            Operation::Acquire { name, permits, timeout } => {
                return self.acquire(now, key, name, permits, timeout);
            }
            Operation::Release { permit, forget } => self.release(session, permit, forget)?,
            Operation::Post { name, permits } => self.post(&name, permits)?,
            Operation::RemoveSemaphore { name } => self.remove_semaphore(&name)?,
            Operation::Join { name, parties } => self.join(session, name, parties)?,
            Operation::Meet { place, timeout } => return self.meet(now, key, place, timeout),
            Operation::Leave { place } => self.leave(session, place)?,
            Operation::Cancel { request } => {
                self.cancel((session, request));
                return Ok(None);
            }
            Operation::Objects { after } => self.list_objects(&after),
        };
        Ok(Some(answer))
    }

    /// Returns when [`tick`](Self::tick) is due.
    #[must_use]
    pub fn next_tick(&self) -> Option<Nanos> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Expires the waits that are due.
    pub fn tick(&mut self, now: Nanos) {
        while let Some((at, key)) = self.deadlines.first().copied()
            && at <= now
        {
            self.fail_wait(key, false);
        }
    }

    /// Returns the messages to send since the last call, in order.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        core::mem::take(&mut self.outputs)
    }

    /// Returns the number of records that end with a session.
    #[must_use]
    pub fn records_of(&self, session: Session) -> usize {
        self.sessions.get(&session).map_or(0, |state| state.records.len())
    }

    fn answer(&mut self, (session, request): WaitKey, result: Result<Answer, NameFault>) {
        if request != 0 {
            self.outputs.push(Output::Answer { session, request, result });
        }
    }

    fn next_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    fn domain_of(&self, session: Session) -> Option<DomainId> {
        self.sessions.get(&session).map(|state| state.domain)
    }

    fn limit_fault(what: &str, limit: usize) -> NameFault {
        NameFault::Limit { what: what.into(), limit: limit as u64 }
    }

    /// Checks the limit on locks, semaphores and barriers.
    fn check_object_limit(&self) -> Result<(), NameFault> {
        if self.locks.len() + self.semaphores.len() + self.barriers.len() < self.limits.objects {
            return Ok(());
        }
        Err(Self::limit_fault("locks, semaphores and barriers", self.limits.objects))
    }

    /// Checks a session's limit on locks, permits and places.
    fn check_holdings_limit(&self, session: Session) -> Result<(), NameFault> {
        let held = self.sessions.get(&session).map_or(0, SessionState::holdings);
        if held < self.limits.holdings_per_session {
            return Ok(());
        }
        Err(Self::limit_fault(
            "locks, permits and barrier places held by this program",
            self.limits.holdings_per_session,
        ))
    }

    fn list_objects(&self, (kind, name): &(String, String)) -> Answer {
        let above = |object: &ObjectInfo| {
            (object.kind.as_str(), object.name.as_str()) > (kind.as_str(), name.as_str())
        };
        let barriers = self.barrier_names.keys().map(|name| self.barrier_info(name));
        let locks = self.locks.keys().map(|name| self.lock_info(name));
        let semaphores = self.semaphores.keys().map(|name| self.semaphore_info(name));
        let mut rest = barriers.chain(locks).chain(semaphores).filter(above);
        let objects = rest.by_ref().take(self.limits.page_records).collect();
        Answer::Objects { objects, more: rest.next().is_some() }
    }
}
