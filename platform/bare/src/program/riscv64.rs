//! Instructions of a RISC-V processor.

use core::arch::{asm, global_asm};

// The first function has no caller's frame: an unwinder stops here.
global_asm!(
    ".section .text.start, \"ax\"",
    ".global _program_start",
    "_program_start:",
    "mv ra, zero",
    "mv s0, zero",
    "call tombolo_program_entered",
    "unimp",
);

pub(super) fn call(number: u64, arguments: [u64; 4]) -> u64 {
    let answer;
    // SAFETY: the monitor returns in the first register and preserves the others and the stack; it accesses
    // only the memory that the arguments name, as each function below says.
    unsafe {
        asm!(
            "ecall",
            in("a7") number,
            inlateout("a0") arguments[0] => answer,
            in("a1") arguments[1],
            in("a2") arguments[2],
            in("a3") arguments[3],
            options(nostack)
        );
    }
    answer
}

/// Returns nanoseconds since the board started.
pub(super) fn clock_ns() -> u64 {
    /// Nanoseconds per tick: the board's timer has a frequency of 10 MHz.
    const NS_PER_TICK: u64 = 100;
    let ticks: u64;
    // SAFETY: the monitor lets programs read the time, which has no side effects.
    unsafe { asm!("rdtime {0}", out(reg) ticks, options(nomem, nostack)) };
    ticks * NS_PER_TICK
}
