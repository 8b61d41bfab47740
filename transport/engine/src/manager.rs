//! Chooses an engine for each request.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

use tombolo_link::cost::CostCurve;
use tombolo_platform::OsError;
use tombolo_platform::epoll::{Epoll, Trigger};
use tombolo_platform::event::Interest;

use crate::calibration::{Direction, Effort, NotMeasured, measure};
use crate::contract::{Abilities, Engine, RejectionReason};
use crate::request::{Completion, Refusal, Request, RequestId};
use tombolo_link::copy_cost::{Curve, Route};

/// Expected time of a request on an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Estimate {
    /// From a measured curve.
    Measured {
        /// Time in nanoseconds.
        time_ns: u64,
    },
    /// Not measured: an order of magnitude for engines of this kind.
    Declared {
        /// Time in nanoseconds.
        time_ns: u64,
    },
}

impl Estimate {
    /// Returns the time, in nanoseconds.
    #[must_use]
    pub const fn time_ns(self) -> u64 {
        match self {
            Estimate::Measured { time_ns } | Estimate::Declared { time_ns } => time_ns,
        }
    }

    /// Whether the estimate comes from a measurement.
    #[must_use]
    pub const fn measured(self) -> bool {
        matches!(self, Estimate::Measured { .. })
    }
}

/// Engine together with one of the alternative requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Name of the engine.
    pub engine: String,
    /// Index of the alternative request.
    pub way: usize,
    /// Route of that request.
    pub route: Route,
    /// Expected time, or the reason why the engine cannot execute it.
    pub estimate: Result<Estimate, Refusal>,
}

/// Chosen engine, and the alternatives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// All engines with all alternative requests, cheapest first, impossible ones last. The first one is
    /// chosen.
    pub candidates: Vec<Candidate>,
}

impl Choice {
    /// Returns the first candidate, which is the cheapest.
    #[must_use]
    pub fn chosen(&self) -> &Candidate {
        // A choice is only built from at least one possible candidate.
        &self.candidates[0]
    }
}

/// Reason why no engine was chosen, or none accepted the request.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unable {
    /// No engine can execute it; each gives its reason.
    #[error("no engine does this: {}", refusals(.candidates))]
    NoEngine {
        /// Every engine with every alternative request.
        candidates: Vec<Candidate>,
    },
    /// All engines that can execute it are full.
    #[error("all engines that do this are full; take completions and try again")]
    Busy,
    /// A request in progress at one of the engines uses the same bytes as this one, and either writes them.
    #[error(
        "{with} of engine {engine} is in progress with the same bytes: take its completion first, or fence this request"
    )]
    InUse {
        /// Name of the engine.
        engine: String,
        /// Id of the request in progress.
        with: RequestId,
    },
    /// The request is fenced, and the requests in progress are not all on one engine that can execute it.
    #[error("what the fenced request waits for is in progress at {}: take its completions first", engines.join(", "))]
    Fenced {
        /// Names of the engines.
        engines: Vec<String>,
    },
}

fn refusals(candidates: &[Candidate]) -> String {
    let mut reasons: Vec<String> = Vec::new();
    for Candidate { engine, estimate, .. } in candidates {
        if let Err(refusal) = estimate {
            reasons.push(format!("{engine}: {refusal}"));
        }
    }
    if reasons.is_empty() { "there are no engines".into() } else { reasons.join("; ") }
}

/// Handle of a request and the engine that executes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket {
    engine: usize,
    id: RequestId,
}

/// Set of engines with their costs.
#[derive(Default)]
pub struct Manager {
    engines: Vec<Box<dyn Engine>>,
    curves: BTreeMap<(String, Route), Curve>,
    /// Combines the descriptors of all engines; created on first use.
    epoll: Option<Epoll>,
}

impl Manager {
    /// Creates a manager without engines.
    #[must_use]
    pub fn new() -> Manager {
        Manager::default()
    }

    /// Adds an engine to which requests may be submitted.
    ///
    /// # Errors
    /// Its descriptor cannot be watched: too many open files.
    pub fn add(&mut self, mut engine: Box<dyn Engine>) -> Result<(), OsError> {
        if let Some(epoll) = &self.epoll {
            watch(epoll, engine.as_mut(), self.engines.len())?;
        }
        self.engines.push(engine);
        Ok(())
    }

    /// Returns the engines, in order of addition.
    pub fn engines(&self) -> impl Iterator<Item = &dyn Engine> {
        self.engines.iter().map(AsRef::as_ref)
    }

    /// Returns the measured curves of all engines and routes.
    pub fn curves(&self) -> impl Iterator<Item = (&str, Route, &Curve)> {
        self.curves.iter().map(|((engine, route), curve)| (engine.as_str(), *route, curve))
    }

    /// Sets a curve that was measured earlier or elsewhere for the engine `engine`.
    pub fn set_curve(&mut self, engine: &str, route: Route, curve: Curve) {
        self.curves.insert((engine.to_owned(), route), curve);
    }

    /// Measures every engine that supports `direction`. The engines must be idle. Returns the engines that
    /// could not be measured, with the reason; such an engine is not chosen while others are measured.
    pub fn calibrate(&mut self, direction: &Direction, effort: Effort) -> Vec<(String, NotMeasured)> {
        let request = direction.request(0);
        let mut failed = Vec::new();
        for engine in &mut self.engines {
            if engine.check(&request).is_err() {
                continue;
            }
            match measure(engine.as_mut(), direction, effort) {
                Ok(curve) => {
                    self.curves.insert((engine.name().to_owned(), request.route()), curve);
                }
                Err(error) => failed.push((engine.name().to_owned(), error)),
            }
        }
        failed
    }

    /// Returns the engine that would be chosen for a request, and why.
    ///
    /// # Errors
    /// No engine can execute it.
    pub fn choose(&self, request: &Request) -> Result<Choice, Unable> {
        self.choose_way(std::slice::from_ref(request))
    }

    /// Like [`choose`](Self::choose), for a copy that can be requested in several ways, such as pushing with
    /// this side's processor or letting the far side pull memory that both sides map.
    ///
    /// # Errors
    /// No engine can execute any of them.
    pub fn choose_way(&self, ways: &[Request]) -> Result<Choice, Unable> {
        self.rank(ways, |engine, request| {
            let route = request.route();
            (route, engine.check(request).map(|()| self.estimate(engine, route, request.length_bytes)))
        })
    }

    /// Like [`choose_way`](Self::choose_way), for routes alone, without memory, and a request of
    /// `length_bytes`.
    ///
    /// # Errors
    /// No engine can execute any of them.
    pub fn explain(&self, routes: &[Route], length_bytes: u64) -> Result<Choice, Unable> {
        self.rank(routes, |engine, route| {
            let reaches = engine.abilities().reaches(*route);
            let estimate = reaches.then(|| self.estimate(engine, *route, length_bytes));
            (*route, estimate.ok_or(Refusal::Unreachable { route: *route }))
        })
    }

    /// Ranks every engine with every alternative, cheapest first.
    fn rank<W>(
        &self,
        ways: &[W],
        ask: impl Fn(&dyn Engine, &W) -> (Route, Result<Estimate, Refusal>),
    ) -> Result<Choice, Unable> {
        let mut candidates = Vec::new();
        for (way, named) in ways.iter().enumerate() {
            for engine in &self.engines {
                let (route, estimate) = ask(engine.as_ref(), named);
                candidates.push(Candidate { engine: engine.name().to_owned(), way, route, estimate });
            }
        }
        candidates.sort_by_key(|candidate| match &candidate.estimate {
            Ok(estimate) => (0, estimate.time_ns()),
            Err(_) => (1, 0),
        });
        match candidates.first() {
            Some(Candidate { estimate: Ok(_), .. }) => Ok(Choice { candidates }),
            _ => Err(Unable::NoEngine { candidates }),
        }
    }

    fn estimate(&self, engine: &dyn Engine, route: Route, length_bytes: u64) -> Estimate {
        match self.curves.get(&(engine.name().to_owned(), route)) {
            Some(curve) => Estimate::Measured { time_ns: curve.time_ns(length_bytes) },
            None => Estimate::Declared { time_ns: declared(engine.abilities(), route).time_ns(length_bytes) },
        }
    }

    /// Submits a request to the cheapest engine, or to the next cheapest if that is full. A fenced request
    /// goes to the engine that has all requests in progress.
    ///
    /// # Errors
    /// No engine can execute it, all that can are full, it conflicts with a request in progress, or it cannot
    /// be fenced against those. Nothing happened.
    pub fn submit(&mut self, request: &Request) -> Result<Ticket, Unable> {
        self.submit_way(std::slice::from_ref(request))
    }

    /// Like [`submit`](Self::submit), for a copy that can be requested in several ways.
    ///
    /// # Errors
    /// Same as [`submit`](Self::submit).
    pub fn submit_way(&mut self, ways: &[Request]) -> Result<Ticket, Unable> {
        let choice = self.choose_way(ways)?;
        let engines = self.engines.iter();
        let busy: Vec<usize> =
            engines.enumerate().filter(|(_, it)| it.in_progress() > 0).map(|(index, _)| index).collect();
        if let Some(conflict) = ways.iter().find_map(|request| self.conflict(&busy, request)) {
            return Err(conflict);
        }
        let mut fenced = false;
        for candidate in choice.candidates.iter().filter(|candidate| candidate.estimate.is_ok()) {
            let mut engines = self.engines.iter();
            let Some(index) = engines.position(|engine| engine.name() == candidate.engine) else { continue };
            if ways[candidate.way].fence && busy.iter().any(|other| *other != index) {
                fenced = true;
                continue;
            }
            match self.engines[index].submit(ways[candidate.way].clone()) {
                Ok(id) => return Ok(Ticket { engine: index, id }),
                // Full, or failed since the choice was made: try the next.
                Err(rejected) => match rejected.why {
                    RejectionReason::Full { .. } | RejectionReason::Refused(_) => {}
                },
            }
        }
        if fenced {
            let name = |index: &usize| self.engines[*index].name().to_owned();
            return Err(Unable::Fenced { engines: busy.iter().map(name).collect() });
        }
        Err(Unable::Busy)
    }

    /// Returns the error if a request in progress conflicts with an unfenced one.
    fn conflict(&self, busy: &[usize], request: &Request) -> Option<Unable> {
        let mut engines = busy.iter().map(|index| &self.engines[*index]).filter(|_| !request.fence);
        engines.find_map(|engine| {
            let with = engine.conflict(request)?;
            Some(Unable::InUse { engine: engine.name().to_owned(), with })
        })
    }

    /// Requests the cancellation of a request, as [`Engine::cancel`].
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        self.engines.get_mut(ticket.engine).is_some_and(|engine| engine.cancel(ticket.id))
    }

    /// Takes the next completion of any engine.
    pub fn take(&mut self) -> Option<(Ticket, Completion)> {
        self.engines.iter_mut().enumerate().find_map(|(index, engine)| {
            let completion = engine.take()?;
            Some((Ticket { engine: index, id: completion.id }, completion))
        })
    }

    /// Returns the number of accepted requests whose completions were not taken.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.engines.iter().map(|engine| engine.in_flight()).sum()
    }

    /// Returns a descriptor that is readable while there are completions to take, as [`Engine::descriptor`].
    ///
    /// # Errors
    /// Too many open files.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, OsError> {
        let epoll = match self.epoll.take() {
            Some(epoll) => epoll,
            None => {
                let epoll = Epoll::new()?;
                for (index, engine) in self.engines.iter_mut().enumerate() {
                    watch(&epoll, engine.as_mut(), index)?;
                }
                epoll
            }
        };
        let epoll: &Epoll = self.epoll.insert(epoll);
        Ok(epoll.as_fd())
    }
}

fn watch(epoll: &Epoll, engine: &mut dyn Engine, index: usize) -> Result<(), OsError> {
    epoll.add(engine.descriptor()?, Interest::Read, Trigger::Level, index as u64)
}

/// Returns the cost of an engine with these abilities as orders of magnitude: good enough for choosing until
/// it is measured.
#[must_use]
pub fn declared(abilities: Abilities, route: Route) -> CostCurve {
    const GB: u64 = 1_000_000_000;
    let curve = |latency_ns, bytes_per_s| CostCurve { latency_ns, bytes_per_s };
    use tombolo_link::copy_cost::Reach::{Device, Far, Mapped, Process};
    match (route.source, route.target) {
        (Mapped, Mapped) if !abilities.contains(Abilities::BACKGROUND) => curve(50, 10 * GB),
        (Mapped, Mapped) => curve(20_000, 12 * GB),
        (Process, _) | (_, Process) => curve(20_000, 5 * GB),
        (Far, Far) => curve(40_000, 8 * GB),
        (Far, _) | (_, Far) => curve(50_000, 2 * GB),
        (Device, _) | (_, Device) => curve(20_000, 10 * GB),
    }
}
