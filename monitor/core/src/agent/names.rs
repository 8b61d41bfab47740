//! Names of this node: requests of its clients about them do not go to the root.

use tombolo_base::{ChannelId, DomainId};
use tombolo_control::{ClientMessage, NODE_LISTENERS, Reply, Report, Request, Wire, encode_or_fault};
use tombolo_naming::{Operation, Scope};

use super::{Action, AgentCore};
use crate::names::{ClientId, NameService};

impl<D> AgentCore<D> {
    pub(super) fn tick_names(&mut self) {
        let now = self.now;
        if let Some(names) = self.names.as_mut().filter(|names| names.next_tick().is_some_and(|at| at <= now))
        {
            names.tick(now);
            self.send_name_messages();
        }
    }

    /// Registers the domain of a client.
    pub(super) fn admitted(&mut self, connection: u32, domain: DomainId) {
        self.assign_client_domain(connection, domain);
        if let Some(names) = self.names.as_mut().filter(|_| self.clients.contains_key(&connection)) {
            names.admit((domain.node(), connection), domain);
        }
    }

    /// Serves a request about the names of this node. Returns false for other requests, which go to the root.
    pub(super) fn try_handle_names_request(&mut self, connection: u32, message: &[u8]) -> bool {
        let Some(names) = self.names.as_mut().filter(|_| tombolo_control::is_naming_request(message)) else {
            return false;
        };
        let Ok(ClientMessage { request, body }) = ClientMessage::from_bytes(message) else { return false };
        let client = (names.node(), connection);
        match body {
            Request::Names { scope: Scope::Own, operation } => {
                names.handle_request(self.now, client, request, operation);
            }
            Request::Export { scope: Scope::Own, name } => match names.export_numbered(client, &name) {
                Ok(listener) => {
                    names.queue_reply(client, request, Reply::Export { listener });
                    // The root must know the export before the client can announce it.
                    self.report(Report::Exported { connection, name, listener });
                }
                Err(fault) => names.queue_reply(client, request, Reply::Failed { fault }),
            },
            Request::Withdraw { listener } if listener >= NODE_LISTENERS => {
                names.withdraw(client, listener);
                names.queue_reply(client, request, Reply::Done);
            }
            _ => return false,
        }
        self.send_name_messages();
        true
    }

    /// Handles a request about this node's names from a client of another node, or from one of this node that
    /// refers to it by name.
    pub(super) fn handle_names_request(
        &mut self,
        client: ClientId,
        domain: DomainId,
        request: u32,
        operation: Operation,
    ) {
        let (node, connection) = client;
        if let Some(names) = &mut self.names {
            if node == names.node() && !self.clients.contains_key(&connection) {
                // The client left while this request was in flight through the root. It must not acquire
                // anything now, because its end has been handled already.
                return;
            }
            names.admit(client, domain);
            names.handle_request(self.now, client, request, operation);
            self.send_name_messages();
        }
    }

    /// Handles the end of a client of this node or another.
    pub(super) fn names_client_left(&mut self, client: ClientId) {
        if let Some(names) = &mut self.names {
            names.client_left(client);
            self.send_name_messages();
        }
    }

    /// Handles the end of a client of this node.
    pub(super) fn own_names_client_left(&mut self, connection: u32) {
        if let Some(node) = self.names.as_ref().map(NameService::node) {
            self.names_client_left((node, connection));
        }
    }

    /// Handles the end of a domain, even if another process still holds its connections open.
    pub(super) fn names_domain_ended(&mut self, domain: DomainId) {
        if let Some(names) = &mut self.names {
            names.domain_ended(domain);
            self.send_name_messages();
        }
    }

    fn send_name_messages(&mut self) {
        let Some(names) = &mut self.names else { return };
        let own = names.node();
        let messages = names.take_messages().into_iter();
        let messages: Vec<_> =
            messages.map(|(client, message)| (client, names.domain_of(client), message)).collect();
        for name in names.take_withdrawn() {
            self.report(Report::Withdrawn { name });
        }
        for ((node, connection), domain, message) in messages {
            let message = encode_or_fault(&message);
            if node != own {
                // A client that has left gets no messages.
                if let Some(domain) = domain {
                    self.report(Report::NamesSay { domain, connection, message });
                }
                continue;
            }
            let length_bytes = message.len();
            self.actions.push_back(Action::Send {
                connection,
                channel: ChannelId(0),
                items: Vec::new(),
                message,
            });
            // A client with a full queue is dropped here, with its session.
            self.message_queued(connection, length_bytes, 0);
        }
    }
}
