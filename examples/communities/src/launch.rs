//! Workers as domains of a machine.

mod port;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tombolo::nodes::{NodeInfo, NodeKind};
use tombolo::{
    BulkChannel, Channel, ChannelOptions, Child, Domain, DomainId, Error, Exit, Listener, Ready,
    SpawnOptions, WaitSet,
};

use crate::args::Staff;
use crate::crew::Identity;
use crate::worker::{self, WorkerError};

pub use port::DomainPort;

/// Slots of a ring, of [`SLOT_BYTES`] each: room for messages of up to about 120 KiB, in 256 KiB of a window
/// per worker.
const SLOTS: u32 = 1024;
const SLOT_BYTES: usize = 128;

/// Interface id for the handshake ("communit" and the version): rejects workers of other programs and
/// protocol versions.
const INTERFACE: u64 = 0x636f_6d6d_756e_6974 ^ (crate::wire::VERSION as u64);

/// Timeout for all workers together to start and connect.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between checks whether a worker died before it connected.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Timeout for a worker to end after the search.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Error of starting the workers.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// An operation on the machine failed.
    #[error("{what}: {source}")]
    Machine {
        /// The operation.
        what: String,
        /// Cause of the failure.
        source: Error,
    },
    /// A worker ended early or did not connect.
    #[error("worker {number} on {node} {how}; its messages, if any, are above")]
    NoShow {
        /// Number of the worker.
        number: u32,
        /// Its node.
        node: String,
        /// Description of the failure.
        how: String,
    },
    /// No node could start a worker.
    #[error("no node of machine '{machine}' could start a worker; --threads 2 works without a machine")]
    Nobody {
        /// Name of the machine.
        machine: String,
    },
}

/// Workers that were started and have connected.
#[derive(Debug)]
pub struct Started {
    /// Identities of the workers, and the channels to them.
    pub ports: Vec<(Identity, DomainPort)>,
    /// Their domains. Dropping them does not end them; use [`end`].
    pub children: Vec<Child>,
}

/// Returns the domain of this program, which is attached once.
///
/// # Errors
/// No machine is up.
pub fn domain() -> Result<Domain, Error> {
    static DOMAIN: OnceLock<Domain> = OnceLock::new();
    match DOMAIN.get() {
        Some(domain) => Ok(domain.clone()),
        None => {
            let domain = Domain::attach()?;
            Ok(DOMAIN.get_or_init(|| domain).clone())
        }
    }
}

/// Returns the name of the bulk channel that accompanies a channel.
fn bulk_name(name: &str) -> String {
    format!("{name}/bulk")
}

fn options() -> Result<ChannelOptions, Error> {
    Ok(ChannelOptions::default().slot_bytes(SLOT_BYTES)?.slots(SLOTS)?.interface_hash(INTERFACE))
}

/// Starts workers and waits until they are connected. If no nodes were named, a node that cannot start
/// a worker is passed over with a warning.
///
/// # Errors
/// No machine is up, a requested worker cannot be started, or there is no worker at all.
pub fn start(staff: &Staff, warn: &mut dyn FnMut(&str)) -> Result<Started, LaunchError> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |source| LaunchError::Machine { what, source }
    };
    let domain = domain().map_err(failed("cannot join a machine (--threads 2 works without one)"))?;
    let name = format!("communities-{}", domain.id());
    let mut door = Door::open(&domain, &name).map_err(failed("cannot export a name for the workers"))?;
    let nodes = domain.nodes().map_err(failed("cannot list the nodes"))?;
    let (posts, must) = match staff {
        Staff::Nodes(nodes) => (nodes.clone(), true),
        _ => (every_node(&nodes), false),
    };
    let mut started = Started { ports: Vec::new(), children: Vec::new() };
    let mut awaited: Vec<(u32, Child)> = Vec::new();
    for (node, count) in posts {
        for _ in 0..count {
            let number = started.children.len() as u32;
            match spawn(&domain, &name, &node, number) {
                Ok(child) => {
                    awaited.push((number, child.clone()));
                    started.children.push(child);
                }
                Err(source) if must => {
                    end(&started.children);
                    return Err(LaunchError::Machine {
                        what: format!("cannot start a worker on {node}"),
                        source,
                    });
                }
                Err(error) => {
                    warn(&format!("no worker on {node}: {error}"));
                    break;
                }
            }
        }
    }
    let deadline = Instant::now() + START_TIMEOUT;
    while !awaited.is_empty() {
        match door.next(LOOK_EVERY) {
            Ok(Some((channel, bulk))) => {
                let admitted = admit(&domain, &nodes, channel, bulk, &mut awaited, &mut started.ports);
                if let Err(error) = admitted {
                    warn(&format!("graph and moves go to a worker by messages: {error}"));
                }
            }
            Ok(None) => {}
            Err(error @ (Error::Refused { .. } | Error::PeerDied { .. } | Error::Closed { .. })) => {
                warn(&format!("a worker could not connect: {error}"));
            }
            Err(source) => {
                end(&started.children);
                return Err(LaunchError::Machine { what: "cannot accept workers".to_owned(), source });
            }
        }
        if let Some(missing) = dismiss_the_dead(&mut awaited, deadline) {
            if must {
                end(&started.children);
                return Err(missing);
            }
            warn(&missing.to_string());
        }
    }
    if started.ports.is_empty() {
        return Err(LaunchError::Nobody { machine: domain.machine_name().to_owned() });
    }
    Ok(started)
}

/// Assigns one worker to each node that is up; to the host, where the master runs too, one per two
/// processors.
fn every_node(nodes: &[NodeInfo]) -> Vec<(String, u32)> {
    let up = nodes.iter().filter(|node| node.up);
    up.map(|node| {
        let count = if node.kind == NodeKind::Host { u32::from(node.cores / 2).max(1) } else { 1 };
        (node.name.clone(), count)
    })
    .collect()
}

/// Returns whether a node has another instruction set than the host, and therefore runs under an emulator.
fn is_emulated(nodes: &[NodeInfo], name: &str) -> bool {
    let host = nodes.iter().find(|node| node.kind == NodeKind::Host);
    let node = nodes.iter().find(|node| node.name == name);
    host.zip(node).is_some_and(|(host, node)| host.isa != node.isa)
}

fn spawn(domain: &Domain, name: &str, node: &str, number: u32) -> Result<Child, Error> {
    let options = if domain.was_spawned() {
        SpawnOptions::this_image()
    } else {
        // Started without an image: use the executable itself, on nodes that can run it.
        SpawnOptions::image(std::env::current_exe().unwrap_or_else(|_| "communities".into()))
    };
    let number = number.to_string();
    domain.spawn(&options.on(node).args(["worker", "--connect", name, "--number", &number]))
}

/// Listeners for workers, each of which opens a channel for messages and one for bulk data.
struct Door {
    set: WaitSet,
    messages: Listener,
    bulk: Listener<BulkChannel>,
    /// Channels of workers whose other channel is not open yet.
    channels: Vec<Channel>,
    bulks: Vec<BulkChannel>,
}

impl Door {
    fn open(domain: &Domain, name: &str) -> Result<Door, Error> {
        let messages = options()?.export(domain, name)?;
        let bulk = domain.export_bulk(&bulk_name(name))?;
        let mut set = WaitSet::new()?;
        set.add_listener(&messages)?;
        set.add_listener(&bulk)?;
        Ok(Door { set, messages, bulk, channels: Vec::new(), bulks: Vec::new() })
    }

    /// Returns the next worker with both channels open.
    fn next(&mut self, timeout: Duration) -> Result<Option<(Channel, BulkChannel)>, Error> {
        match self.set.wait(timeout) {
            Ok(Ready::Listener(_)) => {}
            Ok(_) | Err(Error::TimedOut { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        // Poll both listeners; neither waits.
        if let Some(channel) = if_there(self.messages.within(Duration::ZERO).accept())? {
            self.channels.push(channel);
        }
        if let Some(bulk) = if_there(self.bulk.within(Duration::ZERO).accept())? {
            self.bulks.push(bulk);
        }
        for (at, channel) in self.channels.iter().enumerate() {
            let is_its = |bulk: &BulkChannel| bulk.channel().peer() == channel.peer();
            if let Some(bulk) = self.bulks.iter().position(is_its) {
                return Ok(Some((self.channels.swap_remove(at), self.bulks.swap_remove(bulk))));
            }
        }
        Ok(None)
    }
}

fn if_there<T>(accepted: Result<T, Error>) -> Result<Option<T>, Error> {
    match accepted {
        Ok(accepted) => Ok(Some(accepted)),
        Err(Error::TimedOut { .. } | Error::WouldBlock) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Accepts an expected worker and rejects others. The error is the reason why it gets everything by messages.
fn admit(
    domain: &Domain,
    nodes: &[NodeInfo],
    channel: Channel,
    bulk: BulkChannel,
    awaited: &mut Vec<(u32, Child)>,
    ports: &mut Vec<(Identity, DomainPort)>,
) -> Result<(), Error> {
    let peer: DomainId = channel.peer();
    let Some(position) = awaited.iter().position(|(_, child)| child.id() == peer) else { return Ok(()) };
    awaited.swap_remove(position);
    let identity = Identity {
        node: channel.peer_node().to_owned(),
        domain: peer.to_string(),
        isa: String::new(),
        transport: channel.transport().to_string(),
        emulated: is_emulated(nodes, channel.peer_node()),
    };
    let (port, result) = DomainPort::of_master(domain, channel, bulk);
    ports.push((identity, port));
    result
}

/// Removes one worker from the list that has ended, or any worker once the deadline has passed.
fn dismiss_the_dead(awaited: &mut Vec<(u32, Child)>, deadline: Instant) -> Option<LaunchError> {
    let late = Instant::now() >= deadline;
    let (position, how) =
        awaited.iter().enumerate().find_map(|(position, (_, child))| match child.wait(Duration::ZERO) {
            Ok(exit) => Some((position, format!("ended before it connected ({})", ending(&exit)))),
            Err(Error::TimedOut { .. }) if late => {
                Some((position, format!("did not connect within {START_TIMEOUT:?}")))
            }
            Err(Error::TimedOut { .. }) => None,
            Err(error) => Some((position, error.to_string())),
        })?;
    let (number, child) = awaited.swap_remove(position);
    Some(LaunchError::NoShow { number, node: child.node_name().to_owned(), how })
}

fn ending(exit: &Exit) -> String {
    match exit {
        Exit::Exited { status } => format!("exit status {status}"),
        Exit::Signalled { signal } => format!("signal {signal}"),
        Exit::NodeLost { cause } => format!("its node was lost: {cause}"),
        other => format!("{other:?}"),
    }
}

/// Waits for the workers to end and kills those that do not.
pub fn end(children: &[Child]) {
    let deadline = Instant::now() + END_TIMEOUT;
    for child in children {
        if child.wait(deadline.saturating_duration_since(Instant::now())).is_err() {
            // If this fails, the machine ends the worker together with this domain.
            let _ = child.kill();
        }
    }
}

/// Error of a worker domain.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// It could not connect to its master.
    #[error("cannot reach the master '{master}': {source}")]
    NoMaster {
        /// The name that the master exports.
        master: String,
        /// The error of the connection.
        source: Error,
    },
    /// It failed while serving the master.
    #[error(transparent)]
    Worker(#[from] WorkerError),
}

/// Connects to the master and serves it.
///
/// # Errors
/// The master does not exist, or is lost.
pub fn work(master: &str, number: u32) -> Result<(), WorkError> {
    let no_master = |source| WorkError::NoMaster { master: master.to_owned(), source };
    let domain = domain().map_err(no_master)?;
    let options = options().map_err(no_master)?;
    let channel = options.connect(&domain.within(START_TIMEOUT), master).map_err(no_master)?;
    let bulk = domain.within(START_TIMEOUT).connect_bulk(bulk_name(master));
    let mut port = DomainPort::of_worker(channel, bulk.map_err(no_master)?, START_TIMEOUT);
    worker::serve(&mut port, number)?;
    Ok(())
}
