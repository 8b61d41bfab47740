//! The monitor of a board without an operating system.
//!
//! To the root it is an agent like that of a virtual machine: it takes programs out of the window, runs them
//! one at a time, forwards their requests and output, and reports their exit. All of it is generic over a
//! [`Board`](tombolo_platform_bare::board::Board), so tests can pass a simulated one.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod leaf;
mod line;
mod output;
mod running;
#[cfg(test)]
mod tests;

pub use leaf::{Ended, Leaf};

/// Serves the board it runs on, until the root is gone or says to stop.
#[cfg(target_os = "none")]
pub fn serve(board: tombolo_platform_bare::board::Virt) -> ! {
    use tombolo_platform_bare::board::Board;

    let mut leaf = Leaf::new(board);
    let why = leaf.serve();
    leaf.say(format_args!("board: {why}"));
    leaf.into_board().power_off()
}
