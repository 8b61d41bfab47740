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

/// Stores sixteen bytes as they lie, the first eight into the first word: two relaxed stores in one instruction where the
/// processor has one that wide. The two words are not one atomic unit.
///
/// A processor keeps a bounded number of stores that wait for their lines (ADR 0022), and this takes one place for two
/// words. `source` is read by words: whoever filled it by words a moment ago has them in the same queue, and a load wider
/// than a queued store waits until that store, and every line before it, has come through.
///
/// Under a model checker, a simulator or an interpreter it is two stores of words.
#[inline(always)]
pub fn store_pair(words: &[AtomicU64; 2], source: &[u8; 16]) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, sim, miri))))]
    // SAFETY: `words` are sixteen bytes that may be written through a shared reference, as atomics may; `source` are sixteen
    // that may be read. The instruction writes each aligned half of `words` whole, like the two relaxed stores that it
    // stands for.
    unsafe {
        core::arch::asm!(
            "movq {value}, qword ptr [{source}]",
            "movhps {value}, qword ptr [{source} + 8]",
            "movups xmmword ptr [{words}], {value}",
            words = in(reg) words.as_ptr(),
            source = in(reg) source.as_ptr(),
            value = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(all(target_arch = "aarch64", not(any(loom, sim, miri))))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "ldr {first}, [{source}]",
            "ldr {second}, [{source}, #8]",
            "stp {first}, {second}, [{words}]",
            words = in(reg) words.as_ptr(),
            source = in(reg) source.as_ptr(),
            first = out(reg) _,
            second = out(reg) _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(any(loom, sim, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        let (chunks, _) = source.as_chunks::<8>();
        for (word, chunk) in words.iter().zip(chunks) {
            word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        }
    }
}

/// Two relaxed stores of numbers, in one instruction where the processor has one that wide; see [`store_pair`]. The two words
/// are not one atomic unit.
#[inline(always)]
pub fn store_both(words: &[AtomicU64; 2], [first, second]: [u64; 2]) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, sim, miri))))]
    // SAFETY: `words` are sixteen bytes that may be written through a shared reference, as atomics may. The instruction writes
    // each aligned half of them whole, like the two relaxed stores that it stands for.
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

/// Loads sixteen bytes as they lie; the counterpart of [`store_pair`].
#[inline(always)]
pub fn load_pair(words: &[AtomicU64; 2]) -> [u8; 16] {
    #[cfg(all(target_arch = "x86_64", not(any(loom, sim, miri))))]
    // SAFETY: `words` are sixteen bytes that may be read. The instruction reads each of their aligned halves whole, like
    // the two relaxed loads that it stands for.
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
    fn pairs_keep_address_order_and_touch_nothing_else() {
        let words: [AtomicU64; 4] = core::array::from_fn(|_| AtomicU64::new(u64::MAX));
        let source: [u8; 16] = core::array::from_fn(|index| index as u8);
        let [_, pair @ .., _] = &words;
        store_pair(pair, &source);
        assert_eq!(load_pair(pair), source);
        let bytes = words.each_ref().map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        assert_eq!(bytes, [[0xff; 8], [0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15], [0xff; 8]]);
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
