//! Atomics and fences, from `core` or, when built with `--cfg loom`, from the model checker, or, when built with
//! `--cfg sim`, with a tap that tells a simulator of every store.
//!
//! Everything that touches shared memory imports from here, so that the same source runs on hardware,
//! under miri, in loom's exhaustive schedules and across simulated links.

#[cfg(not(any(loom, sim)))]
pub use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence, fence};

#[cfg(all(sim, not(loom)))]
pub use crate::tap::{AtomicU64, fence};
#[cfg(all(sim, not(loom)))]
pub use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// Tells the processor that this is a spin loop.
///
/// On x86-64 and bare metal it is the processor's hint. Under an emulator the Arm hint leaves the
/// translated block, which costs more than the wait it is meant to soften, so on aarch64 it is nothing.
#[inline]
pub fn spin_hint() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(all(not(loom), not(target_arch = "aarch64")))]
    core::hint::spin_loop();
}

/// Asks for the line of `word` to be brought into this processor's cache, without waiting for it.
///
/// A hint: it reads no value and orders nothing. Where there is no such instruction, or a model checker or
/// interpreter runs the code, it is nothing.
#[inline(always)]
pub fn prefetch(word: &AtomicU64) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    // SAFETY: a prefetch never faults and has no effect on memory, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(word).cast());
    }
    #[cfg(all(target_arch = "aarch64", not(loom), not(miri)))]
    // SAFETY: as above; no register or flag is written.
    unsafe {
        core::arch::asm!(
            "prfm pldl1keep, [{address}]",
            address = in(reg) core::ptr::from_ref(word),
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(any(loom, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = word;
}

/// As [`prefetch`], for a line that is about to be written: takes it from the other caches too.
#[inline(always)]
pub fn prefetch_for_write(word: &AtomicU64) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    // SAFETY: as above; it is no operation on a processor that does not have it.
    unsafe {
        core::arch::asm!(
            "prefetchw [{address}]",
            address = in(reg) core::ptr::from_ref(word),
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(all(target_arch = "aarch64", not(loom), not(miri)))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "prfm pstl1keep, [{address}]",
            address = in(reg) core::ptr::from_ref(word),
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(any(loom, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = word;
}
