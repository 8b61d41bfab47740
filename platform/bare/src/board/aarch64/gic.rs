//! Interrupt controller (version 2) with its message frame, and the timer.

use core::arch::asm;

use crate::board::device::{read_device, write_device};
use crate::pci::MsiConfig;

const DISTRIBUTOR: u64 = 0x0800_0000;
const CPU_INTERFACE: u64 = 0x0801_0000;
const MSI_FRAME: u64 = 0x0802_0000;

const ENABLE_SET: u64 = DISTRIBUTOR + 0x100;
const PRIORITY: u64 = DISTRIBUTOR + 0x400;
const TARGETS: u64 = DISTRIBUTOR + 0x800;
const CONFIGURATION: u64 = DISTRIBUTOR + 0xc00;
const ACKNOWLEDGE: u64 = CPU_INTERFACE + 0xc;
const END_OF_INTERRUPT: u64 = CPU_INTERFACE + 0x10;

/// Interrupt number of the virtual timer.
const TIMER: u32 = 27;

/// First of the special interrupt numbers.
const FIRST_SPECIAL: u32 = 1020;

/// Returns the range of message interrupts, from the frame's type register.
fn msi_range() -> (u32, u32) {
    let kind = read_device(MSI_FRAME + 0x8);
    (kind >> 16 & 0x3ff, kind & 0x3ff)
}

/// Enables the controller, with an interrupt for each vector. Returns the message parameters that raise them.
pub(super) fn set_up(vectors: u16) -> MsiConfig {
    let (first, count) = msi_range();
    for number in first..first + u32::from(vectors).min(count) {
        let (word, within) = (u64::from(number / 32 * 4), number % 32);
        // Messages are pulses, so edge-triggered.
        let configuration = CONFIGURATION + u64::from(number / 16 * 4);
        write_device(configuration, read_device(configuration) | 0b10 << (number % 16 * 2));
        set_byte(PRIORITY, number, 0x80);
        set_byte(TARGETS, number, 1);
        write_device(ENABLE_SET + word, 1 << within);
    }
    set_byte(PRIORITY, TIMER, 0x80);
    write_device(ENABLE_SET, 1 << TIMER);
    write_device(CPU_INTERFACE + 0x4, 0xff);
    write_device(CPU_INTERFACE, 1);
    write_device(DISTRIBUTOR, 1);
    MsiConfig { address: MSI_FRAME + 0x40, first }
}

fn set_byte(registers: u64, number: u32, value: u32) {
    let address = registers + u64::from(number / 4 * 4);
    let shift = number % 4 * 8;
    write_device(address, read_device(address) & !(0xff << shift) | value << shift);
}

/// Acknowledges all pending interrupts; returns the messages among them, one bit for each vector.
pub(super) fn acknowledge_all() -> u64 {
    let (first, _) = msi_range();
    let mut rung = 0;
    loop {
        let acknowledged = read_device(ACKNOWLEDGE);
        let number = acknowledged & 0x3ff;
        if number >= FIRST_SPECIAL {
            return rung;
        }
        if number == TIMER {
            set_alarm(None);
        } else if (first..first + 64).contains(&number) {
            rung |= 1 << (number - first);
        }
        write_device(END_OF_INTERRUPT, acknowledged);
    }
}

/// Returns ticks of the timer since the board started.
pub(super) fn ticks() -> u64 {
    let ticks;
    // SAFETY: reading a counter has no side effects.
    unsafe { asm!("isb", "mrs {ticks}, cntvct_el0", ticks = out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// Returns the timer's frequency, in Hz.
pub(super) fn frequency_hz() -> u64 {
    let frequency: u64;
    // SAFETY: as above.
    unsafe { asm!("mrs {it}, cntfrq_el0", it = out(reg) frequency, options(nomem, nostack, pure)) };
    frequency.max(1)
}

/// Sets the tick of the next timer interrupt, or disables it.
pub(super) fn set_alarm(at_tick: Option<u64>) {
    let control = u64::from(at_tick.is_some());
    // SAFETY: the timer's registers affect only its interrupt.
    unsafe {
        asm!(
            "msr cntv_cval_el0, {at}",
            "msr cntv_ctl_el0, {control}",
            "isb",
            at = in(reg) at_tick.unwrap_or(u64::MAX),
            control = in(reg) control,
            options(nomem, nostack)
        );
    }
}

/// Lets programs read the counter, but no other timer register.
pub(super) fn allow_user_clock_reads() {
    // SAFETY: affects only the rights of programs.
    unsafe { asm!("msr cntkctl_el1, {bits}", bits = in(reg) 0b10_u64, options(nomem, nostack)) };
}

/// Returns whether an interrupt is pending.
pub(super) fn is_pending() -> bool {
    let status: u64;
    // SAFETY: reading which interrupts are pending has no side effects.
    unsafe { asm!("mrs {status}, isr_el1", status = out(reg) status, options(nomem, nostack)) };
    status & 1 << 7 != 0
}

/// Waits until an interrupt is pending; returns immediately if one is.
pub(super) fn wait() {
    // SAFETY: interrupts stay masked: none is taken, and a pending one ends the wait. The barrier completes
    // earlier stores, including the announcement of this sleep.
    unsafe { asm!("dsb sy", "wfi", options(nostack)) };
}
