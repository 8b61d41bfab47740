//! QEMU's `virt` board of the Arm architecture.

mod gic;
mod mmu;

use alloc::vec::Vec;
use core::arch::global_asm;

use super::device::{self, Devices, Ecam, read_device, write_device};
use super::start::fatal;
use super::{Board, BoardError, Fault, MemoryLayout, Sleep, Trap, Window};
use crate::{fdt, pci, ticks};

extern crate alloc;

global_asm!(include_str!("boot.s"));

const MEMORY: u64 = 0x4000_0000;
const DEVICES: u64 = 0;
const UART: u64 = 0x0900_0000;
const ECAM: u64 = 0x40_1000_0000;
/// Address of the registers of all windows, which have a separate translation block, see `mmu`.
const REGISTERS_BASE: u64 = 0x1020_0000;
const INTERRUPTS_BASE: u64 = 0x1000_0000;
const WINDOW_BASE: u64 = 0x80_0000_0000;

/// Size of the address range for windows, see `mmu`.
const WINDOW_SPACE_BYTES: u64 = 256 << 30;

/// Maximum number of message vectors of the board.
const MAX_VECTORS: u16 = 64;

/// Saved registers of a program.
#[repr(C)]
#[derive(Debug)]
struct Registers {
    general: [u64; 31],
    stack: u64,
    instruction: u64,
    state: u64,
    float_control: u64,
    float_status: u64,
    float: [u128; 32],
}

const NO_REGISTERS: Registers = Registers {
    general: [0; 31],
    stack: 0,
    instruction: 0,
    state: 0,
    float_control: 0,
    float_status: 0,
    float: [0; 32],
};

const _: () = {
    assert!(core::mem::offset_of!(Registers, stack) == 248);
    assert!(core::mem::offset_of!(Registers, state) == 264);
    assert!(core::mem::offset_of!(Registers, float_control) == 272);
    assert!(core::mem::offset_of!(Registers, float) == 288);
};

// SAFETY: defined in `boot.s` with these parameters and this result.
unsafe extern "C" {
    fn tombolo_board_run(registers: *mut Registers) -> u64;
}

/// QEMU's `virt` board for Arm.
#[derive(Debug)]
pub struct Virt {
    layout: MemoryLayout,
    windows: Vec<Window>,
    registers: Registers,
    frequency_hz: u64,
}

impl Virt {
    /// Initialises the board: memory, windows, interrupts, address translation. `heap` receives its part of
    /// memory.
    ///
    /// The emulator places the device tree at the start of memory, without passing its address.
    pub(super) fn bring_up(
        _tree_address: u64,
        own_window_bytes: u64,
        heap: impl FnOnce(u64, usize),
    ) -> Result<Virt, BoardError> {
        let layout = MemoryLayout::of(memory_of_board().ok_or(BoardError::NoMemory)?)?;
        let messages = gic::set_up(MAX_VECTORS);
        let places =
            pci::BarAddresses { registers: REGISTERS_BASE, interrupts: INTERRUPTS_BASE, window: WINDOW_BASE };
        let devices = pci::set_up(&mut Ecam(ECAM), &mut Devices, places, WINDOW_SPACE_BYTES, messages)?;
        gic::allow_user_clock_reads();
        mmu::enable(layout, &devices, own_window_bytes);
        heap(layout.heap, (layout.end - layout.heap) as usize);
        // SAFETY: `mmu` has mapped every window there, and the monitor accesses it only by this mapping.
        let windows =
            unsafe { device::windows(&devices, |device| mmu::window_address(device.places.window)) };
        Ok(Virt { layout, windows, registers: NO_REGISTERS, frequency_hz: gic::frequency_hz() })
    }
}

/// Returns the memory according to the device tree, which lies at the start of memory.
fn memory_of_board() -> Option<(u64, u64)> {
    let address = MEMORY as *const u8;
    // SAFETY: memory begins here, and only the tree, which the emulator put there, precedes the monitor's
    // image: two MiB. Nothing writes there while it is read.
    let tree = unsafe { core::slice::from_raw_parts(address, 2 << 20) };
    fdt::memory(tree)
}

impl Board for Virt {
    fn now_ns(&self) -> u64 {
        ticks::ticks_to_ns(gic::ticks(), self.frequency_hz)
    }

    fn sleep(&mut self, until_ns: Option<u64>) {
        let at_tick = |until_ns| ticks::ns_to_tick(until_ns, self.frequency_hz);
        let set_alarm = |until_ns: Option<u64>| gic::set_alarm(until_ns.map(at_tick));
        Sleep::of(self.now_ns(), until_ns).run(set_alarm, gic::wait, gic::is_pending);
    }

    fn take_doorbells(&mut self) -> u64 {
        gic::acknowledge_all()
    }

    fn ring(&self, window: &Window, peer: u16, vector: u16) {
        device::ring(window, peer, vector);
    }

    fn own_peer(&self, window: &Window) -> u16 {
        device::own_peer(window)
    }

    fn windows(&self) -> &[Window] {
        &self.windows
    }

    fn write_console(&mut self, byte: u8) {
        write_console(byte);
    }

    fn program_memory(&mut self) -> (u64, &mut [u8]) {
        let MemoryLayout { programs, heap, .. } = self.layout;
        // SAFETY: this part of memory belongs to programs, and none runs while the monitor does; the borrow
        // of the board prevents it from running one.
        let bytes =
            unsafe { core::slice::from_raw_parts_mut(programs as *mut u8, (heap - programs) as usize) };
        (programs, bytes)
    }

    fn prepare(&mut self, entry: u64, stack: u64, argument: u64) {
        self.registers = Registers { stack, instruction: entry, ..NO_REGISTERS };
        self.registers.general[0] = argument;
        // SAFETY: data that was written is about to be executed: makes the instruction cache agree with the
        // data cache.
        unsafe { core::arch::asm!("dsb ish", "ic iallu", "dsb ish", "isb", options(nostack)) };
    }

    fn run(&mut self) -> Trap {
        // SAFETY: runs the program without privileges, so that it can access its own memory and the window
        // but nothing of the monitor's; returns with the monitor's registers restored.
        let kind = unsafe { tombolo_board_run(&raw mut self.registers) };
        match kind {
            0 => self.synchronous(),
            1 => Trap::Interrupt,
            _ => Trap::Fault(self.fault("a system error", 7)),
        }
    }

    fn set_return_value(&mut self, value: u64) {
        self.registers.general[0] = value;
    }

    fn power_off(&mut self) -> ! {
        power_off()
    }
}

impl Virt {
    fn synchronous(&self) -> Trap {
        let general = &self.registers.general;
        match syndrome() >> 26 & 0x3f {
            0x15 => {
                Trap::Call { number: general[8], arguments: [general[0], general[1], general[2], general[3]] }
            }
            0x20 => Trap::Fault(self.fault("executed memory that is not its own", 11)),
            0x24 => Trap::Fault(self.fault("accessed memory that is not its own", 11)),
            0x22 | 0x26 => Trap::Fault(self.fault("used an unaligned address", 7)),
            0x3c => Trap::Fault(self.fault("ran a breakpoint", 5)),
            _ => Trap::Fault(self.fault("executed an illegal instruction", 4)),
        }
    }

    fn fault(&self, what: &'static str, signal: u8) -> Fault {
        let address: u64;
        // SAFETY: reading the fault address has no side effects.
        unsafe { core::arch::asm!("mrs {it}, far_el1", it = out(reg) address, options(nomem, nostack)) };
        Fault { what, signal, instruction: self.registers.instruction, address, syndrome: syndrome() }
    }
}

fn syndrome() -> u64 {
    let syndrome: u64;
    // SAFETY: as above.
    unsafe { core::arch::asm!("mrs {it}, esr_el1", it = out(reg) syndrome, options(nomem, nostack)) };
    syndrome
}

/// Writes a byte to the serial line.
pub(super) fn write_console(byte: u8) {
    const DATA: u64 = UART;
    const FLAGS: u64 = UART + 0x18;
    const FULL: u32 = 1 << 5;
    while read_device(FLAGS) & FULL != 0 {}
    write_device(DATA, byte.into());
}

/// Powers the board off.
pub(super) fn power_off() -> ! {
    const SYSTEM_OFF: u64 = 0x8400_0008;
    // SAFETY: the call ends the emulation; nothing runs afterwards.
    unsafe { core::arch::asm!("hvc #0", in("x0") SYSTEM_OFF, options(nomem, nostack)) };
    loop {
        gic::wait();
    }
}

/// Handles an exception of the monitor itself.
#[unsafe(no_mangle)]
extern "C" fn tombolo_board_own_fault(kind: u64, syndrome: u64, instruction: u64, address: u64) -> ! {
    fatal(format_args!(
        "exception {kind} of the board's monitor at {instruction:#x}, about {address:#x}, syndrome {syndrome:#x}"
    ))
}
