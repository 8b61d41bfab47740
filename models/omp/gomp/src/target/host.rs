//! Regions for devices that run on the host, as all do where the job has no other nodes: outside of the
//! regions around, in a team of one. Data is where it should be already.

use std::ffi::c_void;
use std::ptr;

use tombolo_omp_team::device::alone;
use tombolo_omp_team::job::start;
use tombolo_omp_team::team::task::Function;

use super::kinds::{FIRSTPRIVATE, KIND};

/// Runs a region here.
pub(super) fn run(function: Function, addresses: *mut *mut c_void, limit: u32) {
    let me = start::current();
    // On a device it stays there.
    let only = me.team().only().map_or(0, |node| node + 1);
    alone::run(me, only, limit, || {
        // SAFETY: the program's function, with the addresses that the program gave for it.
        unsafe { function(addresses.cast()) };
    });
}

/// Copies of what a region gets copies of; they go when the region has ended.
pub(super) struct Copies(Vec<Vec<u8>>);

impl Copies {
    /// # Safety
    /// There are `count` entries in each list, with such sizes at such addresses.
    pub(super) unsafe fn make(
        count: usize,
        addresses: *mut *mut c_void,
        sizes: *const usize,
        kinds: *const u16,
    ) -> Self {
        let mut copies = Vec::new();
        for index in 0..count {
            // SAFETY: the caller says so.
            let (place, size, kind) = unsafe { (addresses.add(index), *sizes.add(index), *kinds.add(index)) };
            if kind & KIND != FIRSTPRIVATE {
                continue;
            }
            let align = 1_usize << (kind >> 8).min(12);
            let mut copy = vec![0_u8; size + align - 1];
            let skipped = (copy.as_ptr() as usize).next_multiple_of(align) - copy.as_ptr() as usize;
            let target = copy[skipped..].as_mut_ptr();
            // SAFETY: the copy is that long, and the caller says that the original is.
            unsafe {
                ptr::copy_nonoverlapping((*place).cast::<u8>(), target, size);
                *place = target.cast();
            }
            copies.push(copy);
        }
        Self(copies)
    }

    /// The region has ended.
    pub(super) fn end(self) {
        drop(self.0);
    }
}
