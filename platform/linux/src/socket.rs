//! Local sockets that leave nothing behind: abstract names, socket pairs, descriptors passed along.
//!
//! An abstract name vanishes with the socket that holds it, so a process killed at any instruction leaves no
//! file. It has no permissions either: both ends check the other's user by its credentials.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::error::{Context, OsError};

/// Most descriptors that travel with one message.
pub const MAX_FDS: usize = 8;

/// The longest control message, in bytes.
pub const MAX_PACKET_BYTES: usize = 64 * 1024;

/// Which kind of local socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketKind {
    /// Whole messages, in order, with an end.
    Packet,
    /// Bytes, in order, with an end.
    Stream,
}

impl SocketKind {
    fn socket_type(self) -> SocketType {
        match self {
            SocketKind::Packet => SocketType::SEQPACKET,
            SocketKind::Stream => SocketType::STREAM,
        }
    }
}

/// The process at the other end, as the kernel says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// Its process id when it connected.
    pub pid: i32,
    /// Its effective user when it connected.
    pub uid: u32,
}

fn address(name: &str) -> Result<SocketAddrUnix, OsError> {
    SocketAddrUnix::new_abstract_name(name.as_bytes()).context(&format!("use the socket name @{name}"))
}

/// Listens on an abstract name with whole-message sockets, non-blocking.
///
/// # Errors
/// `EADDRINUSE` when somebody listens there already.
pub fn listen(name: &str) -> Result<OwnedFd, OsError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .context("create a socket")?;
    rustix::net::bind(&socket, &address(name)?).context(&format!("listen on @{name}"))?;
    rustix::net::listen(&socket, 128).context(&format!("listen on @{name}"))?;
    Ok(socket)
}

/// Takes the next connection, non-blocking; `None` when there is none.
///
/// # Errors
/// What the kernel answered; a connection that was given up meanwhile is none.
pub fn accept(listener: impl AsFd) -> Result<Option<OwnedFd>, OsError> {
    match rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Ok(socket) => Ok(Some(socket)),
        Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
        Err(errno) => Err(OsError::new("accept a connection", errno)),
    }
}

/// Connects to an abstract name; the socket is non-blocking afterwards.
///
/// # Errors
/// `ECONNREFUSED` when nobody listens there.
pub fn connect(name: &str) -> Result<OwnedFd, OsError> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .context("create a socket")?;
    rustix::net::connect(&socket, &address(name)?).context(&format!("connect to @{name}"))?;
    rustix::io::ioctl_fionbio(&socket, true).context("make a socket non-blocking")?;
    Ok(socket)
}

/// Makes two connected sockets, non-blocking.
///
/// # Errors
/// Too many open files.
pub fn pair(kind: SocketKind) -> Result<(OwnedFd, OwnedFd), OsError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socketpair(AddressFamily::UNIX, kind.socket_type(), flags, None)
        .context("create a socket pair")
}

/// Who is at the other end.
///
/// # Errors
/// What the kernel answered.
pub fn peer_credentials(socket: impl AsFd) -> Result<Credentials, OsError> {
    let credentials = rustix::net::sockopt::socket_peercred(socket).context("ask who is at the other end")?;
    Ok(Credentials { pid: credentials.pid.as_raw_nonzero().get(), uid: credentials.uid.as_raw() })
}

/// Sends one message with descriptors, without blocking.
///
/// # Errors
/// `EAGAIN` when the other side does not keep up, `EPIPE` or `ECONNRESET` when it is gone.
pub fn send(socket: impl AsFd, message: &[u8], fds: &[BorrowedFd<'_>]) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        match rustix::net::sendmsg(&socket, &[IoSlice::new(message)], &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// One message as it arrived.
#[derive(Debug)]
pub struct Received {
    /// How many bytes were put in the buffer; 0 means that the other end is gone.
    pub length: usize,
    /// The descriptors that came along.
    pub fds: Vec<OwnedFd>,
    /// It was longer than the buffer, or had more descriptors than [`MAX_FDS`], and lost its end.
    pub truncated: bool,
}

/// Receives one message with its descriptors, without blocking.
///
/// # Errors
/// `EAGAIN` when there is none, `ECONNRESET` when the other end is gone.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> Result<Received, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let message = loop {
        match rustix::net::recvmsg(&socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            result => break result?,
        }
    };
    let fds = ancillary
        .drain()
        .filter_map(|part| match part {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    let truncated = message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    Ok(Received { length: message.bytes, fds, truncated })
}

/// Lets [`sleep`] sleep on this socket, for up to `length` at a time. All else here never blocks, whatever the socket.
///
/// # Errors
/// Some emulators have no such limit.
pub fn let_sleep(socket: impl AsFd, length: Duration) -> Result<(), OsError> {
    rustix::net::sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(length))
        .context("limit how long a socket blocks")?;
    rustix::io::ioctl_fionbio(&socket, false).context("make a socket blocking")
}

/// Sleeps until something arrives, and takes it: one system call where `poll` and [`receive`] are two. True when
/// something did, or the other end is gone; false when it took as long as [`let_sleep`] said, or a signal came.
pub fn sleep(socket: impl AsFd, buffer: &mut [u8]) -> bool {
    !matches!(rustix::net::recv(socket, buffer, RecvFlags::empty()), Err(Errno::AGAIN | Errno::INTR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_whole_and_descriptors_arrive() {
        let (left, right) = pair(SocketKind::Packet).unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        send(&left, b"first", &[]).unwrap();
        send(&left, b"second", &[writer.as_fd()]).unwrap();
        drop(writer);
        let mut buffer = [0; 64];
        let first = receive(&right, &mut buffer).unwrap();
        assert_eq!((&buffer[..first.length], first.fds.len()), (&b"first"[..], 0));
        let second = receive(&right, &mut buffer).unwrap();
        assert_eq!((&buffer[..second.length], second.fds.len()), (&b"second"[..], 1));
        rustix::io::write(&second.fds[0], b"!").unwrap();
        assert_eq!(rustix::io::read(&reader, &mut buffer).unwrap(), 1);
        assert_eq!(receive(&right, &mut buffer).unwrap_err(), Errno::AGAIN);
        drop(left);
        assert_eq!(receive(&right, &mut buffer).unwrap().length, 0);
    }

    #[test]
    fn a_sleep_ends_with_a_byte_an_end_or_its_length() {
        let (left, right) = pair(SocketKind::Stream).unwrap();
        let_sleep(&right, Duration::from_millis(1)).unwrap();
        let mut buffer = [0; 8];
        assert!(!sleep(&right, &mut buffer));
        send(&left, &[1], &[]).unwrap();
        assert!(sleep(&right, &mut buffer));
        // What never blocks still does not.
        assert_eq!(receive(&right, &mut buffer).unwrap_err(), Errno::AGAIN);
        drop(left);
        assert!(sleep(&right, &mut buffer));
        assert_eq!(receive(&right, &mut buffer).unwrap().length, 0);
    }

    #[test]
    fn a_message_longer_than_the_buffer_says_so() {
        let (left, right) = pair(SocketKind::Packet).unwrap();
        send(&left, &[7; 100], &[]).unwrap();
        assert!(receive(&right, &mut [0; 64]).unwrap().truncated);
    }

    #[test]
    fn an_abstract_name_has_one_holder_and_knows_its_caller() {
        let name = format!("tombolo-test/{}", std::process::id());
        let listener = listen(&name).unwrap();
        assert_eq!(listen(&name).unwrap_err().errno, Errno::ADDRINUSE);
        let client = connect(&name).unwrap();
        let server = accept(&listener).unwrap().unwrap();
        assert!(accept(&listener).unwrap().is_none());
        assert_eq!(peer_credentials(&server).unwrap().pid, std::process::id() as i32);
        drop((listener, client, server));
        assert_eq!(connect(&name).unwrap_err().errno, Errno::CONNREFUSED);
    }
}
