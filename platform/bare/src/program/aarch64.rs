//! Instructions of an Arm processor.

use core::arch::{asm, global_asm};

use crate::ticks::ticks_to_ns;

// The first function has no caller's frame: an unwinder stops here.
global_asm!(
    ".section .text.start, \"ax\"",
    ".global _program_start",
    "_program_start:",
    "mov x29, xzr",
    "mov x30, xzr",
    "bl tombolo_program_entered",
    "brk #0",
);

pub(super) fn call(number: u64, arguments: [u64; 4]) -> u64 {
    let answer;
    // SAFETY: the monitor returns in the first register and preserves the others and the stack; it accesses
    // only the memory that the arguments name, as each function below says.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") arguments[0] => answer,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            options(nostack)
        );
    }
    answer
}

/// Returns nanoseconds since the board started.
pub(super) fn clock_ns() -> u64 {
    let (ticks, frequency): (u64, u64);
    // SAFETY: the monitor lets programs read the counter, which has no side effects.
    unsafe {
        asm!("isb", "mrs {0}, cntvct_el0", "mrs {1}, cntfrq_el0", out(reg) ticks, out(reg) frequency,
            options(nomem, nostack));
    }
    ticks_to_ns(ticks, frequency)
}
