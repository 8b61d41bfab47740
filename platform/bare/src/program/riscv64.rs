//! Instructions of a RISC-V processor.

use core::arch::{asm, global_asm};

// Nothing is above the first function: an unwinder would stop here.
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
    // SAFETY: the monitor answers in the first register and leaves the others and the stack as they are; what it
    // reads or writes of memory is what the arguments name, as each function below says.
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

/// Nanoseconds since the board was switched on.
pub(super) fn clock_ns() -> u64 {
    /// The board's timer has ten million ticks in a second.
    const NS_PER_TICK: u64 = 100;
    let ticks: u64;
    // SAFETY: reading the time, which the monitor lets programs do, changes nothing.
    unsafe { asm!("rdtime {0}", out(reg) ticks, options(nomem, nostack)) };
    ticks * NS_PER_TICK
}
