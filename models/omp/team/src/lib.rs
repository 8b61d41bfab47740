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
