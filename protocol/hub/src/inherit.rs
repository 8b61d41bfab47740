//! Priority inheritance: who owns a resource is as urgent as the most urgent that waits for it.
//!
//! An owner that waits at another hub moves up there, and where that is a resource, too, its owner inherits
//! in turn. To hubs of other nodes the client passes on what it [inherits](crate::Output::Inherits).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::hubs::{Client, Hubs, Key, Output};
use crate::{Fault, Kind, table};

impl Hubs {
    /// Brings what clients inherit up to date, after the queues of these hubs or their owners changed.
    pub(crate) fn relift(&mut self, hubs: impl IntoIterator<Item = u32>) {
        let mut hubs = hubs.into_iter().filter(|hub| self.passes_on(*hub)).peekable();
        if hubs.peek().is_none() {
            return;
        }
        let mut hubs: BTreeSet<u32> = hubs.collect();
        // Each turn ends one link of a chain of owners. Where they wait in a circle, which is a deadlock of
        // theirs, changes could go round for ever.
        let most = 2 * (self.hubs.len() + self.clients.len());
        for _ in 0..most {
            if hubs.is_empty() {
                break;
            }
            let mut next = BTreeSet::new();
            for client in self.concerned(&hubs) {
                self.inherit(client, &mut next);
            }
            hubs = next;
        }
    }

    /// Whether waiting at this hub lifts others.
    fn passes_on(&self, hub: u32) -> bool {
        let hub = self.hubs.get(hub as usize);
        hub.is_some_and(|hub| hub.description.kind == Kind::Resource && hub.description.inheritance)
    }

    /// The owners of these hubs, and the clients that inherit something and may no longer own any.
    fn concerned(&self, hubs: &BTreeSet<u32>) -> BTreeSet<Client> {
        let owners = hubs.iter().filter_map(|hub| self.hubs.get(*hub as usize));
        let owners = owners.flat_map(|hub| hub.store.holders().map(|(_, holding)| holding.client));
        let former = self.clients.iter().filter(|(_, state)| state.inherits > 0).map(|(client, _)| *client);
        owners.chain(former).collect()
    }

    /// What a client inherits now. Hubs where it waits, and that pass it on, go into `next`.
    fn inherit(&mut self, client: Client, next: &mut BTreeSet<u32>) {
        let owns = |hub: &&crate::hub::Hub| {
            let description = &hub.description;
            table::looked();
            description.kind == Kind::Resource
                && description.inheritance
                && hub.store.holders().any(|(_, holding)| holding.client == client)
        };
        let highest = self.hubs.iter().filter(owns).map(|hub| hub.waiting_priority()).max().unwrap_or(0);
        let Some(state) = self.clients.get_mut(&client) else { return };
        if state.inherits == highest || tombolo_base::canary!("hub inherits no priority") {
            return;
        }
        state.inherits = highest;
        self.outputs.push(Output::Inherits(client, highest));
        next.extend(self.requeue(client));
    }

    /// A client's priority changed from outside.
    pub(crate) fn lift_client(&mut self, client: Client) {
        let changed = self.requeue(client);
        self.relift(changed);
    }

    /// Moves the requests of a client to where its priority has them: the hubs whose queues changed.
    fn requeue(&mut self, client: Client) -> Vec<u32> {
        let Some(state) = self.clients.get(&client) else { return Vec::new() };
        let priority = state.priority();
        let mut changed = Vec::new();
        let waits: Vec<(u32, u32)> = state.waits.iter().map(|(number, hub)| (*number, *hub)).collect();
        for (number, hub) in waits {
            let Some(at) = self.hubs.get_mut(hub as usize) else { continue };
            if at.lift(Key { client, number }, priority) && self.passes_on(hub) {
                changed.push(hub);
            }
        }
        changed
    }

    /// What a client inherits by the resources that it owns here.
    ///
    /// # Errors
    /// [`Fault::NotHeld`]: there is no such client.
    pub fn inherited(&self, client: Client) -> Result<u8, Fault> {
        self.clients.get(&client).map(|state| state.inherits).ok_or(Fault::NotHeld)
    }
}
