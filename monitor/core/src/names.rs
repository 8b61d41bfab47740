//! Names of a scope as a monitor serves them: requests of clients in, messages to them out.
//!
//! The root has one service for the machine, every agent one for its node. No I/O: see [`tombolo_naming`].

use std::collections::BTreeMap;

use tombolo_base::{DomainId, NodeId};
use tombolo_control::{Fault, MonitorMessage, NODE_LISTENERS, Reply, Request};
use tombolo_naming::{
    Attributes, Endpoint, Limits, NameFault, Naming, Nanos, Operation, Output, Record, Session,
};

/// A client of an agent, by the agent's node and number for it.
pub type ClientId = (NodeId, u32);

/// Returns the limits of a scope, with those that the machine file sets for each domain.
#[must_use]
pub fn scope_limits(records_per_domain: u32, waits_per_domain: u32) -> Limits {
    Limits {
        records_per_session: records_per_domain as usize,
        waits_per_session: waits_per_domain as usize,
        ..Limits::default()
    }
}

/// Serves the names of one scope.
#[derive(Debug)]
pub struct NameService {
    /// Node of these names; `None` for the machine's.
    origin: Option<NodeId>,
    naming: Naming,
    clients: BTreeMap<ClientId, DomainId>,
    /// Messages that do not come from the naming core.
    outgoing: Vec<(ClientId, MonitorMessage)>,
    /// Withdrawn names of a node, to be reported to the root.
    withdrawn: Vec<String>,
    next_listener: u32,
}

impl NameService {
    /// Creates a service without names. `generation` is that of the node.
    #[must_use]
    pub fn new(origin: Option<NodeId>, limits: Limits, generation: u16) -> Self {
        NameService {
            origin,
            naming: Naming::new(limits, generation),
            clients: BTreeMap::new(),
            outgoing: Vec::new(),
            withdrawn: Vec::new(),
            next_listener: NODE_LISTENERS,
        }
    }

    /// Returns the node of these names; for the machine's the host, on which it runs.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.origin.unwrap_or(NodeId::HOST)
    }

    /// Returns the size of every table by name, for leak tests.
    #[must_use]
    pub fn resource_counts(&self) -> Vec<(&'static str, usize)> {
        let own = [
            ("clients of names", self.clients.len()),
            ("answers of names", self.outgoing.len()),
            ("names withdrawn", self.withdrawn.len()),
        ];
        own.into_iter().chain(self.naming.resource_counts()).collect()
    }

    /// Registers the domain of a client.
    pub fn admit(&mut self, client: ClientId, domain: DomainId) {
        let (node, connection) = client;
        self.clients.insert(client, domain);
        self.naming.open(Session::from_client(node, connection), domain);
    }

    /// Returns the domain of a client.
    #[must_use]
    pub fn domain_of(&self, client: ClientId) -> Option<DomainId> {
        self.clients.get(&client).copied()
    }

    /// Removes a client that has left, with everything that it owned.
    pub fn client_left(&mut self, (node, connection): ClientId) {
        if self.clients.remove(&(node, connection)).is_some() {
            self.naming.close(Session::from_client(node, connection));
        }
    }

    /// Handles the end of a domain, even if a process still holds its connections open.
    pub fn domain_ended(&mut self, domain: DomainId) {
        let clients_of_domain: Vec<ClientId> =
            self.clients.iter().filter(|(_, of)| **of == domain).map(|(client, _)| *client).collect();
        clients_of_domain.into_iter().for_each(|client| self.client_left(client));
    }

    /// Handles a request of a client.
    pub fn handle_request(&mut self, now: Nanos, client: ClientId, request: u32, operation: Operation) {
        if self.clients.contains_key(&client) {
            let number = MonitorMessage::number_of(request);
            self.naming.request(now, Session::from_client(client.0, client.1), number, operation);
        } else if request != 0 {
            let fault = Fault::Refused { why: "attach to the monitor first".into() };
            self.queue_reply(client, request, Reply::Failed { fault });
        }
    }

    /// Queues a message that does not come from the naming core.
    pub fn queue_reply(&mut self, client: ClientId, request: u32, body: Reply) {
        if request != 0 {
            self.outgoing.push((client, MonitorMessage { request, body }));
        }
    }

    /// Returns the time when [`tick`](Self::tick) is due.
    #[must_use]
    pub fn next_tick(&self) -> Option<Nanos> {
        self.naming.next_tick()
    }

    /// Runs the work due at `now`.
    pub fn tick(&mut self, now: Nanos) {
        self.naming.tick(now);
    }

    /// Returns the pending messages to clients, in order.
    pub fn take_messages(&mut self) -> Vec<(ClientId, MonitorMessage)> {
        let mut messages = std::mem::take(&mut self.outgoing);
        let (origin, withdrawn) = (self.origin, &mut self.withdrawn);
        messages.extend(self.naming.take_outputs().into_iter().filter_map(|output| {
            Some(match output {
                Output::Answer { session, request, result } => {
                    let body = match result {
                        Ok(answer) => Reply::Names { origin, answer },
                        Err(fault) => Reply::Failed { fault: Fault::Name { fault } },
                    };
                    let request = tombolo_control::request(Request::NAMES, request);
                    (session.client(), MonitorMessage { request, body })
                }
                Output::Notice { session, notice } => {
                    (session.client(), MonitorMessage { request: 0, body: Reply::Noticed { origin, notice } })
                }
                Output::Withdrawn { name } => {
                    // The machine's names are the root's own, so gone records need not be reported.
                    if origin.is_some() {
                        withdrawn.push(name);
                    }
                    return None;
                }
            })
        }));
        messages
    }

    /// Returns the withdrawn names of a node, as of the last [`take_messages`](Self::take_messages).
    pub fn take_withdrawn(&mut self) -> Vec<String> {
        std::mem::take(&mut self.withdrawn)
    }

    /// Exports a name for a client and assigns the listener's number.
    ///
    /// # Errors
    /// [`Fault`] if the name cannot be exported.
    pub fn export_numbered(&mut self, client: ClientId, name: &str) -> Result<u32, Fault> {
        let listener = self.next_listener;
        self.export(client, name, listener).map_err(|fault| match fault {
            NameFault::Exists { name, owner: Some(owner) } => Fault::NameTaken { name, owner },
            NameFault::BadName { name } => Fault::BadName { name },
            fault => Fault::Name { fault },
        })?;
        self.next_listener = listener.checked_add(1).unwrap_or(NODE_LISTENERS);
        Ok(listener)
    }

    /// Exports a name for a client.
    ///
    /// # Errors
    /// [`NameFault`] if the name cannot be exported.
    pub fn export(
        &mut self,
        (node, connection): ClientId,
        name: &str,
        listener: u32,
    ) -> Result<(), NameFault> {
        self.naming.export(Session::from_client(node, connection), name, listener, Attributes::new())
    }

    /// Withdraws the name that a client exports under this listener number.
    pub fn withdraw(&mut self, (node, connection): ClientId, listener: u32) {
        self.naming.withdraw(Session::from_client(node, connection), listener);
    }

    /// Returns whether a client exports a name under this number.
    #[must_use]
    pub fn has_listener(&self, (node, connection): ClientId, listener: u32) -> bool {
        self.naming.exported_name(Session::from_client(node, connection), listener).is_some()
    }

    /// Returns the exporter of a name.
    #[must_use]
    pub fn endpoint(&self, name: &str) -> Option<Endpoint> {
        self.naming.endpoint(name)
    }

    /// Returns the record of a name.
    #[must_use]
    pub fn record(&self, name: &str) -> Option<Record> {
        self.naming.record(name)
    }

    /// Returns the records whose names begin with a prefix.
    pub fn records_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Attributes)> + 'a {
        self.naming.records_with_prefix(prefix)
    }

    /// Returns the number of records that are removed with a client.
    #[must_use]
    pub fn records_of(&self, (node, connection): ClientId) -> usize {
        self.naming.records_of(Session::from_client(node, connection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withdrawn_name_leaves_no_state() {
        for origin in [None, Some(NodeId(3))] {
            let mut service = NameService::new(origin, Limits::default(), 1);
            let before = service.resource_counts();
            for index in 1..4 {
                let client = (NodeId(3), index);
                service.admit(client, DomainId::new(NodeId(3), core::num::NonZeroU16::MIN, index));
                service.export_numbered(client, "service").unwrap();
                service.client_left(client);
                let _ = service.take_messages();
                assert_eq!(service.take_withdrawn().len(), usize::from(origin.is_some()));
            }
            // The service of the machine's names keeps no list of withdrawn names.
            service.admit((NodeId(3), 9), DomainId::new(NodeId(3), core::num::NonZeroU16::MIN, 9));
            service.export_numbered((NodeId(3), 9), "service").unwrap();
            service.client_left((NodeId(3), 9));
            let _ = service.take_messages();
            if origin.is_none() {
                assert_eq!(service.resource_counts(), before);
            }
        }
    }
}
