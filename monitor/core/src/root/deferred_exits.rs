//! Ends of domains whose notification is delayed because their descendants are still ending.
//!
//! The client that started a job is notified after all output of the job, including the last output of
//! descendants, which an agent reports before their ends.

use std::collections::BTreeMap;

use tombolo_base::DomainId;
use tombolo_control::{Exit, Reply};

use super::{ClientId, Core};

/// End of a domain, about which its parent must be notified.
#[derive(Debug)]
struct DeferredExit {
    parent: DomainId,
    /// Client to notify, unless it has left.
    client: Option<ClientId>,
    exit: Exit,
    /// Descendants that have not ended.
    descendants: Vec<DomainId>,
}

/// Delayed ends by domain.
#[derive(Debug, Default)]
pub(super) struct DeferredExits(BTreeMap<DomainId, DeferredExit>);

impl DeferredExits {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the parent of a domain whose end is delayed, and the client to notify.
    pub(super) fn parent(&self, domain: DomainId) -> Option<(DomainId, Option<ClientId>)> {
        self.0.get(&domain).map(|held| (held.parent, held.client))
    }

    pub(super) fn client_left(&mut self, client: ClientId) {
        for held in self.0.values_mut() {
            held.client.take_if(|of| *of == client);
        }
    }

    /// Handles the end of a descendant, whose children are about to end. Returns the ends that need not wait
    /// any longer.
    fn descendant_ended(&mut self, domain: DomainId, children: &[DomainId]) -> Vec<(DomainId, DeferredExit)> {
        for held in self.0.values_mut() {
            if let Some(at) = held.descendants.iter().position(|descendant| *descendant == domain) {
                held.descendants.swap_remove(at);
                held.descendants.extend(children);
            }
        }
        self.0.extract_if(.., |_, held| held.descendants.is_empty()).collect()
    }
}

impl Core {
    /// Notifies a parent that a domain has ended, now or once its descendants have.
    pub(super) fn report_end(
        &mut self,
        domain: DomainId,
        (parent, client): (DomainId, Option<ClientId>),
        exit: Exit,
        children: &[DomainId],
    ) {
        if children.is_empty() {
            self.deliver_end(client, domain, exit);
        } else {
            let descendants = children.to_vec();
            self.deferred_exits.0.insert(domain, DeferredExit { parent, client, exit, descendants });
        }
    }

    /// Handles the end of a domain whose children are about to end: sends the notifications that were delayed
    /// only by this domain.
    pub(super) fn report_deferred_exits(&mut self, domain: DomainId, children: &[DomainId]) {
        for (domain, held) in self.deferred_exits.descendant_ended(domain, children) {
            self.deliver_end(held.client, domain, held.exit);
        }
    }

    fn deliver_end(&mut self, client: Option<ClientId>, domain: DomainId, exit: Exit) {
        if let Some(client) = client {
            self.deliver(client, 0, Reply::Ended { domain, exit });
        }
    }
}
