//! Services: listeners reached by capability, with or without a name.

use std::collections::BTreeMap;

use tombolo_base::DomainId;
use tombolo_capability::{CapabilityId, RegionId};
use tombolo_control::{Fault, NODE_LISTENERS, Reply};

use super::regions::Refusal;
use super::{ClientId, Core, Destination, NameRecord, WaitingConnect};

/// Listeners of the services.
#[derive(Debug, Default)]
pub(super) struct Services {
    listeners: BTreeMap<RegionId, NameRecord>,
}

impl Services {
    pub(super) fn len(&self) -> usize {
        self.listeners.len()
    }

    pub(super) fn forget(&mut self, service: RegionId) {
        self.listeners.remove(&service);
    }
}

impl Core {
    /// Creates a capability to one of a client's listeners, or to a new one without a name.
    pub(super) fn service_create(
        &mut self,
        client: ClientId,
        owner: DomainId,
        listener: Option<u32>,
    ) -> Result<Reply, Refusal> {
        self.check_region_limits(owner, 0)?;
        let listener = match listener {
            Some(listener) if self.has_listener(client, listener) => listener,
            Some(listener) => {
                let why =
                    format!("this domain has no listener {listener}; export a name, or ask for a new one");
                return Err(Fault::Refused { why }.into());
            }
            None => {
                let record = self.clients.get_mut(&client).ok_or(Fault::NoSuchDomain { domain: owner })?;
                let listener = record.next_listener;
                record.next_listener += 1;
                listener
            }
        };
        let generation = self.nodes[usize::from(owner.node().0)].generation;
        let made = self.regions.table.create_service(owner, generation);
        let capability =
            made.ok_or_else(|| Fault::Limit { what: "the machine has used all its region ids".into() })?;
        self.services.listeners.insert(capability.region, NameRecord { owner, client, listener });
        Ok(Reply::ServiceCreate { capability, listener })
    }

    fn has_listener(&self, client: ClientId, listener: u32) -> bool {
        let is_it = |record: &NameRecord| (record.client, record.listener) == (client, listener);
        if listener >= NODE_LISTENERS {
            return self.node_exports.values().any(is_it);
        }
        self.names.has_listener(client, listener) || self.services.listeners.values().any(is_it)
    }

    /// Returns the listener that a domain may open channels to with a capability.
    pub(super) fn service(&self, by: DomainId, capability: CapabilityId) -> Option<NameRecord> {
        let service = self.regions.table.connectable(by, capability).ok()?;
        self.services.listeners.get(&service).copied()
    }

    /// Handles the end of one or all listeners of a client, and revokes the capabilities to them.
    pub(super) fn listener_withdrawn(&mut self, client: ClientId, listener: Option<u32>) {
        let is_gone = |record: &NameRecord| {
            record.client == client && listener.is_none_or(|listener| listener == record.listener)
        };
        let gone: Vec<RegionId> = self
            .services
            .listeners
            .iter()
            .filter(|(_, record)| is_gone(record))
            .map(|(service, _)| *service)
            .collect();
        for service in gone {
            self.regions.table.service_lost(service);
            self.services.forget(service);
        }
    }

    /// Fails the requests that wait to open a channel by a capability that has been revoked.
    pub(super) fn refuse_revoked(&mut self) {
        let may_wait = |core: &Core, waiting: &WaitingConnect| match &waiting.to {
            Destination::Name(_) => true,
            Destination::Service { by, capability } => core.service(*by, *capability).is_some(),
        };
        if self.waiting.iter().all(|waiting| may_wait(self, waiting)) {
            return;
        }
        let (rest, refused): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waiting| may_wait(self, waiting));
        self.waiting = rest;
        for WaitingConnect { client, request, to, .. } in refused {
            let fault = self.no_listener_fault(&to);
            self.answer(client, request, Err(fault));
        }
    }
}
