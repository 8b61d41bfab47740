//! Consoles of nodes.

use std::time::Duration;

use tombolo::Error;
use tombolo::control::{self, Reply, Request};

use crate::{Machine, unexpected};

/// Console of a node, opened by [`Machine::console`].
#[derive(Debug)]
pub struct Console {
    machine: Machine,
    node: String,
}

/// Piece of console output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsoleOutput {
    /// Number of bytes lost before these, because they were not read in time.
    pub dropped_bytes: u64,
    /// Bytes that the node printed.
    pub bytes: Vec<u8>,
}

impl Machine {
    /// Opens a node's console. It returns first the output that the monitor has buffered, then new output. A
    /// domain can have one console open at a time.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the node has no console.
    pub fn console(&self, node: &str) -> Result<Console, Error> {
        self.ask(Request::ConsoleOpen { node: node.to_owned() })?;
        Ok(Console { machine: self.clone(), node: node.to_owned() })
    }
}

impl Console {
    /// Waits up to `timeout` for output.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if there was none.
    pub fn read(&self, timeout: Duration) -> Result<ConsoleOutput, Error> {
        match control::console_output(self.machine.domain(), timeout)? {
            Reply::Console { dropped, bytes, .. } => Ok(ConsoleOutput { dropped_bytes: dropped, bytes }),
            other => Err(unexpected(&other)),
        }
    }

    /// Writes input to the console, at most 8 KiB at a time.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the node is down.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        let request = Request::ConsoleInput { node: self.node.clone(), bytes: bytes.to_vec() };
        self.machine.ask(request).map(|_| ())
    }
}
