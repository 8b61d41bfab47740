//! Access to the files of one node for programs on other nodes.
//!
//! A domain serves some of its files to the domains that it started ([`FileServer::start`], which `tombolo
//! run --grant` calls for a job). These open them with [`Files::connect`], on any node.
//!
//! ```no_run
//! use std::io::{BufRead, BufReader};
//!
//! use tombolo_files::{FileError, Files};
//!
//! fn main() -> Result<(), FileError> {
//!     let files = Files::connect(&tombolo::Domain::attach()?)?;
//!     let graph = files.open("web.mtx")?;
//!     println!("{} bytes", graph.len_bytes()?);
//!     // Read ahead, as fast as the bytes get here.
//!     let lines = BufReader::new(graph.reader()).lines();
//!     println!("{} lines", lines.count());
//!     Ok(())
//! }
//! ```
//!
//! The bytes are transferred through a pool that this program creates where both sides can reach it: the
//! server's kernel reads from the file into the pool, and no further copies are made. [`BufferFile`] does the
//! same for files of this node.
#![forbid(unsafe_code)]

mod connection;
mod error;
mod file;
mod grant;
mod local;
mod map;
#[rustfmt::skip]
#[allow(dead_code, unreachable_pub, reason = "generated, with all that programs of the interface may want")]
mod messages;
mod server;
mod session;
mod stream;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tombolo::Domain;

use connection::{CallBuffer, Connection};
use messages::{FilesReply, FilesRequest};

pub use error::FileError;
pub use file::{File, OpenOptions};
pub use grant::{FileGrant, GrantError};
pub use local::BufferFile;
pub use map::FileMap;
pub use messages::{FileFault, FileInfo, FileKind};
pub use server::{FileServer, ServeFilesOptions};
pub use stream::{FileReader, FileWriter};
pub use tombolo::spawn::FILES_VARIABLE;

/// Options for connecting to a file server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilesOptions {
    server: Option<String>,
    buffer_bytes: u64,
    buffers: u32,
    timeout: Duration,
}

impl Default for FilesOptions {
    /// The server of this program's job, eight buffers of 256 KiB, and a timeout of one minute.
    fn default() -> Self {
        FilesOptions { server: None, buffer_bytes: 256 << 10, buffers: 8, timeout: Duration::from_secs(60) }
    }
}

/// Maximum number of calls in flight: the channel has room for this number of answers.
const BUFFERS_MAX: u32 = 64;

impl FilesOptions {
    /// Selects the server with this [name](FileServer::name) instead of that of the job.
    #[must_use]
    pub fn server(mut self, name: &str) -> Self {
        self.server = Some(name.to_owned());
        self
    }

    /// Sets the memory for transfers: 2 to 64 buffers of `buffer_bytes` bytes each, a multiple of 64. This
    /// also limits the number of reads in flight.
    ///
    /// # Errors
    /// [`FileError::Buffers`] for another number.
    pub fn buffers(mut self, buffer_bytes: u64, buffers: u32) -> Result<Self, FileError> {
        if !(2..=BUFFERS_MAX).contains(&buffers) {
            return Err(FileError::Buffers { buffers });
        }
        (self.buffer_bytes, self.buffers) = (buffer_bytes, buffers);
        Ok(self)
    }

    /// Sets the timeout of an operation.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// Files granted to this program. Clones share a connection to the server; threads may share it, and take
/// turns.
#[derive(Clone, Debug)]
pub struct Files {
    connection: Arc<Mutex<Connection>>,
}

/// Entry of a folder listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FolderEntry {
    /// Name of the entry, without the folder's path.
    pub name: OsString,
    /// Whether the entry is a folder.
    pub is_folder: bool,
}

impl Files {
    /// Connects to the files that were granted to this program's job.
    ///
    /// # Errors
    /// [`FileError::NoneGranted`]; [`FileError::NotServed`] if the server does not serve this domain.
    pub fn connect(domain: &Domain) -> Result<Files, FileError> {
        Files::connect_with(domain, &FilesOptions::default())
    }

    /// Like [`connect`](Self::connect), with a different server, buffer memory or timeout.
    ///
    /// # Errors
    /// Same as [`connect`](Self::connect); [`FileError::NotServed`] also for more memory than the server
    /// accepts.
    pub fn connect_with(domain: &Domain, options: &FilesOptions) -> Result<Files, FileError> {
        let connection = match &options.server {
            Some(name) => Connection::open(domain, name, options)?,
            None => {
                let name = std::env::var(FILES_VARIABLE).map_err(|_| FileError::NoneGranted)?;
                Connection::open(domain, &name, options)?
            }
        };
        Ok(Files { connection: Arc::new(Mutex::new(connection)) })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a file for reading, by its path as the user wrote it after `--grant`, or a path below a granted
    /// folder.
    ///
    /// # Errors
    /// [`FileError::Fault`] with the reason; the end of the server.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, FileError> {
        self.open_with(path, OpenOptions::default())
    }

    /// Like [`open`](Self::open), with options, for example for writing.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub fn open_with(&self, path: impl AsRef<Path>, options: OpenOptions) -> Result<File, FileError> {
        let path = path.as_ref();
        let request = FilesRequest::Open { path: bytes(path), mode: options.mode };
        match self.request("open", path, request)? {
            FilesReply::Open { file, .. } => Ok(File::new(self.clone(), file, path, options)),
            other => Err(self.lock().unexpected(&other)),
        }
    }

    /// Returns the metadata of a file or folder.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub fn stat(&self, path: impl AsRef<Path>) -> Result<FileInfo, FileError> {
        let path = path.as_ref();
        match self.request("look at", path, FilesRequest::Stat { path: bytes(path) })? {
            FilesReply::Stat { info } => Ok(info),
            other => Err(self.lock().unexpected(&other)),
        }
    }

    /// Lists a folder, in the byte order of the names.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<FolderEntry>, FileError> {
        let path = path.as_ref();
        Ok(self.names("list", path)?.into_iter().map(entry).collect())
    }

    /// Returns all granted paths as they were written: what can be opened or listed.
    ///
    /// # Errors
    /// The end of the server.
    pub fn granted(&self) -> Result<Vec<PathBuf>, FileError> {
        let names = self.names("list", Path::new(""))?;
        Ok(names.into_iter().map(|name| PathBuf::from(OsString::from_vec(name))).collect())
    }

    /// Reads all pages of a list.
    fn names(&self, operation: &'static str, path: &Path) -> Result<Vec<Vec<u8>>, FileError> {
        let mut names = Vec::new();
        loop {
            let mut connection = self.lock();
            let request = FilesRequest::List { path: bytes(path), from: names.len() as u64 };
            let (reply, buffer) = connection.call((operation, path), request, CallBuffer::Empty)?;
            let (FilesReply::List { names: count, more }, Some(buffer)) = (&reply, buffer) else {
                return Err(connection.unexpected(&reply));
            };
            let mut page = vec![0; buffer.len_bytes() as usize];
            buffer.read(0, &mut page)?;
            let before = names.len();
            names.extend(page.split_inclusive(|&byte| byte == 0).map(|name| name[..name.len() - 1].to_vec()));
            if names.len() - before != *count as usize || (*more && *count == 0) {
                return Err(connection.unexpected(&reply));
            }
            if !more {
                return Ok(names);
            }
        }
    }

    fn request(
        &self,
        operation: &'static str,
        path: &Path,
        request: FilesRequest,
    ) -> Result<FilesReply, FileError> {
        self.lock().call((operation, path), request, CallBuffer::Empty).map(|(reply, _)| reply)
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn entry(mut name: Vec<u8>) -> FolderEntry {
    let is_folder = name.ends_with(b"/");
    if is_folder {
        name.pop();
    }
    FolderEntry { name: OsString::from_vec(name), is_folder }
}
