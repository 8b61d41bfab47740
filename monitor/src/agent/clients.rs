//! Sockets of the domains of this node.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tombolo_base::ChannelId;
use tombolo_control::{Fault, MonitorMessage, Reply, encode_or_fault};
use tombolo_platform::event::{Interest, Ready};
use tombolo_platform::{Errno, process, socket};

use super::poller::Registered;
use super::{Agent, EventSource, Token};
use tombolo_monitor_core::agent::Item;

/// Connection of a client.
#[derive(Debug)]
pub(super) struct ClientConnection {
    socket: Registered<OwnedFd>,
    /// Messages that the client has not accepted yet.
    queue: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
}

impl ClientConnection {
    /// Returns the events to wait for; `read_enabled` enables requests. `None` if there are none.
    fn interest(&self, read_enabled: bool) -> Option<Interest> {
        match (read_enabled, self.queue.is_empty()) {
            (true, true) => Some(Interest::Read),
            (true, false) => Some(Interest::ReadWrite),
            (false, false) => Some(Interest::Write),
            (false, true) => None,
        }
    }

    /// Sends one message. Returns false if the queue is empty or the socket is full.
    fn flush_one(&mut self) -> Result<bool, Errno> {
        let Some((message, fds)) = self.queue.front() else { return Ok(false) };
        let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        match socket::send(&self.socket, message, &borrowed) {
            Ok(_) => {
                self.queue.pop_front();
                Ok(true)
            }
            Err(Errno::AGAIN) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

/// Opens a spare descriptor, to be released when no other is left.
pub(super) fn open_spare() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

impl Agent {
    pub(super) fn accept_clients(&mut self) {
        loop {
            let connection = match socket::accept(&self.listener) {
                Ok(Some(connection)) => connection,
                Ok(None) => return,
                Err(_) => return self.reject_connection(),
            };
            let Ok(them) = socket::peer_credentials(&connection) else { continue };
            let is_same_user = them.uid == process::user_id();
            let Some(number) = self.core.client_connected(them.pid, is_same_user) else { continue };
            match self.poller.add(connection, Token::Client(number), Some(Interest::Read)) {
                Ok(socket) => {
                    self.clients.insert(number, ClientConnection { socket, queue: VecDeque::new() });
                    self.changed.insert(EventSource::Client(number));
                }
                // The client sees the end of the stream.
                Err(_) => self.core.client_disconnected(number),
            }
        }
    }

    /// Refuses a connection for lack of descriptors. Otherwise the waiting client would stay in the backlog
    /// and wake this process without end: a spare descriptor accepts it, sends the error, and closes it.
    fn reject_connection(&mut self) {
        drop(self.spare.take());
        if let Ok(Some(connection)) = socket::accept(&self.listener) {
            let what =
                "the monitor of this node has no descriptors left for another connection (see `ulimit -n`)";
            let body = Reply::TurnedAway { fault: Fault::Limit { what: what.into() } };
            // If the client does not accept it, it sees the end of the stream.
            let _ = socket::send(&connection, &encode_or_fault(&MonitorMessage { request: 0, body }), &[]);
        }
        self.spare = open_spare();
    }

    /// Updates the events to wait for on a client's socket.
    pub(super) fn arm_client(&mut self, number: u32) {
        let read_enabled = self.core.should_read_client(number);
        let Some(client) = self.clients.get_mut(&number) else { return };
        if client.socket.set_interest(client.interest(read_enabled)).is_err() {
            self.core.client_disconnected(number);
        }
    }

    pub(super) fn serve_client(&mut self, number: u32, ready: Ready) {
        if ready.writable {
            self.flush_client(number);
        }
        if ready.readable || ready.hung_up {
            self.read_client(number);
        }
    }

    /// Reads and forwards a client's requests.
    fn read_client(&mut self, number: u32) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(socket::MAX_PACKET_BYTES, 0);
        self.read_client_into(number, &mut buffer);
        self.buffer = buffer;
    }

    fn read_client_into(&mut self, number: u32, buffer: &mut [u8]) {
        // Bounded, so that other clients get their turn.
        for _ in 0..16 {
            let Some(client) = self.clients.get(&number) else { return };
            match socket::receive(&client.socket, buffer) {
                Ok(received) => {
                    let message = buffer[..received.length.min(buffer.len())].to_vec();
                    let file = received.fds.into_iter().next();
                    self.core.client_message_received(number, message, received.truncated, file);
                    // An empty message is the end of the stream; one that is too long also ends it.
                    self.run_actions();
                }
                Err(errno) if is_closed(errno) => return self.core.client_disconnected(number),
                Err(_) => return,
            }
        }
    }

    pub(super) fn send(
        &mut self,
        number: u32,
        channel: ChannelId,
        items: Vec<Item<OwnedFd>>,
        message: Vec<u8>,
    ) {
        let fds = self.create_descriptors(channel, items);
        let Some(client) = self.clients.get_mut(&number) else { return };
        // A grant without its descriptors is useless: the client reports that when it opens the channel.
        client.queue.push_back((message, fds.unwrap_or_default()));
        self.flush_client(number);
    }

    fn flush_client(&mut self, number: u32) {
        while let Some(client) = self.clients.get_mut(&number) {
            match client.flush_one() {
                Ok(true) => self.core.client_message_sent(number),
                Ok(false) => return,
                Err(_) => return self.core.client_disconnected(number),
            }
        }
    }
}

/// Returns whether a socket error means that the other end is closed.
fn is_closed(errno: Errno) -> bool {
    matches!(errno, Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN)
}
