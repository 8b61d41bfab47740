//! Bulk data between nodes, as `tombolo bench bulk` measures it.

pub mod command;
pub mod copies;
pub mod moving;
pub mod peer;
