//! Files of one node for programs of others that do not have them.
//!
//! A domain that has files serves some of them to the domains that it started ([`FileServer::start`], which
//! `tombolo run --grant` does for a job); these open them by [`Files::connect`], on whatever node they run.
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
//! The bytes go through a pool that this program makes where both sides reach it: the kernel of the server
//! reads into it from the file, and nothing is copied on the way. [`BufferFile`] does the same for files of
//! this node.
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

use connection::{Connection, With};
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

/// How files are reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilesOptions {
    server: Option<String>,
    buffer_bytes: u64,
    buffers: u32,
    timeout: Duration,
}

impl Default for FilesOptions {
    /// The server of this program's job, eight buffers of 256 KiB, and a minute for each operation.
    fn default() -> Self {
        FilesOptions { server: None, buffer_bytes: 256 << 10, buffers: 8, timeout: Duration::from_secs(60) }
    }
}

/// The most calls that can be under way: the answers to this number have room without being taken.
const BUFFERS_MAX: u32 = 64;

impl FilesOptions {
    /// The files that are [served](FileServer::start) under this name, instead of those of the job.
    #[must_use]
    pub fn server(mut self, name: &str) -> Self {
        self.server = Some(name.to_owned());
        self
    }

    /// The memory that bytes go through: 2 to 64 buffers of `buffer_bytes` bytes each, a multiple of 64. As
    /// many reads can be under way.
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

    /// How long one operation may take before it fails.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// The files that were granted to this program. Cloning names the same connection to their server; threads
/// may share it, and take turns.
#[derive(Clone, Debug)]
pub struct Files {
    connection: Arc<Mutex<Connection>>,
}

/// A name in a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FolderEntry {
    /// The name, without the folder's.
    pub name: OsString,
    /// Whether it is a folder.
    pub is_folder: bool,
}

impl Files {
    /// The files that were granted to this program's job.
    ///
    /// # Errors
    /// [`FileError::NoneGranted`]; [`FileError::NotServed`] when their server does not serve this domain.
    pub fn connect(domain: &Domain) -> Result<Files, FileError> {
        Files::connect_with(domain, &FilesOptions::default())
    }

    /// As [`connect`](Self::connect), with another server, memory of another size or another timeout.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); [`FileError::NotServed`] also for more memory than the server takes.
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

    /// Opens a file to read it, by its path as the user wrote it after `--grant`, or below a folder that was
    /// granted.
    ///
    /// # Errors
    /// [`FileError::Fault`] says what is wrong with it; the end of the server.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, FileError> {
        self.open_with(path, OpenOptions::default())
    }

    /// As [`open`](Self::open), to write as well.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(&self, path: impl AsRef<Path>, options: OpenOptions) -> Result<File, FileError> {
        let path = path.as_ref();
        let request = FilesRequest::Open { path: bytes(path), mode: options.mode };
        match self.ask("open", path, request)? {
            FilesReply::Open { file, .. } => Ok(File::new(self.clone(), file, path, options)),
            other => Err(self.lock().unexpected(&other)),
        }
    }

    /// What is known of a file or folder.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn stat(&self, path: impl AsRef<Path>) -> Result<FileInfo, FileError> {
        let path = path.as_ref();
        match self.ask("look at", path, FilesRequest::Stat { path: bytes(path) })? {
            FilesReply::Stat { info } => Ok(info),
            other => Err(self.lock().unexpected(&other)),
        }
    }

    /// What is in a folder, in the order of the names' bytes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<FolderEntry>, FileError> {
        let path = path.as_ref();
        Ok(self.names("list", path)?.into_iter().map(entry).collect())
    }

    /// All that was granted, as it was written: what can be opened or listed.
    ///
    /// # Errors
    /// The end of the server.
    pub fn granted(&self) -> Result<Vec<PathBuf>, FileError> {
        let names = self.names("list", Path::new(""))?;
        Ok(names.into_iter().map(|name| PathBuf::from(OsString::from_vec(name))).collect())
    }

    /// All pages of a list.
    fn names(&self, operation: &'static str, path: &Path) -> Result<Vec<Vec<u8>>, FileError> {
        let mut names = Vec::new();
        loop {
            let mut connection = self.lock();
            let request = FilesRequest::List { path: bytes(path), from: names.len() as u64 };
            let (reply, buffer) = connection.call((operation, path), request, With::Empty)?;
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

    fn ask(
        &self,
        operation: &'static str,
        path: &Path,
        request: FilesRequest,
    ) -> Result<FilesReply, FileError> {
        self.lock().call((operation, path), request, With::Empty).map(|(reply, _)| reply)
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
