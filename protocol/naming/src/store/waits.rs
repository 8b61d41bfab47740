//! Pending requests, and an index of those to check when a record changes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::{Naming, Nanos, Session, WaitKey};
use crate::name_faults::NameFault;
use crate::names::Answer;
use crate::query::{Matcher, truncated};
use crate::records::Query;

/// Condition that a request waits for.
#[derive(Debug)]
pub(super) enum WaitFor {
    /// A record that matches.
    Record { query: String, matcher: Matcher },
    /// A lock.
    Lock { name: String },
    /// Permits of a semaphore.
    Permits { name: String },
    /// The other parties of a barrier.
    Meeting { place: u64 },
}

/// Pending request.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) deadline: Nanos,
    pub(super) what: WaitFor,
}

/// Index from names to interested parties: exact names, and patterns to be tried.
#[derive(Debug)]
pub(super) struct Index<T> {
    exact: BTreeMap<String, BTreeSet<T>>,
    patterns: BTreeSet<T>,
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        Index { exact: BTreeMap::new(), patterns: BTreeSet::new() }
    }
}

impl<T: Ord + Copy> Index<T> {
    pub(super) fn add(&mut self, matcher: &Matcher, key: T) {
        match matcher.exact() {
            Some(name) => self.exact.entry(name.into()).or_default().insert(key),
            None => self.patterns.insert(key),
        };
    }

    pub(super) fn remove(&mut self, matcher: &Matcher, key: T) {
        let Some(name) = matcher.exact() else {
            self.patterns.remove(&key);
            return;
        };
        if let Some(keys) = self.exact.get_mut(name) {
            keys.remove(&key);
            if keys.is_empty() {
                self.exact.remove(name);
            }
        }
    }

    /// Returns the parties interested in a name, in the order of their keys.
    pub(super) fn candidates(&self, name: &str) -> Vec<T> {
        let mut keys: Vec<T> =
            self.exact.get(name).into_iter().flatten().chain(&self.patterns).copied().collect();
        keys.sort_unstable();
        keys
    }
}

impl Naming {
    /// Checks whether a request may wait, before anything has changed.
    pub(super) fn check_may_wait(&self, (session, request): WaitKey) -> Result<(), NameFault> {
        let waits = self.sessions.get(&session).map(|state| &state.waits);
        if request == 0 || waits.is_some_and(|waits| waits.contains(&request)) {
            let why = "a request that waits needs a number of its own".to_string();
            return Err(NameFault::Refused { why });
        }
        if waits.is_some_and(|waits| waits.len() >= self.limits.waits_per_session) {
            return Err(Self::limit_fault(
                "requests of this program that wait",
                self.limits.waits_per_session,
            ));
        }
        Ok(())
    }

    /// Suspends a request, after [`check_may_wait`](Self::check_may_wait) permitted it.
    pub(super) fn wait(&mut self, now: Nanos, key: WaitKey, timeout: Duration, what: WaitFor) {
        let deadline = now.saturating_add(Nanos::try_from(timeout.as_nanos()).unwrap_or(Nanos::MAX));
        if let Some(state) = self.sessions.get_mut(&key.0) {
            state.waits.insert(key.1);
        }
        if let WaitFor::Record { matcher, .. } = &what {
            self.await_index.add(matcher, key);
        }
        self.deadlines.insert((deadline, key));
        self.waits.insert(key, Wait { deadline, what });
    }

    /// Removes a request from the pending ones.
    pub(super) fn remove_wait(&mut self, key: WaitKey) -> Option<WaitFor> {
        let wait = self.waits.remove(&key)?;
        self.deadlines.remove(&(wait.deadline, key));
        if let Some(state) = self.sessions.get_mut(&key.0) {
            state.waits.remove(&key.1);
        }
        if let WaitFor::Record { matcher, .. } = &wait.what {
            self.await_index.remove(matcher, key);
        }
        Some(wait.what)
    }

    /// Serves requests that queued behind one that has stopped waiting and may have wanted more than they do.
    pub(super) fn serve_queued_behind(&mut self, what: &WaitFor) {
        if let WaitFor::Permits { name } = what {
            self.serve_semaphore(name);
        }
    }

    /// Removes a pending request without an answer and without serving others yet.
    pub(super) fn drop_wait(&mut self, key: WaitKey) -> Option<WaitFor> {
        let what = self.remove_wait(key)?;
        match &what {
            WaitFor::Record { .. } => {}
            WaitFor::Lock { name } => self.leave_lock_queue(name, key),
            WaitFor::Permits { name } => self.leave_semaphore_queue(name, key),
            WaitFor::Meeting { place } => self.cancel_barrier_wait(*place),
        }
        Some(what)
    }

    /// Handles a request that timed out or was cancelled.
    pub(super) fn fail_wait(&mut self, key: WaitKey, cancelled: bool) {
        let Some(what) = self.drop_wait(key) else { return };
        self.serve_queued_behind(&what);
        let fault = match what {
            _ if cancelled => NameFault::Cancelled,
            WaitFor::Record { query, .. } => NameFault::NoSuchName { name: query },
            WaitFor::Lock { name } => self.locked_fault(name),
            WaitFor::Permits { name } => NameFault::NoPermits { name },
            WaitFor::Meeting { place } => self.barrier_wait_fault(place),
        };
        self.answer(key, Err(fault));
    }

    /// Cancels a request. Anything that it was granted meanwhile is returned too, because the client no
    /// longer listens.
    pub(super) fn cancel(&mut self, key: WaitKey) {
        if self.waits.contains_key(&key) {
            return self.fail_wait(key, true);
        }
        let Some(state) = self.sessions.get(&key.0) else { return };
        let given = |name: &&String| self.locks.get(*name).is_some_and(|lock| lock.is_granted_to(key));
        let lock = state.locks.iter().find(given).cloned();
        let given = |id: &&u64| self.permits.get(*id).is_some_and(|permit| permit.request == key.1);
        let permit = state.permits.iter().find(given).copied();
        if let Some(name) = lock {
            self.release_lock(&name);
        }
        if let Some(permit) = permit {
            self.release_permit(permit);
        }
    }

    pub(super) fn await_record(
        &mut self,
        now: Nanos,
        key: WaitKey,
        query: &Query,
        timeout: Duration,
    ) -> Result<Option<Answer>, NameFault> {
        self.check_may_wait(key)?;
        let matcher = query.compile(&self.limits)?;
        let text = truncated(&query.to_string());
        let (mut records, next) = self.page(&matcher, "", 1).map_err(|_| too_costly(&text))?;
        if let Some(record) = records.pop() {
            return Ok(Some(Answer::There { record }));
        }
        // A record that was not searched may match, and no later change would report it.
        if next.is_some() {
            return Err(too_costly(&text));
        }
        if timeout.is_zero() {
            return Err(NameFault::NoSuchName { name: text });
        }
        self.wait(now, key, timeout, WaitFor::Record { query: text, matcher });
        Ok(None)
    }

    /// Answers the requests that wait for a record like the one that was set.
    pub(super) fn serve_awaiting(&mut self, name: &str) {
        for key in self.await_index.candidates(name) {
            let Some(Wait { what: WaitFor::Record { query, matcher }, .. }) = self.waits.get(&key) else {
                continue;
            };
            let Some(record) = self.record(name) else { return };
            let result =
                match matcher.matches(name, &record.attributes, &mut { self.limits.steps_per_record }) {
                    Ok(false) => continue,
                    Ok(true) => Ok(Answer::There { record }),
                    Err(_) => Err(too_costly(query)),
                };
            self.remove_wait(key);
            self.answer(key, result);
        }
    }
}

pub(super) fn too_costly(query: &str) -> NameFault {
    NameFault::TooCostly { query: query.to_string() }
}

impl Session {
    /// Returns the session of a client, given its node and the number of its connection there.
    #[must_use]
    pub fn from_client(node: tombolo_base::NodeId, connection: u32) -> Session {
        Session(u64::from(node.0) << 32 | u64::from(connection))
    }

    /// Returns the node and connection number of a client; the inverse of [`from_client`](Self::from_client).
    #[must_use]
    pub fn client(self) -> (tombolo_base::NodeId, u32) {
        (tombolo_base::NodeId((self.0 >> 32) as u16), self.0 as u32)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::Limits;
    use crate::text::parse_query;

    #[test]
    fn index_keeps_no_removed_keys() {
        let limits = Limits::default();
        let [exact, pattern] = ["a", "a*"].map(|text| parse_query(text).unwrap().compile(&limits).unwrap());
        let mut index = Index::default();
        index.add(&pattern, 1);
        index.add(&exact, 3);
        index.add(&exact, 2);
        assert_eq!((index.candidates("a"), index.candidates("ab")), (Vec::from([1, 2, 3]), Vec::from([1])));
        index.remove(&exact, 2);
        assert_eq!(index.candidates("a"), [1, 3]);
        index.remove(&exact, 3);
        index.remove(&pattern, 1);
        assert_eq!(index.candidates("a"), []);
        assert!(index.exact.is_empty() && index.patterns.is_empty());
    }

    #[test]
    fn session_converts_to_and_from_its_client() {
        for (node, connection) in [(0, 0), (3, 7), (u16::MAX, u32::MAX)] {
            let node = tombolo_base::NodeId(node);
            assert_eq!(Session::from_client(node, connection).client(), (node, connection));
        }
    }
}
