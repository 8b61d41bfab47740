//! Connections of the domains of this node.

use std::collections::VecDeque;

use tombolo_base::DomainId;
use tombolo_control::{MAX_MESSAGE_BYTES, Report};

use super::{Action, AgentCore};

/// Number of queued bytes from which a client's requests are no longer read. Requests cause most messages, so
/// a client that does not read its answers cannot send more. Other clients are not affected.
pub const PAUSE_QUEUED_BYTES: usize = 256 * 1024;

/// Maximum number of bytes queued for a client; beyond it the client is considered stuck and is dropped.
/// Output is flow-controlled, but for each child separately: a thousand writing children may have twice 64
/// KiB each in flight.
pub const MAX_QUEUED_BYTES: usize = 256 << 20;

/// Overhead of a queued message, in bytes.
pub const QUEUED_OVERHEAD_BYTES: usize = 64;

/// Maximum number of descriptors queued for a client; while queued they count as the monitor's own.
pub const MAX_QUEUED_DESCRIPTORS: usize = 1024;

/// Connection of a client.
#[derive(Debug, Default)]
pub(super) struct ClientRecord {
    pid: i32,
    /// Domain of the client, once assigned by the root.
    domain: Option<DomainId>,
    /// Bytes and descriptors of each message that it has not accepted yet.
    queue: VecDeque<(usize, usize)>,
    queued_bytes: usize,
    queued_descriptors: usize,
}

impl<D> AgentCore<D> {
    /// Handles a new connection from a process; `is_same_user` is false for one of another user. Returns the
    /// number of the connection, or `None` if the caller must close it at once.
    pub fn client_connected(&mut self, pid: i32, is_same_user: bool) -> Option<u32> {
        // An abstract name has no permissions, so other users are refused here.
        if !is_same_user {
            return None;
        }
        let connection = self.next_connection;
        self.next_connection = self.next_connection.wrapping_add(1);
        let domain = self.children.iter().find(|(_, child)| child.pid() == pid).map(|(id, _)| *id);
        self.clients.insert(connection, ClientRecord { pid, ..ClientRecord::default() });
        self.report(Report::Joined { connection, pid, domain });
        Some(connection)
    }

    /// Handles a message of a client, possibly with a descriptor; `truncated` if it was longer than the
    /// buffer.
    pub fn client_message_received(
        &mut self,
        connection: u32,
        message: Vec<u8>,
        truncated: bool,
        file: Option<D>,
    ) {
        if !self.clients.contains_key(&connection) {
            return;
        }
        // A longer message would not fit into a report to the root.
        if truncated || !(1..=MAX_MESSAGE_BYTES).contains(&message.len()) {
            return self.client_disconnected(connection);
        }
        if self.try_handle_names_request(connection, &message) {
            return;
        }
        self.reports.push_back((Report::Asked { connection, message }, file));
    }

    /// Handles the end of a client's connection, closed by either side.
    pub fn client_disconnected(&mut self, connection: u32) {
        if let Some(client) = self.clients.remove(&connection) {
            self.actions.push_back(Action::Close { connection });
            self.unassign_client_domain(&client);
            self.own_names_client_left(connection);
            if !tombolo_base::canary!("agent forgets who left") {
                self.report(Report::Left { connection });
            }
        }
    }

    /// Assigns a domain to a client.
    pub(super) fn assign_client_domain(&mut self, connection: u32, domain: DomainId) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        let (pid, before) = (client.pid, client.domain.replace(domain));
        self.sampling.connected(domain, pid);
        if let Some(before) = before {
            self.sampling.disconnected(before);
        }
    }

    fn unassign_client_domain(&mut self, client: &ClientRecord) {
        if let Some(domain) = client.domain {
            self.sampling.disconnected(domain);
        }
    }

    /// Records that a client accepted the first queued message.
    pub fn client_message_sent(&mut self, connection: u32) {
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
            self.client_disconnected(connection);
        }
    }

    /// Sets whether the root accepts requests of clients; otherwise clients are not read.
    pub fn set_requests_enabled(&mut self, enabled: bool) {
        self.requests_enabled = enabled;
    }

    /// Returns the value set by [`set_requests_enabled`](Self::set_requests_enabled).
    #[must_use]
    pub fn requests_enabled(&self) -> bool {
        self.requests_enabled
    }

    /// Returns whether a client's requests are to be read now.
    #[must_use]
    pub fn should_read_client(&self, connection: u32) -> bool {
        let has_room = |client: &ClientRecord| client.queued_bytes < PAUSE_QUEUED_BYTES;
        self.requests_enabled && self.clients.get(&connection).is_some_and(has_room)
    }

    /// Closes a client's connection on behalf of the root, which gets no further report about it.
    pub(super) fn dismiss(&mut self, connection: u32) {
        if let Some(client) = self.clients.remove(&connection) {
            self.actions.push_back(Action::Close { connection });
            self.unassign_client_domain(&client);
            self.own_names_client_left(connection);
        }
    }
}
