//! Engines, which copy and fill memory in the background, and the choice between them.
//!
//! ```no_run
//! use tombolo::Domain;
//! use tombolo_copies::engines::{Engines, Location, Request, SharedMemory};
//!
//! # fn main() -> Result<(), tombolo::Error> {
//! let mut engines = Engines::new(&Domain::attach()?)?;
//! let (source, target) = (SharedMemory::zeroed(1 << 20), SharedMemory::zeroed(1 << 20));
//! let request = Request::copy(Location::mapped(&source), Location::mapped(&target), 1 << 20);
//! let ticket = engines.submit(&request).expect("an engine for memory that is mapped");
//! // Something else, until `engines.descriptor()` is readable, in a waitset for instance.
//! # while engines.take().is_none() {}
//! # let _ = ticket; Ok(())
//! # }
//! ```
//!
//! The first program on a node that uses engines measures the cost of each one by length. The machine keeps
//! the results as records of its names (`copy.costs/NODE/ENGINE`), where all other programs find them;
//! `tombolo bulk explain` shows which engine would be chosen and why. A channel is an engine as well:
//! [`far_engine`] lets the far side copy, if a program [serves](CopyServer) the other end.

use std::sync::Arc;

use tombolo::names::{NewRecord, Value};
use tombolo::{Channel, Domain, Error};
use tombolo_engine::attach::Attach;
use tombolo_engine::cpu::{Caller, LIMIT, Threads};
use tombolo_engine::cuda::Cuda;
use tombolo_platform::copy::CopyLoop;
use tombolo_platform::copy::attach::address_of;
use tombolo_platform::{memory, thread};

pub use tombolo::region::SharedMemory;
pub use tombolo_engine::far::{Access, Far, FarRefusal, MemoryId, Offers, Server, serve};
pub use tombolo_engine::{
    Abilities, Candidate, Choice, Completion, Curve, Direction, Effort, Engine, Estimate, Failure, Location,
    Manager, NotMeasured, Operation, OperationKind, Reach, Refusal, Rejected, RejectionReason, Request,
    RequestId, Route, Ticket, Unable, declared, finish,
};
pub use tombolo_platform::Deadline;
pub use tombolo_platform::copy::attach::{ForeignProcess, allow_access_by as allow_copies_by};
pub use tombolo_platform::copy::cuda::{Device, DeviceMemory, PinnedMemory};

/// Size of each of the two memories for measuring engines, in bytes.
const MEASURED_BYTES: usize = 4 << 20;

/// Engine that is not available on this node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnavailableEngine {
    /// Name of the engine.
    pub engine: String,
    /// Error that prevented its use, as text.
    pub why: String,
}

/// Engines of this node, with their costs. It has all operations of a [`Manager`].
pub struct Engines {
    domain: Domain,
    manager: Manager,
    missing: Vec<UnavailableEngine>,
}

impl std::fmt::Debug for Engines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.manager.engines().map(Engine::name).collect();
        write!(f, "Engines({})", names.join(", "))
    }
}

impl std::ops::Deref for Engines {
    type Target = Manager;

    fn deref(&self) -> &Manager {
        &self.manager
    }
}

impl std::ops::DerefMut for Engines {
    fn deref_mut(&mut self) -> &mut Manager {
        &mut self.manager
    }
}

/// Starts all engines that this node has.
fn start_all() -> Result<(Manager, Vec<UnavailableEngine>), Error> {
    let (mut manager, mut missing) = (Manager::new(), Vec::new());
    manager.add(Box::new(Caller::new(CopyLoop::Best, LIMIT)))?;
    if CopyLoop::available().contains(&CopyLoop::Streaming) {
        manager.add(Box::new(Caller::new(CopyLoop::Streaming, LIMIT)))?;
    }
    let processors = thread::cpus()?.len();
    manager.add(Box::new(Threads::start(CopyLoop::Best, 1, LIMIT)?))?;
    if processors > 1 {
        // More threads are rarely faster: they share the memory bandwidth.
        manager.add(Box::new(Threads::start(CopyLoop::Best, processors.min(4), LIMIT)?))?;
    }
    manager.add(Box::new(Attach::start(LIMIT)?))?;
    match Cuda::start(0, LIMIT) {
        Ok((engine, _device)) => manager.add(Box::new(engine))?,
        Err(error) => missing.push(UnavailableEngine { engine: "cuda-0".into(), why: error.to_string() }),
    }
    Ok((manager, missing))
}

impl Engines {
    /// Starts the engines of the node of `domain`. Their costs are those recorded by the machine; the first
    /// program on a node measures them, which takes some tens of milliseconds.
    ///
    /// # Errors
    /// An error of the monitor, or if no thread or descriptor can be created.
    pub fn new(domain: &Domain) -> Result<Engines, Error> {
        let (manager, missing) = start_all()?;
        let mut engines = Engines { domain: domain.clone(), manager, missing };
        if !engines.load_costs()? {
            engines.calibrate(Effort::default())?;
        }
        Ok(engines)
    }

    /// Engines that this node does not have, with the reasons.
    #[must_use]
    pub fn missing(&self) -> &[UnavailableEngine] {
        &self.missing
    }

    /// Name of the record with the costs of an engine of this node.
    fn record_name(&self, engine: &str) -> String {
        format!("copy.costs/{}/{engine}", self.domain.node_name())
    }

    /// Loads the recorded costs. Returns whether there are some for every engine that copies mapped memory.
    /// Invalid values are ignored, because any program can set a record.
    fn load_costs(&mut self) -> Result<bool, Error> {
        let pattern = format!("{}*", self.record_name(""));
        let records = self.domain.names().find(&pattern)?;
        let names: Vec<String> = self.manager.engines().map(|engine| engine.name().to_owned()).collect();
        let mut known = 0;
        for engine in &names {
            let name = self.record_name(engine);
            let Some(record) = records.iter().find(|record| record.name == name) else { continue };
            for route in routes() {
                let Some(Value::Text(text)) = record.attributes.get(&route.to_string()) else { continue };
                if let Ok(curve) = text.parse() {
                    self.manager.set_curve(engine, route, curve);
                    known += usize::from(route == Route::copy(Reach::Mapped, Reach::Mapped));
                }
            }
        }
        let copies = Route::copy(Reach::Mapped, Reach::Mapped);
        let wanted = self.manager.engines().filter(|engine| engine.abilities().reaches(copies)).count();
        Ok(known == wanted)
    }

    /// Measures all engines again, and records the results with the machine. Returns what could not be
    /// measured, with the reasons.
    ///
    /// # Errors
    /// An error of the monitor, or if there is not enough memory.
    pub fn calibrate(&mut self, effort: Effort) -> Result<Vec<UnavailableEngine>, Error> {
        let effort = Effort { max_bytes: effort.max_bytes.min(MEASURED_BYTES as u64), ..effort };
        let mut failed = Vec::new();
        for direction in directions()? {
            for (engine, error) in self.manager.calibrate(&direction, effort) {
                failed.push(UnavailableEngine { engine, why: error.to_string() });
            }
        }
        self.save_costs()?;
        Ok(failed)
    }

    fn save_costs(&self) -> Result<(), Error> {
        for engine in self.manager.engines().map(Engine::name) {
            let mut record = NewRecord::new(&self.record_name(engine)).persistent();
            let mut measured = false;
            for (_, route, curve) in self.manager.curves().filter(|(name, _, _)| *name == engine) {
                record = record.with(&route.to_string(), curve.to_string());
                measured = true;
            }
            if measured {
                self.domain.names().set(&record)?;
            }
        }
        Ok(())
    }
}

/// Routes that are measured on a single node.
fn routes() -> [Route; 4] {
    [
        Route::copy(Reach::Mapped, Reach::Mapped),
        Route::fill(Reach::Mapped),
        Route::copy(Reach::Process, Reach::Mapped),
        Route::copy(Reach::Mapped, Reach::Process),
    ]
}

/// Returns the routes with memory. Memory of this process serves as that of another process: the kernel does
/// the same work.
fn directions() -> Result<Vec<Direction>, Error> {
    let file = memory::create_sealed("tombolo-costs", 2 * MEASURED_BYTES as u64)?;
    let both = memory::map(&file, 0, 2 * MEASURED_BYTES)?;
    let half = |offset_bytes| Location::Mapped { memory: both.clone(), offset_bytes };
    let (source, target) = (half(0), half(MEASURED_BYTES));
    let mut directions = vec![
        Direction::Copy { source: source.clone(), target: target.clone() },
        Direction::Fill { target: target.clone() },
    ];
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    // A kernel that does not support these process descriptors does not copy between processes either.
    if let (Ok(process), Ok(address)) = (ForeignProcess::open(pid), address_of(&both, 0)) {
        let other = Location::Process { process: Arc::new(process), address };
        directions.push(Direction::Copy { source: other.clone(), target: target.clone() });
        directions.push(Direction::Copy { source: target, target: other });
    }
    Ok(directions)
}

/// Creates an engine that copies on the far side of a channel, where a program serves the other end with a
/// [`CopyServer`]. It accepts `limit` requests; its name contains that of the channel.
///
/// # Errors
/// An error if the channel's messages are too short, or no thread can be created.
pub fn far_engine(channel: Channel, limit: usize) -> Result<Far, Error> {
    let name = format!("far-{}-{}", channel.peer_node(), channel.id().0);
    Ok(Far::start(&name, channel, limit)?)
}

/// End of a channel that offers memory to the [engine](far_engine) at the other end.
#[derive(Debug)]
pub struct CopyServer(Server<Channel>);

impl CopyServer {
    /// Creates a server that offers memory at this end of a channel.
    #[must_use]
    pub fn new(channel: Channel, offers: Offers) -> CopyServer {
        CopyServer(Server::new(channel, offers))
    }

    /// Returns the offers, to add or withdraw some.
    pub fn offers(&mut self) -> &mut Offers {
        self.0.offers()
    }

    /// Executes commands until the other side closes its end or the deadline passes; returns their number.
    ///
    /// # Errors
    /// An error if the other side died, or broke the protocol.
    pub fn serve(&mut self, until: Deadline) -> Result<u64, Error> {
        serve(&mut self.0, until).map_err(|error| {
            let channel = self.0.channel();
            match channel.try_recv_into(&mut Vec::new()) {
                // A channel that has ended reports all that is known about its end.
                Err(ended) if ended != Error::WouldBlock => ended,
                _ => {
                    let (peer, node, id) = (channel.peer(), channel.peer_node().to_owned(), channel.id());
                    Error::Violation { peer, node, channel: id, what: error.to_string() }
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn every_engine_of_this_node_is_measured() {
        let (mut manager, missing) = start_all().unwrap();
        let effort = Effort { max_bytes: 4096, rounds: 1, timeout: LONG };
        for direction in directions().unwrap() {
            for (engine, error) in manager.calibrate(&direction, effort) {
                assert_eq!(engine, "attach", "{error}");
            }
        }
        for engine in manager.engines().filter(|engine| engine.abilities().contains(Abilities::MAPPED)) {
            let curve_count = manager.curves().filter(|(name, _, _)| *name == engine.name()).count();
            assert_eq!(curve_count, 2, "{}", engine.name());
        }
        assert!(missing.iter().all(|missing| missing.engine == "cuda-0" && !missing.why.is_empty()));
    }
}
