//! Kills parts of a busy machine again and again: domains, the monitors of nodes, virtual machines, the root,
//! commands in the middle of their work.
//!
//! A program outside the machine, which knows what it killed and when, checks the results: each peer of a
//! killed domain reports its death, in time; no other domain fails; nothing hangs; a node that was restarted
//! has a new generation; the memory of the remaining monitor does not grow; and nothing is left over at the
//! end.

pub mod arguments;
mod board;
mod endings;
mod flat;
mod kill;
mod late;
mod latency;
mod pause;
mod population;
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
