//! One-way rings of cache-line slots that carry messages between processors that share only memory.
//!
//! A ring has one [`Producer`] and one [`Consumer`]. A slot is 32, 64 or 128 bytes; its last eight are a
//! [control word](control) that the producer publishes with one release store and the consumer reads with
//! one acquire load. That is all the traffic while both are awake: no lock, no atomic read-modify-write, no
//! system call. Numbers are little-endian and payload is bytes in address order, so the two ends may differ
//! in instruction set, word size and byte order.
//!
//! The consumer returns slots to the producer in one of two ways; see [`Variant`]. An idle side sleeps until
//! a doorbell wakes it. No wake-up is lost; see [`doorbell`].
//!
//! The crate is `no_std` and does no I/O: the caller provides the memory and the doorbell.
//! `docs/specs/ring.md` in the repository specifies the format.
//!
//! ```
//! use tombolo_base::{LINE_BYTES, SharedMemory};
//! use tombolo_ring::{Consumer, Producer, RingConfig, RingMemory, SlotCount, SlotSize, Variant};
//!
//! let config = RingConfig::new(SlotSize::B64, SlotCount::new(16)?, Variant::EpochCredit);
//! let memory = RingMemory {
//!     slots: SharedMemory::zeroed(config.slots_bytes()),
//!     producer_line: SharedMemory::zeroed(LINE_BYTES),
//!     credit_line: SharedMemory::zeroed(LINE_BYTES),
//! };
//! let mut producer = Producer::new(config, memory.clone())?;
//! let mut consumer = Consumer::new(config, memory)?;
//!
//! producer.try_send(b"hello, island")?;
//! let message = consumer.try_recv()?.expect("it was sent");
//! let mut bytes = [0; 13];
//! message.copy_to(&mut bytes)?;
//! assert_eq!(&bytes, b"hello, island");
//! drop(message); // the slot goes back
//!
//! producer.close();
//! assert!(consumer.try_recv().is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Trust
//! Words that the peer writes are not trusted. Each is loaded once and validated, and only the validated copy
//! is used. A peer that violates the protocol can only make its own ring fail, permanently, with a
//! [`Violation`]. Both sides keep their own position in private memory and never read it back.
#![cfg_attr(not(any(test, loom)), no_std)]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

mod bounds;
mod bytes;
mod config;
mod consumer;
pub mod control;
pub mod doorbell;
mod error;
mod message;
mod producer;
mod slots;
mod staged;
mod tally;

pub use config::{
    CREDIT_LINE_BYTES, LayoutError, PRODUCER_LINE_BYTES, RingConfig, RingMemory, SlotCount, SlotSize, Variant,
};
pub use consumer::{Consumer, ConsumerCounters, Peek};
pub use doorbell::{Sleeper, WakeCheck, WakeOrder, Waker};
pub use error::{OutOfMessage, RecvError, SendError, TargetTooShort, Violation};
pub use message::{Head, Message, View};
pub use producer::{Producer, ProducerCounters, ShortMessage};
pub use slots::B64_PAYLOAD_BYTES;
pub use staged::{Batch, Claim};
