//! The domains of a machine: listing, ending, pausing and moving them.

use std::time::Duration;

use tombolo::control::{Reply, Request};
use tombolo::{DomainId, Error};
use tombolo_control::{DomainInfo, Signal, all_pages};

use crate::{Machine, unexpected};

/// How long a domain may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

impl Machine {
    /// The machine's live domains, by id.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn domains(&self) -> Result<Vec<DomainInfo>, Error> {
        all_pages(|last: Option<&DomainInfo>| {
            let after = last.map_or(0, |domain| domain.id.to_bits());
            match self.ask(Request::Domains { after })? {
                Reply::Domains { domains, more } => Ok((domains, more)),
                other => Err(unexpected(&other)),
            }
        })
    }

    /// Sends a signal to a domain, and SIGKILL after `grace` if it has not ended.
    ///
    /// # Errors
    /// [`Error::Monitor`] when there is no such domain.
    pub fn kill(&self, domain: DomainId, signal: Signal, grace: Duration) -> Result<(), Error> {
        self.ask(Request::Kill { domain, signal: signal.0, grace }).map(|_| ())
    }

    /// Stops a domain with all its processes where it is.
    ///
    /// # Errors
    /// [`Error::Monitor`] when there is no such domain, or the machine did not start it.
    pub fn pause(&self, domain: DomainId) -> Result<(), Error> {
        self.ask(Request::Pause { domain, paused: true }).map(|_| ())
    }

    /// Lets a domain go on that was paused.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub fn resume(&self, domain: DomainId) -> Result<(), Error> {
        self.ask(Request::Pause { domain, paused: false }).map(|_| ())
    }

    /// Starts the same program again with the same arguments, as a child of this machine's own
    /// [domain](Self::domain); on another node if one is named. It may take a minute.
    ///
    /// # Errors
    /// [`Error::Monitor`] when it is not known any more, or cannot run there.
    pub fn repeat(&self, domain: DomainId, node: Option<&str>) -> Result<DomainId, Error> {
        let request = Request::Repeat { domain, node: node.map(str::to_owned) };
        match self.ask_for(request, START_TIMEOUT)? {
            Reply::Repeat { domain } => Ok(domain),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends a domain whose image says that it can be restarted, within `grace` or for certain, and starts the
    /// same on another node, as a child of this machine's own [domain](Self::domain). It may take a minute
    /// beyond `grace`.
    ///
    /// # Errors
    /// [`Error::Monitor`] when it cannot be restarted or cannot run there. When it has ended already, the
    /// error says so.
    pub fn move_to(&self, domain: DomainId, node: &str, grace: Duration) -> Result<DomainId, Error> {
        let request = Request::MoveTo { domain, node: node.to_owned(), grace };
        match self.ask_for(request, START_TIMEOUT.saturating_add(grace))? {
            Reply::MoveTo { domain } => Ok(domain),
            other => Err(unexpected(&other)),
        }
    }
}
