//! Priority inheritance: the owner of a resource runs at the highest priority that waits for it.
//!
//! An owner that waits at another hub moves up there, and if that is a resource too, its owner inherits in
//! turn. The client forwards the priority that it [inherits](crate::Output::Inherits) to hubs of other nodes.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::hubs::{Client, Hubs, Output, RequestKey};
use crate::{Fault, Kind, table};

impl Hubs {
    /// Updates the inherited priorities of clients, after the queues of these hubs or their owners changed.
    pub(crate) fn update_inheritance(&mut self, hubs: impl IntoIterator<Item = u32>) {
        let mut hubs = hubs.into_iter().filter(|hub| self.has_inheritance(*hub)).peekable();
        if hubs.peek().is_none() {
            return;
        }
        let mut hubs: BTreeSet<u32> = hubs.collect();
        // Each round resolves one link of a chain of owners. If owners wait in a circle, that is, in a
        // deadlock, changes could propagate forever.
        let max_rounds = 2 * (self.hubs.len() + self.clients.len());
        for _ in 0..max_rounds {
            if hubs.is_empty() {
                break;
            }
            let mut next = BTreeSet::new();
            for client in self.affected_clients(&hubs) {
                self.update_client_inheritance(client, &mut next);
            }
            hubs = next;
        }
    }

    /// Whether waiting at this hub raises the priority of others.
    fn has_inheritance(&self, hub: u32) -> bool {
        let hub = self.hubs.get(hub as usize);
        hub.is_some_and(|hub| hub.description.kind == Kind::Resource && hub.description.inheritance)
    }

    /// Returns the owners of these hubs, and the clients that inherit a priority and may no longer own a
    /// resource.
    fn affected_clients(&self, hubs: &BTreeSet<u32>) -> BTreeSet<Client> {
        let owners = hubs.iter().filter_map(|hub| self.hubs.get(*hub as usize));
        let owners = owners.flat_map(|hub| hub.store.holders().map(|(_, holding)| holding.client));
        let former =
            self.clients.iter().filter(|(_, state)| state.inherited_priority > 0).map(|(client, _)| *client);
        owners.chain(former).collect()
    }

    /// Computes the priority that a client inherits now. Adds the hubs where it waits, and that propagate it,
    /// to `next`.
    fn update_client_inheritance(&mut self, client: Client, next: &mut BTreeSet<u32>) {
        let owns = |hub: &&crate::hub::Hub| {
            let description = &hub.description;
            table::count_lookup();
            description.kind == Kind::Resource
                && description.inheritance
                && hub.store.holders().any(|(_, holding)| holding.client == client)
        };
        let highest = self.hubs.iter().filter(owns).map(|hub| hub.waiting_priority()).max().unwrap_or(0);
        let Some(state) = self.clients.get_mut(&client) else { return };
        if state.inherited_priority == highest || tombolo_base::canary!("hub inherits no priority") {
            return;
        }
        state.inherited_priority = highest;
        self.outputs.push(Output::Inherits(client, highest));
        next.extend(self.requeue(client));
    }

    /// Propagates a change of a client's own priority.
    pub(crate) fn propagate_priority(&mut self, client: Client) {
        let changed = self.requeue(client);
        self.update_inheritance(changed);
    }

    /// Reorders the requests of a client by its priority. Returns the hubs whose queues changed.
    fn requeue(&mut self, client: Client) -> Vec<u32> {
        let Some(state) = self.clients.get(&client) else { return Vec::new() };
        let priority = state.priority();
        let mut changed = Vec::new();
        let requests: Vec<(u32, u32)> =
            state.waiting_requests.iter().map(|(number, hub)| (*number, *hub)).collect();
        for (number, hub) in requests {
            let Some(at) = self.hubs.get_mut(hub as usize) else { continue };
            if at.update_priority(RequestKey { client, number }, priority) && self.has_inheritance(hub) {
                changed.push(hub);
            }
        }
        changed
    }

    /// Returns the priority that a client inherits through the resources that it owns here.
    ///
    /// # Errors
    /// [`Fault::NotHeld`] when there is no such client.
    pub fn inherited(&self, client: Client) -> Result<u8, Fault> {
        self.clients.get(&client).map(|state| state.inherited_priority).ok_or(Fault::NotHeld)
    }
}
