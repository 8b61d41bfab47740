//! The ring of a channel, as `tombolo bench ring` measures it.

mod arguments;
pub mod command;
pub mod end;
pub mod lead;
pub mod peer;

pub use arguments::{PeerArguments, Shape};
