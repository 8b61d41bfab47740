//! Revocations: their effects, deadlines and replies.

use std::collections::BTreeSet;

use tombolo_base::DomainId;
use tombolo_capability::{CapabilityFault, CapabilityId, MAX_NAMED_HOLDERS};
use tombolo_control::{Fault, Reply};
use tombolo_monitor_core::root::ClientId;

use super::{Capability, Granted, Revocation, RightsModel, SLACK_NS, queue_hang_up};

impl RightsModel {
    /// Finds a holder that `may_be_killed` and that an open revocation waits for. There is none once every
    /// holder has been told and killed.
    #[must_use]
    pub fn find_unkilled_holder(
        &self,
        may_be_killed: impl Fn(DomainId) -> bool,
    ) -> Option<(DomainId, CapabilityId)> {
        let held = self.revocations.iter().flat_map(|open| {
            let holders = open.pending.iter().filter_map(|number| self.granted.get(number));
            holders.map(|granted| (granted.holder, open.capability))
        });
        held.into_iter().find(|(holder, _)| may_be_killed(*holder))
    }

    pub(super) fn revoke(
        &mut self,
        asked: (ClientId, u32),
        by: DomainId,
        capability: CapabilityId,
        itself: bool,
    ) {
        let below = |(id, record): (&CapabilityId, &mut Capability)| {
            let marked = record.line.contains(&capability) && (itself || *id != capability);
            record.revoked |= marked;
            marked.then_some(*id)
        };
        let marked: BTreeSet<CapabilityId> = self.capabilities.iter_mut().filter_map(below).collect();
        let theirs = |granted: &Granted| {
            granted.line.contains(&capability) && (itself || granted.by != capability || granted.orphan)
        };
        let of: Vec<(u64, DomainId)> = self
            .granted
            .iter()
            .filter(|(_, granted)| theirs(granted))
            .map(|(number, granted)| (*number, granted.holder))
            .collect();
        let mapped: BTreeSet<u64> = of.iter().map(|(number, _)| *number).collect();
        for (number, granted) in self.granted.iter_mut().filter(|(number, _)| mapped.contains(number)) {
            queue_hang_up(&mut self.hang_ups, *number, granted);
        }
        self.revocations_ever += 1;
        self.revocations.push(Revocation {
            number: (by.node().0, self.revocations_ever),
            asked: Some(asked).filter(|(_, request)| *request != 0),
            capability,
            marked,
            pending: mapped.clone(),
            mapped,
            holders: of.into_iter().map(|(_, holder)| holder).collect(),
            at: (self.now, self.root_clock),
            jumped_back_ns: self.jumped_back_ns,
            removed: 0,
            complete: false,
            answered: false,
        });
        self.revocations.sort_by_key(|open| open.number);
        self.complete_what_can_be();
    }

    pub(super) fn complete_what_can_be(&mut self) {
        for index in 0..self.revocations.len() {
            let revocation = &mut self.revocations[index];
            if revocation.complete || !revocation.pending.is_empty() {
                continue;
            }
            revocation.complete = true;
            if !revocation.answered {
                self.due.extend(revocation.asked);
            }
            let marked: Vec<CapabilityId> = revocation.marked.iter().copied().collect();
            let before = self.capabilities.len();
            marked.into_iter().for_each(|capability| self.delete(capability));
            self.revocations[index].removed = (before - self.capabilities.len()) as u32;
        }
        self.revocations.retain(|open| !open.complete || (open.asked.is_some() && !open.answered));
    }

    /// Handles an agent's report that a mapping is gone.
    pub fn on_mapping_released(&mut self, node: u16, number: u64) {
        if self.granted.get(&number).is_none_or(|granted| granted.holder.node().0 != node) {
            return;
        }
        if !self.maps.is_released(number) {
            let mapped = self.maps.mapped_as(number);
            let what = format!("node {node} says that mapping {number} is let go, and it is not: {mapped:?}");
            self.fail(what);
        }
        self.remove_mapping(number);
        self.complete_what_can_be();
    }

    pub(super) fn remove_mapping(&mut self, number: u64) {
        self.maps.forget(number);
        let Some(granted) = self.granted.remove(&number) else { return };
        for revocation in &mut self.revocations {
            revocation.pending.remove(&number);
        }
        self.drop_unused_parts();
        self.free_if_unused(granted.region);
    }

    pub(super) fn revocation_answered(
        &mut self,
        asked: (ClientId, u32),
        reply: &Reply,
    ) -> Result<(), String> {
        let index = self.revocations.iter().position(|open| open.asked == Some(asked));
        let Some(index) = index else { return Err("an unsolicited answer".to_owned()) };
        let open = &mut self.revocations[index];
        open.answered = true;
        let open = &self.revocations[index];
        let waited = self.root_clock.saturating_sub(open.at.1);
        // The root may have killed domains before its clock was set back.
        let set_back = self.jumped_back_ns - open.jumped_back_ns;
        let most_waited = (self.root_clock + set_back).saturating_sub(open.at.1);
        let right = match reply {
            Reply::CapabilityRevoke { removed, killed } => {
                if let Some(number) =
                    open.mapped.iter().find(|number| self.maps.mapped_as(**number).is_some())
                {
                    Err(format!("it is mapped as {number}: {:?}", self.maps.mapped_as(*number)))
                } else if !open.complete {
                    Err(format!("mappings {:?} are not known to be gone", open.pending))
                } else if *removed != open.removed {
                    Err(format!("{} are gone", open.removed))
                } else if !killed.iter().all(|domain| open.holders.contains(domain)) {
                    Err(format!("only {:?} had it mapped", open.holders))
                } else if !killed.is_empty() && most_waited < self.unmap_timeout_ns {
                    Err(format!("only {most_waited} ns had passed"))
                } else {
                    Ok(())
                }
            }
            Reply::Failed {
                fault: Fault::Capability { fault: CapabilityFault::StillHeld { capability, holders } },
            } => {
                let left = |number: &u64| self.granted.get(number).map(|granted| granted.holder);
                let real: BTreeSet<DomainId> = open.pending.iter().filter_map(left).collect();
                let named: BTreeSet<DomainId> = holders.iter().copied().collect();
                let all = real.len() <= MAX_NAMED_HOLDERS as usize;
                if open.capability != *capability || named.is_empty() {
                    Err(format!("{} is held by {real:?}", open.capability))
                } else if !(named.is_subset(&real) && (!all || named == real)) {
                    Err(format!("those who hold it are {real:?}"))
                } else if waited < 2 * self.unmap_timeout_ns {
                    Err(format!("only {waited} ns had passed"))
                } else {
                    Ok(())
                }
            }
            _ => Err("it is no answer to that".to_owned()),
        };
        self.revocations.retain(|open| !open.complete || (open.asked.is_some() && !open.answered));
        right
    }

    /// Checks, after the root has handled a request, that no revocation has passed its deadline.
    pub fn check_settled(&mut self) {
        let late = self.revocations.iter().find(|open| {
            let jumped_ns = self.jumped_back_ns - open.jumped_back_ns;
            let until = open.at.0 + 2 * self.unmap_timeout_ns + jumped_ns + SLACK_NS;
            open.asked.is_some() && !open.answered && self.now > until
        });
        if let Some(late) = late {
            let (capability, pending) = (late.capability, late.pending.clone());
            self.fail(format!(
                "the revocation of {capability} is not answered in time: it waits for {pending:?}"
            ));
        }
        self.cleared = None;
    }
}
