//! Capabilities that a domain gets at its start, by name.

use std::collections::BTreeSet;

use tombolo_base::DomainId;
use tombolo_capability::{CapabilityId, Recipient};
use tombolo_control::monitor::{GivenCapability, MAX_GIVEN};
use tombolo_control::{Fault, Reply, is_name};

use super::regions::Refusal;
use super::{Core, truncate_name};

/// Capabilities given to a domain, with their names.
pub(super) type InitialCapabilities = Vec<(String, CapabilityId)>;

impl Core {
    /// Derives the capabilities that a parent gives to a domain about to start, either all or none.
    pub(super) fn grant_initial_capabilities(
        &mut self,
        starter: DomainId,
        domain: DomainId,
        given: &[GivenCapability],
    ) -> Result<InitialCapabilities, Fault> {
        let derived = self.try_grant_initial(starter, domain, given);
        if derived.is_err() && !tombolo_base::canary!("core keeps what a refused start was to give") {
            self.release_domain_regions(domain);
        }
        derived.map_err(|Refusal(fault)| fault)
    }

    fn try_grant_initial(
        &mut self,
        starter: DomainId,
        domain: DomainId,
        given: &[GivenCapability],
    ) -> Result<InitialCapabilities, Refusal> {
        if given.len() as u64 > MAX_GIVEN {
            let why = format!("a program is started with at most {MAX_GIVEN} capabilities");
            return Err(Fault::Refused { why }.into());
        }
        let mut names = BTreeSet::new();
        let mut made = Vec::with_capacity(given.len());
        for GivenCapability { name, capability, extent, rights } in given {
            if !is_name(name) {
                return Err(Fault::BadName { name: truncate_name(name) }.into());
            }
            if !names.insert(name) {
                let why = format!("two capabilities are given by the name '{}'", truncate_name(name));
                return Err(Fault::Refused { why }.into());
            }
            self.check_capability_limit(starter)?;
            let table = &mut self.regions.table;
            let info = match table.derive(starter, *capability, *extent, *rights, Recipient::from(domain)) {
                Err(_) if tombolo_base::canary!("core starts a program with some of what is given") => break,
                derived => derived?,
            };
            made.push((name.clone(), info.id));
        }
        Ok(made)
    }

    /// Returns the capabilities that a domain was started with, in order.
    #[must_use]
    pub fn initial_capabilities(&self, domain: DomainId) -> &[(String, CapabilityId)] {
        self.domains.get(&domain).map(|record| &record.initial_capabilities[..]).unwrap_or_default()
    }

    /// Handles a domain's request for a given capability by name.
    pub(super) fn given(&mut self, by: DomainId, name: &str) -> Result<Reply, Refusal> {
        let given = self.initial_capabilities(by);
        let Some((_, capability)) = given.iter().find(|(of, _)| of == name) else {
            let names: Vec<&str> = given.iter().map(|(name, _)| &name[..]).collect();
            let given = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            return Err(Fault::NotGiven { name: truncate_name(name), given: truncate_name(&given) }.into());
        };
        let capability = *capability;
        if !tombolo_base::canary!("core lets what is taken up be taken back") {
            self.regions.table.accept(by, capability, None, false)?;
        }
        let (capability, region, foreign) = self.describe_capability(by, capability)?;
        Ok(Reply::Given { capability, region, foreign })
    }
}
