//! Files: the host's where they were granted to the job (`tombolo run --grant`), or else those of the node
//! that this runs on.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use tombolo_files::{FILES_VARIABLE, FileError, FileFault, Files, OpenOptions};

use crate::launch;

/// Stream, with its length if known.
pub type Opened = (Box<dyn Read>, Option<u64>);

/// Opens a file to read it from its beginning to its end.
///
/// # Errors
/// It does not exist, is a folder, or cannot be read.
pub fn open(path: &Path) -> io::Result<Opened> {
    if let Some(files) = granted()? {
        let opened = files.open(path).and_then(|file| Ok((file.len_bytes()?, file)));
        if let Some((length, file)) = if_granted(opened)? {
            return Ok((Box::new(file.reader()), Some(length)));
        }
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let length = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(file), length))
}

/// Creates or truncates a file for writing.
///
/// # Errors
/// It cannot be created.
pub fn create(path: &Path) -> io::Result<Box<dyn Write>> {
    if let Some(files) = granted()? {
        let options = OpenOptions::new().create().truncate();
        if let Some(file) = if_granted(files.open_with(path, options))? {
            return Ok(Box::new(file.writer()));
        }
    }
    Ok(Box::new(File::create(path)?))
}

/// Returns the files granted to the job, if any.
fn granted() -> io::Result<Option<Files>> {
    if std::env::var_os(FILES_VARIABLE).is_none() {
        return Ok(None);
    }
    let domain = launch::domain().map_err(io::Error::other)?;
    Files::connect(&domain).map(Some).map_err(io::Error::other)
}

/// Returns `None` for a file that was not granted: then the node's own file is meant.
fn if_granted<T>(opened: Result<T, FileError>) -> io::Result<Option<T>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(FileError::Fault { fault: FileFault::NotGranted, .. }) => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    }
}
