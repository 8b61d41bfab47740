//! Boards without an operating system: what there is of one to stand on.
//!
//! Two programs share such a board and this crate. The *board's monitor* has the processor's privileges: it
//! finds the window on the PCI bus, takes interrupts, writes to the console, and is never switched off. A
//! *program* runs without privileges, in memory of its own, with the window and its doorbell register in reach
//! and nothing else; it asks the monitor by [calls](call). A program that goes wrong, or will not end, is taken
//! off the board; the monitor goes on.
//!
//! * [`board`] is the monitor's half. Each instruction set has a folder of its own.
//! * [`program`] is the program's half.
//!
//! What needs no processor, [`pci`], [`fdt`], [`console`] and [`elf`], is tested on any host.
#![cfg_attr(not(test), no_std)]

pub mod board;
pub mod call;
pub mod console;
pub mod elf;
pub mod fdt;
pub mod pci;
pub mod program;

#[cfg(target_os = "none")]
mod heap;
#[cfg(target_os = "none")]
mod panic;
