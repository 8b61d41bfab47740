//! Records that a job keeps in the store: threads, teams, tasks, work-sharing constructs, devices. The
//! constructs that operate on them are in [`crate::constructs`].

pub mod balancer;
pub mod cancellation;
pub mod depend;
pub mod devices;
pub mod doacross;
pub mod group;
pub mod keys;
pub mod members;
pub mod node_barrier;
pub mod objects;
pub mod present_table;
pub mod queue;
pub mod root;
pub mod share;
pub mod tally;
pub mod task;
pub mod thread;
pub mod thread_status;
pub mod waiting;
