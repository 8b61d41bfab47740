//! File or disk to be served.

use std::fs::{File, TryLockError};
use std::io::{Seek, SeekFrom};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use tombolo::Buffer;
use tombolo_files::BufferFile;
use tombolo_platform::OsError;
use tombolo_virtqueue::{Configuration, Device, Features, Operation, Request, Status};

use crate::failure::Failure;
use crate::queue::device_configuration;

/// Block size in bytes, as programs expect of a disk.
const BLOCK_BYTES: u32 = 512;

/// File or disk. A writable one is locked against other servers.
pub(crate) struct Disk {
    file: File,
    configuration: Configuration,
}

impl Disk {
    /// Opens a file or disk, or creates a sparse file of this many bytes.
    pub(crate) fn open(path: &Path, is_read_only: bool, create_bytes: Option<u64>) -> Result<Disk, Failure> {
        let failed = |what: &str, error: &std::io::Error| {
            OsError::from_io(format!("{what} {}", path.display()), error)
        };
        let mut options = File::options();
        options.read(true).write(!is_read_only).create_new(create_bytes.is_some());
        let mut file = options.open(path).map_err(|error| failed("open", &error))?;
        let locked = if is_read_only { file.try_lock_shared() } else { file.try_lock() };
        locked.map_err(|error| match error {
            TryLockError::WouldBlock => {
                Failure::Usage(format!("{} is served for writing already", path.display()))
            }
            TryLockError::Error(error) => failed("lock", &error).into(),
        })?;
        if let Some(bytes) = create_bytes {
            file.set_len(bytes).map_err(|error| failed("set the size of", &error))?;
        }
        let bytes = file.seek(SeekFrom::End(0)).map_err(|error| failed("find the size of", &error))?;
        let capacity_bytes = bytes & !u64::from(BLOCK_BYTES - 1);
        if capacity_bytes == 0 {
            let min_bytes = BLOCK_BYTES;
            return Err(Failure::Usage(format!(
                "{} has {bytes} bytes; a disk has {min_bytes} or more",
                path.display()
            )));
        }
        let features = if is_read_only {
            Features::READ_ONLY.and(Features::FLUSH)
        } else {
            Features::FLUSH.and(Features::DISCARD).and(Features::ZERO)
        };
        Ok(Disk {
            file,
            configuration: device_configuration(Device::Block, capacity_bytes, BLOCK_BYTES, features),
        })
    }

    pub(crate) fn configuration(&self) -> Configuration {
        self.configuration
    }

    /// Returns whether the request waits for the disk, rather than only for the page cache.
    pub(crate) fn is_slow(request: &Request) -> bool {
        request.durable || !matches!(request.operation, Operation::Read | Operation::Write)
    }

    /// Executes a validated request. Data read is placed in the buffer.
    pub(crate) fn execute(&self, request: &Request, buffer: &mut Buffer) -> Status {
        let &Request { operation, offset_bytes, length_bytes, .. } = request;
        let done: Result<(), Errno> = match operation {
            Operation::Read => match self.file.read_into(buffer, offset_bytes, length_bytes) {
                Ok(read) if read == length_bytes => Ok(()),
                // The file has been truncated since.
                Ok(_) => Err(Errno::IO),
                Err(error) => Err(errno_of(&error)),
            },
            Operation::Write => self.file.write_from(buffer, offset_bytes).map_err(|error| errno_of(&error)),
            Operation::Flush => Ok(()),
            Operation::Discard => self.allocate(FallocateFlags::PUNCH_HOLE, offset_bytes, length_bytes),
            Operation::Zero => self
                .allocate(FallocateFlags::ZERO_RANGE, offset_bytes, length_bytes)
                .or_else(|_| self.allocate(FallocateFlags::PUNCH_HOLE, offset_bytes, length_bytes)),
            Operation::Configure | Operation::Frame => Err(Errno::OPNOTSUPP),
        };
        let done = done.and_then(|()| {
            if operation == Operation::Flush || request.durable { self.flush() } else { Ok(()) }
        });
        match done {
            Ok(()) => Status::Done,
            Err(Errno::NOSPC | Errno::DQUOT) => Status::Full,
            Err(Errno::OPNOTSUPP) => Status::Unsupported,
            Err(_) => Status::Failed,
        }
    }

    fn allocate(&self, flags: FallocateFlags, offset_bytes: u64, length_bytes: u64) -> Result<(), Errno> {
        match length_bytes {
            0 => Ok(()),
            _ => fallocate(&self.file, flags | FallocateFlags::KEEP_SIZE, offset_bytes, length_bytes),
        }
    }

    fn flush(&self) -> Result<(), Errno> {
        self.file.sync_data().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

fn errno_of(error: &tombolo::Error) -> Errno {
    match error {
        tombolo::Error::Os { errno, .. } => Errno::from_raw_os_error(*errno),
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_can_be_served() {
        let path = std::env::temp_dir().join(format!("tombolo-disk-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        assert!(Disk::open(&path, false, None).is_err(), "it does not exist");
        let disk = Disk::open(&path, false, Some(1000)).unwrap();
        assert_eq!(disk.configuration().capacity_bytes, 512, "whole blocks");
        for is_read_only in [true, false] {
            let error = Disk::open(&path, is_read_only, None).err().unwrap();
            assert!(error.to_string().contains("served for writing already"), "{error}");
        }
        drop(disk);
        let readers = [(); 2].map(|()| Disk::open(&path, true, None).unwrap());
        assert!(readers[0].configuration().features.has(Features::READ_ONLY));
        assert!(Disk::open(&path, false, None).is_err(), "others read it");
        assert!(Disk::open(&path, false, Some(512)).is_err(), "it exists");
        drop(readers);
        File::create(&path).unwrap().set_len(511).unwrap();
        let error = Disk::open(&path, true, None).err().unwrap();
        assert!(error.to_string().contains("511 bytes"), "{error}");
        std::fs::remove_file(&path).unwrap();
    }
}
