//! Hubs of two nodes and the tasks that use them: the real state machines of `protocol/hub`, with delayed
//! messages, deaths of tasks and losses of nodes, checked by a reference model.

mod book;
mod simulation;

pub use simulation::simulate;
