//! Bulk data: buffers that are transferred between domains without copying.
//!
//! A [`Pool`] consists of buffers of equal size. It is assigned to channels made for bulk data,
//! [`BulkChannel`]s. A transfer on such a channel carries the right to a buffer:
//!
//! | verb | what is transferred | what the sender keeps |
//! |---|---|---|
//! | [move](BulkChannel::move_to) | the right to read and write, with the contents | nothing |
//! | [share](BulkChannel::share) | a right to read | a right to read; to write once all are released |
//! | [pass](BulkChannel::pass) | the right to read and write; the contents become undefined | nothing |
//! | [release](BulkChannel::release) | the return of a right to read | nothing |
//!
//! The trust between the ends is chosen when the pool and the channel are created. [`Trust::Full`] maps a
//! pool once, and transfers need no system call. With [`Trust::None`] each buffer has memory of its own,
//! which the kernel protects against writes by other domains. With [`Trust::Half`] each buffer has memory of
//! its own, which a domain maps when the buffer is first sent to it and can access from then on.

mod arrival;
mod buffer;
mod channel;
mod content;
mod future;
mod incoming;
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
