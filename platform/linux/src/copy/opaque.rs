//! Single loads and stores that are opaque to the compiler.
//!
//! Memory shared with other processes, some of them hostile, is accessed in single bytes at the edges of a
//! copy and in words of eight in between. In Rust's memory model that would be a race between accesses of
//! different sizes; an assembly instruction is not: the compiler sees neither the address nor the race.
//!
//! All of these require that the address is valid for the access; for a word, also that it is aligned to
//! eight.

use core::arch::asm;

/// Loads a byte.
///
/// # Safety
/// `from` must be valid for reads of one byte.
#[inline]
pub(super) unsafe fn load_byte(from: *const u8) -> u8 {
    let byte: usize;
    // SAFETY: by this function's contract the byte can be read. Nothing else is accessed.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("movzx {0:e}, byte ptr [{1}]", out(reg) byte, in(reg) from, options(nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("ldrb {0:w}, [{1}]", out(reg) byte, in(reg) from, options(nostack, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        asm!("lbu {0}, 0({1})", out(reg) byte, in(reg) from, options(nostack, preserves_flags));
        #[cfg(target_arch = "s390x")]
        asm!("llgc {0}, 0({1})", out(reg) byte, in(reg_addr) from, options(nostack, preserves_flags));
        #[cfg(target_arch = "x86")]
        asm!("movzx {0:e}, byte ptr [{1}]", out(reg) byte, in(reg) from, options(nostack, preserves_flags));
        #[cfg(target_arch = "arm")]
        asm!("ldrb {0}, [{1}]", out(reg) byte, in(reg) from, options(nostack, preserves_flags));
    }
    byte as u8
}

/// Stores a byte.
///
/// # Safety
/// `to` must be valid for writes of one byte.
#[inline]
pub(super) unsafe fn store_byte(to: *mut u8, byte: u8) {
    let byte = usize::from(byte);
    // SAFETY: by this function's contract the byte can be written. Nothing else is accessed.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov byte ptr [{1}], {0:l}", in(reg) byte, in(reg) to, options(nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("strb {0:w}, [{1}]", in(reg) byte, in(reg) to, options(nostack, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        asm!("sb {0}, 0({1})", in(reg) byte, in(reg) to, options(nostack, preserves_flags));
        #[cfg(target_arch = "s390x")]
        asm!("stc {0}, 0({1})", in(reg) byte, in(reg_addr) to, options(nostack, preserves_flags));
        // Only four registers have addressable low bytes.
        #[cfg(target_arch = "x86")]
        asm!("mov byte ptr [{0}], cl", in(reg) to, in("ecx") byte, options(nostack, preserves_flags));
        #[cfg(target_arch = "arm")]
        asm!("strb {0}, [{1}]", in(reg) byte, in(reg) to, options(nostack, preserves_flags));
    }
}

/// Loads a word in native byte order.
///
/// # Safety
/// `from` must be valid for reads of eight bytes and aligned to eight.
#[inline]
pub(super) unsafe fn load_word(from: *const u8) -> u64 {
    debug_assert!(from.addr().is_multiple_of(8));
    #[cfg(target_pointer_width = "32")]
    // SAFETY: both halves are in the word.
    return unsafe { join_halves(load_half(from), load_half(from.add(4))) };
    #[cfg(target_pointer_width = "64")]
    let word: u64;
    #[cfg(target_pointer_width = "64")]
    // SAFETY: by this function's contract the word can be read and is aligned. Nothing else is accessed.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {0}, qword ptr [{1}]", out(reg) word, in(reg) from, options(nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("ldr {0}, [{1}]", out(reg) word, in(reg) from, options(nostack, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        asm!("ld {0}, 0({1})", out(reg) word, in(reg) from, options(nostack, preserves_flags));
        #[cfg(target_arch = "s390x")]
        asm!("lg {0}, 0({1})", out(reg) word, in(reg_addr) from, options(nostack, preserves_flags));
    }
    #[cfg(target_pointer_width = "64")]
    word
}

/// Joins two halves to a word; the first is at the lower address.
#[cfg(target_pointer_width = "32")]
const fn join_halves(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// Loads half a word: a 32-bit processor needs two loads.
///
/// # Safety
/// `from` must be valid for reads of four bytes and aligned to four.
#[cfg(target_pointer_width = "32")]
#[inline]
unsafe fn load_half(from: *const u8) -> u32 {
    let half: u32;
    // SAFETY: by this function's contract the half can be read and is aligned. Nothing else is accessed.
    unsafe {
        #[cfg(target_arch = "x86")]
        asm!("mov {0}, dword ptr [{1}]", out(reg) half, in(reg) from, options(nostack, preserves_flags));
        #[cfg(target_arch = "arm")]
        asm!("ldr {0}, [{1}]", out(reg) half, in(reg) from, options(nostack, preserves_flags));
    }
    half
}

/// Stores half a word.
///
/// # Safety
/// `to` must be valid for writes of four bytes and aligned to four.
#[cfg(target_pointer_width = "32")]
#[inline]
unsafe fn store_half(to: *mut u8, half: u32) {
    // SAFETY: by this function's contract the half can be written and is aligned. Nothing else is accessed.
    unsafe {
        #[cfg(target_arch = "x86")]
        asm!("mov dword ptr [{1}], {0}", in(reg) half, in(reg) to, options(nostack, preserves_flags));
        #[cfg(target_arch = "arm")]
        asm!("str {0}, [{1}]", in(reg) half, in(reg) to, options(nostack, preserves_flags));
    }
}

/// Stores a word in native byte order.
///
/// # Safety
/// `to` must be valid for writes of eight bytes and aligned to eight.
#[inline]
pub(super) unsafe fn store_word(to: *mut u8, word: u64) {
    debug_assert!(to.addr().is_multiple_of(8));
    #[cfg(target_pointer_width = "32")]
    // SAFETY: both halves are in the word.
    unsafe {
        let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
        store_half(to, u32::from_ne_bytes([a, b, c, d]));
        store_half(to.add(4), u32::from_ne_bytes([e, f, g, h]));
    }
    #[cfg(target_pointer_width = "64")]
    // SAFETY: by this function's contract the word can be written and is aligned. Nothing else is accessed.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov qword ptr [{1}], {0}", in(reg) word, in(reg) to, options(nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("str {0}, [{1}]", in(reg) word, in(reg) to, options(nostack, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        asm!("sd {0}, 0({1})", in(reg) word, in(reg) to, options(nostack, preserves_flags));
        #[cfg(target_arch = "s390x")]
        asm!("stg {0}, 0({1})", in(reg) word, in(reg_addr) to, options(nostack, preserves_flags));
    }
}
