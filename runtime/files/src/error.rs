//! Errors of operations on files.

use std::fmt;
use std::io;
use std::path::PathBuf;

use tombolo::{Error, NotSent};
use tombolo_platform::{Errno, OsError};

use crate::grant::GrantError;
use crate::messages::FileFault;

/// Error of an operation on files.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// No files were granted to this program.
    #[error("this program was granted no files: start its job with `tombolo run --grant PATH`")]
    NoneGranted,
    /// The server under that name does not serve this domain, or not with so much memory; or it does not
    /// exist.
    #[error(
        "'{name}' does not serve this domain: a server serves the domains that its own domain started, up to \
         a number of them and with up to so much memory each"
    )]
    NotServed {
        /// Name of the server.
        name: String,
    },
    /// The server refused the operation.
    #[error("cannot {operation} {}: {fault}", .path.display())]
    Fault {
        /// Operation that was attempted.
        operation: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Reason of the refusal.
        fault: FileFault,
    },
    /// The file ended before everything was read, because it became shorter.
    #[error("{} ends after {available_bytes} of the {wanted_bytes} bytes to be read", .path.display())]
    Ended {
        /// Path of the file.
        path: PathBuf,
        /// Number of bytes to read.
        wanted_bytes: u64,
        /// Number of bytes available.
        available_bytes: u64,
    },
    /// The number of buffers is out of range.
    #[error("{buffers} buffers are too few or too many: choose 2 to 64")]
    Buffers {
        /// Number of buffers that was requested.
        buffers: u32,
    },
    /// A file cannot be granted.
    #[error("cannot serve files: {0}")]
    Grant(#[from] GrantError),
    /// Error of the channel to the server or of the monitor, for example [`Error::PeerDied`] with the node
    /// when the server has died.
    #[error(transparent)]
    Tombolo(#[from] Error),
}

impl From<OsError> for FileError {
    fn from(error: OsError) -> Self {
        FileError::Tombolo(error.into())
    }
}

impl<T> From<Box<NotSent<T>>> for FileError {
    fn from(not_sent: Box<NotSent<T>>) -> Self {
        FileError::Tombolo(not_sent.error)
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            FileFault::NotGranted => "it was not granted (`tombolo run --grant PATH`)",
            FileFault::ReadOnly => "it was granted for reading only (`tombolo run --grant PATH:rw`)",
            FileFault::Outside => "it leads out of what was granted",
            FileFault::NotFound => "there is no such file",
            FileFault::Exists => "it is there already",
            FileFault::IsFolder => "it is a folder",
            FileFault::NotAFolder => "it, or something on the way to it, is not a folder",
            FileFault::NotAFile => "it is neither file nor folder",
            FileFault::Denied => "its server is not allowed to do that",
            FileFault::NoSpace => "there is no space left",
            FileFault::TooManyOpen(limit) => {
                return write!(f, "{limit} files are open, which are as many as can be: close some");
            }
            FileFault::NotOpen(file) => return write!(f, "there is no open file {file}"),
            FileFault::OpenedReadOnly => "it was opened for reading only",
            FileFault::OutOfRange => "no file has bytes there, or no buffer has room for as many",
            FileFault::BadMode => "to create or truncate it, open it for writing",
            FileFault::Version => "it is served by another version of Tombolo",
            FileFault::System(errno) => return Errno::from_raw_os_error(*errno).fmt(f),
        };
        f.write_str(text)
    }
}

impl From<Errno> for FileFault {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::XDEV | Errno::LOOP => FileFault::Outside,
            Errno::NOENT => FileFault::NotFound,
            Errno::EXIST => FileFault::Exists,
            Errno::ISDIR => FileFault::IsFolder,
            Errno::NOTDIR => FileFault::NotAFolder,
            Errno::NXIO => FileFault::NotAFile,
            Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY => FileFault::Denied,
            Errno::NOSPC | Errno::DQUOT => FileFault::NoSpace,
            Errno::OVERFLOW | Errno::FBIG => FileFault::OutOfRange,
            errno => FileFault::System(errno.raw_os_error()),
        }
    }
}

/// Converts to the error type of the standard library's traits.
pub(crate) fn to_io(error: FileError) -> io::Error {
    let kind = match &error {
        FileError::Ended { .. } => io::ErrorKind::UnexpectedEof,
        FileError::Fault { fault, .. } => kind_of(fault),
        FileError::Tombolo(Error::TimedOut { .. }) => io::ErrorKind::TimedOut,
        FileError::Tombolo(error) if error.is_peer_gone() => io::ErrorKind::ConnectionReset,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

fn kind_of(fault: &FileFault) -> io::ErrorKind {
    match fault {
        FileFault::NotFound => io::ErrorKind::NotFound,
        FileFault::Exists => io::ErrorKind::AlreadyExists,
        FileFault::IsFolder => io::ErrorKind::IsADirectory,
        FileFault::NotAFolder => io::ErrorKind::NotADirectory,
        FileFault::NoSpace => io::ErrorKind::StorageFull,
        FileFault::OutOfRange | FileFault::BadMode => io::ErrorKind::InvalidInput,
        FileFault::NotGranted
        | FileFault::ReadOnly
        | FileFault::Outside
        | FileFault::Denied
        | FileFault::OpenedReadOnly => io::ErrorKind::PermissionDenied,
        FileFault::System(errno) => io::Error::from_raw_os_error(*errno).kind(),
        _ => io::ErrorKind::Other,
    }
}
