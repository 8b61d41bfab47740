//! A process of workers, as the hub knows it.

use std::time::Instant;

use tombolo::{Child, Domain, Error, Listener, SpawnOptions, Token, WaitSet};
use tombolo_omp_team::team::thread::Thread;

use super::Program;
use crate::JOIN;
use crate::message::FromHub;
use crate::outbox::Outbox;
use crate::place::JobNode;

/// How far it has come.
#[derive(Debug)]
pub(super) enum ProcessState {
    /// The machine has started it.
    Started {
        /// When it was started.
        since: Instant,
    },
    /// It has identified itself, and maps what is shared.
    Joining {
        /// When it identified itself.
        since: Instant,
        /// How it is spoken to.
        channel: Token,
    },
    /// It waits for workers that it is to start.
    Ready {
        /// How it is spoken to.
        channel: Token,
    },
}

/// A process of workers.
pub(super) struct Process {
    /// Its node, by the number in the job.
    pub(super) node: usize,
    /// The wake domain that it is of.
    pub(super) wake_domain: u32,
    /// Its domain.
    pub(super) child: Child,
    /// By which the end of the domain is told.
    pub(super) token: Token,
    /// How far it has come.
    pub(super) state: ProcessState,
    /// How many threads it has, those included that wait.
    pub(super) threads: u32,
    /// Threads that are to be started once it is ready.
    pub(super) waiting: Vec<&'static Thread>,
    /// What it has had no room for yet.
    pub(super) outbox: Outbox<FromHub>,
}

impl Process {
    /// One that was just started.
    pub(super) fn new(node: usize, wake_domain: u32, child: Child, token: Token) -> Self {
        let state = ProcessState::Started { since: Instant::now() };
        let (waiting, outbox) = (Vec::new(), Outbox::default());
        Self { node, wake_domain, child, token, state, threads: 0, waiting, outbox }
    }

    /// Sends it what it has room for.
    ///
    /// # Errors
    /// What its channel has, but for its end: that is heard from the machine.
    pub(super) fn send(&mut self, set: &mut WaitSet) -> Result<(), Error> {
        let Some(channel) = self.channel().filter(|&channel| set.get(channel).is_some()) else {
            return Ok(());
        };
        match self.outbox.send(set, channel) {
            Err(Error::PeerDied { .. } | Error::RelayDied { .. } | Error::Closed { .. }) => Ok(()),
            sent => sent,
        }
    }

    /// How it is spoken to.
    pub(super) fn channel(&self) -> Option<Token> {
        match self.state {
            ProcessState::Started { .. } => None,
            ProcessState::Joining { channel, .. } | ProcessState::Ready { channel } => Some(channel),
        }
    }
}

/// Where processes connect: to the hub, and for pages where memory is sent in those.
pub(super) struct Endpoints(String);

impl Endpoints {
    pub(super) fn new(hub: &Listener, pages: Option<&Listener>) -> Self {
        let name =
            |listener: &Listener| listener.endpoint().map_or_else(String::new, |endpoint| endpoint.name());
        let names: Vec<String> = [Some(hub), pages].into_iter().flatten().map(name).collect();
        Self(names.join(" "))
    }
}

/// Starts the process of this number, for workers on a node.
pub(super) fn start(
    domain: &Domain,
    program: &Program,
    Endpoints(endpoints): &Endpoints,
    place: &JobNode,
    number: usize,
) -> Result<Child, Error> {
    let mut options = match program {
        Program::ThisImage => SpawnOptions::this_image(),
        Program::File(path) => SpawnOptions::image(path),
    };
    options = options.on(&place.name).called(format!("worker{number}"));
    // What the program asks of its environment is answered alike everywhere.
    for (name, value) in std::env::vars().filter(|(name, _)| !name.starts_with("TOMBOLO_")) {
        options = options.env(name, value);
    }
    domain.spawn(&options.env(JOIN, format!("{number} {endpoints}")))
}
