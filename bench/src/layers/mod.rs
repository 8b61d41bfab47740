//! Cost that each layer of a channel adds to a message: `tombolo bench layers`.
//!
//! Measures the same figures of every layer, from the bare lines to a typed call, in one run; and repeats
//! such runs with new processes, since the addresses of a process's stack and memory affect its speed.
//! Reports show medians over the runs, also relative to the bare lines of the same slices.

mod end;
mod report;
mod table;
mod targets;

use serde::Serialize;

pub use report::{LayerRow, Report, Settings, Spread};

use crate::rpc;
use crate::suite::peers::{bare, c_ring, tombolo};
use crate::suite::{self, AnyEnd, Error, Meeting, Metric, Peer};

/// Layers of a channel, from the memory up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Two cache lines, stored and polled in turn.
    BareLines,
    /// The ring in C, without a channel.
    CRing,
    /// `tombolo-ring` without a channel around it.
    Ring,
    /// The channel end of `tombolo-transport`.
    ChannelEnd,
    /// `tombolo::Channel`.
    Facade,
    /// A call through generated stubs.
    TypedCall,
}

impl Layer {
    /// All layers, from the memory up.
    pub const ALL: [Layer; 6] =
        [Layer::BareLines, Layer::CRing, Layer::Ring, Layer::ChannelEnd, Layer::Facade, Layer::TypedCall];

    /// Returns the layer's name as shown in tables.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Layer::BareLines => "bare lines",
            Layer::CRing => "C ring",
            Layer::Ring => "ring",
            Layer::ChannelEnd => "channel end",
            Layer::Facade => "façade",
            Layer::TypedCall => "typed call",
        }
    }

    /// Returns the name of the peer that measures the layer.
    fn peer(self) -> &'static str {
        match self {
            Layer::BareLines => bare::LINES,
            Layer::CRing => c_ring::NAME,
            Layer::Ring => rpc::RINGS,
            Layer::ChannelEnd => end::NAME,
            Layer::Facade => tombolo::NAME,
            Layer::TypedCall => rpc::CALLS,
        }
    }

    fn metrics(self) -> Vec<Metric> {
        match self {
            Layer::BareLines => vec![LINES],
            Layer::CRing => MESSAGES.to_vec(),
            Layer::Ring | Layer::ChannelEnd | Layer::Facade => {
                MESSAGES.into_iter().chain([NULL_CALL]).collect()
            }
            Layer::TypedCall => vec![NULL_CALL],
        }
    }
}

/// Metric of the bare lines.
const LINES: Metric = Metric::RoundTrip { bytes: 8 };

/// Number of messages sent together.
const BATCH: u64 = 32;

/// Metrics of every layer with messages.
const MESSAGES: [Metric; 6] = [
    Metric::RoundTrip { bytes: 48 },
    Metric::RoundTrip { bytes: 64 },
    Metric::Rate { bytes: 48, batch: 1 },
    Metric::Rate { bytes: 64, batch: 1 },
    Metric::Rate { bytes: 48, batch: BATCH },
    Metric::Rate { bytes: 64, batch: BATCH },
];

/// Call without parameters, equivalent to two empty messages.
const NULL_CALL: Metric = Metric::Call { bytes: 0 };

/// Peer of another benchmark, restricted to some of its metrics.
struct Chosen {
    peer: Box<dyn Peer>,
    metrics: Vec<Metric>,
}

impl Peer for Chosen {
    fn name(&self) -> &'static str {
        self.peer.name()
    }

    fn about(&self) -> String {
        self.peer.about()
    }

    fn metrics(&self) -> Vec<Metric> {
        self.metrics.clone()
    }

    fn absence(&self) -> Option<String> {
        self.peer.absence()
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        self.peer.open(meeting, metric)
    }
}

/// Returns the peers in the order of the layers.
#[must_use]
pub fn peers() -> Vec<Box<dyn Peer>> {
    let mut known = suite::peers::all();
    known.extend(rpc::peers());
    known.push(Box::new(end::ChannelEnd));
    let of = |layer: Layer| -> Option<Box<dyn Peer>> {
        let index = known.iter().position(|peer| peer.name() == layer.peer())?;
        Some(Box::new(Chosen { peer: known.swap_remove(index), metrics: layer.metrics() }))
    };
    Layer::ALL.into_iter().filter_map(of).collect()
}

/// Options of the measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Number of runs.
    pub runs: u32,
    /// Schedule of each figure in a run.
    pub schedule: suite::Schedule,
    /// Program that serves the far side, with its arguments.
    pub far: Vec<String>,
}

/// Measures all layers in each run.
///
/// # Errors
/// Fewer than two processors are allowed.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report, Error> {
    let peers = peers();
    let borrowed: Vec<&dyn Peer> = peers.iter().map(AsRef::as_ref).collect();
    let suite = suite::Options {
        label: String::new(),
        schedule: options.schedule,
        only: Vec::new(),
        pairs: 0,
        placement: false,
        far: options.far.clone(),
    };
    let mut runs = Vec::new();
    for run in 1..=options.runs.max(1) {
        let mut progress = |line: &str| progress(&format!("run {run} of {}: {line}", options.runs));
        let mut results = suite::run(&borrowed, &[], &suite, &mut progress)?;
        // Removes the rows of bare memory.
        results.rows.retain(|row| peers.iter().any(|peer| peer.name() == row.peer));
        runs.push(results);
    }
    Ok(Report::of(&runs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_is_measured_as_itself() {
        let names: Vec<&str> = peers().iter().map(|peer| peer.name()).collect();
        assert_eq!(names, Layer::ALL.map(Layer::peer));
        for (peer, layer) in peers().iter().zip(Layer::ALL) {
            assert_eq!(peer.metrics(), layer.metrics());
        }
    }
}
