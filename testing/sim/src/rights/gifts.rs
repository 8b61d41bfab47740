//! Capabilities given to programs at their start: all are derived before the start is ordered, or none.

use std::collections::BTreeSet;

use tombolo_base::{ChannelId, DomainId};
use tombolo_capability::{CapabilityFault, CapabilityId, Extent, Rights};
use tombolo_control::monitor::GivenCapability;
use tombolo_control::{Fault, Reply, is_name};

use super::{Capability, RightsModel};

/// Reason for refusing a start.
#[derive(Debug)]
enum Refused {
    /// A name is invalid or used twice.
    Name,
    Capability(CapabilityFault),
}

impl RightsModel {
    /// Checks that the starter may give these capabilities, and records them as granted and not yet accepted.
    pub fn started_with(
        &mut self,
        by: DomainId,
        domain: DomainId,
        asked: &[GivenCapability],
        made: &[(String, CapabilityId)],
    ) {
        let given = match self.may_be_given(by, asked) {
            Ok(given) => given,
            Err(why) => {
                return self.fail(format!("{by} starts {domain} with {asked:?}, which is refused: {why:?}"));
            }
        };
        let names = |of: &mut dyn Iterator<Item = &String>| of.cloned().collect::<Vec<String>>();
        let wanted = names(&mut asked.iter().map(|given| &given.name));
        if wanted != names(&mut made.iter().map(|(name, _)| name)) {
            return self.fail(format!("{domain} is to be given {wanted:?} and was given {made:?}"));
        }
        for ((from, extent), (asked, (_, id))) in given.into_iter().zip(asked.iter().zip(made)) {
            if let Err(why) = self.new_id(*id) {
                self.fail(format!("{domain} is given {id}: {why}"));
            }
            let mut line = from.line.clone();
            line.insert(*id);
            let record = Capability {
                extent,
                rights: asked.rights,
                holder: domain,
                parent: Some(asked.capability),
                line,
                revoked: false,
                in_transit: Some((by, ChannelId(0))),
                ..from
            };
            self.capabilities.insert(*id, record);
            self.counts.gifts += 1;
        }
        if !made.is_empty() {
            self.gifts.insert(domain, made.to_vec());
        }
    }

    fn may_be_given(
        &self,
        by: DomainId,
        asked: &[GivenCapability],
    ) -> Result<Vec<(Capability, Extent)>, Refused> {
        let mut names = BTreeSet::new();
        let mut given = Vec::new();
        for GivenCapability { name, capability, extent, rights } in asked {
            if !is_name(name) || !names.insert(name) {
                return Err(Refused::Name);
            }
            let record = self.with_right(by, *capability, *rights | Rights::GRANT);
            let record = record.map_err(Refused::Capability)?;
            let extent = self.part_of(record, *extent).map_err(Refused::Capability)?;
            given.push((record.clone(), extent));
        }
        Ok(given)
    }

    /// Checks the reply to a start. Successful starts are checked in [`RightsModel::started_with`].
    pub(super) fn start_answered(
        &self,
        by: DomainId,
        asked: &[GivenCapability],
        reply: &Reply,
    ) -> Result<(), String> {
        let Reply::Failed { fault: Fault::Capability { fault: found } } = reply else { return Ok(()) };
        match self.may_be_given(by, asked) {
            Err(Refused::Capability(fault)) if fault == *found => Ok(()),
            // A guessed number, which an earlier capability of the same start received.
            Err(Refused::Capability(CapabilityFault::Gone { capability }))
                if capability.0 > self.newest_capability
                    && *found == (CapabilityFault::NotYours { capability }) =>
            {
                Ok(())
            }
            other => Err(format!("what is to be given comes to {other:?}")),
        }
    }

    /// Looks up a capability that a domain was started with, by name.
    pub(super) fn gift(&self, domain: DomainId, name: &str) -> Option<CapabilityId> {
        let given = self.gifts.get(&domain)?;
        given.iter().find(|(of, _)| of == name).map(|(_, capability)| *capability)
    }
}
