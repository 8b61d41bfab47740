//! The monitor of a node: names, spawning, channels, and the end of domains.
//!
//! On the host it is the root of a machine: [`root`] carries out the decisions of [`tombolo_monitor_core`],
//! and a [`supervisor`] cleans up after it. On every other node, [`node_monitor`] runs an [`agent`],
//! connected to the root by a [`control_link`].
#![forbid(unsafe_code)]

pub mod agent;
pub mod control_link;
pub mod join;
pub mod node_monitor;
mod orphans;
mod polled_bells;
pub mod root;
mod shared_bells;
pub mod streams;
pub mod supervisor;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Interface hash of the channel between monitors: the version of the control protocol.
pub(crate) const CONTROL_INTERFACE_HASH: u64 = tombolo_base::hash::fnv1a(b"tombolo.control.1");

/// Number of descriptors that a monitor may need: four for each domain of the largest job.
const MAX_DESCRIPTORS: u64 = 16 * 1024;

/// Raises the limit on open descriptors to a monitor's needs, as far as the system allows. The usual limit of
/// 1024 is reached with fewer than 300 domains.
pub fn allow_many_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(MAX_DESCRIPTORS, |maximum| maximum.min(MAX_DESCRIPTORS));
    if limit.current.is_some_and(|current| current < wanted) {
        // A refusal becomes apparent when the limit is reached.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}

/// Returns the number of processors available to this process.
pub(crate) fn cores() -> u16 {
    std::thread::available_parallelism().map_or(1, |count| count.get().try_into().unwrap_or(u16::MAX))
}

/// Returns a random nonzero number.
fn random_nonce() -> Result<tombolo_link::rendezvous::Nonce, tombolo_platform::OsError> {
    loop {
        let mut bytes = [0; 8];
        tombolo_platform::process::fill_random(&mut bytes)?;
        if let Some(nonce) = tombolo_link::rendezvous::Nonce::new(u64::from_le_bytes(bytes)) {
            return Ok(nonce);
        }
    }
}
