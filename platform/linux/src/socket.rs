//! Local sockets that leave no files behind: abstract names, socket pairs, passed descriptors.
//!
//! An abstract name vanishes with its socket, so a process killed at any instruction leaves no file. It has
//! no permissions either: both ends check the other's user by its credentials.

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

/// Maximum number of descriptors per message.
pub const MAX_FDS: usize = 8;

/// Maximum length of a control message, in bytes.
pub const MAX_PACKET_BYTES: usize = 64 * 1024;

/// Type of a local socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketKind {
    /// Keeps message boundaries (`SOCK_SEQPACKET`).
    Packet,
    /// A stream of bytes (`SOCK_STREAM`).
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

/// Credentials of the process at the other end, according to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// Process id at the time of connecting.
    pub pid: i32,
    /// Effective user id at the time of connecting.
    pub uid: u32,
}

fn address(name: &str) -> Result<SocketAddrUnix, OsError> {
    SocketAddrUnix::new_abstract_name(name.as_bytes()).context(&format!("use the socket name @{name}"))
}

/// Listens on an abstract name with packet sockets, non-blocking.
///
/// # Errors
/// `EADDRINUSE` when the name is in use.
pub fn listen(name: &str) -> Result<OwnedFd, OsError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .context("create a socket")?;
    rustix::net::bind(&socket, &address(name)?).context(&format!("listen on @{name}"))?;
    rustix::net::listen(&socket, 128).context(&format!("listen on @{name}"))?;
    Ok(socket)
}

/// Accepts the next connection, non-blocking; `None` when there is none.
///
/// # Errors
/// An error of the kernel; a connection that was abandoned meanwhile is not an error.
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
/// `ECONNREFUSED` when no process listens there.
pub fn connect(name: &str) -> Result<OwnedFd, OsError> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .context("create a socket")?;
    rustix::net::connect(&socket, &address(name)?).context(&format!("connect to @{name}"))?;
    rustix::io::ioctl_fionbio(&socket, true).context("make a socket non-blocking")?;
    Ok(socket)
}

/// Creates two connected sockets, non-blocking.
///
/// # Errors
/// `EMFILE`: too many open files.
pub fn pair(kind: SocketKind) -> Result<(OwnedFd, OwnedFd), OsError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socketpair(AddressFamily::UNIX, kind.socket_type(), flags, None)
        .context("create a socket pair")
}

/// Returns the credentials of the process at the other end.
///
/// # Errors
/// An error of the kernel.
pub fn peer_credentials(socket: impl AsFd) -> Result<Credentials, OsError> {
    let credentials =
        rustix::net::sockopt::socket_peercred(socket).context("read the credentials of the other end")?;
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

/// A message with its descriptors.
#[derive(Debug)]
pub struct Received {
    /// Number of bytes in the buffer; 0 if the other end is closed.
    pub length: usize,
    /// Descriptors received with the message.
    pub fds: Vec<OwnedFd>,
    /// Whether the message was truncated: it exceeded the buffer or had more than [`MAX_FDS`] descriptors.
    pub truncated: bool,
}

/// Receives one message with its descriptors, without blocking.
///
/// # Errors
/// `EAGAIN` if there is none, `ECONNRESET` if the other end is closed.
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

/// Sets a receive timeout of `length`, so that [`receive_blocking`] blocks on this socket. All other
/// functions here never block.
///
/// # Errors
/// Some emulators do not support such a timeout.
pub fn set_blocking_timeout(socket: impl AsFd, length: Duration) -> Result<(), OsError> {
    rustix::net::sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(length))
        .context("limit how long a socket blocks")?;
    rustix::io::ioctl_fionbio(&socket, false).context("make a socket blocking")
}

/// Sleeps until a message arrives, and receives it: one system call instead of `poll` and [`receive`].
/// Returns true if a message arrived or the other end is closed; false after the timeout set by
/// [`set_blocking_timeout`], or on a signal.
pub fn receive_blocking(socket: impl AsFd, buffer: &mut [u8]) -> bool {
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
        set_blocking_timeout(&right, Duration::from_millis(1)).unwrap();
        let mut buffer = [0; 8];
        assert!(!receive_blocking(&right, &mut buffer));
        send(&left, &[1], &[]).unwrap();
        assert!(receive_blocking(&right, &mut buffer));
        // Non-blocking functions stay non-blocking.
        assert_eq!(receive(&right, &mut buffer).unwrap_err(), Errno::AGAIN);
        drop(left);
        assert!(receive_blocking(&right, &mut buffer));
        assert_eq!(receive(&right, &mut buffer).unwrap().length, 0);
    }

    #[test]
    fn a_message_longer_than_the_buffer_is_marked_truncated() {
        let (left, right) = pair(SocketKind::Packet).unwrap();
        send(&left, &[7; 100], &[]).unwrap();
        assert!(receive(&right, &mut [0; 64]).unwrap().truncated);
    }

    #[test]
    fn abstract_name_has_one_owner_and_peer_credentials() {
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
