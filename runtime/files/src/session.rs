//! State of the file server for one client: requests in, answers out.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use tombolo::Error;
use tombolo_platform::Errno;

use crate::grant::Grants;
use crate::local::Content;
use crate::messages::{FILES_FINGERPRINT, FileFault, FileInfo, FileKind, FilesReply, FilesRequest, OpenMode};

/// Open files of one client.
pub(crate) struct Session {
    grants: Arc<Grants>,
    max_open: u32,
    has_begun: bool,
    files: HashMap<u32, Opened>,
    /// Number of the last file opened; numbers are not reused.
    last_file: u32,
    /// Folder that is being listed, with its names.
    listing: Option<(PathBuf, Vec<u8>)>,
}

struct Opened {
    file: File,
    writable: bool,
}

/// How the buffer of a request arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BufferState {
    /// Passed: to be filled.
    Empty,
    /// Moved: to be read.
    Filled,
}

/// Protocol violation of a client, after which it is no longer served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ProtocolViolation;

/// Reply, and whether its buffer has contents.
type Answer = (FilesReply, bool);

impl Session {
    pub(crate) fn new(grants: Arc<Grants>, max_open: u32) -> Session {
        Session { grants, max_open, has_begun: false, files: HashMap::new(), last_file: 0, listing: None }
    }

    /// Handles a request. `buffer` becomes the buffer of the answer: moved if the answer has contents,
    /// otherwise passed.
    pub(crate) fn handle_request(
        &mut self,
        request: FilesRequest,
        buffer_state: BufferState,
        buffer: &mut impl Content,
    ) -> Result<Answer, ProtocolViolation> {
        let is_write = matches!(request, FilesRequest::Write { .. });
        let is_begin = matches!(request, FilesRequest::Begin { .. });
        if is_begin == self.has_begun || is_write != (buffer_state == BufferState::Filled) {
            return Err(ProtocolViolation);
        }
        Ok(self
            .execute(request, buffer)
            .unwrap_or_else(|file_fault| (FilesReply::Failed { file_fault }, false)))
    }

    fn execute(&mut self, request: FilesRequest, buffer: &mut impl Content) -> Result<Answer, FileFault> {
        let done = match request {
            FilesRequest::Begin { fingerprint } => self.begin(fingerprint)?,
            FilesRequest::Open { path, mode } => self.open(&to_path(path), mode)?,
            FilesRequest::Read { file, offset_bytes, length_bytes } => {
                if length_bytes > buffer.len_bytes() {
                    return Err(FileFault::OutOfRange);
                }
                check_file_range(offset_bytes, length_bytes)?;
                let count = buffer.read_file(&self.opened(file)?.file, offset_bytes, length_bytes)?;
                buffer.set_part(0, count)?;
                return Ok((FilesReply::Done, true));
            }
            FilesRequest::Write { file, offset_bytes } => {
                check_file_range(offset_bytes, buffer.len_bytes())?;
                buffer.write_file(&self.writable(file)?.file, offset_bytes)?;
                FilesReply::Done
            }
            FilesRequest::Stat { path } => FilesReply::Stat { info: self.stat(&to_path(path))? },
            FilesRequest::List { path, from } => return self.list(to_path(path), from, buffer),
            FilesRequest::Length { file } => {
                FilesReply::Length { length_bytes: self.opened(file)?.file.metadata()?.len() }
            }
            FilesRequest::SetLength { file, length_bytes } => {
                check_file_range(0, length_bytes)?;
                self.writable(file)?.file.set_len(length_bytes)?;
                FilesReply::Done
            }
            FilesRequest::Sync { file } => {
                self.opened(file)?.file.sync_all()?;
                FilesReply::Done
            }
            FilesRequest::Close { file } => {
                self.files.remove(&file).ok_or(FileFault::NotOpen(file))?;
                FilesReply::Done
            }
        };
        Ok((done, false))
    }

    fn begin(&mut self, fingerprint: u64) -> Result<FilesReply, FileFault> {
        if fingerprint != FILES_FINGERPRINT {
            return Err(FileFault::Version);
        }
        self.has_begun = true;
        Ok(FilesReply::Done)
    }

    fn open(&mut self, path: &Path, mode: OpenMode) -> Result<FilesReply, FileFault> {
        if self.files.len() >= self.max_open as usize {
            return Err(FileFault::TooManyOpen(self.max_open));
        }
        let number = self.last_file.checked_add(1).ok_or(FileFault::TooManyOpen(u32::MAX))?;
        let file = self.grants.open(path, mode)?;
        let length_bytes = file.metadata()?.len();
        self.last_file = number;
        self.files.insert(number, Opened { file, writable: mode.contains(OpenMode::WRITE) });
        Ok(FilesReply::Open { file: number, length_bytes })
    }

    fn opened(&self, file: u32) -> Result<&Opened, FileFault> {
        self.files.get(&file).ok_or(FileFault::NotOpen(file))
    }

    fn writable(&self, file: u32) -> Result<&Opened, FileFault> {
        let opened = self.opened(file)?;
        if opened.writable { Ok(opened) } else { Err(FileFault::OpenedReadOnly) }
    }

    fn stat(&self, path: &Path) -> Result<FileInfo, FileFault> {
        let (found, writable) = self.grants.stat(path)?;
        let modified = found.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let is_folder = found.is_dir();
        Ok(FileInfo {
            kind: if is_folder { FileKind::Folder } else { FileKind::File },
            writable,
            length_bytes: if is_folder { 0 } else { found.len() },
            modified_ns: modified.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)),
        })
    }

    fn list(&mut self, path: PathBuf, from: u64, buffer: &mut impl Content) -> Result<Answer, FileFault> {
        // All pages are from the same point in time if they are requested consecutively.
        let names = match self.listing.take() {
            Some((listed, names)) if from > 0 && listed == path => names,
            _ if path.as_os_str().is_empty() => encode_names(self.grants.names()),
            _ => encode_names(self.grants.list(&path)?),
        };
        let mut start = 0;
        for _ in 0..from {
            start += first_name_length(&names[start..]).ok_or(FileFault::OutOfRange)?;
        }
        let (mut end, mut count) = (start, 0);
        while let Some(length) = first_name_length(&names[end..])
            && (end + length - start) as u64 <= buffer.len_bytes()
        {
            (end, count) = (end + length, count + 1);
        }
        let more = end < names.len();
        if more && count == 0 {
            return Err(FileFault::OutOfRange);
        }
        buffer.write(0, &names[start..end])?;
        buffer.set_part(0, (end - start) as u64)?;
        self.listing = more.then_some((path, names));
        Ok((FilesReply::List { names: count, more }, true))
    }
}

/// File offsets are signed in the kernel.
fn check_file_range(offset_bytes: u64, length_bytes: u64) -> Result<(), FileFault> {
    let end = offset_bytes.checked_add(length_bytes).and_then(|end| i64::try_from(end).ok());
    end.map(|_| ()).ok_or(FileFault::OutOfRange)
}

fn to_path(path: Vec<u8>) -> PathBuf {
    std::ffi::OsString::from_vec(path).into()
}

/// Encodes names as they are sent.
fn encode_names(names: Vec<(PathBuf, bool)>) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, is_folder) in names {
        text.extend_from_slice(name.as_os_str().as_bytes());
        if is_folder && !text.ends_with(b"/") {
            text.push(b'/');
        }
        text.push(0);
    }
    text
}

/// Returns the length of the first name, with its terminator.
fn first_name_length(names: &[u8]) -> Option<usize> {
    names.iter().position(|&byte| byte == 0).map(|at| at + 1)
}

impl From<std::io::Error> for FileFault {
    fn from(error: std::io::Error) -> Self {
        Errno::from_io_error(&error).unwrap_or(Errno::IO).into()
    }
}

/// Converts an error between a file and a buffer. The channel reports a revoked pool.
impl From<Error> for FileFault {
    fn from(error: Error) -> Self {
        match error {
            Error::Os { errno, .. } => Errno::from_raw_os_error(errno).into(),
            _ => FileFault::OutOfRange,
        }
    }
}
