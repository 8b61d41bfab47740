//! Operating and observing a machine: what tools are made of, such as the command `tombolo` and its web page.
//!
//! A [`Machine`] is a machine as a domain on it sees it. It [observes](Machine::observe) all parts of the
//! machine, ends, pauses and moves domains, restarts nodes, opens consoles, and [records traces](trace).
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
//! What a program needs that is not a tool, such as the nodes from which it chooses, is in the crate
//! [`tombolo`].
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

/// How long the monitor may take to end after it has agreed to stop the machine.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A machine, as a domain on it operates and observes it. Cloning names the same machine; threads may share
/// it.
///
/// The monitor answers within 30 seconds, and what takes longer says how long it may take. Every function can
/// return [`Error::MonitorLost`] when the machine has ended, and [`Error::Monitor`] with the reason why the
/// monitor refuses a request.
#[derive(Clone, Debug)]
pub struct Machine {
    domain: Domain,
}

impl Machine {
    /// The machine of a domain.
    #[must_use]
    pub fn of(domain: &Domain) -> Machine {
        Machine { domain: domain.clone() }
    }

    /// The domain that operates the machine.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Stops the machine: every domain, every node, then the monitor. Returns when it has ended; a machine
    /// that ends by itself meanwhile is no error.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when it is still there after 30 seconds.
    pub fn stop(&self) -> Result<(), Error> {
        match self.ask(Request::Down) {
            Ok(_) => control::wait_for_end(&self.domain, STOP_TIMEOUT),
            Err(Error::MonitorLost { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends a request that the monitor answers at once.
    fn ask(&self, request: Request) -> Result<Reply, Error> {
        self.ask_for(request, Duration::ZERO)
    }

    /// Sends a request whose own work may take up to `timeout`.
    fn ask_for(&self, request: Request, timeout: Duration) -> Result<Reply, Error> {
        control::ask(&self.domain, request, timeout)
    }
}

/// The error for a reply that does not belong to its request.
fn unexpected(reply: &Reply) -> Error {
    Error::MonitorProtocol(format!("a reply to another request: {reply:?}"))
}
