//! Workers of an OpenMP team as domains on the nodes of a machine.
//!
//! The program is an image of `tombolo ompcc`, in whose builds each function and variable has the same
//! address. A worker is the same image, started on another node, with the program's variables and the arena
//! mapped at the program's addresses. It receives work as addresses, through the arena, as a thread would.
//! Messages only start workers, and wake those that sleep in another kernel.
//!
//! Nodes without memory in common have pages in place of the shared memory, which are [sent] by
//! messages when they are used.
//!
//! The program's first thread is the [`hub`]: it starts domains, watches them, and forwards wake-ups. In a
//! worker's process that thread is a [`worker_main`], which executes the hub's requests. The domains of a
//! team trust each other as threads do: any domain that can write to the arena controls all of them.

pub mod calls;
mod death;
pub mod hub;
pub mod memory;
pub mod message;
pub mod outbox;
pub mod place;
pub mod replica;
pub mod report;
pub mod request;
pub mod send_queue;
pub mod sent;
pub mod worker_main;

/// The environment variable by which a process learns that it is a worker, and of which job.
pub const JOIN: &str = "TOMBOLO_OMP_JOIN";

/// Channels between the hub and workers: short messages, waited for asleep.
pub(crate) fn channel_options() -> tombolo::ChannelOptions {
    tombolo::ChannelOptions::default().spin_ns(0)
}

/// Ends the process: what happened cannot be mended here.
pub(crate) fn fatal(text: impl std::fmt::Display) -> ! {
    tombolo_omp_team::primitives::sys::fatal(text)
}
