//! The monitor of a board without an operating system.
//!
//! It is to the root what a virtual machine's agent is: it takes programs out of the window, runs them one at a
//! time, passes their requests and output on, and says how they ended. All of it is logic over a
//! [`Board`](tombolo_platform_bare::board::Board), so that tests give it a board of their own making.
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
