//! `tombolo mpirun`

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, ValueEnum};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tombolo::nodes::{NodeInfo, NodeKind, Target};
use tombolo::{Child, Domain, Exit};
use tombolo_cli_common::arguments::{self, exit_with};
use tombolo_cli_common::nodes::{needs, placement_failure, prepare_auto, with_needs};
use tombolo_cli_common::programs::find_command;
use tombolo_mpi_launch::environment::{Environment, SharedMemory};
use tombolo_mpi_launch::job::{
    Cleaner, Control, Job, JobError, JobOptions, Outcome, Part, RankName, Stdin, Watcher,
};
use tombolo_mpi_launch::program::{Program, ProgramError};
use tombolo_placement::{Auto, Needs, Order, Placement, place};

use crate::Arguments;
use crate::context::{Context, print};
use crate::failure::Failure;
use crate::output::{Printer, Show, lock_unpoisoned};
use crate::{input, signals};

/// Runs MPI programs on the nodes of a machine, unmodified
///
/// Starts the ranks of a program on the given nodes. The program is an image made by `tombolo mpicc`, with a
/// build for each instruction set, or an executable of the host, or any of its commands, such as a script or
/// the Python of a virtual environment. Programs of the MPICH family find each other through PMI-1 and
/// communicate through Tombolo, even between nodes that share neither memory nor a kernel. Several programs
/// separated by ` : ` form one job; options before the first program apply to all of them, except the number
/// of ranks.
///
/// Without --on, all ranks run on the host, one per processor unless -n gives the number. With --on, each
/// node runs as many ranks as its count says, or one; with -n as well, nodes without a count share the
/// remaining ranks. Ranks are numbered node by node, or in turn with --map round-robin.
///
/// Ranks on the host get the environment of this command. Ranks on other nodes get the variables that control
/// MPI: PMI_*, FI_*, MPIR_*, MPICH_*, I_MPI_*, OMP_*, MPI4PY_* and TOMBOLO_*. Variables given with -x are set
/// everywhere. A variable that is set here overrides what mpirun would set: FI_PROVIDER=tcp, for example,
/// makes MPI use the TCP provider of libfabric.
///
/// Output is passed on in whole lines, in order for each rank. When a rank fails, is killed, calls MPI_Abort,
/// or exits while others are still in MPI, all ranks on all nodes are ended; Ctrl-C ends them too, and a
/// second Ctrl-C does not wait for them. The exit status is that of the first rank that failed, 128 + N if
/// signal N ended it, the argument of MPI_Abort, 124 if --timeout expired, and 2 if the command line is
/// invalid.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo mpirun -n 8 ./a.out                              on the host
  tombolo mpirun --on host:4,arm0:4 ring.tbi --fast        half of the ranks on Arm
  tombolo mpirun -n 8 --on host,arm0 --map round-robin ring.tbi
  tombolo mpirun -n 2 python3 -m mpi4py.bench helloworld   any command of the host
  tombolo mpirun -n 1 ./coupler : -n 4 --on arm0 ocean.tbi   two programs, one job
  tombolo mpirun -n 4 -x OMP_NUM_THREADS=2 -x HOME ./a.out
  tombolo mpirun -n 4 --label --timeout 60 ./a.out

Open MPI supports only PMIx: start its programs with its own mpirun.")]
pub(crate) struct Options {
    #[command(flatten)]
    part: PartOptions,

    /// Prefix each line of output with its origin, `[rank@node]`
    #[arg(short, long)]
    label: bool,

    /// Ranks that get the standard input: none, 0 or all; the others read end of file
    #[arg(long, value_name = "RANKS", default_value = "0", hide_possible_values = true)]
    stdin: StdinReaders,

    /// End the job after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    timeout: Option<Duration>,

    /// Provider of the shared memory between the ranks of one node. `tombolo` presents each rank to MPI as a
    /// node, and all messages go through Tombolo. `mpi` tells MPI that they share memory, which
    /// MPI_Win_allocate_shared and MPI_COMM_TYPE_SHARED need; messages then use MPI's own shared memory,
    /// which is slower for long ones
    #[arg(long, value_name = "WHOSE", default_value = "tombolo", hide_possible_values = true)]
    shared_memory: SharedMemoryChoice,

    /// Write the outcome of the job to this file as JSON; `-` is the standard output, after the job's own
    /// output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// The program and its arguments; further programs follow after ` : `
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM [ARGS]")]
    command: Vec<String>,
}

/// Options of one program.
#[derive(Args, Clone, Debug)]
struct PartOptions {
    /// Number of ranks
    #[arg(short = 'n', long = "np", value_name = "COUNT")]
    count: Option<usize>,

    /// Nodes to run on, each with its number of ranks. `auto` chooses nodes that have a build and what
    /// --needs asks for, as `tombolo place` does
    #[arg(long, visible_alias = "host", value_name = "NODE[:COUNT],…", value_delimiter = ',')]
    on: Vec<Placement>,

    /// Requirements on the nodes that `auto` chooses, such as 'memory>=256M,near=arm0'; see `tombolo place`.
    /// Alone it means `--on auto`
    #[arg(long, value_name = "NEEDS", value_parser = needs)]
    needs: Option<Needs>,

    /// How ranks are assigned to nodes: block (fill a node before the next) or round-robin
    #[arg(long, value_name = "ORDER", hide_possible_values = true)]
    map: Option<Map>,

    /// Set an environment variable for all ranks, to the given value or to the one it has here
    #[arg(short = 'x', long, visible_short_alias = 'e', value_name = "NAME[=VALUE]", value_parser = variable)]
    env: Vec<(String, String)>,

    /// Working directory of the ranks, on nodes that have it [default: the current one]
    #[arg(long, value_name = "FOLDER")]
    wdir: Option<PathBuf>,
}

/// A program after ` : `.
#[derive(Parser, Debug)]
#[command(name = "tombolo mpirun", no_binary_name = true)]
struct LaterProgram {
    #[command(flatten)]
    part: PartOptions,

    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM [ARGS]")]
    command: Vec<String>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum StdinReaders {
    None,
    #[value(name = "0")]
    First,
    All,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum SharedMemoryChoice {
    Tombolo,
    Mpi,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Map {
    Block,
    RoundRobin,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) => Err("write NAME or NAME=VALUE".to_owned()),
        None => match std::env::var(text) {
            Ok(value) => Ok((text.to_owned(), value)),
            Err(_) => Err(format!("variable {text} is not set here; give it a value: {text}=…")),
        },
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match arguments::seconds(text)? {
        Duration::ZERO => Err("the time must be greater than 0".to_owned()),
        time => Ok(time),
    }
}

/// Returns the arguments with those of other mpiruns translated to this one's: `-np 4`, `-host a,b`, `-env A
/// B`.
pub(crate) fn translate_arguments(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let words: Vec<OsString> = words.collect();
    let Some(own) = find_command(&words, "mpirun") else { return words };
    let definition = Arguments::command();
    let takes_value = |word: &str| {
        let all = definition.find_subcommand("mpirun").into_iter().flat_map(clap::Command::get_arguments);
        all.chain(definition.get_arguments()).any(|argument| {
            let short = argument.get_short_and_visible_aliases().unwrap_or_default();
            let long = argument.get_long_and_visible_aliases().unwrap_or_default();
            let called = long.iter().any(|long| word.strip_prefix("--") == Some(long))
                || short
                    .iter()
                    .any(|short| word.strip_prefix('-').is_some_and(|rest| rest.chars().eq([*short])));
            called && argument.get_action().takes_values()
        })
    };
    let mut result = words[..=own].to_vec();
    let mut rest = words[own + 1..].iter().cloned();
    let mut in_options = true;
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy().into_owned();
        if !in_options {
            in_options = text == ":";
            result.push(word);
            continue;
        }
        match text.as_str() {
            "-np" => result.extend(["-n".into()].into_iter().chain(rest.next())),
            "-host" | "-hosts" | "--hosts" => result.extend(["--on".into()].into_iter().chain(rest.next())),
            "-wdir" => result.extend(["--wdir".into()].into_iter().chain(rest.next())),
            "-prepend-rank" | "--tag-output" => result.push("--label".into()),
            "-env" | "-genv" => match (rest.next(), rest.next()) {
                (Some(name), Some(value)) => {
                    let mut pair = name;
                    pair.push("=");
                    pair.push(value);
                    result.extend(["-x".into(), pair]);
                }
                (name, _) => result.extend([word].into_iter().chain(name)),
            },
            option if option.starts_with('-') => {
                let value = if takes_value(option) { rest.next() } else { None };
                result.extend([word].into_iter().chain(value));
            }
            _ => {
                in_options = false;
                result.push(word);
            }
        }
    }
    result
}

/// A requested program of the job.
struct RequestedProgram {
    options: PartOptions,
    program: Arc<Program>,
    arguments: Vec<String>,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let here = std::env::current_dir().map_err(Failure::system("tell the current folder"))?;
    // Checked first: a program that cannot run should fail before anything has started.
    let requested = programs(options, &here)?;
    let domain = context.attach()?;
    let nodes = domain.nodes()?;
    let alone = requested.len() == 1;
    let mut auto = None;
    let place_ranks =
        requested.iter().map(|requested| place_ranks(requested, &domain, alone, &nodes, &mut auto));
    let place_ranks = place_ranks.collect::<Result<Vec<Vec<usize>>, Failure>>()?;
    let parts: Vec<Part> = requested
        .iter()
        .zip(place_ranks)
        .map(|(requested, nodes)| part(requested, options, nodes, &here))
        .collect();
    let ranks: usize = parts.iter().map(|part| part.nodes.len()).sum();
    let show = match ranks {
        _ if options.label => Show::Labelled,
        0 | 1 => Show::Pieces,
        _ => Show::Lines,
    };
    let names = nodes.iter().map(|node| node.name.clone()).collect();
    let printer = Arc::new(Mutex::new(Printer::new(show, names, context.colour)));
    let mut job = Job::new(domain.clone())?;
    match cleaner(context) {
        Ok(cleaner) => job = job.with_cleaner(cleaner),
        Err(error) => context.info(format!("warning: files of MPICH may stay if this is killed: {error}")),
    }
    watch_signals(job.control())?;
    let (printing, control) = (Arc::clone(&printer), job.control());
    domain.on_output(move |id, stream, bytes| {
        if lock_unpoisoned(&printing).write_output(id, stream, bytes).is_err() {
            control.interrupt(signals::PIPE);
        }
    });
    let stdin = match options.stdin {
        StdinReaders::None => Stdin::None,
        _ if !input::is_ours() => Stdin::None,
        StdinReaders::First => Stdin::First,
        StdinReaders::All => Stdin::All,
    };
    let plan = JobOptions { nodes, parts, stdin, timeout: options.timeout };
    let reporter = ProgressReporter { context: context.clone(), printer: Arc::clone(&printer), stdin };
    let outcome = job.run(&plan, &reporter).map_err(start_failure)?;
    if let Some(file) = &options.json {
        write_summary(file, &outcome)?;
    }
    if let Some(error) = lock_unpoisoned(&printer).failure() {
        return Err(Failure::Output(error));
    }
    match outcome.reason {
        None => Ok(()),
        Some(message) => Err(Failure::Job { message, status: outcome.status }),
    }
}

/// Converts the reason why a job was not started. Counts that do not fit and programs that cannot be read are
/// usage errors; errors of the machine get the command's hints.
fn start_failure(error: impl Into<JobError>) -> Failure {
    match error.into() {
        JobError::Placement(error) => placement_failure(error),
        JobError::Machine(error) => error.into(),
        JobError::Program(ProgramError::Image(error)) => error.into(),
        JobError::Program(
            error @ (ProgramError::Missing { .. }
            | ProgramError::NotExecutable(_)
            | ProgramError::Build { .. }),
        ) => Failure::Usage { message: error.to_string(), hint: None },
        other => other.into(),
    }
}

/// Starts this program again, to clean up if this process is killed.
fn cleaner(context: &Context) -> std::io::Result<Cleaner> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    if let Some(machine) = &context.machine {
        command.args(["--machine", machine]);
    }
    Cleaner::start(command.arg("mpirun-cleaner"))
}

/// Ends the job on a signal of the user.
fn watch_signals(control: Control) -> Result<(), Failure> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Failure::system("listen for signals"))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if !control.interrupt(signal as u8) {
                // The second time: the monitor kills the domains of a launcher that is gone.
                std::process::exit(128 + signal);
            }
        }
    });
    Ok(())
}

/// Finds the programs, each with its options.
fn programs(options: &Options, here: &Path) -> Result<Vec<RequestedProgram>, Failure> {
    let mut requested: Vec<RequestedProgram> = Vec::new();
    for (index, words) in options.command.split(|word| word == ":").enumerate() {
        let (part, command) = match index {
            0 => (options.part.clone(), words.to_vec()),
            _ => {
                let another = LaterProgram::try_parse_from(words).unwrap_or_else(|error| exit_with(&error));
                (inherit_options(&options.part, another.part), another.command)
            }
        };
        let Some((name, arguments)) = command.split_first() else {
            let message = "a program is missing between two ` : `, or before the first".to_owned();
            return Err(Failure::Usage { message, hint: None });
        };
        let path = std::env::var_os("PATH");
        let directory = part.wdir.as_ref().map_or_else(|| here.to_owned(), |folder| here.join(folder));
        let found = Program::find(name, here, path.as_deref())
            .or_else(|error| Program::find(name, &directory, path.as_deref()).map_err(|_| error));
        let program = Arc::new(found.map_err(start_failure)?);
        requested.push(RequestedProgram { options: part, program, arguments: arguments.to_vec() });
    }
    Ok(requested)
}

/// Merges the options of a later program: missing ones are inherited from the first.
fn inherit_options(first: &PartOptions, own: PartOptions) -> PartOptions {
    // Needs of the first program do not apply to one whose nodes are named.
    let chooses = own.on.is_empty() || own.on.iter().any(Placement::is_auto);
    PartOptions {
        count: own.count,
        on: if own.on.is_empty() { first.on.clone() } else { own.on },
        needs: own.needs.or_else(|| first.needs.clone().filter(|_| chooses)),
        map: own.map.or(first.map),
        env: first.env.iter().cloned().chain(own.env).collect(),
        wdir: own.wdir.or_else(|| first.wdir.clone()),
    }
}

/// Places the ranks of a program. `auto` has the nodes chosen for previous programs.
fn place_ranks(
    requested: &RequestedProgram,
    domain: &Domain,
    alone: bool,
    nodes: &[NodeInfo],
    auto: &mut Option<Auto>,
) -> Result<Vec<usize>, Failure> {
    let program_options = &requested.options;
    let on = with_needs(&program_options.on, program_options.needs.as_ref())?;
    // One rank per processor is the default only for a program that has the host for itself.
    let count = program_options.count.or((!alone && on.is_empty()).then_some(1));
    let order = match program_options.map {
        Some(Map::RoundRobin) => Order::RoundRobin,
        Some(Map::Block) | None => Order::Block,
    };
    let builds: Vec<Target> = requested.program.builds.iter().map(|build| build.target).collect();
    let (needs, targets) = match builds.is_empty() {
        // A command of the host has no known builds: it runs only there.
        true => (Some(program_options.needs.clone().unwrap_or_default().of_kind(NodeKind::Host)), None),
        false => (program_options.needs.clone(), Some(builds)),
    };
    prepare_auto(auto, domain, &on, needs.as_ref(), targets)?;
    place(count, &on, order, nodes, auto.as_mut()).map_err(start_failure)
}

/// Returns a program with the nodes of its ranks.
fn part(requested: &RequestedProgram, options: &Options, nodes: Vec<usize>, here: &Path) -> Part {
    let program_options = &requested.options;
    let shared_memory = match options.shared_memory {
        SharedMemoryChoice::Tombolo => SharedMemory::Tombolo,
        SharedMemoryChoice::Mpi => SharedMemory::Mpi,
    };
    // Values that are not UTF-8 cannot be sent; no setting of MPI has any.
    let own = std::env::vars_os().filter_map(|(name, value)| Some((text(&name)?, text(&value)?)));
    Part {
        program: Arc::clone(&requested.program),
        arguments: requested.arguments.clone(),
        nodes,
        environment: Environment::new(own, program_options.env.clone(), shared_memory),
        directory: program_options.wdir.as_ref().map_or_else(|| here.to_owned(), |folder| here.join(folder)),
    }
}

fn text(text: &OsStr) -> Option<String> {
    text.to_str().map(str::to_owned)
}

/// Reports the progress of the job to the user.
struct ProgressReporter {
    context: Context,
    printer: Arc<Mutex<Printer>>,
    stdin: Stdin,
}

impl Watcher for ProgressReporter {
    fn on_starting(&self) {
        lock_unpoisoned(&self.printer).expect_domain();
    }

    fn on_started(&self, rank: Option<(RankName, &Child)>) {
        let known = rank.map(|(name, child)| (child.id(), name.to_string(), name.rank));
        // A closed output is detected with the next piece.
        let _ = lock_unpoisoned(&self.printer).started(known);
        if let Some((name, child)) = rank {
            self.log_verbose(&format!("rank {name} is domain {} on {}", child.id(), child.node_name()));
        }
    }

    fn stdin_ready(&self, mut ranks: Vec<Child>) {
        match self.stdin {
            Stdin::None => {}
            Stdin::First => ranks.truncate(1),
            Stdin::All => {}
        }
        if self.stdin != Stdin::None {
            input::forward_to_all(ranks);
        }
    }

    fn log_verbose(&self, text: &str) {
        if self.context.verbose {
            self.context.info(text);
        }
    }

    fn warn(&self, text: &str) {
        self.context.info(format!("warning: {text}"));
    }
}

/// Outcome of a job.
#[derive(Serialize)]
struct Summary<'a> {
    status: u8,
    reason: Option<&'a str>,
    seconds: f64,
    ranks: Vec<RankSummary<'a>>,
}

/// End of a rank: with a status, by a signal, with its node, or unknown.
#[derive(Serialize)]
struct RankSummary<'a> {
    world: usize,
    rank: usize,
    node: &'a str,
    program: &'a str,
    domain: Option<String>,
    status: Option<u8>,
    signal: Option<u8>,
    lost: Option<&'a str>,
}

fn write_summary(file: &Path, outcome: &Outcome) -> Result<(), Failure> {
    let ranks = outcome.ranks.iter().map(|end| {
        let (status, signal, lost) = match &end.exit {
            Some(Exit::Exited { status }) => (Some(*status), None, None),
            Some(Exit::Signalled { signal }) => (None, Some(*signal), None),
            Some(Exit::NodeLost { cause }) => (None, None, Some(cause.as_str())),
            Some(Exit::Left) | None => (None, None, None),
        };
        RankSummary {
            world: end.name.world,
            rank: end.name.rank,
            node: &end.node,
            program: &end.program,
            domain: end.domain.map(|domain| domain.to_string()),
            status,
            signal,
            lost,
        }
    });
    let summary = Summary {
        status: outcome.status,
        reason: outcome.reason.as_deref(),
        seconds: outcome.duration.as_secs_f64(),
        ranks: ranks.collect(),
    };
    let text = serde_json::to_string_pretty(&summary).map_err(|error| Failure::Output(error.into()))? + "\n";
    if file == Path::new("-") {
        return print(text);
    }
    std::fs::write(file, text).map_err(Failure::system(format!("write {}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;

    fn with_habits(line: &str) -> String {
        let words = translate_arguments(line.split(' ').map(OsString::from));
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    fn parse(line: &str) -> Options {
        let words = translate_arguments(line.split(' ').map(OsString::from));
        match Arguments::try_parse_from(words).unwrap().command {
            Command::Mpirun(options) => options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_of_other_mpiruns_are_translated() {
        for (line, meant) in [
            ("tombolo mpirun -np 4 a -np 3", "tombolo mpirun -n 4 a -np 3"),
            ("tombolo mpirun -host a,b -np 2 x", "tombolo mpirun --on a,b -n 2 x"),
            ("tombolo mpirun -env A 1 -genv B 2 x -env C 3", "tombolo mpirun -x A=1 -x B=2 x -env C 3"),
            (
                "tombolo mpirun --timeout 5 -np 2 x : -np 3 y -np",
                "tombolo mpirun --timeout 5 -n 2 x : -n 3 y -np",
            ),
            (
                "tombolo --machine duo mpirun --machine m -np 1 x",
                "tombolo --machine duo mpirun --machine m -n 1 x",
            ),
            ("tombolo mpirun -n -np", "tombolo mpirun -n -np"),
            ("tombolo mpicc mpirun -np 4", "tombolo mpicc mpirun -np 4"),
            ("tombolo mpirun -env", "tombolo mpirun -env"),
        ] {
            assert_eq!(with_habits(line), meant, "{line}");
        }
    }

    #[test]
    fn arguments_after_program_are_its_own() {
        let options =
            parse("tombolo mpirun -np 3 --on host:2,arm0 -x A=b=c prog --on x -n 9 : -n 2 other -q");
        assert_eq!(options.part.count, Some(3));
        assert_eq!(options.part.on.len(), 2);
        assert_eq!(options.part.env, [("A".to_owned(), "b=c".to_owned())]);
        let words: Vec<&str> = options.command.iter().map(String::as_str).collect();
        assert_eq!(words, ["prog", "--on", "x", "-n", "9", ":", "-n", "2", "other", "-q"]);
        let another = LaterProgram::try_parse_from(&words[6..]).unwrap();
        assert_eq!((another.part.count, another.command.len()), (Some(2), 2));
        let part = inherit_options(&options.part, another.part);
        assert_eq!((part.count, part.on.len(), part.env.len()), (Some(2), 2, 1));
    }

    #[test]
    fn unknown_option_is_not_the_program() {
        let error = |line: &str| {
            let words = translate_arguments(line.split(' ').map(OsString::from));
            let error = Arguments::try_parse_from(words).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
            error.to_string()
        };
        let error_text = error("tombolo mpirun --bogus ./a.out");
        assert!(error_text.contains("unexpected argument '--bogus'"), "{error_text}");
        let error_text = error("tombolo mpirun -n 2 --lable ./a.out --label");
        assert!(error_text.contains("a similar argument exists: '--label'"), "{error_text}");
        assert!(error("tombolo mpirun -q2 ./a.out").contains("unexpected argument '-2'"));
        let error = LaterProgram::try_parse_from(["-n", "2", "--bogus", "./b.out"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let options = parse("tombolo mpirun -- --bogus --label");
        assert_eq!(options.command, ["--bogus", "--label"], "a program may be called so");
    }

    #[test]
    fn a_program_that_cannot_be_read_is_a_mistake_of_the_user() {
        for path in ["/nonexistent/program", "/etc/passwd", "/etc"] {
            let found = Program::find(path, Path::new("/"), None);
            let failure = start_failure(found.map(|_| ()).unwrap_err());
            assert_eq!(failure.status(), 2, "{failure}");
        }
        let cause = "the node is down".to_owned();
        let lost = JobError::Machine(tombolo::Error::NoMachine(cause));
        assert_eq!(start_failure(lost).status(), 1);
    }

    #[test]
    fn invalid_usage_ends_with_status_2() {
        for line in [
            "tombolo mpirun",
            "tombolo mpirun -n x a",
            "tombolo mpirun --on host:0 a",
            "tombolo mpirun --timeout 0 a",
            "tombolo mpirun --timeout nan a",
            "tombolo mpirun --stdin 1 a",
            "tombolo mpirun -x =1 a",
            "tombolo mpirun -x NO_SUCH_VARIABLE_HERE a",
        ] {
            let error = Arguments::try_parse_from(line.split(' ')).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
