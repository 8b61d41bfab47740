//! The monitor of a node: names, spawning, channels, and the end of domains.
//!
//! On the host it is the root of a machine: [`root`] carries out what [`core`] decides. On every other node
//! it is an [`agent`], connected to the root by a [`link`].
#![forbid(unsafe_code)]

pub mod agent;
pub mod core;
pub mod keeper;
pub mod leaf;
pub mod link;
pub mod names;
mod orphans;
pub mod root;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Stands for the messages between monitors when their channel opens: the version of the control protocol.
pub(crate) const CONTROL_INTERFACE_HASH: u64 = tombolo_base::hash::fnv1a(b"tombolo.control.1");

/// Descriptors that a monitor may have: four for each of the domains of the largest job.
const MAX_DESCRIPTORS: u64 = 16 * 1024;

/// Raises the limit of open descriptors to what a monitor may need, as far as the system lets it. By default a
/// process may have 1024, which is less than three hundred domains take.
pub fn allow_many_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(MAX_DESCRIPTORS, |maximum| maximum.min(MAX_DESCRIPTORS));
    if limit.current.is_some_and(|current| current < wanted) {
        // If that is refused, the limit shows when it is met.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}

/// Processors that this process may use.
pub(crate) fn cores() -> u16 {
    std::thread::available_parallelism().map_or(1, |count| count.get().try_into().unwrap_or(u16::MAX))
}
