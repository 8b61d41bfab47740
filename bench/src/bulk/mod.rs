//! What bulk data costs: `tombolo bench bulk`.
//!
//! Two things. Between two programs, the same slices and checks as in [`suite`]: a buffer is filled by the one, gets to the other by an
//! engine, a pool or the kernel, and is read there. And by one program alone: what each engine and each loop takes for a copy,
//! from asking to knowing that it is done, beside the C library's own.

mod alone;
mod engines;

use crate::suite::{self, Absent, AnyEnd, Error, Meeting, Metric, Options, Peer, Results, peers};

/// The longest copy by one program that is measured, in bytes.
pub const LONGEST_BYTES: usize = 256 << 20;

pub use engines::{ATTACHED, CARRIED, COPIED, TCP};

/// What is compared, in the order of tables.
#[must_use]
pub fn peers() -> Vec<Box<dyn Peer>> {
    vec![
        Box::new(peers::bare::Buffers),
        Box::new(peers::tombolo::Facade::default()),
        Box::new(engines::Copied),
        Box::new(engines::Attached),
        Box::new(engines::Carried),
        Box::new(peers::stream::UnixStream),
        Box::new(engines::Tcp),
    ]
}

/// The names of those that `bench/peers` has besides.
pub const FOREIGN: [&str; 1] = ["iceoryx2"];

/// A peer of which bulk data only is measured.
struct OnlyBulk<'a>(&'a dyn Peer);

impl Peer for OnlyBulk<'_> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn about(&self) -> String {
        self.0.about()
    }

    fn metrics(&self) -> Vec<Metric> {
        self.0.metrics().into_iter().filter(|metric| matches!(metric, Metric::Bandwidth { .. })).collect()
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        self.0.open(meeting, metric)
    }
}

/// Compares how bulk data gets from one program to another: [`peers()`], and those of `bench/peers` where they were built. Then what
/// each engine takes for a copy of up to `longest_bytes` by itself, which takes twice as much memory.
///
/// # Errors
/// As [`suite::run`].
pub fn run(
    peers: &[&dyn Peer],
    absent: &[Absent],
    options: &Options,
    longest_bytes: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Results, Error> {
    let bulk: Vec<OnlyBulk<'_>> = peers.iter().map(|peer| OnlyBulk(*peer)).collect();
    let bulk: Vec<&dyn Peer> = bulk.iter().map(|peer| peer as &dyn Peer).collect();
    let mut results = suite::run(&bulk, absent, options, progress)?;
    alone::add(&mut results, options.schedule, longest_bytes, progress);
    Ok(results)
}
