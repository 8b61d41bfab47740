//! Physical memory protection, which limits what a program can access. The first entry that matches an
//! address decides.

use core::arch::asm;

use super::{REGISTERS_PLACE, WINDOW_PLACE};
use crate::board::Division;

const READ: u64 = 1;
const WRITE: u64 = 2;
const RUN: u64 = 4;
/// From the previous entry's address to this one's.
const RANGE: u64 = 1 << 3;
/// A naturally aligned range, see [`page`].
const ALIGNED: u64 = 3 << 3;

/// Gives programs access to their memory, the window from `own_bytes` on, and the page of the device's
/// registers. The monitor, in machine mode, has access to everything.
pub(super) fn set_up(division: Division, window_bytes: u64, own_bytes: u64) {
    let addresses = [
        division.programs >> 2,
        division.heap >> 2,
        (WINDOW_PLACE + own_bytes) >> 2,
        (WINDOW_PLACE + window_bytes) >> 2,
        page(REGISTERS_PLACE),
    ];
    let rights = [0, RANGE | READ | WRITE | RUN, 0, RANGE | READ | WRITE, ALIGNED | READ | WRITE];
    let configuration =
        rights.iter().enumerate().fold(0_u64, |all, (index, right)| all | right << (8 * index));
    // SAFETY: affects only the rights of programs, none of which runs yet.
    unsafe {
        asm!(
            "csrw pmpaddr0, {0}",
            "csrw pmpaddr1, {1}",
            "csrw pmpaddr2, {2}",
            "csrw pmpaddr3, {3}",
            "csrw pmpaddr4, {4}",
            "csrw pmpcfg0, {5}",
            "sfence.vma",
            in(reg) addresses[0],
            in(reg) addresses[1],
            in(reg) addresses[2],
            in(reg) addresses[3],
            in(reg) addresses[4],
            in(reg) configuration,
            options(nostack)
        );
    }
}

/// The address field of an entry for a page of 4 KiB.
const fn page(address: u64) -> u64 {
    address >> 2 | ((4096 >> 3) - 1)
}
