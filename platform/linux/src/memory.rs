//! Shared memory of this kernel: sealed memory files, and mappings that neither outlive nor exceed their
//! file.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use tombolo_base::SharedMemory;

use crate::error::{Context, OsError};

mod paged;
mod region;
mod replace;
mod revocable;

pub use paged::{PageFault, PagedMemory, Unavailable};
pub use region::{RegionOptions, create_region, open_read_only, seal_future_writes, seal_writes};
pub use replace::{is_mapped, replace_private};
pub use revocable::{MapOptions, RevocableMapping};

/// Returns the page size of this kernel, in bytes.
#[must_use]
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Seals that fix the size permanently: otherwise a peer could shrink the file and turn every access of the
/// other side into SIGBUS.
const SIZE_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Creates a zeroed memory file of `length_bytes` whose size is sealed. `name` shows in `/proc/PID/maps`.
///
/// It has no path, so it vanishes when the last process that holds it dies.
///
/// # Errors
/// An error of the kernel, such as out of memory or too many open files.
pub fn create_sealed(name: &str, length_bytes: u64) -> Result<OwnedFd, OsError> {
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .context("create shared memory")?;
    rustix::fs::ftruncate(&file, length_bytes).context("size shared memory")?;
    rustix::fs::fcntl_add_seals(&file, SIZE_SEALS).context("seal shared memory")?;
    Ok(file)
}

/// Checks that a file received from a peer is a memory file whose size is sealed and at least `length_bytes`,
/// so that mapping it can never fault, for any behaviour of the peer.
///
/// # Errors
/// `EPERM` for missing seals, `EOVERFLOW` if it is too small, or another error of the kernel.
pub fn check_sealed(file: impl AsFd, length_bytes: u64) -> Result<(), OsError> {
    let seals = rustix::fs::fcntl_get_seals(&file).context("read the seals of shared memory")?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(OsError::new("use shared memory that its owner can shrink", Errno::PERM));
    }
    let length = rustix::fs::fstat(&file).context("size shared memory")?.st_size;
    if u64::try_from(length).unwrap_or(0) < length_bytes {
        return Err(OsError::new(
            format!("use shared memory of {length} bytes where {length_bytes} are needed"),
            Errno::OVERFLOW,
        ));
    }
    Ok(())
}

/// Identity of a file, unique while a descriptor of it is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileId {
    device: u64,
    inode: u64,
}

/// Returns the identity of the file that a descriptor refers to.
///
/// # Errors
/// An error of the kernel.
pub fn file_id(file: impl AsFd) -> Result<FileId, OsError> {
    let status = rustix::fs::fstat(&file).context("tell shared memory from other memory")?;
    Ok(FileId { device: status.st_dev as _, inode: status.st_ino as _ })
}

/// Checks that the memory of a window is at least `length_bytes` long. Only a monitor passes such files.
///
/// A memory file without a name must be sealed as in [`check_sealed`]. A file with a name cannot be sealed: a
/// program with write access could truncate it, which kills the programs that map it with SIGBUS. The length
/// of a device is fixed.
///
/// # Errors
/// As [`check_sealed`].
pub fn check_window(file: impl AsFd, length_bytes: u64) -> Result<(), OsError> {
    let status = rustix::fs::fstat(&file).context("size a window")?;
    let is_file = rustix::fs::FileType::from_raw_mode(status.st_mode) == rustix::fs::FileType::RegularFile;
    if is_file && status.st_nlink == 0 {
        return check_sealed(file, length_bytes);
    }
    let length = status.st_size;
    if is_file && u64::try_from(length).unwrap_or(0) < length_bytes {
        let what = format!("use a window of {length} bytes where {length_bytes} are needed");
        return Err(OsError::new(what, Errno::OVERFLOW));
    }
    Ok(())
}

/// A mapping that is unmapped when dropped.
struct Mapping {
    address: NonNull<core::ffi::c_void>,
    length_bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; the pointer is only used to unmap it.
unsafe impl Send for Mapping {}
// SAFETY: as above, nothing is reachable through `&Mapping`.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `map` created exactly this range and hands out no pointer that outlives the `Arc` around
        // it.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr(), self.length_bytes) };
    }
}

/// Maps `length_bytes` of `file` from `offset_bytes` (a multiple of the page size), for reading and writing.
///
/// For a file from elsewhere call [`check_sealed`] first; for device memory (a PCI BAR) the size of the BAR
/// is the bound.
///
/// # Errors
/// An error of the kernel; `EINVAL` for a length of zero.
pub fn map(file: impl AsFd, offset_bytes: u64, length_bytes: usize) -> Result<SharedMemory, OsError> {
    // SAFETY: a null hint lets the kernel choose a fresh range, so no existing mapping is touched.
    let address = unsafe {
        rustix::mm::mmap(
            core::ptr::null_mut(),
            length_bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            &file,
            offset_bytes,
        )
    }
    .context("map shared memory")?;
    let address = NonNull::new(address).ok_or(OsError::new("map shared memory", Errno::FAULT))?;
    let owner = Arc::new(Mapping { address, length_bytes });
    // SAFETY: the range was just mapped read-write, page-aligned, and stays mapped while `owner` lives. All
    // access in this process goes through `SharedMemory`, which is atomic in words of 8 bytes. Its size
    // cannot shrink: it is sealed, or it is a BAR.
    Ok(unsafe { SharedMemory::from_raw(address.cast(), length_bytes, owner) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_base::sync::Ordering;

    #[test]
    fn two_mappings_of_one_file_are_the_same_memory() {
        let file = create_sealed("tombolo-test", 8192).unwrap();
        check_sealed(&file, 8192).unwrap();
        let first = map(&file, 0, 8192).unwrap();
        let second = map(&file, 4096, 4096).unwrap();
        first.store_le(512, 77, Ordering::Relaxed);
        assert_eq!(second.load_le(0, Ordering::Relaxed), 77);
    }

    #[test]
    fn a_file_that_can_shrink_or_is_too_small_is_refused() {
        let loose = rustix::fs::memfd_create("tombolo-test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .unwrap();
        rustix::fs::ftruncate(&loose, 4096).unwrap();
        assert_eq!(check_sealed(&loose, 4096).unwrap_err().errno, Errno::PERM);
        let sealed = create_sealed("tombolo-test", 4096).unwrap();
        assert_eq!(check_sealed(&sealed, 4097).unwrap_err().errno, Errno::OVERFLOW);
        assert!(rustix::fs::ftruncate(&sealed, 0).is_err());
    }

    #[test]
    fn the_memory_lives_as_long_as_its_last_part() {
        let file = create_sealed("tombolo-test", 4096).unwrap();
        let part = {
            let whole = map(&file, 0, 4096).unwrap();
            drop(file);
            whole.slice(8, 8).unwrap()
        };
        part.store_le(0, 5, Ordering::Relaxed);
        assert_eq!(part.load_le(0, Ordering::Relaxed), 5);
    }
    #[test]
    fn a_mapping_goes_with_its_last_part() {
        let mapped = || std::fs::read_to_string("/proc/self/maps").unwrap().contains("tombolo-test-gone");
        let file = create_sealed("tombolo-test-gone", 4096).unwrap();
        let whole = map(&file, 0, 4096).unwrap();
        let part = whole.slice(0, 8).unwrap();
        drop(whole);
        assert!(mapped());
        drop(part);
        assert!(!mapped());
    }

    #[test]
    fn memory_files_are_not_inherited() {
        let file = create_sealed("tombolo-test", 4096).unwrap();
        let read = open_read_only(&file).unwrap();
        let region = create_region("tombolo-test", 4096, RegionOptions::default()).unwrap();
        for file in [file, read, region] {
            assert!(rustix::io::fcntl_getfd(&file).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        }
    }

    #[test]
    fn other_kinds_of_file_are_refused() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert_eq!(check_sealed(&reader, 0).unwrap_err().errno, Errno::INVAL);
        let file = create_sealed("tombolo-test", 4096).unwrap();
        assert_eq!(map(&file, 0, 0).unwrap_err().errno, Errno::INVAL);
    }
}
