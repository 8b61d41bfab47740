//! The nodes of a machine: restarting them, and the frequencies of their processors.

use std::time::Duration;

use tombolo::Error;
use tombolo::control::Request;

use crate::Machine;

/// How long a node may take to start again.
const RESTART_TIMEOUT: Duration = Duration::from_secs(120);

/// How fast processors are to run; what is not given stays as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Frequency {
    /// Which processors of the node; all if empty.
    pub cores: Vec<u16>,
    /// The governor.
    pub governor: Option<String>,
    /// The slowest, in kHz.
    pub min_khz: Option<u32>,
    /// The fastest, in kHz.
    pub max_khz: Option<u32>,
}

impl Machine {
    /// Starts a node that is down, in a new generation, and waits until it is ready, for up to two minutes.
    ///
    /// # Errors
    /// [`Error::Monitor`]: no such node, it is up, or it does not start.
    pub fn restart_node(&self, node: &str) -> Result<(), Error> {
        self.restart(node, false)
    }

    /// The same for a node that may be up: it is stopped first, and its domains with it.
    ///
    /// # Errors
    /// [`Error::Monitor`]: no such node, it is the host, or it does not start.
    pub fn force_restart_node(&self, node: &str) -> Result<(), Error> {
        self.restart(node, true)
    }

    fn restart(&self, node: &str, force: bool) -> Result<(), Error> {
        self.ask_for(Request::Restart { node: node.to_owned(), force }, RESTART_TIMEOUT).map(|_| ())
    }

    /// Sets how fast processors of a node run. What was before comes back with
    /// [`restore_frequency`](Self::restore_frequency), or when this program ends.
    ///
    /// # Errors
    /// [`Error::Monitor`] where the node's kernel does not offer it, or does not allow it.
    pub fn set_frequency(&self, node: &str, frequency: Frequency) -> Result<(), Error> {
        let Frequency { cores, governor, min_khz, max_khz } = frequency;
        let request = Request::SetFrequency { node: node.to_owned(), cores, governor, min_khz, max_khz };
        self.ask(request).map(|_| ())
    }

    /// Restores the frequencies that all processors of a node had.
    ///
    /// # Errors
    /// [`Error::Monitor`] when there is no such node, or it is down.
    pub fn restore_frequency(&self, node: &str) -> Result<(), Error> {
        self.ask(Request::RestoreFrequency { node: node.to_owned() }).map(|_| ())
    }
}
