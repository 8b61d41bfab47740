//! `tombolo console --all`: the consoles of all nodes at once, line by line.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tombolo::Error;
use tombolo::nodes::NodeKind;
use tombolo_admin::{Console, Machine};

use super::{ConsoleEvents, Event, ExitReason, Options, signal_pipe};
use crate::context::Context;
use crate::failure::{Failure, eprint_quietly};

/// Time to wait for the rest of a line before its present part is shown.
const LINE: Duration = Duration::from_secs(1);

/// Maximum length of a buffered line, in bytes.
const MAX_LINE_BYTES: usize = 4 << 10;

/// Output of a node, in lines that begin with its name.
struct Lines {
    label: String,
    /// The incomplete last line.
    rest: Vec<u8>,
}

impl Lines {
    fn new(label: String) -> Lines {
        Lines { label, rest: Vec::new() }
    }

    /// Adds bytes and returns the completed lines.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut shown = Vec::new();
        for byte in bytes.iter().copied().filter(|byte| *byte != b'\r') {
            if byte == b'\n' || self.rest.len() == MAX_LINE_BYTES {
                self.end(&mut shown);
            }
            if byte != b'\n' {
                self.rest.push(byte);
            }
        }
        shown
    }

    /// Returns the incomplete last line.
    fn take_rest(&mut self) -> Vec<u8> {
        let mut shown = Vec::new();
        if !self.rest.is_empty() {
            self.end(&mut shown);
        }
        shown
    }

    fn end(&mut self, shown: &mut Vec<u8>) {
        shown.extend_from_slice(self.label.as_bytes());
        shown.append(&mut self.rest);
        shown.push(b'\n');
    }
}

pub(super) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    let domain = context.attach_running()?;
    let has_console = |kind: NodeKind| matches!(kind, NodeKind::Vm | NodeKind::Bare);
    let nodes = domain.nodes()?.into_iter().filter(|node| has_console(node.kind));
    let names: Vec<String> = nodes.map(|node| node.name).collect();
    if names.is_empty() {
        let message = "no node of this machine has a console: only virtual machines and boards have";
        return Err(Failure::Other(message.into()));
    }
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let signals = signal_pipe().map_err(Failure::system("listen for signals"))?;
    let (closed, closing) = UnixStream::pair().map_err(Failure::system("make a socket"))?;
    let mut readers = Vec::new();
    for name in &names {
        // A program gets the events of all its open consoles in one queue, so each console has its own
        // attachment.
        let console = Machine::of(&context.attach_running()?).console(name)?;
        let lines = Lines::new(format!("[{name}]:{:1$}", "", width - name.len() + 1));
        let closing = closing.try_clone().map_err(Failure::system("make a socket"))?;
        readers.push(std::thread::spawn(move || {
            let failure = show(&console, lines);
            drop(closing);
            failure
        }));
    }
    drop(closing);
    let until = options.duration.and_then(|duration| Instant::now().checked_add(duration));
    match (ConsoleEvents { closed: &closed, signals: &signals, until }).next(None)? {
        Event::Exit(ExitReason::Signal(signal)) => Ok(128 + signal),
        Event::Exit(ExitReason::Closed) => match readers.pop().map(std::thread::JoinHandle::join) {
            Some(Ok(failure)) => Err(failure),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(0),
        },
        _ => Ok(0),
    }
}

/// Prints the output of a node until an error.
fn show(console: &Console, mut lines: Lines) -> Failure {
    loop {
        let shown = match console.read(LINE) {
            Ok(output) => {
                if output.dropped_bytes > 0 {
                    eprint_quietly(&format!("{}[{} bytes dropped]\n", lines.label, output.dropped_bytes));
                }
                lines.take(&output.bytes)
            }
            Err(Error::TimedOut { .. }) => lines.take_rest(),
            Err(error) => return error.into(),
        };
        let mut terminal = io::stdout().lock();
        if let Err(error) = terminal.write_all(&shown).and_then(|()| terminal.flush()) {
            return Failure::Output(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_with_the_name_of_their_node() {
        let mut lines = Lines::new("[arm0]: ".to_owned());
        assert_eq!(lines.take(b"first\r\nsec"), b"[arm0]: first\n");
        assert_eq!(lines.take(b"ond\n\n"), b"[arm0]: second\n[arm0]: \n");
        assert_eq!(lines.take_rest(), b"");
        assert_eq!(lines.take(b"# "), b"");
        assert_eq!(lines.take_rest(), b"[arm0]: # \n");
        let long = vec![b'x'; MAX_LINE_BYTES + 1];
        assert_eq!(lines.take(&long).len(), 8 + MAX_LINE_BYTES + 1);
        assert_eq!(lines.take_rest(), b"[arm0]: x\n");
    }
}
