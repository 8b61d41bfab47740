//! Interrupts: the machine's file of incoming messages, and the timer.

use core::arch::asm;

use crate::pci::Messages;

/// Where the first processor's file is written to.
const FILE: u64 = 0x2400_0000;
/// The timer: when it interrupts, and what time it is.
const TIMER_COMPARE: u64 = 0x0200_4000;
/// Ticks of the timer in a second.
pub(super) const FREQUENCY_HZ: u64 = 10_000_000;

const ENABLE_DELIVERY: u64 = 0x70;
const THRESHOLD: u64 = 0x72;
const ENABLE: u64 = 0xc0;

/// External interrupts, and those of the timer, in `mie`.
const EXTERNAL: u64 = 1 << 11;
const TIMER: u64 = 1 << 7;

/// Identity of the message for vector 0; zero is none.
const FIRST: u32 = 1;

/// Registers of the file are reached through a selector.
fn write_file(register: u64, value: u64) {
    // SAFETY: `miselect` and `mireg` concern the file of messages only.
    unsafe {
        asm!("csrw 0x350, {register}", "csrw 0x351, {value}", register = in(reg) register, value = in(reg) value,
            options(nostack));
    }
}

/// Switches the file on, with a message for each of 64 vectors; returns how they are sent.
pub(super) fn set_up() -> Messages {
    write_file(ENABLE_DELIVERY, 1);
    write_file(THRESHOLD, 0);
    // Identities 1 to 63, and 64: the files of a 64-bit processor have registers with even numbers only.
    write_file(ENABLE, !1);
    write_file(ENABLE + 2, 1);
    set_alarm(None);
    // SAFETY: interrupts are taken while a program runs, and end `wfi`; the monitor itself has them masked.
    unsafe { asm!("csrs mie, {bits}", bits = in(reg) EXTERNAL | TIMER, options(nostack)) };
    Messages { address: FILE, first: FIRST }
}

/// Takes all pending messages; returns a bit for each vector.
pub(super) fn take() -> u64 {
    let mut rung = 0;
    loop {
        let top: u64;
        // SAFETY: claims the first pending message, which concerns the file only.
        unsafe { asm!("csrrw {top}, 0x35c, zero", top = out(reg) top, options(nostack)) };
        let identity = (top >> 16) as u32;
        match identity {
            0 => return rung,
            FIRST..65 => rung |= 1 << (identity - FIRST),
            _ => {}
        }
    }
}

/// Ticks of the timer since the board was started.
pub(super) fn ticks() -> u64 {
    let ticks;
    // SAFETY: reading the time changes nothing.
    unsafe { asm!("rdtime {ticks}", ticks = out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// Interrupts at that tick; or not any more.
pub(super) fn set_alarm(at_tick: Option<u64>) {
    // SAFETY: the compare register of the first processor, aligned; it concerns the timer's interrupt only.
    unsafe { (TIMER_COMPARE as *mut u64).write_volatile(at_tick.unwrap_or(u64::MAX)) };
}

/// Lets programs read the time, and no other counter.
pub(super) fn show_clock_to_programs() {
    // Where there is a supervisor mode, it has a say in it too.
    // SAFETY: rights of programs only.
    unsafe {
        asm!("csrw mcounteren, {bits}", "csrw scounteren, {bits}", bits = in(reg) 0b10_u64,
            options(nomem, nostack));
    }
}

/// Waits until an interrupt is pending, which it may be already.
pub(super) fn wait() {
    // SAFETY: interrupts stay masked: none is taken, and one that is pending ends the wait. The fence completes
    // what was written before, announcements of this sleep among it.
    unsafe { asm!("fence", "wfi", options(nostack)) };
}
