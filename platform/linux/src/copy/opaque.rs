//! Single loads and stores that the compiler cannot see into.
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
    let byte: u64;
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
    }
    byte as u8
}

/// Stores a byte.
///
/// # Safety
/// `to` must be valid for writes of one byte.
#[inline]
pub(super) unsafe fn store_byte(to: *mut u8, byte: u8) {
    let byte = u64::from(byte);
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
    }
}

/// Loads a word in native byte order.
///
/// # Safety
/// `from` must be valid for reads of eight bytes and aligned to eight.
#[inline]
pub(super) unsafe fn load_word(from: *const u8) -> u64 {
    debug_assert!(from.addr().is_multiple_of(8));
    let word: u64;
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
    word
}

/// Stores a word in native byte order.
///
/// # Safety
/// `to` must be valid for writes of eight bytes and aligned to eight.
#[inline]
pub(super) unsafe fn store_word(to: *mut u8, word: u64) {
    debug_assert!(to.addr().is_multiple_of(8));
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
