//! Teams of workers: what OpenMP's constructs do.
//!
//! Everything that a team shares lies in one [`store`], at addresses that all workers can use, and all waiting is on words in it.
//! So it makes no difference to any of this whether workers are threads of a process or processes with address spaces of their
//! own; only how they are started does ([`root::StartWorker`]).
//!
//! The interface is that of the constructs, not of a compiler: GCC's calls are in the crate `tombolo-gomp`.

pub mod affinity;
pub mod barrier;
pub mod cancel;
pub mod depend;
pub mod doacross;
pub mod dock;
pub mod env;
#[cfg(target_env = "gnu")]
pub mod exclusive;
/// There are no workers with address spaces of their own with this C library.
#[cfg(not(target_env = "gnu"))]
pub mod exclusive {
    /// Nothing is kept back.
    pub fn flush() {}
    /// No process is a worker's.
    pub fn is_worker() -> bool {
        false
    }
    /// There are none to end.
    pub fn end() {}
}
pub mod group;
pub mod icv;
pub mod lock;
pub mod loops;
pub mod nodes;
pub mod places;
pub mod queue;
pub mod reduction;
pub mod report;
pub mod root;
pub mod share;
pub mod speed;
pub mod store;
pub mod sys;
pub mod task;
pub mod taskloop;
pub mod team;
pub mod thread;
pub mod wait;
