//! Incoming message file (IMSIC) of machine mode, and the timer.

use core::arch::asm;

use crate::pci::MsiConfig;

/// Address of the first processor's message file.
const FILE: u64 = 0x2400_0000;
/// Addresses of the timer's compare and time registers.
const TIMER_COMPARE: u64 = 0x0200_4000;
/// Frequency of the timer, in Hz.
pub(super) const FREQUENCY_HZ: u64 = 10_000_000;

const ENABLE_DELIVERY: u64 = 0x70;
const THRESHOLD: u64 = 0x72;
const ENABLE: u64 = 0xc0;

/// Bits of external and timer interrupts in `mie`.
const EXTERNAL: u64 = 1 << 11;
const TIMER: u64 = 1 << 7;

/// Interrupt identity of vector 0; zero is reserved.
const FIRST: u32 = 1;

/// Writes a register of the message file, through its selector.
fn write_file(register: u64, value: u64) {
    // SAFETY: `miselect` and `mireg` affect only the message file.
    unsafe {
        asm!("csrw 0x350, {register}", "csrw 0x351, {value}", register = in(reg) register, value = in(reg) value,
            options(nostack));
    }
}

/// Enables the file, with a message for each of 64 vectors. Returns the parameters of the messages.
pub(super) fn set_up() -> MsiConfig {
    write_file(ENABLE_DELIVERY, 1);
    write_file(THRESHOLD, 0);
    // Identities 1 to 64: on a 64-bit processor the file has only even-numbered registers.
    write_file(ENABLE, !1);
    write_file(ENABLE + 2, 1);
    set_alarm(None);
    // SAFETY: interrupts are taken while a program runs, and end `wfi`; the monitor itself keeps them
    // masked.
    unsafe { asm!("csrs mie, {bits}", bits = in(reg) EXTERNAL | TIMER, options(nostack)) };
    MsiConfig { address: FILE, first: FIRST }
}

/// Claims all pending messages; returns one bit for each vector.
pub(super) fn acknowledge_all() -> u64 {
    let mut rung = 0;
    loop {
        let top: u64;
        // SAFETY: claims the first pending message, which affects only the file.
        unsafe { asm!("csrrw {top}, 0x35c, zero", top = out(reg) top, options(nostack)) };
        let identity = (top >> 16) as u32;
        match identity {
            0 => return rung,
            FIRST..65 => rung |= 1 << (identity - FIRST),
            _ => {}
        }
    }
}

/// Returns ticks of the timer since the board started.
pub(super) fn ticks() -> u64 {
    let ticks;
    // SAFETY: reading the time has no side effects.
    unsafe { asm!("rdtime {ticks}", ticks = out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// Sets the tick of the next timer interrupt, or disables it.
pub(super) fn set_alarm(at_tick: Option<u64>) {
    // SAFETY: the aligned compare register of the first processor; it affects only the timer's interrupt.
    unsafe { (TIMER_COMPARE as *mut u64).write_volatile(at_tick.unwrap_or(u64::MAX)) };
}

/// Lets programs read the time, but no other counter.
pub(super) fn allow_user_clock_reads() {
    // A supervisor mode, where present, must permit it too.
    // SAFETY: affects only the rights of programs.
    unsafe {
        asm!("csrw mcounteren, {bits}", "csrw scounteren, {bits}", bits = in(reg) 0b10_u64,
            options(nomem, nostack));
    }
}

/// Returns whether an interrupt is pending.
pub(super) fn is_pending() -> bool {
    let pending: u64;
    // SAFETY: reading which interrupts are pending has no side effects.
    unsafe { asm!("csrr {pending}, mip", pending = out(reg) pending, options(nomem, nostack)) };
    pending & (EXTERNAL | TIMER) != 0
}

/// Waits until an interrupt is pending; returns immediately if one is.
pub(super) fn wait() {
    // SAFETY: interrupts stay masked: none is taken, and a pending one ends the wait. The fence completes
    // earlier stores, including the announcement of this sleep.
    unsafe { asm!("fence", "wfi", options(nostack)) };
}
