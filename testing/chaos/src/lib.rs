//! A machine kept busy by a crowd of domains, of which something is killed again and again: domains, the monitors
//! of nodes, virtual machines, the root, commands half-way through.
//!
//! What has to hold is checked from outside, by a program that knows when it killed what: whoever had a channel to a
//! victim says that it died, and when; nobody else fails; nothing hangs; what was restarted has a new generation;
//! the monitor that stays gets no larger; and in the end nothing is left.

pub mod arguments;
mod crowd;
mod endings;
mod flat;
mod kill;
mod late;
mod latency;
mod pause;
mod sample;
mod state;
mod watchdog;

pub use arguments::Arguments;
pub use state::{Chaos, Summary};

/// Nanoseconds on the monotonic clock that all processes of this kernel share.
fn monotonic_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
