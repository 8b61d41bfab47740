//! A mapping that can be revoked while it is in use.
//!
//! The lender of the memory hangs up a lifeline; each process that has it mapped then replaces its pages in
//! place with private pages of zeros, so that no access faults and none reaches the lender's memory. Accesses
//! check afterwards whether the memory was revoked.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use tombolo_base::SharedMemory;
use tombolo_base::memory::OutOfRange;
use tombolo_base::sync::{AtomicBool, Ordering, fence};

use crate::copy::{self, CopyError, CopyLoop};
use crate::error::{Context, OsError};
use crate::event::{Interest, poll};
use crate::lock::lock_unpoisoned;
use crate::time::Deadline;

/// Options of mapping memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MapOptions {
    /// Whether to map the memory for writing too.
    pub writable: bool,
    /// Exact address, which must be free; any address if `None`. A multiple of the page size.
    pub address: Option<usize>,
    /// Alignment in bytes, a power of two; 0 for page alignment. Not together with an address.
    pub alignment_bytes: usize,
    /// Whether to allocate all pages at once instead of on first use.
    pub populate: bool,
}

/// Foreign memory that is mapped until it is dropped or revoked.
pub struct RevocableMapping {
    address: NonNull<c_void>,
    length_bytes: usize,
    writable: bool,
    released: AtomicBool,
    // Dropped in this order, after the memory itself.
    lifeline: Mutex<Option<OwnedFd>>,
    companion: Mutex<Option<Box<dyn Any + Send + Sync>>>,
}

// SAFETY: a mapping belongs to the process, not to a thread, and all access through this is atomic.
unsafe impl Send for RevocableMapping {}
// SAFETY: as above; what is not atomic is behind locks.
unsafe impl Sync for RevocableMapping {}

impl std::fmt::Debug for RevocableMapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Revocable({} bytes at {:p})", self.length_bytes, self.address)
    }
}

impl RevocableMapping {
    /// Maps `length_bytes` of `file` at `offset_bytes`, both multiples of the page size, until `lifeline`
    /// is hung up. The size of the file must not shrink: it is sealed (see
    /// [`check_sealed`](super::check_sealed)), or it is a PCI BAR.
    ///
    /// # Errors
    /// An error of the kernel: `EEXIST` when something is mapped at the address given; `EINVAL` for an
    /// invalid alignment, or for one together with an address.
    pub fn map(
        file: impl AsFd,
        offset_bytes: u64,
        length_bytes: usize,
        options: MapOptions,
        lifeline: OwnedFd,
    ) -> Result<Arc<RevocableMapping>, OsError> {
        let mut reserved = Reserved::aligned(length_bytes, options)?;
        let mut flags = MapFlags::SHARED;
        flags.set(MapFlags::FIXED_NOREPLACE, options.address.is_some());
        flags.set(MapFlags::FIXED, reserved.is_some());
        flags.set(MapFlags::POPULATE, options.populate);
        let hint = match &reserved {
            Some(reserved) => reserved.address,
            None => core::ptr::without_provenance_mut(options.address.unwrap_or(0)),
        };
        let protection = Self::protection(options.writable);
        // SAFETY: without an address the kernel chooses a fresh range, with one it refuses to replace a
        // mapping, and no code uses the reserved range: no existing mapping is touched.
        let address = unsafe { rustix::mm::mmap(hint, length_bytes, protection, flags, &file, offset_bytes) }
            .context("map memory of a region")?;
        // The reserved range now belongs to this mapping.
        reserved.iter_mut().for_each(|reserved| reserved.length_bytes = 0);
        let address =
            NonNull::new(address).ok_or_else(|| OsError::new("map memory of a region", Errno::FAULT))?;
        Ok(Arc::new(RevocableMapping {
            address,
            length_bytes,
            writable: options.writable,
            released: AtomicBool::new(false),
            lifeline: Mutex::new(Some(lifeline)),
            companion: Mutex::new(None),
        }))
    }

    fn protection(writable: bool) -> ProtFlags {
        if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ }
    }

    /// Keeps an object alive until the memory is unmapped.
    pub fn keep(&self, companion: Box<dyn Any + Send + Sync>) {
        *lock_unpoisoned(&self.companion) = Some(companion);
    }

    /// Calls `use_lifeline` with the lifeline, if it is still open.
    pub fn with_lifeline<T>(&self, use_lifeline: impl FnOnce(&OwnedFd) -> T) -> Option<T> {
        lock_unpoisoned(&self.lifeline).as_ref().map(use_lifeline)
    }

    /// Releases the memory if its lifeline was hung up. Returns whether the memory is released.
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub fn release_if_revoked(&self) -> Result<bool, OsError> {
        let is_revoked = self.with_lifeline(|lifeline| {
            poll(&[(lifeline.as_fd(), Interest::Read)], Some(Deadline::at_ns(0))).map(|ready| ready[0].any())
        });
        if is_revoked.transpose()?.unwrap_or(false) {
            self.release()?;
        }
        Ok(self.is_released())
    }

    /// Releases the memory: from now on it reads as private zeros. Then closes the lifeline to report the
    /// release.
    ///
    /// # Errors
    /// An error of the kernel; the memory is still mapped and the lifeline open.
    pub fn release(&self) -> Result<(), OsError> {
        let mut lifeline = lock_unpoisoned(&self.lifeline);
        if lifeline.is_none() {
            return Ok(());
        }
        // Set before the pages change: a thread that reads zeros of the new pages must see the flag.
        self.released.store(true, Ordering::SeqCst);
        // SAFETY: exactly the range that `map` created, which holds nothing else, is replaced as a whole.
        // Holders of pointers into it, or of its `SharedMemory`, access it as before: with the same
        // protection, atomically.
        unsafe {
            rustix::mm::mmap_anonymous(
                self.address.as_ptr(),
                self.length_bytes,
                Self::protection(self.writable),
                MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE,
            )
        }
        .context("release revoked memory")?;
        *lifeline = None;
        Ok(())
    }

    /// Returns whether the memory was released. Data read before this returned false was the lender's.
    #[must_use]
    pub fn is_released(&self) -> bool {
        // Orders earlier accesses before the load.
        fence(Ordering::SeqCst);
        self.released.load(Ordering::SeqCst)
    }

    /// Returns the length of the mapping, in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.length_bytes
    }

    /// Returns whether the memory is mapped for writing.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Returns the address of the mapping. Other processes may write there at any time, or read if it is
    /// writable.
    #[must_use]
    pub fn address(&self) -> NonNull<u8> {
        self.address.cast()
    }

    /// Returns the memory as words, if it is mapped for writing. Keeps the mapping alive.
    #[must_use]
    pub fn memory(self: &Arc<Self>) -> Option<SharedMemory> {
        // SAFETY: the range is mapped for reading and writing, page-aligned, and stays so while the owner
        // lives, even when it is released. All access in this process goes through `SharedMemory`, in
        // atomic words of 8 bytes, and through copies that the compiler does not analyse.
        self.writable
            .then(|| unsafe { SharedMemory::from_raw(self.address.cast(), self.length_bytes, self.clone()) })
    }

    fn check(&self, offset_bytes: usize, length_bytes: usize) -> Result<(), OutOfRange> {
        let available_bytes = self.length_bytes;
        match offset_bytes.checked_add(length_bytes) {
            Some(end) if end <= available_bytes => Ok(()),
            _ => Err(OutOfRange { offset_bytes, length_bytes, available_bytes }),
        }
    }

    /// Copies bytes out, loading each once.
    ///
    /// # Errors
    /// [`OutOfRange`]; `target` is unchanged.
    #[inline]
    pub fn read(&self, offset_bytes: usize, target: &mut [u8]) -> Result<(), OutOfRange> {
        self.check(offset_bytes, target.len())?;
        let source = self.address().as_ptr().wrapping_add(offset_bytes);
        // SAFETY: checked: the range lies inside the mapping, which exists as long as `self`, even when it
        // is released. A slice of this program lies elsewhere.
        unsafe { copy::read_at(source, target) };
        Ok(())
    }

    /// Copies `length_bytes` from `offset_bytes` of this mapping to other shared memory. Does not require
    /// write access here.
    ///
    /// # Errors
    /// A range lies outside, or the two overlap; nothing was written.
    pub fn copy_to(
        &self,
        copy_loop: CopyLoop,
        offset_bytes: usize,
        target: (&SharedMemory, usize),
        length_bytes: usize,
    ) -> Result<(), CopyError> {
        self.can_copy(offset_bytes, length_bytes)?;
        let source = self.address().as_ptr().wrapping_add(offset_bytes);
        // SAFETY: checked: the range lies inside the mapping, which exists as long as `self`, even when it
        // is released.
        unsafe { copy::from_address(copy_loop, source, target, length_bytes) }
    }

    /// Checks that a range lies inside.
    ///
    /// # Errors
    /// [`CopyError::OutOfRange`] if it does not.
    pub fn can_copy(&self, offset_bytes: usize, length_bytes: usize) -> Result<(), CopyError> {
        let outside = |out: OutOfRange| CopyError::OutOfRange {
            offset_bytes,
            length_bytes,
            available_bytes: out.available_bytes,
        };
        self.check(offset_bytes, length_bytes).map_err(outside)
    }

    /// Copies bytes in, without touching adjacent ones.
    ///
    /// # Errors
    /// [`OutOfRange`], also if the memory is not mapped for writing; nothing was written.
    #[inline]
    pub fn write(&self, offset_bytes: usize, source: &[u8]) -> Result<(), OutOfRange> {
        self.check(offset_bytes, source.len())?;
        if !self.writable {
            let length_bytes = source.len();
            return Err(OutOfRange { offset_bytes, length_bytes, available_bytes: 0 });
        }
        let target = self.address().as_ptr().wrapping_add(offset_bytes);
        // SAFETY: as above, and it is mapped for writing.
        unsafe { copy::write_at(target, source) };
        Ok(())
    }
}

/// A reserved range of unused addresses.
struct Reserved {
    address: *mut c_void,
    length_bytes: usize,
}

impl Reserved {
    /// Reserves an aligned range for a mapping, if the kernel does not guarantee the alignment itself.
    fn aligned(length_bytes: usize, options: MapOptions) -> Result<Option<Reserved>, OsError> {
        let alignment_bytes = options.alignment_bytes;
        let page_bytes = rustix::param::page_size();
        if alignment_bytes == 0 {
            return Ok(None);
        }
        if !alignment_bytes.is_power_of_two() || options.address.is_some() {
            return Err(OsError::new("align memory of a region", Errno::INVAL));
        }
        if alignment_bytes <= page_bytes {
            return Ok(None);
        }
        let whole_bytes = length_bytes
            .checked_next_multiple_of(page_bytes)
            .and_then(|length_bytes| length_bytes.checked_add(alignment_bytes))
            .ok_or_else(|| OsError::new("align memory of a region", Errno::NOMEM))?;
        // SAFETY: a fresh range that the kernel chooses.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                core::ptr::null_mut(),
                whole_bytes,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .context("align memory of a region")?;
        let before_bytes = start.addr().next_multiple_of(alignment_bytes) - start.addr();
        let kept_bytes = whole_bytes - alignment_bytes;
        let reserved = Reserved { address: start.wrapping_byte_add(before_bytes), length_bytes: kept_bytes };
        for (address, length_bytes) in [
            (start, before_bytes),
            (reserved.address.wrapping_byte_add(kept_bytes), alignment_bytes - before_bytes),
        ] {
            if length_bytes > 0 {
                // SAFETY: a part of the range above that is not needed.
                unsafe { rustix::mm::munmap(address, length_bytes) }.context("align memory of a region")?;
            }
        }
        Ok(Some(reserved))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.length_bytes > 0 {
            // SAFETY: exactly the range that `aligned` kept and did not hand out.
            let _ = unsafe { rustix::mm::munmap(self.address, self.length_bytes) };
        }
    }
}

impl Drop for RevocableMapping {
    fn drop(&mut self) {
        // SAFETY: `map` created exactly this range, and whatever points into it keeps this alive.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr(), self.length_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{RegionOptions, create_region, open_read_only};
    use crate::socket;

    fn mapped(options: MapOptions) -> (Arc<RevocableMapping>, OwnedFd, OwnedFd) {
        let file = create_region("tombolo-test", 8192, RegionOptions::default()).unwrap();
        let (ours, theirs) = socket::pair(socket::SocketKind::Stream).unwrap();
        (RevocableMapping::map(&file, 0, 8192, options, theirs).unwrap(), file, ours)
    }

    const WRITABLE: MapOptions =
        MapOptions { writable: true, address: None, alignment_bytes: 0, populate: false };

    #[test]
    fn mapping_has_the_requested_alignment() {
        for shift in [0, 12, 13, 16, 21, 30] {
            let options = MapOptions { alignment_bytes: 1 << shift, ..WRITABLE };
            let (mapped, ..) = mapped(options);
            assert!(mapped.address().addr().get().is_multiple_of(1 << shift), "{mapped:?}");
            mapped.write(0, b"there").unwrap();
            // The reserved margins are freed.
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let start = mapped.address().addr().get();
            assert!(maps.contains(&format!("{start:x}-{:x} rw-s", start + 8192)), "{maps}");
            assert!(!maps.contains(&format!("-{start:x} ---p")), "{maps}");
            assert!(
                !maps.contains(&format!("\n{:x}-{:x} ---p", start + 8192, start + (1 << shift))),
                "{maps}"
            );
        }
        let file = create_region("tombolo-test", 8192, RegionOptions::default()).unwrap();
        let (_ours, theirs) = socket::pair(socket::SocketKind::Stream).unwrap();
        let odd = MapOptions { alignment_bytes: 3 << 12, ..WRITABLE };
        assert_eq!(RevocableMapping::map(&file, 0, 8192, odd, theirs).unwrap_err().errno, Errno::INVAL);
        let (_ours, theirs) = socket::pair(socket::SocketKind::Stream).unwrap();
        let huge = MapOptions { alignment_bytes: 1 << 63, ..WRITABLE };
        assert_eq!(RevocableMapping::map(&file, 0, 8192, huge, theirs).unwrap_err().errno, Errno::NOMEM);
    }

    #[test]
    fn refused_mapping_releases_its_reservation() {
        // A length that no other mapping of this process has.
        let length_bytes = 1013 * 4096;
        let is_reserved = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines().any(|line| {
                let (range, rest) = line.split_once(' ').unwrap();
                let (start, end) = range.split_once('-').unwrap();
                let [start, end] = [start, end].map(|address| usize::from_str_radix(address, 16).unwrap());
                end - start == length_bytes && rest.starts_with("---p")
            })
        };
        let aligned = MapOptions { alignment_bytes: 1 << 21, ..WRITABLE };
        let reserved = Reserved::aligned(length_bytes, aligned).unwrap();
        assert!(reserved.is_some() && is_reserved());
        drop(reserved);
        assert!(!is_reserved());
        let (ours, theirs) = socket::pair(socket::SocketKind::Stream).unwrap();
        assert!(
            RevocableMapping::map(&ours, 0, length_bytes, aligned, theirs).is_err(),
            "no socket can be mapped"
        );
        assert!(!is_reserved());
    }

    #[test]
    fn bytes_at_any_offset_come_back() {
        let (mapped, ..) = mapped(WRITABLE);
        let text: Vec<u8> = (0..100).collect();
        for offset in 0..17 {
            for length in 0..35 {
                mapped.write(40 + offset, &text[..length]).unwrap();
                let mut back = vec![0; length];
                mapped.read(40 + offset, &mut back).unwrap();
                assert_eq!(back, text[..length], "{offset}+{length}");
            }
        }
        for (offset, length, fits) in
            [(8191, 1, true), (8192, 0, true), (8192, 1, false), (usize::MAX, 2, false)]
        {
            assert_eq!(mapped.read(offset, &mut vec![0; length]).is_ok(), fits);
            assert_eq!(mapped.write(offset, &vec![1; length]).is_ok(), fits);
        }
    }

    #[test]
    fn writes_leave_adjacent_bytes_unchanged() {
        let (mapped, ..) = mapped(WRITABLE);
        mapped.write(0, &[7; 32]).unwrap();
        mapped.write(5, &[9; 14]).unwrap();
        let mut back = [0; 32];
        mapped.read(0, &mut back).unwrap();
        let expected: Vec<u8> = (0..32).map(|at| if (5..19).contains(&at) { 9 } else { 7 }).collect();
        assert_eq!(back[..], expected);
    }

    #[test]
    fn released_memory_is_private_zeros_and_its_lifeline_is_closed() {
        let (mapped, file, ours) = mapped(WRITABLE);
        let memory = mapped.memory().unwrap();
        mapped.write(8, b"theirs").unwrap();
        assert!(!mapped.release_if_revoked().unwrap());
        rustix::net::shutdown(&ours, rustix::net::Shutdown::Write).unwrap();
        assert!(mapped.release_if_revoked().unwrap() && mapped.is_released());
        let mut back = [1; 6];
        mapped.read(8, &mut back).unwrap();
        assert_eq!(back, [0; 6]);
        memory.store_le(0, 77, Ordering::Relaxed);
        let other = super::super::map(&file, 0, 8192).unwrap();
        other.copy_out(8, &mut back).unwrap();
        assert_eq!((&back, other.load_le(0, Ordering::Relaxed)), (b"theirs", 0));
        assert_eq!(rustix::io::read(&ours, &mut [0; 1]).unwrap(), 0, "the other end is closed");
        mapped.release().unwrap();
    }

    #[test]
    fn mapping_at_an_address_replaces_nothing() {
        let (first, file, _ours) = mapped(WRITABLE);
        let address = first.address().as_ptr() as usize;
        let at = MapOptions { address: Some(address), ..WRITABLE };
        let lifeline = || socket::pair(socket::SocketKind::Stream).unwrap().1;
        assert_eq!(RevocableMapping::map(&file, 0, 8192, at, lifeline()).unwrap_err().errno, Errno::EXIST);
        drop(first);
        let again = RevocableMapping::map(&file, 0, 8192, at, lifeline()).unwrap();
        assert_eq!(again.address().as_ptr() as usize, address);
    }

    #[test]
    fn read_only_mapping_cannot_be_written() {
        let file = create_region("tombolo-test", 4096, RegionOptions::default()).unwrap();
        let to_read = open_read_only(&file).unwrap();
        let lifeline = || socket::pair(socket::SocketKind::Stream).unwrap().1;
        let denied = RevocableMapping::map(&to_read, 0, 4096, WRITABLE, lifeline()).unwrap_err();
        assert_eq!(denied.errno, Errno::ACCESS);
        let mapped = RevocableMapping::map(&to_read, 0, 4096, MapOptions::default(), lifeline()).unwrap();
        assert!(mapped.memory().is_none() && mapped.write(0, &[1]).is_err());
        super::super::map(&file, 0, 4096).unwrap().store_le(1, 3, Ordering::Relaxed);
        let mut back = [0; 1];
        mapped.read(8, &mut back).unwrap();
        assert_eq!(back, [3]);
        mapped.release().unwrap();
        mapped.read(8, &mut back).unwrap();
        assert_eq!(back, [0]);
    }
    #[test]
    fn mapping_reports_its_options() {
        let (writable, ..) = mapped(WRITABLE);
        let (read_only, ..) = mapped(MapOptions::default());
        assert_eq!(
            (writable.length_bytes(), writable.is_writable(), writable.is_released()),
            (8192, true, false)
        );
        assert_eq!((read_only.length_bytes(), read_only.is_writable()), (8192, false));
        assert_eq!(writable.memory().map(|memory| memory.len_bytes()), Some(8192));
        assert_eq!(writable.with_lifeline(|_| 7), Some(7));
        writable.release().unwrap();
        assert!(writable.is_released() && !read_only.is_released());
        assert_eq!(writable.with_lifeline(|_| 7), None);
        assert!(writable.release_if_revoked().unwrap());
    }

    #[test]
    fn a_companion_lives_as_long_as_the_mapping() {
        let (mapped, ..) = mapped(WRITABLE);
        let companion = Arc::new(());
        mapped.keep(Box::new(Arc::clone(&companion)));
        mapped.release().unwrap();
        assert_eq!(Arc::strong_count(&companion), 2);
        let memory = mapped.memory();
        drop(mapped);
        assert_eq!(Arc::strong_count(&companion), 2, "a part of the memory is in use");
        drop(memory);
        assert_eq!(Arc::strong_count(&companion), 1);
    }

    #[test]
    fn address_and_alignment_exclude_each_other() {
        let file = create_region("tombolo-test", 4096, RegionOptions::default()).unwrap();
        let lifeline = || socket::pair(socket::SocketKind::Stream).unwrap().1;
        let both = MapOptions { address: Some(1 << 30), alignment_bytes: 1 << 16, ..WRITABLE };
        assert_eq!(RevocableMapping::map(&file, 0, 4096, both, lifeline()).unwrap_err().errno, Errno::INVAL);
        let beyond = MapOptions { alignment_bytes: 1 << 16, ..WRITABLE };
        assert_eq!(
            RevocableMapping::map(&file, 0, usize::MAX, beyond, lifeline()).unwrap_err().errno,
            Errno::NOMEM
        );
    }
}
