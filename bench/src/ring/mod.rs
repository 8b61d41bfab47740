//! Cost of a ring across every link of a machine: `tombolo bench ring`.
//!
//! For each node that is up, this program and a peer that it starts there measure in alternation, in short
//! slices:
//!
//! * the *limit*: two cache lines in the memory under a channel, stored and awaited by the two sides in turn;
//! * round trips of 8 and of 48 bytes, every byte written and checked;
//! * streams of 48-byte messages in both directions, each message published by itself and checked;
//! * wake-ups: round trips between two sides that both sleep.

mod link;
mod near;
mod placed;
mod report;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use tombolo::Domain;
use tombolo::error::Fault;
use tombolo::nodes::{NodeInfo, NodeKind};

pub use tombolo_bench_far::Error;
pub use tombolo_bench_far::ring::end::{End, Ends};
pub use tombolo_bench_far::ring::{PeerArguments, Shape, peer};

pub use crate::sample::{Latency, Rate};
pub(crate) use link::{accept, ended, finish};
pub use report::{DISTURBED_SHARE, LinkReport, Report, Settings};

use crate::cpus::{self, Pinned};
use crate::host::Host;
use crate::sample::Clock;
use crate::suite;

/// Options of the measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Image `bench.tbi`, with a build of the peer for every node.
    pub image: PathBuf,
    /// Nodes at the far side; empty for all that are up.
    pub nodes: Vec<String>,
    /// Number and length of the slices.
    pub schedule: Schedule,
    /// Shape of the rings.
    pub shape: Shape,
    /// Whether to pin this program, and a peer on the same kernel, to a processor each.
    pub pin: bool,
    /// Program that serves the far side of the ring in C, with its arguments; empty to omit this row. The row
    /// stands beside the host's own link.
    pub c_ring_far: Vec<String>,
}

impl Options {
    /// Returns the default options.
    #[must_use]
    pub fn new(image: impl Into<PathBuf>) -> Options {
        Options {
            image: image.into(),
            nodes: Vec::new(),
            schedule: Schedule::default(),
            shape: Shape::default(),
            pin: true,
            c_ring_far: Vec::new(),
        }
    }
}

/// Number and length of the slices of each part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Number of slices per part; at least one.
    pub slices: u32,
    /// Length of a slice.
    pub slice: Duration,
}

impl Default for Schedule {
    /// Returns 20 slices of 25 ms: about four seconds per link.
    fn default() -> Self {
        Schedule { slices: 20, slice: Duration::from_millis(25) }
    }
}

/// Measures the links from this program's node to the nodes of its machine. A node that is down or fails does
/// not prevent the others from being measured: see [`Report::failed`].
///
/// `progress` is called with a description of each measurement, several times a second.
///
/// # Errors
/// [`Error::NoImage`], [`Error::TooFewCpus`], a node that does not exist, or the end of the monitor.
pub fn run(domain: &Domain, options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report, Error> {
    if !options.image.is_file() {
        return Err(Error::NoImage { path: options.image.clone() });
    }
    // Rejects an invalid shape before anything is started.
    options.shape.options()?;
    let nodes = choose(domain.nodes()?, &options.nodes, domain.node_name())?;
    let (cpu, peer_cpu) = processors()?;
    let clock = Clock::calibrate();
    let host = Host::describe();
    let pinned = if options.pin { Some(pin(cpu)?) } else { None };
    let mut report = Report::new(
        domain.machine_name(),
        host,
        Settings {
            slices: options.schedule.slices,
            slice_ms: options.schedule.slice.as_secs_f64() * 1000.0,
            slot_bytes: options.shape.slot_bytes,
            slots: options.shape.slots,
            variant: options.shape.variant_name(),
            clock_cost_ns: clock.cost_ns(),
            cpu: options.pin.then_some(cpu),
            peer_cpu: options.pin.then_some(peer_cpu),
        },
    );
    for node in &nodes {
        let peer_cpu =
            (options.pin && !matches!(node.kind, NodeKind::Vm | NodeKind::Bare)).then_some(peer_cpu);
        let mut progress = |line: &str| progress(&format!("{}: {line}", node.name));
        match link::measure(domain, node, options, peer_cpu, clock, &mut progress) {
            Ok((transport, figures)) => report.add(domain.node_name(), node, transport, &figures),
            Err(error) => report.fail(&node.name, &error),
        }
    }
    drop(pinned);
    if !options.c_ring_far.is_empty()
        && options.pin
        && nodes.iter().any(|node| node.name == domain.node_name())
    {
        report.add_c_ring(domain.node_name(), measure_c_ring(options, progress));
    }
    Ok(report)
}

/// Measures the ring in C and the bare lines, slice by slice like all comparisons on this host.
fn measure_c_ring(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<suite::Results, suite::Error> {
    let ring = suite::peers::c_ring::CRing::new();
    let suite = suite::Options {
        label: String::new(),
        schedule: suite::Schedule {
            slices: options.schedule.slices,
            slice: options.schedule.slice,
            ..suite::Schedule::default()
        },
        only: Vec::new(),
        pairs: 0,
        placement: false,
        far: options.c_ring_far.clone(),
    };
    suite::run(&[&suite::peers::bare::Lines, &ring], &[], &suite, progress)
}

/// Selects the nodes to measure, the nearest first: the named ones, or all.
fn choose(nodes: Vec<NodeInfo>, names: &[String], own: &str) -> Result<Vec<NodeInfo>, Error> {
    if let Some(unknown) = names.iter().find(|name| nodes.iter().all(|node| node.name != **name)) {
        let available = nodes.into_iter().map(|node| node.name).collect();
        let fault = Fault::NoSuchNode { name: unknown.clone(), available };
        return Err(tombolo::Error::from(fault).into());
    }
    let mut chosen: Vec<NodeInfo> =
        nodes.into_iter().filter(|node| names.is_empty() || names.contains(&node.name)).collect();
    chosen.sort_by_key(|node| node.name != own);
    Ok(chosen)
}

pub(crate) fn processors() -> Result<(usize, usize), Error> {
    let allowed = cpus::allowed()
        .map_err(|error| Error::Cpus { what: "learn which processors this program may use".into(), error })?;
    cpus::pair(&allowed).ok_or(Error::TooFewCpus { allowed: allowed.len() })
}

fn pin(cpu: usize) -> Result<Pinned, Error> {
    Pinned::to(cpu).map_err(|error| Error::Cpus { what: format!("stay on processor {cpu}"), error })
}

/// Measures the near side of a link whose far side [serves](peer::serve): the core of [`run`], usable without
/// a machine.
///
/// # Errors
/// A channel fails, the peer stalls, or returned data differs from what was sent.
pub fn measure_ends<E: End>(
    ends: &mut Ends<E>,
    schedule: &Schedule,
    progress: &mut dyn FnMut(&str),
) -> Result<LinkReport, Error> {
    let figures = near::measure(ends, Clock::calibrate(), schedule, progress)?;
    Ok(LinkReport::new(["near", "far"], ["", ""], "", &figures))
}

#[cfg(test)]
mod tests {
    use tombolo::{Isa, NodeId};

    use super::*;

    fn node(name: &str) -> NodeInfo {
        NodeInfo::new(NodeId::HOST, name, NodeKind::User, Isa::current())
    }

    #[test]
    fn the_own_node_comes_first_and_unknown_ones_are_refused() {
        let nodes = || vec![node("arm0"), node("host"), node("riscv")];
        let names = |chosen: Vec<NodeInfo>| chosen.into_iter().map(|node| node.name).collect::<Vec<_>>();
        assert_eq!(names(choose(nodes(), &[], "host").expect("all")), ["host", "arm0", "riscv"]);
        assert_eq!(names(choose(nodes(), &["riscv".into()], "host").expect("it exists")), ["riscv"]);
        let error = choose(nodes(), &["riscv".into(), "mips".into()], "host").expect_err("no such node");
        assert!(error.to_string().contains("mips") && error.to_string().contains("arm0"), "{error}");
    }
}
