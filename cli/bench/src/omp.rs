//! `tombolo bench omp`

use std::path::{Path, PathBuf};

use clap::Args;
use tombolo::Isa;
use tombolo::nodes::{NodeInfo, NodeKind};
use tombolo_bench::omp::{self, Section, Tools};
use tombolo_bench::stacks::Report;
use tombolo_machine::Kit;
use tombolo_machine::build::Scratch;

use super::progress::with_progress;
use super::report::show;
use super::temporary_machine::with_machine;
use crate::context::Context;
use crate::failure::Failure;
use tombolo_cli_common::programs::main_program_path;

/// Measures OpenMP constructs and regions, beside GCC's libgomp and LLVM's libomp
///
/// Two programs are compiled by gcc and, if it is installed with LLVM's run-time (`make bench-omp`), by
/// clang. They run on each run-time in turn, in several rounds: GCC's libgomp, and ours with workers in one
/// process (shared), in processes of their own (exclusive) and both (hybrid). They measure the overhead of
/// constructs, schedules and tasks (the time of a loop with them less that of one without, as EPCC's
/// benchmarks do), the start of a program and of its first workers, memory that workers have not touched
/// before, empty regions by the number of workers, and matrices multiplied by rows. Figures are medians over
/// the rounds; a run during which other programs used the processors is repeated.
///
/// If Arm nodes are up, or with `--up`, a program by `tombolo ompcc` multiplies matrices with one worker on
/// this host and one on a node (one that is emulated on this kernel, a virtual machine, or two of these), and
/// with the numbers that the run-time derives from their speeds, with and without replication, beside the
/// ideal division of the rows by speed. What cannot be measured is listed, with the reason.
///
/// The JSON has, for each of `rows`: group (the section), metric, size (in workers), stack, unit, p50, p99,
/// runs and limit; and `targets` with their ratios, which are medians of the ratios of consecutive runs.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  make bench-omp                               installs clang and LLVM's libomp
  tombolo bench omp                            as tables, in two minutes
  tombolo bench omp --up machines/users.toml   with an emulated Arm node
  tombolo bench omp --up machines/two-arms.toml --sections nodes   with one and with two machines
  tombolo bench omp --sections constructs,regions --rounds 9
  tombolo bench omp --json | jq '.targets[] | select(.verdict == \"missed\")'")]
pub(crate) struct OmpOptions {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,

    /// Bring up the machine of this file for its nodes, and take it down afterwards
    #[arg(long, value_name = "FILE")]
    up: Option<PathBuf>,

    /// Number of rounds
    #[arg(long, value_name = "COUNT", default_value_t = omp::Options::default().rounds, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Number of workers of most rows, the master included [default: the number of processors]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(2..=64))]
    threads: Option<u16>,

    /// Number of rows and columns of the matrices
    #[arg(long, value_name = "COUNT", default_value_t = omp::Options::default().size, value_parser = clap::value_parser!(u32).range(1..=4096))]
    size: u32,

    /// Measure only these: constructs, schedules, tasks, start, sharing, regions, matmul, nodes
    #[arg(long, value_name = "SECTION,…", value_delimiter = ',', value_parser = section)]
    sections: Vec<Section>,

    /// The most repetitions of a run during which other programs used the processors
    #[arg(long, value_name = "COUNT", default_value_t = omp::Options::default().retries)]
    retries: u32,

    /// Measure everything briefly, to check that it works
    #[arg(long, conflicts_with_all = ["rounds", "size", "retries"])]
    quick: bool,
}

fn section(text: &str) -> Result<Section, String> {
    Section::named(text).ok_or_else(|| {
        let names = Section::ALL.map(Section::name);
        format!("sections are {}", names.join(", "))
    })
}

impl OmpOptions {
    fn to_bench(&self) -> omp::Options {
        let usual = if self.quick {
            omp::Options::quick()
        } else {
            omp::Options {
                rounds: self.rounds,
                size: self.size,
                retries: self.retries,
                ..omp::Options::default()
            }
        };
        let threads = self.threads.map_or(usual.threads, usize::from);
        omp::Options { threads, sections: self.sections.clone(), ..usual }
    }
}

/// Runs the command. Returns status 1 if a measurement failed; the report names it and the reason.
pub(crate) fn run(context: &Context, options: &OmpOptions) -> Result<u8, Failure> {
    let report = measure(context, options.up.as_deref(), &options.to_bench())?;
    show(&report, options.json)
}

/// Measures on this host, and with nodes of the given file's machine, or of the one that is up.
pub(super) fn measure(
    context: &Context,
    up: Option<&Path>,
    options: &omp::Options,
) -> Result<Report, Failure> {
    let scratch = Scratch::new()?;
    let mut tools = Tools {
        tombolo: main_program_path()?,
        kit: Kit::locate()?.root().to_owned(),
        machine: context.machine.clone(),
        scratch: scratch.path().to_owned(),
    };
    let mut report = None;
    if options.wants(Section::Nodes) {
        with_machine(context, up, |domain| {
            tools.machine = Some(domain.machine_name().to_owned());
            report = Some(on_stacks(context, &tools, &foreign_node_sets(&domain.nodes()?), options)?);
            Ok(())
        })?;
    }
    match report {
        Some(report) => Ok(report),
        // No machine is up: measure the host alone.
        None => on_stacks(context, &tools, &[], options),
    }
}

fn on_stacks(
    context: &Context,
    tools: &Tools,
    groups: &[Vec<String>],
    options: &omp::Options,
) -> Result<Report, Failure> {
    let (mut stacks, mut absent) = omp::host_stacks(tools);
    if options.wants(Section::Nodes) {
        let (some, none) = omp::node_stacks(tools, groups);
        stacks.extend(some);
        absent.extend(none);
    }
    let run = with_progress(context, |progress| omp::run(&stacks, absent, options, progress));
    run.map_err(Failure::system("measure the limit of this host"))
}

/// Returns the sets of foreign nodes for workers, of an instruction set that programs can be built for: one
/// emulated on this kernel, a virtual machine, and two of these, as far as they are up.
fn foreign_node_sets(nodes: &[NodeInfo]) -> Vec<Vec<String>> {
    let of_kind = |kind: NodeKind, count: usize| {
        let fits =
            |node: &&NodeInfo| node.kind == kind && node.isa == Isa::Aarch64 && node.isa != Isa::current();
        let names: Vec<String> =
            nodes.iter().filter(fits).take(count).map(|node| node.name.clone()).collect();
        (names.len() == count).then_some(names)
    };
    let groups = [of_kind(NodeKind::User, 1), of_kind(NodeKind::Vm, 1), of_kind(NodeKind::Vm, 2)];
    groups.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: OmpOptions,
    }

    fn parse(line: &str) -> Result<OmpOptions, clap::Error> {
        Line::try_parse_from(line.split(' ')).map(|line| line.options)
    }

    #[test]
    fn sections_are_chosen_by_name() {
        let all = parse("omp").expect("a line").to_bench();
        assert_eq!(all, omp::Options::default());
        assert!(all.wants(Section::Nodes));
        let some = parse("omp --sections tasks,start --rounds 2 --threads 7").expect("a line").to_bench();
        assert_eq!((some.rounds, some.threads), (2, 7));
        assert!(some.wants(Section::Tasks) && !some.wants(Section::Matmul));
        let quick = parse("omp --quick").expect("a line").to_bench();
        assert_eq!(quick, omp::Options::quick());
        for wrong in ["--rounds 0", "--size 5000", "--threads 1", "--sections all", "--quick --size 2"] {
            assert!(parse(&format!("omp {wrong}")).is_err(), "{wrong}");
        }
    }
}
