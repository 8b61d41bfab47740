//! What each layer of a channel adds to a message: `tombolo bench layers`.
//!
//! The same figures of every layer, from the bare lines to a typed call, all in one run; and several such
//! runs, each with processes of its own, since a process may be lucky or not in where its stack and its
//! memory lie. What is shown are medians over the runs, and over the bare lines of the same slices.

mod end;
mod report;
mod table;
mod targets;

use serde::Serialize;

pub use report::{LayerRow, Report, Settings, Spread};

use crate::rpc;
use crate::suite::peers::{bare, c_ring, tombolo};
use crate::suite::{self, AnyEnd, Error, Meeting, Metric, Peer};

/// The layers, from the memory up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Two cache lines, stored and awaited in turn.
    BareLines,
    /// The ring in C.
    CRing,
    /// `tombolo-ring` without a channel around it.
    Ring,
    /// The channel end of `tombolo-transport`.
    ChannelEnd,
    /// `tombolo::Channel`.
    Facade,
    /// A call of generated stubs.
    TypedCall,
}

impl Layer {
    /// All, from the memory up.
    pub const ALL: [Layer; 6] =
        [Layer::BareLines, Layer::CRing, Layer::Ring, Layer::ChannelEnd, Layer::Facade, Layer::TypedCall];

    /// The layer's name, as tables show it.
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

    /// The name of what is measured for it.
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

/// What is measured of the bare lines.
const LINES: Metric = Metric::RoundTrip { bytes: 8 };

/// Messages sent together.
const BATCH: u64 = 32;

/// What is measured of every layer that has messages.
const MESSAGES: [Metric; 6] = [
    Metric::RoundTrip { bytes: 48 },
    Metric::RoundTrip { bytes: 64 },
    Metric::Rate { bytes: 48, batch: 1 },
    Metric::Rate { bytes: 64, batch: 1 },
    Metric::Rate { bytes: 48, batch: BATCH },
    Metric::Rate { bytes: 64, batch: BATCH },
];

/// A call without parameters, or as much as two empty messages.
const NULL_CALL: Metric = Metric::Call { bytes: 0 };

/// Something that is measured elsewhere too, of which only this is measured here.
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

/// What is measured, in the order of the layers.
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

/// What to measure, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// How often all of it.
    pub runs: u32,
    /// How long and how often each figure in a run.
    pub schedule: suite::Schedule,
    /// The program that serves the far side, and its arguments.
    pub far: Vec<String>,
}

/// Measures all layers, run by run.
///
/// # Errors
/// Too few processors.
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
        // Not what memory by itself can do.
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
