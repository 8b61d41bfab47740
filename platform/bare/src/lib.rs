//! Boards without an operating system: processor, interrupts, PCI, console.
//!
//! Two programs share a board and this crate. The *board's monitor* runs with the processor's privileges: it
//! finds the window on the PCI bus, handles interrupts and writes to the console. A *program* runs without
//! privileges in its own memory. It can access the window and its doorbell register and nothing else, and
//! requests the rest from the monitor by [calls](call). The monitor ends a program that faults or does not
//! stop, and continues to run.
//!
//! * [`board`] is the monitor's half. Each instruction set has its own folder.
//! * [`program`] is the program's half.
//!
//! [`pci`], [`fdt`], [`console`], [`elf`], [`ticks`] and [`bytes`] do not depend on a processor and are
//! tested on any host.
#![cfg_attr(not(test), no_std)]

pub mod board;
pub mod bytes;
pub mod call;
pub mod console;
pub mod elf;
pub mod fdt;
pub mod pci;
pub mod program;
pub mod ticks;

#[cfg(target_os = "none")]
mod heap;
#[cfg(target_os = "none")]
mod panic;
