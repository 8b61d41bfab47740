//! Notification without polling: many senders tell a receiver which of many channels has data, so that the
//! receiver reads a single place and sleeps if nothing is pending.
//!
//! The receiver owns a buffer with a part for each sender. It has one of three forms (Barrelfish on the
//! Single-chip Cloud Computer, 2012; the last is also that of the Xipx message device, 2012):
//!
//! | form | contents of a part | when it is full |
//! |---|---|---|
//! | [`ring`] | ids of channels, in the order in which they were notified | the notification fails |
//! | [`tree`] | a bit for each channel, and one for each 256 of these | never |
//! | [`payload`] | the messages themselves, one after the other | the send fails; the sender keeps the
//! message |
//!
//! Barrelfish and Xipx let all senders write one buffer, under a test-and-set register for each receiver.
//! There is no such operation across windows, so every sender has a part of its own, and every line has a
//! single writer. A sender that dies leaves no lock behind, and one that sends invalid data harms only its
//! own part.
//!
//! Everything here is built from [`tombolo_onesided`], and so works on coherent and incoherent memory.
//! `tombolo_ring::doorbell` provides sleep and wake-up of the receiver, with one sleep line for the whole
//! buffer, in any form.
#![cfg_attr(not(any(test, loom)), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod payload;
pub mod ring;
pub mod tree;

use tombolo_base::OutOfRange;

/// Protocol violation by the other side of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Broken {
    /// The receiver claims to have taken more than was sent, or less than before.
    #[error("the receiver says that it has taken {taken} of {sent}, after {before}")]
    Taken {
        /// Number claimed.
        taken: u64,
        /// Number sent.
        sent: u64,
        /// Number claimed before.
        before: u64,
    },
    /// The sender claims to have sent more than fits.
    #[error("the sender says that {ahead} are there, where {capacity} fit")]
    Sent {
        /// Number claimed to be pending.
        ahead: u64,
        /// Capacity of the buffer.
        capacity: u64,
    },
    /// A message is longer than the buffer allows.
    #[error("the sender says that a message has {length_bytes} bytes, where {max_bytes} are allowed")]
    Length {
        /// Length of the message.
        length_bytes: u64,
        /// Maximum length.
        max_bytes: u64,
    },
    /// The memory is shorter than its layout.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
}
