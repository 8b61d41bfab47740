//! The process manager's side of PMI-1, by which the ranks of MPICH and its family find each other.
//!
//! Bytes in, bytes out: the caller carries them, starts what is to be started, and knows who has ended. What
//! a rank sends is an allegation: a line that is too long or makes no sense ends its job, with a sentence
//! that says what came.

mod mapping;
mod server;
mod spawn;
#[cfg(test)]
mod tests;
mod wire;

pub use mapping::process_mapping;
pub use server::{Event, MemberId, Phase, Refusal, Server, WorldId};
pub use spawn::SpawnCommand;
pub use wire::{MAX_LINE_BYTES, MAX_SPAWN_BYTES, Malformed};
