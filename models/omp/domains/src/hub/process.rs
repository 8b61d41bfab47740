//! State of a workers' process in the hub.

use std::time::Instant;

use tombolo::{Child, Domain, Error, Listener, SpawnOptions, Token, WaitSet};
use tombolo_omp_team::team::thread::Thread;

use super::Program;
use crate::JOIN_VARIABLE;
use crate::message::FromHub;
use crate::node_selection::JobNode;
use crate::outbox::Outbox;

/// Progress of the process's start.
#[derive(Debug)]
pub(super) enum ProcessState {
    /// The machine started it.
    Started {
        /// When it was started.
        since: Instant,
    },
    /// It identified itself and is mapping the shared memory.
    Joining {
        /// When it identified itself.
        since: Instant,
        /// Its channel in the hub's wait set.
        channel: Token,
    },
    /// It is ready to start threads.
    Ready {
        /// Its channel in the hub's wait set.
        channel: Token,
    },
}

/// Process that runs workers of the job.
pub(super) struct Process {
    /// Number of its node in the job.
    pub(super) node: usize,
    /// Wake domain of its threads.
    pub(super) wake_domain: u32,
    /// Handle of its domain.
    pub(super) child: Child,
    /// Token of the domain in the wait set, which reports its end.
    pub(super) token: Token,
    /// Progress of the process's start.
    pub(super) state: ProcessState,
    /// Number of its threads, including those that wait to be started.
    pub(super) threads: u32,
    /// Threads to start once it is ready.
    pub(super) waiting: Vec<&'static Thread>,
    /// Messages that its channel had no room for.
    pub(super) outbox: Outbox<FromHub>,
}

impl Process {
    /// Creates the state of a process that was just started.
    pub(super) fn new(node: usize, wake_domain: u32, child: Child, token: Token) -> Self {
        let state = ProcessState::Started { since: Instant::now() };
        let (waiting, outbox) = (Vec::new(), Outbox::default());
        Self { node, wake_domain, child, token, state, threads: 0, waiting, outbox }
    }

    /// Sends queued messages as far as its channel has room.
    ///
    /// # Errors
    /// Errors of the channel, except that it was closed: the machine reports the end of the process.
    pub(super) fn flush_outbox(&mut self, set: &mut WaitSet) -> Result<(), Error> {
        let Some(channel) = self.channel().filter(|&channel| set.get(channel).is_some()) else {
            return Ok(());
        };
        match self.outbox.flush(set, channel) {
            Err(Error::PeerDied { .. } | Error::RelayDied { .. } | Error::Closed { .. }) => Ok(()),
            sent => sent,
        }
    }

    /// Its channel in the hub's wait set.
    pub(super) fn channel(&self) -> Option<Token> {
        match self.state {
            ProcessState::Started { .. } => None,
            ProcessState::Joining { channel, .. } | ProcessState::Ready { channel } => Some(channel),
        }
    }
}

/// Endpoints that processes connect to: the hub's, and that for page channels if memory is sent in pages.
/// Separated by spaces.
pub(super) struct Endpoints(String);

impl Endpoints {
    pub(super) fn new(hub: &Listener, pages: Option<&Listener>) -> Self {
        let name =
            |listener: &Listener| listener.endpoint().map_or_else(String::new, |endpoint| endpoint.name());
        let names: Vec<String> = [Some(hub), pages].into_iter().flatten().map(name).collect();
        Self(names.join(" "))
    }
}

/// Starts the process with this number, for workers on a node.
pub(super) fn start(
    domain: &Domain,
    program: &Program,
    Endpoints(endpoints): &Endpoints,
    job_node: &JobNode,
    number: usize,
) -> Result<Child, Error> {
    let mut options = match program {
        Program::ThisImage => SpawnOptions::this_image(),
        Program::File(path) => SpawnOptions::image(path),
    };
    options = options.on(&job_node.name).called(format!("worker{number}"));
    // The program sees the same environment in all processes.
    for (name, value) in std::env::vars().filter(|(name, _)| !name.starts_with("TOMBOLO_")) {
        options = options.env(name, value);
    }
    domain.spawn(&options.env(JOIN_VARIABLE, format!("{number} {endpoints}")))
}
