//! Memory transferred between processes that do not trust each other.
//!
//! A buffer begins as [`Unsealed`]: memory of this process alone. [Sealing](Unsealed::seal) makes the kernel
//! verify that no process has it mapped for writing, and prevent that from then on: its bytes can no longer
//! change, and it may be sent. The receiver checks the seals ([`Sealed::receive`]), so a plain `&[u8]` over
//! it is sound, and validated content stays valid. A process that needs to write maps it [`Private`], as
//! copy-on-write.
//!
//! Seals do not protect against a debugger of the same user, which can access any memory of the process.

use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::error::{Context, OsError};

/// Seals against writes and changes of length.
const SEALS: SealFlags =
    SealFlags::WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::SEAL);

/// Seals required on memory from other processes.
const REQUIRED_SEALS: SealFlags = SealFlags::WRITE.union(SealFlags::SHRINK);

/// File system type of memory files with ordinary pages. Huge pages can run out, which causes a fault on the
/// first access.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Mapped pages of this process, unmapped when dropped.
#[derive(Debug)]
struct Pages {
    address: NonNull<u8>,
    length_bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this is the only handle to it.
unsafe impl Send for Pages {}
// SAFETY: `&Pages` gives access only to its address and length; the functions that make slices say why they
// may.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `map` created exactly this range, and slices of it borrow the owner of this value.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), self.length_bytes) };
    }
}

impl Pages {
    fn map(
        file: &OwnedFd,
        length_bytes: usize,
        protection: ProtFlags,
        flags: MapFlags,
    ) -> Result<Pages, OsError> {
        // SAFETY: a null hint lets the kernel choose a fresh range, so no existing mapping is touched.
        let address =
            unsafe { rustix::mm::mmap(core::ptr::null_mut(), length_bytes, protection, flags, file, 0) }
                .context("map a buffer")?;
        let address = NonNull::new(address.cast()).ok_or(OsError::new("map a buffer", Errno::FAULT))?;
        Ok(Pages { address, length_bytes })
    }

    /// # Safety
    /// No one may write to these pages while the slice lives.
    unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the range is mapped for reading while `self` lives, its file cannot shrink (`Unsealed` is
        // private to this process, all others are sealed), and no one writes to it (contract of this
        // function).
        unsafe { core::slice::from_raw_parts(self.address.as_ptr(), self.length_bytes) }
    }

    /// # Safety
    /// The pages must be mapped for writing, and no one else may read or write them while the slice lives.
    unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; exclusive, writable pages are the contract of this function.
        unsafe { core::slice::from_raw_parts_mut(self.address.as_ptr(), self.length_bytes) }
    }
}

/// Memory that is accessible to this process only.
#[derive(Debug)]
pub struct Unsealed {
    pages: Pages,
    file: OwnedFd,
}

impl Unsealed {
    /// Allocates zeroed memory of `length_bytes`. `name` shows in `/proc/PID/maps`.
    ///
    /// # Errors
    /// Out of memory or too many open files; `EINVAL` for a length of zero.
    pub fn new(name: &str, length_bytes: usize) -> Result<Unsealed, OsError> {
        let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .context("create a buffer")?;
        rustix::fs::ftruncate(&file, length_bytes as u64).context("size a buffer")?;
        let pages = Pages::map(&file, length_bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)?;
        Ok(Unsealed { pages, file })
    }

    /// Seals the memory: no process, including this one, can write to it any more.
    ///
    /// # Errors
    /// `EBUSY` if some process has it mapped for writing; the memory is lost.
    pub fn seal(self) -> Result<Sealed, OsError> {
        let Unsealed { pages, file } = self;
        let length_bytes = pages.length_bytes;
        drop(pages);
        rustix::fs::fcntl_add_seals(&file, SEALS).context("seal a buffer")?;
        Sealed::map(file, length_bytes)
    }
}

impl Deref for Unsealed {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: this process created the file and its descriptor never leaves `self`, so no other process
        // has it; in this one `&self` rules out `deref_mut`.
        unsafe { self.pages.bytes() }
    }
}

impl DerefMut for Unsealed {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped for writing by `new`; as above, and `&mut self` is the only access in this
        // process.
        unsafe { self.pages.bytes_mut() }
    }
}

/// Immutable memory that no process can write to.
#[derive(Debug)]
pub struct Sealed {
    pages: Pages,
    file: OwnedFd,
}

impl Sealed {
    /// Accepts memory sent by another process.
    ///
    /// # Errors
    /// `EPERM` if it can still be written or shortened, or is not a memory file of ordinary pages;
    /// `EOVERFLOW` if it is shorter than `length_bytes`.
    pub fn receive(file: OwnedFd, length_bytes: usize) -> Result<Sealed, OsError> {
        let seals = rustix::fs::fcntl_get_seals(&file).map_err(|errno| match errno {
            Errno::INVAL => OsError::new("accept a buffer that is not a memory file", Errno::PERM),
            errno => OsError::new("read the seals of a buffer", errno),
        })?;
        if !seals.contains(REQUIRED_SEALS) {
            return Err(OsError::new("accept a buffer that others can still write to", Errno::PERM));
        }
        let kind = rustix::fs::fstatfs(&file).context("read the kind of a buffer")?.f_type;
        #[allow(
            clippy::useless_conversion,
            clippy::unnecessary_cast,
            reason = "its width depends on the processor"
        )]
        if kind as i64 != TMPFS_MAGIC {
            return Err(OsError::new("accept a buffer that is not of ordinary pages", Errno::PERM));
        }
        let found_bytes = rustix::fs::fstat(&file).context("size a buffer")?.st_size;
        if u64::try_from(found_bytes).unwrap_or(0) < length_bytes as u64 {
            let what = format!("accept a buffer of {found_bytes} bytes; {length_bytes} are needed");
            return Err(OsError::new(what, Errno::OVERFLOW));
        }
        Self::map(file, length_bytes)
    }

    fn map(file: OwnedFd, length_bytes: usize) -> Result<Sealed, OsError> {
        // A shared mapping would also work, but not on kernels before 6.7.
        let pages = Pages::map(&file, length_bytes, ProtFlags::READ, MapFlags::PRIVATE)?;
        Ok(Sealed { pages, file })
    }

    /// Returns the descriptor, for sending it on.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Makes the bytes writable for this process; other holders do not see the changes.
    ///
    /// # Errors
    /// Out of memory.
    pub fn into_private(self) -> Result<Private, OsError> {
        let Sealed { pages, file } = self;
        let length_bytes = pages.length_bytes;
        drop(pages);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let pages = Pages::map(&file, length_bytes, protection, MapFlags::PRIVATE)?;
        Ok(Private { pages, file, written: false })
    }
}

impl Deref for Sealed {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the file is sealed against writing: the kernel refused the seal while any writable
        // mapping existed, and refuses every new one. The mapping of this process is read-only.
        unsafe { self.pages.bytes() }
    }
}

/// A private copy-on-write mapping of sealed memory.
#[derive(Debug)]
pub struct Private {
    pages: Pages,
    file: OwnedFd,
    written: bool,
}

impl Private {
    /// Seals the memory again: the same file if nothing was written, otherwise a copy.
    ///
    /// # Errors
    /// Out of memory.
    pub fn seal(self) -> Result<Sealed, OsError> {
        if self.written {
            let mut copy = Unsealed::new("tombolo-buffer", self.len())?;
            copy.copy_from_slice(&self);
            return copy.seal();
        }
        let length_bytes = self.pages.length_bytes;
        Sealed::map(self.file, length_bytes)
    }
}

impl Deref for Private {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: pages of the sealed file cannot change, and written pages are copies private to this
        // process, where `&self` rules out `deref_mut`.
        unsafe { self.pages.bytes() }
    }
}

impl DerefMut for Private {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.written = true;
        // SAFETY: mapped for writing by `into_private`; as above, and `&mut self` is the only access in
        // this process.
        unsafe { self.pages.bytes_mut() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const LENGTH: usize = 8192;

    fn filled(byte: u8) -> Unsealed {
        let mut fresh = Unsealed::new("tombolo-test", LENGTH).unwrap();
        fresh.fill(byte);
        fresh
    }

    fn map_shared(file: impl AsFd, protection: ProtFlags) -> Result<*mut u8, Errno> {
        // SAFETY: a null hint; the test is responsible for the address.
        unsafe { rustix::mm::mmap(core::ptr::null_mut(), LENGTH, protection, MapFlags::SHARED, file, 0) }
            .map(|address| address.cast())
    }

    #[test]
    fn sealed_memory_cannot_be_written() {
        let sealed = filled(7).seal().unwrap();
        let file = sealed.descriptor();
        let mut raw = std::fs::File::from(file.try_clone_to_owned().unwrap());
        assert!(raw.write_all(&[1]).is_err());
        assert_eq!(rustix::io::pwrite(file, &[1], 0), Err(Errno::PERM));
        assert_eq!(map_shared(file, ProtFlags::READ | ProtFlags::WRITE), Err(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(file, 0), Err(Errno::PERM));
        let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        assert_eq!(rustix::fs::fallocate(file, punch, 0, 4096), Err(Errno::PERM));
        // Nor through a new descriptor of the same file.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let reopened = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        assert_eq!(rustix::io::pwrite(&reopened, &[1], 0), Err(Errno::PERM));
        assert_eq!(map_shared(&reopened, ProtFlags::READ | ProtFlags::WRITE), Err(Errno::PERM));
        assert!(sealed.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_kept_writable_mapping_prevents_sealing() {
        let fresh = filled(7);
        let kept = map_shared(&fresh.file, ProtFlags::READ | ProtFlags::WRITE).unwrap();
        assert_eq!(fresh.seal().unwrap_err().errno, Errno::BUSY);
        // SAFETY: mapped above; nothing refers to it.
        unsafe { rustix::mm::munmap(kept.cast(), LENGTH) }.unwrap();
    }

    #[test]
    fn unsealed_memory_is_refused() {
        let fresh = filled(7);
        let file = fresh.file.try_clone().unwrap();
        assert_eq!(Sealed::receive(file, LENGTH).unwrap_err().errno, Errno::PERM);
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        assert_eq!(Sealed::receive(pipe, LENGTH).unwrap_err().errno, Errno::PERM);
        let zero = std::fs::File::open("/dev/zero").unwrap();
        assert_eq!(Sealed::receive(zero.into(), LENGTH).unwrap_err().errno, Errno::PERM);
        let sealed = fresh.seal().unwrap();
        let copy = || sealed.descriptor().try_clone_to_owned().unwrap();
        assert_eq!(Sealed::receive(copy(), LENGTH + 1).unwrap_err().errno, Errno::OVERFLOW);
        assert_eq!(&*Sealed::receive(copy(), LENGTH).unwrap(), &*sealed);
    }

    #[test]
    fn writes_of_a_receiver_are_private() {
        let sealed = filled(7).seal().unwrap();
        let kept = Sealed::receive(sealed.descriptor().try_clone_to_owned().unwrap(), LENGTH).unwrap();
        let mut private = sealed.into_private().unwrap();
        private[..4].copy_from_slice(b"mine");
        assert_eq!((&private[..4], &kept[..4]), (&b"mine"[..], &[7; 4][..]));
        let again = private.seal().unwrap();
        assert_eq!((&again[..5], kept[0]), (&b"mine\x07"[..], 7));
        // Unwritten memory is the same file, not a copy.
        let inode = |sealed: &Sealed| rustix::fs::fstat(sealed.descriptor()).unwrap().st_ino;
        let before = inode(&again);
        assert_eq!(inode(&again.into_private().unwrap().seal().unwrap()), before);
    }
}
