//! Hub servers and the tasks of an application, run together.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tombolo::{Child, Domain, DomainId, Error, Exit, SpawnOptions};
use tombolo_cli_common::images::chosen_image;
use tombolo_hubs::PRIORITY_VARIABLE;
use tombolo_hubs::plan::{Plan, to_argument};

use super::Common;
use crate::context::{Context, print};
use crate::failure::Failure;

/// Polling period for a stop request.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Timeout for servers to become ready.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout for programs that were asked to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Prefix of the line by which a server reports that it is ready.
const READY: &str = "ready: ";

/// A running program.
struct RunningProgram {
    /// Label of its output.
    name: String,
    child: Child,
    is_server: bool,
    is_ready: bool,
    /// Incomplete output that is not shown yet.
    line: Vec<u8>,
    /// Last line of its error output.
    error: Option<String>,
    ended: bool,
}

type Output = Arc<Mutex<Vec<(DomainId, Vec<u8>)>>>;

/// The programs, and their output.
struct ProgramGroup {
    domain: Domain,
    programs: Vec<RunningProgram>,
    output: Output,
    signal: Arc<AtomicUsize>,
}

/// Runs a plan until its end. Images of tasks are resolved relative to `folder`.
pub(super) fn run(context: &Context, common: &Common, plan: &Plan, folder: &Path) -> Result<u8, Failure> {
    let server = chosen_image(common.image.as_deref(), "hubs")?;
    let images: Vec<PathBuf> = plan.tasks.iter().map(|(task, _)| folder.join(&task.image)).collect();
    for ((task, _), image) in plan.tasks.iter().zip(&images) {
        if let Err(source) = std::fs::metadata(image) {
            let what = format!("{}, the image of task '{}'", image.display(), task.name);
            return Err(Failure::Usage { message: format!("cannot open {what}: {source}"), hint: None });
        }
    }
    let mut programs = ProgramGroup::new(context.attach()?)?;
    for (node, hubs) in &plan.hubs {
        let options = SpawnOptions::image(&server).on(node).args(hubs.iter().map(to_argument));
        programs.start(&format!("hubs@{node}"), options, true)?;
    }
    if let Some(status) = programs.wait_until_ready()? {
        return Ok(status);
    }
    for ((task, node), image) in plan.tasks.iter().zip(&images) {
        let mut options = SpawnOptions::image(image).on(node).args(&task.arguments);
        if let Some(priority) = task.priority {
            options = options.env(PRIORITY_VARIABLE, priority.to_string());
        }
        if let Err(error) = programs.start(&format!("{}@{node}", task.name), options, false) {
            programs.stop_all()?;
            return Err(error);
        }
    }
    programs.wait_until_done(!plan.tasks.is_empty())
}

impl ProgramGroup {
    fn new(domain: Domain) -> Result<ProgramGroup, Failure> {
        let signal = Arc::new(AtomicUsize::new(0));
        for number in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)
                .map_err(Failure::system("listen for signals"))?;
        }
        let output = Output::default();
        let sink = Arc::clone(&output);
        domain.on_output(move |id, _, bytes| {
            sink.lock().unwrap_or_else(PoisonError::into_inner).push((id, bytes.to_owned()));
        });
        Ok(ProgramGroup { domain, programs: Vec::new(), output, signal })
    }

    fn start(&mut self, name: &str, options: SpawnOptions, is_server: bool) -> Result<(), Failure> {
        let child = self.domain.spawn(&options)?;
        let (name, line) = (name.to_owned(), Vec::new());
        self.programs.push(RunningProgram {
            name,
            child,
            is_server,
            is_ready: false,
            line,
            error: None,
            ended: false,
        });
        Ok(())
    }

    /// Waits until all servers are ready. Returns a status if the command is to end instead.
    fn wait_until_ready(&mut self) -> Result<Option<u8>, Failure> {
        let deadline = Instant::now() + START_TIMEOUT;
        while self.programs.iter().any(|program| !program.is_ready) {
            if let Some(ended) = self.process_events()? {
                return Ok(Some(ended));
            }
            if let Some(program) =
                self.programs.iter().find(|program| program.ended || Instant::now() > deadline)
            {
                let silent = || format!("{}: it did not begin to serve", program.name);
                let message = program.error.clone().unwrap_or_else(silent);
                self.stop_all()?;
                return Err(Failure::Job { message, status: 1 });
            }
        }
        Ok(None)
    }

    /// Runs until all tasks have ended, or a server has.
    fn wait_until_done(mut self, has_tasks: bool) -> Result<u8, Failure> {
        loop {
            if let Some(ended) = self.process_events()? {
                return Ok(ended);
            }
            if let Some(server) = self.programs.iter().find(|program| program.is_server && program.ended) {
                let why = server.error.clone().unwrap_or_else(|| format!("{}: it has ended", server.name));
                let message = format!("{why}; its hubs are lost");
                self.stop_all()?;
                return Err(Failure::Job { message, status: 1 });
            }
            if has_tasks && self.programs.iter().all(|program| program.is_server || program.ended) {
                let failed = self
                    .programs
                    .iter()
                    .find_map(|program| program.error.clone().filter(|_| !program.is_server));
                self.stop_all()?;
                return match failed {
                    Some(message) => Err(Failure::Job { message, status: 1 }),
                    None => Ok(0),
                };
            }
        }
    }

    /// Handles one round of events. Returns the exit status on a stop request.
    fn process_events(&mut self) -> Result<Option<u8>, Failure> {
        let ended = match self.domain.next_exit(POLL_INTERVAL) {
            Ok(ended) => Some(ended),
            Err(Error::TimedOut { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let pieces = std::mem::take(&mut *self.output.lock().unwrap_or_else(PoisonError::into_inner));
        for (id, bytes) in pieces {
            if let Some(program) = self.programs.iter_mut().find(|program| program.child.id() == id) {
                program.print_lines(&bytes)?;
            }
        }
        if let Some((id, exit)) = ended
            && let Some(program) = self.programs.iter_mut().find(|program| program.child.id() == id)
        {
            program.ended = true;
            program.error = match exit {
                Exit::Exited { status: 0 } => None,
                exit => Some(format!(
                    "{}: {}",
                    program.name,
                    program.error.take().unwrap_or_else(|| exit_text(&exit))
                )),
            };
        }
        let signal = self.signal.load(Ordering::Relaxed);
        if signal == 0 {
            return Ok(None);
        }
        self.stop_all()?;
        Ok(Some(if signal == SIGINT as usize { 0 } else { 128 + signal as u8 }))
    }

    /// Ends the remaining programs: the tasks first, so that they do not lose their hubs.
    fn stop_all(&mut self) -> Result<(), Failure> {
        for servers in [false, true] {
            let running =
                || self.programs.iter().filter(|program| !program.ended && program.is_server == servers);
            running().try_for_each(|program| program.child.kill())?;
            // Slower ones are not waited for; they end with this program.
            running().for_each(|program| drop(program.child.wait(STOP_TIMEOUT)));
        }
        Ok(())
    }
}

impl RunningProgram {
    /// Prints the completed lines.
    fn print_lines(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.line.extend_from_slice(bytes);
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if let Some(error) = line.strip_prefix("error: ").filter(|_| self.is_server) {
                self.error = Some(error.to_owned());
                continue;
            }
            self.is_ready |= self.is_server && line.starts_with(READY);
            print(format!("[{}] {line}\n", self.name))?;
        }
        Ok(())
    }
}

fn exit_text(exit: &Exit) -> String {
    match exit {
        Exit::Exited { status } => format!("it ended with status {status}"),
        Exit::Signalled { signal } => format!("it was ended by signal {signal}"),
        Exit::NodeLost { cause } => format!("its node was lost: {cause}"),
        Exit::Left => "it left the machine".to_owned(),
    }
}
