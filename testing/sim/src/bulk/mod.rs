//! Bulk channels: the real sessions and tables of `protocol/bulk` over simulated channels, checked by a
//! reference model.
//!
//! The messages about buffers are real, and so are the rings and streams that carry them. The memory of pools
//! is not simulated: the revocation of a pool is an entry of the [`PoolModel`].

mod pools;
mod reference_model;

pub use pools::{BulkEnd, MIN_SLOTS, Pools};
pub use reference_model::PoolModel;
