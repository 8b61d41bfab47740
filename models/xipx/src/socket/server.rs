//! Server of the devices of a node for programs that connect.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tombolo_platform::{process::user_id, socket::peer_credentials};

use super::wire::{self, ANY_CHANNEL, Code, NO_NODE, Opened};
use crate::engine::{Address, Message};
use crate::error::XipxError;
use crate::layout::CHANNELS;
use crate::node::{Device, Node};

/// Timeout of a program's message that waits for room.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Length of an unbounded wait, which is restarted when it expires.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Server of a node's devices, for programs of the same user.
#[derive(Debug)]
pub struct Server {
    node: Node,
    listener: UnixListener,
}

impl Server {
    /// Listens at an abstract socket name.
    ///
    /// # Errors
    /// [`XipxError::Socket`] if another program listens there.
    pub fn new(node: Node, name: &str) -> Result<Server, XipxError> {
        let listen = || UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?);
        let in_use = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
        let listener = match listen() {
            Err(error) if in_use(&error) => {
                return Err(XipxError::refused(format!(
                    "another program serves @{name}; use another group (--group)"
                )));
            }
            listener => listener.map_err(XipxError::socket(format!("listen at @{name}")))?,
        };
        Ok(Server { node, listener })
    }

    /// Serves until the device of node 0 has ended, and returns that as an error.
    ///
    /// # Errors
    /// [`XipxError::NodeEnded`], [`XipxError::Socket`].
    pub fn run(self) -> Result<(), XipxError> {
        let Server { node, listener } = self;
        let acceptor = node.clone();
        std::thread::Builder::new()
            .name("xipx-accept".into())
            .spawn(move || accept(&acceptor, &listener))
            .map_err(XipxError::socket("start a thread"))?;
        while !node.wait_ended(MAX_WAIT) {}
        Err(XipxError::NodeEnded { node: 0, name: node.names().first().cloned().unwrap_or_default() })
    }
}

fn accept(node: &Node, listener: &UnixListener) {
    for stream in listener.incoming() {
        // The connection ended at once, or there are too many open files: keep serving the others.
        let Ok(stream) = stream else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        // Any program can connect to an abstract name.
        if peer_credentials(&stream).is_ok_and(|peer| peer.uid == user_id()) {
            let node = node.clone();
            // If no thread can be created the connection is closed, which the program sees.
            drop(std::thread::Builder::new().name("xipx-program".into()).spawn(move || serve(&node, stream)));
        }
    }
}

/// Stream to a program, shared by two writing threads.
type ReplyStream = Arc<Mutex<UnixStream>>;

fn reply(replies: &ReplyStream, code: Code, payload: &[u8]) -> io::Result<()> {
    let stream = replies.lock().unwrap_or_else(PoisonError::into_inner);
    wire::write(&*stream, Address { node: NO_NODE, channel: code as u16 }, payload)
}

fn reply_error(replies: &ReplyStream, error: &XipxError) -> io::Result<()> {
    reply(replies, Code::of(error), error.to_string().as_bytes())
}

/// Serves one program until it closes its connection or an error occurs.
fn serve(node: &Node, mut stream: UnixStream) {
    let Ok(writer) = stream.try_clone() else { return };
    let replies = Arc::new(Mutex::new(writer));
    let Some(device) = open(node, &mut stream, &replies) else { return };
    let device = Arc::new(device);
    let (receiver, forwarded) = (Arc::clone(&device), Arc::clone(&replies));
    let forwarder =
        std::thread::Builder::new().name("xipx-forward".into()).spawn(move || forward(&receiver, &forwarded));
    let Ok(forwarder) = forwarder else { return };
    let mut payload = Vec::new();
    while let Ok(Some(to)) = wire::read(&mut stream, &mut payload) {
        let sent = device.send(to, &payload, SEND_TIMEOUT);
        let replied = match &sent {
            Ok(()) => reply(&replies, Code::Sent, &[]),
            Err(error) => reply_error(&replies, error),
        };
        if replied.is_err() {
            break;
        }
    }
    device.close();
    // The forwarder may be blocked on a program that does not read.
    let _ = stream.shutdown(std::net::Shutdown::Both);
    let _ = forwarder.join();
}

/// Opens the device that the program's first frame requests.
fn open(node: &Node, stream: &mut UnixStream, replies: &ReplyStream) -> Option<Device> {
    let first = wire::read(stream, &mut Vec::new()).ok()??;
    if first.node != NO_NODE {
        let why = "the first frame of a connection must open a device";
        let _ = reply(replies, Code::Other, why.as_bytes());
        return None;
    }
    let channel = Some(first.channel).filter(|channel| *channel != ANY_CHANNEL);
    let device = match node.open(channel) {
        Ok(device) => device,
        Err(error) => {
            let _ = reply_error(replies, &error);
            return None;
        }
    };
    debug_assert!(device.channel() < CHANNELS);
    let opened = Opened {
        node: node.number(),
        nodes: node.names().len() as u16,
        channel: device.channel(),
        max_bytes: node.max_message_bytes() as u32,
    };
    reply(replies, Code::Opened, &opened.to_bytes()).ok().map(|()| device)
}

/// Forwards messages that the device receives to its program.
fn forward(device: &Device, replies: &ReplyStream) {
    let mut message = Message::default();
    loop {
        match device.receive_into(&mut message, None, MAX_WAIT) {
            Ok(()) => {
                let stream = replies.lock().unwrap_or_else(PoisonError::into_inner);
                if wire::write(&*stream, message.source, &message.bytes).is_err() {
                    return;
                }
            }
            Err(XipxError::TimedOut { .. }) => {}
            Err(XipxError::NotOpen { .. }) => return,
            Err(error) => {
                let _ = reply_error(replies, &error);
                let stream = replies.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
    }
}
