//! The kernel's means of communication: pipes and local sockets, blocking, with one system call per message.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, read, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use tombolo_platform::OsError;

use crate::suite::content::{Aligned, check, check_sum, fill, fill_bulk, sum};
use crate::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side};

/// Name of the stream socket.
pub const UNIX_STREAM: &str = "Unix stream socket";

fn metrics() -> Vec<Metric> {
    let mut metrics = Metric::ROUND_TRIPS.to_vec();
    metrics.extend([Metric::WakeUp, Metric::Rate { bytes: 64, batch: 1 }]);
    metrics.extend(Metric::BANDWIDTHS);
    metrics.extend(Metric::STANDING);
    metrics
}

/// One pipe per direction.
#[derive(Debug)]
pub struct Pipe;

impl Peer for Pipe {
    fn name(&self) -> &'static str {
        "pipe"
    }

    fn about(&self) -> String {
        "a pipe each way, of 1 MiB where the kernel allows that; blocking read and write".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        metrics()
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        let (recv, send) = match meeting.side {
            Side::Near => {
                let ((far_recv, send), (recv, far_send)) = (pipe()?, pipe()?);
                meeting.line.give_fds(&[far_recv.as_fd(), far_send.as_fd()])?;
                (recv, send)
            }
            Side::Far => {
                let [recv, send] = meeting.line.take_fds()?;
                (recv, send)
            }
        };
        Ok(AnyEnd::new(Stream::new(recv, send)))
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    let (reader, writer) = rustix::pipe::pipe().map_err(|errno| OsError::new("make a pipe", errno))?;
    // A user limit may forbid it; the pipe then has 64 KiB.
    let _ = rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20);
    Ok((reader, writer))
}

fn pair(meeting: &Meeting<'_>, kind: SocketType) -> Result<OwnedFd, Error> {
    match meeting.side {
        Side::Near => {
            let pair = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
            let (near, far) = pair.map_err(|errno| OsError::new("make two sockets", errno))?;
            for socket in [&near, &far] {
                // As far as the kernel's limit allows.
                let _ = sockopt::set_socket_send_buffer_size(socket, 1 << 20);
            }
            meeting.line.give_fds(&[far.as_fd()])?;
            Ok(near)
        }
        Side::Far => {
            let [far] = meeting.line.take_fds()?;
            Ok(far)
        }
    }
}

/// A Unix stream socket pair.
#[derive(Debug)]
pub struct UnixStream;

impl Peer for UnixStream {
    fn name(&self) -> &'static str {
        UNIX_STREAM
    }

    fn about(&self) -> String {
        "a local stream socket; blocking read and write".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        metrics()
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        let socket = pair(meeting, SocketType::STREAM)?;
        let copy = socket.try_clone().map_err(|error| OsError::from_io("use a socket both ways", &error))?;
        Ok(AnyEnd::new(Stream::new(socket, copy)))
    }
}

/// Unix socket pair that preserves message boundaries.
#[derive(Debug)]
pub struct UnixPackets;

impl Peer for UnixPackets {
    fn name(&self) -> &'static str {
        "Unix packet socket"
    }

    fn about(&self) -> String {
        "a local sequenced-packet socket; blocking read and write".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        metrics().into_iter().filter(|metric| !matches!(metric, Metric::Bandwidth { .. })).collect()
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        let socket = pair(meeting, SocketType::SEQPACKET)?;
        let copy = socket.try_clone().map_err(|error| OsError::from_io("use a socket both ways", &error))?;
        Ok(AnyEnd::new(Stream::new(socket, copy)))
    }
}

/// Descriptors for both directions of a byte stream.
pub(crate) struct Stream {
    recv: OwnedFd,
    send: OwnedFd,
    /// Private memory of the program for messages sent and received.
    buffer: Vec<u8>,
}

impl Stream {
    pub(crate) fn new(recv: OwnedFd, send: OwnedFd) -> Self {
        Stream { recv, send, buffer: Vec::new() }
    }

    fn write_all(send: &OwnedFd, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            match write(send, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(OsError::new("write to a peer", errno).into()),
            }
        }
        Ok(())
    }

    fn read_all(recv: &OwnedFd, mut bytes: &mut [u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            match read(recv, &mut *bytes) {
                Ok(0) => return Err(Error::Far { what: "has ended".into() }),
                Ok(count) => bytes = &mut bytes[count..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(OsError::new("read from a peer", errno).into()),
            }
        }
        Ok(())
    }
}

impl End for Stream {
    fn send<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut message = Aligned([0; N]);
        fill(&mut message.0, sequence);
        Self::write_all(&self.send, &message.0)
    }

    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut message = [0; N];
        Self::read_all(&self.recv, &mut message)?;
        check::<N>(&message, sequence)
    }

    fn send_bulk(&mut self, bytes: usize, sequence: u64) -> Result<(), Error> {
        self.buffer.resize(bytes, 0);
        fill_bulk(&mut self.buffer, sequence);
        Self::write_all(&self.send, &self.buffer)
    }

    fn recv_bulk(&mut self, bytes: usize, sequence: u64) -> Result<(), Error> {
        self.buffer.resize(bytes, 0);
        Self::read_all(&self.recv, &mut self.buffer)?;
        check_sum(sum(&self.buffer), bytes, sequence)
    }
}
