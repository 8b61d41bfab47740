//! Semaphores. Permits are granted in order of request, and are released when their holder dies.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use core::time::Duration;

use super::waits::WaitFor;
use super::{Naming, Nanos, Session, WaitKey};
use crate::name::is_name;
use crate::name_faults::NameFault;
use crate::names::{Answer, ObjectInfo};
use crate::query::truncated;

/// Semaphore. It exists until it is removed.
#[derive(Debug)]
pub(super) struct Semaphore {
    /// Distinguishes it from an earlier semaphore with the same name.
    id: u64,
    pub(super) free: u32,
    pub(super) queue: VecDeque<(WaitKey, u32)>,
}

/// Permits held by a session.
#[derive(Debug)]
pub(super) struct Permit {
    session: Session,
    pub(super) request: u32,
    semaphore: String,
    id: u64,
    pub(super) count: u32,
}

impl Naming {
    pub(super) fn create_semaphore(&mut self, name: String, permits: u32) -> Result<Answer, NameFault> {
        if !is_name(&name) {
            return Err(NameFault::BadName { name: truncated(&name) });
        }
        if permits > self.limits.permits {
            return Err(Self::limit_fault("permits of a semaphore", self.limits.permits as usize));
        }
        if !self.semaphores.contains_key(&name) {
            self.check_object_limit()?;
            let id = self.next_revision();
            self.semaphores.insert(name, Semaphore { id, free: permits, queue: VecDeque::new() });
        }
        Ok(Answer::Done)
    }

    pub(super) fn acquire(
        &mut self,
        now: Nanos,
        key: WaitKey,
        name: String,
        count: u32,
        timeout: Duration,
    ) -> Result<Option<Answer>, NameFault> {
        self.check_may_wait(key)?;
        self.check_holdings_limit(key.0)?;
        if count == 0 || count > self.limits.permits {
            return Err(Self::limit_fault(
                "permits of a semaphore (1 or more)",
                self.limits.permits as usize,
            ));
        }
        let semaphore = self.semaphores.get_mut(&name);
        let semaphore = semaphore.ok_or_else(|| NameFault::NoSuchSemaphore { name: truncated(&name) })?;
        // Later requests do not overtake, even if there are enough permits for them.
        if semaphore.queue.is_empty() && semaphore.free >= count {
            semaphore.free -= count;
            let permit = self.grant_permit(key, &name, count);
            return Ok(Some(Answer::Acquired { permit }));
        }
        if timeout.is_zero() {
            return Err(NameFault::NoPermits { name });
        }
        semaphore.queue.push_back((key, count));
        self.wait(now, key, timeout, WaitFor::Permits { name });
        Ok(None)
    }

    fn grant_permit(&mut self, (session, request): WaitKey, name: &str, count: u32) -> u64 {
        let permit = self.next_revision();
        let id = self.semaphores.get(name).map_or(0, |semaphore| semaphore.id);
        self.permits.insert(permit, Permit { session, request, semaphore: name.to_string(), id, count });
        if let Some(state) = self.sessions.get_mut(&session) {
            state.permits.insert(permit);
        }
        permit
    }

    pub(super) fn release(
        &mut self,
        session: Session,
        permit: u64,
        forget: bool,
    ) -> Result<Answer, NameFault> {
        match self.permits.get(&permit) {
            Some(held) if held.session == session && forget => {
                self.permits.remove(&permit);
                if let Some(state) = self.sessions.get_mut(&session) {
                    state.permits.remove(&permit);
                }
            }
            Some(held) if held.session == session => self.release_permit(permit),
            _ => return Err(NameFault::NotHeld { name: alloc::format!("permit {permit}") }),
        }
        Ok(Answer::Done)
    }

    pub(super) fn release_permit(&mut self, permit: u64) {
        let Some(held) = self.permits.remove(&permit) else { return };
        if let Some(state) = self.sessions.get_mut(&held.session) {
            state.permits.remove(&permit);
        }
        // It may have been removed meanwhile, and another one created with its name.
        if let Some(semaphore) =
            self.semaphores.get_mut(&held.semaphore).filter(|semaphore| semaphore.id == held.id)
        {
            semaphore.free = semaphore.free.saturating_add(held.count).min(self.limits.permits);
            self.serve_semaphore(&held.semaphore);
        }
    }

    pub(super) fn post(&mut self, name: &str, permits: u32) -> Result<Answer, NameFault> {
        let max_permits = self.limits.permits;
        let semaphore = self.semaphores.get_mut(name);
        let semaphore = semaphore.ok_or_else(|| NameFault::NoSuchSemaphore { name: truncated(name) })?;
        let free = semaphore.free.checked_add(permits).filter(|free| *free <= max_permits);
        semaphore.free =
            free.ok_or_else(|| Self::limit_fault("permits of a semaphore", max_permits as usize))?;
        self.serve_semaphore(name);
        Ok(Answer::Done)
    }

    /// Grants permits to the longest waiters while semaphore are enough.
    pub(super) fn serve_semaphore(&mut self, name: &str) {
        while let Some(semaphore) = self.semaphores.get_mut(name)
            && let Some((key, count)) = semaphore.queue.front().copied()
            && semaphore.free >= count
        {
            semaphore.free -= count;
            semaphore.queue.pop_front();
            self.remove_wait(key);
            let permit = self.grant_permit(key, name, count);
            self.answer(key, Ok(Answer::Acquired { permit }));
        }
    }

    pub(super) fn leave_semaphore_queue(&mut self, name: &str, key: WaitKey) {
        if let Some(semaphore) = self.semaphores.get_mut(name) {
            semaphore.queue.retain(|(waiting, _)| *waiting != key);
        }
    }

    pub(super) fn remove_semaphore(&mut self, name: &str) -> Result<Answer, NameFault> {
        let semaphore = self.semaphores.remove(name);
        let semaphore = semaphore.ok_or_else(|| NameFault::NoSuchSemaphore { name: truncated(name) })?;
        for (key, _) in semaphore.queue {
            self.remove_wait(key);
            self.answer(key, Err(NameFault::NoSuchSemaphore { name: name.to_string() }));
        }
        Ok(Answer::Done)
    }

    pub(super) fn semaphore_info(&self, name: &str) -> ObjectInfo {
        let semaphore = self.semaphores.get(name);
        let id = semaphore.map_or(0, |semaphore| semaphore.id);
        let holders = self.permits.values().filter(|permit| permit.id == id && permit.semaphore == name);
        ObjectInfo {
            kind: "semaphore".into(),
            name: name.to_string(),
            holders: holders.filter_map(|permit| self.domain_of(permit.session)).take(64).collect(),
            count: semaphore.map_or(0, |semaphore| semaphore.free.into()),
            waiting: semaphore.map_or(0, |semaphore| semaphore.queue.len() as u32),
        }
    }
}
