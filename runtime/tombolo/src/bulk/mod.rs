//! Bulk data: buffers that go from domain to domain without being copied.
//!
//! A [`Pool`] is a number of equal buffers. It is assigned to channels that are made for bulk data,
//! [`BulkChannel`]s, and from then on what travels is the right to a buffer:
//!
//! | verb | what goes over | afterwards here |
//! |---|---|---|
//! | [move](BulkChannel::move_to) | the right to read and write, with the content | nothing |
//! | [share](BulkChannel::share) | a right to read | a right to read; to write again when all are released |
//! | [pass](BulkChannel::pass) | the right to read and write; the content means nothing any more | nothing |
//! | [release](BulkChannel::release) | a right to read goes back | nothing |
//!
//! How far the ends trust each other is said when pool and channel are made: [`Trust::Full`] maps a pool
//! once, and no system call is made for a transfer; with [`Trust::None`] each buffer is memory of its own,
//! which the kernel keeps all others from writing; with [`Trust::Half`] each is memory of its own, which a
//! domain maps when it is first sent to it, and can reach from then on.

mod arrival;
mod buffer;
mod channel;
mod content;
mod future;
mod hear;
mod memory;
mod open;
mod options;
mod pool;
mod receive;
#[cfg(test)]
mod tests;
mod transfer;
mod transfers;
mod values;

pub use tombolo_bulk::session::BulkSendError;
pub use tombolo_bulk::wire::Veto;
pub use tombolo_bulk::{Counts, LayoutError, TableError, Terms, Trust};

pub use crate::error::BulkError;
pub use arrival::{Arrival, PoolOffer, Received};
pub use buffer::{Buffer, NotSent, Shared};
pub use channel::BulkChannel;
pub use options::{BulkOptions, PoolOptions};
pub use pool::Pool;
pub use transfers::{MAX_UNCLAIMED, Parcelled, Transfers};
pub use values::{Scalar, Values, ValuesMut};
