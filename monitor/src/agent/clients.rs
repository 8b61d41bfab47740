//! The connections of the domains of this node.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tombolo_base::ChannelId;
use tombolo_control::{Attachment, Bytes, Fault, MAX_MESSAGE_BYTES, MonitorMessage, Reply, Report, Wire};
use tombolo_platform::event::{Interest, Ready};
use tombolo_platform::{Errno, process, socket};

use super::{Agent, is_gone};

/// Bytes of messages that may wait for a client before it is no longer heard. What it asks for makes the most
/// messages, so one that does not read its answers soon cannot ask either, which costs nobody but itself.
const PAUSE_QUEUED_BYTES: usize = 256 * 1024;

/// Bytes of messages that may wait for a client. One that falls behind further does not read at all and is
/// dropped. Output is sent only as fast as it is taken, but from each child: a thousand children that all write
/// may have twice 64 KiB each on their way.
const MAX_QUEUED_BYTES: usize = 256 << 20;

/// What a message that waits takes besides its bytes.
const QUEUED_OVERHEAD_BYTES: usize = 64;

/// Descriptors that may wait for a client: they are the monitor's own as long.
const MAX_QUEUED_DESCRIPTORS: usize = 1024;

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
    queued_bytes: usize,
    queued_descriptors: usize,
}

impl ClientConnection {
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn new(socket: OwnedFd) -> Self {
        ClientConnection { socket, queue: VecDeque::new(), queued_bytes: 0, queued_descriptors: 0 }
    }

    /// Whether what it asks is listened to.
    fn is_heard(&self) -> bool {
        self.queued_bytes < PAUSE_QUEUED_BYTES
    }

    /// What to wait for, if it may ask something; `None` when there is nothing.
    pub(super) fn interest(&self, may_ask: bool) -> Option<Interest> {
        match (may_ask && self.is_heard(), self.queue.is_empty()) {
            (true, true) => Some(Interest::Read),
            (true, false) => Some(Interest::ReadWrite),
            (false, false) => Some(Interest::Write),
            (false, true) => None,
        }
    }

    /// Queues a message; false when it has too many before it.
    fn push(&mut self, message: Vec<u8>, fds: Vec<OwnedFd>) -> bool {
        self.queued_bytes += message.len() + QUEUED_OVERHEAD_BYTES;
        self.queued_descriptors += fds.len();
        self.queue.push_back((message, fds));
        self.queued_bytes <= MAX_QUEUED_BYTES && self.queued_descriptors <= MAX_QUEUED_DESCRIPTORS
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
            self.queued_bytes -= message.len() + QUEUED_OVERHEAD_BYTES;
            self.queued_descriptors -= fds.len();
            self.queue.pop_front();
        }
        true
    }
}

/// A descriptor to be given up when there is no other.
pub(super) fn spare() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

impl Agent {
    pub(super) fn accept_clients(&mut self) {
        loop {
            let connection = match socket::accept(&self.listener) {
                Ok(Some(connection)) => connection,
                Ok(None) => return,
                Err(_) => return self.turn_away(),
            };
            // An abstract name has no permissions: whoever is not this user goes away again.
            let Ok(them) = socket::peer_credentials(&connection) else { continue };
            if them.uid != process::user_id() {
                continue;
            }
            let number = self.next_connection;
            self.next_connection = self.next_connection.wrapping_add(1);
            let domain = self.children.iter().find(|(_, child)| child.pid() == them.pid).map(|(id, _)| *id);
            self.clients.insert(number, ClientConnection::new(connection));
            self.report(Report::Joined { connection: number, pid: them.pid, domain });
        }
    }

    /// This process has no descriptor for another connection. Whoever waits for one would wait, and this process
    /// be woken for it, without end: a descriptor kept for this case takes it, says so, and ends it.
    fn turn_away(&mut self) {
        drop(self.spare.take());
        if let Ok(Some(connection)) = socket::accept(&self.listener) {
            let what =
                "the monitor of this node has no descriptors left for another connection (see `ulimit -n`)";
            let body = Reply::Failed { fault: Fault::Limit { what: what.into() } };
            // If it does not take that, it sees the end.
            let _ = socket::send(&connection, &MonitorMessage { request: 0, body }.to_bytes(), &[]);
        }
        self.spare = spare();
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
        if !client.push(message, fds.unwrap_or_default()) || !client.flush() {
            self.drop_client(number);
        }
    }
}
