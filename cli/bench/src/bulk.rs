//! `tombolo bench bulk`

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use tombolo_bench::bulk;
use tombolo_bench::suite::peers_program::{absent, beside};
use tombolo_bench::suite::{self, Failed, Peer, Results, Schedule};
use tombolo_machine::{Kit, Machine, Node, NodeSettings, VmNode};

use super::progress::with_progress;
use super::report::show;
use super::suite::{Measure, Share, removed_output, run_program};
use super::temporary_machine::with_machine;
use crate::context::Context;
use crate::failure::Failure;

/// Measures bulk data: pools, engines and the kernel, beside the limits of the memory
///
/// peers: between two processes of this host, each pinned to a processor. Buffers of 64 B to 256 MiB that one
/// process fills and the other reads: passed in a pool by each operation, with trust and without; in shared
/// memory by messages (`Tombolo`); copied by the engines `caller`, `attach` and `far`; over a local socket or
/// TCP; and by iceoryx2 with several settings if `make bench-peers` has built it. The bare memory is the
/// upper limit for data that is filled and read. Also the round trip of the right to a buffer, which does not
/// depend on its length, beside a message of 8 bytes. As in `bench all`, each measurement is taken between
/// two of the ping-pong of two bare cache lines.
///
/// copies: the time of a copy of 64 B to 256 MiB in one program, from the request to the notification, by
/// each loop and each engine, beside memcpy. If this host has a GPU, also to it, from it and within it, with
/// the host's memory pinned and not, by the engine and by the driver alone.
///
/// nodes: copies by the copy service of this host, beside the engines of this program; and the same across
/// the links of the machine that is up, or of `--up`: buffers to each node and back,
/// copies by the processors of both sides into the memory between them and out of it, and buffers from each
/// node to each other. Two virtual machines have no link: this program copies from window to window.
///
/// network: over TCP to a virtual machine like each of the machine's, started for this measurement with the
/// emulator's network (virtio-net) in place of a window. It is connected to this host's loopback alone; nodes
/// have no network.
///
/// The JSON has, for each of `rows`: peer, metric, rate_per_s or latency_ns with p50 and p99, and between
/// nodes the route: from, to, by.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench bulk                         as tables
  tombolo bench bulk --up machines/default.toml --parts nodes
  tombolo bench bulk --up machines/two-arms.toml --parts nodes,network
  tombolo bench bulk --arrays arrays.json --json > docs/results/bulk.json
  tombolo bench bulk --slices 3 --slice-ms 10 --peers Tombolo,iceoryx2
  tombolo bench bulk --json | jq '.rows[] | {peer, metric, gb_s: (.rate_per_s.p50 / 1e9)}'")]
pub(crate) struct BulkOptions {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,

    /// Bring up the machine of this file for the measurement, and take it down afterwards
    #[arg(long, value_name = "FILE")]
    up: Option<PathBuf>,

    /// Name of this host in reports
    #[arg(long, value_name = "NAME", default_value = "this host")]
    label: String,

    /// Add the results of `bench/python/array_transfer.py --json FILE`: arrays between Python programs
    #[arg(long, value_name = "FILE")]
    arrays: Option<PathBuf>,

    /// Removed: pages are written by another program
    #[arg(short, long, hide = true, value_parser = removed_output)]
    output: Option<PathBuf>,

    /// Measure only these parts
    #[arg(long, value_name = "PART,…", value_enum, value_delimiter = ',', conflicts_with = "peers")]
    parts: Vec<Part>,

    #[command(flatten)]
    share: Share,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// From one program of this host to another
    Peers,
    /// Copies by one program
    Copies,
    /// To the nodes of a machine and back, and between its nodes
    Nodes,
    /// Over TCP to virtual machines like those of the machine, which have a network instead of a window
    Network,
}

/// Runs the command. Returns status 1 if a measurement failed; the report names it and the reason.
pub(crate) fn run(context: &Context, options: &BulkOptions) -> Result<u8, Failure> {
    let own = std::env::current_exe().map_err(Failure::system("find this program"))?;
    // Read first, so that a wrong file name fails before anything is measured.
    let arrays = options.arrays.as_deref().map(suite::Arrays::read).transpose()?;
    let suite = suite::Options { label: options.label.clone(), ..options.share.to_suite(&own) };
    let schedule = suite.schedule;
    let mut results = compare(context, &own, options.measures(Part::Peers), suite)?;
    results.arrays = arrays;
    if options.measures(Part::Copies) {
        with_progress(context, |progress| {
            bulk::add_copies(&mut results, schedule, bulk::LONGEST_BYTES, progress);
        });
    }
    if options.measures(Part::Nodes) {
        add_nodes(context, (options, schedule), &mut results);
    }
    if options.measures(Part::Network) {
        add_network(context, (options, schedule), &mut results);
    }
    show(&results, options.json)
}

impl BulkOptions {
    fn measures(&self, part: Part) -> bool {
        match self.share.names_peers() {
            // A user who names peers wants only those.
            true => part == Part::Peers,
            false => self.parts.is_empty() || self.parts.contains(&part),
        }
    }
}

/// Measures bulk data between two programs; without peers, fills in only the host.
fn compare(
    context: &Context,
    own: &Path,
    with_peers: bool,
    suite: suite::Options,
) -> Result<Results, Failure> {
    match beside(own) {
        Some(program) if with_peers => run_program(context, &program, Measure::Bulk, suite),
        _ => {
            let all = if with_peers { bulk::peers() } else { Vec::new() };
            let peers: Vec<&dyn Peer> = all.iter().map(AsRef::as_ref).collect();
            let absent: Vec<_> = bulk::FOREIGN.into_iter().filter(|_| with_peers).map(absent).collect();
            Ok(with_progress(context, |progress| bulk::run(&peers, &absent, &suite, progress))?)
        }
    }
}

/// Measures the links of the machine of the given file, or of the one that is up, if any.
fn add_nodes(context: &Context, (options, schedule): (&BulkOptions, Schedule), results: &mut Results) {
    let measured = with_machine(context, options.up.as_deref(), |domain| {
        let kit = Kit::locate()?;
        let (image, service) = (kit.image("bench"), kit.image("copies"));
        with_progress(context, |progress| {
            bulk::add_service(results, (domain, &service), schedule, progress);
            bulk::add_nodes(results, (domain, &image), schedule, progress);
        });
        Ok(())
    });
    if let Err(error) = measured {
        results.failed.push(Failed::new("the nodes of a machine", &error));
    }
}

/// Measures TCP to a virtual machine like each node, once the nodes are idle.
fn add_network(context: &Context, (options, schedule): (&BulkOptions, Schedule), results: &mut Results) {
    let nodes = match virtual_machines(context, options.up.as_deref()) {
        Ok(nodes) => nodes,
        Err(error) => return results.failed.push(Failed::new("TCP to virtual machines", &error)),
    };
    for (host, node) in nodes {
        let measured = with_progress(context, |progress| {
            progress(&format!("{}: starting a virtual machine with a network", node.name));
            let machine = bulk::NetworkMachine::start(&node, TIMEOUT)?;
            let names = (host.as_str(), node.name.as_str());
            bulk::network::add(results, names, machine.address(), schedule, progress)
        });
        if let Err(error) = measured {
            results.failed.push(Failed::new(format!("TCP to {}", node.name), &error));
        }
    }
}

/// Timeout of a virtual machine's start: it takes a second on an idle host, and much longer on a loaded one.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the virtual machines of the machine file, or of the machine that is up, each with the name of the
/// host. The settings of one that is up are unknown: defaults are assumed.
pub(super) fn virtual_machines(
    context: &Context,
    file: Option<&Path>,
) -> Result<Vec<(String, Node)>, Failure> {
    if let Some(file) = file {
        let machine = Machine::open(file)?;
        let nodes = machine.nodes().iter().filter(|node| node.as_vm().is_some());
        return Ok(nodes.map(|node| (machine.host().name.clone(), node.clone())).collect());
    }
    let domain = match context.attach_running() {
        Err(Failure::NothingUp) => return Ok(Vec::new()),
        attached => attached?,
    };
    let nodes = domain.nodes()?;
    let usual = |node: &tombolo::nodes::NodeInfo| Node {
        id: node.id,
        name: node.name.clone(),
        isa: node.isa,
        settings: NodeSettings::Vm(VmNode::default()),
    };
    let vms = nodes.iter().filter(|node| node.kind == tombolo::nodes::NodeKind::Vm).map(usual);
    Ok(vms.map(|node| (domain.node_name().to_owned(), node)).collect())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: BulkOptions,
    }

    fn parse(line: &str) -> Result<BulkOptions, clap::Error> {
        Line::try_parse_from(line.split(' ')).map(|line| line.options)
    }

    #[test]
    fn all_parts_are_measured_unless_some_are_named() {
        let measured = |line: &str| {
            let options = parse(line).expect(line);
            Part::value_variants().iter().filter(|part| options.measures(**part)).copied().collect::<Vec<_>>()
        };
        let all = vec![Part::Peers, Part::Copies, Part::Nodes, Part::Network];
        assert_eq!(measured("bulk"), all);
        assert_eq!(measured("bulk --parts network,peers"), [Part::Peers, Part::Network]);
        assert_eq!(measured("bulk --peers Tombolo"), [Part::Peers]);
        for wrong in ["bulk --parts everything", "bulk --parts nodes --peers Tombolo"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn invalid_array_file_fails_before_measuring() {
        let mut options = parse("bulk --label here --arrays /nonexistent/arrays.json").expect("a line");
        assert_eq!(options.label, "here");
        let arrays = options.arrays.take().expect("it was named");
        let error = suite::Arrays::read(&arrays).expect_err("it is not there");
        assert!(error.to_string().contains("/nonexistent/arrays.json"), "{error}");
    }

    #[test]
    fn the_virtual_machines_of_a_file_are_those_with_their_settings() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/zoo.toml");
        let context =
            Context { machine: None, colour: false, colour_errors: false, quiet: true, verbose: false };
        let found = virtual_machines(&context, Some(&file)).expect("the file");
        assert!(
            !found.is_empty() && found.iter().all(|(host, node)| host == "host" && node.as_vm().is_some())
        );
    }
}
