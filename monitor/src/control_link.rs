//! Control link between the root and an agent: packets on a socket, or a channel in a window or on a byte
//! stream.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tombolo_platform::event::Interest;
use tombolo_platform::{Errno, socket};
use tombolo_transport::stream::StreamChannel;
use tombolo_transport::window::WindowChannel;
use tombolo_transport::{EndError, Transport, TransportExt, wait};

/// The transport of a control link.
#[derive(Debug)]
enum Carrier {
    /// Packets on one kernel, with descriptors.
    Packets(OwnedFd),
    /// Channel across a window.
    Window(WindowChannel),
    /// Channel on a byte stream.
    Stream(Box<StreamChannel>),
}

/// One end of a control link.
#[derive(Debug)]
pub struct ControlLink {
    carrier: Carrier,
    queue: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    queued_bytes: usize,
    closed: bool,
}

/// Number of queued bytes from which this side should send no further requests.
const BACKED_UP_BYTES: usize = 1 << 20;

/// Maximum number of queued bytes; beyond it the other end counts as dead.
const MAX_QUEUED_BYTES: usize = 256 << 20;

/// Received message with its descriptors.
pub type Received = (Vec<u8>, Vec<OwnedFd>);

impl ControlLink {
    /// Creates a link over a packet socket.
    #[must_use]
    pub fn over_socket(socket: OwnedFd) -> Self {
        Self::over(Carrier::Packets(socket))
    }

    /// Creates a link over a channel in a window.
    #[must_use]
    pub fn over_window(channel: WindowChannel) -> Self {
        Self::over(Carrier::Window(channel))
    }

    /// Creates a link over a channel on a byte stream.
    #[must_use]
    pub fn over_stream(channel: StreamChannel) -> Self {
        Self::over(Carrier::Stream(Box::new(channel)))
    }

    fn over(carrier: Carrier) -> Self {
        ControlLink { carrier, queue: VecDeque::new(), queued_bytes: 0, closed: false }
    }

    /// Returns whether the other end is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Sends a message, immediately or when the other side has room.
    pub fn send(&mut self, message: Vec<u8>, fds: Vec<OwnedFd>) {
        self.queued_bytes += message.len();
        self.queue.push_back((message, fds));
        self.flush();
        if self.queued_bytes > MAX_QUEUED_BYTES {
            self.close();
        }
    }

    /// Returns whether sent messages accumulate because the other end is too slow.
    #[must_use]
    pub fn is_backed_up(&self) -> bool {
        self.queued_bytes > BACKED_UP_BYTES
    }

    fn close(&mut self) {
        self.closed = true;
        self.queue.clear();
        self.queued_bytes = 0;
    }

    /// Sends as many queued messages as the other side accepts.
    pub fn flush(&mut self) {
        while let Some((message, fds)) = self.queue.front() {
            let outcome = match &mut self.carrier {
                Carrier::Packets(socket) => {
                    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                    match socket::send(&*socket, message, &fds) {
                        Ok(_) => Ok(true),
                        Err(Errno::AGAIN) => Ok(false),
                        Err(_) => Err(()),
                    }
                }
                Carrier::Window(channel) => send_outcome(channel.try_send(message)),
                Carrier::Stream(channel) => send_outcome(channel.try_send(message)),
            };
            match outcome {
                Ok(true) => {
                    self.queued_bytes -= message.len();
                    self.queue.pop_front();
                }
                Ok(false) => return,
                Err(()) => return self.close(),
            }
        }
    }

    /// Returns the next message, if there is one.
    pub fn receive(&mut self) -> Option<Received> {
        if self.closed {
            return None;
        }
        let mut buffer = Vec::new();
        let arrived = match &mut self.carrier {
            Carrier::Packets(socket) => {
                buffer.resize(socket::MAX_PACKET_BYTES, 0);
                match socket::receive(&*socket, &mut buffer) {
                    Ok(received) if received.length > 0 => {
                        buffer.truncate(received.length);
                        Ok(Some((buffer, received.fds)))
                    }
                    Err(Errno::AGAIN) => Ok(None),
                    _ => Err(()),
                }
            }
            Carrier::Window(channel) => receive_outcome(channel.try_recv_into(&mut buffer), buffer),
            Carrier::Stream(channel) => receive_outcome(channel.try_recv_into(&mut buffer), buffer),
        };
        arrived.unwrap_or_else(|()| {
            self.closed = true;
            None
        })
    }

    fn interest(&self) -> Interest {
        if self.queue.is_empty() { Interest::Read } else { Interest::ReadWrite }
    }

    /// Announces that this side is about to sleep. Returns false if there is work to do first.
    pub fn prepare_to_sleep(&mut self) -> bool {
        let interest = self.interest();
        match &mut self.carrier {
            Carrier::Packets(_) => true,
            Carrier::Window(channel) => wait::prepare_to_sleep(channel, interest),
            Carrier::Stream(channel) => wait::prepare_to_sleep(&mut **channel, interest),
        }
    }

    /// Adds the descriptors to sleep on.
    pub fn sources<'a>(&'a self, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        let interest = self.interest();
        match &self.carrier {
            Carrier::Packets(socket) => sources.push((socket.as_fd(), interest)),
            Carrier::Window(channel) => channel.sources(interest, sources),
            Carrier::Stream(channel) => channel.sources(interest, sources),
        }
    }

    /// Withdraws the announcement and sends queued messages.
    pub fn wake_up(&mut self) {
        match &mut self.carrier {
            Carrier::Packets(_) => {}
            Carrier::Window(channel) => channel.finish_sleep(true),
            Carrier::Stream(channel) => channel.finish_sleep(true),
        }
        self.flush();
    }
}

/// Returns whether a channel has accepted a message.
fn send_outcome(outcome: Result<(), EndError>) -> Result<bool, ()> {
    match outcome {
        Ok(()) => Ok(true),
        Err(EndError::Full) => Ok(false),
        Err(_) => Err(()),
    }
}

/// Converts the result of receiving from a channel.
fn receive_outcome<T>(outcome: Result<Option<T>, EndError>, buffer: Vec<u8>) -> Result<Option<Received>, ()> {
    outcome.map(|something| something.map(|_| (buffer, Vec::new()))).map_err(|_| ())
}
