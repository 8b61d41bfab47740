//! The records that a job keeps in the store: threads, teams, tasks, constructs that share work, devices.
//! What the constructs do with them is in [`crate::constructs`].

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
pub mod present;
pub mod queue;
pub mod root;
pub mod share;
pub mod shown;
pub mod tally;
pub mod task;
pub mod thread;
pub mod waiting;
