//! The complete job: read the graph, search with all workers, report, verify.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::args::{Request, Source, Staff};
use crate::crew::{Account, Identity, MemberReport, Options, Workers};
use crate::emulation::Emulation;
use crate::figure::{self, Figure};
use crate::graph::{Input, Progress, ReadError, debian, lfr, rmat};
use crate::launch::{self, LaunchError};
use crate::port::{LocalHub, LocalPort, Port};
use crate::publish::Publisher;
use crate::report::{self, Report, Times};
use crate::search::{Alone, Communities, Search, SearchError, Step};
use crate::{store, worker};

/// Capacity of a channel to a thread in each direction, in messages, and their maximum length.
const LOCAL_MESSAGES: usize = 64;
const LOCAL_MESSAGE_BYTES: usize = 1 << 17;

/// Error of the job.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The graph could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The workers could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The search produced an inconsistent result.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// An output file cannot be written.
    #[error("cannot write {path}: {source}")]
    Output {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The report cannot be written.
    #[error("cannot write the report: {0}")]
    Report(io::Error),
    /// The search in one thread gave another answer.
    #[error("not verified: one thread gives other labels than the workers did; this is a bug")]
    NotVerified,
}

/// Runs the job and prints its report.
///
/// # Errors
/// The first step that failed.
pub fn run(request: &Request) -> Result<(), JobError> {
    let mut screen = Screen::new();
    // Create output files first, so that errors show before the search.
    let output = request.output.as_deref().map(create).transpose()?;
    let edges = request.edges.as_deref().map(create).transpose()?;
    let drawing = request.svg.as_deref().map(create).transpose()?;
    let mut publisher = publisher(request);
    let mut tell = |phase: &str| publisher.iter_mut().for_each(|publisher| publisher.phase(phase));
    tell("reading");
    let start = Instant::now();
    let input = read(&request.source(), &mut screen)?;
    if let (Some(file), Some(path)) = (edges, &request.edges) {
        input
            .graph
            .write_edges(&mut BufWriter::new(file))
            .map_err(|source| JobError::Output { path: path.clone(), source })?;
    }
    let mut times = Times { read_seconds: start.elapsed().as_secs_f64(), ..Times::default() };
    screen.line(&format!(
        "{}: {} vertices, {} edges",
        input.origin,
        input.graph.vertices(),
        input.graph.edges()
    ));
    tell("starting workers");
    let (found, crew) = search(request, &input, &mut times, &mut screen, &mut publisher)?;
    let ranking = report::rank(&found);
    let described = figure::described(request.top());
    let mut report = Report::new(&input, request.seed, &found, &ranking, crew, times, described);
    let figure = Figure::new(&input, &found, &ranking, &report)?;
    report.largest.truncate(request.top());
    if request.verify {
        screen.status("verifying: the same search in one thread");
        let start = Instant::now();
        let alone = Search::new(request.seed).run(&input.graph, &mut Alone::default())?;
        report.verified = Some(alone == found);
        report.verify_seconds = Some(start.elapsed().as_secs_f64());
    }
    report.emulation = Emulation::of(&report);
    screen.clear();
    if let (Some(file), Some(path)) = (output, &request.output) {
        report::write_labels(&mut BufWriter::new(file), &input.names, &found, &ranking)
            .map_err(|source| JobError::Output { path: path.clone(), source })?;
    }
    if let (Some(mut file), Some(path)) = (drawing, &request.svg) {
        let written = figure.write_svg(&mut file);
        written.map_err(|source| JobError::Output { path: path.clone(), source })?;
    }
    if let Some(Err(error)) = publisher.as_mut().map(|publisher| publisher.figure(&figure)) {
        screen.line(&format!("warning: the machine does not take the drawn result: {error}"));
    }
    print(&report, request.json).map_err(JobError::Report)?;
    if report.verified == Some(false) { Err(JobError::NotVerified) } else { Ok(()) }
}

/// Returns the publisher of the job's progress, if a machine is up.
fn publisher(request: &Request) -> Option<Publisher> {
    match request.staff() {
        Staff::Threads(_) => None,
        // Starting the workers reports the error if no machine is up.
        Staff::EveryNode | Staff::Nodes(_) => launch::domain().ok().map(Publisher::new),
    }
}

fn create(path: &Path) -> Result<Box<dyn Write>, JobError> {
    store::create(path).map_err(|source| JobError::Output { path: path.to_owned(), source })
}

fn print(report: &Report, json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = if json {
        serde_json::to_writer_pretty(&mut out, report).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else {
        write!(out, "{report}")
    };
    match written.and_then(|()| out.flush()) {
        // The reader of the report has closed the pipe, which is not an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn read(source: &Source, screen: &mut Screen) -> Result<Input, ReadError> {
    let name = match source {
        Source::Debian => debian::SOURCE.to_owned(),
        Source::File(path) => path.display().to_string(),
        Source::Rmat(scale) => rmat::source(*scale),
        Source::Lfr(scale) => lfr::source(*scale),
    };
    screen.status(&format!("reading {name}"));
    let mut watch = |Progress { lines, bytes, file_bytes }: Progress| {
        let part = file_bytes.map_or(String::new(), |all| format!(", {} %", bytes * 100 / all.max(1)));
        screen.status(&format!("reading {name}: {lines} lines{part}"));
    };
    match source {
        Source::Debian => debian::read_packages(&mut watch),
        Source::File(path) => Input::read(path, &mut watch),
        Source::Rmat(scale) => rmat::make(*scale),
        Source::Lfr(scale) => lfr::make(*scale),
    }
}

type Outcome = (Communities, (Vec<MemberReport>, Account));

fn search(
    request: &Request,
    input: &Input,
    times: &mut Times,
    screen: &mut Screen,
    publisher: &mut Option<Publisher>,
) -> Result<Outcome, JobError> {
    let start = Instant::now();
    let staff = request.staff();
    if let Staff::Threads(count) = staff {
        return search_with_threads(request, input, count, times, screen);
    }
    screen.status("starting workers");
    let started = launch::start(&staff, &mut |warning| screen.line(&format!("warning: {warning}")))?;
    times.start_seconds = start.elapsed().as_secs_f64();
    let nodes: Vec<&str> = started.ports.iter().map(|(identity, _)| identity.node.as_str()).collect();
    screen.line(&format!("{} workers: {}", nodes.len(), nodes.join(", ")));
    let outcome = search_with(request, input, started.ports, times, screen, publisher);
    launch::end(&started.children);
    outcome
}

fn search_with_threads(
    request: &Request,
    input: &Input,
    count: u32,
    times: &mut Times,
    screen: &mut Screen,
) -> Result<Outcome, JobError> {
    let hub = LocalHub::default();
    thread::scope(|scope| {
        let ports = (0..count).map(|number| {
            let (near, mut far) = hub.channel(LOCAL_MESSAGES, LOCAL_MESSAGE_BYTES);
            // The master learns the outcome from its end of the channel.
            scope.spawn(move || worker::serve(&mut far, number).is_ok());
            let domain = format!("thread {number}");
            (
                Identity {
                    node: "here".to_owned(),
                    domain,
                    isa: String::new(),
                    transport: "queue".to_owned(),
                    emulated: false,
                },
                near,
            )
        });
        let ports: Vec<(Identity, LocalPort)> = ports.collect();
        search_with(request, input, ports, times, screen, &mut None)
    })
}

fn search_with<P: Port>(
    request: &Request,
    input: &Input,
    ports: Vec<(Identity, P)>,
    times: &mut Times,
    screen: &mut Screen,
    publisher: &mut Option<Publisher>,
) -> Result<Outcome, JobError> {
    let start = Instant::now();
    let screen = std::cell::RefCell::new(screen);
    let warn = |text: &str| screen.borrow_mut().line(&format!("warning: {text}"));
    let options = Options { compare_spreading: request.compare_spreading, ..Options::default() };
    let mut crew = Workers::new(ports, options, warn);
    let watch = |step: Step| {
        screen.borrow_mut().progress(&describe(&step, start.elapsed()));
        publisher.iter_mut().for_each(|publisher| publisher.step(&step));
    };
    let found = Search::new(request.seed).watched(watch).run(&input.graph, &mut crew)?;
    times.search_seconds = start.elapsed().as_secs_f64();
    times.spreading = crew.spreading();
    Ok((found, crew.dismiss()))
}

fn describe(step: &Step, elapsed: Duration) -> String {
    format!(
        "level {}{}: {} vertices, {} edges, modularity {:.6} after {} rounds, {:.2} s",
        step.level,
        if step.refining { ", refining" } else { "" },
        step.vertices,
        step.edges,
        step.modularity,
        step.rounds,
        elapsed.as_secs_f64()
    )
}

/// Standard error. On a terminal progress is shown on one line; elsewhere only complete lines are printed.
struct Screen {
    terminal: bool,
    dirty: bool,
}

impl Screen {
    fn new() -> Self {
        Self { terminal: io::stderr().is_terminal(), dirty: false }
    }

    /// Shows a transient status, on a terminal only.
    fn status(&mut self, text: &str) {
        if self.terminal {
            eprint!("\r\x1b[K{text}");
            self.dirty = true;
        }
    }

    /// Shows progress: on one line of a terminal, otherwise one line each.
    fn progress(&mut self, text: &str) {
        if self.terminal { self.status(text) } else { self.line(text) }
    }

    /// Prints a permanent line.
    fn line(&mut self, text: &str) {
        self.clear();
        eprintln!("{text}");
    }

    fn clear(&mut self) {
        if self.dirty {
            eprint!("\r\x1b[K");
            self.dirty = false;
        }
    }
}
