//! Support for boards without an operating system.
//!
//! Two programs share such a board and this crate. The *board's monitor* runs with all privileges: it finds
//! the window on the PCI bus, handles interrupts, writes to the console, and runs for as long as the board
//! does. A *program* runs without privileges, in memory of its own, with access to the window and its
//! doorbell register and nothing else; it makes [calls](call) to the monitor. A program that faults or does
//! not end is removed from the board; the monitor continues.
//!
//! * [`board`] is the monitor's side. Each instruction set has a folder of its own.
//! * [`program`] is the program's side.
//!
//! [`pci`], [`fdt`], [`console`] and [`elf`], which do not depend on the processor, are tested on any host.
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
