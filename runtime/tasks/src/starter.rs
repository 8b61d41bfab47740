//! Starter: the program that starts tasks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tombolo::nodes::NodeInfo;
use tombolo::{Channel, Child, Domain, Error, Listener, SpawnOptions};
use tombolo_hubs::Value;
use tombolo_placement::{Auto, Facts, Needs, Order, Placement, PlacementError, place};
use tombolo_task::{Bytes, WorkerUsage};

use crate::driver::{ConnectedWorker, Driver, Shared};
use crate::handle::{CancelTask, JoinHandle};
use crate::signature::{Function, Signature};
use crate::{STARTER_VARIABLE, TaskError, options};

/// Timeout for workers to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Default timeout of a join.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Workers of this image, and the tasks on them. Clones share both; dropping the last one ends the workers
/// and cancels their tasks.
#[derive(Clone, Debug)]
pub struct Tasks {
    inner: Arc<Inner>,
    node: Option<(u16, String)>,
    timeout: Duration,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    nodes: Vec<NodeInfo>,
    driver: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Tasks {
    /// Starts workers of this program's image, and waits until they have connected. `on` selects their nodes
    /// like `--on` of `tombolo run`: `host:2,arm0` for two workers on one node and one on another, `auto:4`
    /// for the four best processors by measured speed. A worker has one thread.
    ///
    /// # Errors
    /// [`TaskError::Placement`]; [`TaskError::NotStarted`] with the node of the worker, for example if the
    /// image has no build for it.
    pub fn start(domain: &Domain, on: &str) -> Result<Tasks, TaskError> {
        let program = if domain.was_spawned() {
            SpawnOptions::this_image()
        } else {
            // Started by hand: use the executable itself, on nodes that can run it.
            SpawnOptions::image(std::env::current_exe().unwrap_or_default())
        };
        Tasks::start_program(domain, &program, on)
    }

    /// Like [`start`](Self::start), with workers of another program in any language, which registers the
    /// functions. The node in `program` is replaced.
    ///
    /// # Errors
    /// Same as [`start`](Self::start).
    pub fn start_program(domain: &Domain, program: &SpawnOptions, on: &str) -> Result<Tasks, TaskError> {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let (nodes, facts) = (domain.nodes()?, Facts::query(domain, &Needs::default())?);
        let service = format!("tasks/{}/{}", domain.id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let listener = options()?.export(domain, &service)?;
        let mut children = Vec::new();
        for index in places(on, &nodes, &facts)? {
            let node = &nodes[index];
            match spawn(domain, program, &node.name, &service) {
                Ok(child) => children.push((child, node)),
                Err(error) => {
                    kill_all(children.iter().map(|(child, _)| child));
                    return Err(not_started(&node.name, &error));
                }
            }
        }
        let started: Vec<(&Child, &str)> =
            children.iter().map(|(child, node)| (child, node.name.as_str())).collect();
        let channels = match accept_workers(&listener, &started, &|| false) {
            Ok(channels) => channels,
            Err(error) => {
                kill_all(children.iter().map(|(child, _)| child));
                return Err(error);
            }
        };
        let speeds = Speeds::new(&facts);
        let connected_worker = |((child, node), channel): ((Child, &NodeInfo), Channel)| {
            let (number, speed) = (node.id.0, speeds.of(&node.name));
            ConnectedWorker { child, channel, node: number, name: node.name.clone(), speed }
        };
        let workers = children.into_iter().zip(channels).map(connected_worker).collect();
        let (shared, driver) = Driver::start(workers, domain, listener, service, program.clone())?;
        let inner = Inner { shared, nodes, driver: Mutex::new(Some(driver)) };
        Ok(Tasks { inner: Arc::new(inner), node: None, timeout: TIMEOUT })
    }

    /// Returns the same tasks, restricted to workers on this node.
    ///
    /// # Errors
    /// [`TaskError::Tombolo`] if the node does not exist.
    pub fn on(&self, node: &str) -> Result<Tasks, TaskError> {
        let position = tombolo_placement::position(&self.inner.nodes, node)?;
        let node = Some((self.inner.nodes[position].id.0, node.to_owned()));
        Ok(Tasks { node, ..self.clone() })
    }

    /// Returns the same tasks with this timeout for joins; the default is 30 s.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Tasks {
        Tasks { timeout, ..self.clone() }
    }

    /// Starts a task. It runs when a worker requests it.
    ///
    /// # Errors
    /// [`TaskError::NoWorker`], [`TaskError::TooMany`] (1,048,576), [`TaskError::TooLong`].
    pub fn go<A: Value, R: Value>(
        &self,
        function: Function<A, R>,
        argument: A,
    ) -> Result<JoinHandle<R>, TaskError> {
        self.start_task(function.name(), function.number(), function.argument(&argument)?)
    }

    /// Starts a task of a function identified by its signature, with an encoded argument.
    ///
    /// # Errors
    /// Same as [`go`](Self::go); [`TaskError::BadValue`] if the argument is invalid.
    pub fn go_bytes(&self, signature: &Signature, argument: &[u8]) -> Result<JoinHandle<Vec<u8>>, TaskError> {
        signature.check_argument(argument)?;
        self.start_task(signature.name(), signature.number(), argument.into())
    }

    fn start_task<R: Value>(
        &self,
        function: &str,
        number: u64,
        argument: Bytes,
    ) -> Result<JoinHandle<R>, TaskError> {
        let (node, name) = match &self.node {
            Some((node, name)) => (Some(*node), name.as_str()),
            None => (None, ""),
        };
        let started = self.inner.shared.start_task(node, number, argument);
        let (number, slot) = started.map_err(|refusal| TaskError::refused(function, name, refusal))?;
        let starter: Arc<dyn CancelTask> = Arc::clone(&self.inner.shared) as _;
        Ok(JoinHandle::new(function, number, slot, starter, self.timeout))
    }

    /// Returns the usage of each worker.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerUsage> {
        self.inner.shared.workers()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.stop();
        let driver = self.driver.get_mut().map(Option::take).unwrap_or_default();
        // A waker of the program may drop the last `Tasks` on the driver's own thread.
        if let Some(driver) = driver.filter(|driver| driver.thread().id() != thread::current().id()) {
            let _ = driver.join();
        }
    }
}

/// Returns the node of each worker, as an index.
fn places(on: &str, nodes: &[NodeInfo], facts: &Facts) -> Result<Vec<usize>, TaskError> {
    let parsed: Result<Vec<Placement>, String> = on.split(',').map(str::parse).collect();
    let placements = parsed.map_err(PlacementError::Count)?;
    let mut auto = Auto::new(facts.clone(), Needs::default(), None);
    Ok(place(None, &placements, Order::Block, nodes, Some(&mut auto))?)
}

pub(crate) fn spawn(
    domain: &Domain,
    program: &SpawnOptions,
    node: &str,
    service: &str,
) -> Result<Child, Error> {
    domain.spawn(&program.clone().on(node).env(STARTER_VARIABLE, service))
}

/// Waits for a channel from each child; `children` includes the names of their nodes, and the result has the
/// same order.
pub(crate) fn accept_workers(
    listener: &Listener,
    children: &[(&Child, &str)],
    stopped: &impl Fn() -> bool,
) -> Result<Vec<Channel>, TaskError> {
    let (deadline, slices) = (Instant::now() + CONNECT_TIMEOUT, listener.within(Duration::from_millis(100)));
    let mut channels: Vec<Option<Channel>> = children.iter().map(|_| None).collect();
    while let Some(missing) = channels.iter().position(Option::is_none) {
        match slices.accept() {
            Ok(channel) => {
                let is_its = |(child, _): &(&Child, &str)| child.id() == channel.peer();
                if let Some(index) = children.iter().position(is_its) {
                    channels[index] = Some(channel);
                }
                continue;
            }
            Err(error @ Error::MonitorLost { .. }) => return Err(error.into()),
            Err(_) => {}
        }
        for ((child, node), _) in children.iter().zip(&channels).filter(|(_, channel)| channel.is_none()) {
            if let Ok(exit) = child.wait(Duration::ZERO) {
                return Err(not_started(node, &format_args!("it has ended: {exit}")));
            }
        }
        if stopped() || Instant::now() >= deadline {
            let why = format_args!("it has not connected in {} s", CONNECT_TIMEOUT.as_secs()).to_string();
            return Err(not_started(children[missing].1, &why));
        }
    }
    Ok(channels.into_iter().flatten().collect())
}

fn not_started(node: &str, why: &dyn std::fmt::Display) -> TaskError {
    TaskError::NotStarted { node: node.to_owned(), why: why.to_string() }
}

pub(crate) fn kill_all<'c>(children: impl Iterator<Item = &'c Child>) {
    for child in children {
        // Without a monitor there is nothing left to end.
        let _ = child.kill();
    }
}

/// Speeds of nodes, as measured by their monitors.
struct Speeds<'f> {
    facts: &'f Facts,
    /// Speed of nodes without a measurement: the slowest of the others.
    default_speed: u64,
}

impl<'f> Speeds<'f> {
    fn new(facts: &'f Facts) -> Speeds<'f> {
        let measured = facts.nodes().iter().filter_map(|node| node.integer("rounds_per_ms"));
        Speeds { facts, default_speed: measured.min().unwrap_or(1) }
    }

    fn of(&self, node: &str) -> u32 {
        let fact = self.facts.nodes().iter().find(|fact| fact.name() == node);
        let speed = fact.and_then(|fact| fact.integer("rounds_per_ms")).unwrap_or(self.default_speed);
        u32::try_from(speed).unwrap_or(u32::MAX)
    }
}
