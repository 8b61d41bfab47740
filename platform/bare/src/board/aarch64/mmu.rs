//! Address translation: memory, devices, and the access rights of programs.
//!
//! Everything except the windows is mapped at its physical address; the windows, which lie beyond the 39
//! address bits, are mapped from [`WINDOW_ADDRESS`] on, with the same distances as in physical memory.

use core::arch::asm;
use core::cell::UnsafeCell;

use super::{DEVICES, ECAM, REGISTERS_BASE, WINDOW_BASE};
use crate::board::MemoryLayout;
use crate::call::MAX_WINDOWS;
use crate::pci::{BarAddresses, WindowDevices};

/// Virtual address of the window with the host.
const WINDOW_ADDRESS: u64 = 0x10_0000_0000;

/// Returns the virtual address of the window whose device memory is at `bus_address`.
pub(super) fn window_address(bus_address: u64) -> u64 {
    bus_address - WINDOW_BASE + WINDOW_ADDRESS
}

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
const USER_ACCESS: u64 = 0b01 << 6;
const PRIVILEGED_EXECUTE_NEVER: u64 = 1 << 53;
const USER_EXECUTE_NEVER: u64 = 1 << 54;
const EXECUTE_NEVER: u64 = PRIVILEGED_EXECUTE_NEVER | USER_EXECUTE_NEVER;

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
/// Tables of the first GiB of each window, and of the first pages of the window with the host.
static WINDOWS: [Table; MAX_WINDOWS] = [const { Table::new() }; MAX_WINDOWS];
static WINDOW_START: Table = Table::new();

/// Builds the tables and enables translation and caches.
///
/// The first `own_bytes` of the window with the host are reserved for the monitors.
pub(super) fn enable(layout: MemoryLayout, windows: &WindowDevices, own_bytes: u64) {
    map_devices();
    map_memory(layout);
    for (table, window) in WINDOWS.iter().zip(windows.iter().flatten()) {
        map_window(table, window.places.window, window.window_bytes);
    }
    if let Some(own) = &windows[0] {
        map_window_start(own.window_bytes, own_bytes);
    }
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
            // Enables translation, data and instruction caches, and stack alignment checks.
            "orr {scratch}, {scratch}, #(1 << 0)",
            "orr {scratch}, {scratch}, #(1 << 2)",
            "orr {scratch}, {scratch}, #(1 << 12)",
            // Programs may read the cache line length, write lines back and invalidate them.
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
    let device = BLOCK | DEVICE | ACCESSED | EXECUTE_NEVER;
    for index in 0..GIB / BLOCK_BYTES {
        let address = DEVICES + index * BLOCK_BYTES;
        // The doorbell registers have a separate block, so that programs ring without a call.
        let rights = if address == REGISTERS_BASE { USER_ACCESS } else { 0 };
        FIRST_GIB.set(index, address | device | rights);
    }
    ROOT.set(DEVICES / GIB, FIRST_GIB.entry());
    ROOT.set(ECAM / GIB, (ECAM / GIB * GIB) | device);
}

fn map_memory(layout: MemoryLayout) {
    let start = layout.programs / GIB * GIB;
    for index in 0..GIB / BLOCK_BYTES {
        let address = start + index * BLOCK_BYTES;
        if address >= layout.end {
            break;
        }
        let is_program_memory = (layout.programs..layout.heap).contains(&address);
        let rights =
            if is_program_memory { USER_ACCESS | PRIVILEGED_EXECUTE_NEVER } else { USER_EXECUTE_NEVER };
        MEMORY.set(index, address | BLOCK | NORMAL | ACCESSED | rights);
    }
    ROOT.set(start / GIB, MEMORY.entry());
}

const WINDOW_MEMORY: u64 = NORMAL | ACCESSED | EXECUTE_NEVER;

const _: () = assert!(BarAddresses::WINDOW_UNIT_BYTES == GIB, "each window has a table of its own");

/// Maps a window for programs.
fn map_window(table: &Table, bus_address: u64, window_bytes: u64) {
    let memory = WINDOW_MEMORY | USER_ACCESS | BLOCK;
    let first = window_address(bus_address) / GIB;
    for index in 0..window_bytes.min(GIB).div_ceil(BLOCK_BYTES) {
        table.set(index, (bus_address + index * BLOCK_BYTES) | memory);
    }
    ROOT.set(first, table.entry());
    for index in 1..window_bytes.div_ceil(GIB) {
        ROOT.set(first + index, (bus_address + index * GIB) | memory);
    }
}

/// Maps the start of the window with the host by pages, omitting those reserved for the monitors.
fn map_window_start(window_bytes: u64, own_bytes: u64) {
    for index in 0..window_bytes.min(BLOCK_BYTES) / PAGE_BYTES {
        let offset = index * PAGE_BYTES;
        let rights = if offset < own_bytes { 0 } else { USER_ACCESS };
        WINDOW_START.set(index, (WINDOW_BASE + offset) | PAGE | WINDOW_MEMORY | rights);
    }
    WINDOWS[0].set(0, WINDOW_START.entry());
}
