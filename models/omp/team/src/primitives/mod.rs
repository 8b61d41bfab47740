//! Foundations of the crate: system calls, shared memory, locks, sleeping and waking, the nodes of the job.
//! Nothing here knows of teams or tasks.

pub mod balance;
pub mod bell;
pub mod cache;
pub mod cache_line;
pub mod handlers;
pub mod icv;
#[cfg(loom)]
mod kernel_model;
pub mod local;
pub mod lock;
pub mod node_load;
pub mod nodes;
pub mod nonlocal_exit;
pub mod paged_wait;
pub mod park;
pub mod parker;
pub mod places;
pub mod processor_time;
pub mod separate_processes;
pub mod skew;
pub mod speed;
pub mod stack_bounds;
pub mod store;
pub mod sys;
pub mod thread_block;
mod thread_variable;
pub mod wait;
pub mod wake_domain;
