//! Atomics and fences: from `core`; from the model checker with `--cfg loom`; and with `--cfg sim`, wrapped
//! so that a simulator sees every store.
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
pub use crate::tap::{AtomicU64, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, Ordering};

/// A word that neither model checker nor simulator observes. For the state of memory emulations, which is not
/// itself shared memory.
pub use core::sync::atomic::AtomicU64 as Unobserved;

/// Hints to the processor that the caller is spinning.
///
/// A no-op on aarch64: under QEMU the Arm hint leaves the translated block, which costs more than the wait
/// itself.
#[inline]
pub fn spin_hint() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(all(not(loom), not(target_arch = "aarch64")))]
    core::hint::spin_loop();
}

/// Delays the next poll for a reply that is expected at once, by some ten nanoseconds.
///
/// For the first polls of a wait. On x86-64 it also waits until the previous poll has loaded its value: a
/// processor that runs several polls ahead mispredicts more often which of them finds the reply, and then
/// starts on the reply only when the line has arrived (ADR 0145). It yields neither to the other thread of
/// the core nor to the host of a virtual machine; [`spin_hint`] does, for longer waits.
#[inline(always)]
pub fn delay_poll() {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    // SAFETY: multiplies in a register and waits; touches no memory.
    unsafe {
        core::arch::asm!(
            "imul {delay}, {delay}",
            "imul {delay}, {delay}",
            "imul {delay}, {delay}",
            "imul {delay}, {delay}",
            "imul {delay}, {delay}",
            "imul {delay}, {delay}",
            "imul {delay}, {delay}",
            "imul {delay}, {delay}",
            "lfence",
            delay = inout(reg) 3_u64 => _,
            options(nomem, nostack)
        );
    }
    #[cfg(any(loom, miri, not(target_arch = "x86_64")))]
    spin_hint();
}

/// Starts to load the cache line of `word` without waiting for it.
///
/// A hint that reads no value and orders nothing. Does nothing on processors without such an instruction
/// and under loom and miri.
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

/// As [`prefetch`], for a line that is about to be written: requests exclusive ownership.
#[inline(always)]
pub fn prefetch_for_write(word: &AtomicU64) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    // SAFETY: as above; processors without the instruction execute it as a no-op.
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

/// Stores block `INDEX` of sixteen bytes of `source` in address order as two relaxed word stores, in one
/// instruction where the processor has one that wide. The pair is not atomic as a whole. Returns false, and
/// stores nothing, if `source` or `words` is too short.
///
/// A processor queues a bounded number of stores that wait for their cache lines (ADR 0069); this takes one
/// queue entry for two words. `source` is read in words on purpose: a caller that has just filled it word by
/// word still has those stores in the same queue, and a load wider than a queued store stalls until that
/// store, and every one before it, has retired.
///
/// Uses two separate word stores under loom, miri and the simulator.
#[inline(always)]
#[must_use]
pub fn store_block<const INDEX: usize, const WORDS: usize>(
    words: &[AtomicU64; WORDS],
    source: &[u8],
) -> bool {
    if source.len() < 16 * (INDEX + 1) || WORDS < 2 * (INDEX + 1) {
        return false;
    }
    #[cfg(all(target_arch = "x86_64", not(any(loom, sim, miri))))]
    // SAFETY: `words` covers sixteen bytes at this offset that may be written through a shared reference
    // because they are atomics; `source` covers sixteen readable bytes there: both were checked above. The
    // instruction writes each aligned half whole, as the two relaxed stores would.
    unsafe {
        core::arch::asm!(
            "movq {value}, qword ptr [{source} + {offset}]",
            "movhps {value}, qword ptr [{source} + {offset} + 8]",
            "movups xmmword ptr [{words} + {offset}], {value}",
            words = in(reg) words.as_ptr(),
            source = in(reg) source.as_ptr(),
            offset = const 16 * INDEX,
            value = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(all(target_arch = "aarch64", not(any(loom, sim, miri))))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "ldr {first}, [{source}, #{offset}]",
            "ldr {second}, [{source}, #{offset} + 8]",
            "stp {first}, {second}, [{words}, #{offset}]",
            words = in(reg) words.as_ptr(),
            source = in(reg) source.as_ptr(),
            offset = const 16 * INDEX,
            first = out(reg) _,
            second = out(reg) _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(any(loom, sim, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        let (chunks, _) = source[16 * INDEX..].as_chunks::<8>();
        for (word, chunk) in words[2 * INDEX..2 * INDEX + 2].iter().zip(chunks) {
            word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        }
    }
    true
}

/// Stores two numbers as two relaxed word stores, in one instruction where the processor has one that wide;
/// see [`store_block`]. The pair is not atomic as a whole.
#[inline(always)]
pub fn store_both(words: &[AtomicU64; 2], [first, second]: [u64; 2]) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, sim, miri))))]
    // SAFETY: `words` covers sixteen bytes that may be written through a shared reference because they are
    // atomics. The instruction writes each aligned half whole, as the two relaxed stores would.
    unsafe {
        core::arch::asm!(
            "movq {low}, {first}",
            "movq {high}, {second}",
            "punpcklqdq {low}, {high}",
            "movups xmmword ptr [{words}], {low}",
            words = in(reg) words.as_ptr(),
            first = in(reg) first,
            second = in(reg) second,
            low = out(xmm_reg) _,
            high = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(all(target_arch = "aarch64", not(any(loom, sim, miri))))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "stp {first}, {second}, [{words}]",
            words = in(reg) words.as_ptr(),
            first = in(reg) first,
            second = in(reg) second,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(any(loom, sim, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    for (word, value) in words.iter().zip([first, second]) {
        word.store(value, Ordering::Relaxed);
    }
}

/// Loads sixteen bytes in address order; the counterpart of [`store_block`].
#[inline(always)]
pub fn load_pair(words: &[AtomicU64; 2]) -> [u8; 16] {
    #[cfg(all(target_arch = "x86_64", not(any(loom, sim, miri))))]
    // SAFETY: `words` covers sixteen readable bytes. The instruction reads each aligned half whole, as the
    // two relaxed loads would.
    unsafe {
        let value: core::arch::x86_64::__m128i;
        core::arch::asm!(
            "movdqu {value}, [{words}]",
            words = in(reg) words.as_ptr(),
            value = out(xmm_reg) value,
            options(nostack, preserves_flags, readonly)
        );
        core::mem::transmute(value)
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, sim, miri)))))]
    {
        let mut bytes = [0; 16];
        let (chunks, _) = bytes.as_chunks_mut::<8>();
        for (word, chunk) in words.iter().zip(chunks) {
            *chunk = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        bytes
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_address_order_and_touches_nothing_else() {
        let words: [AtomicU64; 6] = core::array::from_fn(|_| AtomicU64::new(u64::MAX));
        let source: [u8; 40] = core::array::from_fn(|index| index as u8);
        assert!(store_block::<1, 6>(&words, &source));
        let [_, _, pair @ .., _, _] = &words;
        assert_eq!(load_pair(pair), source[16..32]);
        let bytes = words.each_ref().map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        let low = [16, 17, 18, 19, 20, 21, 22, 23];
        assert_eq!(bytes, [[0xff; 8], [0xff; 8], low, low.map(|byte| byte + 8), [0xff; 8], [0xff; 8]]);
    }

    #[test]
    fn partial_block_is_not_stored() {
        let words: [AtomicU64; 5] = core::array::from_fn(|_| AtomicU64::new(u64::MAX));
        assert!(!store_block::<0, 5>(&words, &[0; 15]), "the source ends before");
        assert!(!store_block::<2, 5>(&words, &[0; 48]), "the words end before");
        assert!(!store_block::<1, 4>(words.first_chunk().expect("four"), &[0; 31]));
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == u64::MAX));
        // As long as the block, and not a byte longer.
        let [first, second, ..] = &words;
        assert!(store_block::<0, 5>(&words, &[7; 16]));
        assert_eq!([first, second].map(|word| word.load(Ordering::Relaxed)), [0x0707_0707_0707_0707; 2]);
        let words: [AtomicU64; 4] = core::array::from_fn(|_| AtomicU64::new(0));
        assert!(store_block::<1, 4>(&words, &[9; 32]));
    }

    #[test]
    fn both_of_two_words_are_stored_in_order() {
        let words: [AtomicU64; 4] = core::array::from_fn(|_| AtomicU64::new(u64::MAX));
        let [_, pair @ .., _] = &words;
        store_both(pair, [1, 1 << 63]);
        let values = words.each_ref().map(|word| word.load(Ordering::Relaxed));
        assert_eq!(values, [u64::MAX, 1, 1 << 63, u64::MAX]);
    }
}
