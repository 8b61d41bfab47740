//! The connections of the domains of this node.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tombolo_base::ChannelId;
use tombolo_control::{Attachment, Bytes, MAX_MESSAGE_BYTES, Report};
use tombolo_platform::event::{Interest, Ready};
use tombolo_platform::{Errno, process, socket};

use super::{Agent, is_gone};

/// Messages that may wait for a client. One that falls behind further does not read at all and is dropped; what
/// may be long, output and consoles, is sent only as fast as it is taken: a client with a thousand children that
/// all write may still have sixteen thousand pieces of output before it.
const MAX_QUEUED: usize = 128 * 1024;

/// Clients of one node.
const MAX_CLIENTS: usize = 4096;

/// Whether it can be passed on: what is longer would not fit into a report to the root.
fn is_message(received: &socket::Received) -> bool {
    (1..=MAX_MESSAGE_BYTES).contains(&received.length) && !received.truncated
}

/// A client's connection.
#[derive(Debug)]
pub(super) struct ClientConnection {
    socket: OwnedFd,
    /// What it has not taken yet.
    queue: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
}

impl ClientConnection {
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn interest(&self) -> Interest {
        if self.queue.is_empty() { Interest::Read } else { Interest::ReadWrite }
    }

    /// Sends what it takes; false when it is gone.
    fn flush(&mut self) -> bool {
        while let Some((message, fds)) = self.queue.front() {
            let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
            match socket::send(&self.socket, message, &borrowed) {
                Ok(_) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
            self.queue.pop_front();
        }
        true
    }
}

impl Agent {
    pub(super) fn accept_clients(&mut self) {
        while let Ok(Some(connection)) = socket::accept(&self.listener) {
            // An abstract name has no permissions: whoever is not this user goes away again.
            let Ok(them) = socket::peer_credentials(&connection) else { continue };
            if them.uid != process::user_id() || self.clients.len() >= MAX_CLIENTS {
                continue;
            }
            let number = self.next_connection;
            self.next_connection = self.next_connection.wrapping_add(1);
            let domain = self.children.iter().find(|(_, child)| child.pid() == them.pid).map(|(id, _)| *id);
            self.clients.insert(number, ClientConnection { socket: connection, queue: VecDeque::new() });
            self.report(Report::Joined { connection: number, pid: them.pid, domain });
        }
    }

    pub(super) fn serve_client(&mut self, number: u32, ready: Ready) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let mut alive = !ready.writable || client.flush();
        if alive && (ready.readable || ready.hung_up) {
            alive = self.read_client(number);
        }
        if !alive {
            self.drop_client(number);
        }
    }

    /// Passes on what a client asks; false when it is gone.
    fn read_client(&mut self, number: u32) -> bool {
        let mut buffer = vec![0; socket::MAX_PACKET_BYTES];
        // Not until it is empty: others want to be served too.
        for _ in 0..16 {
            let Some(client) = self.clients.get(&number) else { return true };
            match socket::receive(&client.socket, &mut buffer) {
                Ok(received) if is_message(&received) => {
                    let message = Bytes(buffer[..received.length].to_vec());
                    let file = received.fds.into_iter().next();
                    self.reports.push_back((Report::Asked { connection: number, message }, file));
                }
                Err(Errno::AGAIN) => return true,
                Err(errno) if !is_gone(errno) => return true,
                _ => return false,
            }
        }
        true
    }

    fn drop_client(&mut self, number: u32) {
        if self.clients.remove(&number).is_some() {
            self.report(Report::Left { connection: number });
        }
    }

    pub(super) fn deliver(
        &mut self,
        number: u32,
        channel: ChannelId,
        attachments: &[Attachment],
        message: Vec<u8>,
        fds: Vec<OwnedFd>,
    ) {
        let fds = self.attach(channel, attachments, fds);
        let promised = attachments.iter().any(|attachment| matches!(attachment, Attachment::Lifeline {}));
        if fds.is_err() && promised && !self.has_lifeline(channel) {
            // There is nothing whose end could show later.
            self.report(Report::Released { channel });
        }
        let Some(client) = self.clients.get_mut(&number) else { return };
        // Without what belongs to it a grant is of no use: the client says so when it opens the channel.
        client.queue.push_back((message, fds.unwrap_or_default()));
        if client.queue.len() > MAX_QUEUED || !client.flush() {
            self.drop_client(number);
        }
    }
}
