//! Device regions that run on the host, as all do in a job without other nodes: outside of the enclosing
//! regions, in a team of one. Data is already in place.

use std::ffi::c_void;
use std::ptr;

use tombolo_omp_team::device::one_thread_team;
use tombolo_omp_team::job::start;
use tombolo_omp_team::team::task::Function;

use super::kinds::{FIRSTPRIVATE, KIND};

/// Runs a region on the host.
pub(super) fn run(function: Function, addresses: *mut *mut c_void, limit: u32) {
    let me = start::current();
    // A region nested in one on a device stays there.
    let confined_node = me.team().confined_node().map_or(0, |node| node + 1);
    one_thread_team::run_in_own_team(me, confined_node, limit, || {
        // SAFETY: the program's function, with the addresses that the program passed for it.
        unsafe { function(addresses.cast()) };
    });
}

/// Copies of a region's `firstprivate` data, dropped when the region has ended.
pub(super) struct Copies(Vec<Vec<u8>>);

impl Copies {
    /// # Safety
    /// Each list has `count` entries, with data of these sizes at these addresses.
    pub(super) unsafe fn copy_firstprivate(
        count: usize,
        addresses: *mut *mut c_void,
        sizes: *const usize,
        kinds: *const u16,
    ) -> Self {
        let mut copies = Vec::new();
        for index in 0..count {
            // SAFETY: guaranteed by the caller.
            let (place, size, kind) = unsafe { (addresses.add(index), *sizes.add(index), *kinds.add(index)) };
            // SAFETY: guaranteed by the caller.
            let is_absent = unsafe { (*place).is_null() };
            if kind & KIND != FIRSTPRIVATE || is_absent {
                continue;
            }
            let align = 1_usize << (kind >> 8).min(12);
            let mut copy = vec![0_u8; size + align - 1];
            let skipped = (copy.as_ptr() as usize).next_multiple_of(align) - copy.as_ptr() as usize;
            let target = copy[skipped..].as_mut_ptr();
            // SAFETY: the copy has that length, and so has the original, as the caller guarantees.
            unsafe {
                ptr::copy_nonoverlapping((*place).cast::<u8>(), target, size);
                *place = target.cast();
            }
            copies.push(copy);
        }
        Self(copies)
    }

    /// Drops the copies after the region has ended.
    pub(super) fn end(self) {
        drop(self.0);
    }
}
