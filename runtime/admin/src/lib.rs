//! Operation and observation of machines, for tools such as the command `tombolo` and its web page.
//!
//! A [`Machine`] is the view that a domain has of its machine. It [observes](Machine::observe) all parts of
//! the machine, ends, pauses and moves domains, restarts nodes, opens consoles, and [records traces](trace).
//!
//! ```no_run
//! use std::time::Duration;
//! use tombolo::Domain;
//! use tombolo_admin::{Machine, Signal};
//!
//! # fn main() -> Result<(), tombolo::Error> {
//! let domain = Domain::attach()?;
//! let machine = Machine::of(&domain);
//! for found in machine.domains()?.iter().filter(|found| found.program == "work") {
//!     machine.kill(found.id, Signal::TERM, Duration::from_secs(5))?;
//! }
//! machine.restart_node("arm0")?;
//! # Ok(())
//! # }
//! ```
//!
//! Functions for ordinary programs, such as listing the nodes to choose from, are in the crate [`tombolo`].
#![forbid(unsafe_code)]

mod collect;
mod console;
mod domains;
mod names;
mod nodes;
pub mod observe;
mod regions;
pub mod trace;

use std::time::Duration;

use tombolo::control::{self, Reply, Request};
use tombolo::{Domain, Error};

pub use console::{Console, ConsoleOutput};
pub use nodes::Frequency;
pub use observe::Observer;
pub use tombolo_control::{DomainInfo, Signal};
pub use tombolo_naming::ObjectInfo;

/// Timeout for the end of the monitor after it has agreed to stop the machine.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Machine that a domain operates and observes. Clones refer to the same machine; threads may share it.
///
/// The monitor replies within 30 seconds; functions that may take longer document their limits. Every
/// function can return [`Error::MonitorLost`] if the machine has ended, and [`Error::Monitor`] with the
/// reason if the monitor refuses a request.
#[derive(Clone, Debug)]
pub struct Machine {
    domain: Domain,
}

impl Machine {
    /// Returns the machine that a domain belongs to.
    #[must_use]
    pub fn of(domain: &Domain) -> Machine {
        Machine { domain: domain.clone() }
    }

    /// Domain that operates the machine.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Stops the machine: every domain, every node, then the monitor. Returns when it has ended; it is not an
    /// error if the machine ends by itself meanwhile.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if it is still running after 30 seconds.
    pub fn stop(&self) -> Result<(), Error> {
        match self.ask(Request::Down) {
            Ok(_) => control::wait_for_end(&self.domain, STOP_TIMEOUT),
            Err(Error::MonitorLost { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends a request that the monitor answers immediately.
    fn ask(&self, request: Request) -> Result<Reply, Error> {
        self.ask_for(request, Duration::ZERO)
    }

    /// Sends a request that may itself take up to `timeout`.
    fn ask_for(&self, request: Request, timeout: Duration) -> Result<Reply, Error> {
        control::ask(&self.domain, request, timeout)
    }
}

/// Error for a reply that does not match the request.
fn unexpected(reply: &Reply) -> Error {
    Error::MonitorProtocol(format!("a reply to another request: {reply:?}"))
}
