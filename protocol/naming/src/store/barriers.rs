//! Barriers at which a number of parties meet repeatedly. A party that dies or leaves breaks the barrier for
//! the others.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use tombolo_base::DomainId;

use super::waits::WaitFor;
use super::{Naming, Nanos, Session, WaitKey};
use crate::name::is_name;
use crate::name_faults::NameFault;
use crate::names::{Answer, ObjectInfo};
use crate::query::truncated;

/// Barrier. It exists while any party has a place at it.
#[derive(Debug)]
pub(super) struct Barrier {
    name: String,
    parties: u32,
    /// Places, each with the request that waits there.
    members: BTreeMap<u64, Option<WaitKey>>,
    /// Whether all parties have joined.
    complete: bool,
    meetings: u64,
    /// Domain that broke the barrier, and whether it did so by dying.
    broken: Option<(DomainId, bool)>,
}

/// Place of a session at a barrier.
#[derive(Debug)]
pub(super) struct BarrierPlace {
    session: Session,
    barrier: u64,
}

impl Barrier {
    fn waiting(&self) -> u32 {
        self.members.values().flatten().count() as u32
    }
}

impl Naming {
    pub(super) fn join(&mut self, session: Session, name: String, parties: u32) -> Result<Answer, NameFault> {
        if !is_name(&name) {
            return Err(NameFault::BadName { name: truncated(&name) });
        }
        if parties == 0 || parties > self.limits.parties {
            return Err(Self::limit_fault("parties of a barrier (1 or more)", self.limits.parties as usize));
        }
        self.check_holdings_limit(session)?;
        let id = match self.barrier_names.get(&name).copied() {
            Some(id) => id,
            None => {
                self.check_object_limit()?;
                let id = self.next_revision();
                let barrier = Barrier {
                    name: name.clone(),
                    parties,
                    members: BTreeMap::new(),
                    complete: false,
                    meetings: 0,
                    broken: None,
                };
                self.barriers.insert(id, barrier);
                self.barrier_names.insert(name.clone(), id);
                id
            }
        };
        let place = self.next_revision();
        let Some(barrier) = self.barriers.get_mut(&id) else {
            return Err(NameFault::BarrierBroken { name, by: None, died: false });
        };
        if barrier.parties != parties {
            return Err(NameFault::BarrierDiffers { name, parties: barrier.parties });
        }
        if barrier.complete {
            return Err(NameFault::BarrierFull { name, parties });
        }
        barrier.members.insert(place, None);
        barrier.complete = barrier.members.len() as u32 == parties;
        self.places.insert(place, BarrierPlace { session, barrier: id });
        if let Some(state) = self.sessions.get_mut(&session) {
            state.places.insert(place);
        }
        Ok(Answer::Joined { place })
    }

    /// Returns the barrier at which a session has a place.
    fn barrier_of(&mut self, session: Session, place: u64) -> Result<&mut Barrier, NameFault> {
        let not_held = || NameFault::NotHeld { name: alloc::format!("barrier place {place}") };
        let id = self.places.get(&place).filter(|held| held.session == session).ok_or_else(not_held)?.barrier;
        self.barriers.get_mut(&id).ok_or_else(not_held)
    }

    pub(super) fn meet(
        &mut self,
        now: Nanos,
        key: WaitKey,
        place: u64,
        timeout: Duration,
    ) -> Result<Option<Answer>, NameFault> {
        self.check_may_wait(key)?;
        let barrier = self.barrier_of(key.0, place)?;
        if let Some((by, died)) = barrier.broken {
            return Err(NameFault::BarrierBroken { name: barrier.name.clone(), by: Some(by), died });
        }
        if barrier.members.get(&place).is_some_and(Option::is_some) {
            return Err(NameFault::Refused { why: "this place at the barrier waits already".into() });
        }
        let arrived = barrier.waiting();
        if arrived + 1 < barrier.parties {
            if timeout.is_zero() {
                let (name, parties) = (barrier.name.clone(), barrier.parties);
                return Err(NameFault::BarrierTimeout { name, arrived, parties });
            }
            barrier.members.insert(place, Some(key));
            self.wait(now, key, timeout, WaitFor::Meeting { place });
            return Ok(None);
        }
        barrier.meetings += 1;
        let generation = barrier.meetings;
        let others: Vec<WaitKey> = barrier.members.values_mut().filter_map(Option::take).collect();
        for other in others {
            self.remove_wait(other);
            self.answer(other, Ok(Answer::Met { generation, leader: false }));
        }
        Ok(Some(Answer::Met { generation, leader: true }))
    }

    pub(super) fn leave(&mut self, session: Session, place: u64) -> Result<Answer, NameFault> {
        self.barrier_of(session, place)?;
        if let Some(domain) = self.domain_of(session) {
            self.remove_party(place, domain, false);
        }
        Ok(Answer::Done)
    }

    /// Handles a party that left or died. While others may still join, a party that left is simply removed;
    /// otherwise the barrier breaks.
    pub(super) fn remove_party(&mut self, place: u64, domain: DomainId, died: bool) {
        let Some(BarrierPlace { session, barrier: id }) = self.places.remove(&place) else { return };
        if let Some(state) = self.sessions.get_mut(&session) {
            state.places.remove(&place);
        }
        let Some(barrier) = self.barriers.get_mut(&id) else { return };
        // The party's own request ends with it.
        let mut ended: Vec<WaitKey> = barrier.members.remove(&place).flatten().into_iter().collect();
        if barrier.complete || died {
            barrier.broken.get_or_insert((domain, died));
            ended.extend(barrier.members.values_mut().filter_map(Option::take));
        }
        let name = barrier.name.clone();
        let is_closed = barrier.broken.is_some() || barrier.members.is_empty();
        if is_closed && self.barrier_names.get(&name) == Some(&id) {
            self.barrier_names.remove(&name);
        }
        if self.barriers.get(&id).is_some_and(|barrier| barrier.members.is_empty()) {
            self.barriers.remove(&id);
        }
        for key in ended {
            self.remove_wait(key);
            let fault = NameFault::BarrierBroken { name: name.clone(), by: Some(domain), died };
            self.answer(key, Err(fault));
        }
    }

    /// Keeps the place, but ends its wait.
    pub(super) fn cancel_barrier_wait(&mut self, place: u64) {
        let id = self.places.get(&place).map(|held| held.barrier);
        if let Some(barrier) = id.and_then(|id| self.barriers.get_mut(&id))
            && let Some(waiting) = barrier.members.get_mut(&place)
        {
            *waiting = None;
        }
    }

    /// Returns the reason why the wait of a party failed.
    pub(super) fn barrier_wait_fault(&self, place: u64) -> NameFault {
        let id = self.places.get(&place).map(|held| held.barrier);
        match id.and_then(|id| self.barriers.get(&id)) {
            Some(barrier) => NameFault::BarrierTimeout {
                name: barrier.name.clone(),
                arrived: barrier.waiting(),
                parties: barrier.parties,
            },
            None => NameFault::NotHeld { name: alloc::format!("barrier place {place}") },
        }
    }

    pub(super) fn barrier_info(&self, name: &str) -> ObjectInfo {
        let barrier = self.barrier_names.get(name).and_then(|id| self.barriers.get(id));
        let places = barrier.into_iter().flat_map(|barrier| barrier.members.keys());
        let session =
            |place| self.places.get(place).and_then(|held: &BarrierPlace| self.domain_of(held.session));
        ObjectInfo {
            kind: "barrier".into(),
            name: name.to_string(),
            holders: places.filter_map(session).take(64).collect(),
            count: barrier.map_or(0, |barrier| barrier.meetings),
            waiting: barrier.map_or(0, Barrier::waiting),
        }
    }
}
