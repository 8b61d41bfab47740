//! Engines: what copies and fills memory in the background, and who chooses among them.
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
//! What each engine costs by the length is measured by the first program of a node that asks. It is kept with
//! the machine as records of its names (`copy.costs/NODE/ENGINE`), where all others find it; `tombolo bulk
//! explain` shows which engine would be chosen and why. A channel is an engine too: [`far_engine`] has the
//! far side copy, where a program [serves](CopyServer) the other end.

use std::sync::Arc;

use tombolo::names::{NewRecord, Value};
use tombolo::{Channel, Domain, Error};
use tombolo_engine::attach::Attach;
use tombolo_engine::cpu::{Caller, LIMIT, Threads};
use tombolo_engine::cuda::Cuda;
use tombolo_platform::copy::Loop;
use tombolo_platform::copy::attach::address_of;
use tombolo_platform::{memory, thread};

pub use tombolo::region::SharedMemory;
pub use tombolo_engine::far::{Access, Far, FarRefusal, MemoryId, Offers, Server, serve};
pub use tombolo_engine::{
    Abilities, Candidate, Choice, Completion, Curve, Direction, Effort, Engine, Estimate, Failure, Location,
    Manager, NotMeasured, Operation, OperationKind, Reach, Refusal, Rejected, Request, RequestId, Route,
    Ticket, Unable, WhyRejected, declared, finish,
};
pub use tombolo_platform::Deadline;
pub use tombolo_platform::copy::attach::{ForeignProcess, allow as allow_copies_by};
pub use tombolo_platform::copy::cuda::{Device, DeviceMemory, PinnedMemory};

/// Bytes of each of the two memories that engines are measured with.
const MEASURED_BYTES: usize = 4 << 20;

/// An engine that this node has not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// The engine that was asked for.
    pub engine: String,
    /// The error that kept it from being used, as text.
    pub why: String,
}

/// The engines of this node and what each costs. Everything of a [`Manager`] can be done with it.
pub struct Engines {
    domain: Domain,
    manager: Manager,
    missing: Vec<Missing>,
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

/// All engines that this node has.
fn all() -> Result<(Manager, Vec<Missing>), Error> {
    let (mut manager, mut missing) = (Manager::new(), Vec::new());
    manager.add(Box::new(Caller::new(Loop::Best, LIMIT)))?;
    if Loop::here().contains(&Loop::Streaming) {
        manager.add(Box::new(Caller::new(Loop::Streaming, LIMIT)))?;
    }
    let processors = thread::cpus()?.len();
    manager.add(Box::new(Threads::start(Loop::Best, 1, LIMIT)?))?;
    if processors > 1 {
        // More are rarely faster: memory is what they share.
        manager.add(Box::new(Threads::start(Loop::Best, processors.min(4), LIMIT)?))?;
    }
    manager.add(Box::new(Attach::start(LIMIT)?))?;
    match Cuda::start(0, LIMIT) {
        Ok((engine, _device)) => manager.add(Box::new(engine))?,
        Err(error) => missing.push(Missing { engine: "cuda-0".into(), why: error.to_string() }),
    }
    Ok((manager, missing))
}

impl Engines {
    /// The engines of the node of `domain`. Their costs are those that the machine knows; the first program
    /// of a node measures them, which takes some tens of milliseconds.
    ///
    /// # Errors
    /// No more threads or files; the monitor.
    pub fn new(domain: &Domain) -> Result<Engines, Error> {
        let (manager, missing) = all()?;
        let mut engines = Engines { domain: domain.clone(), manager, missing };
        if !engines.recall()? {
            engines.calibrate(Effort::default())?;
        }
        Ok(engines)
    }

    /// Engines that this node has not, and why.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// The name under which the machine keeps what an engine of this node costs.
    fn record_name(&self, engine: &str) -> String {
        format!("copy.costs/{}/{engine}", self.domain.node_name())
    }

    /// Takes over what the machine knows; whether it knew anything of every engine that copies what is
    /// mapped. What makes no sense is passed over: any program may set a record.
    fn recall(&mut self) -> Result<bool, Error> {
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

    /// Measures all engines anew, and has the machine keep it. Says what could not be measured, and why.
    ///
    /// # Errors
    /// Out of memory; the monitor.
    pub fn calibrate(&mut self, effort: Effort) -> Result<Vec<Missing>, Error> {
        let effort = Effort { max_bytes: effort.max_bytes.min(MEASURED_BYTES as u64), ..effort };
        let mut failed = Vec::new();
        for direction in directions()? {
            for (engine, error) in self.manager.calibrate(&direction, effort) {
                failed.push(Missing { engine, why: error.to_string() });
            }
        }
        self.keep()?;
        Ok(failed)
    }

    fn keep(&self) -> Result<(), Error> {
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

/// What is measured on a node by itself.
fn routes() -> [Route; 4] {
    [
        Route::copy(Reach::Mapped, Reach::Mapped),
        Route::fill(Reach::Mapped),
        Route::copy(Reach::Process, Reach::Mapped),
        Route::copy(Reach::Mapped, Reach::Process),
    ]
}

/// The same with memory. That of "another" process is this one's: the kernel does the same.
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
    // A kernel that names no processes so does not copy between them either.
    if let (Ok(process), Ok(address)) = (ForeignProcess::watch(pid), address_of(&both, 0)) {
        let other = Location::Process { process: Arc::new(process), address };
        directions.push(Direction::Copy { source: other.clone(), target: target.clone() });
        directions.push(Direction::Copy { source: target, target: other });
    }
    Ok(directions)
}

/// Makes an engine of the far side of a channel, where a program serves the other end by a [`CopyServer`]. It
/// takes `limit` requests; its name is that of the channel.
///
/// # Errors
/// The channel's messages are too short; no more threads.
pub fn far_engine(channel: Channel, limit: usize) -> Result<Far, Error> {
    let name = format!("far-{}-{}", channel.peer_node(), channel.id().0);
    Ok(Far::start(&name, channel, limit)?)
}

/// An end of a channel at which memory is offered, to the [engine](far_engine) of the other.
#[derive(Debug)]
pub struct CopyServer(Server<Channel>);

impl CopyServer {
    /// Offers memory at this end of a channel.
    #[must_use]
    pub fn new(channel: Channel, offers: Offers) -> CopyServer {
        CopyServer(Server::new(channel, offers))
    }

    /// What is offered, to offer and withdraw more.
    pub fn offers(&mut self) -> &mut Offers {
        self.0.offers()
    }

    /// Obeys commands until the other side closes its end or `until` has passed; says how many.
    ///
    /// # Errors
    /// The other side died, or broke the protocol.
    pub fn serve(&mut self, until: Deadline) -> Result<u64, Error> {
        serve(&mut self.0, until).map_err(|error| {
            let channel = self.0.channel();
            match channel.try_recv_into(&mut Vec::new()) {
                // A channel that has failed says so with all that is known of its end.
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
        let (mut manager, missing) = all().unwrap();
        let effort = Effort { max_bytes: 4096, rounds: 1, timeout: LONG };
        for direction in directions().unwrap() {
            for (engine, error) in manager.calibrate(&direction, effort) {
                assert_eq!(engine, "attach", "{error}");
            }
        }
        for engine in manager.engines().filter(|engine| engine.abilities().contains(Abilities::MAPPED)) {
            let of_it = manager.curves().filter(|(name, _, _)| *name == engine.name()).count();
            assert_eq!(of_it, 2, "{}", engine.name());
        }
        assert!(missing.iter().all(|missing| missing.engine == "cuda-0" && !missing.why.is_empty()));
    }
}
