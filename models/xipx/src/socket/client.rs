//! Client of a device that another program serves.

use std::collections::VecDeque;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

use tombolo_platform::{process::user_id, socket::peer_credentials};

use super::wire::{self, ANY_CHANNEL, Code, NO_NODE, Opened};
use crate::engine::{Address, Message};
use crate::error::XipxError;

/// Timeout for opening a device.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a reply, longer than the device waits for room: beyond it the device has hung.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// A device that another program serves, opened by this one. Closed when dropped.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    opened: Opened,
    /// Messages that arrived while waiting for a reply.
    messages: VecDeque<Message>,
}

/// A received frame.
enum Frame {
    Message(Message),
    Reply(Code, Vec<u8>),
}

impl Client {
    /// Opens a device on a channel, or on the lowest free one if `channel` is `None`, at the abstract socket
    /// name given by [`address_of`](crate::address_of).
    ///
    /// # Errors
    /// [`XipxError::Socket`] if no device is served there. [`XipxError::Answered`].
    pub fn open(name: &str, channel: Option<u16>) -> Result<Client, XipxError> {
        let connect = || {
            let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
            // Any program can listen on an abstract name.
            let peer = peer_credentials(&stream).map_err(io::Error::other)?;
            if peer.uid != user_id() {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there"));
            }
            let open = Address { node: NO_NODE, channel: channel.unwrap_or(ANY_CHANNEL) };
            wire::write(&stream, open, &[])?;
            Ok(stream)
        };
        let stream = connect().map_err(XipxError::socket(format!("open a message device at @{name}")))?;
        let opened = Opened { node: 0, nodes: 0, channel: 0, max_bytes: 0 };
        let mut client = Client { stream, opened, messages: VecDeque::new() };
        let payload = client.wait_reply(Code::Opened, OPEN_TIMEOUT)?;
        client.opened = Opened::from_bytes(&payload)
            .ok_or_else(|| XipxError::refused(format!("@{name} is of another version")))?;
        Ok(client)
    }

    /// Returns the address of this device.
    #[must_use]
    pub fn address(&self) -> Address {
        Address { node: self.opened.node, channel: self.opened.channel }
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u16 {
        self.opened.nodes
    }

    /// Returns the maximum length of a message, in bytes.
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        self.opened.max_bytes as usize
    }

    /// Sends a message like [`Device::send`](crate::Device::send), with a timeout of 10 seconds.
    ///
    /// # Errors
    /// [`XipxError::Answered`]; [`XipxError::Socket`].
    pub fn send(&mut self, to: Address, message: &[u8]) -> Result<(), XipxError> {
        wire::write(&self.stream, to, message).map_err(XipxError::socket("send to the message device"))?;
        self.wait_reply(Code::Sent, REPLY_TIMEOUT).map(drop)
    }

    /// Receives the next message.
    ///
    /// # Errors
    /// [`XipxError::TimedOut`]; [`XipxError::Answered`]; [`XipxError::Socket`].
    pub fn receive(&mut self, timeout: Duration) -> Result<Message, XipxError> {
        if let Some(message) = self.messages.pop_front() {
            return Ok(message);
        }
        match self.next(timeout)? {
            Frame::Message(message) => Ok(message),
            Frame::Reply(_, text) => Err(XipxError::answered(&text)),
        }
    }

    /// Waits for a reply, and queues the messages that arrive before it.
    fn wait_reply(&mut self, expected: Code, timeout: Duration) -> Result<Vec<u8>, XipxError> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.next(deadline.saturating_duration_since(Instant::now()))? {
                Frame::Message(message) => self.messages.push_back(message),
                Frame::Reply(code, payload) if code == expected => return Ok(payload),
                Frame::Reply(_, text) => return Err(XipxError::answered(&text)),
            }
        }
    }

    fn next(&mut self, timeout: Duration) -> Result<Frame, XipxError> {
        let timed_out = || XipxError::TimedOut { what: "the message device said nothing".into(), timeout };
        let failed = XipxError::socket("read from the message device");
        if timeout.is_zero() {
            return Err(timed_out());
        }
        let mut bytes = Vec::new();
        let read = self
            .stream
            .set_read_timeout(Some(timeout))
            .and_then(|()| wire::read(&mut self.stream, &mut bytes));
        match read {
            Ok(Some(Address { node: NO_NODE, channel })) => {
                Ok(Frame::Reply(Code::from_number(channel), bytes))
            }
            Ok(Some(source)) => Ok(Frame::Message(Message { source, bytes })),
            Ok(None) => Err(failed(io::Error::new(io::ErrorKind::UnexpectedEof, "it has ended"))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(timed_out()),
            Err(error) => Err(failed(error)),
        }
    }
}
