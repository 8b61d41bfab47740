//! Measurements of nodes by themselves, compared with those of the thesis that Tombolo follows: `tombolo
//! bench memory`, `compute`, `map` and `boot`; and measurements between two nodes, `pages`, `messages` and
//! `link`.
//!
//! The thesis is "Message passing and bulk transport on heterogeneous multiprocessors" (Achermann, ETH Zurich
//! 2014), measured on a Xeon E5 v2 host and Xeon Phi cards. Its times in cycles are given here in ns, by the
//! cycles per µs that it states.

pub mod boot;
pub mod compute;
pub mod link;
pub mod map;
pub mod memory;
pub mod messages;
pub mod pages;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tombolo::nodes::{NodeInfo, NodeKind};
use tombolo::{Child, Domain, DomainId, Exit, SpawnOptions};
use tombolo_bench_far::figures::read;

use crate::ring::{Error, ended};
pub use crate::suite::Failed;

/// Default timeout of one measurement of a node.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Figures measured by a node, by name.
type Figures = BTreeMap<String, f64>;

/// Runs `bench-peer figures …` on nodes.
struct Peers<'a> {
    domain: &'a Domain,
    image: &'a Path,
    timeout: Duration,
    output_of: Arc<Mutex<BTreeMap<DomainId, Vec<u8>>>>,
}

impl<'a> Peers<'a> {
    fn new(domain: &'a Domain, image: &'a Path) -> Result<Peers<'a>, Error> {
        if !image.is_file() {
            return Err(Error::NoImage { path: image.to_owned() });
        }
        let output_of = Arc::new(Mutex::new(BTreeMap::<DomainId, Vec<u8>>::new()));
        let keeps = Arc::clone(&output_of);
        domain.on_output(move |id, _, bytes| {
            let mut output_of = keeps.lock().unwrap_or_else(PoisonError::into_inner);
            output_of.entry(id).or_default().extend_from_slice(bytes);
        });
        Ok(Peers { domain, image, timeout: TIMEOUT, output_of })
    }

    /// Sets the timeout, for measurements that take longer.
    fn within(self, timeout: Duration) -> Peers<'a> {
        Peers { timeout, ..self }
    }

    fn start(&self, node: &str, words: &[String]) -> Result<Child, Error> {
        let spawn = SpawnOptions::image(self.image).on(node).arg("figures").args(words);
        Ok(self.domain.spawn(&spawn)?)
    }

    /// Waits for a peer to exit and returns its figures.
    fn figures_of(&self, child: &Child) -> Result<Figures, Error> {
        let exit = child.wait(self.timeout).inspect_err(|_| {
            // The error of the wait is reported instead.
            let _ = child.kill();
        })?;
        let output_of = {
            let mut output_of = self.output_of.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&output_of.remove(&child.id()).unwrap_or_default()).into_owned()
        };
        if exit != (Exit::Exited { status: 0 }) {
            return Err(match (ended(child, &exit), output_of.lines().last()) {
                (Error::PeerEnded { node, exit }, Some(output_of)) => {
                    Error::PeerEnded { node, exit: format!("{exit}; {output_of}") }
                }
                (error, _) => error,
            });
        }
        Ok(read(&output_of).into_iter().collect())
    }

    /// Runs a job with one rank on each of these nodes and returns the figures of rank 0. If one fails, all
    /// are killed.
    fn run_job(&self, nodes: &[&str], job: &str, words: &[String]) -> Result<Figures, Error> {
        let mut children = Vec::new();
        let start = (0..).zip(nodes).try_for_each(|(rank, node)| {
            let spawn = SpawnOptions::image(self.image).on(*node).arg("figures").args(words);
            children.push(self.domain.spawn(&spawn.rank(rank, nodes.len() as u32, job))?);
            Ok(())
        });
        let measured = start.and_then(|()| {
            let figures = children.iter().map(|child| self.figures_of(child));
            figures.collect::<Result<Vec<Figures>, Error>>()
        });
        if measured.is_err() {
            // Peers that have exited cannot be killed; other errors cannot be handled here.
            children.iter().for_each(|child| drop(child.kill()));
        }
        Ok(measured?.into_iter().next().unwrap_or_default())
    }

    fn run(&self, node: &str, words: &[String]) -> Result<Figures, Error> {
        self.figures_of(&self.start(node, words)?)
    }

    /// Runs several peers concurrently on one node. If one fails, all are killed.
    fn run_all(&self, node: &str, words: &[String], count: u32) -> Result<Vec<Figures>, Error> {
        let mut children = Vec::new();
        let measured = (0..count)
            .try_for_each(|_| {
                children.push(self.start(node, words)?);
                Ok(())
            })
            .and_then(|()| children.iter().map(|child| self.figures_of(child)).collect());
        if measured.is_err() {
            // Peers that have exited cannot be killed; other errors cannot be handled here.
            children.iter().for_each(|child| drop(child.kill()));
        }
        measured
    }
}

/// Returns the nodes that are up and run programs under Linux, restricted to `wanted` unless it is empty.
fn nodes(domain: &Domain, wanted: &[String]) -> Result<Vec<NodeInfo>, Error> {
    let all = domain.nodes()?;
    let mut found = Vec::new();
    for name in wanted {
        match all.iter().find(|node| node.name == *name) {
            None => {
                let available = all.iter().map(|node| node.name.clone()).collect();
                let fault = tombolo::error::Fault::NoSuchNode { name: name.clone(), available };
                return Err(tombolo::Error::Monitor(fault).into());
            }
            Some(node) if !node.up => {
                return Err(Error::NodeDown { node: node.name.clone(), cause: node.cause.clone() });
            }
            Some(node) => found.push(node.clone()),
        }
    }
    if wanted.is_empty() {
        found = all.into_iter().filter(|node| node.up && node.kind != NodeKind::Bare).collect();
    }
    Ok(found)
}

/// Measures each of `items`, one after another; `name` describes an item. A failure does not prevent the
/// other items from being measured.
pub fn gather<I, R, E: std::fmt::Display>(
    items: impl IntoIterator<Item = I>,
    name: impl Fn(&I) -> String,
    progress: &mut dyn FnMut(&str),
    mut measure: impl FnMut(I) -> Result<R, E>,
) -> (Vec<R>, Vec<Failed>) {
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for item in items {
        let name = name(&item);
        progress(&name);
        match measure(item) {
            Ok(row) => rows.push(row),
            Err(error) => failed.push(Failed::new(name, &error)),
        }
    }
    (rows, failed)
}

/// Returns the name of the host's node, which runs rank 0 of measurements between two nodes.
fn host_of(domain: &Domain) -> Result<String, Error> {
    Ok(domain.nodes()?.into_iter().next().map_or_else(String::new, |node| node.name))
}

/// Row of the thesis, in the unit of the table beside it.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Thesis {
    /// Description of the measurement.
    pub what: &'static str,
    /// Figure of the host.
    pub host: Option<f64>,
    /// Figure of the card.
    pub card: Option<f64>,
}

const fn row(what: &'static str, host: Option<f64>, card: Option<f64>) -> Thesis {
    Thesis { what, host, card }
}

fn thesis_table(title: &str, rows: &[Thesis]) -> String {
    let number = |value: Option<f64>| value.map_or_else(crate::table::none, crate::table::significant);
    let mut lines = vec![crate::table::cells(&["", "host", "card"])];
    lines.extend(rows.iter().map(|row| vec![row.what.to_owned(), number(row.host), number(row.card)]));
    format!("\n{title}\n\n{}", crate::table::align(&lines))
}

fn failures(failed: &[Failed]) -> String {
    failed.iter().map(|failed| format!("\nnot measured: {failed}\n")).collect()
}
