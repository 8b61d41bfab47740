//! `tombolo console`

mod all;
mod terminal;

use std::io::{self, IsTerminal, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tombolo::Error;
use tombolo_admin::{Console, Machine};
use tombolo_cli_common::arguments::seconds;

use crate::context::Context;
use crate::failure::{Failure, eprint_quietly};
use terminal::RawMode;

/// Ctrl-], which no program on a console is likely to need.
const ESCAPE: u8 = 0x1d;

/// Number of typed bytes sent at a time.
const PIECE_BYTES: usize = 8 << 10;

/// Timeout of a single wait for output.
const READ_TIMEOUT: Duration = Duration::from_secs(3600);

/// Opens the console of a node
///
/// Shows the latest output of the node's console, and then new output. On a terminal, keys go to the node,
/// Ctrl-C included; Ctrl-] leaves. Otherwise the standard input is typed to its end, and the console stays
/// open until the node ends, or for the time of --for. Output that was not read in time is dropped and
/// counted: [N bytes dropped].
///
/// With --all the consoles of all virtual machines and boards are shown at once, line by line, each with the
/// name of its node. The order of lines of different nodes is that in which they arrive. Nothing is typed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo console arm0                              interactive; leave with Ctrl-]
  tombolo console arm0 --no-input --for 5           watch for five seconds
  tombolo console --all                             watch all nodes
  echo 'cat /proc/cpuinfo' | tombolo console arm0 --for 2")]
pub(crate) struct Options {
    /// The name of the node
    #[arg(required_unless_present = "all")]
    node: Option<String>,

    /// Show the consoles of all nodes, without input
    #[arg(long, conflicts_with = "node")]
    all: bool,

    /// Leave after this many seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    duration: Option<Duration>,

    /// Send no input to the node
    #[arg(long)]
    no_input: bool,
}

/// Reason for leaving the console.
enum ExitReason {
    /// The user left, or the time is over.
    Done,
    /// Received a signal.
    Signal(u8),
    /// The other side closed the console.
    Closed,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    let Some(node) = &options.node else { return all::run(context, options) };
    let domain = context.attach_running()?;
    let console = Arc::new(Machine::of(&domain).console(node)?);
    let interactive = !options.no_input && io::stdin().is_terminal();
    if interactive {
        context.info(format!("console of {node}; Ctrl-] leaves"));
    }
    let signals = signal_pipe().map_err(Failure::system("listen for signals"))?;
    let raw = if interactive { Some(RawMode::enter()?) } else { None };
    let (closed, reader) = show(&console, interactive)?;
    let until = options.duration.and_then(|duration| Instant::now().checked_add(duration));
    let watch = ConsoleEvents { closed: &closed, signals: &signals, until };
    let left = forward_stdin(&console, interactive, !options.no_input, &watch);
    drop(raw);
    if interactive {
        eprint_quietly("\n");
    }
    match left? {
        ExitReason::Done => Ok(0),
        ExitReason::Signal(signal) => Ok(128 + signal),
        ExitReason::Closed => match reader.join() {
            Ok(failure) => Err(failure),
            Err(panic) => std::panic::resume_unwind(panic),
        },
    }
}

/// Returns a readable descriptor for each of the signals that end programs.
fn signal_pipe() -> io::Result<Vec<(u8, UnixStream)>> {
    let listen = |signal: i32| {
        let (reader, writer) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(signal, writer)?;
        Ok((signal as u8, reader))
    };
    [SIGINT, SIGTERM, SIGHUP].into_iter().map(listen).collect()
}

type Reader = std::thread::JoinHandle<Failure>;

/// Prints the node's output from a separate thread. The descriptor becomes readable at its end; the thread
/// then returns the reason.
fn show(console: &Arc<Console>, raw: bool) -> Result<(UnixStream, Reader), Failure> {
    let (closed, closing) = UnixStream::pair().map_err(Failure::system("make a socket"))?;
    let console = Arc::clone(console);
    let reader = std::thread::spawn(move || {
        let _closing = closing;
        loop {
            match console.read(READ_TIMEOUT) {
                Ok(output) => {
                    if output.dropped_bytes > 0 {
                        let line_end = if raw { "\r\n" } else { "\n" };
                        eprint_quietly(&format!(
                            "{line_end}[{} bytes dropped]{line_end}",
                            output.dropped_bytes
                        ));
                    }
                    let mut terminal = io::stdout().lock();
                    if let Err(error) = terminal.write_all(&output.bytes).and_then(|()| terminal.flush()) {
                        return Failure::Output(error);
                    }
                }
                Err(Error::TimedOut { .. }) => {}
                Err(error) => return error.into(),
            }
        }
    });
    Ok((closed, reader))
}

/// Events to wait for besides output.
struct ConsoleEvents<'a> {
    closed: &'a UnixStream,
    signals: &'a [(u8, UnixStream)],
    /// Time to leave, if any.
    until: Option<Instant>,
}

/// The first event of a wait.
enum Event {
    Exit(ExitReason),
    Input,
}

impl ConsoleEvents<'_> {
    fn next(&self, input: Option<&io::Stdin>) -> Result<Event, Failure> {
        let mut waiting = vec![PollFd::new(self.closed, PollFlags::IN)];
        waiting.extend(self.signals.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)));
        waiting.extend(input.map(|input| PollFd::new(input, PollFlags::IN)));
        loop {
            let remaining = self.until.map(|until| until.saturating_duration_since(Instant::now()));
            match poll(&mut waiting, remaining.map(timespec).as_ref()) {
                Ok(0) => return Ok(Event::Exit(ExitReason::Done)),
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Failure::system("wait for input")(errno.into())),
            }
        }
        let happened = |fd: &PollFd<'_>| !fd.revents().is_empty();
        if happened(&waiting[0]) {
            return Ok(Event::Exit(ExitReason::Closed));
        }
        let signal = self.signals.iter().zip(&waiting[1..]).find(|(_, fd)| happened(fd));
        Ok(signal.map_or(Event::Input, |((signal, _), _)| Event::Exit(ExitReason::Signal(*signal))))
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

/// Sends standard input to the node until there is a reason to leave.
fn forward_stdin(
    console: &Console,
    interactive: bool,
    with_input: bool,
    watch: &ConsoleEvents<'_>,
) -> Result<ExitReason, Failure> {
    let input = io::stdin();
    let mut open = with_input;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        if let Event::Exit(left) = watch.next(open.then_some(&input))? {
            return Ok(left);
        }
        // Bypasses the buffer of `Stdin`: `poll` does not see buffered bytes.
        let length = rustix::io::read(&input, &mut piece)
            .map_err(|errno| Failure::system("read the standard input")(errno.into()))?;
        let escape = piece[..length].iter().position(|byte| interactive && *byte == ESCAPE);
        let typed = &piece[..escape.unwrap_or(length)];
        if !typed.is_empty() {
            console.write(typed)?;
        }
        if escape.is_some() || (interactive && length == 0) {
            return Ok(ExitReason::Done);
        }
        open = length > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_distinguished() {
        let pipes = signal_pipe().unwrap();
        let numbers: Vec<u8> = pipes.iter().map(|(signal, _)| *signal).collect();
        assert_eq!(numbers, [2, 15, 1]);
    }
}
