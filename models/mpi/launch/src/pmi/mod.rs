//! Process-manager side of PMI-1, the protocol by which ranks of MPICH and related libraries find each other.
//!
//! The code is sans-IO: the caller transfers bytes, starts programs and reports exits. Input from ranks is
//! not trusted: a line that is too long or malformed ends the job with an error that quotes it.

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
