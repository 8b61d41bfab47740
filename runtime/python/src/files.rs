//! Files on another node that were granted to this program's job: the native part of `tombolo.files`.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tombolo_files::{File, FileKind, Files, FilesOptions, OpenOptions};

use crate::failure::Failure;
use crate::memory::source;
use crate::wait::{Seconds, wait_on_thread};

/// Number of bytes to transfer before Python checks for signals; a piece takes several calls in flight.
const PIECE_BYTES: usize = 1 << 20;

/// Connects to the files served under `name`, or granted to this program's job.
pub(crate) fn reach(
    py: Python<'_>,
    domain: &tombolo::Domain,
    name: Option<String>,
    (buffer_bytes, buffers): (Option<u64>, Option<u32>),
    timeout: Option<Seconds>,
) -> Result<FileService, Failure> {
    let mut options = FilesOptions::default();
    if buffer_bytes.is_some() || buffers.is_some() {
        options = options.buffers(buffer_bytes.unwrap_or(256 << 10), buffers.unwrap_or(8))?;
    }
    if let Some(Seconds(timeout)) = timeout {
        options = options.timeout(timeout);
    }
    if let Some(name) = name {
        options = options.server(&name);
    }
    let domain = domain.clone();
    Ok(FileService { files: wait_on_thread(py, move || Files::connect_with(&domain, &options))? })
}

/// Connection to a file server.
#[pyclass(module = "tombolo._native", frozen)]
#[derive(Debug)]
pub(crate) struct FileService {
    files: Files,
}

/// Metadata of a file or folder: whether it is a folder, whether it was granted for writing, length in bytes,
/// modification time in nanoseconds.
type Stat = (bool, bool, u64, u64);

#[pymethods]
impl FileService {
    /// Opens a file; `create` creates it if it does not exist, `create_new` creates it and fails if it
    /// exists.
    fn open(
        &self,
        py: Python<'_>,
        path: PathBuf,
        write: bool,
        create: bool,
        create_new: bool,
        truncate: bool,
    ) -> Result<OpenFile, Failure> {
        let mut options = OpenOptions::new();
        for (asked, with) in [
            (write, OpenOptions::write as fn(OpenOptions) -> OpenOptions),
            (create, OpenOptions::create),
            (create_new, OpenOptions::create_new),
            (truncate, OpenOptions::truncate),
        ] {
            options = if asked { with(options) } else { options };
        }
        let file = py.detach(|| self.files.open_with(path, options))?;
        Ok(OpenFile { file: Mutex::new(Some(file)) })
    }

    fn stat(&self, py: Python<'_>, path: PathBuf) -> Result<Stat, Failure> {
        let info = py.detach(|| self.files.stat(path))?;
        Ok((info.kind == FileKind::Folder, info.writable, info.length_bytes, info.modified_ns))
    }

    fn list(&self, py: Python<'_>, path: PathBuf) -> Result<Vec<(std::ffi::OsString, bool)>, Failure> {
        let entries = py.detach(|| self.files.list(path))?;
        Ok(entries.into_iter().map(|entry| (entry.name, entry.is_folder)).collect())
    }

    fn granted(&self, py: Python<'_>) -> Result<Vec<std::ffi::OsString>, Failure> {
        let granted = py.detach(|| self.files.granted())?;
        Ok(granted.into_iter().map(PathBuf::into_os_string).collect())
    }
}

/// An open file.
#[pyclass(module = "tombolo._native", frozen)]
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: Mutex<Option<File>>,
}

impl OpenFile {
    fn lock(&self) -> MutexGuard<'_, Option<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self) -> Result<File, Failure> {
        // The same exception as for Python's own files.
        let closed = || pyo3::exceptions::PyValueError::new_err("I/O operation on closed file");
        Ok(self.lock().clone().ok_or_else(closed)?)
    }

    /// Reads up to `length` bytes and passes them to `take` in pieces, with the interpreter held; returns
    /// their number.
    fn read(
        &self,
        py: Python<'_>,
        offset: u64,
        length: usize,
        mut take: impl FnMut(usize, &[u8]),
    ) -> Result<usize, Failure> {
        let file = self.file()?;
        let mut piece = vec![0; length.min(PIECE_BYTES)];
        let mut done = 0;
        while done < length {
            let wanted = (length - done).min(PIECE_BYTES);
            // Into a separate buffer: other Python threads run meanwhile and may access the caller's.
            let target = &mut piece[..wanted];
            let count = py.detach(|| file.read_at(offset.saturating_add(done as u64), target))?;
            take(done, &piece[..count]);
            done += count;
            if count < wanted {
                break;
            }
            py.check_signals()?;
        }
        Ok(done)
    }
}

#[pymethods]
impl OpenFile {
    /// Reads into a writable buffer from `offset` on. Returns the number of bytes, which is smaller than the
    /// buffer only at the end of the file.
    fn read_into(&self, py: Python<'_>, offset: u64, target: &Bound<'_, PyAny>) -> Result<usize, Failure> {
        let mut target = source(target, true)?;
        let length = target.len();
        self.read(py, offset, length, |at, bytes| {
            target.bytes_mut(py)[at..at + bytes.len()].copy_from_slice(bytes);
        })
    }

    /// Reads up to `length` bytes from `offset` on.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: usize,
    ) -> Result<Bound<'py, PyBytes>, Failure> {
        // Allocates no memory for bytes beyond the end of the file.
        let there = py.detach(|| self.file().map(|file| file.len_bytes()))??;
        let length = length.min(usize::try_from(there.saturating_sub(offset)).unwrap_or(usize::MAX));
        let mut read = 0;
        let whole = PyBytes::new_with(py, length, |target| {
            let take = |at: usize, bytes: &[u8]| target[at..at + bytes.len()].copy_from_slice(bytes);
            read = self.read(py, offset, length, take)?;
            Ok(())
        })?;
        // The file became shorter meanwhile.
        Ok(if read < length { PyBytes::new(py, &whole.as_bytes()[..read]) } else { whole })
    }

    /// Writes all bytes of a bytes-like object, from `offset` on.
    fn write(&self, py: Python<'_>, offset: u64, data: &Bound<'_, PyAny>) -> Result<usize, Failure> {
        let file = self.file()?;
        let data = source(data, false)?;
        let mut done = 0;
        while done < data.len() {
            let piece = data.bytes(py)[done..].iter().copied().take(PIECE_BYTES).collect::<Vec<u8>>();
            py.detach(|| file.write_at(offset.saturating_add(done as u64), &piece))?;
            done += piece.len();
            py.check_signals()?;
        }
        Ok(done)
    }

    /// The current length of the file, in bytes.
    fn length(&self, py: Python<'_>) -> Result<u64, Failure> {
        let file = self.file()?;
        Ok(py.detach(|| file.len_bytes())?)
    }

    /// Truncates the file, or extends it with zeros.
    fn set_length(&self, py: Python<'_>, length: u64) -> Result<(), Failure> {
        let file = self.file()?;
        Ok(py.detach(|| file.set_len(length))?)
    }

    /// Waits until everything that was written is on the disk.
    fn sync(&self, py: Python<'_>) -> Result<(), Failure> {
        let file = self.file()?;
        Ok(py.detach(|| file.sync())?)
    }

    /// Closes the file, for all users of this object. Closing again has no effect.
    fn close(&self, py: Python<'_>) {
        let file = self.lock().take();
        // May wait for room if other threads use the connection.
        py.detach(|| drop(file));
    }
}
