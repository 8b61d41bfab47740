//! QEMU's `virt` board of the RISC-V architecture, with its advanced interrupt architecture.
//!
//! The monitor runs in machine mode and programs in user mode. Physical memory protection limits what a
//! program can access; which addresses are memory and which are devices is fixed by the board.

mod interrupts;
mod protection;

use alloc::vec::Vec;
use core::arch::global_asm;

use super::device::{self, Devices, Ecam, write_device};
use super::start::fatal;
use super::{Board, BoardError, Fault, MemoryLayout, Sleep, Trap, Window};
use crate::{fdt, pci, ticks};

extern crate alloc;

global_asm!(include_str!("boot.s"));

const UART: u64 = 0x1000_0000;
const ECAM: u64 = 0x3000_0000;
const REGISTERS_BASE: u64 = 0x4000_0000;
const INTERRUPTS_BASE: u64 = 0x4010_0000;
const WINDOW_BASE: u64 = 0x4_0000_0000;
/// Size of the board's address range for windows.
const WINDOW_SPACE_BYTES: u64 = 16 << 30;
/// Address of the device that ends the emulation.
const FINISHER: u64 = 0x0010_0000;

/// Saved registers of a program.
#[repr(C)]
#[derive(Debug)]
struct Registers {
    general: [u64; 32],
    float: [u64; 32],
    instruction: u64,
    float_control: u64,
}

const NO_REGISTERS: Registers =
    Registers { general: [0; 32], float: [0; 32], instruction: 0, float_control: 0 };

const _: () = {
    assert!(core::mem::offset_of!(Registers, float) == 256);
    assert!(core::mem::offset_of!(Registers, instruction) == 512);
    assert!(core::mem::offset_of!(Registers, float_control) == 520);
};

// SAFETY: defined in `boot.s` with these parameters and this result.
unsafe extern "C" {
    fn tombolo_board_run(registers: *mut Registers) -> u64;
}

/// QEMU's `virt` board for RISC-V.
#[derive(Debug)]
pub struct Virt {
    layout: MemoryLayout,
    windows: Vec<Window>,
    registers: Registers,
}

impl Virt {
    /// Initialises the board: memory, windows, interrupts, protection. `heap` receives its part of memory.
    pub(super) fn bring_up(
        tree_address: u64,
        own_window_bytes: u64,
        heap: impl FnOnce(u64, usize),
    ) -> Result<Virt, BoardError> {
        let layout = MemoryLayout::of(memory_of_board(tree_address).ok_or(BoardError::NoMemory)?)?;
        let messages = interrupts::set_up();
        let places =
            pci::BarAddresses { registers: REGISTERS_BASE, interrupts: INTERRUPTS_BASE, window: WINDOW_BASE };
        let devices = pci::set_up(&mut Ecam(ECAM), &mut Devices, places, WINDOW_SPACE_BYTES, messages)?;
        interrupts::allow_user_clock_reads();
        protection::set_up(layout, &devices, own_window_bytes);
        heap(layout.heap, (layout.end - layout.heap) as usize);
        // SAFETY: the memory of the devices' windows is at these addresses, and the monitor accesses it only
        // through these objects.
        let windows = unsafe { device::windows(&devices, |device| device.places.window) };
        Ok(Virt { layout, windows, registers: NO_REGISTERS })
    }
}

/// Returns the memory according to the device tree.
fn memory_of_board(tree_address: u64) -> Option<(u64, u64)> {
    let address = tree_address as *const u8;
    if address.is_null() || !address.is_aligned() {
        return None;
    }
    // SAFETY: the emulator put the tree into memory and its address into the register that this came from;
    // a header, or other memory, is there.
    let header = unsafe { core::slice::from_raw_parts(address, fdt::HEADER_BYTES) };
    let length_bytes = fdt::length_bytes(header)?;
    // SAFETY: as above, for the length that the header states. Nothing was written above the monitor's
    // image yet.
    fdt::memory(unsafe { core::slice::from_raw_parts(address, length_bytes) })
}

impl Board for Virt {
    fn now_ns(&self) -> u64 {
        ticks::ticks_to_ns(interrupts::ticks(), interrupts::FREQUENCY_HZ)
    }

    fn sleep(&mut self, until_ns: Option<u64>) {
        let at_tick = |until_ns| ticks::ns_to_tick(until_ns, interrupts::FREQUENCY_HZ);
        let set_alarm = |until_ns: Option<u64>| interrupts::set_alarm(until_ns.map(at_tick));
        Sleep::of(self.now_ns(), until_ns).run(set_alarm, interrupts::wait, interrupts::is_pending);
    }

    fn take_doorbells(&mut self) -> u64 {
        interrupts::acknowledge_all()
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
        self.registers = NO_REGISTERS;
        self.registers.general[2] = stack;
        self.registers.general[10] = argument;
        self.registers.instruction = entry;
        // SAFETY: data that was written is about to be executed: the processor must fetch it anew.
        unsafe { core::arch::asm!("fence.i", options(nostack)) };
    }

    fn run(&mut self) -> Trap {
        // SAFETY: runs the program in user mode, so that it can access its own memory and the window but
        // nothing of the monitor's; returns with the monitor's registers restored.
        let cause = unsafe { tombolo_board_run(&raw mut self.registers) };
        let general = &self.registers.general;
        match cause {
            8 => Trap::Call {
                number: general[17],
                arguments: [general[10], general[11], general[12], general[13]],
            },
            0 | 4 | 6 => self.fault(cause, "used an unaligned address", 7),
            1 => self.fault(cause, "executed memory that is not its own", 11),
            2 => self.fault(cause, "executed an illegal instruction", 4),
            3 => self.fault(cause, "ran a breakpoint", 5),
            5 | 7 | 12 | 13 | 15 => self.fault(cause, "accessed memory that is not its own", 11),
            _ if cause >> 63 == 1 => Trap::Interrupt,
            _ => self.fault(cause, "a system error", 7),
        }
    }

    fn set_return_value(&mut self, value: u64) {
        self.registers.general[10] = value;
        // The call instruction is four bytes long and must not be executed again.
        self.registers.instruction += 4;
    }

    fn power_off(&mut self) -> ! {
        power_off()
    }
}

impl Virt {
    fn fault(&self, syndrome: u64, what: &'static str, signal: u8) -> Trap {
        let address: u64;
        // SAFETY: reading the trap value has no side effects.
        unsafe { core::arch::asm!("csrr {it}, mtval", it = out(reg) address, options(nomem, nostack)) };
        Trap::Fault(Fault { what, signal, instruction: self.registers.instruction, address, syndrome })
    }
}

/// Writes a byte to the serial line.
pub(super) fn write_console(byte: u8) {
    const STATUS: u64 = UART + 5;
    const EMPTY: u8 = 1 << 5;
    // SAFETY: the line's registers, which are one byte wide.
    unsafe {
        while (STATUS as *const u8).read_volatile() & EMPTY == 0 {}
        (UART as *mut u8).write_volatile(byte);
    }
}

/// Powers the board off.
pub(super) fn power_off() -> ! {
    const PASS: u32 = 0x5555;
    write_device(FINISHER, PASS);
    loop {
        interrupts::wait();
    }
}

/// Handles an exception of the monitor itself.
#[unsafe(no_mangle)]
extern "C" fn tombolo_board_own_fault(cause: u64, instruction: u64, address: u64) -> ! {
    fatal(format_args!("exception {cause:#x} of the board's monitor at {instruction:#x}, about {address:#x}"))
}
