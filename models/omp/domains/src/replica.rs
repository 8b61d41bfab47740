//! Replicas of read-only data in a process's own memory: reading shared memory behind a window takes a
//! hundred times as long.
//!
//! Whole pages in the range are replaced at their addresses by private pages with the same contents. The copy
//! is made elsewhere and moved over the original by the kernel in one step, so concurrent readers see the
//! same bytes.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use tombolo_omp_team::job::fault;
use tombolo_omp_team::primitives::sys;
use tombolo_omp_team::team::thread::Thread;

use crate::memory::Mapped;
use crate::request::{self, RequestKind};

/// Replicates data on all nodes behind the window, or shares it again, and waits for completion. Returns 0 or
/// an errno value.
pub fn request(me: &'static Thread, begin: usize, bytes: usize, restore: bool) -> i32 {
    let kind = if restore { RequestKind::Restore } else { RequestKind::Replicate };
    request::send_and_wait(me, kind, [begin as u64, bytes as u64, 0, 0]).0
}

/// Replaces pages of this process by replicas, or shares them again. Returns 0 or an errno value.
pub(crate) fn apply(mapped: &Mapped, begin: u64, bytes: u64, restore: bool) -> u32 {
    let Some((first, length)) = pages(begin, bytes, page_bytes()) else { return 0 };
    // SAFETY: whole pages of the job's shared memory, which the program promises not to write to.
    let done =
        unsafe { if restore { mapped.restore_mapping(first, length) } else { replace(first, length) } };
    match done {
        Ok(()) if restore => remove_ranges(first, length),
        Ok(()) => add_range(first, length),
        Err(error) => return error.raw_os_error().unwrap_or(22).cast_unsigned(),
    }
    0
}

fn page_bytes() -> usize {
    // SAFETY: the call has no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Returns the address and length of the whole pages within a range; `None` if it contains none.
fn pages(begin: u64, bytes: u64, page_bytes: usize) -> Option<(usize, usize)> {
    let (begin, bytes) = (usize::try_from(begin).ok()?, usize::try_from(bytes).ok()?);
    let first = begin.checked_next_multiple_of(page_bytes)?;
    let end = begin.checked_add(bytes)? & !(page_bytes - 1);
    (first < end).then(|| (first, end - first))
}

/// # Safety
/// The range is of whole pages that are mapped and not written to.
unsafe fn replace(first: usize, length: usize) -> std::io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the new mapping is not shared until it is filled, and replaces pages with the same contents.
    unsafe {
        let copy = libc::mmap(ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if copy == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        ptr::copy_nonoverlapping(first as *const u8, copy.cast::<u8>(), length);
        let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        if libc::mprotect(copy, length, libc::PROT_READ) != 0
            || libc::mremap(copy, length, length, how, first as *mut libc::c_void) == libc::MAP_FAILED
        {
            let error = std::io::Error::last_os_error();
            libc::munmap(copy, length);
            return Err(error);
        }
    }
    Ok(())
}

/// Number of ranges remembered for the message about a write to replicated data; a write to any further range
/// gets the usual message.
const RANGES_MAX: usize = 64;
static RANGES: [(AtomicUsize, AtomicUsize); RANGES_MAX] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; RANGES_MAX];

fn add_range(first: usize, length: usize) {
    fault::set_explainer(explain_fault);
    if let Some((begin, end)) = RANGES.iter().find(|(_, end)| end.load(Ordering::Relaxed) == 0) {
        begin.store(first, Ordering::Relaxed);
        end.store(first + length, Ordering::Release);
    }
}

fn remove_ranges(first: usize, length: usize) {
    for (begin, end) in &RANGES {
        if begin.load(Ordering::Relaxed) >= first && end.load(Ordering::Relaxed) <= first + length {
            end.store(0, Ordering::Release);
        }
    }
}

/// Explains a fault if it was a write to replicated data; returns whether it was.
fn explain_fault(address: usize) -> bool {
    let holds = |(begin, end): &(AtomicUsize, AtomicUsize)| {
        (begin.load(Ordering::Relaxed)..end.load(Ordering::Acquire)).contains(&address)
    };
    let found = RANGES.iter().any(holds);
    if found {
        sys::print_error(
            "tombolo omp: the program writes to data that tombolo_omp_replicate has made read-only on this node; \
             tombolo_omp_restore has it shared again\n",
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_pages_are_left_out() {
        assert_eq!(pages(4096, 8192, 4096), Some((4096, 8192)));
        assert_eq!(pages(4095, 8192, 4096), Some((4096, 4096)));
        assert_eq!(pages(4097, 8192, 4096), Some((8192, 4096)));
        assert_eq!(pages(1, 4096, 4096), None);
        assert_eq!(pages(0, 0, 4096), None);
        assert_eq!(pages(u64::MAX - 10, 4096, 4096), None);
    }

    #[test]
    fn pages_are_replaced_in_place() {
        let page_bytes = page_bytes();
        let memory = sys::reserve(4 * page_bytes).unwrap();
        // SAFETY: fresh memory of that size, and only this test's.
        unsafe {
            for at in 0..4 * page_bytes {
                memory.add(at).write(u8::try_from(at % 251).unwrap());
            }
            replace(memory as usize + page_bytes, 2 * page_bytes).unwrap();
            assert!((0..4 * page_bytes).all(|at| memory.add(at).read() == u8::try_from(at % 251).unwrap()));
            memory.write(1);
            memory.add(3 * page_bytes).write(1);
        }
    }
}
