//! Teams of workers: the semantics of OpenMP's constructs.
//!
//! All data that a team shares is in one [`store`], at addresses that are valid for all workers, and workers
//! wait only on words in it. So the workers can be threads of one process, or processes with their own
//! address spaces; only [`root::StartWorker`] differs.
//!
//! The interface is that of the constructs, not of a compiler. The functions that GCC calls are in the crate
//! `tombolo-gomp`.

pub mod affinity;
pub mod barrier;
pub mod cancel;
pub mod depend;
pub mod device;
pub mod doacross;
pub mod dock;
pub mod env;
pub mod exclusive;
pub mod group;
pub mod home;
pub mod icv;
pub mod layout;
pub mod lock;
pub mod loops;
pub mod nodes;
pub mod park;
pub mod places;
pub mod queue;
pub mod reduction;
pub mod report;
pub mod root;
pub mod share;
pub mod skew;
pub mod speed;
pub mod store;
pub mod sys;
pub mod tally;
pub mod task;
pub mod tasking;
pub mod taskloop;
pub mod team;
pub mod thread;
pub mod wait;
