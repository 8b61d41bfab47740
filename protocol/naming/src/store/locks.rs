//! Locks, granted in order of request. Each holder gets a fencing token larger than all earlier ones.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use core::time::Duration;

use super::waits::WaitFor;
use super::{Naming, Nanos, Session, WaitKey};
use crate::name::is_name;
use crate::name_faults::NameFault;
use crate::names::{Answer, ObjectInfo};
use crate::query::truncated;

/// Lock that is held. Free locks are not stored.
#[derive(Debug)]
pub(super) struct Lock {
    holder: WaitKey,
    token: u64,
    queue: VecDeque<WaitKey>,
}

impl Lock {
    pub(super) fn is_granted_to(&self, key: WaitKey) -> bool {
        self.holder == key
    }
}

impl Naming {
    pub(super) fn lock(
        &mut self,
        now: Nanos,
        key: WaitKey,
        name: String,
        timeout: Duration,
    ) -> Result<Option<Answer>, NameFault> {
        if !is_name(&name) {
            return Err(NameFault::BadName { name: truncated(&name) });
        }
        self.check_may_wait(key)?;
        self.check_holdings_limit(key.0)?;
        if self.locks.contains_key(&name) {
            if timeout.is_zero() {
                return Err(self.locked_fault(name));
            }
            if let Some(lock) = self.locks.get_mut(&name) {
                lock.queue.push_back(key);
            }
            self.wait(now, key, timeout, WaitFor::Lock { name });
            return Ok(None);
        }
        self.check_object_limit()?;
        let token = self.next_revision();
        self.locks.insert(name.clone(), Lock { holder: key, token, queue: VecDeque::new() });
        self.add_session_lock(key.0, &name);
        Ok(Some(Answer::Locked { token }))
    }

    fn add_session_lock(&mut self, session: Session, name: &str) {
        if let Some(state) = self.sessions.get_mut(&session) {
            state.locks.insert(name.to_string());
        }
    }

    /// Whether the lock is held with this token.
    pub(super) fn is_held(&self, name: &str, token: u64) -> bool {
        self.locks.get(name).is_some_and(|lock| lock.token == token)
    }

    pub(super) fn unlock(&mut self, session: Session, name: &str, token: u64) -> Result<Answer, NameFault> {
        if !self.locks.get(name).is_some_and(|lock| lock.holder.0 == session && lock.token == token) {
            return Err(NameFault::NotHeld { name: truncated(name) });
        }
        self.release_lock(name);
        Ok(Answer::Done)
    }

    /// Takes a lock from its holder and grants it to the next waiter.
    pub(super) fn release_lock(&mut self, name: &str) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        let (before, _) = lock.holder;
        let next = lock.queue.pop_front();
        if let Some(state) = self.sessions.get_mut(&before) {
            state.locks.remove(name);
        }
        let Some(key) = next else {
            self.locks.remove(name);
            return;
        };
        let token = self.next_revision();
        if let Some(lock) = self.locks.get_mut(name) {
            (lock.holder, lock.token) = (key, token);
        }
        self.add_session_lock(key.0, name);
        self.remove_wait(key);
        self.answer(key, Ok(Answer::Locked { token }));
    }

    pub(super) fn leave_lock_queue(&mut self, name: &str, key: WaitKey) {
        if let Some(lock) = self.locks.get_mut(name) {
            lock.queue.retain(|waiting| *waiting != key);
        }
    }

    /// Returns the fault of a request that did not get a lock.
    pub(super) fn locked_fault(&self, name: String) -> NameFault {
        let holder = self.locks.get(&name).and_then(|lock| self.domain_of(lock.holder.0));
        match holder {
            Some(holder) => NameFault::Locked { name, holder },
            None => NameFault::NotHeld { name },
        }
    }

    pub(super) fn lock_info(&self, name: &str) -> ObjectInfo {
        let lock = self.locks.get(name);
        ObjectInfo {
            kind: "lock".into(),
            name: name.to_string(),
            holders: lock.and_then(|lock| self.domain_of(lock.holder.0)).into_iter().collect(),
            count: lock.map_or(0, |lock| lock.token),
            waiting: lock.map_or(0, |lock| lock.queue.len() as u32),
        }
    }
}
