//! Bulk channels: the real sessions and tables of `protocol/bulk` over simulated channels, and a checker
//! beside them.
//!
//! What programs say about buffers is real, as are the rings and streams that it travels on. Memory is not:
//! that a pool is taken away from a program is an entry of the [`Book`].

mod book;
mod pools;

pub use book::Book;
pub use pools::{BulkEnd, MIN_SLOTS, Pools};
