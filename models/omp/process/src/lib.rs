//! Reports that show a job with threads on several nodes as one process, and queries for them.
//!
//! The hub of a job listens under a name of the machine ([`name_of`]). A peer that connects and sends [`ASK`]
//! receives messages of text lines, the last of which is `end` ([`report`]). A job that is not queried has no
//! overhead.

mod ask;
pub mod report;

pub use ask::{Error, list, of};
pub use report::{NodeReport, ProcessReport, Role, State, ThreadReport};

use tombolo::DomainId;

/// Prefix of the names under which hubs of jobs listen.
const NAMES: &str = "process/";

/// Request that a peer sends to a hub.
pub const ASK: &[u8] = b"threads 1";

/// Returns the name of the hub of the job whose program is this domain.
#[must_use]
pub fn name_of(domain: DomainId) -> String {
    format!("{NAMES}{domain}")
}
