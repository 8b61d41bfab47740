//! Notification without polling: how one of many senders tells a receiver which of many channels has
//! something for it, so that the receiver looks at one place and sleeps if nothing is there.
//!
//! The receiver owns a buffer with a part for each sender. There are three forms of it (Barrelfish on the
//! Single-chip Cloud Computer, 2012; the last is also that of the Xipx message device, 2012):
//!
//! | form | what a part has | when it is full |
//! |---|---|---|
//! | [`ring`] | ids of channels, in the order in which they were notified | the notification fails |
//! | [`tree`] | a bit for each channel, and one for each 256 of these | never |
//! | [`payload`] | the messages themselves, one behind the other | the send fails, the message stays with its sender |
//!
//! Barrelfish and Xipx let all senders write one buffer, under a test-and-set register for each receiver.
//! Across windows there is no such operation, so every sender has a part that it alone writes, and every
//! line has one writer. A sender that dies leaves no lock behind, and one that sends nonsense harms its own
//! part alone.
//!
//! Everything here is built from [`tombolo_onesided`], and so works on memory that is coherent and on memory
//! that is not. How a receiver sleeps and is woken is the matter of `tombolo_ring::doorbell`:
//! one sleep line for the whole buffer, whatever its form.
#![cfg_attr(not(any(test, loom)), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod payload;
pub mod ring;
pub mod tree;

use tombolo_base::OutOfRange;

/// The other side of a buffer has written what no side with this protocol writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Broken {
    /// The receiver says that it has taken more than was sent, or less than before.
    #[error("the receiver says that it has taken {taken} of {sent}, after {before}")]
    Taken {
        /// What it says.
        taken: u64,
        /// What was sent.
        sent: u64,
        /// What it said before.
        before: u64,
    },
    /// The sender says that it has sent more than fits.
    #[error("the sender says that {ahead} are there, where {capacity} fit")]
    Sent {
        /// How many it says are there.
        ahead: u64,
        /// How many fit.
        capacity: u64,
    },
    /// A message is longer than the buffer allows.
    #[error("the sender says that a message has {length_bytes} bytes, where {most_bytes} are allowed")]
    Length {
        /// The length.
        length_bytes: u64,
        /// The longest that is allowed.
        most_bytes: u64,
    },
    /// The memory is shorter than its layout.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
}
