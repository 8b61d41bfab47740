//! `tombolo run`

mod balance;
mod job;
mod lifecycle;
mod parts;
mod restart;
pub(crate) mod service;

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Args;
use tombolo::channel::CAPTURE_VARIABLE;
use tombolo::nodes::{NodeInfo, NodeKind};
use tombolo::{Domain, SpawnOptions};
use tombolo_cli_common::arguments::seconds;
use tombolo_cli_common::images::open_image;
use tombolo_files::{FILES_VARIABLE, FileError, FileGrant, FileServer, ServeFilesOptions};
use tombolo_machine::Image;
use tombolo_machine::image::ARGV0_VARIABLE;
use tombolo_placement::MAX_RANKS;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Printer, Show, lock_unpoisoned};
use crate::{input, signals};

use job::{Job, Plan};
use lifecycle::Rules;
use parts::{Part, PartOptions};
use restart::Policy;

/// Runs a job: one or more programs on the nodes of a machine
///
/// Starts domains of an image on the nodes that --on names, and waits until all of them have ended. Several
/// images form one job if an argument `:` stands between them; each may have a -n, --on, --env, --pin and
/// --priority of its own, and takes what it does not set, except for -n, from the first. Ranks count through
/// the images. All options of `run` come before the image that they are for: every argument after an image
/// goes to its program, up to the next `:`. To give a program the argument `:`, write '\:' (and '\\:' for
/// `\:`).
///
/// Each domain finds its place in the job in its environment: TOMBOLO_RANK (from 0), TOMBOLO_SIZE (the number
/// of domains) and TOMBOLO_JOB (a prefix for names that no other job has). Variables of OpenMP that are set
/// here, OMP_… and GOMP_…, are passed on. Rank 0 reads the standard input; the others read end of file. If
/// the job has several domains, each line of output is labelled with its origin, `[rank@node]`.
///
/// When a domain fails, the others have one second to notice and end by themselves, and are then ended; with
/// --keep-going they run to their own ends. With --restart a failed rank is first started again, on the same
/// node, with the same arguments, rank and job. It is a new domain: it has a new id, and names, channels and
/// memory of the failed one are gone, so peers have to connect again. It reads no standard input, and
/// TOMBOLO_RESTARTS says how often its rank was restarted. A rank is not restarted if it ended with status 0,
/// or if SIGTERM, SIGINT, SIGHUP or SIGPIPE ended it. Restarts are delayed, by twice as long each time, up to
/// a minute; after ten seconds without a failure the delay starts over. A rank that fails without a restart
/// left has failed.
///
/// Ctrl-C ends all domains; a second Ctrl-C kills them. The exit status is that of the first domain that
/// failed (with --keep-going, of the lowest rank that failed), 128 + N if signal N killed it, 1 if its node
/// was lost, and 2 if the command line is invalid.
#[derive(Args, Debug)]
#[command(override_usage = "tombolo run [OPTIONS] <IMAGE> [ARGS]... [: [OPTIONS] <IMAGE> [ARGS]...]...")]
#[command(after_help = "\
Examples:
  tombolo run hello.tbi                                one domain on the host
  tombolo run --on host,arm0 pingpong.tbi              one on each of two nodes
  tombolo run --on host:2,arm0 work.tbi --fast input   three, with arguments
  tombolo run -n 2 server.tbi : -n 4 --on arm0 client.tbi --fast
                                                       two programs, ranks 0-1 and 2-5 of one job
  cat graph.txt | tombolo run --on arm0 count.tbi      with input
  tombolo run --on arm0 --grant web.mtx --grant out:rw work.tbi web.mtx   with files of the host
  tombolo run --on auto:4 --needs isa=aarch64,near=arm0 work.tbi   on the nodes that fit best
  tombolo run --env RUST_BACKTRACE=1 hello.tbi
  tombolo run --pin 1 --priority 10 server.tbi         on CPU 1, before other programs
  tombolo run --capture captures client.tbi            record its messages, for `tombolo replay`
  tombolo run --on host:8 --keep-going search.tbi      a failure does not end the others
  tombolo run --restart on-failure:3 server.tbi        restart it up to three times")]
pub(crate) struct Options {
    #[command(flatten)]
    part: PartOptions,

    /// Label each line of output with its origin, even that of a single domain
    #[arg(long, overrides_with = "no_label")]
    label: bool,

    /// Pass output on unchanged
    #[arg(long, overrides_with = "label")]
    no_label: bool,

    /// Record the messages of all channels of the job in this folder, one file for each end of a channel.
    /// Domains in virtual machines record nothing; their messages are in the files of their peers
    #[arg(long, value_name = "FOLDER")]
    capture: Option<PathBuf>,

    /// Let the job's domains, on all nodes, read this file or folder of the host; with `:rw` they may write
    /// too. May be repeated
    #[arg(short, long, value_name = "PATH[:ro|rw]", value_parser = grant)]
    grant: Vec<FileGrant>,

    /// Do not read the standard input
    #[arg(long)]
    no_input: bool,

    /// Let the other domains run to their own ends when one fails
    #[arg(short, long)]
    keep_going: bool,

    /// Run each function that TOMBOLO_MIGRATE marks on the node where it is fastest by measured time, moving
    /// threads there; for images of `tombolo ompcc`. Sets OMP_TOMBOLO_BALANCE, and unless they are set
    /// OMP_TOMBOLO=hybrid and OMP_TOMBOLO_NODES=all. `tombolo ps --threads` shows where threads are
    #[arg(long)]
    balance: bool,

    /// Restart failed ranks: `no`, or `on-failure`, each at most MAX times (default: 5)
    #[arg(long, value_name = "no|on-failure[:MAX]", default_value = "no", hide_default_value = true)]
    restart: Policy,

    /// The delay before a rank's first restart, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = seconds)]
    #[arg(allow_negative_numbers = true, requires = "restart")]
    restart_delay: Duration,

    /// An image made by `tombolo build`, or an executable of the node; what follows it is passed to the
    /// program
    // One list, so that clap stops looking for options of its own at the image.
    #[arg(required = true, trailing_var_arg = true, value_name = "IMAGE [ARGS]")]
    command: Vec<OsString>,
}

fn grant(text: &str) -> Result<FileGrant, String> {
    text.parse().map_err(|error: tombolo_files::GrantError| error.to_string())
}

/// Node and image of one rank.
struct Rank<'a> {
    part: &'a Part,
    node: &'a NodeInfo,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    // Also checked by the monitors: a job that cannot run should fail before anything has started.
    let definition = Options::augment_args(clap::Command::new("run"));
    let parts = parts::parts(&options.part, &options.command, &definition)?;
    let images = parts.iter().map(|part| open_image(&part.image)).collect::<Result<Vec<Image>, _>>()?;
    if options.balance {
        images.iter().try_for_each(balance::check)?;
    }
    let capture = options.capture.as_deref().map(capture_folder).transpose()?;
    let domain = context.attach()?;
    let nodes = domain.nodes()?;
    let ranks = place(&domain, &parts, &images, &nodes)?;
    let labelled = options.label || (ranks.len() > 1 && !options.no_label);
    let show = if labelled { Show::Labelled } else { Show::Pieces };
    let names = nodes.iter().map(|node| node.name.clone()).collect();
    let printer = Arc::new(Mutex::new(Printer::new(show, names, context.colour)));
    let rules = Rules {
        keep_going: options.keep_going,
        restart: options.restart,
        restart_delay: options.restart_delay,
    };
    let job = Job::new(context.clone(), domain.clone(), Arc::clone(&printer), rules);
    job.watch_signals()?;
    let (watched, printing) = (Arc::clone(&job), Arc::clone(&printer));
    domain.on_output(move |id, stream, bytes| {
        let written = lock_unpoisoned(&printing).write_output(id, stream, bytes);
        if written.is_err() {
            // This thread reads the monitor's answers, so another one must request the end of the job.
            let job = Arc::clone(&watched);
            std::thread::spawn(move || job.interrupt(signals::PIPE));
        }
    });
    let with_input = !options.no_input && input::is_ours();
    // Dropped when the job has ended.
    let files = serve(options, &domain)?;
    let plans =
        Plans { domain: &domain, capture: capture.as_deref(), balance: options.balance, ranks: &ranks };
    let plans: Vec<_> = (0..ranks.len())
        .map(|rank| with_granted_files(plans.of(rank, with_input && rank == 0), files.as_ref()))
        .collect();
    let ended = job.run(&plans);
    if let Some(error) = lock_unpoisoned(&printer).failure() {
        return Err(Failure::Output(error));
    }
    ended.map_err(|failure| match misplaced_option(&parts, &definition) {
        Some(advice) => failure.advised(advice),
        None => failure,
    })
}

/// Places the ranks of all images, in order. Each node needs a build that it can run.
fn place<'a>(
    domain: &Domain,
    parts: &'a [Part],
    images: &[Image],
    nodes: &'a [NodeInfo],
) -> Result<Vec<Rank<'a>>, Failure> {
    let (mut ranks, mut auto) = (Vec::new(), None);
    for (part, image) in parts.iter().zip(images) {
        let placed = part.options.place(domain, image, nodes, &mut auto)?;
        let first = ranks.len();
        ranks.extend(placed.into_iter().map(|index| Rank { part, node: &nodes[index] }));
        check_builds(image, &ranks[first..])?;
    }
    if ranks.len() > MAX_RANKS {
        let message = format!("a job has at most {MAX_RANKS} domains; these are {}", ranks.len());
        return Err(Failure::Usage { message, hint: None });
    }
    Ok(ranks)
}

/// Returns an option of `run` that a program received because it follows the image. Only reported if the job
/// failed: the program may have an option of that name.
fn misplaced_option(parts: &[Part], definition: &clap::Command) -> Option<String> {
    let longs: Vec<&str> = definition.get_arguments().filter_map(clap::Arg::get_long).collect();
    let named = |word: &String| {
        let name = word.strip_prefix("--")?.split('=').next()?;
        longs.iter().copied().find(|long| *long == name)
    };
    let own = |part: &Part| part.arguments.iter().take_while(|word| *word != "--").find_map(named);
    let name = parts.iter().find_map(own)?;
    Some(format!(
        "the program got --{name}, because it follows the image; options of `tombolo run` come before it"
    ))
}

/// Serves the granted files.
fn serve(options: &Options, domain: &Domain) -> Result<Option<FileServer>, Failure> {
    if options.grant.is_empty() {
        return Ok(None);
    }
    match FileServer::start(domain, &options.grant, &ServeFilesOptions::default()) {
        Ok(server) => Ok(Some(server)),
        Err(error @ FileError::Grant(_)) => Err(Failure::Usage { message: error.to_string(), hint: None }),
        Err(error) => Err(error.into()),
    }
}

fn with_granted_files(plan: Plan, files: Option<&FileServer>) -> Plan {
    match files {
        None => plan,
        Some(files) => Plan { spawn: plan.spawn.env(FILES_VARIABLE, files.name()), ..plan },
    }
}

fn check_builds(image: &Image, ranks: &[Rank<'_>]) -> Result<(), Failure> {
    match ranks.iter().find(|rank| image.program(rank.node.target()).is_err()) {
        None => Ok(()),
        Some(Rank { node, .. }) => Err(tombolo::Error::Monitor(tombolo::error::Fault::NoBuildForIsa {
            image: image.name().to_owned(),
            node: node.name.clone(),
            isa: node.target(),
            available: image.targets(),
        })
        .into()),
    }
}

/// Creates the folder for captures, and returns its absolute path: domains may work in other folders.
fn capture_folder(folder: &Path) -> Result<PathBuf, Failure> {
    let made = std::fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
    made.map_err(Failure::system(format!("make the folder {}", folder.display())))
}

/// Parameters for planning the ranks of a job.
struct Plans<'a> {
    domain: &'a Domain,
    /// Folder for captures.
    capture: Option<&'a Path>,
    /// Whether threads are to run where they are fastest.
    balance: bool,
    ranks: &'a [Rank<'a>],
}

impl Plans<'_> {
    fn of(&self, rank: usize, with_input: bool) -> Plan {
        let Rank { part, node } = self.ranks[rank];
        let mut spawn = SpawnOptions::image(&part.image).on(&node.name).args(&part.arguments).rank(
            rank as u32,
            self.ranks.len() as u32,
            &format!("job-{}", self.domain.id()),
        );
        if let Some(path) = argv0(&part.image, node.kind) {
            spawn = spawn.env(ARGV0_VARIABLE, path);
        }
        let options = &part.options;
        if let Some(pinning) = &options.pin {
            let before = self.ranks[..rank].iter().filter(|other| other.node.id == node.id).count();
            spawn = spawn.cpus(pinning.cpus(before, node));
        }
        if let Some(priority) = options.priority {
            spawn = spawn.real_time_priority(priority);
        }
        // The kernel of a virtual machine does not have the folder.
        if let Some(folder) = self.capture.filter(|_| node.kind != NodeKind::Vm) {
            spawn = spawn.env(CAPTURE_VARIABLE, folder.to_string_lossy());
        }
        let given = |name: &str| options.env.iter().any(|(given, _)| given == name);
        for (name, value) in std::env::vars().filter(|(name, _)| is_for_openmp(name) && !given(name)) {
            spawn = spawn.env(name, value);
        }
        for (name, value) in &options.env {
            spawn = spawn.env(name, value);
        }
        if self.balance {
            let is_set = |name: &str| given(name) || std::env::var_os(name).is_some();
            for (name, value) in balance::variables(is_set) {
                spawn = spawn.env(name, value);
            }
        }
        Plan { spawn, with_input }
    }
}

/// Returns the `argv[0]` of an executable on a node that shares the files of this host: its path, by which
/// the Python of a virtual environment and others find files. Elsewhere, and for an image, it is the name,
/// because there is no such program at that path.
fn argv0(path: &Path, node: NodeKind) -> Option<String> {
    if !matches!(node, NodeKind::Host | NodeKind::User) || !is_executable(path) {
        return None;
    }
    let path = path.to_str()?;
    // Programs search `PATH` for a name without a folder.
    Some(if path.contains('/') { path.to_owned() } else { format!("./{path}") })
}

fn is_executable(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}

/// Returns whether a variable configures OpenMP. Such variables are forwarded to the program on any node.
fn is_for_openmp(name: &str) -> bool {
    name.starts_with("OMP_") || name.starts_with("GOMP_")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::Arguments;
    use crate::command::Command;

    fn parse(line: &str) -> Options {
        let Command::Run(options) = Arguments::try_parse_from(line.split(' ')).unwrap().command else {
            unreachable!("the line is one of `run`")
        };
        options
    }

    fn job(line: &str) -> (Options, Vec<Part>) {
        let options = parse(line);
        let parts = parts::parts(&options.part, &options.command, &definition()).unwrap();
        (options, parts)
    }

    fn definition() -> clap::Command {
        Options::augment_args(clap::Command::new("run"))
    }

    #[test]
    fn arguments_after_the_image_go_to_the_program() {
        for own in
            ["--fast -q -- --on y", "-n 24", "--env A=b", "-q", "--help", "--machine m", "-h -V", "--pin=0"]
        {
            let (options, parts) = job(&format!("tombolo run x.tbi {own}"));
            assert_eq!((parts.len(), parts[0].image.as_path()), (1, Path::new("x.tbi")));
            assert_eq!(parts[0].arguments.join(" "), own);
            assert!(!options.no_input && parts[0].options.env.is_empty());
        }
        let arguments = |line: &str| job(line).1[0].arguments.join(" ");
        assert_eq!(arguments("tombolo run x.tbi -- --debian a"), "--debian a");
        assert_eq!(arguments("tombolo run --no-input -- x.tbi -n"), "-n");
        assert!(
            Arguments::try_parse_from(["tombolo", "run", "--fast", "x.tbi"]).is_err(),
            "before the image they are options of `run`"
        );
    }

    #[test]
    fn former_short_form_of_no_input_gets_a_hint() {
        for line in ["tombolo run -n x.tbi", "tombolo run -n --on host x.tbi"] {
            let error = Arguments::try_parse_from(line.split(' ')).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains("write --no-input"), "{error}");
        }
    }

    #[test]
    fn misplaced_option_of_run_is_named() {
        let advice =
            |line: &str| misplaced_option(&job(&format!("tombolo run x.tbi {line}")).1, &definition());
        assert!(advice("in.txt --on host,arm0").is_some_and(|advice| advice.contains("--on")));
        assert!(advice("--pin=each").is_some_and(|advice| advice.contains("--pin,")));
        assert!(advice("a : y.tbi --label").is_some_and(|advice| advice.contains("--label,")));
        for line in ["--fast", "-n 24", "a -- --on x", "on"] {
            assert_eq!(advice(line), None, "{line}");
        }
    }

    #[test]
    fn priorities_are_those_of_the_kernel() {
        let run = |line: &str| Arguments::try_parse_from(line.split(' '));
        assert_eq!(parse("tombolo run --pin each --priority 99 x.tbi").part.priority, Some(99));
        assert!(run("tombolo run --priority 0 x.tbi").is_err());
        assert!(run("tombolo run --priority 100 x.tbi").is_err());
    }

    #[test]
    fn restarts_are_off_by_default() {
        assert_eq!(parse("tombolo run x.tbi").restart, Policy::No);
        let options = parse("tombolo run --restart on-failure:3 --restart-delay 0.5 x.tbi");
        assert_eq!(options.restart, Policy::OnFailure { max: 3 });
        assert_eq!(options.restart_delay, Duration::from_millis(500));
    }

    #[test]
    fn an_executable_gets_its_path_on_nodes_with_the_files_of_the_host() {
        for path in ["/bin/sh", "/proc/self/../../bin/sh"] {
            assert_eq!(argv0(Path::new(path), NodeKind::Host).as_deref(), Some(path));
            assert_eq!(argv0(Path::new(path), NodeKind::User).as_deref(), Some(path));
            assert_eq!(argv0(Path::new(path), NodeKind::Vm), None);
            assert_eq!(argv0(Path::new(path), NodeKind::Bare), None);
        }
        // Tests run in the folder of their crate, which has no program.
        assert_eq!(argv0(Path::new("Cargo.toml"), NodeKind::Host), None);
        assert_eq!(argv0(Path::new("/nonexistent"), NodeKind::Host), None);
    }

    #[test]
    fn last_of_contrary_options_wins() {
        let options = parse("tombolo run --label --no-label x.tbi");
        assert!(options.no_label && !options.label);
    }
}
