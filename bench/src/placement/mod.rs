//! Placement of rings between two nodes: `tombolo bench placement`.
//!
//! Two programs on the nodes of a pair exchange messages over one ring per direction, whose slots and credit
//! lie in a window that is the sender's or the receiver's memory, according to the machine file (`home`). The
//! windows that exist are emulated and all lie in memory of the host; where the machine file gives a window
//! the costs of PCIe (`read_ns`, `line_ns`), both programs wait that long at each access to the other's
//! memory, and the figures are marked as modelled.

mod report;

use std::path::Path;

use tombolo::nodes::{NodeInfo, NodeKind, WindowInfo};
use tombolo::{Channel, Domain, NodeId, SpawnOptions};
use tombolo_bench_far::placement::Rings;
use tombolo_bench_far::placing::{Costs, Plan, TIMEOUT};

pub use report::{Report, Row};

use crate::ring::{Error, accept, finish};
use crate::sample::Latency;

/// Measures every pair of nodes that share windows, with `rounds` round trips for each placement.
#[must_use]
pub fn run(
    (domain, image): (&Domain, &Path),
    (nodes, windows): (&[NodeInfo], &[WindowInfo]),
    rounds: u64,
    progress: &mut dyn FnMut(&str),
) -> Report {
    let mut report = Report::default();
    let runs_programs = |node: &&NodeInfo| matches!(node.kind, NodeKind::Host | NodeKind::Vm) && node.up;
    let nodes: Vec<&NodeInfo> = nodes.iter().filter(runs_programs).collect();
    for (index, near) in nodes.iter().enumerate() {
        for far in &nodes[index + 1..] {
            let both =
                |window: &&WindowInfo| window.nodes.contains(&near.id) && window.nodes.contains(&far.id);
            let common: Vec<&WindowInfo> = windows.iter().filter(both).collect();
            if common.is_empty() {
                continue;
            }
            let pair = Pair { near, far, windows: common, rounds };
            if let Err(error) = pair.measure((domain, image), &mut report, progress) {
                report.failed.push(format!("{} and {}: {error}", near.name, far.name));
            }
        }
    }
    report
}

/// Two nodes with the windows that both reach.
struct Pair<'a> {
    near: &'a NodeInfo,
    far: &'a NodeInfo,
    windows: Vec<&'a WindowInfo>,
    rounds: u64,
}

impl Pair<'_> {
    fn measure(
        &self,
        (domain, image): (&Domain, &Path),
        report: &mut Report,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        if !image.is_file() {
            return Err(Error::NoImage { path: image.to_owned() });
        }
        let (near, far) = (&self.near.name, &self.far.name);
        progress(&format!("{near} and {far}: starting the programs"));
        let name = format!("bench/placement/{}/{near}/{far}", domain.id());
        let pair = format!("{name}/pair");
        let listener = domain.export(&name)?;
        let windows: Vec<&str> = self.windows.iter().map(|window| window.name.as_str()).collect();
        let start = |node: &str, side: &str| {
            let arguments = ["placement", side, &name, &pair].into_iter().chain(windows.iter().copied());
            domain.spawn(&SpawnOptions::image(image).on(node).args(arguments))
        };
        let near_child = start(near, "near")?;
        let far_child = match start(far, "far") {
            Ok(child) => child,
            Err(error) => return finish(&near_child, Err(error.into())),
        };
        let measured = accept(&near_child, |timeout| listener.within(timeout).accept())
            .and_then(|mut control| self.placements(&mut control, report, progress));
        // The near side exits when its channel closes, and the far side with it.
        let measured = finish(&near_child, measured);
        finish(&far_child, measured)
    }

    fn placements(
        &self,
        control: &mut Channel,
        report: &mut Report,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let mut rows = Vec::new();
        for memories in self.memories() {
            let chosen = memories.map(|index| self.windows[index]);
            let all = if memories[0] == memories[1] { Rings::in_one_memory() } else { Rings::all() };
            for (index, rings) in all.iter().enumerate() {
                let (near, far) = (&self.near.name, &self.far.name);
                progress(&format!("{near} and {far}: placement {} of {}", index + 1, all.len()));
                let costs = [self.near.id, self.far.id].map(|node| chosen.map(|window| costs(node, window)));
                let plan = Plan {
                    rings: rings.index(),
                    rounds: self.rounds,
                    memories: memories.map(|index| index as u64),
                    costs,
                };
                let latency = ask(control, &plan)?;
                rows.push(Row::new([near, far], chosen, *rings, latency));
            }
        }
        report.add(rows);
        Ok(())
    }

    /// Returns the windows for the rings, as indices into the list: each window that is the near side's
    /// memory paired with each that is the far side's; if there are none, each window by itself.
    fn memories(&self) -> Vec<[usize; 2]> {
        let home_of = |node: NodeId| {
            let modelled = |window: &&WindowInfo| window.home == node && is_modelled(window);
            self.windows.iter().position(modelled)
        };
        match (home_of(self.near.id), home_of(self.far.id)) {
            (Some(near), Some(far)) => vec![[near, far]],
            _ => (0..self.windows.len()).map(|index| [index, index]).collect(),
        }
    }
}

fn is_modelled(window: &WindowInfo) -> bool {
    window.read_ns > 0 || window.line_ns > 0
}

/// Returns the modelled costs of a node's access to a window: none if it is the node's own memory.
fn costs(node: NodeId, window: &WindowInfo) -> Costs {
    match window.home == node {
        true => Costs::default(),
        false => Costs { read_ns: window.read_ns.into(), line_ns: window.line_ns.into() },
    }
}

fn ask(control: &mut Channel, plan: &Plan) -> Result<Latency, Error> {
    let mut bytes = Vec::new();
    control.send(&plan.to_bytes())?;
    control.within(TIMEOUT).recv_into(&mut bytes)?;
    let words: Vec<f64> = bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()) as f64)
        .collect();
    let [p50, p99, p999, mean, rounds] = words[..] else {
        return Err(Error::Unexpected { length_bytes: bytes.len() });
    };
    Ok(Latency { p50, p99, p999, mean, rounds: rounds as u64 })
}
