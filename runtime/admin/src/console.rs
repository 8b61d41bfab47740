//! Consoles of nodes.

use std::time::Duration;

use tombolo::Error;
use tombolo::control::{self, Reply, Request};

use crate::{Machine, unexpected};

/// The console of a node, opened by [`Machine::console`].
#[derive(Debug)]
pub struct Console {
    machine: Machine,
    node: String,
}

/// A piece of console output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsoleOutput {
    /// Bytes lost before these because they were not read in time.
    pub dropped_bytes: u64,
    /// What the node printed.
    pub bytes: Vec<u8>,
}

impl Machine {
    /// Opens a node's console: first what the monitor remembers of it, then what it prints. A domain has one
    /// console open at a time.
    ///
    /// # Errors
    /// [`Error::Monitor`] when the node has none.
    pub fn console(&self, node: &str) -> Result<Console, Error> {
        self.ask(Request::ConsoleOpen { node: node.to_owned() })?;
        Ok(Console { machine: self.clone(), node: node.to_owned() })
    }
}

impl Console {
    /// Waits up to `timeout` for output.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when there was none.
    pub fn read(&self, timeout: Duration) -> Result<ConsoleOutput, Error> {
        match control::console_output(self.machine.domain(), timeout)? {
            Reply::Console { dropped, bytes, .. } => Ok(ConsoleOutput { dropped_bytes: dropped, bytes }),
            other => Err(unexpected(&other)),
        }
    }

    /// Types on it, at most 8 KiB at a time.
    ///
    /// # Errors
    /// [`Error::Monitor`] when the node is down.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        let request = Request::ConsoleInput { node: self.node.clone(), bytes: bytes.to_vec() };
        self.machine.ask(request).map(|_| ())
    }
}
