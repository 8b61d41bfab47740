//! Moves memory of a program into a file, transparently, so that other programs can map it.
//!
//! Memory from `malloc` or in an array cannot be mapped by others. This replaces its pages in place with
//! pages of a memory file that hold the same bytes. From then on any program that maps the file reads and
//! writes the program's memory.

use core::ffi::c_void;
use core::ops::Range;
use std::io::BufRead;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, opcode};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, UserfaultfdFlags};

use crate::error::{Context, OsError};

/// `struct uffdio_api`.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    start: u64,
    length_bytes: u64,
    mode: u64,
    ioctls: u64,
}

/// `UFFD_USER_MODE_ONLY` (Linux 5.11).
const USER_MODE_ONLY: UserfaultfdFlags = UserfaultfdFlags::from_bits_retain(1);
/// `MREMAP_DONTUNMAP` (Linux 5.7), which rustix does not have for every processor.
const DONTUNMAP: MremapFlags = MremapFlags::from_bits_retain(4);
const API_VERSION: u64 = 0xaa;
const MODE_MISSING: u64 = 1;
const API: Opcode = opcode::read_write::<Api>(0xaa, 0x3f);
const REGISTER: Opcode = opcode::read_write::<Register>(0xaa, 0);

/// Replaces `length_bytes` of private memory at `address` with that part of `file` from `offset_bytes` on,
/// which then holds the same bytes. All three are multiples of the page size.
///
/// Threads of this process that access the memory meanwhile are blocked until it is done (userfaultfd), so
/// no store is lost. A system call of another thread that accesses it at that moment may fail with
/// `EFAULT`, where the kernel lets programs block only user-mode accesses. Afterwards the memory is shared
/// with forked children instead of copied.
///
/// # Errors
/// `EINVAL` when the range is not whole pages, or not within one mapping of private, anonymous,
/// writable memory. `EBUSY` when the caller's stack lies in that mapping. `ENOSYS` or `EPERM` without
/// userfaultfd, as under user-mode emulation; or another error of the kernel. The memory is unchanged.
///
/// # Safety
/// The range must be the program's to give away: it is mapped, stays so, and nothing relies on its being
/// private. The bytes of the file must not be in use by anyone else yet, and its size must be sealed.
pub unsafe fn replace_private(
    address: *mut u8,
    length_bytes: usize,
    file: impl AsFd,
    offset_bytes: u64,
) -> Result<(), OsError> {
    const WHAT: &str = "move memory of this program into a region";
    let page_bytes = rustix::param::page_size();
    let aligned = address.addr().is_multiple_of(page_bytes)
        && length_bytes.is_multiple_of(page_bytes)
        && length_bytes > 0;
    if !aligned {
        return Err(OsError::new(WHAT, Errno::INVAL));
    }
    let on_stack = 0u8;
    let maps = std::io::BufReader::new(std::fs::File::open("/proc/self/maps").context(WHAT)?);
    let whole = find_private_mapping(maps, address.addr(), length_bytes)
        .context(WHAT)?
        .ok_or_else(|| OsError::new(WHAT, Errno::INVAL))?;
    // This thread must not block itself.
    if whole.contains(&(&raw const on_stack).addr()) {
        return Err(OsError::new(WHAT, Errno::BUSY));
    }
    let userfaultfd = open_userfaultfd(address, length_bytes).context(WHAT)?;
    // A signal handler that touched the memory would block this thread forever.
    let signals = SignalsBlocked::all();
    // From here to the closing of `userfaultfd` nothing is allocated or freed: the heap itself may be moved.
    // SAFETY: by this function's contract, and checked: one mapping of private memory, without this thread's
    // stack.
    let outcome = unsafe { replace_pages(address.cast(), length_bytes, &file.as_fd(), offset_bytes) };
    // Blocked threads retry, and find the file or the old pages.
    drop(userfaultfd);
    drop(signals);
    outcome.context(WHAT)
}

/// Returns whether all of a range of this process maps `file` from `offset_bytes` on, shared and writable.
///
/// A page of the file, mapped temporarily, shows how the kernel lists it: for a device, such as the window
/// of a virtual machine, the offset is its position on the bus.
#[must_use]
pub fn is_mapped(address: usize, length_bytes: usize, file: impl AsFd, offset_bytes: u64) -> bool {
    let lookup = || {
        let end = address.checked_add(length_bytes)?;
        let sample = MappedPage::of(file, offset_bytes).ok()?;
        let maps = std::io::BufReader::new(std::fs::File::open("/proc/self/maps").ok()?);
        let lines: Vec<SharedMapping> =
            maps.lines().map_while(Result::ok).filter_map(|line| SharedMapping::of(&line)).collect();
        let at = |address: usize| lines.iter().find(|mapping| mapping.range.contains(&address));
        let (wanted, known) = (at(address)?, at(sample.address.addr())?);
        let same = wanted.file == known.file
            && wanted.offset_of(address)? == known.offset_of(sample.address.addr())?;
        (same && end <= wanted.range.end).then_some(())
    };
    lookup().is_some()
}

/// A page of a file, mapped for the lifetime of this value.
struct MappedPage {
    address: *mut c_void,
    length_bytes: usize,
}

impl MappedPage {
    fn of(file: impl AsFd, offset_bytes: u64) -> rustix::io::Result<MappedPage> {
        let length_bytes = rustix::param::page_size();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh range that the kernel chooses and no code reads or writes.
        let address = unsafe {
            rustix::mm::mmap(
                core::ptr::null_mut(),
                length_bytes,
                protection,
                MapFlags::SHARED,
                file,
                offset_bytes,
            )
        }?;
        Ok(MappedPage { address, length_bytes })
    }
}

impl Drop for MappedPage {
    fn drop(&mut self) {
        // SAFETY: the range of `of`, whose address no other code has. On failure an unused page stays
        // mapped.
        let _ = unsafe { rustix::mm::munmap(self.address, self.length_bytes) };
    }
}

/// A mapping that the kernel lists as shared and writable.
struct SharedMapping {
    range: Range<usize>,
    /// Offset in the file as listed by the kernel.
    offset: u64,
    /// Device and inode.
    file: (String, u64),
}

impl SharedMapping {
    /// Parses a line of the list; `None` if it is not such a mapping.
    fn of(line: &str) -> Option<SharedMapping> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        if words.next()? != "rw-s" {
            return None;
        }
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        let file = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        Some(SharedMapping { range, offset, file })
    }

    /// Returns the offset in the file for an address in the range.
    fn offset_of(&self, address: usize) -> Option<u64> {
        self.offset.checked_add(address.checked_sub(self.range.start)? as u64)
    }
}

/// Returns the mapping of private, anonymous, writable memory that contains the whole range.
///
/// Reads line by line into one buffer: growing a string to the whole list would change the list itself.
fn find_private_mapping(
    mut maps: impl BufRead,
    start: usize,
    length_bytes: usize,
) -> std::io::Result<Option<Range<usize>>> {
    let Some(end) = start.checked_add(length_bytes) else { return Ok(None) };
    let mut line = String::with_capacity(256);
    while maps.read_line(&mut line)? > 0 {
        if let Some(mapping) =
            private_range(&line).filter(|mapping| mapping.start <= start && end <= mapping.end)
        {
            return Ok(Some(mapping));
        }
        line.clear();
    }
    Ok(None)
}

/// Returns the range of a line of the list that is private, anonymous and writable.
fn private_range(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let private = words.next()? == "rw-p";
    let anonymous = words.nth(2)? == "0";
    // A stack grows on access, which the file would not.
    let stack = words.next() == Some("[stack]");
    let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    (private && anonymous && !stack).then_some(range)
}

/// Blocks every access to the range while it has no pages.
fn open_userfaultfd(address: *mut u8, length_bytes: usize) -> rustix::io::Result<OwnedFd> {
    let flags = UserfaultfdFlags::CLOEXEC;
    // SAFETY: it is registered for this one range, and closed before the caller's memory is used again.
    let all = unsafe { rustix::mm::userfaultfd(flags) };
    let userfaultfd = match all {
        // Unprivileged users may not block the kernel's own accesses.
        // SAFETY: as above.
        Err(Errno::PERM) => unsafe { rustix::mm::userfaultfd(flags | USER_MODE_ONLY) },
        all => all,
    }?;
    let mut api = Api { api: API_VERSION, features: 0, ioctls: 0 };
    let mut register = Register {
        start: address.addr() as u64,
        length_bytes: length_bytes as u64,
        mode: MODE_MISSING,
        ioctls: 0,
    };
    // SAFETY: the structures are those of the kernel's interface for these operations, and outlive the
    // calls.
    unsafe {
        rustix::ioctl::ioctl(&userfaultfd, Updater::<API, Api>::new(&mut api))?;
        rustix::ioctl::ioctl(&userfaultfd, Updater::<REGISTER, Register>::new(&mut register))?;
    }
    Ok(userfaultfd)
}

/// Removes the pages, copies their contents into the file, and maps that in their place.
///
/// # Safety
/// As [`replace_private`]; also, accesses to the range are blocked, and nothing that this thread uses lies
/// in it.
unsafe fn replace_pages(
    address: *mut c_void,
    length_bytes: usize,
    file: &impl AsFd,
    offset_bytes: u64,
) -> rustix::io::Result<()> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let shared = MapFlags::SHARED;
    // SAFETY: two fresh ranges that the kernel chooses, one for the file and one for the caller's pages,
    // which leave behind a range where accesses block. The copied length is the same in both, and no other
    // code has their addresses. Then the caller's range is mapped again, to one or the other.
    unsafe {
        let target =
            rustix::mm::mmap(core::ptr::null_mut(), length_bytes, protection, shared, file, offset_bytes)?;
        // The target address is given explicitly: without it the kernel uses whatever is in a register.
        let relocated = rustix::mm::mmap_anonymous(
            core::ptr::null_mut(),
            length_bytes,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )?;
        let leave = MremapFlags::MAYMOVE | DONTUNMAP;
        let moved = rustix::mm::mremap_fixed(address, length_bytes, length_bytes, leave, relocated);
        let outcome = moved.and_then(|_| {
            core::ptr::copy_nonoverlapping(relocated.cast::<u8>(), target.cast::<u8>(), length_bytes);
            let mapped = rustix::mm::mmap(
                address,
                length_bytes,
                protection,
                shared | MapFlags::FIXED,
                file,
                offset_bytes,
            );
            if mapped.is_err() {
                rustix::mm::mremap_fixed(
                    relocated,
                    length_bytes,
                    length_bytes,
                    MremapFlags::MAYMOVE,
                    address,
                )?;
            } else {
                rustix::mm::munmap(relocated, length_bytes)?;
            }
            mapped
        });
        if moved.is_err() {
            rustix::mm::munmap(relocated, length_bytes)?;
        }
        rustix::mm::munmap(target, length_bytes)?;
        outcome.map(|_| ())
    }
}

/// Blocks all signals of this thread while this value exists.
struct SignalsBlocked {
    before: libc::sigset_t,
}

impl SignalsBlocked {
    fn all() -> SignalsBlocked {
        // SAFETY: a signal set is plain data, filled by the first call; both outlive the calls.
        unsafe {
            let mut all: libc::sigset_t = core::mem::zeroed();
            let mut before: libc::sigset_t = core::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            SignalsBlocked { before }
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: a set that the kernel returned for this thread; the value is not sent to another.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, core::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;
    use crate::memory::{RegionOptions, create_region, map};

    /// Returns pages for this test, as from `malloc`.
    fn pages(length_bytes: usize) -> *mut u8 {
        // SAFETY: a fresh range that the kernel chooses.
        let address = unsafe {
            rustix::mm::mmap_anonymous(
                core::ptr::null_mut(),
                length_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        address.unwrap().cast()
    }

    /// Returns whether this kernel can block accesses; user-mode emulators cannot.
    fn holds(outcome: Result<(), OsError>) -> bool {
        match outcome {
            Ok(()) => true,
            Err(error) if matches!(error.errno, Errno::NOSYS | Errno::PERM) => {
                eprintln!("skipped: {error}");
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn region(length_bytes: u64) -> OwnedFd {
        create_region("tombolo-test", length_bytes, RegionOptions::default()).unwrap()
    }

    #[test]
    fn replaced_memory_is_shared_with_the_file() {
        let length_bytes = 64 << 10;
        let address = pages(length_bytes);
        // SAFETY: the range above is this test's.
        let bytes = unsafe { core::slice::from_raw_parts_mut(address, length_bytes) };
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = at as u8 ^ (at >> 8) as u8;
        }
        let expected = bytes.to_vec();
        let file = region(3 * length_bytes as u64);
        let offset = length_bytes as u64;
        // SAFETY: as above; the file is new.
        if !holds(unsafe { replace_private(address, length_bytes, &file, offset) }) {
            return;
        }
        assert_eq!(bytes, expected);
        let shared = map(&file, offset, length_bytes).unwrap();
        bytes[8..16].copy_from_slice(&77u64.to_le_bytes());
        assert_eq!(shared.load_le(1, Ordering::Relaxed), 77);
        shared.store_le(2, 78, Ordering::Relaxed);
        // SAFETY: as above; read again, as another program may have written.
        assert_eq!(unsafe { address.add(16).read_volatile() }, 78);
        assert!(is_mapped(address.addr(), length_bytes, &file, offset));
        assert!(is_mapped(address.addr() + 4096, 4096, &file, offset + 4096));
        for (start, length, from) in
            [(0, length_bytes, 0), (4096, length_bytes, offset + 4096), (0, 1, offset + 1)]
        {
            assert!(!is_mapped(address.addr() + start, length, &file, from), "{start} {length} {from}");
        }
        let other = region(3 * offset);
        assert!(!is_mapped(address.addr(), length_bytes, &other, offset));
        // The second time the memory is no longer private.
        // SAFETY: as above.
        let again = unsafe { replace_private(address, length_bytes, region(length_bytes as u64), 0) };
        assert_eq!(again.unwrap_err().errno, Errno::INVAL);
    }

    #[test]
    fn no_store_of_another_thread_is_lost() {
        let length_bytes = 4 << 20;
        let address = pages(length_bytes).expose_provenance();
        let stop = AtomicBool::new(false);
        let word = |at: usize| -> &AtomicU64 {
            // SAFETY: an aligned word of the range above, which stays mapped.
            unsafe { &*core::ptr::with_exposed_provenance::<AtomicU64>(address + at) }
        };
        std::thread::scope(|scope| {
            let (stop, word) = (&stop, &word);
            let counters: Vec<_> = [0, length_bytes / 2, length_bytes - 8]
                .map(|at| {
                    scope.spawn(move || {
                        let mut count = 0;
                        while !stop.load(Ordering::Relaxed) {
                            word(at).fetch_add(1, Ordering::Relaxed);
                            count += 1;
                        }
                        (at, count)
                    })
                })
                .into();
            let mut outcomes = Vec::new();
            for piece in 0..4 {
                std::thread::sleep(std::time::Duration::from_millis(5));
                let part = length_bytes / 4;
                let start = core::ptr::with_exposed_provenance_mut(address + piece * part);
                // SAFETY: a part of the range above, in atomic words; the file is new.
                outcomes.push(unsafe { replace_private(start, part, region(part as u64), 0) });
            }
            // Before any assertion, or the threads would count forever.
            stop.store(true, Ordering::Relaxed);
            let done = outcomes.into_iter().all(holds);
            for counter in counters {
                let (at, count) = counter.join().unwrap();
                assert_eq!(word(at).load(Ordering::Relaxed), count, "at {at}, replaced: {done}");
            }
        });
    }

    #[test]
    fn other_memory_than_private_is_refused_unchanged() {
        let file = region(8192);
        let local = [0u8; 16384];
        let page = local.as_ptr().addr().next_multiple_of(4096);
        let shared = create_region("tombolo-test", 8192, RegionOptions::default()).unwrap();
        // SAFETY: a fresh range that the kernel chooses.
        let mapped = unsafe {
            rustix::mm::mmap(
                core::ptr::null_mut(),
                8192,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &shared,
                0,
            )
        }
        .unwrap();
        let fresh = pages(8192);
        for (address, length_bytes, errnos) in [
            (core::ptr::with_exposed_provenance_mut(page), 4096, &[Errno::BUSY, Errno::INVAL][..]),
            (mapped.cast(), 8192, &[Errno::INVAL]),
            (fresh.wrapping_add(1), 4096, &[Errno::INVAL]),
            (fresh, 100, &[Errno::INVAL]),
            (fresh, 0, &[Errno::INVAL]),
            (core::ptr::null_mut(), 4096, &[Errno::INVAL]),
        ] {
            // SAFETY: each is refused before anything is touched, which is what this shows.
            let refused = unsafe { replace_private(address, length_bytes, &file, 0) }.unwrap_err();
            assert!(errnos.contains(&refused.errno), "{refused}");
        }
        assert!(local.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_line_of_the_mapping_list_is_parsed() {
        let mapping = SharedMapping::of(
            "7f00-9f00 rw-s 8000100000 00:15 4711   /sys/bus/pci/devices/0000:00:02.0/resource2",
        )
        .unwrap();
        assert_eq!(
            (mapping.range.clone(), mapping.file.clone()),
            (0x7f00..0x9f00, ("00:15".to_owned(), 4711))
        );
        assert_eq!((mapping.offset_of(0x8000), mapping.offset_of(0x7eff)), (Some(0x80_0010_0100), None));
        for line in [
            "",
            "1000-2000 rw-p 0 00:00 0",
            "1000-2000 r--s 0 00:01 7",
            "1000-2000 rw-s x 00:01 7",
            "1000-2000 rw-s 0 00:01",
        ] {
            assert!(SharedMapping::of(line).is_none(), "{line}");
        }
    }

    #[test]
    fn private_mapping_is_found_in_maps() {
        let maps = "1000-3000 rw-p 00000000 00:00 0 \n3000-5000 r--p 00000000 00:00 0\n\
                    7000-9000 rw-p 00000000 00:00 0                          [heap]\n\
                    a000-b000 rw-p 00000000 08:01 42 /lib/x\nc000-d000 rw-s 00000000 00:01 7 /memfd:x\n\
                    e000-f000 rw-p 00000000 00:00 0 [stack]\nbroken line\n";
        assert_eq!(find_private_mapping(maps.as_bytes(), 0x1000, 0x1000).unwrap(), Some(0x1000..0x3000));
        assert_eq!(find_private_mapping(maps.as_bytes(), 0x7000, 0x2000).unwrap(), Some(0x7000..0x9000));
        for (start, length_bytes) in [
            (0x2000, 0x2000),
            (0x3000, 0x1000),
            (0xa000, 0x1000),
            (0xc000, 0x1000),
            (0xe000, 0x1000),
            (0x5000, 1),
            (usize::MAX, 2),
        ] {
            assert_eq!(
                find_private_mapping(maps.as_bytes(), start, length_bytes).unwrap(),
                None,
                "{start:x}"
            );
        }
    }
}
