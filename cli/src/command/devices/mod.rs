//! `tombolo net` and `tombolo block`: commands that keep programs of the image `devices` running on nodes.

pub(crate) mod block;
pub(crate) mod net;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tombolo::{Child, Domain, Error, Exit, SpawnOptions};
use tombolo_cli_common::images::chosen_image;

use crate::context::{Context, print};
use crate::failure::Failure;

/// Polling period for a stop request.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Delay before an ended program is restarted.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// Timeout for programs that were asked to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Prefix of the line by which a program reports that it is ready.
const READY: &str = "ready: ";

/// Options of both commands.
#[derive(Args, Debug)]
pub(crate) struct Common {
    /// The image of the programs [default: that of the kit]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
}

impl Common {
    fn image(&self) -> Result<PathBuf, Failure> {
        chosen_image(self.image.as_deref(), "devices")
    }
}

/// A program to be kept running.
struct SupervisedProgram {
    node: String,
    arguments: Vec<String>,
    running: Option<Child>,
    /// Whether it has ever been ready.
    was_ready: bool,
    /// Earliest time of the next restart.
    next_restart: Instant,
    /// Incomplete output line that is not shown yet.
    line: Vec<u8>,
    /// Last line of its error output.
    error: Option<String>,
}

impl SupervisedProgram {
    fn new(node: &str, arguments: &[&str]) -> SupervisedProgram {
        SupervisedProgram {
            node: node.to_owned(),
            arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
            running: None,
            was_ready: false,
            next_restart: Instant::now(),
            line: Vec::new(),
            error: None,
        }
    }

    fn start(&mut self, domain: &Domain, image: &Path) -> Result<(), Error> {
        let options = SpawnOptions::image(image).on(&self.node).args(&self.arguments);
        self.running = Some(domain.spawn(&options)?);
        Ok(())
    }

    /// Prints the completed lines.
    fn print_lines(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.line.extend_from_slice(bytes);
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if let Some(error) = line.strip_prefix("error: ") {
                self.error = Some(error.to_owned());
                continue;
            }
            self.was_ready |= line.starts_with(READY);
            print(format!("[{}] {line}\n", self.node))?;
        }
        Ok(())
    }
}

/// Runs the programs until a stop request, or until one ends that was never ready. With `restarts`, others
/// are restarted when they end, as soon as their node is up.
fn supervise(
    context: &Context,
    common: &Common,
    mut parts: Vec<SupervisedProgram>,
    restarts: bool,
) -> Result<u8, Failure> {
    let (image, domain) = (common.image()?, context.attach()?);
    let stop_signal = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_usize(signal, Arc::clone(&stop_signal), signal as usize)
            .map_err(Failure::system("listen for signals"))?;
    }
    let output = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&output);
    domain.on_output(move |id, _, bytes| {
        sink.lock().unwrap_or_else(PoisonError::into_inner).push((id, bytes.to_owned()));
    });
    for part in &mut parts {
        part.start(&domain, &image)?;
    }
    loop {
        let ended = match domain.next_exit(POLL_INTERVAL) {
            Ok(ended) => Some(ended),
            Err(Error::TimedOut { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        for (id, bytes) in output.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let is_of =
                |part: &&mut SupervisedProgram| part.running.as_ref().is_some_and(|child| child.id() == id);
            if let Some(part) = parts.iter_mut().find(is_of) {
                part.print_lines(&bytes)?;
            }
        }
        let signal = stop_signal.load(Ordering::Relaxed);
        if signal != 0 {
            let running = || parts.iter().filter_map(|part| part.running.as_ref());
            running().try_for_each(Child::kill)?;
            // The devices disappear with the programs; slower ones are not waited for.
            running().for_each(|child| drop(child.wait(STOP_TIMEOUT)));
            return Ok(if signal == SIGINT as usize { 0 } else { 128 + signal as u8 });
        }
        if let Some((id, exit)) = ended {
            let is_of =
                |part: &&mut SupervisedProgram| part.running.as_ref().is_some_and(|child| child.id() == id);
            if let Some(part) = parts.iter_mut().find(is_of) {
                part.running = None;
                part.next_restart = Instant::now() + RESTART_DELAY;
                let why = part.error.take().unwrap_or_else(|| format!("its program {exit}"));
                if !part.was_ready || !restarts {
                    return finish(part, why, &exit);
                }
                context.info(format!("warning: {}: {why}; it is started again", part.node));
            }
        }
        restart(&domain, &image, &mut parts)?;
    }
}

/// Returns the command's result after a program ended that is not restarted.
fn finish(part: &SupervisedProgram, why: String, exit: &Exit) -> Result<u8, Failure> {
    match exit {
        Exit::Exited { status: 0 } => Ok(0),
        _ => Err(Failure::Job { message: format!("{}: {why}", part.node), status: 1 }),
    }
}

/// Restarts ended programs whose node is up.
fn restart(domain: &Domain, image: &Path, parts: &mut [SupervisedProgram]) -> Result<(), Failure> {
    let is_due =
        |part: &&mut SupervisedProgram| part.running.is_none() && part.next_restart <= Instant::now();
    let mut due: Vec<&mut SupervisedProgram> = parts.iter_mut().filter(is_due).collect();
    if due.is_empty() {
        return Ok(());
    }
    let nodes = domain.nodes()?;
    for part in &mut due {
        part.next_restart = Instant::now() + RESTART_DELAY;
        if nodes.iter().any(|node| node.name == part.node && node.up) {
            // The node may have gone down just now; the next attempt reports it.
            let _ = part.start(domain, image);
        }
    }
    Ok(())
}
