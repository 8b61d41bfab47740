//! Output of a job: forwarded unchanged, or in whole lines, with or without labels.

use std::collections::HashMap;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use tombolo::DomainId;
use tombolo::spawn::Stream;
pub use tombolo_platform::lock_unpoisoned;

/// Maximum length of a line; longer ones are shown in parts.
const MAX_LINE_BYTES: usize = 64 << 10;

/// The colours of labels.
const LABEL_COLOURS: [AnsiColor; 6] = [
    AnsiColor::Cyan,
    AnsiColor::Yellow,
    AnsiColor::Green,
    AnsiColor::Magenta,
    AnsiColor::Blue,
    AnsiColor::BrightRed,
];

/// Format of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Show {
    /// Unchanged.
    Pieces,
    /// In whole lines, so that the lines of several domains are not mixed.
    Lines,
    /// In whole lines with labels.
    Labelled,
}

/// Printer of the output of a job's domains.
pub struct Printer<O = io::Stdout, E = io::Stderr> {
    show: Show,
    colour: bool,
    /// Names of the nodes, by id.
    nodes: Vec<String>,
    /// The label of each domain, and the number that picks its colour.
    ranks: HashMap<DomainId, (String, usize)>,
    /// Number of domains being started: their ids are unknown, but their first output may have arrived.
    starting: usize,
    early: Vec<(DomainId, Stream, Vec<u8>)>,
    /// Incomplete lines.
    lines: HashMap<(DomainId, bool), Vec<u8>>,
    output: O,
    errors: E,
    /// Error that ended the output; later pieces are dropped.
    failed: Option<io::Error>,
}

/// The same error once more.
fn copy_error(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

impl Printer {
    /// Creates a printer to the standard streams. `nodes` are the names of the nodes, by id.
    #[must_use]
    pub fn new(show: Show, nodes: Vec<String>, colour: bool) -> Printer {
        Printer::with(show, nodes, colour, io::stdout(), io::stderr())
    }
}

impl<O: Write, E: Write> Printer<O, E> {
    fn with(show: Show, nodes: Vec<String>, colour: bool, output: O, errors: E) -> Printer<O, E> {
        Printer {
            show,
            colour,
            nodes,
            ranks: HashMap::new(),
            starting: 0,
            early: Vec::new(),
            lines: HashMap::new(),
            output,
            errors,
            failed: None,
        }
    }

    /// Announces that a domain is about to be started.
    pub fn expect_domain(&mut self) {
        self.starting += 1;
    }

    /// Records that a domain was started with this label and colour number, or could not be started (`None`).
    pub fn started(&mut self, domain: Option<(DomainId, String, usize)>) -> io::Result<()> {
        self.starting -= 1;
        self.ranks.extend(domain.map(|(id, name, number)| (id, (name, number))));
        // Output of other domains that are being started stays queued.
        let early = std::mem::take(&mut self.early);
        early.into_iter().try_for_each(|(domain, stream, bytes)| self.write_output(domain, stream, &bytes))
    }

    /// Prints a piece of a domain's output; an empty one is its end.
    pub fn write_output(&mut self, domain: DomainId, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        if self.failed.is_some() {
            return Ok(());
        }
        if self.starting > 0 && !self.ranks.contains_key(&domain) {
            self.early.push((domain, stream, bytes.to_vec()));
            return Ok(());
        }
        let text = match self.show {
            Show::Pieces => bytes.to_vec(),
            Show::Lines | Show::Labelled => self.whole_lines(domain, stream, bytes),
        };
        let written = match stream {
            Stream::Output => self.output.write_all(&text).and_then(|()| self.output.flush()),
            Stream::Error => self.errors.write_all(&text).and_then(|()| self.errors.flush()),
        };
        written.inspect_err(|error| self.failed = Some(copy_error(error)))
    }

    /// Returns the error that ended the printing, if one did. Everything since then was dropped.
    pub fn failure(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// Returns the completed lines with their labels, if any. At the end of the stream also returns the rest,
    /// unterminated if there are no labels.
    fn whole_lines(&mut self, domain: DomainId, stream: Stream, bytes: &[u8]) -> Vec<u8> {
        let label = if self.show == Show::Labelled { self.label(domain) } else { String::new() };
        let bare = self.show == Show::Lines;
        let line = self.lines.entry((domain, stream == Stream::Error)).or_default();
        let mut text = Vec::new();
        let mut finish = |line: &mut Vec<u8>| {
            text.extend_from_slice(label.as_bytes());
            text.append(line);
            text.push(b'\n');
        };
        if bytes.is_empty() && !line.is_empty() {
            finish(line);
            if bare {
                text.pop();
            }
            return text;
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            match part.strip_suffix(b"\n") {
                Some(rest) => {
                    line.extend_from_slice(rest);
                    finish(line);
                }
                None => line.extend_from_slice(part),
            }
            if line.len() >= MAX_LINE_BYTES {
                finish(line);
            }
        }
        text
    }

    /// Returns `[rank@node] `, or the id of a domain that the job's own domains started.
    fn label(&self, domain: DomainId) -> String {
        let node = self.nodes.get(usize::from(domain.node().0)).map_or("?", String::as_str);
        let (who, hue) = match self.ranks.get(&domain) {
            Some((name, number)) => (name.clone(), LABEL_COLOURS[number % LABEL_COLOURS.len()]),
            None => (domain.to_string(), LABEL_COLOURS[domain.index() as usize % LABEL_COLOURS.len()]),
        };
        let style = if self.colour { hue.on_default() } else { Style::new() };
        format!("{style}[{who}@{node}]{style:#} ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn printer(show: Show) -> Printer<Vec<u8>, Vec<u8>> {
        Printer::with(show, vec!["host".into(), "arm0".into()], false, Vec::new(), Vec::new())
    }

    fn id(text: &str) -> DomainId {
        text.parse().unwrap()
    }

    fn shown(printer: &Printer<Vec<u8>, Vec<u8>>) -> String {
        String::from_utf8(printer.output.clone()).unwrap()
    }

    #[test]
    fn lines_are_whole_and_labelled() {
        let mut printer = printer(Show::Labelled);
        (0..2).for_each(|_| printer.expect_domain());
        printer.started(Some((id("0.1.5"), "0".into(), 0))).unwrap();
        printer.started(Some((id("1.1.2"), "1".into(), 1))).unwrap();
        printer.write_output(id("0.1.5"), Stream::Output, b"one\ntw").unwrap();
        printer.write_output(id("1.1.2"), Stream::Output, b"eins\n\n").unwrap();
        printer.write_output(id("0.1.5"), Stream::Error, b"oops\n").unwrap();
        printer.write_output(id("0.1.5"), Stream::Output, b"o\nend").unwrap();
        printer.write_output(id("0.1.5"), Stream::Output, b"").unwrap();
        printer.write_output(id("1.1.2"), Stream::Output, b"").unwrap();
        assert_eq!(shown(&printer), "[0@host] one\n[1@arm0] eins\n[1@arm0] \n[0@host] two\n[0@host] end\n");
        assert_eq!(printer.errors, b"[0@host] oops\n");
    }

    #[test]
    fn early_output_waits_for_its_label() {
        let mut printer = printer(Show::Labelled);
        printer.expect_domain();
        printer.write_output(id("1.1.2"), Stream::Output, b"early\n").unwrap();
        assert_eq!(shown(&printer), "");
        printer.started(Some((id("1.1.2"), "0".into(), 0))).unwrap();
        printer.write_output(id("1.1.9"), Stream::Output, b"child\n").unwrap();
        assert_eq!(shown(&printer), "[0@arm0] early\n[1.1.9@arm0] child\n");
    }

    #[test]
    fn early_output_stays_queued_per_domain() {
        let mut printer = printer(Show::Labelled);
        (0..2).for_each(|_| printer.expect_domain());
        printer.write_output(id("1.1.2"), Stream::Output, b"early\n").unwrap();
        printer.started(Some((id("0.1.5"), "0".into(), 0))).unwrap();
        assert_eq!(shown(&printer), "");
        printer.started(Some((id("1.1.2"), "2:1".into(), 1))).unwrap();
        assert_eq!(shown(&printer), "[2:1@arm0] early\n");
    }

    #[test]
    fn lines_without_labels_are_whole_and_nothing_is_added() {
        let mut printer = printer(Show::Lines);
        for (domain, bytes) in
            [("0.1.5", "a"), ("1.1.2", "one\ntw"), ("0.1.5", "b\n"), ("1.1.2", "o"), ("1.1.2", "")]
        {
            printer.write_output(id(domain), Stream::Output, bytes.as_bytes()).unwrap();
        }
        assert_eq!(shown(&printer), "one\nab\ntwo");
    }

    #[test]
    fn unlabelled_bytes_pass_unchanged() {
        let mut printer = printer(Show::Pieces);
        printer.write_output(id("0.1.5"), Stream::Output, b"a\xff").unwrap();
        printer.write_output(id("0.1.5"), Stream::Output, b"").unwrap();
        assert_eq!(printer.output, b"a\xff");
    }

    #[test]
    fn an_endless_line_is_shown_in_parts() {
        let mut printer = printer(Show::Labelled);
        for _ in 0..3 {
            printer.write_output(id("0.1.5"), Stream::Output, &[b'x'; MAX_LINE_BYTES / 2]).unwrap();
        }
        assert_eq!(shown(&printer).lines().count(), 1);
        assert!(printer.lines.values().all(|line| line.len() < MAX_LINE_BYTES));
    }

    #[test]
    fn closed_output_is_reported_once() {
        let mut printer = Printer::with(Show::Pieces, Vec::new(), false, Closed, Vec::new());
        assert!(printer.write_output(id("0.1.5"), Stream::Output, b"x").is_err());
        assert!(printer.write_output(id("0.1.5"), Stream::Output, b"x").is_ok());
        assert_eq!(printer.failure().map(|error| error.kind()), Some(io::ErrorKind::BrokenPipe));
    }
}
