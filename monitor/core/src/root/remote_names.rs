//! Requests for names of another node: forwards them to that node's agent, and its answers back.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_base::{DomainId, NodeId};
use tombolo_control::{Fault, MonitorMessage, Order, Reply, Wire};
use tombolo_machine::Limit;
use tombolo_naming::{Answer, EndCause, Event, Notice, Operation, Scope};

use super::{ClientId, Core, Nanos};

/// State of clients at the agents of other nodes.
#[derive(Debug, Default)]
pub(super) struct RemoteNames {
    /// Requests that an agent has not answered, to be failed if the node is lost.
    pending_requests: BTreeMap<(ClientId, u32), NodeId>,
    /// Agents that know a client.
    known_at: BTreeMap<ClientId, BTreeSet<NodeId>>,
    watches: BTreeSet<(NodeId, ClientId, u64)>,
}

impl RemoteNames {
    pub(super) fn resource_counts(&self) -> [(&'static str, usize); 3] {
        [
            ("requests to agents", self.pending_requests.len()),
            ("clients known to agents", self.known_at.len()),
            ("watches at agents", self.watches.len()),
        ]
    }
}

impl Core {
    /// Handles a client's request about names.
    pub(super) fn request_names(
        &mut self,
        now: Nanos,
        client: ClientId,
        domain: DomainId,
        request: u32,
        scope: Scope,
        operation: Operation,
    ) -> Result<(), Fault> {
        match scope {
            Scope::Machine => self.names.handle_request(now, client, request, operation),
            Scope::Node(name) => return self.request_remote_names(client, domain, request, &name, operation),
            // A node whose agent forwards this has no names of its own.
            Scope::Own => return Err(self.no_names_fault(domain.node())),
        }
        Ok(())
    }

    /// Handles a client's request about the names of another node.
    pub(super) fn request_remote_names(
        &mut self,
        client: ClientId,
        domain: DomainId,
        request: u32,
        name: &str,
        operation: Operation,
    ) -> Result<(), Fault> {
        let (node, _) = self.running_node(name)?;
        // The agent of the client's own node answers the client directly, so nothing returns here.
        let own = client.0 == node;
        if request != 0 && !own {
            let used = self.remote_names.pending_requests.range((client, 0)..=(client, u32::MAX)).count();
            self.check_limit(Limit::WaitingPerDomain, used, format_args!("domain {domain}"))?;
            self.remote_names.pending_requests.insert((client, request), node);
        }
        if !own {
            self.remote_names.known_at.entry(client).or_default().insert(node);
        }
        let (of, connection) = client;
        self.send_order(node, Order::NamesAsked { node: of, connection, domain, request, operation });
        Ok(())
    }

    /// Handles a message from the names of a node to a client of another. A node is trusted only about its
    /// own names.
    pub(super) fn handle_names_message(
        &mut self,
        from: NodeId,
        domain: DomainId,
        connection: u32,
        message: &[u8],
    ) {
        let client = (domain.node(), connection);
        // A restarted node reuses connection numbers, so an answer may belong to a previous connection.
        if self.clients.get(&client).and_then(|record| record.domain) != Some(domain) {
            return;
        }
        let Ok(MonitorMessage { request, body }) = MonitorMessage::from_bytes(message) else { return };
        let may_answer = self.remote_names.pending_requests.get(&(client, request)) == Some(&from);
        match &body {
            Reply::Names { origin: Some(origin), answer } if *origin == from && may_answer => {
                if let Answer::Watching { watch, .. } = answer {
                    self.remote_names.watches.insert((from, client, *watch));
                }
            }
            Reply::Failed { .. } if may_answer => {}
            Reply::Noticed { origin: Some(origin), notice } if *origin == from && request == 0 => {
                let watch = (from, client, notice.watch);
                if !self.remote_names.watches.contains(&watch) {
                    return;
                }
                if notice.last {
                    self.remote_names.watches.remove(&watch);
                }
            }
            _ => return,
        }
        self.remote_names.pending_requests.remove(&(client, request));
        self.deliver(client, request, body);
    }

    /// Notifies the agents of other nodes that a client is gone.
    pub(super) fn remote_names_left(&mut self, client: ClientId) {
        self.remote_names.pending_requests.retain(|(of, _), _| *of != client);
        self.remote_names.watches.retain(|(_, of, _)| *of != client);
        for node in self.remote_names.known_at.remove(&client).unwrap_or_default() {
            let (of, connection) = client;
            self.send_order(node, Order::NamesLeft { node: of, connection });
        }
    }

    /// Notifies the clients that wait for or watch names of a lost node.
    pub(super) fn remote_names_lost(&mut self, node: NodeId, cause: &str) {
        let pending_requests = std::mem::take(&mut self.remote_names.pending_requests);
        let (lost, kept) = pending_requests.into_iter().partition(|(_, at)| *at == node);
        self.remote_names.pending_requests = kept;
        let lost: BTreeMap<(ClientId, u32), NodeId> = lost;
        for (client, request) in lost.into_keys() {
            let fault = Fault::NodeDown { node: self.node_name(node), cause: cause.to_owned() };
            self.answer(client, request, Err(fault));
        }
        let watches = std::mem::take(&mut self.remote_names.watches);
        let (lost, kept): (BTreeSet<_>, BTreeSet<_>) = watches.into_iter().partition(|(at, ..)| *at == node);
        self.remote_names.watches = kept;
        for (_, client, watch) in lost {
            let event = Event::Ended { cause: EndCause::NodeLost };
            let notice = Notice { watch, lost: 0, last: true, event };
            self.deliver(client, 0, Reply::Noticed { origin: Some(node), notice });
        }
        self.remote_names.known_at.values_mut().for_each(|nodes| {
            nodes.remove(&node);
        });
    }

    /// Forwards messages of the machine's names.
    pub(super) fn send_name_messages(&mut self) {
        for (client, message) in self.names.take_messages() {
            self.deliver(client, message.request, message.body);
        }
    }
}
