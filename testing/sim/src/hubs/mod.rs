//! Hubs of two nodes and the tasks that use them: the real state machines of `protocol/hub`, with messages
//! that are delayed, deaths of tasks and losses of nodes, and a book beside them.

mod book;
mod town;

pub use town::simulate;
