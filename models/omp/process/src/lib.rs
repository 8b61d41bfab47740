//! A job whose threads are on several nodes, as one process: what its hub says of it, and who asks.
//!
//! The hub of a job listens under a name of the machine ([`name_of`]). A peer that connects and sends [`ASK`]
//! gets messages of lines of text, of which the last line is `end` ([`report`]). A job that is not asked does
//! nothing for it.

mod ask;
pub mod report;

pub use ask::{Error, list, of};
pub use report::{NodeReport, ProcessReport, Role, State, ThreadReport};

use tombolo::DomainId;

/// How the names begin under which hubs of jobs listen.
const NAMES: &str = "process/";

/// What a hub is asked with.
pub const ASK: &[u8] = b"threads 1";

/// The name under which the hub of a job listens, whose program is this domain.
#[must_use]
pub fn name_of(domain: DomainId) -> String {
    format!("{NAMES}{domain}")
}
