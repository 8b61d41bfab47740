//! Atomics and fences, from `core` or, when built with `--cfg loom`, from the model checker.
//!
//! Everything that touches shared memory imports from here, so that the same source runs on hardware,
//! under miri and in loom's exhaustive schedules.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence, fence};

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
