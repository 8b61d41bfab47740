//! Foundation of all layers of Tombolo: shared memory as words, ids with generations, instruction sets and
//! the façade for atomics.
//!
//! `no_std`. Only this crate, `platform` and the boundaries to other languages may contain `unsafe`. Here it
//! turns a raw address into a [`memory::SharedMemory`], after which every access is bounds-checked and
//! atomic.
#![cfg_attr(not(any(test, loom, sim)), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;

pub mod canary;
pub mod coherence;
pub mod hash;
pub mod ids;
pub mod isa;
pub mod memory;
pub mod random;
pub mod steps;
pub mod sync;
pub mod tap;
pub mod timeout;

pub use coherence::{CacheMaintenance, Coherent};
pub use ids::{ChannelId, DomainId, NodeId, RegionId, WindowId};
pub use isa::{Isa, Target};
pub use memory::{CircularWords, OutOfRange, SharedMemory, SharedWords};
pub use random::Random;
pub use steps::Steps;
pub use timeout::{DEFAULT_TIMEOUT, DomainTimeouts, OperationTimeout};

/// Distance between fields with different writers, in bytes.
///
/// Two 64-byte lines rather than one: adjacent-line prefetchers on x86-64 and 128-byte lines on some Arm
/// processors would otherwise cause false sharing.
pub const LINE_BYTES: usize = 128;
