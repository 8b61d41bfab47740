//! Workers of an OpenMP team as domains on the nodes of a machine.
//!
//! The program is an image built by `tombolo ompcc`: each function and variable has the same address in all
//! of its builds. A worker is the same image, started on another node, with the program's variables and the
//! arena mapped at the program's addresses. It receives work through the arena as plain addresses, as a
//! thread would. Messages only start workers and wake threads that sleep in another kernel.
//!
//! Nodes without common memory use pages in place of shared memory; a page is [sent](paged_memory) in
//! messages when it is accessed.
//!
//! The program's first thread is the [`hub`]: it starts domains, watches them, and forwards wake-ups. In a
//! worker's process the first thread is a [`worker_main`], which executes the hub's requests. The domains of
//! a team trust each other as threads do: any domain that can write to the arena controls all of them.

pub mod calls;
mod death;
pub mod hub;
pub mod memory;
pub mod message;
pub mod node_selection;
pub mod outbox;
pub mod paged_memory;
pub mod replica;
pub mod report;
pub mod request;
pub mod send_queue;
pub mod worker_main;

/// Environment variable that makes a process a worker: its number and the endpoints of the job's hub.
pub const JOIN_VARIABLE: &str = "TOMBOLO_OMP_JOIN";

/// Options of the channels between the hub and workers: short messages, received without spinning.
pub(crate) fn channel_options() -> tombolo::ChannelOptions {
    tombolo::ChannelOptions::default().spin_ns(0)
}

/// Aborts the process: the error is unrecoverable at this point.
pub(crate) fn fatal(text: impl std::fmt::Display) -> ! {
    tombolo_omp_team::primitives::sys::fatal(text)
}
