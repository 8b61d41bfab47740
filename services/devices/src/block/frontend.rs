//! Client of the disk: the kernel's block layer, or a program on a local socket.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;

use tombolo::Interest;
use tombolo_platform::{OsError, socket};
use tombolo_virtqueue::{Configuration, Status};

use super::nbd::{self, Handshake, Malformed, NbdRequest};
use crate::failure::Failure;

/// Minimum number of bytes requested per read.
const READ_BYTES: usize = 4096;

/// Number of queued reply bytes at which no further request is read until the client has received some.
const MAX_OUTPUT_BYTES: usize = 64 << 20;

/// Stream of requests and replies.
pub(super) struct Frontend {
    stream: UnixStream,
    handshake: Handshake,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Number of output bytes already sent.
    sent: usize,
}

impl Frontend {
    /// Creates the client for the kernel, which needs no handshake.
    pub(super) fn kernel(stream: OwnedFd) -> Frontend {
        Frontend {
            stream: stream.into(),
            handshake: Handshake::Complete,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
        }
    }

    /// Creates the client for a connected program; `None` if it belongs to another user.
    pub(super) fn program(stream: UnixStream) -> Result<Option<Frontend>, OsError> {
        if socket::peer_credentials(&stream)?.uid != rustix::process::geteuid().as_raw() {
            return Ok(None);
        }
        stream.set_nonblocking(true).map_err(|error| OsError::from_io("use a connection", &error))?;
        let mut front = Frontend { handshake: Handshake::Flags, ..Frontend::kernel(stream.into()) };
        nbd::greet(&mut front.output);
        Ok(Some(front))
    }

    /// Returns the events to wait for; `None` if no more requests are wanted and nothing is left to send.
    pub(super) fn interest(&self, can_take_requests: bool) -> Option<Interest> {
        let left = self.output.len() - self.sent;
        match (can_take_requests && left < MAX_OUTPUT_BYTES, left > 0) {
            (true, true) => Some(Interest::ReadWrite),
            (true, false) => Some(Interest::Read),
            (false, true) => Some(Interest::Write),
            (false, false) => None,
        }
    }

    /// Reads available bytes. Returns false at the end of the stream.
    pub(super) fn read(&mut self) -> bool {
        let have = self.input.len();
        let missing = nbd::needed_bytes(&self.input).saturating_sub(have).max(READ_BYTES);
        self.input.resize(have + missing, 0);
        let read = self.stream.read(&mut self.input[have..]);
        self.input.truncate(have + read.as_ref().copied().unwrap_or(0));
        match read {
            Ok(length) => length > 0,
            Err(error) => is_transient(&error),
        }
    }

    /// Returns the next complete request, if any. Handles the handshake internally.
    pub(super) fn next_request(
        &mut self,
        disk: (&str, &Configuration),
    ) -> Result<Option<NbdRequest>, Malformed> {
        while self.handshake != Handshake::Complete {
            let used = self.handshake.step(&self.input, disk, &mut self.output)?;
            if self.handshake == Handshake::Aborted {
                return Err(Malformed);
            }
            if used == 0 {
                return Ok(None);
            }
            self.input.drain(..used);
        }
        let Some((request, used)) = nbd::parse_request(&self.input)? else { return Ok(None) };
        self.input.drain(..used);
        Ok(Some(request))
    }

    /// Queues a reply for [`send`](Self::send).
    pub(super) fn queue_reply(&mut self, cookie: u64, status: Status, data: &[u8]) {
        nbd::put_reply(&mut self.output, cookie, status, data);
    }

    /// Sends as many bytes as the client accepts. Returns false if it is gone.
    pub(super) fn send(&mut self) -> bool {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(length) => self.sent += length,
                Err(error) => return is_transient(&error),
            }
        }
        self.output.clear();
        self.sent = 0;
        true
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

impl AsFd for Frontend {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Listens on a path, for this user only, or on an abstract name: `@name`. Replaces the stale socket of a
/// killed program.
pub(super) fn listen(place: &str) -> Result<UnixListener, Failure> {
    let failed = |error: &io::Error| OsError::from_io(format!("listen on {place}"), error);
    if let Some(name) = place.strip_prefix('@') {
        let bound = SocketAddr::from_abstract_name(name).and_then(|name| UnixListener::bind_addr(&name));
        return Ok(bound.map_err(|error| failed(&error))?);
    }
    let path = Path::new(place);
    let bound = UnixListener::bind(path).or_else(|error| match UnixStream::connect(path) {
        Err(refused) if refused.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).and_then(|()| UnixListener::bind(path))
        }
        _ => Err(error),
    });
    let listener = bound.map_err(|error| failed(&error))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(|error| failed(&error))?;
    Ok(listener)
}
