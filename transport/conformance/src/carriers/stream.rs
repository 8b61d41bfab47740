//! Byte streams: a local socket, and TCP over the loopback.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use tombolo_link::{ChannelConfig, Hello, Side};
use tombolo_platform::socket::{SocketKind, pair as socket_pair};
use tombolo_platform::time::Deadline;
use tombolo_transport::{Capabilities, ChannelError, StreamChannel};

use super::only;
use crate::carrier::{Carrier, Fixture};
use crate::peer::{self, KillablePeer, PeerTask};

/// Carrier of byte streams within one kernel.
pub struct UnixStream;

impl Carrier for UnixStream {
    type Channel = StreamChannel;
    type End = Vec<OwnedFd>;
    const NAME: &'static str = "unix";
    const CAPABILITIES: Capabilities = Capabilities::OF_STREAM;
    const FIXTURES: &'static [Fixture] = &[Fixture::Handshake, Fixture::Killable];

    fn ends(_config: ChannelConfig) -> (Vec<OwnedFd>, Vec<OwnedFd>) {
        let (a, b) = socket_pair(SocketKind::Stream).expect("a socket pair");
        (vec![a], vec![b])
    }

    fn open(
        end: Vec<OwnedFd>,
        _side: Side,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<StreamChannel, ChannelError> {
        StreamChannel::open(only(end), hello, deadline)
    }

    fn decline(end: Vec<OwnedFd>, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        StreamChannel::decline(only(end), hello, reason)
    }

    fn spawn_killable_peer(task: PeerTask) -> (StreamChannel, Box<dyn KillablePeer>) {
        peer::spawn_process_peer::<Self>(task)
    }

    fn peer(descriptors: Vec<OwnedFd>, task: PeerTask) {
        let _ended = peer::run_peer::<Self>(descriptors, task);
    }
}

/// Carrier of TCP over the loopback.
pub struct Tcp;

impl Carrier for Tcp {
    type Channel = StreamChannel;
    type End = Vec<OwnedFd>;
    const NAME: &'static str = "tcp";
    const CAPABILITIES: Capabilities = Capabilities::OF_STREAM;
    const FIXTURES: &'static [Fixture] = &[Fixture::Handshake, Fixture::Killable];

    fn ends(_config: ChannelConfig) -> (Vec<OwnedFd>, Vec<OwnedFd>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let a = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let (b, _) = listener.accept().expect("a connection");
        (vec![a.into()], vec![b.into()])
    }

    fn open(
        end: Vec<OwnedFd>,
        _side: Side,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<StreamChannel, ChannelError> {
        StreamChannel::open_tcp(only(end).into(), hello, deadline)
    }

    fn decline(end: Vec<OwnedFd>, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        UnixStream::decline(end, hello, reason)
    }

    fn spawn_killable_peer(task: PeerTask) -> (StreamChannel, Box<dyn KillablePeer>) {
        peer::spawn_process_peer::<Self>(task)
    }

    fn peer(descriptors: Vec<OwnedFd>, task: PeerTask) {
        let _ended = peer::run_peer::<Self>(descriptors, task);
    }
}
