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
use tombolo_machine::Kit;

use crate::context::{Context, print};
use crate::failure::Failure;

/// How long to wait before looking whether this was told to stop.
const LOOK: Duration = Duration::from_millis(100);

/// How long after its end a program is started again.
const AGAIN: Duration = Duration::from_secs(1);

/// How long programs that were asked to end are waited for.
const GONE: Duration = Duration::from_secs(5);

/// What begins the line by which a program says that it serves.
const READY: &str = "ready: ";

/// What both commands take.
#[derive(Args, Debug)]
pub(crate) struct Common {
    /// The image of the programs [default: that of the kit]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
}

impl Common {
    fn image(&self) -> Result<PathBuf, Failure> {
        match &self.image {
            Some(image) => Ok(image.clone()),
            None => Ok(Kit::locate()?.image("devices")),
        }
    }
}

/// A program to keep running.
struct Part {
    node: String,
    arguments: Vec<String>,
    running: Option<Child>,
    /// Whether it has ever served.
    served: bool,
    /// When it may be started again.
    again: Instant,
    /// The output that is not shown yet, a line at a time.
    line: Vec<u8>,
    /// The last line of an error.
    error: Option<String>,
}

impl Part {
    fn new(node: &str, arguments: &[&str]) -> Part {
        Part {
            node: node.to_owned(),
            arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
            running: None,
            served: false,
            again: Instant::now(),
            line: Vec::new(),
            error: None,
        }
    }

    fn start(&mut self, domain: &Domain, image: &Path) -> Result<(), Error> {
        let options = SpawnOptions::image(image).on(&self.node).args(&self.arguments);
        self.running = Some(domain.spawn(&options)?);
        Ok(())
    }

    /// Shows the lines that are whole.
    fn heard(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.line.extend_from_slice(bytes);
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if let Some(error) = line.strip_prefix("error: ") {
                self.error = Some(error.to_owned());
                continue;
            }
            self.served |= line.starts_with(READY);
            print(format!("[{}] {line}\n", self.node))?;
        }
        Ok(())
    }
}

/// Runs the parts until this is told to stop, or until one ends that has never served. Where `restarts` is
/// set others are started again when they end, as soon as their node is up.
fn keep(context: &Context, common: &Common, mut parts: Vec<Part>, restarts: bool) -> Result<u8, Failure> {
    let (image, domain) = (common.image()?, context.attach()?);
    let told = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_usize(signal, Arc::clone(&told), signal as usize)
            .map_err(Failure::system("listen for signals"))?;
    }
    let output = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&output);
    domain.on_output(move |id, _, bytes| {
        heard.lock().unwrap_or_else(PoisonError::into_inner).push((id, bytes.to_owned()));
    });
    for part in &mut parts {
        part.start(&domain, &image)?;
    }
    loop {
        let ended = match domain.next_exit(LOOK) {
            Ok(ended) => Some(ended),
            Err(Error::TimedOut { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        for (id, bytes) in output.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let is_of = |part: &&mut Part| part.running.as_ref().is_some_and(|child| child.id() == id);
            if let Some(part) = parts.iter_mut().find(is_of) {
                part.heard(&bytes)?;
            }
        }
        let signal = told.load(Ordering::Relaxed);
        if signal != 0 {
            let running = || parts.iter().filter_map(|part| part.running.as_ref());
            running().try_for_each(Child::kill)?;
            // The devices are gone when the programs are; what takes longer is not waited for.
            running().for_each(|child| drop(child.wait(GONE)));
            return Ok(if signal == SIGINT as usize { 0 } else { 128 + signal as u8 });
        }
        if let Some((id, exit)) = ended {
            let is_of = |part: &&mut Part| part.running.as_ref().is_some_and(|child| child.id() == id);
            if let Some(part) = parts.iter_mut().find(is_of) {
                part.running = None;
                part.again = Instant::now() + AGAIN;
                let why = part.error.take().unwrap_or_else(|| format!("its program {exit}"));
                if !part.served || !restarts {
                    return finish(part, why, &exit);
                }
                context.say(format!("warning: {}: {why}; it is started again", part.node));
            }
        }
        restart(&domain, &image, &mut parts)?;
    }
}

/// How the command ends when a program did that is not started again.
fn finish(part: &Part, why: String, exit: &Exit) -> Result<u8, Failure> {
    match exit {
        Exit::Exited { status: 0 } => Ok(0),
        _ => Err(Failure::Job { message: format!("{}: {why}", part.node), status: 1 }),
    }
}

/// Starts what has ended again, where its node is up.
fn restart(domain: &Domain, image: &Path, parts: &mut [Part]) -> Result<(), Failure> {
    let is_due = |part: &&mut Part| part.running.is_none() && part.again <= Instant::now();
    let mut due: Vec<&mut Part> = parts.iter_mut().filter(is_due).collect();
    if due.is_empty() {
        return Ok(());
    }
    let nodes = domain.nodes()?;
    for part in &mut due {
        part.again = Instant::now() + AGAIN;
        if nodes.iter().any(|node| node.name == part.node && node.up) {
            // It may have gone down just now; the next try says so.
            let _ = part.start(domain, image);
        }
    }
    Ok(())
}
