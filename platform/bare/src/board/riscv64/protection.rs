//! Physical memory protection, which limits the memory that a program can access. The first entry that
//! matches an address decides.

use core::arch::asm;

use super::{REGISTERS_BASE, WINDOW_BASE};
use crate::board::MemoryLayout;
use crate::call::MAX_WINDOWS;
use crate::pci::{BarAddresses, WindowDevices};

const READ: u64 = 1;
const WRITE: u64 = 2;
const EXECUTE: u64 = 4;
/// Range from the previous entry's address to this one's.
const TOP_OF_RANGE: u64 = 1 << 3;
/// A naturally aligned range, see [`napot_address`].
const NAPOT: u64 = 3 << 3;

/// Number of entries for memory, the window with the host, and all registers; each further window has one
/// more.
const FIRST_ENTRIES: usize = 5;
const ENTRIES: usize = FIRST_ENTRIES + MAX_WINDOWS - 1;

/// Number of entries whose rights share a register.
const ENTRIES_PER_REGISTER: usize = 8;

/// Gives programs access to their memory, the window with the host from `own_bytes` on, all other windows,
/// and the registers of the devices. The monitor, in machine mode, has access to everything.
pub(super) fn set_up(layout: MemoryLayout, windows: &WindowDevices, own_bytes: u64) {
    let own_window_bytes = windows[0].map_or(0, |window| window.window_bytes);
    let mut addresses = [0; ENTRIES];
    let mut rights = [0; 2 * ENTRIES_PER_REGISTER];
    addresses[..FIRST_ENTRIES].copy_from_slice(&[
        layout.programs >> 2,
        layout.heap >> 2,
        (WINDOW_BASE + own_bytes) >> 2,
        (WINDOW_BASE + own_window_bytes) >> 2,
        napot_address(REGISTERS_BASE, BarAddresses::REGISTERS_STEP_BYTES * MAX_WINDOWS as u64),
    ]);
    rights[..FIRST_ENTRIES].copy_from_slice(&[
        0,
        TOP_OF_RANGE | READ | WRITE | EXECUTE,
        0,
        TOP_OF_RANGE | READ | WRITE,
        NAPOT | READ | WRITE,
    ]);
    for (index, window) in (FIRST_ENTRIES..).zip(windows[1..].iter().flatten()) {
        addresses[index] = napot_address(window.places.window, window.window_bytes);
        rights[index] = NAPOT | READ | WRITE;
    }
    let configurations: [u64; 2] = core::array::from_fn(|register| {
        let rights = &rights[register * ENTRIES_PER_REGISTER..][..ENTRIES_PER_REGISTER];
        rights.iter().enumerate().fold(0, |all, (index, right)| all | right << (8 * index))
    });
    // SAFETY: affects only the rights of programs, none of which runs yet.
    unsafe {
        asm!(
            "csrw pmpaddr0, {0}",
            "csrw pmpaddr1, {1}",
            "csrw pmpaddr2, {2}",
            "csrw pmpaddr3, {3}",
            "csrw pmpaddr4, {4}",
            "csrw pmpaddr5, {5}",
            "csrw pmpaddr6, {6}",
            "csrw pmpaddr7, {7}",
            "csrw pmpaddr8, {8}",
            "csrw pmpaddr9, {9}",
            "csrw pmpaddr10, {10}",
            "csrw pmpaddr11, {11}",
            "csrw pmpcfg0, {12}",
            "csrw pmpcfg2, {13}",
            "sfence.vma",
            in(reg) addresses[0],
            in(reg) addresses[1],
            in(reg) addresses[2],
            in(reg) addresses[3],
            in(reg) addresses[4],
            in(reg) addresses[5],
            in(reg) addresses[6],
            in(reg) addresses[7],
            in(reg) addresses[8],
            in(reg) addresses[9],
            in(reg) addresses[10],
            in(reg) addresses[11],
            in(reg) configurations[0],
            in(reg) configurations[1],
            options(nostack)
        );
    }
}

/// Returns the address field of an entry for a range that is aligned to its length, a power of two.
const fn napot_address(address: u64, length_bytes: u64) -> u64 {
    address >> 2 | ((length_bytes >> 3) - 1)
}
