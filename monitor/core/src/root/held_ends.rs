//! Ends of domains whose notification is delayed because their descendants are still ending.
//!
//! The client that started a job is notified after all output of the job, including the last output of
//! descendants, which an agent reports before their ends.

use std::collections::BTreeMap;

use tombolo_base::DomainId;
use tombolo_control::{Exit, Reply};

use super::{Client, Core};

/// End of a domain, about which its parent must be notified.
#[derive(Debug)]
struct HeldEnd {
    parent: DomainId,
    /// Client to notify, unless it has left.
    client: Option<Client>,
    exit: Exit,
    /// Descendants that have not ended.
    descendants: Vec<DomainId>,
}

/// Delayed ends by domain.
#[derive(Debug, Default)]
pub(super) struct HeldEnds(BTreeMap<DomainId, HeldEnd>);

impl HeldEnds {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the parent of a domain whose end is delayed, and the client to notify.
    pub(super) fn parent(&self, domain: DomainId) -> Option<(DomainId, Option<Client>)> {
        self.0.get(&domain).map(|held| (held.parent, held.client))
    }

    pub(super) fn client_left(&mut self, client: Client) {
        for held in self.0.values_mut() {
            held.client.take_if(|of| *of == client);
        }
    }

    /// Handles the end of a descendant, whose children are about to end. Returns the ends that need not wait
    /// any longer.
    fn descendant_ended(&mut self, domain: DomainId, children: &[DomainId]) -> Vec<(DomainId, HeldEnd)> {
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
    pub(super) fn tell_end(
        &mut self,
        domain: DomainId,
        (parent, client): (DomainId, Option<Client>),
        exit: Exit,
        children: &[DomainId],
    ) {
        if children.is_empty() {
            self.deliver_end(client, domain, exit);
        } else {
            let descendants = children.to_vec();
            self.held_ends.0.insert(domain, HeldEnd { parent, client, exit, descendants });
        }
    }

    /// Handles the end of a domain whose children are about to end: sends the notifications that were delayed
    /// only by this domain.
    pub(super) fn tell_held_ends(&mut self, domain: DomainId, children: &[DomainId]) {
        for (domain, held) in self.held_ends.descendant_ended(domain, children) {
            self.deliver_end(held.client, domain, held.exit);
        }
    }

    fn deliver_end(&mut self, client: Option<Client>, domain: DomainId, exit: Exit) {
        if let Some(client) = client {
            self.deliver(client, 0, Reply::Ended { domain, exit });
        }
    }
}
