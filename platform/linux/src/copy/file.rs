//! Reads files into shared memory and writes them from it without an intermediate copy.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;
use tombolo_base::SharedMemory;

use super::{CopyError, address};
use crate::error::OsError;

/// Error of a read or write that failed or was incomplete.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FileCopyError {
    /// The range lies outside the memory.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The kernel refused the read or write.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// Reads up to `length_bytes` of a file at `file_offset_bytes` into memory at `offset_bytes`. Returns fewer
/// only at the end of the file.
///
/// # Errors
/// The range does not lie inside the memory, or the kernel refused. Some of the memory may have been
/// written.
pub fn read_at(
    file: impl AsFd,
    file_offset_bytes: u64,
    (memory, offset_bytes): (&SharedMemory, usize),
    length_bytes: usize,
) -> Result<usize, FileCopyError> {
    let to = address(memory, offset_bytes, length_bytes)?;
    let file = file.as_fd();
    all("read a file", file_offset_bytes, length_bytes, |done, offset| {
        // SAFETY: checked: this many bytes from there are one mapping that lives as long as `memory`. It is
        // shared memory, to which no reference to bytes exists; the kernel writes to it as any peer may.
        unsafe { libc::pread64(raw(file), to.add(done).cast(), length_bytes - done, offset) }
    })
}

/// Writes `length_bytes` of memory at `offset_bytes` to a file at `file_offset_bytes`: all of it, or an
/// error.
///
/// # Errors
/// As [`read_at`]. Some of the file may have been written.
pub fn write_at(
    file: impl AsFd,
    file_offset_bytes: u64,
    (memory, offset_bytes): (&SharedMemory, usize),
    length_bytes: usize,
) -> Result<(), FileCopyError> {
    let from = address(memory, offset_bytes, length_bytes)?.cast_const();
    let file = file.as_fd();
    let written = all("write a file", file_offset_bytes, length_bytes, |done, offset| {
        // SAFETY: as above; the kernel reads.
        unsafe { libc::pwrite64(raw(file), from.add(done).cast(), length_bytes - done, offset) }
    })?;
    if written < length_bytes {
        return Err(OsError::new("write a file", Errno::NOSPC).into());
    }
    Ok(())
}

fn raw(file: BorrowedFd<'_>) -> libc::c_int {
    file.as_raw_fd()
}

/// Repeats a call that may transfer less than requested, until all is done or it returns zero.
fn all(
    operation: &str,
    file_offset_bytes: u64,
    length_bytes: usize,
    mut call: impl FnMut(usize, libc::off64_t) -> isize,
) -> Result<usize, FileCopyError> {
    let beyond = || OsError::new(operation, Errno::OVERFLOW);
    let start = i64::try_from(file_offset_bytes).map_err(|_| beyond())?;
    start.checked_add(length_bytes as i64).ok_or_else(beyond)?;
    let mut done = 0;
    while done < length_bytes {
        match call(done, start + done as i64) {
            0 => break,
            count if count > 0 => done += count as usize,
            _ => {
                let error = std::io::Error::last_os_error();
                if error.kind() != std::io::ErrorKind::Interrupted {
                    return Err(OsError::from_io(operation, &error).into());
                }
            }
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    use super::*;

    fn file() -> File {
        let fd = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        File::from(fd)
    }

    #[test]
    fn reads_and_writes_reach_the_file() {
        let memory = SharedMemory::zeroed(4096);
        let mut file = file();
        let text: Vec<u8> = (0..2000_u32).map(|index| index as u8).collect();
        file.write_all(&text).unwrap();
        // Unaligned on both sides, and to the end of the file.
        assert_eq!(read_at(&file, 3, (&memory, 5), 100).unwrap(), 100);
        let mut found = [0; 100];
        crate::copy::read(crate::copy::CopyLoop::Best, &memory, 5, &mut found).unwrap();
        assert_eq!(found[..], text[3..103]);
        assert_eq!(read_at(&file, 1990, (&memory, 200), 100).unwrap(), 10);
        assert_eq!(read_at(&file, 2000, (&memory, 200), 100).unwrap(), 0);
        assert_eq!(read_at(&file, 9000, (&memory, 4096), 0).unwrap(), 0);
        write_at(&file, 2001, (&memory, 5), 99).unwrap();
        let mut back = [1; 100];
        file.read_exact_at(&mut back, 2000).unwrap();
        assert_eq!((back[0], &back[1..]), (0, &text[3..102]));
    }

    #[test]
    fn ranges_outside_are_refused() {
        let (memory, file) = (SharedMemory::zeroed(4096), file());
        for (offset, length) in [(0, 4097), (4096, 1), (usize::MAX, 2)] {
            assert!(matches!(read_at(&file, 0, (&memory, offset), length), Err(FileCopyError::Copy(_))));
            assert!(matches!(write_at(&file, 0, (&memory, offset), length), Err(FileCopyError::Copy(_))));
        }
        for offset in [i64::MAX as u64 + 1, i64::MAX as u64, u64::MAX] {
            assert!(matches!(read_at(&file, offset, (&memory, 0), 1), Err(FileCopyError::Os(_))));
            assert!(matches!(write_at(&file, offset, (&memory, 0), 1), Err(FileCopyError::Os(_))));
        }
        assert_eq!(file.metadata().unwrap().len(), 0);
    }
}
