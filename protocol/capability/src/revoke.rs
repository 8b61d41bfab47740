//! Revocation, in two phases.
//!
//! **Mark.** From then on nothing below the capability can be used: it cannot be derived from, granted or
//! mapped. The agents of all nodes where it is mapped are notified, and notify the domains.
//!
//! **Commit.** When all of those mappings are known to be gone, the entries are removed. A domain that has
//! not unmapped in time is killed. If mappings remain even then, because its node does not answer or it
//! cannot be killed, the requester is notified of the domain. The entries stay marked, and the memory
//! allocated, until there is evidence.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use tombolo_base::{ChannelId, DomainId, NodeId};

use crate::table::{Nanos, Table, TableAction};
use crate::{CapabilityFault, CapabilityId, MAX_NAMED_HOLDERS};

/// Id of a revocation: the node of the requester, and a number that is never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Operation {
    /// Node of the requester.
    pub node: NodeId,
    /// Number of the request.
    pub number: u64,
}

/// Time limits of a revocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RevocationTimeouts {
    /// Time for a domain to unmap before it is killed, in nanoseconds. The result follows after the same time
    /// again.
    pub unmap_timeout_ns: Nanos,
}

impl Default for RevocationTimeouts {
    fn default() -> Self {
        RevocationTimeouts { unmap_timeout_ns: 1_000_000_000 }
    }
}

/// Result of a complete revocation.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Revoked {
    /// Number of capabilities removed.
    pub removed: u32,
    /// First of the domains that were killed because they did not unmap in time.
    pub killed: Vec<DomainId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// The domains were asked to unmap. Those that have not done so by `deadline` are killed.
    Unmapping { deadline: Nanos },
    /// The domains were killed. The requester is answered by `deadline`.
    Killed { deadline: Nanos },
    /// The requester was told that mappings remain.
    Quarantined,
}

/// Revocation in progress.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Revocation {
    capability: CapabilityId,
    marked: Vec<CapabilityId>,
    /// Mappings that remain.
    pub(crate) pending: BTreeSet<ChannelId>,
    killed: BTreeSet<DomainId>,
    phase: Phase,
}

impl Table {
    /// Revokes everything derived from a capability and, with `include_self`, the capability too. The result
    /// is a [`TableAction`], possibly at once.
    ///
    /// # Errors
    /// The domain may not revoke the capability. Nothing has changed.
    pub fn revoke(
        &mut self,
        now: Nanos,
        by: DomainId,
        capability: CapabilityId,
        include_self: bool,
    ) -> Result<Operation, CapabilityFault> {
        self.usable_record(by, capability)?;
        let marked = self.subtree(capability, include_self);
        let mut pending: BTreeSet<ChannelId> =
            marked.iter().flat_map(|marked| self.mapped_by(*marked)).collect();
        // Mapped with a derived capability that vanished with its holder.
        let orphan = |mapping: &ChannelId| self.mappings.get(mapping).is_some_and(|record| record.orphan);
        pending.extend(self.mapped_by(capability).filter(orphan));
        for marked in &marked {
            if let Some(record) = self.capabilities.get_mut(marked) {
                record.revoked = true;
            }
        }
        pending.iter().for_each(|mapping| self.request_unmap(*mapping));
        self.last_operation += 1;
        let operation = Operation { node: by.node(), number: self.last_operation };
        let phase = Phase::Unmapping { deadline: now.saturating_add(self.timeouts.unmap_timeout_ns) };
        let revocation = Revocation { capability, marked, pending, killed: BTreeSet::new(), phase };
        self.revocations.insert(operation, revocation);
        self.commit_ready();
        Ok(operation)
    }

    /// Returns a capability's descendants, each after the one that it was derived from.
    fn subtree(&self, capability: CapabilityId, include_self: bool) -> Vec<CapabilityId> {
        let mut found = alloc::vec![capability];
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            found.extend(self.children_of(parent));
            next += 1;
        }
        if !include_self {
            found.remove(0);
        }
        found
    }

    /// Completes the revocations that have no mappings left.
    pub(crate) fn commit_ready(&mut self) {
        let may_commit = |open: &Revocation| {
            open.pending.is_empty() || tombolo_base::canary!("table answers before all have let go")
        };
        while let Some(operation) =
            self.revocations.iter().find(|(_, open)| may_commit(open)).map(|(operation, _)| *operation)
        {
            self.commit(operation);
        }
    }

    fn commit(&mut self, operation: Operation) {
        let Some(revocation) = self.revocations.remove(&operation) else { return };
        let Revocation { marked, killed, phase, .. } = revocation;
        let mut removed = 0;
        // From the leaves up, so that no entry loses its parent first.
        for capability in marked.into_iter().rev() {
            let Some(region) = self.capabilities.get(&capability).map(|record| record.region) else {
                continue;
            };
            self.remove(capability);
            self.free_if_unused(region);
            removed += 1;
        }
        if phase != Phase::Quarantined {
            let killed = killed.into_iter().take(MAX_NAMED_HOLDERS as usize).collect();
            let outcome = Ok(Revoked { removed, killed });
            self.actions.push(TableAction::Answer { operation, outcome });
        }
    }

    /// Returns when [`tick`](Self::tick) is due.
    #[must_use]
    pub fn next_tick(&self) -> Option<Nanos> {
        let due = |phase: Phase| match phase {
            Phase::Unmapping { deadline } | Phase::Killed { deadline } => Some(deadline),
            Phase::Quarantined => None,
        };
        self.revocations.values().filter_map(|revocation| due(revocation.phase)).min()
    }

    /// Performs the actions that are due at `now`.
    pub fn tick(&mut self, now: Nanos) {
        let unmap_timeout_ns = self.timeouts.unmap_timeout_ns;
        for (operation, revocation) in &mut self.revocations {
            let holders = revocation.pending.iter().filter_map(|mapping| self.mappings.get(mapping));
            let holders: BTreeSet<DomainId> = holders.map(|record| record.holder).collect();
            match revocation.phase {
                Phase::Unmapping { deadline } if deadline <= now => {
                    revocation.phase = Phase::Killed { deadline: now.saturating_add(unmap_timeout_ns) };
                    revocation.killed.extend(holders.iter().copied());
                    let condemned = holders.into_iter().map(|domain| TableAction::Kill { domain });
                    self.actions.extend(condemned);
                }
                Phase::Killed { deadline } if deadline <= now => {
                    revocation.phase = Phase::Quarantined;
                    let holders = holders.into_iter().take(MAX_NAMED_HOLDERS as usize).collect();
                    let fault = CapabilityFault::StillHeld { capability: revocation.capability, holders };
                    let answer = TableAction::Answer { operation: *operation, outcome: Err(fault) };
                    self.actions.push(answer);
                }
                _ => {}
            }
        }
    }
}
