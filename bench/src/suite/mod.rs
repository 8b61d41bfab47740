//! Comparison of Tombolo with its alternatives and with the limits of the hardware: `tombolo bench all`.
//!
//! Everything is measured between two programs, each pinned to a processor; the sender writes every byte and
//! the receiver checks it. Each slice of a measurement is enclosed by two probes, short ping-pongs of two
//! bare cache lines. Where a hypervisor moves processors, the same program differs by a factor of four from
//! one second to the next: a slice during which they were moved is repeated, and figures of twin threads, of
//! cores that share a cache and of distant processors are never mixed.
//!
//! Each peer is one file behind [`Peer`]. Those without dependencies outside this tree are in [`peers`]; the
//! others are in a separate workspace, `bench/peers`, so that this one does not need their dependencies.

pub mod arrays;
pub mod content;
mod distance;
mod error;
mod far;
mod line;
mod metric;
mod peer;
pub mod peers;
pub mod peers_program;
pub(crate) mod placement;
pub(crate) mod results;
mod session;
mod slices;
mod text;
mod work;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use arrays::Arrays;
pub(crate) use distance::Classifier;
pub use distance::{Distance, ONE_CACHE_NS, TWIN_THREADS_NS};
pub use error::Error;
pub use far::serve;
pub use line::ControlLine;
pub use metric::{Metric, Unit, length};
pub use peer::{Absent, MEMORY_BYTES, Meeting, Peer, Side, buffers};
pub use placement::Placed;
pub use results::{Failed, Pair, PeerInfo, Results, Route, Row, SCHEMA, Settings, disturbed_share};
use results::{tenths, thousandths};
pub use work::{AnyEnd, End};

use crate::cpus::{self, Pinned};
use crate::host::Host;
use crate::ring::processors;
use crate::sample::Clock;
use serde::{Deserialize, Serialize};
use session::Session;
use slices::Slices;
use tombolo_bench_far::placement::Rings;

/// Options of the comparison.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Options {
    /// Label of the machine in reports.
    pub label: String,
    /// Number and length of the slices.
    pub schedule: Schedule,
    /// Names of the peers to compare; empty for all.
    pub only: Vec<String>,
    /// Number of processors of which every pair is measured.
    pub pairs: usize,
    /// Whether to measure the placements of slots and credit.
    pub placement: bool,
    /// Program that serves the far side, with its arguments.
    pub far: Vec<String>,
}

/// Number and length of the slices of each figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Schedule {
    /// Number of slices per figure; at least one.
    pub slices: u32,
    /// Length of a slice.
    pub slice: Duration,
    /// Number of retries of a disturbed slice.
    pub retries: u32,
}

impl Default for Schedule {
    /// Returns 7 slices of 20 ms with up to three retries each.
    fn default() -> Self {
        Schedule { slices: 7, slice: Duration::from_millis(20), retries: 3 }
    }
}

/// Compares `peers`. A failure does not prevent further measurements; it is recorded in [`Results::failed`].
///
/// `progress` is called with a description of each measurement.
///
/// # Errors
/// [`Error::UnknownPeer`], or fewer than two processors.
pub fn run(
    peers: &[&dyn Peer],
    absent: &[Absent],
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Results, Error> {
    let chosen = choose(peers, absent, &options.only)?;
    let (near, far) = processors()?;
    let clock = Clock::calibrate();
    let pinned = Pinned::to(near)
        .map_err(|error| crate::ring::Error::Cpus { what: format!("stay on processor {near}"), error })?;
    let mut results = Results {
        schema: SCHEMA,
        label: options.label.clone(),
        taken_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        version: env!("CARGO_PKG_VERSION").into(),
        host: Host::describe(),
        settings: Settings {
            slices: options.schedule.slices,
            slice_ms: options.schedule.slice.as_secs_f64() * 1000.0,
            clock_cost_ns: clock.cost_ns(),
            cpus: [near, far],
            sharing: cpus::sharing(near, far),
        },
        peers: Vec::new(),
        absent: absent.to_vec(),
        rows: Vec::new(),
        pairs: Vec::new(),
        placement: Vec::new(),
        links: Vec::new(),
        distribution: None,
        arrays: None,
        openmp: None,
        failed: Vec::new(),
    };
    let mut found = Vec::new();
    for peer in chosen {
        if let Some(why) = peer.absence() {
            results.absent.push(Absent { peer: peer.name().into(), why });
            continue;
        }
        results.peers.push(PeerInfo { name: peer.name().into(), about: peer.about() });
        compare(peer, options, clock, (near, far), (&mut found, &mut results.failed), progress);
    }
    let classifier = Classifier::new(&results.host, results.settings.sharing);
    for (peer, metric, slices) in &found {
        results.rows.extend(results::rows(peer, *metric, slices, classifier));
    }
    let measured = found.iter().map(|(_, metric, _)| *metric);
    results.rows.extend(peers::copying::rows(measured, options.schedule));
    if options.placement {
        progress("where slots and credit lie");
        match place(options, clock, (near, far)) {
            Ok(placed) => results.placement = placed,
            Err(error) => results.failed.push(Failed::new("where slots and credit lie", &error)),
        }
    }
    if let Some(ring) = peers.iter().find(|peer| peer.name() == peers::tombolo::NAME)
        && options.pairs >= 2
    {
        progress("every pair of processors");
        match pairs(*ring, options, clock) {
            Ok(pairs) => results.pairs = pairs,
            Err(error) => results.failed.push(Failed::new("every pair of processors", &error)),
        }
    }
    drop(pinned);
    Ok(results)
}

/// Selects the requested peers.
fn choose<'a>(
    peers: &[&'a dyn Peer],
    absent: &[Absent],
    only: &[String],
) -> Result<Vec<&'a dyn Peer>, Error> {
    let known = || peers.iter().map(|peer| peer.name());
    if let Some(name) = only.iter().find(|name| {
        known().all(|known| known != **name) && absent.iter().all(|absent| absent.peer != **name)
    }) {
        return Err(Error::UnknownPeer { name: name.clone(), known: known().map(str::to_owned).collect() });
    }
    let wanted = |peer: &&&dyn Peer| only.is_empty() || only.iter().any(|name| name == peer.name());
    Ok(peers.iter().filter(wanted).copied().collect())
}

/// Finds a peer by name.
fn find<'a>(peers: &[&'a dyn Peer], name: &str) -> Result<&'a dyn Peer, Error> {
    peers.iter().find(|peer| peer.name() == name).copied().ok_or_else(|| Error::UnknownPeer {
        name: name.to_owned(),
        known: peers.iter().map(|peer| peer.name().to_owned()).collect(),
    })
}

type Finding = (String, Metric, Slices);

/// Consecutive failures after which a peer is skipped: each may have taken a minute.
const FAILURES: usize = 2;

/// Measures all metrics of a peer. A failure is recorded, and the next metric begins with a new far side.
fn compare(
    peer: &dyn Peer,
    options: &Options,
    clock: Clock,
    cpus: (usize, usize),
    (found, failed): (&mut Vec<Finding>, &mut Vec<Failed>),
    progress: &mut dyn FnMut(&str),
) {
    let mut session = None;
    let mut failures = 0;
    for metric in peer.metrics() {
        progress(&format!("{}: {}", peer.name(), metric.title()));
        let slices = if metric == Metric::SystemCalls {
            count_calls(peer, options, clock, cpus)
        } else {
            measure(&mut session, peer, metric, options, clock, cpus)
        };
        match slices {
            Ok(slices) => {
                failures = 0;
                found.push((peer.name().to_owned(), metric, slices));
            }
            Err(error) => {
                session = None;
                failures += 1;
                failed.push(Failed::new(format!("{}: {}", peer.name(), metric.title()), &error));
                if failures >= FAILURES {
                    return;
                }
            }
        }
    }
}

/// Measures one metric, with the running far side or a new one.
fn measure<'a>(
    session: &mut Option<Session<'a>>,
    peer: &'a dyn Peer,
    metric: Metric,
    options: &Options,
    clock: Clock,
    (near, far): (usize, usize),
) -> Result<Slices, Error> {
    let session = match session {
        Some(session) => session,
        None => {
            let started = Session::start(peer, &options.far, clock)?;
            started.pin(near, far)?;
            session.insert(started)
        }
    };
    slices::take(session, metric, &options.schedule)
}

/// Counts system calls on a separate thread, because a watched thread's system calls stay slow until it ends.
fn count_calls(
    peer: &dyn Peer,
    options: &Options,
    clock: Clock,
    cpus: (usize, usize),
) -> Result<Slices, Error> {
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| measure(&mut None, peer, Metric::SystemCalls, options, clock, cpus));
        counting
            .join()
            .unwrap_or_else(|_| Err(Error::Far { what: "was not told to the end: a panic".into() }))
    })
}

/// Measures a message of one slot for every placement of slots and credit.
fn place(options: &Options, clock: Clock, (near, far): (usize, usize)) -> Result<Vec<Placed>, Error> {
    let mut placed = Vec::new();
    for rings in Rings::all() {
        let mut session = Session::start(&rings, &options.far, clock)?;
        session.pin(near, far)?;
        let slices = slices::take(&mut session, Metric::RoundTrip { bytes: 56 }, &options.schedule)?;
        let row = results::row_of_all(rings.name(), Metric::RoundTrip { bytes: 56 }, &slices);
        let row = row.ok_or(Error::Unsupported)?;
        let ratio = row.probe_ratio.unwrap_or(0.0);
        placed.push(placement::placed(rings, "host-host", row.probe_ns, row.latency_ns, ratio));
    }
    Ok(placed)
}

/// Measures the bare lines and a message of one slot between all pairs of processors.
fn pairs(peer: &dyn Peer, options: &Options, clock: Clock) -> Result<Vec<Pair>, Error> {
    const SLICE: Duration = Duration::from_millis(4);
    let mut allowed = cpus::allowed().map_err(|error| crate::ring::Error::Cpus {
        what: "learn which processors may be used".into(),
        error,
    })?;
    allowed.truncate(options.pairs);
    let mut session = Session::start(peer, &options.far, clock)?;
    let metric = Metric::RoundTrip { bytes: 56 };
    session.open(metric)?;
    let mut pairs = Vec::new();
    for (index, near) in allowed.iter().enumerate() {
        for far in &allowed[index + 1..] {
            session.pin(*near, *far)?;
            let slice = slices::steady(&mut session, metric, SLICE, options.schedule.retries)?;
            if let slices::SliceResult::Times(samples) = &slice.result {
                pairs.push(Pair {
                    near: *near,
                    far: *far,
                    probe_ns: tenths(slice.probe_ns()),
                    round_trip_ns: tenths(samples.p50_ns()),
                    ratio: thousandths(samples.p50_ns() / slice.probe_ns()),
                });
            }
        }
    }
    Ok(pairs)
}
