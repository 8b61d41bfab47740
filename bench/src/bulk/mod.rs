//! Cost of bulk data: `tombolo bench bulk`.
//!
//! It has two parts. Between two programs, with the same slices and checks as in [`suite`]: one fills a
//! buffer, an engine, a pool or the kernel transports it, and the other reads it. And within one program: the
//! time of each engine and copy loop for a copy, from the request until its completion is known, compared
//! with the C library's `memcpy`.

mod alone;
mod device;
mod engines;
mod machine;
pub mod network;
mod nodes;
mod pairs;
mod service;
mod verbs;

use tombolo::Trust;

use crate::sample::Latency;
use crate::suite::results::tenths;
use crate::suite::{
    self, Absent, AnyEnd, Distance, Error, Meeting, Metric, Options, Peer, Results, Row, peers,
};

/// Maximum length of a copy by one program and of a buffer between two, in bytes.
pub const LONGEST_BYTES: usize = 256 << 20;

pub use alone::add as add_copies;
pub use engines::{ATTACHED, CARRIED, COPIED, TCP};
pub use machine::NetworkMachine;
pub use nodes::{OWN_COPY_SUFFIX, WINDOW_COPY_SUFFIXES, add as add_nodes};
pub use service::{OWN_ENGINES, SERVICE, add as add_service};
pub use verbs::{
    MOVED, MOVED_WITH_HALF_TRUST, MOVED_WITHOUT_TRUST, SHARED, SHARED_WITH_HALF_TRUST, SHARED_WITHOUT_TRUST,
};

/// Returns the peers in table order.
#[must_use]
pub fn peers() -> Vec<Box<dyn Peer>> {
    vec![
        Box::new(peers::bare::Buffers),
        Box::new(peers::tombolo::Facade::default()),
        Box::new(verbs::Pools::new(verbs::Verb::Move, Trust::Full)),
        Box::new(verbs::Pools::new(verbs::Verb::Share, Trust::Full)),
        Box::new(verbs::Pools::new(verbs::Verb::Move, Trust::Half)),
        Box::new(verbs::Pools::new(verbs::Verb::Share, Trust::Half)),
        Box::new(verbs::Pools::new(verbs::Verb::Move, Trust::None)),
        Box::new(verbs::Pools::new(verbs::Verb::Share, Trust::None)),
        Box::new(engines::Copied),
        Box::new(engines::Attached),
        Box::new(engines::Carried),
        Box::new(peers::stream::UnixStream),
        Box::new(engines::Tcp),
    ]
}

/// Names of the further peers in `bench/peers`.
pub const FOREIGN: [&str; 1] = ["iceoryx2"];

/// Peer restricted to bulk data, and to a message of 8 bytes for comparison with the transfer of a right.
struct OnlyBulk<'a> {
    peer: &'a dyn Peer,
    longest_bytes: usize,
}

impl Peer for OnlyBulk<'_> {
    fn name(&self) -> &'static str {
        self.peer.name()
    }

    fn about(&self) -> String {
        self.peer.about()
    }

    fn metrics(&self) -> Vec<Metric> {
        let of_peer = self.peer.metrics();
        let moves = of_peer.iter().any(|metric| matches!(metric, Metric::Bandwidth { .. }));
        let lengths = Metric::BULK_BYTES.into_iter().filter(|bytes| moves && *bytes <= self.longest_bytes);
        let others = of_peer
            .into_iter()
            .filter(|metric| matches!(metric, Metric::RoundTrip { bytes: 8 } | Metric::Transfer { .. }));
        others.chain(lengths.map(|bytes| Metric::Bandwidth { bytes })).collect()
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        self.peer.open(meeting, metric)
    }
}

/// Creates a row without figures of the bare lines.
fn row(peer: impl Into<String>, metric: Metric) -> Row {
    Row {
        peer: peer.into(),
        metric,
        route: None,
        distance: Distance::Any,
        slices: 1,
        doubtful: 0,
        moved: 0,
        disturbed: 0,
        probe_ns: 0.0,
        latency_ns: None,
        probe_ratio: None,
        rate_per_s: None,
        value: None,
        ring_share: 0.0,
    }
}

/// Summarizes times, each the mean of `rounds` rounds.
fn latency(mut times_ns: Vec<f64>, rounds: u64) -> Latency {
    times_ns.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        tenths(times_ns.get(((times_ns.len() - 1) as f64 * share) as usize).copied().unwrap_or(0.0))
    };
    Latency {
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        mean: tenths(times_ns.iter().sum::<f64>() / times_ns.len() as f64),
        rounds: times_ns.len() as u64 * rounds,
    }
}

/// Compares transfers of bulk data from one program to another: [`peers()`], and those of `bench/peers` if
/// they were built. [`add_copies`] and [`add_nodes`] add further rows for comparison.
///
/// # Errors
/// As [`suite::run`].
pub fn run(
    peers: &[&dyn Peer],
    absent: &[Absent],
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Results, Error> {
    run_up_to(LONGEST_BYTES, peers, absent, options, progress)
}

/// Runs the comparison with buffers of at most `longest_bytes`, which is faster.
///
/// # Errors
/// As [`suite::run`].
pub fn run_up_to(
    longest_bytes: usize,
    peers: &[&dyn Peer],
    absent: &[Absent],
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Results, Error> {
    let bulk: Vec<OnlyBulk<'_>> = peers.iter().map(|peer| OnlyBulk { peer: *peer, longest_bytes }).collect();
    let bulk: Vec<&dyn Peer> = bulk.iter().map(|peer| peer as &dyn Peer).collect();
    suite::run(&bulk, absent, options, progress)
}
