//! `tombolo bench mpi`

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tombolo_bench::mpi::{self, Tools};
use tombolo_bench::stacks::Report;
use tombolo_bench::suite::Absent;
use tombolo_machine::vm::Architecture;
use tombolo_machine::{Kit, VmNode};

use super::bulk::virtual_machines;
use super::progress::with_progress;
use super::report::show;
use super::temporary_machine::with_machine;
use crate::context::Context;
use crate::failure::Failure;
use tombolo_cli_common::nodes::node_named;
use tombolo_cli_common::programs::main_program_path;

/// Measures MPI between ranks of this host and to each node, beside other MPI stacks
///
/// One unmodified program runs on each stack in turn, in several rounds: MPICH and Open MPI over Tombolo's
/// provider for libfabric, and, if `make bench-mpi` has fetched them, MPICH's own shared memory, MPICH over
/// UCX and over TCP, and Open MPI's shared memory. It measures latency (one way), bandwidth with 64 messages
/// in flight, messages per second, allreduce, bcast, barrier, and one-sided put and get. Figures are medians
/// over the rounds; the bare cache line and memcpy are measured before every run.
///
/// Nodes are those of the machine that is up, or of `--up`; its virtual machines need MPI's files
/// (machines/mpi.toml has them). For comparison the same is measured over TCP to a similar virtual machine
/// that has a network (a tap device, virtio-net) in place of the window. The network connects only the two,
/// is removed afterwards, and needs `ip` and `unshare`.
///
/// The JSON has, for each of `rows`: group (the two places), metric, size (in bytes), stack, unit, p50, p99
/// and runs; and `targets` with their ratios, which are medians of the ratios of consecutive runs.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  make bench-mpi                             fetches and builds what is compared
  tombolo bench mpi                          as tables
  tombolo bench mpi --up machines/mpi.toml   to a virtual machine and to an emulated node too
  tombolo bench mpi --metrics latency:8,bandwidth:65536 --rounds 3
  tombolo bench mpi --json | jq '.rows[] | select(.metric == \"latency\") | {group, stack, size, p50}'")]
pub(crate) struct MpiOptions {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,

    /// Bring up the machine of this file for its nodes, and take it down afterwards
    #[arg(long, value_name = "FILE")]
    up: Option<PathBuf>,

    /// The nodes at the far side, `host` among them [default: all that are up]
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    on: Vec<String>,

    /// Number of rounds
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Time per figure in a round, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    slice_ms: u64,

    /// Measure only these, such as `latency` or `latency:8` (of 8 bytes)
    #[arg(long, value_name = "METRIC,…", value_delimiter = ',')]
    metrics: Vec<String>,
}

impl MpiOptions {
    fn to_bench(&self) -> mpi::Options {
        let usual = mpi::Options::default();
        let length = Duration::from_millis(self.slice_ms);
        // All metrics together are some twenty figures, and emulated ranks are slow to start.
        let timeout = usual.timeout + 30 * length;
        mpi::Options { rounds: self.rounds, length, timeout, metrics: self.metrics.clone() }
    }

    fn wants(&self, node: &str) -> bool {
        self.on.is_empty() || self.on.iter().any(|wanted| wanted == node)
    }
}

/// Runs the command. Returns status 1 if an installed stack could not be measured; the report names it and
/// the reason.
pub(crate) fn run(context: &Context, options: &MpiOptions) -> Result<u8, Failure> {
    let mut tools = Tools {
        tombolo: main_program_path()?,
        kit: Kit::locate()?.root().to_owned(),
        machine: context.machine.clone(),
    };
    let mut report = None;
    let mut measured = |tools: &Tools, nodes: &[tombolo::nodes::NodeInfo]| -> Result<(), Failure> {
        report = Some(measure(context, options, tools, nodes)?);
        Ok(())
    };
    with_machine(context, options.up.as_deref(), |domain| {
        tools.machine = Some(domain.machine_name().to_owned());
        measured(&tools, &domain.nodes()?)
    })?;
    if report.is_none() {
        // No machine is up: measure the host alone, for which mpirun starts a monitor itself.
        report = Some(measure(context, options, &tools, &[])?);
    }
    let Some(report) = report else { return Ok(1) };
    show(&report, options.json)
}

fn measure(
    context: &Context,
    options: &MpiOptions,
    tools: &Tools,
    nodes: &[tombolo::nodes::NodeInfo],
) -> Result<Report, Failure> {
    for name in options.on.iter().filter(|name| *name != "host") {
        if nodes.is_empty() {
            return Err(Failure::NothingUp);
        }
        node_named(nodes, name)?;
    }
    let (mut stacks, mut absent) = (Vec::new(), Vec::new());
    let mut add = |(some, none): (Vec<mpi::Stack>, Vec<Absent>)| {
        stacks.extend(some);
        absent.extend(none);
    };
    if options.wants("host") {
        add(mpi::host_stacks(tools));
    }
    // MPI does not run on boards.
    for node in nodes.iter().filter(|node| {
        matches!(node.kind, tombolo::nodes::NodeKind::Vm | tombolo::nodes::NodeKind::User)
            && options.wants(&node.name)
    }) {
        add(mpi::node_stacks(tools, &node.name, node.isa, node.kind == tombolo::nodes::NodeKind::User));
        if node.kind == tombolo::nodes::NodeKind::Vm {
            add(network_stack(context, options, tools, &node.name)?);
        }
    }
    let run = with_progress(context, |progress| mpi::run(stacks, absent, &options.to_bench(), progress));
    run.map_err(Failure::system("measure the limit of this host"))
}

/// Minimum memory of a node: MPI's files are unpacked in memory.
const MIN_MEMORY_MIB: u32 = 512;

/// Measures TCP to a virtual machine like that node, where one can be started.
fn network_stack(
    context: &Context,
    options: &MpiOptions,
    tools: &Tools,
    name: &str,
) -> Result<(Vec<mpi::Stack>, Vec<Absent>), Failure> {
    let machines = virtual_machines(context, options.up.as_deref())?;
    let vm = machines.iter().find(|(_, node)| node.name == name).and_then(|(_, node)| node.as_vm());
    let usual = VmNode::default();
    let vm = vm.unwrap_or(&usual);
    let cpu = vm.cpu.as_deref().unwrap_or(Architecture::AARCH64.cpu);
    let stack = mpi::network_stack(tools, name, cpu, vm.memory_mib.max(MIN_MEMORY_MIB));
    Ok(match mpi::network::missing_requirement(&tools.kit) {
        None => (vec![stack], Vec::new()),
        Some(why) => (Vec::new(), vec![stack.absent(why)]),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: MpiOptions,
    }

    fn parse(line: &str) -> Result<MpiOptions, clap::Error> {
        Line::try_parse_from(line.split(' ')).map(|line| line.options)
    }

    #[test]
    fn nodes_and_metrics_are_chosen_by_name() {
        let all = parse("mpi").expect("a line");
        assert!(all.wants("host") && all.wants("arm0"));
        let some = parse("mpi --on arm0 --metrics latency:8,rate --rounds 2 --slice-ms 50").expect("a line");
        assert!(some.wants("arm0") && !some.wants("host"));
        let options = some.to_bench();
        assert_eq!(
            (options.rounds, options.length, options.metrics.len()),
            (2, Duration::from_millis(50), 2)
        );
        for wrong in ["mpi --rounds 0", "mpi --slice-ms 0", "mpi --rounds x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
