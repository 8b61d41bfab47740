//! The parts of Linux that Tombolo uses: sealed shared memory, local sockets, event counters, processes and,
//! inside a virtual machine, the window.
//!
//! One of the few crates that may contain `unsafe`. It contains no protocol.

pub mod additions;
pub mod allocations;
pub mod barrier;
pub mod clock;
pub mod confined;
pub mod copy;
pub mod device;
pub mod epoll;
pub mod error;
pub mod event;
pub mod futex;
pub mod guest;
mod lock;
pub mod memory;
pub mod meters;
pub mod process;
pub mod sealed;
pub mod shared_window;
pub mod socket;
pub mod syscall_counter;
pub mod thread;
pub mod time;

/// Reports a feature that this kernel lacks, bypassing the test harness, which hides the output of passing
/// tests.
#[cfg(test)]
fn report_unsupported(what: &str) {
    let _ = std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("\nUNSUPPORTED {what}\n"));
}

pub use error::{Context, OsError};
pub use lock::lock_unpoisoned;
pub use rustix::io::Errno;
pub use rustix::process::Signal;
pub use time::Deadline;
