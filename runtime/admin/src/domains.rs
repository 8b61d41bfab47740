//! Domains of a machine: lists, kills, pauses and moves them.

use std::time::Duration;

use tombolo::control::{Reply, Request};
use tombolo::{DomainId, Error};
use tombolo_control::{DomainInfo, Signal, all_pages};

use crate::{Machine, unexpected};

/// Timeout for the start of a domain.
const START_TIMEOUT: Duration = Duration::from_secs(60);

impl Machine {
    /// Returns the machine's live domains, by id.
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
    /// [`Error::Monitor`] if the domain does not exist.
    pub fn kill(&self, domain: DomainId, signal: Signal, grace: Duration) -> Result<(), Error> {
        self.ask(Request::Kill { domain, signal: signal.0, grace }).map(|_| ())
    }

    /// Pauses a domain with all its processes.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the domain does not exist, or the machine did not start it.
    pub fn pause(&self, domain: DomainId) -> Result<(), Error> {
        self.ask(Request::Pause { domain, paused: true }).map(|_| ())
    }

    /// Resumes a domain that was paused.
    ///
    /// # Errors
    /// Same as [`pause`](Self::pause).
    pub fn resume(&self, domain: DomainId) -> Result<(), Error> {
        self.ask(Request::Pause { domain, paused: false }).map(|_| ())
    }

    /// Starts the same program again with the same arguments, on the given node or the same one, as a child
    /// of this machine's own [domain](Self::domain). May take up to a minute.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the domain is no longer known, or the program cannot run there.
    pub fn repeat(&self, domain: DomainId, node: Option<&str>) -> Result<DomainId, Error> {
        let request = Request::Repeat { domain, node: node.map(str::to_owned) };
        match self.ask_for(request, START_TIMEOUT)? {
            Reply::Repeat { domain } => Ok(domain),
            other => Err(unexpected(&other)),
        }
    }

    /// Restarts a domain on another node, as a child of this machine's own [domain](Self::domain). Its image
    /// must declare that it can be restarted. The domain is asked to end, and killed after `grace`. May take
    /// up to a minute beyond `grace`.
    ///
    /// # Errors
    /// [`Error::Monitor`] if it cannot be restarted or cannot run there. If it has already ended, the error
    /// reports that.
    pub fn move_to(&self, domain: DomainId, node: &str, grace: Duration) -> Result<DomainId, Error> {
        let request = Request::MoveTo { domain, node: node.to_owned(), grace };
        match self.ask_for(request, START_TIMEOUT.saturating_add(grace))? {
            Reply::MoveTo { domain } => Ok(domain),
            other => Err(unexpected(&other)),
        }
    }
}
