//! Looking at a machine and steering it: what the command line is made of.

use std::collections::VecDeque;
use std::time::Duration;

use tombolo_base::DomainId;
use tombolo_control::{Reply, Request, all_pages};

pub use tombolo_base::Target;
pub use tombolo_control::{DomainInfo, ForeignPlace, NodeInfo, NodeKind, Signal, TracedInfo, WindowInfo};

use crate::domain::Domain;
use crate::error::Error;
use crate::monitor::ANSWER_TIMEOUT;
pub use crate::monitor::ConsoleOutput;
use crate::monitor::unexpected;

/// How long a node may take to start again.
const RESTART_TIMEOUT: Duration = Duration::from_secs(120);

impl Domain {
    /// The machine's nodes, by id.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn nodes(&self) -> Result<Vec<NodeInfo>, Error> {
        all_pages(|last: Option<&NodeInfo>| {
            let from = last.map_or(0, |last| u32::from(last.id.0) + 1);
            match self.link.ask(Request::Nodes { from }, ANSWER_TIMEOUT)?.0 {
                Reply::Nodes { nodes, more } => Ok((nodes, more)),
                other => Err(unexpected(&other)),
            }
        })
    }

    /// The machine's windows, by number: first those between a node and the host, then those that several
    /// nodes share.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn windows(&self) -> Result<Vec<WindowInfo>, Error> {
        all_pages(|last: Option<&WindowInfo>| {
            let from = last.map_or(0, |last| u32::from(last.id) + 1);
            match self.link.ask(Request::Windows { from }, ANSWER_TIMEOUT)?.0 {
                Reply::Windows { windows, more } => Ok((windows, more)),
                other => Err(unexpected(&other)),
            }
        })
    }

    /// The machine's live domains, by id.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn domains(&self) -> Result<Vec<DomainInfo>, Error> {
        all_pages(|last: Option<&DomainInfo>| {
            let after = last.map_or(0, |domain| domain.id.to_bits());
            match self.link.ask(Request::Domains { after }, ANSWER_TIMEOUT)?.0 {
                Reply::Domains { domains, more } => Ok((domains, more)),
                other => Err(unexpected(&other)),
            }
        })
    }

    /// Sends a signal to a domain, and SIGKILL after `grace` if it has not ended.
    ///
    /// # Errors
    /// [`Error::Monitor`] when there is no such domain.
    pub fn kill(&self, domain: DomainId, signal: u8, grace: Duration) -> Result<(), Error> {
        self.link.ask(Request::Kill { domain, signal, grace }, ANSWER_TIMEOUT).map(|_| ())
    }

    /// Stops the machine: every domain, every node, then the monitor. Returns when it is gone; one that ends
    /// by itself meanwhile is as good.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when it is still there after half a minute.
    pub fn stop_machine(&self) -> Result<(), Error> {
        let stopped = self
            .link
            .ask(Request::Down, ANSWER_TIMEOUT)
            .and_then(|_| self.link.wait(ANSWER_TIMEOUT, "that the machine stops", |_| None::<()>));
        match stopped {
            Err(Error::MonitorLost { .. }) => Ok(()),
            other => other,
        }
    }

    /// Starts a node that is down, in a new generation, and waits until it is ready.
    ///
    /// # Errors
    /// [`Error::Monitor`]: no such node, it is up, or it does not start.
    pub fn restart_node(&self, node: &str) -> Result<(), Error> {
        self.ask_to_restart(node, false)
    }

    /// The same for a node that may be up: it is stopped first, and its domains with it.
    ///
    /// # Errors
    /// [`Error::Monitor`]: no such node, it is the host, or it does not start.
    pub fn force_restart_node(&self, node: &str) -> Result<(), Error> {
        self.ask_to_restart(node, true)
    }

    fn ask_to_restart(&self, node: &str, force: bool) -> Result<(), Error> {
        self.link.ask(Request::Restart { node: node.to_owned(), force }, RESTART_TIMEOUT).map(|_| ())
    }

    /// Opens a node's console: first what the monitor remembers of it, then what it prints.
    ///
    /// # Errors
    /// [`Error::Monitor`] when the node has none.
    pub fn console(&self, node: &str) -> Result<Console, Error> {
        self.link.ask(Request::ConsoleOpen { node: node.to_owned() }, ANSWER_TIMEOUT)?;
        Ok(Console { domain: self.clone(), node: node.to_owned() })
    }
}

/// The console of a node, opened by [`Domain::console`].
#[derive(Debug)]
pub struct Console {
    domain: Domain,
    node: String,
}

impl Console {
    /// Waits up to `timeout` for output.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when there was none.
    pub fn read(&self, timeout: Duration) -> Result<ConsoleOutput, Error> {
        let take = |console: &mut VecDeque<ConsoleOutput>| console.pop_front();
        let output =
            self.domain.link.wait(timeout, "console output", |arrived| take(&mut arrived.console))?;
        let bytes = output.bytes.len() as u32;
        self.domain.link.tell(Request::ConsoleTaken { node: self.node.clone(), bytes })?;
        Ok(output)
    }

    /// Types on it, at most 8 KiB at a time.
    ///
    /// # Errors
    /// [`Error::Monitor`] when the node is down.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        let request = Request::ConsoleInput { node: self.node.clone(), bytes: bytes.to_vec() };
        self.domain.link.ask(request, ANSWER_TIMEOUT).map(|_| ())
    }
}
