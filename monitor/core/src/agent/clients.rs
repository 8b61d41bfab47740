//! The connections of the domains of this node.

use std::collections::VecDeque;

use tombolo_base::DomainId;
use tombolo_control::{MAX_MESSAGE_BYTES, Report};

use super::{Action, AgentCore};

/// Bytes of messages that may wait for a client before it is no longer heard. What it asks for makes the most
/// messages, so one that does not read its answers cannot ask for more. Only that client is affected.
pub const PAUSE_QUEUED_BYTES: usize = 256 * 1024;

/// Bytes of messages that may wait for a client. One that falls behind further does not read at all and is
/// dropped. Output is sent only as fast as it is taken, but from each child: a thousand children that all
/// write may have twice 64 KiB each on their way.
pub const MAX_QUEUED_BYTES: usize = 256 << 20;

/// What a message that waits takes besides its bytes.
pub const QUEUED_OVERHEAD_BYTES: usize = 64;

/// Descriptors that may wait for a client: they are the monitor's own as long.
pub const MAX_QUEUED_DESCRIPTORS: usize = 1024;

/// A client's connection.
#[derive(Debug, Default)]
pub(super) struct ClientRecord {
    pid: i32,
    /// Who it is, once the root has said so.
    domain: Option<DomainId>,
    /// Bytes and descriptors of each message that it has not taken yet.
    queue: VecDeque<(usize, usize)>,
    queued_bytes: usize,
    queued_descriptors: usize,
}

impl<D> AgentCore<D> {
    /// A process connected, `of_this_user` or of another. The number of the connection, or `None` if the
    /// caller is to close it at once.
    pub fn client_connected(&mut self, pid: i32, of_this_user: bool) -> Option<u32> {
        // An abstract name has no permissions, so other users are turned away here.
        if !of_this_user {
            return None;
        }
        let connection = self.next_connection;
        self.next_connection = self.next_connection.wrapping_add(1);
        let domain = self.children.iter().find(|(_, child)| child.pid() == pid).map(|(id, _)| *id);
        self.clients.insert(connection, ClientRecord { pid, ..ClientRecord::default() });
        self.report(Report::Joined { connection, pid, domain });
        Some(connection)
    }

    /// A client sent a message, `truncated` if there was more of it than could be read, perhaps with a
    /// descriptor.
    pub fn client_asked(&mut self, connection: u32, message: Vec<u8>, truncated: bool, file: Option<D>) {
        if !self.clients.contains_key(&connection) {
            return;
        }
        // What is longer would not fit into a report to the root.
        if truncated || !(1..=MAX_MESSAGE_BYTES).contains(&message.len()) {
            return self.client_gone(connection);
        }
        if self.asks_own_names(connection, &message) {
            return;
        }
        self.reports.push_back((Report::Asked { connection, message }, file));
    }

    /// A client closed its connection, or is to lose it.
    pub fn client_gone(&mut self, connection: u32) {
        if let Some(client) = self.clients.remove(&connection) {
            self.actions.push_back(Action::Close { connection });
            self.client_is_nobody(&client);
            self.own_client_left_names(connection);
            if !tombolo_base::canary!("agent forgets who left") {
                self.report(Report::Left { connection });
            }
        }
    }

    /// A client is this domain from now on.
    pub(super) fn client_is_domain(&mut self, connection: u32, domain: DomainId) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        let (pid, before) = (client.pid, client.domain.replace(domain));
        self.sampling.connected(domain, pid);
        if let Some(before) = before {
            self.sampling.disconnected(before);
        }
    }

    fn client_is_nobody(&mut self, client: &ClientRecord) {
        if let Some(domain) = client.domain {
            self.sampling.disconnected(domain);
        }
    }

    /// A client took the first message that waited for it.
    pub fn client_took(&mut self, connection: u32) {
        if let Some(client) = self.clients.get_mut(&connection)
            && let Some((bytes, descriptors)) = client.queue.pop_front()
        {
            client.queued_bytes -= bytes;
            client.queued_descriptors -= descriptors;
        }
    }

    pub(super) fn message_queued(&mut self, connection: u32, length_bytes: usize, descriptors: usize) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        let bytes = length_bytes + QUEUED_OVERHEAD_BYTES;
        client.queue.push_back((bytes, descriptors));
        client.queued_bytes += bytes;
        client.queued_descriptors += descriptors;
        if client.queued_bytes > MAX_QUEUED_BYTES || client.queued_descriptors > MAX_QUEUED_DESCRIPTORS {
            self.client_gone(connection);
        }
    }

    /// Says whether the root takes what clients ask for; while it does not, they are not heard.
    pub fn let_clients_ask(&mut self, may_ask: bool) {
        self.clients_may_ask = may_ask;
    }

    /// Returns whether the root takes what clients ask for, as it was last said.
    #[must_use]
    pub fn may_clients_ask(&self) -> bool {
        self.clients_may_ask
    }

    /// Returns whether what a client asks is to be read now.
    #[must_use]
    pub fn is_client_heard(&self, connection: u32) -> bool {
        let takes = |client: &ClientRecord| client.queued_bytes < PAUSE_QUEUED_BYTES;
        self.clients_may_ask && self.clients.get(&connection).is_some_and(takes)
    }

    /// The root wants no more of a client, and knows that it is gone.
    pub(super) fn dismiss(&mut self, connection: u32) {
        if let Some(client) = self.clients.remove(&connection) {
            self.actions.push_back(Action::Close { connection });
            self.client_is_nobody(&client);
            self.own_client_left_names(connection);
        }
    }
}
