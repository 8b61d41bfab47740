//! `tombolo place`

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tombolo::nodes::Target;
use tombolo_cli_common::images::open_image;
use tombolo_cli_common::nodes::{needs, placement_failure};
use tombolo_placement::choose::{Candidate, Rejected};
use tombolo_placement::needs::Unit;
use tombolo_placement::{Choice, Facts, Needs, PlacementError, choose};

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::Table;

/// Lists the nodes that fit a program or its needs, the best first
///
/// NEEDS are conditions and nodes to be near, separated by commas; all conditions must hold. They are listed
/// below.
///
/// A condition on a value that is not known does not hold. Among nodes that fit, the order is: the sum of the
/// round trips to the nodes to be near; then idle processors × their speed, the more the better; then fewer
/// domains. `tombolo run --on auto`, `tombolo mpirun --on auto`, the start form of `tombolo web` and OpenMP
/// programs with OMP_TOMBOLO_NODES=all choose in the same way.
///
/// The exit status is 1 if no node fits.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo place                                             all nodes, the best first
  tombolo place --needs isa=aarch64,near=arm0               Arm nodes, the nearest to arm0 first
  tombolo place work.tbi --explain                          nodes with a build, and why not others
  tombolo place work.tbi --json | jq -r '.candidates[0].node'

Needs:
  isa=aarch64|riscv64     = and != take alternatives; words: isa, kind, node, system, kernel
  processors>=4           numbers: processors, speed, domains, hops
  idle>=0.5, load<2       processors that are idle, or busy
  memory>=1G, free>256M   bytes: memory, free, window (free bytes of the window to the host)
  round-trip<50us         to the nodes to be near, else to the host; also rate>=1G/s
  message-round-trip<5us  the same, as `tombolo bench link --write` found it
  near=arm0               orders by round trips to that node")]
pub(crate) struct Options {
    /// List only nodes for which this image has a build
    #[arg(value_name = "IMAGE")]
    image: Option<PathBuf>,

    /// Requirements on a node
    #[arg(long, value_name = "NEEDS", value_parser = needs, default_value = "", hide_default_value = true)]
    needs: Needs,

    /// Show for every node which needs it meets, with its values
    #[arg(long)]
    explain: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    machine: String,
    candidates: Vec<CandidateReport>,
    rejected: Vec<RejectedReport>,
}

#[derive(Serialize)]
struct CandidateReport {
    node: String,
    /// Sum of the round trips to the nodes to be near; null if one is unknown.
    distance_ns: Option<u64>,
    /// Idle processors × rounds per ms of a short loop on one.
    free_rounds_per_ms: u64,
    why: String,
    met: Vec<String>,
}

#[derive(Serialize)]
struct RejectedReport {
    node: String,
    reasons: Vec<String>,
}

impl From<Candidate> for CandidateReport {
    fn from(candidate: Candidate) -> CandidateReport {
        CandidateReport {
            distance_ns: candidate.cost.distance_ns(),
            free_rounds_per_ms: candidate.cost.free_speed(),
            node: candidate.node,
            why: candidate.why,
            met: candidate.met,
        }
    }
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let targets: Option<Vec<Target>> = match &options.image {
        Some(path) => Some(open_image(path)?.targets()),
        None => None,
    };
    let domain = context.attach_running()?;
    let facts = Facts::query(&domain, &options.needs)?;
    let choice = choose(&facts, &options.needs, targets.as_deref()).map_err(placement_failure)?;
    let fits = !choice.candidates.is_empty();
    if options.json {
        let machine = domain.machine_name().to_owned();
        print_json(&Report {
            machine,
            candidates: choice.candidates.iter().cloned().map(Into::into).collect(),
            rejected: choice
                .rejected
                .iter()
                .map(|Rejected { node, reasons }| RejectedReport {
                    node: node.clone(),
                    reasons: reasons.clone(),
                })
                .collect(),
        })?;
    } else if options.explain || fits {
        print(text(&choice, options, context.colour))?;
    }
    match fits {
        true => Ok(()),
        // JSON and the explanation include the reasons.
        false if options.json || options.explain => {
            Err(Failure::Job { message: "no node fits".to_owned(), status: 1 })
        }
        false => Err(placement_failure(PlacementError::NoFit { rejected: choice.rejected })),
    }
}

fn text(choice: &Choice, options: &Options, colour: bool) -> String {
    let near = !options.needs.near.is_empty();
    let mut table = Table::new(&["NODE", "DISTANCE>", "FREE SPEED>", "WHY"]);
    for Candidate { node, cost, why, .. } in &choice.candidates {
        let distance = match cost.distance_ns() {
            Some(time_ns) if near => Unit::Time.format(time_ns),
            None if near => "?".to_owned(),
            _ => "-".to_owned(),
        };
        table.row([node.clone(), distance, cost.free_speed().to_string(), why.clone()]);
    }
    let mut text = if choice.candidates.is_empty() { String::new() } else { table.render(colour) };
    if options.explain {
        for Candidate { node, met, .. } in choice.candidates.iter().filter(|it| !it.met.is_empty()) {
            text += &format!("{node} fits\n");
            met.iter().for_each(|met| text += &format!("  {met}\n"));
        }
        for Rejected { node, reasons } in &choice.rejected {
            text += &format!("{node} does not fit\n");
            reasons.iter().for_each(|reason| text += &format!("  {reason}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use tombolo_placement::needs::KEYS;

    use crate::arguments::Arguments;

    #[test]
    fn the_help_names_every_key() {
        let mut command = Arguments::command();
        let place = command.find_subcommand_mut("place").expect("it is a command");
        let help = place.render_long_help().to_string();
        for key in &KEYS {
            assert!(help.contains(key.name), "{} is missing", key.name);
        }
    }
}
