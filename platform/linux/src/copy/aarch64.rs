//! The copy loops for Arm: pairs of 16-byte registers.
//!
//! Memory across a bus may be mapped as device memory, where every access must be aligned. So shared memory
//! is always accessed aligned.

use core::arch::asm;

use super::{Range, words};

const PAIR: usize = 32;
const STEP: usize = 2 * PAIR;

/// A loop over register pairs, two pairs at a time.
macro_rules! pair_loop {
    ($name:ident, $doc:literal, $load:literal, $store:literal) => {
        #[doc = $doc]
        ///
        /// # Safety
        /// `source` must be valid for reads and `target` for writes of `steps` times 64 bytes.
        unsafe fn $name(source: *const u8, target: *mut u8, steps: usize) {
            // SAFETY: by this function's contract; each round moves one step of 64 bytes and there are
            // `steps` rounds.
            unsafe {
                asm!(
                    "cbz {steps}, 3f",
                    "2:",
                    concat!($load, " q0, q1, [{source}]"),
                    concat!($load, " q2, q3, [{source}, #32]"),
                    concat!($store, " q0, q1, [{target}]"),
                    concat!($store, " q2, q3, [{target}, #32]"),
                    "add {source}, {source}, #64",
                    "add {target}, {target}, #64",
                    "sub {steps}, {steps}, #1",
                    "cbnz {steps}, 2b",
                    "3:",
                    source = inout(reg) source => _, target = inout(reg) target => _, steps = inout(reg) steps => _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _,
                    options(nostack, preserves_flags)
                );
            }
        }
    };
}

pair_loop!(pairs, "By pairs.", "ldp", "stp");
pair_loop!(pairs_streaming, "By pairs that are not to stay in the caches.", "ldnp", "stnp");

/// Copies by pairs where the shared side can be aligned; otherwise by words.
///
/// # Safety
/// As [`super::copy_by`].
pub(super) unsafe fn copy(range: Range, streaming: bool) {
    const VECTOR: usize = 16;
    let Range { source, target, length, source_shared, target_shared } = range;
    let both = source_shared && target_shared;
    if length < 2 * STEP || (both && source.addr() % VECTOR != target.addr() % VECTOR) {
        // SAFETY: by this function's contract.
        return unsafe { words::copy(range) };
    }
    let shared = if target_shared { target.addr() } else { source.addr() };
    let head = shared.wrapping_neg() % VECTOR;
    let steps = (length - head) / STEP;
    let tail = (length - head) % STEP;
    // SAFETY: by this function's contract: the three parts lie one after another inside both ranges, and
    // the shared side is aligned in the second.
    unsafe {
        words::copy(Range { length: head, ..range });
        let (source, target) = (source.add(head), target.add(head));
        if streaming {
            pairs_streaming(source, target, steps);
        } else {
            pairs(source, target, steps);
        }
        let done = steps * STEP;
        words::copy(Range { source: source.add(done), target: target.add(done), length: tail, ..range });
    }
}

/// Fills by pairs.
///
/// # Safety
/// `target` must be valid for writes of `length` bytes.
pub(super) unsafe fn fill(target: *mut u8, length: usize, byte: u8) {
    let head = target.addr().wrapping_neg() % 16;
    if length < head + STEP {
        // SAFETY: by this function's contract.
        return unsafe { words::fill(target, length, byte) };
    }
    let (steps, tail) = ((length - head) / STEP, (length - head) % STEP);
    // SAFETY: by this function's contract: three parts one after another, the second of `steps` times 64
    // bytes, aligned.
    unsafe {
        words::fill(target, head, byte);
        asm!(
            "dup v0.16b, {byte:w}",
            "2:",
            "stp q0, q0, [{target}]",
            "stp q0, q0, [{target}, #32]",
            "add {target}, {target}, #64",
            "sub {steps}, {steps}, #1",
            "cbnz {steps}, 2b",
            byte = in(reg) u64::from(byte),
            target = inout(reg) target.add(head) => _, steps = inout(reg) steps => _,
            out("v0") _,
            options(nostack, preserves_flags)
        );
        words::fill(target.add(head + steps * STEP), tail, byte);
    }
}
