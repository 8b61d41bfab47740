//! Nodes as devices: regions and data of `target` constructs on nodes other than the master's.
//!
//! Device `k` is node `k + 1`; the host is numbered after the last device. A construct for a device becomes
//! a [command](command::Command) that a thread of that node executes: it maps the data ([`mapping`]) and runs
//! the region, whose teams get threads of that node only. Memory shared by all workers need not be copied. A
//! device has copies of what it cannot reach, or of everything if devices are to behave as if they had memory
//! of their own (`OMP_TOMBOLO_TARGET=copy`).

pub mod calls;
pub mod command;
pub mod exceptions;
pub mod mapping;
pub mod memory;
pub mod migrate;
mod migration;
pub mod one_thread_team;
pub mod threads;
