//! The monitor of a board without an operating system.
//!
//! To the root it is an agent like that of a virtual machine: it takes programs out of the window, runs them
//! one at a time, forwards their requests and output, and reports their exit. All of it is generic over a
//! [`Board`](tombolo_platform_bare::board::Board), so tests can pass a simulated one.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod control_link;
mod node_monitor;
mod output;
mod running;
#[cfg(test)]
mod tests;

pub use node_monitor::{ExitReason, NodeMonitor};

/// Serves the board until the root is gone or orders it to stop, then powers the board off.
#[cfg(target_os = "none")]
pub fn serve(board: tombolo_platform_bare::board::Virt) -> ! {
    use tombolo_platform_bare::board::Board;

    let mut monitor = NodeMonitor::new(board);
    let why = monitor.serve();
    monitor.print_line(format_args!("board: {why}"));
    monitor.into_board().power_off()
}
