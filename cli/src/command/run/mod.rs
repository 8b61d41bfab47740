//! `tombolo run`

mod job;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use clap::Args;
use tombolo::admin::{NodeInfo, Target};
use tombolo::channel::CAPTURE_VARIABLE;
use tombolo::files::{FILES_VARIABLE, FileGrant, FileServer, ServeFilesOptions};
use tombolo::{Domain, SpawnOptions};
use tombolo_cli_common::nodes::placement_failure;
use tombolo_machine::Image;
use tombolo_placement::{Order, Placement, place};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Printer, Show, unpoisoned};
use crate::{input, signals};

use job::{Job, Plan};

/// Runs a job: domains of one image on the nodes of a machine
///
/// Starts the image's program on each node that is named, as often as is said, and waits until all have ended.
/// Each has TOMBOLO_RANK (from 0, in the order of --on), TOMBOLO_SIZE (how many there are) and TOMBOLO_JOB (a
/// prefix for names that no other job has) in its environment, and what there is here for OpenMP: variables named
/// OMP_… and GOMP_…. The first of them reads the standard input.
/// With more than one, each line of output says where it comes from: `[rank@node]`.
///
/// Options of `run` come before the image; what follows the image is passed to the program, whatever it looks like.
///
/// When a domain fails, the others have a second to notice and end by themselves, then they are ended; with
/// --keep-going they go on. Ctrl-C ends all of them; a second Ctrl-C does not wait. The exit status is that of the first
/// domain that failed (with --keep-going, of the lowest rank that did), 128 + N if signal N ended it, and 1 if its node
/// was lost.
#[derive(Args, Debug)]
#[command(override_usage = "tombolo run [OPTIONS] <IMAGE> [ARGS]...")]
#[command(after_help = "\
Examples:
  tombolo run hello.tbi                                on the host
  tombolo run --on host,arm0 pingpong.tbi              one domain on each
  tombolo run --on host:2,arm0 work.tbi --fast input   three, with arguments
  cat graph.txt | tombolo run --on arm0 count.tbi      with input
  tombolo run --on arm0 --grant web.mtx --grant out:rw work.tbi web.mtx   with files of the host
  tombolo run --env RUST_BACKTRACE=1 hello.tbi
  tombolo run --pin 1 --priority 10 server.tbi         kept on a processor, before all others
  tombolo run --capture captures client.tbi            to see and replay what it said
  tombolo run --on host:8 --keep-going search.tbi      one that fails does not end the others")]
pub(crate) struct Options {
    /// Where: nodes, each with how many domains it gets if not one [default: the host]
    #[arg(long, value_name = "NODE[:COUNT],…", value_delimiter = ',')]
    on: Vec<Placement>,

    /// Say where each line of output comes from, also for a single domain
    #[arg(long, overrides_with = "no_label")]
    label: bool,

    /// Pass output on as it comes
    #[arg(long, overrides_with = "label")]
    no_label: bool,

    /// A variable for the environment of each domain
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,

    /// Capture what passes the channels of the domains into files in this folder, one for each end of a channel; not
    /// of domains on virtual machines, whose channels are captured where they end elsewhere
    #[arg(long, value_name = "FOLDER")]
    capture: Option<PathBuf>,

    /// A file or folder that the domains of the job, and those that they start, may read, on whatever node they run; `:rw`
    /// after it lets them write too. May be given several times
    #[arg(short, long, value_name = "PATH[:ro|rw]", value_parser = grant)]
    grant: Vec<FileGrant>,

    /// Leave the standard input alone
    #[arg(short, long)]
    no_input: bool,

    /// When a domain fails, let the others go on to their own ends
    #[arg(short, long)]
    keep_going: bool,

    /// Only on these processors of their node: 0,2-3; one for each domain of a node in turn is --pin each
    #[arg(long, value_name = "CPUS", value_parser = pinning)]
    pin: Option<Pinning>,

    /// Before all programs of their node without one (SCHED_FIFO), from 1 to 99; takes CAP_SYS_NICE or RLIMIT_RTPRIO
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    priority: Option<u8>,

    /// An image made by `tombolo build`, or an executable; all that follows it is passed to the program
    // One list, so that clap stops looking for options of its own at the image.
    #[arg(required = true, trailing_var_arg = true, value_name = "IMAGE [ARGS]")]
    command: Vec<OsString>,
}

impl Options {
    fn image(&self) -> &Path {
        self.command.first().map_or(Path::new(""), |image| Path::new(image))
    }

    /// The arguments for the program. A `--` right after the image only ends the options of `run`.
    fn arguments(&self) -> Result<Vec<String>, Failure> {
        let own = self.command.get(1..).unwrap_or_default();
        let own = own.strip_prefix(&[OsString::from("--")]).unwrap_or(own);
        let text = |word: &OsString| word.to_str().map(str::to_owned);
        own.iter().map(|word| text(word).ok_or_else(|| not_text(word))).collect()
    }
}

fn not_text(word: &OsStr) -> Failure {
    let message = format!("the argument '{}' is not valid UTF-8", word.to_string_lossy());
    Failure::Usage { message, hint: Some("a program on another node gets its arguments as text") }
}

/// Which processors the domains of a job run on.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Pinning {
    /// All of them on these.
    To(Vec<u16>),
    /// The domains of a node one each, in the order of its numbers.
    Each,
}

impl Pinning {
    /// For the domain of which `before` others are on its node.
    fn cpus(&self, before: usize, node: &NodeInfo) -> Vec<u16> {
        match self {
            Pinning::To(cpus) => cpus.clone(),
            Pinning::Each => vec![(before % usize::from(node.cores.max(1))) as u16],
        }
    }
}

fn pinning(text: &str) -> Result<Pinning, String> {
    if text == "each" {
        return Ok(Pinning::Each);
    }
    let wrong = || format!("'{text}' is no list of processors, such as 0,2-3, and not 'each'");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u16>().ok().filter(|cpu| *cpu < 1024).ok_or_else(wrong);
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    Ok(Pinning::To(cpus))
}

fn grant(text: &str) -> Result<FileGrant, String> {
    text.parse().map_err(|error: tombolo::files::GrantError| error.to_string())
}

pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    // Read here as well as by the monitors: what cannot run should fail before anything has started.
    let arguments = options.arguments()?;
    let image = Image::open(options.image())?;
    let capture = options.capture.as_deref().map(capture_folder).transpose()?;
    let domain = context.attach()?;
    let nodes = domain.nodes()?;
    let alone = options.on.is_empty().then_some(1);
    let ranks = place(alone, &options.on, Order::Block, &nodes).map_err(placement_failure)?;
    let ranks: Vec<_> = ranks.into_iter().map(|index| &nodes[index]).collect();
    check_builds(&image, &ranks)?;
    let labelled = options.label || (ranks.len() > 1 && !options.no_label);
    let show = if labelled { Show::Labelled } else { Show::Pieces };
    let names = nodes.iter().map(|node| node.name.clone()).collect();
    let printer = Arc::new(Mutex::new(Printer::new(show, names, context.colour)));
    let job = Job::new(context.clone(), domain.clone(), Arc::clone(&printer), options.keep_going);
    job.watch_signals()?;
    let watched = Arc::clone(&job);
    domain.on_output(move |id, stream, bytes| {
        let written = unpoisoned(&printer).piece(id, stream, bytes);
        if written.is_err() {
            // The monitor's answers are read by the thread that is here, so another has to ask it to end the job.
            let job = Arc::clone(&watched);
            std::thread::spawn(move || job.interrupt(signals::PIPE));
        }
    });
    let with_input = !options.no_input && input::is_ours();
    // For as long as the job runs.
    let files = serve(options, &domain)?;
    let plans =
        Plans { options, arguments: &arguments, domain: &domain, capture: capture.as_deref(), nodes: &ranks };
    let plans: Vec<_> = (0..ranks.len())
        .map(|rank| with_files(plans.of(rank, with_input && rank == 0), files.as_ref()))
        .collect();
    job.run(&plans).map_err(|failure| match misplaced(&arguments) {
        Some(advice) => failure.advised(advice),
        None => failure,
    })
}

/// Says which option of `run` the program got because it follows the image. Only said when the job failed: the program
/// may have an option of that name.
fn misplaced(arguments: &[String]) -> Option<String> {
    let own = Options::augment_args(clap::Command::new("run"));
    let words = arguments.iter().take_while(|word| *word != "--").filter_map(|word| word.strip_prefix("--"));
    let names = words.map(|word| word.split_once('=').map_or(word, |(name, _)| name));
    let name = names.into_iter().find(|name| own.get_arguments().any(|own| own.get_long() == Some(*name)))?;
    Some(format!(
        "the program got --{name}, for it follows the image; options of `tombolo run` come before it"
    ))
}

/// Serves what was granted.
fn serve(options: &Options, domain: &Domain) -> Result<Option<FileServer>, Failure> {
    if options.grant.is_empty() {
        return Ok(None);
    }
    Ok(Some(domain.serve_files(&options.grant, &ServeFilesOptions::default())?))
}

fn with_files(plan: Plan, files: Option<&FileServer>) -> Plan {
    match files {
        None => plan,
        Some(files) => Plan { spawn: plan.spawn.env(FILES_VARIABLE, files.name()), ..plan },
    }
}

/// What programs for a node are built for.
pub(crate) fn target_of(node: &NodeInfo) -> Target {
    Target { bare: node.kind == "bare", isa: node.isa }
}

/// Every node that is used needs a build that it can run.
fn check_builds(image: &Image, ranks: &[&NodeInfo]) -> Result<(), Failure> {
    match ranks.iter().find(|node| image.program(target_of(node)).is_err()) {
        None => Ok(()),
        Some(node) => Err(tombolo::Error::Monitor(tombolo::error::Fault::NoBuildForIsa {
            image: image.name().to_owned(),
            node: node.name.clone(),
            isa: target_of(node),
            available: image.targets(),
        })
        .into()),
    }
}

/// The folder for captures, made if need be, as every domain can name it.
fn capture_folder(folder: &Path) -> Result<PathBuf, Failure> {
    let made = std::fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
    made.map_err(Failure::system(format!("make the folder {}", folder.display())))
}

/// What the ranks of a job have in common.
struct Plans<'a> {
    options: &'a Options,
    arguments: &'a [String],
    domain: &'a Domain,
    /// The folder for captures.
    capture: Option<&'a Path>,
    nodes: &'a [&'a NodeInfo],
}

impl Plans<'_> {
    /// What to start as one rank.
    fn of(&self, rank: usize, with_input: bool) -> Plan {
        let (options, node) = (self.options, self.nodes[rank]);
        let mut spawn = SpawnOptions::image(options.image()).on(&node.name).args(self.arguments).rank(
            rank as u32,
            self.nodes.len() as u32,
            &format!("job-{}", self.domain.id()),
        );
        if let Some(pinning) = &options.pin {
            let before = self.nodes[..rank].iter().filter(|other| other.id == node.id).count();
            spawn = spawn.cpus(pinning.cpus(before, node));
        }
        if let Some(priority) = options.priority {
            spawn = spawn.real_time_priority(priority);
        }
        // The kernel of a virtual machine does not have the folder.
        if let Some(folder) = self.capture.filter(|_| node.kind != "vm") {
            spawn = spawn.env(CAPTURE_VARIABLE, folder.to_string_lossy());
        }
        let given = |name: &str| options.env.iter().any(|(given, _)| given == name);
        for (name, value) in std::env::vars().filter(|(name, _)| is_for_openmp(name) && !given(name)) {
            spawn = spawn.env(name, value);
        }
        for (name, value) in &options.env {
            spawn = spawn.env(name, value);
        }
        Plan { spawn: if with_input { spawn.with_input() } else { spawn }, with_input }
    }
}

/// Whether a variable says how OpenMP programs run: whoever sets one means the program, wherever that runs.
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

    #[test]
    fn what_follows_the_image_is_the_programs() {
        let options = parse("tombolo run --on host,arm0:2 x.tbi --fast -q -- --on y");
        assert_eq!(options.on.len(), 2);
        assert_eq!(options.image(), Path::new("x.tbi"));
        let arguments = |line: &str| parse(line).arguments().unwrap().join(" ");
        for own in
            ["--fast -q -- --on y", "-n 24", "--env A=b", "-q", "--help", "--machine m", "-h -V", "--pin=0"]
        {
            let options = parse(&format!("tombolo run x.tbi {own}"));
            assert_eq!(options.arguments().unwrap().join(" "), own);
            assert!(!options.no_input && options.env.is_empty());
        }
        assert_eq!(arguments("tombolo run x.tbi -- --debian a"), "--debian a");
        assert_eq!(arguments("tombolo run -n -- x.tbi -n"), "-n");
        assert!(
            Arguments::try_parse_from(["tombolo", "run", "--fast", "x.tbi"]).is_err(),
            "before it, they are ours"
        );
    }

    #[test]
    fn an_option_of_ours_that_the_program_got_is_named() {
        let advice = |line: &str| misplaced(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(advice("in.txt --on host,arm0").is_some_and(|advice| advice.contains("--on")));
        assert!(advice("--pin=each").is_some_and(|advice| advice.contains("--pin,")));
        for line in ["--fast", "-n 24", "-- --on x", "on"] {
            assert_eq!(advice(line), None, "{line}");
        }
    }

    #[test]
    fn variables_have_a_name() {
        assert_eq!(variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert_eq!(variable("A="), Ok(("A".to_owned(), String::new())));
        assert!(variable("=b").is_err() && variable("A").is_err());
    }

    #[test]
    fn processors_are_lists_or_one_each() {
        assert_eq!(pinning("0"), Ok(Pinning::To(vec![0])));
        assert_eq!(pinning("3,0-2"), Ok(Pinning::To(vec![3, 0, 1, 2])));
        assert_eq!(pinning("each"), Ok(Pinning::Each));
        for wrong in ["", "x", "1-", "3-1", "0,,1", "-1", "1024", "65536"] {
            assert!(pinning(wrong).is_err(), "{wrong}");
        }
        let run = |line: &str| Arguments::try_parse_from(line.split(' '));
        assert_eq!(parse("tombolo run --pin each --priority 99 x.tbi").priority, Some(99));
        assert!(run("tombolo run --priority 0 x.tbi").is_err());
        assert!(run("tombolo run --priority 100 x.tbi").is_err());
    }

    #[test]
    fn the_last_of_contrary_options_holds() {
        let options = parse("tombolo run --label --no-label x.tbi");
        assert!(options.no_label && !options.label);
    }
}
