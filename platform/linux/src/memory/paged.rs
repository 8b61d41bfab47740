//! Demand-paged memory that a program of this process supplies: accesses that a page does not allow block
//! their thread and are reported on a descriptor (userfaultfd).
//!
//! The pages are those of a memory file, mapped twice. The *range* is the mapping for the program: an access
//! to a page that is not mapped there, or a write to one mapped read-only, blocks until another thread maps
//! it. The *alias*, at an address chosen by the kernel, always reaches the content, so that the thread that
//! supplies pages never blocks.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, Updater, opcode};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, UserfaultfdFlags};
use tombolo_base::SharedMemory;
use tombolo_base::sync::Ordering;

use super::Mapping;
use crate::error::{Context, OsError};

/// `struct uffdio_api`.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_range`.
#[repr(C)]
struct Range {
    start: u64,
    length_bytes: u64,
}

/// `struct uffdio_register`, `uffdio_continue` and `uffdio_poison`; the last field is the kernel's reply.
#[repr(C)]
struct RangeAndMode {
    range: Range,
    mode: u64,
    result: i64,
}

/// `struct uffdio_writeprotect`.
#[repr(C)]
struct Protect {
    range: Range,
    mode: u64,
}

const API_VERSION: u64 = 0xaa;
const API: Opcode = opcode::read_write::<Api>(0xaa, 0x3f);
const REGISTER: Opcode = opcode::read_write::<RangeAndMode>(0xaa, 0);
const WAKE: Opcode = opcode::read::<Range>(0xaa, 2);
const WRITE_PROTECT: Opcode = opcode::read_write::<Protect>(0xaa, 6);
const CONTINUE: Opcode = opcode::read_write::<RangeAndMode>(0xaa, 7);
const POISON: Opcode = opcode::read_write::<RangeAndMode>(0xaa, 8);
/// `USERFAULTFD_IOC_NEW` of `/dev/userfaultfd`.
const NEW: Opcode = opcode::none(0xaa, 0);

/// `UFFD_USER_MODE_ONLY` (Linux 5.11).
const USER_MODE_ONLY: UserfaultfdFlags = UserfaultfdFlags::from_bits_retain(1);
const MODE_MISSING: u64 = 1;
const MODE_WRITE_PROTECT: u64 = 2;
const MODE_MINOR: u64 = 4;
const CONTINUE_WRITE_PROTECTED: u64 = 2;

/// Required bits of `uffdio_api.features` with their descriptions.
const NEEDED: [(u64, &str); 4] = [
    (1 << 0, "write protection (Linux 5.7, on arm64 6.10)"),
    (1 << 10, "minor faults of shared memory (Linux 5.14)"),
    (1 << 11, "exact addresses of faults (Linux 5.18)"),
    (1 << 12, "write protection of shared memory (Linux 5.19)"),
];
/// `UFFD_FEATURE_POISON` (Linux 6.6).
const FEATURE_POISON: u64 = 1 << 14;
/// `UFFD_FEATURE_WP_UNPOPULATED` (Linux 6.4), the release in which a page can be mapped write-protected.
const FEATURE_OF_6_4: u64 = 1 << 13;

const EVENT_PAGE_FAULT: u8 = 0x12;
const FAULT_WRITES: u64 = 1;
const FAULT_IS_PROTECTED: u64 = 2;
/// Bytes of `struct uffd_msg`.
const MESSAGE_BYTES: usize = 32;

/// Reason why demand-paged memory is unavailable.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unavailable {
    /// The kernel, or the emulator in its place, has no userfaultfd.
    #[error(
        "this kernel has no userfaultfd, or the emulator that runs this program (qemu-user) does not pass it on"
    )]
    NoSystemCall,
    /// A setting forbids it.
    #[error(
        "userfaultfd is not permitted: set vm.unprivileged_userfaultfd=1 with sysctl, give this user access to \
         /dev/userfaultfd, or allow the system call where a container's seccomp profile forbids it"
    )]
    Forbidden,
    /// The kernel is too old.
    #[error("the userfaultfd of this kernel lacks {0}")]
    Lacks(&'static str),
    /// Something else is mapped at the address.
    #[error("{length_bytes} bytes at {address:#x} are in use in this program; choose another address")]
    Taken {
        /// Start of the range.
        address: usize,
        /// Length of the range, in bytes.
        length_bytes: usize,
    },
    /// Another error of the kernel.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// Page fault of a blocked thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageFault {
    /// Index of the page in the range.
    pub page: u32,
    /// Offset of the access in the page, in bytes.
    pub offset_bytes: usize,
    /// Whether the access is a write.
    pub writes: bool,
}

/// Demand-paged memory. Once it is dropped, any access to the range ends the program with SIGSEGV.
#[derive(Debug)]
pub struct PagedMemory {
    faults: OwnedFd,
    range: Arc<Mapped>,
    alias: SharedMemory,
    page_bytes: usize,
    pages: u32,
    can_poison: bool,
    user_mode_only: bool,
}

/// Mapping of the range, kept until its last reference is dropped.
#[derive(Debug)]
struct Mapped {
    address: NonNull<c_void>,
    length_bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Mapped {}
// SAFETY: as above; what refers to it changes it by system calls alone.
unsafe impl Sync for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        drop(Mapping { address: self.address, length_bytes: self.length_bytes });
    }
}

impl PagedMemory {
    /// Maps `pages` zeroed pages at `address`. Each becomes accessible when it is [mapped](Self::map). Forked
    /// children do not inherit them.
    ///
    /// # Errors
    /// [`Unavailable`] with the reason.
    pub fn create(address: usize, pages: u32) -> Result<PagedMemory, Unavailable> {
        let page_bytes = rustix::param::page_size();
        let too_long = || Unavailable::Os(OsError::new("map pages", Errno::NOMEM));
        let length_bytes = (pages as usize).checked_mul(page_bytes).ok_or_else(too_long)?;
        let (faults, user_mode_only, features) = open()?;
        let file = super::create_sealed("tombolo-pages", length_bytes as u64)?;
        let alias = super::map(&file, 0, length_bytes)?;
        let range = map_at(address, length_bytes, &file)?;
        let mut register = RangeAndMode {
            range: Range { start: address as u64, length_bytes: length_bytes as u64 },
            mode: MODE_MISSING | MODE_WRITE_PROTECT | MODE_MINOR,
            result: 0,
        };
        // SAFETY: the structure is the kernel's for this operation and outlives the call. The range was just
        // mapped, and no code has its address.
        unsafe { rustix::ioctl::ioctl(&faults, Updater::<REGISTER, RangeAndMode>::new(&mut register)) }
            .context("register pages with userfaultfd")?;
        let can_poison = features & FEATURE_POISON != 0;
        Ok(PagedMemory { faults, range, alias, page_bytes, pages, can_poison, user_mode_only })
    }

    /// Returns the range for the program. A thread blocks on access to a page until it is mapped with
    /// sufficient rights.
    #[must_use]
    pub fn memory(&self) -> SharedMemory {
        let owner: Arc<Mapped> = Arc::clone(&self.range);
        // SAFETY: the range is mapped, page-aligned, and stays so while `owner` lives. All access through the
        // result is atomic in words. The file has its size for good. That a page is absent is no matter of
        // memory safety: the thread stops, or the program ends.
        unsafe { SharedMemory::from_raw(self.range.address.cast(), self.range.length_bytes, owner) }
    }

    /// Returns the start address of the range.
    #[must_use]
    pub fn address(&self) -> usize {
        self.range.address.as_ptr().addr()
    }

    /// Returns the number of pages of the range.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns the page size, in bytes.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Returns whether system calls that access an absent page fail with `EFAULT` instead of waiting for it,
    /// because this user may not block the kernel (`vm.unprivileged_userfaultfd` is 0).
    #[must_use]
    pub fn is_user_mode_only(&self) -> bool {
        self.user_mode_only
    }

    /// Returns the next page fault, if there is one.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn next_fault(&self) -> Result<Option<PageFault>, OsError> {
        let mut message = [0_u8; MESSAGE_BYTES];
        loop {
            match rustix::io::read(&self.faults, &mut message) {
                Ok(MESSAGE_BYTES) if message[0] == EVENT_PAGE_FAULT => {}
                Ok(MESSAGE_BYTES) | Err(Errno::INTR) => continue,
                Ok(_) | Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(OsError::new("read page faults", errno)),
            }
            let word = |at: usize| u64::from_ne_bytes(core::array::from_fn(|index| message[at + index]));
            let (flags, address) = (word(8), word(16));
            let offset_bytes = (address as usize).wrapping_sub(self.address());
            if let Ok(page) = u32::try_from(offset_bytes / self.page_bytes)
                && page < self.pages
            {
                return Ok(Some(PageFault {
                    page,
                    offset_bytes: offset_bytes % self.page_bytes,
                    writes: flags & (FAULT_WRITES | FAULT_IS_PROTECTED) != 0,
                }));
            }
        }
    }

    /// Copies the content of a page to `target`. No thread may write to the page meanwhile.
    ///
    /// # Errors
    /// `EINVAL`: there is no such page, or `target` has another length.
    pub fn copy_out(&self, page: u32, target: &mut [u8]) -> Result<(), OsError> {
        let copied = self.alias.copy_out(self.offset_bytes(page), target);
        copied.map_err(|_| OsError::new("read a page", Errno::INVAL))
    }

    /// Replaces the content of a page that is not mapped.
    ///
    /// # Errors
    /// `EINVAL`: there is no such page, or `source` has another length.
    pub fn copy_in(&self, page: u32, source: &[u8]) -> Result<(), OsError> {
        let copied = self.alias.copy_in(self.offset_bytes(page), source);
        copied.map_err(|_| OsError::new("fill a page", Errno::INVAL))
    }

    /// Replaces some bytes of a page while threads may access its other bytes: of the 64 bytes at
    /// `offset_bytes`, a multiple of 8, those whose bits are set in `mask`. The lowest bit stands for the
    /// first byte.
    ///
    /// # Errors
    /// `EINVAL`: they are not within a page.
    pub fn merge(&self, page: u32, offset_bytes: usize, mask: u64, source: &[u8; 64]) -> Result<(), OsError> {
        let invalid = || OsError::new("change a page", Errno::INVAL);
        if page >= self.pages || !offset_bytes.is_multiple_of(8) {
            return Err(invalid());
        }
        let (first, (chunks, _)) = ((self.offset_bytes(page) + offset_bytes) / 8, source.as_chunks::<8>());
        for (index, chunk) in chunks.iter().enumerate() {
            let changes = (mask >> (8 * index)) as u8;
            if changes == 0 {
                continue;
            }
            if offset_bytes + 8 * index >= self.page_bytes {
                return Err(invalid());
            }
            let word = self.alias.words().get(first + index).ok_or_else(invalid)?;
            let value = u64::from_ne_bytes(*chunk);
            if changes == u8::MAX {
                word.store(value, Ordering::Release);
                continue;
            }
            let bits =
                u64::from_ne_bytes(core::array::from_fn(|at| if changes >> at & 1 == 1 { 0xff } else { 0 }));
            // Threads may change the other bytes of the word concurrently.
            let _ = word
                .fetch_update(Ordering::Release, Ordering::Relaxed, |old| Some(old & !bits | value & bits));
        }
        Ok(())
    }

    /// Maps a page and wakes the threads that wait for it.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn map(&self, page: u32, writable: bool) -> Result<(), OsError> {
        // The page must be in the file; an access through the alias allocates it.
        let _ = self.alias.words().get(self.offset_bytes(page) / 8).map(|word| word.load(Ordering::Relaxed));
        let mode = if writable { 0 } else { CONTINUE_WRITE_PROTECTED };
        let mut request = RangeAndMode { range: self.range_of(page), mode, result: 0 };
        loop {
            // SAFETY: the structure is the kernel's for this operation and outlives the call, which maps a
            // page of the file in the range, whose accesses are atomic.
            let done = unsafe {
                rustix::ioctl::ioctl(&self.faults, Updater::<CONTINUE, RangeAndMode>::new(&mut request))
            };
            match done {
                Ok(()) => return Ok(()),
                // Another mapping of this process is being changed.
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::EXIST) => return self.wake(page),
                Err(errno) => return Err(OsError::new("map a page", errno)),
            }
        }
    }

    /// Makes a mapped page read-only.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn protect(&self, page: u32) -> Result<(), OsError> {
        self.write_protect(page, true).context("protect a page from writing")
    }

    /// Makes a mapped page writable and wakes the threads that wait to write it.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn unprotect(&self, page: u32) -> Result<(), OsError> {
        self.write_protect(page, false).context("allow writing to a page")
    }

    /// Unmaps a page from the range. Its content can still be [copied](Self::copy_out).
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn unmap(&self, page: u32) -> Result<(), OsError> {
        // SAFETY: pages of a shared file: their content stays in the file, and accesses wait for the page to
        // be mapped again.
        unsafe { rustix::mm::madvise(self.address_of(page), self.page_bytes, Advice::LinuxDontNeed) }
            .context("unmap a page")
    }

    /// Makes every access to an unmapped page raise SIGBUS; on a kernel before 6.6 SIGSEGV.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn poison(&self, page: u32) -> Result<(), OsError> {
        const WHAT: &str = "end accesses to a page";
        if !self.can_poison {
            // SAFETY: only takes rights from a page of the range.
            unsafe { rustix::mm::mprotect(self.address_of(page), self.page_bytes, MprotectFlags::empty()) }
                .context(WHAT)?;
            return self.wake(page);
        }
        // A leftover write-protection mark would make the kernel refuse.
        let _ = self.write_protect(page, false);
        let mut request = RangeAndMode { range: self.range_of(page), mode: 0, result: 0 };
        loop {
            // SAFETY: the structure is the kernel's for this operation and outlives the call.
            let done = unsafe {
                rustix::ioctl::ioctl(&self.faults, Updater::<POISON, RangeAndMode>::new(&mut request))
            };
            match done {
                Ok(()) => return Ok(()),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::EXIST) => return self.wake(page),
                Err(errno) => return Err(OsError::new(WHAT, errno)),
            }
        }
    }

    /// Wakes the threads blocked on a page, which retry their accesses.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn wake(&self, page: u32) -> Result<(), OsError> {
        // SAFETY: the structure is the kernel's for this operation and outlives the call.
        unsafe { rustix::ioctl::ioctl(&self.faults, Setter::<WAKE, Range>::new(self.range_of(page))) }
            .context("wake the threads at a page")
    }

    /// Revokes all access to the range permanently: any access, pending ones included, ends the program with
    /// SIGSEGV.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn revoke(&self) -> Result<(), OsError> {
        let (address, length_bytes) = (self.range.address.as_ptr(), self.range.length_bytes);
        // SAFETY: only takes rights from the range.
        unsafe { rustix::mm::mprotect(address, length_bytes, MprotectFlags::empty()) }
            .context("end accesses to pages")?;
        let all = Range { start: address.addr() as u64, length_bytes: length_bytes as u64 };
        // SAFETY: the structure is the kernel's for this operation and outlives the call.
        unsafe { rustix::ioctl::ioctl(&self.faults, Setter::<WAKE, Range>::new(all)) }
            .context("wake the threads at all pages")
    }

    fn write_protect(&self, page: u32, protect: bool) -> rustix::io::Result<()> {
        let mut request = Protect { range: self.range_of(page), mode: u64::from(protect) };
        loop {
            // SAFETY: the structure is the kernel's for this operation and outlives the call.
            let done = unsafe {
                rustix::ioctl::ioctl(&self.faults, Updater::<WRITE_PROTECT, Protect>::new(&mut request))
            };
            match done {
                Err(Errno::AGAIN | Errno::INTR) => {}
                done => return done,
            }
        }
    }

    fn offset_bytes(&self, page: u32) -> usize {
        page as usize * self.page_bytes
    }

    fn address_of(&self, page: u32) -> *mut c_void {
        self.range.address.as_ptr().wrapping_byte_add(self.offset_bytes(page.min(self.pages - 1)))
    }

    fn range_of(&self, page: u32) -> Range {
        Range { start: self.address_of(page).addr() as u64, length_bytes: self.page_bytes as u64 }
    }
}

impl AsFd for PagedMemory {
    /// Returns a descriptor that is readable when an access has blocked a thread.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.faults.as_fd()
    }
}

impl Drop for PagedMemory {
    fn drop(&mut self) {
        // Without userfaultfd, absent pages would show the file's content, which may be stale.
        let _ = self.revoke();
    }
}

/// Maps the file at an address where nothing is mapped.
fn map_at(address: usize, length_bytes: usize, file: impl AsFd) -> Result<Arc<Mapped>, Unavailable> {
    let taken = Unavailable::Taken { address, length_bytes };
    if address == 0 || !address.is_multiple_of(rustix::param::page_size()) {
        return Err(taken);
    }
    // SAFETY: the kernel refuses an address where something is mapped; what it maps elsewhere instead
    // (emulators do) is fresh, and unmapped below.
    let mapped = unsafe {
        rustix::mm::mmap(
            core::ptr::without_provenance_mut(address),
            length_bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::FIXED_NOREPLACE,
            file,
            0,
        )
    };
    let mapped = match mapped {
        Ok(mapped) => NonNull::new(mapped).ok_or(OsError::new("map pages", Errno::FAULT))?,
        Err(Errno::EXIST | Errno::INVAL | Errno::NOMEM) => return Err(taken),
        Err(errno) => return Err(OsError::new("map pages", errno).into()),
    };
    let mapped = Arc::new(Mapped { address: mapped, length_bytes });
    if mapped.address.as_ptr().addr() != address {
        return Err(taken);
    }
    // A child would inherit the pages without the descriptor, and read stale content. Huge pages would be
    // mapped and unmapped as a whole.
    for advice in [Advice::LinuxDontFork, Advice::LinuxNoHugepage] {
        // SAFETY: changes only what becomes of the fresh mapping at a fork, and the size of its pages.
        let done = unsafe { rustix::mm::madvise(mapped.address.as_ptr(), length_bytes, advice) };
        match done {
            // The kernel was built without huge pages.
            Err(Errno::INVAL) if advice == Advice::LinuxNoHugepage => {}
            done => done.context("set up pages")?,
        }
    }
    Ok(mapped)
}

/// Opens a userfaultfd descriptor. Returns it, whether it is limited to user mode, and its features.
fn open() -> Result<(OwnedFd, bool, u64), Unavailable> {
    // A descriptor reports its features only once, and cannot request others afterwards.
    let (probe, _) = open_raw()?;
    let mut api = Api { api: API_VERSION, features: 0, ioctls: 0 };
    negotiate_api(&probe, &mut api)?;
    drop(probe);
    let offered = api.features;
    for (feature, what) in NEEDED {
        if offered & feature == 0 {
            return Err(Unavailable::Lacks(what));
        }
    }
    if offered & FEATURE_OF_6_4 == 0 {
        return Err(Unavailable::Lacks("mapping of write-protected pages (Linux 6.4)"));
    }
    let needed = NEEDED.iter().fold(0, |all, (feature, _)| all | feature);
    let features = needed | (offered & FEATURE_POISON);
    let (faults, user_mode_only) = open_raw()?;
    negotiate_api(&faults, &mut Api { api: API_VERSION, features, ioctls: 0 })?;
    Ok((faults, user_mode_only, features))
}

fn negotiate_api(faults: &OwnedFd, api: &mut Api) -> Result<(), OsError> {
    // SAFETY: the structure is the kernel's for this operation and outlives the call.
    unsafe { rustix::ioctl::ioctl(faults, Updater::<API, Api>::new(api)) }.context("set up userfaultfd")
}

fn open_raw() -> Result<(OwnedFd, bool), Unavailable> {
    let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
    // SAFETY: a descriptor with which no range is registered yet.
    match unsafe { rustix::mm::userfaultfd(flags) } {
        Ok(faults) => return Ok((faults, false)),
        Err(Errno::NOSYS) => return Err(Unavailable::NoSystemCall),
        Err(Errno::PERM) => {}
        Err(errno) => return Err(OsError::new("open userfaultfd", errno).into()),
    }
    if let Ok(device) = File::options().read(true).write(true).open("/dev/userfaultfd")
        && let Some(faults) = open_with_device(&device, flags)
    {
        return Ok((faults, false));
    }
    // SAFETY: as above.
    match unsafe { rustix::mm::userfaultfd(flags | USER_MODE_ONLY) } {
        Ok(faults) => Ok((faults, true)),
        Err(Errno::PERM) => Err(Unavailable::Forbidden),
        Err(errno) => Err(OsError::new("open userfaultfd", errno).into()),
    }
}

fn open_with_device(device: &File, flags: UserfaultfdFlags) -> Option<OwnedFd> {
    // SAFETY: the operation takes flags by value and returns a new descriptor, which nothing else owns.
    let raw = unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(device), NEW as _, flags.bits()) };
    // SAFETY: as above.
    (raw >= 0).then(|| unsafe { OwnedFd::from_raw_fd(raw) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::event::{Interest, poll};
    use crate::time::Deadline;

    /// Creates the memory for a test; reports if the kernel does not support it.
    fn create(address: usize, pages: u32) -> Option<PagedMemory> {
        match PagedMemory::create(address, pages) {
            Ok(memory) => Some(memory),
            Err(error @ (Unavailable::NoSystemCall | Unavailable::Forbidden | Unavailable::Lacks(_))) => {
                crate::report_unsupported(&format!("memory with pages of its own: {error}"));
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn fault(memory: &PagedMemory) -> PageFault {
        let soon = Some(Deadline::after(Duration::from_secs(10)));
        assert!(poll(&[(memory.as_fd(), Interest::Read)], soon).unwrap()[0].readable, "no fault");
        memory.next_fault().unwrap().expect("a fault")
    }

    #[test]
    fn threads_stop_until_their_page_is_there() {
        let Some(paged) = create(0x2100_0000_0000, 4) else { return };
        let (memory, words) = (paged.memory(), paged.page_bytes() / 8);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| memory.load_le(words + 1, Ordering::Relaxed));
            assert_eq!(fault(&paged), PageFault { page: 1, offset_bytes: 8, writes: false });
            let mut content = vec![0; paged.page_bytes()];
            content[8] = 77;
            paged.copy_in(1, &content).unwrap();
            paged.map(1, false).unwrap();
            assert_eq!(reader.join().unwrap(), 77);
            // It may not be written to.
            let writer = scope.spawn(|| memory.store_le(words + 1, 78, Ordering::Relaxed));
            assert_eq!(fault(&paged), PageFault { page: 1, offset_bytes: 8, writes: true });
            paged.copy_out(1, &mut content).unwrap();
            assert_eq!(content[8], 77);
            paged.unprotect(1).unwrap();
            writer.join().unwrap();
            // Protected again, and taken away.
            paged.protect(1).unwrap();
            let writer = scope.spawn(|| memory.store_le(words + 1, 79, Ordering::Relaxed));
            assert_eq!(fault(&paged), PageFault { page: 1, offset_bytes: 8, writes: true });
            paged.unmap(1).unwrap();
            paged.copy_out(1, &mut content).unwrap();
            assert_eq!(content[8], 78);
            content[8] = 100;
            paged.copy_in(1, &content).unwrap();
            paged.map(1, true).unwrap();
            writer.join().unwrap();
            assert_eq!(memory.load_le(words + 1, Ordering::Relaxed), 79);
            // A page that was never filled is zero.
            let writer = scope.spawn(|| memory.words()[3 * words].fetch_add(5, Ordering::Relaxed));
            assert_eq!(fault(&paged), PageFault { page: 3, offset_bytes: 0, writes: true });
            paged.map(3, true).unwrap();
            assert_eq!(writer.join().unwrap(), 0);
            // Mapping it twice does nothing.
            paged.map(3, true).unwrap();
        });
        assert_eq!(paged.next_fault().unwrap(), None);
        assert!(paged.copy_in(4, &vec![0; paged.page_bytes()]).is_err());
    }

    #[test]
    fn bytes_are_merged_while_others_are_written() {
        let Some(paged) = create(0x2700_0000_0000, 2) else { return };
        let (memory, words) = (paged.memory(), paged.page_bytes() / 8);
        paged.map(1, true).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=1000_u64 {
                    memory.words()[words].fetch_add(1 << 8, Ordering::Relaxed);
                    memory.words()[words + 7].store(number, Ordering::Relaxed);
                }
            });
            for number in 1..=200_u8 {
                let mut line = [number; 64];
                line[1] = 99;
                paged.merge(1, 0, 0b1 | 0xff << 8, &line).unwrap();
            }
        });
        assert_eq!(memory.load_le(words, Ordering::Relaxed), 200 | 1000 << 8);
        assert_eq!(memory.load_le(words + 1, Ordering::Relaxed), u64::from_le_bytes([200; 8]));
        assert_eq!(memory.load_le(words + 7, Ordering::Relaxed), 1000);
        let end = paged.page_bytes();
        assert!(paged.merge(1, end - 8, 0xff, &[1; 64]).is_ok());
        for (page, offset_bytes, mask) in [(2, 0, 1), (1, 4, 1), (1, end, 1), (1, end - 8, 1 << 8)] {
            assert!(paged.merge(page, offset_bytes, mask, &[1; 64]).is_err(), "{page} {offset_bytes}");
        }
    }

    #[test]
    fn ranges_that_are_taken_are_refused() {
        let Some(paged) = create(0x2200_0000_0000, 2) else { return };
        let (address, page_bytes) = (paged.address(), paged.page_bytes());
        for wrong in [address, address + page_bytes, 0, address + 2 * page_bytes + 1] {
            let refused = PagedMemory::create(wrong, 2).map(drop);
            assert!(matches!(refused, Err(Unavailable::Taken { .. })), "{wrong:#x}: {refused:?}");
        }
        drop(paged);
        assert!(PagedMemory::create(address, 2).is_ok());
    }

    /// Runs a single test of this program in a separate process. Returns the signal that ended it.
    fn end_of_child(test: &str, variable: &str) -> Option<i32> {
        let own = std::env::current_exe().unwrap();
        let test = format!("memory::paged::tests::{test}");
        let child =
            std::process::Command::new(own).args(["--exact", &test]).env(variable, "1").output().unwrap();
        std::os::unix::process::ExitStatusExt::signal(&child.status)
    }

    #[test]
    fn revoked_range_kills_waiting_process() {
        const CHILD: &str = "TOMBOLO_TEST_REVOKED";
        if std::env::var_os(CHILD).is_some() {
            let paged = create(0x2500_0000_0000, 2).expect("as before");
            let memory = paged.memory();
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| memory.load_le(0, Ordering::Relaxed));
                fault(&paged);
                paged.revoke().unwrap();
                let _ = reader.join();
            });
            std::process::exit(0);
        }
        if create(0x2600_0000_0000, 1).is_some() {
            let signal = end_of_child("revoked_range_kills_waiting_process", CHILD);
            assert_eq!(signal, Some(libc::SIGSEGV));
        }
    }

    #[test]
    fn poisoned_page_kills_accessing_process() {
        const CHILD: &str = "TOMBOLO_TEST_POISONED";
        if std::env::var_os(CHILD).is_some() {
            let paged = create(0x2300_0000_0000, 2).expect("as before");
            let memory = paged.memory();
            // One that was mapped and protected before.
            paged.map(1, true).unwrap();
            paged.protect(1).unwrap();
            paged.unmap(1).unwrap();
            paged.poison(1).unwrap();
            std::process::exit(memory.load_le(paged.page_bytes() / 8, Ordering::Relaxed) as i32);
        }
        if create(0x2400_0000_0000, 1).is_none() {
            return;
        }
        let signal = end_of_child("poisoned_page_kills_accessing_process", CHILD);
        assert!(matches!(signal, Some(libc::SIGBUS | libc::SIGSEGV)), "{signal:?}");
    }
}
