//! Workers of an OpenMP team as domains on the nodes of a machine.
//!
//! The program is an image of `tombolo ompcc`: its builds agree on the address of every function and variable. So a worker is the same
//! image, started on another node, with the program's variables and the arena mapped where the program has them. It is told what
//! to run by addresses, through the arena, as a thread would be; messages are only needed to start workers, and to wake those who
//! sleep in another kernel.
//!
//! The thread that the program began with is the [`hub`]: it starts domains, watches them, and passes wake-ups on. In a worker's
//! process that thread is an [`attendant`], which does what the hub says. Domains of a team trust each other as threads do: whoever
//! can write to the arena can do anything in all of them.

pub mod attendant;
pub mod desk;
pub mod hub;
pub mod memory;
pub mod message;
pub mod outbox;
pub mod place;
pub mod replica;
pub mod report;
pub mod request;

/// The environment variable by which a process learns that it is a worker, and of which job.
pub const JOIN: &str = "TOMBOLO_OMP_JOIN";

/// Channels between the hub and workers: short messages, waited for asleep.
pub(crate) fn channel_options() -> tombolo::ChannelOptions {
    tombolo::ChannelOptions::default().spin_ns(0)
}

/// Ends the process: what happened cannot be mended here.
pub(crate) fn fatal(text: impl std::fmt::Display) -> ! {
    tombolo_omp::sys::fatal(text)
}
