//! Address translation: what is memory, what is a device, and what a program can access.
//!
//! Everything except the window is mapped at its physical address; the window, which lies beyond the 39
//! address bits, is mapped at [`WINDOW_ADDRESS`].

use core::arch::asm;
use core::cell::UnsafeCell;

use super::{DEVICES, ECAM, REGISTERS_PLACE, WINDOW_PLACE};
use crate::board::Division;

/// The virtual address of the window.
pub(super) const WINDOW_ADDRESS: u64 = 0x10_0000_0000;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const PAGE_BYTES: u64 = 4 * KIB;
const BLOCK_BYTES: u64 = 2 * MIB;

const TABLE: u64 = 0b11;
const BLOCK: u64 = 0b01;
const PAGE: u64 = 0b11;
/// Page attribute of device memory: in order, not gathered, not cached.
const DEVICE: u64 = 0 << 2;
/// Page attribute of normal memory: cached, write-back, shareable.
const NORMAL: u64 = 1 << 2 | 0b11 << 8;
const ACCESSED: u64 = 1 << 10;
/// Accessible to programs for reading and writing.
const PROGRAMS: u64 = 0b01 << 6;
const NEVER_RUN_BY_MONITOR: u64 = 1 << 53;
const NEVER_RUN_BY_PROGRAMS: u64 = 1 << 54;
const NEVER_RUN: u64 = NEVER_RUN_BY_MONITOR | NEVER_RUN_BY_PROGRAMS;

/// Attribute 0: device, not gathered nor reordered, early acknowledgement. Attribute 1: normal, write back.
const MAIR: u64 = 0x04 | 0xff << 8;
/// 39 bits of address, walks cached and shared, pages of 4 KiB, no upper half, 40 bits of physical address.
const TCR: u64 = 25 | 0b01 << 8 | 0b01 << 10 | 0b11 << 12 | 1 << 23 | 0b010 << 32;

#[repr(C, align(4096))]
struct Table(UnsafeCell<[u64; 512]>);

// SAFETY: written by one processor, before translation is enabled; from then on only the processor's own
// table walks read it.
unsafe impl Sync for Table {}

impl Table {
    const fn new() -> Table {
        Table(UnsafeCell::new([0; 512]))
    }

    fn set(&self, index: u64, entry: u64) {
        // SAFETY: see `Sync`: nothing else uses the table now.
        unsafe { (*self.0.get())[index as usize] = entry }
    }

    fn entry(&self) -> u64 {
        self.0.get() as u64 | TABLE
    }
}

static ROOT: Table = Table::new();
static FIRST_GIB: Table = Table::new();
static MEMORY: Table = Table::new();
static WINDOW: Table = Table::new();
static WINDOW_START: Table = Table::new();

/// Builds the tables and enables translation and caches.
///
/// The first `own_bytes` of the window belong to the monitors.
pub(super) fn switch_on(division: Division, window_bytes: u64, own_bytes: u64) {
    map_devices();
    map_memory(division);
    map_window(window_bytes, own_bytes);
    // SAFETY: the tables map the running code, its stack and its data at their addresses with the rights
    // they need, so that execution continues; the caches are empty after reset.
    unsafe {
        asm!(
            "dsb ish",
            "msr mair_el1, {mair}",
            "msr tcr_el1, {tcr}",
            "msr ttbr0_el1, {root}",
            "isb",
            "tlbi vmalle1",
            "ic iallu",
            "dsb ish",
            "isb",
            "mrs {scratch}, sctlr_el1",
            // Translation, data and instruction caches; and stacks stay aligned.
            "orr {scratch}, {scratch}, #(1 << 0)",
            "orr {scratch}, {scratch}, #(1 << 2)",
            "orr {scratch}, {scratch}, #(1 << 12)",
            // Programs may ask for the length of cache lines, write them back and invalidate them.
            "orr {scratch}, {scratch}, #(1 << 15)",
            "orr {scratch}, {scratch}, #(1 << 26)",
            "msr sctlr_el1, {scratch}",
            "isb",
            mair = in(reg) MAIR,
            tcr = in(reg) TCR,
            root = in(reg) ROOT.0.get() as u64,
            scratch = out(reg) _,
            options(nostack)
        );
    }
}

fn map_devices() {
    let device = BLOCK | DEVICE | ACCESSED | NEVER_RUN;
    for index in 0..GIB / BLOCK_BYTES {
        let address = DEVICES + index * BLOCK_BYTES;
        // The doorbell register has a block of its own, so that programs ring without a call.
        let rights = if address == REGISTERS_PLACE { PROGRAMS } else { 0 };
        FIRST_GIB.set(index, address | device | rights);
    }
    ROOT.set(DEVICES / GIB, FIRST_GIB.entry());
    ROOT.set(ECAM / GIB, (ECAM / GIB * GIB) | device);
}

fn map_memory(division: Division) {
    let start = division.programs / GIB * GIB;
    for index in 0..GIB / BLOCK_BYTES {
        let address = start + index * BLOCK_BYTES;
        if address >= division.end {
            break;
        }
        let theirs = (division.programs..division.heap).contains(&address);
        let rights = if theirs { PROGRAMS | NEVER_RUN_BY_MONITOR } else { NEVER_RUN_BY_PROGRAMS };
        MEMORY.set(index, address | BLOCK | NORMAL | ACCESSED | rights);
    }
    ROOT.set(start / GIB, MEMORY.entry());
}

fn map_window(window_bytes: u64, own_bytes: u64) {
    let normal = NORMAL | ACCESSED | NEVER_RUN;
    for index in 0..512 {
        let offset = index * PAGE_BYTES;
        if offset < window_bytes {
            let rights = if offset < own_bytes { 0 } else { PROGRAMS };
            WINDOW_START.set(index, (WINDOW_PLACE + offset) | PAGE | normal | rights);
        }
    }
    WINDOW.set(0, WINDOW_START.entry());
    for index in 1..GIB / BLOCK_BYTES {
        let offset = index * BLOCK_BYTES;
        if offset < window_bytes {
            WINDOW.set(index, (WINDOW_PLACE + offset) | BLOCK | normal | PROGRAMS);
        }
    }
    ROOT.set(WINDOW_ADDRESS / GIB, WINDOW.entry());
    for index in 1..window_bytes.div_ceil(GIB) {
        let entry = (WINDOW_PLACE + index * GIB) | BLOCK | normal | PROGRAMS;
        ROOT.set(WINDOW_ADDRESS / GIB + index, entry);
    }
}
