//! A job's whole lifetime: its environment, the start of processes and workers, and the report.

pub mod arguments;
pub mod created;
pub mod env;
pub mod fault;
#[cfg(target_env = "gnu")]
pub mod forked;
pub mod layout;
mod release;
pub mod report;
pub mod stack;
pub mod start;
pub mod worker;
