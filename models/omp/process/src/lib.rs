//! Reports that show a job with threads on several nodes as one process, and queries for them.
//!
//! The hub of a job listens under a name of the machine ([`hub_name`]). A peer that connects and sends
//! [`REPORT_REQUEST`] receives messages of text lines, the last of which is `end` ([`report`]). A job that is
//! not queried has no overhead.

mod query;
pub mod report;

pub use query::{Error, list, report_of};
pub use report::{NodeReport, ProcessReport, Role, State, ThreadReport};

use tombolo::DomainId;

/// Prefix of the names under which hubs of jobs listen.
const NAME_PREFIX: &str = "process/";

/// Request that a peer sends to a hub.
pub const REPORT_REQUEST: &[u8] = b"threads 1";

/// Returns the name of the hub of the job whose program is this domain.
#[must_use]
pub fn hub_name(domain: DomainId) -> String {
    format!("{NAME_PREFIX}{domain}")
}
