//! One-sided operations on memory that several sides map: put, get and flags.
//!
//! One side copies data into a place that another reads ([`put`], [`get`]), and raises a flag when the data
//! is there ([`FlagWriter`], [`FlagReader`]). Neither needs the participation of the other, as a message
//! would. RCCE, message devices, broadcasts and shared objects are built from this.
//!
//! The memory is a [`SharedMemory<C>`](tombolo_base::SharedMemory), coherent or not. On incoherent memory,
//! every operation here writes back what it stored before another side may be notified, and invalidates what
//! it loads. On coherent memory that compiles to nothing.
//!
//! # Guarantees
//! - A flag is one line with one writer. Its value is a sequence number that only increases, so that a reader
//!   that looks late, or sees several evictions at once, misses nothing: it learns how often the flag was
//!   raised.
//! - A line of data has one writer at a time. The sides take turns by means of flags.
//! - Sequence numbers of a peer are untrusted. A wrong one makes a wait end early or never, and nothing else;
//!   users must bound what they derive from the [words](FlagReader::word) of a flag.
#![cfg_attr(not(any(test, loom)), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod access;
mod flag;
mod heap;

pub use access::{copy, get, put};
pub use flag::{FLAG_WORDS, FlagReader, FlagWriter, ValueFlag};
pub use heap::{GRANULE_BYTES, History, NoSpace, NotAllocated, SymmetricHeap};
