//! Names of this node: requests of its clients about them do not go to the root.

use tombolo_base::{ChannelId, DomainId};
use tombolo_control::{ClientMessage, NODE_LISTENERS, Reply, Report, Request, Wire, told};
use tombolo_naming::{Operation, Scope};

use super::{Action, AgentCore};
use crate::names::{Client, NameDesk};

impl<D> AgentCore<D> {
    pub(super) fn tick_names(&mut self) {
        let now = self.now;
        if let Some(names) = self.names.as_mut().filter(|names| names.next_tick().is_some_and(|at| at <= now))
        {
            names.tick(now);
            self.tell_names();
        }
    }

    /// Registers the domain of a client.
    pub(super) fn admitted(&mut self, connection: u32, domain: DomainId) {
        self.client_is_domain(connection, domain);
        if let Some(names) = self.names.as_mut().filter(|_| self.clients.contains_key(&connection)) {
            names.admit((domain.node(), connection), domain);
        }
    }

    /// Serves a request about the names of this node. Returns false for other requests, which go to the root.
    pub(super) fn asks_own_names(&mut self, connection: u32, message: &[u8]) -> bool {
        let Some(names) = self.names.as_mut().filter(|_| tombolo_control::is_about_names(message)) else {
            return false;
        };
        let Ok(ClientMessage { request, body }) = ClientMessage::from_bytes(message) else { return false };
        let client = (names.node(), connection);
        match body {
            Request::Names { scope: Scope::Own, operation } => {
                names.ask(self.now, client, request, operation);
            }
            Request::Export { scope: Scope::Own, name } => match names.export_numbered(client, &name) {
                Ok(listener) => {
                    names.say(client, request, Reply::Export { listener });
                    // The root must know the export before the client can announce it.
                    self.report(Report::Exported { connection, name, listener });
                }
                Err(fault) => names.say(client, request, Reply::Failed { fault }),
            },
            Request::Withdraw { listener } if listener >= NODE_LISTENERS => {
                names.withdraw(client, listener);
                names.say(client, request, Reply::Done);
            }
            _ => return false,
        }
        self.tell_names();
        true
    }

    /// Handles a request about this node's names from a client of another node, or from one of this node that
    /// refers to it by name.
    pub(super) fn names_asked(
        &mut self,
        client: Client,
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
            names.ask(self.now, client, request, operation);
            self.tell_names();
        }
    }

    /// Handles the end of a client of this node or another.
    pub(super) fn left_names(&mut self, client: Client) {
        if let Some(names) = &mut self.names {
            names.left(client);
            self.tell_names();
        }
    }

    /// Handles the end of a client of this node.
    pub(super) fn own_client_left_names(&mut self, connection: u32) {
        if let Some(node) = self.names.as_ref().map(NameDesk::node) {
            self.left_names((node, connection));
        }
    }

    /// Handles the end of a domain, even if another process still holds its connections open.
    pub(super) fn domain_left_names(&mut self, domain: DomainId) {
        if let Some(names) = &mut self.names {
            names.domain_ended(domain);
            self.tell_names();
        }
    }

    fn tell_names(&mut self) {
        let Some(names) = &mut self.names else { return };
        let own = names.node();
        let messages = names.take_messages().into_iter();
        let messages: Vec<_> =
            messages.map(|(client, message)| (client, names.domain_of(client), message)).collect();
        for name in names.take_withdrawn() {
            self.report(Report::Withdrawn { name });
        }
        for ((node, connection), domain, message) in messages {
            let message = told(&message);
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
