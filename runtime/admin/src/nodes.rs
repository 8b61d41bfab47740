//! Nodes of a machine: restarts them, and sets the frequencies of their processors.

use std::time::Duration;

use tombolo::Error;
use tombolo::control::Request;

use crate::Machine;

/// Timeout for the restart of a node.
const RESTART_TIMEOUT: Duration = Duration::from_secs(120);

/// Frequency settings of processors; unset values are not changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Frequency {
    /// Processors of the node; all if empty.
    pub cores: Vec<u16>,
    /// Name of the governor.
    pub governor: Option<String>,
    /// Minimum frequency, in kHz.
    pub min_khz: Option<u32>,
    /// Maximum frequency, in kHz.
    pub max_khz: Option<u32>,
}

impl Machine {
    /// Starts a node that is down, in a new generation, and waits up to two minutes until it is ready.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the node does not exist, is up, or does not start.
    pub fn restart_node(&self, node: &str) -> Result<(), Error> {
        self.restart(node, false)
    }

    /// Restarts a node that may be up: stops it first, with its domains.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the node does not exist, is the host, or does not start.
    pub fn force_restart_node(&self, node: &str) -> Result<(), Error> {
        self.restart(node, true)
    }

    fn restart(&self, node: &str, force: bool) -> Result<(), Error> {
        self.ask_for(Request::Restart { node: node.to_owned(), force }, RESTART_TIMEOUT).map(|_| ())
    }

    /// Sets the frequency of processors of a node. [`restore_frequency`](Self::restore_frequency), or the end
    /// of this program, restores the previous settings.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the node's kernel does not support or permit it.
    pub fn set_frequency(&self, node: &str, frequency: Frequency) -> Result<(), Error> {
        let Frequency { cores, governor, min_khz, max_khz } = frequency;
        let request = Request::SetFrequency { node: node.to_owned(), cores, governor, min_khz, max_khz };
        self.ask(request).map(|_| ())
    }

    /// Restores the original frequency settings of all processors of a node.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the node does not exist or is down.
    pub fn restore_frequency(&self, node: &str) -> Result<(), Error> {
        self.ask(Request::RestoreFrequency { node: node.to_owned() }).map(|_| ())
    }
}
