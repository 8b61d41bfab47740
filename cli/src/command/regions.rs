//! `tombolo regions`

use clap::Args;
use serde::Serialize;
use tombolo::NodeId;
use tombolo::region::{Backing, RegionInfo, Seal};
use tombolo_admin::Machine;

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::{self, Table};

/// Lists the regions of memory of a machine
///
/// NODE has the memory. HELD counts the capabilities that domains hold, MAPPED the mappings: a region is
/// freed when both are zero. Pools are made of regions.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo regions
  tombolo regions --json | jq '[.regions[].length_bytes] | add'")]
pub(crate) struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    machine: String,
    regions: Vec<RegionReport>,
}

/// A region, with stable keys.
#[derive(Serialize)]
struct RegionReport {
    region: String,
    /// Null if the node no longer exists.
    node: Option<String>,
    memory: &'static str,
    length_bytes: u64,
    /// Domain that created it.
    maker: String,
    seal: &'static str,
    capabilities: u32,
    mappings: u32,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let nodes = domain.nodes()?;
    let name = |id: NodeId| nodes.iter().find(|node| node.id == id).map(|node| node.name.clone());
    let regions: Vec<RegionReport> =
        Machine::of(&domain).regions()?.iter().map(|region| report(region, name(region.id.node()))).collect();
    if options.json {
        return print_json(&Report { machine: domain.machine_name().to_owned(), regions });
    }
    print(render(&regions, context.colour))
}

fn report(region: &RegionInfo, node: Option<String>) -> RegionReport {
    RegionReport {
        region: region.id.to_string(),
        node,
        memory: match region.backing {
            Backing::Memory => "memory",
            Backing::Window => "window",
            Backing::File => "file",
            Backing::Foreign => "registered",
            Backing::Service => "service",
        },
        length_bytes: region.length_bytes,
        maker: region.maker.to_string(),
        seal: match region.seal {
            Seal::Open => "open",
            Seal::SoleWriter => "sole-writer",
            Seal::Frozen => "frozen",
        },
        capabilities: region.capabilities,
        mappings: region.mappings,
    }
}

fn render(regions: &[RegionReport], colour: bool) -> String {
    let mut table =
        Table::new(&["REGION", "NODE", "MEMORY", "LENGTH>", "MADE BY", "SEAL", "HELD>", "MAPPED>"]);
    for region in regions {
        table.row([
            region.region.clone(),
            region.node.clone().unwrap_or_else(|| "-".to_owned()),
            region.memory.to_owned(),
            text::bytes(region.length_bytes),
            region.maker.clone(),
            region.seal.to_owned(),
            region.capabilities.to_string(),
            region.mappings.to_string(),
        ]);
    }
    table.render(colour)
}
