//! Measures the links of a running machine, and the memory under them as the limit.
//!
//! [`ring::run`] measures between two programs: the one that calls it, and a *peer* that it starts on a node
//! from the image `bench.tbi` (the program `bench-peer` of `tombolo-bench-far`). Absolute times differ
//! between machines and, under a hypervisor that moves processors, from second to second. So each figure is
//! measured in alternation with the physical limit of the same memory; the result is the ratio of the two.
#![forbid(unsafe_code)]

pub mod broadcast;
pub mod bulk;
pub mod coherence;
pub mod cpus;
pub mod devices;
pub mod figures;
#[doc(hidden)]
pub mod fixture;
mod host;
pub mod hubs;
pub mod latency;
mod launch;
pub mod layers;
mod limit;
mod members;
pub mod mpi;
pub mod notification;
pub mod objects;
pub mod omp;
pub mod placement;
pub mod realtime;
mod report;
pub mod ring;
pub mod rpc;
mod sample;
pub mod stacks;
pub mod suite;
mod table;
pub mod target;
pub mod tracing;
pub mod waitset;
pub mod xipx;

pub use limit::Limit;
pub use report::BenchReport;
pub use table::significant;
pub use tombolo_bench_far::SpinTimeout;
