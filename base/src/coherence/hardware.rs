//! Cache maintenance instructions, on processors that let programs execute them.

use crate::sync::AtomicU64;

/// Proof that this processor lets programs write back and invalidate cache lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheInstructions {
    /// Stride between two operations, in bytes: the smallest line size of all caches.
    step_bytes: usize,
}

impl CacheInstructions {
    /// Detects the instructions of this processor. Returns `None` if programs cannot execute any: on RISC-V,
    /// where the kernel decides (Zicbom), and on s390x, whose memory is coherent with every device.
    #[must_use]
    pub fn detect() -> Option<Self> {
        step_bytes().map(|step_bytes| CacheInstructions { step_bytes })
    }

    /// Writes back the lines of `words` and waits for completion.
    pub fn write_back(self, words: &[AtomicU64]) {
        self.for_lines(words, write_back_line);
        wait();
    }

    /// Writes back and invalidates the lines of `words` and waits for completion.
    pub fn invalidate(self, words: &[AtomicU64]) {
        self.for_lines(words, invalidate_line);
        wait();
    }

    fn for_lines(self, words: &[AtomicU64], operate: impl Fn(usize)) {
        let start = words.as_ptr() as usize;
        let end = start + size_of_val(words);
        let mut line = start & !(self.step_bytes - 1);
        while line < end {
            operate(line);
            line += self.step_bytes;
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn step_bytes() -> Option<usize> {
    // Leaf 1, EBX bits 15 to 8: line size of CLFLUSH, in units of eight bytes.
    let line_bytes = usize::from(core::arch::x86_64::__cpuid(1).ebx.to_le_bytes()[1]) * 8;
    line_bytes.is_power_of_two().then_some(line_bytes)
}

/// Flushes a line with CLFLUSH. Unlike CLWB it also invalidates, but every x86-64 processor has it.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn write_back_line(address: usize) {
    invalidate_line(address);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn invalidate_line(address: usize) {
    // SAFETY: the line holds words of a mapping that the caller borrows. Flushing it writes what stores left
    // there and changes no value.
    unsafe { core::arch::x86_64::_mm_clflush(address as *const u8) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn wait() {
    // SAFETY: SSE2, which every x86-64 processor has. MFENCE orders CLFLUSH before all later loads.
    unsafe { core::arch::x86_64::_mm_mfence() }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
fn step_bytes() -> Option<usize> {
    let cache_type: u64;
    // SAFETY: reads a register that Linux and the monitor of boards let programs read.
    unsafe {
        core::arch::asm!("mrs {}, ctr_el0", out(reg) cache_type, options(nomem, nostack, preserves_flags));
    }
    // Bits 19 to 16: log2 of the number of four-byte words in the smallest data cache line.
    Some(4 << (cache_type >> 16 & 0xf))
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
fn write_back_line(address: usize) {
    // SAFETY: the line holds words of a mapping that the caller borrows; cleaning it changes no value.
    unsafe { core::arch::asm!("dc cvac, {}", in(reg) address, options(nostack, preserves_flags)) }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
fn invalidate_line(address: usize) {
    // SAFETY: as above; it cleans the line before it invalidates it.
    unsafe { core::arch::asm!("dc civac, {}", in(reg) address, options(nostack, preserves_flags)) }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
fn wait() {
    // SAFETY: a barrier; it waits for the cache operations before it and touches no memory.
    unsafe { core::arch::asm!("dsb sy", options(nostack, preserves_flags)) }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn step_bytes() -> Option<usize> {
    None
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn write_back_line(_address: usize) {}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn invalidate_line(_address: usize) {}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn wait() {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn operations_cover_every_line_and_change_no_value() {
        let instructions = CacheInstructions { step_bytes: 64 };
        let words: [AtomicU64; 40] = core::array::from_fn(|index| AtomicU64::new(index as u64));
        let lines = core::cell::RefCell::new(std::vec::Vec::new());
        let part = &words[3..25];
        instructions.for_lines(part, |line| lines.borrow_mut().push(line));
        let (first, last) = (part.as_ptr() as usize, &raw const part[21] as usize);
        let lines = lines.into_inner();
        assert!(lines[0] <= first && first < lines[0] + 64);
        assert!(lines.last().is_some_and(|line| *line <= last && last < line + 64));
        assert!(lines.windows(2).all(|pair| pair[1] == pair[0] + 64));
        // Covers the end of one line and all of the next, but no third one.
        let skip = (words.as_ptr() as usize).wrapping_neg() % 64 / 8;
        let count = core::cell::Cell::new(0);
        instructions.for_lines(&words[skip..skip + 16], |_| count.set(count.get() + 1));
        assert_eq!(count.get(), 2);
        if cfg!(all(target_arch = "x86_64", not(miri))) {
            assert_eq!(CacheInstructions::detect(), Some(instructions), "lines of 64 bytes");
        }
        if let Some(instructions) = CacheInstructions::detect() {
            instructions.write_back(part);
            instructions.invalidate(part);
        }
        assert!((0..40).all(|index| words[index].load(Ordering::Relaxed) == index as u64));
    }
}
