//! The domains that this agent started: their output, input and ends.

use std::collections::VecDeque;

use tombolo_base::DomainId;
use tombolo_control::{Exit, Report};

use super::{Action, AgentCore};

/// Output that may be on its way to whoever reads it; the domain's next writes wait in its pipe.
const IN_FLIGHT_BYTES: usize = 64 * 1024;

/// Output bytes of one report: what is read from a domain's output at a time.
pub const PIECE_BYTES: usize = 8 * 1024;

/// Pieces of output that may be on their way, however short: what a program writes line by line comes so.
const IN_FLIGHT_PIECES: usize = IN_FLIGHT_BYTES / PIECE_BYTES;

/// A domain's output stream that is open.
#[derive(Debug)]
struct OutputRecord {
    stream: u8,
    in_flight_bytes: usize,
    in_flight_pieces: usize,
}

/// A domain that this agent started.
#[derive(Debug)]
pub(super) struct ChildRecord {
    pid: i32,
    outputs: Vec<OutputRecord>,
    has_input: bool,
    /// What it has not taken yet; an empty piece ends it.
    feeding: VecDeque<Vec<u8>>,
    exit: Option<Exit>,
}

impl ChildRecord {
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    fn output(&mut self, stream: u8) -> Option<&mut OutputRecord> {
        self.outputs.iter_mut().find(|output| output.stream == stream)
    }
}

impl<D> AgentCore<D> {
    /// A domain was started, with both outputs, and with an input or not.
    pub fn started(&mut self, domain: DomainId, pid: i32, has_input: bool) {
        let output = |stream| OutputRecord { stream, in_flight_bytes: 0, in_flight_pieces: 0 };
        let outputs = vec![output(1), output(2)];
        let record = ChildRecord { pid, outputs, has_input, feeding: VecDeque::new(), exit: None };
        self.children.insert(domain, record);
        self.report(Report::Started { domain, pid });
    }

    /// A domain could not be started.
    pub fn not_started(&mut self, domain: DomainId, why: String) {
        // If it was started and cannot be watched, it is nobody's.
        self.expect_orphans();
        self.report(Report::NotStarted { domain, why });
    }

    pub(super) fn signal(&mut self, domain: DomainId, signal: u8) {
        // One that is reaped has no group any more: its number may be somebody else's.
        if self.children.get(&domain).is_some_and(|child| child.exit.is_none()) {
            self.actions.push_back(Action::Signal { domain, signal });
        }
    }

    /// Whether a piece of output should be read: not while too much is on its way.
    #[must_use]
    pub fn may_read_output(&self, domain: DomainId, stream: u8) -> bool {
        let output = self
            .children
            .get(&domain)
            .and_then(|child| child.outputs.iter().find(|output| output.stream == stream));
        output.is_some_and(|output| {
            output.in_flight_bytes < IN_FLIGHT_BYTES && output.in_flight_pieces < IN_FLIGHT_PIECES
        })
    }

    /// A piece of output was read; an empty one is the end of the stream, whose descriptor is to be closed.
    pub fn output_read(&mut self, domain: DomainId, stream: u8, bytes: Vec<u8>) {
        let Some(child) = self.children.get_mut(&domain) else { return };
        let Some(output) = child.output(stream) else { return };
        output.in_flight_bytes += bytes.len();
        output.in_flight_pieces += 1;
        if bytes.is_empty() {
            child.outputs.retain(|output| output.stream != stream);
        }
        self.report(Report::Output { domain, stream, bytes });
        self.report_end_if_complete(domain);
    }

    pub(super) fn output_taken(&mut self, domain: DomainId, stream: u8, bytes: usize) {
        if let Some(output) = self.children.get_mut(&domain).and_then(|child| child.output(stream)) {
            // One answer for each piece.
            output.in_flight_bytes = output.in_flight_bytes.saturating_sub(bytes);
            output.in_flight_pieces = output.in_flight_pieces.saturating_sub(1);
        }
    }

    pub(super) fn feed(&mut self, domain: DomainId, bytes: Vec<u8>) {
        let Some(child) = self.children.get_mut(&domain) else { return };
        if !child.has_input {
            // It has closed its input, or never had one: what is fed to it is gone, as in any pipe.
            return self.report(Report::InputTaken { domain });
        }
        child.feeding.push_back(bytes);
        self.close_input_if_due(domain);
        self.actions.push_back(Action::Feed { domain });
    }

    /// What a domain's input should take next.
    #[must_use]
    pub fn next_input(&self, domain: DomainId) -> Option<&[u8]> {
        let child = self.children.get(&domain).filter(|child| child.has_input)?;
        child.feeding.front().map(Vec::as_slice)
    }

    /// A domain's input took some of that.
    pub fn input_written(&mut self, domain: DomainId, count: usize) {
        let Some(child) = self.children.get_mut(&domain) else { return };
        let Some(piece) = child.feeding.front_mut() else { return };
        piece.drain(..count.min(piece.len()));
        if piece.is_empty() {
            child.feeding.pop_front();
            self.report(Report::InputTaken { domain });
            self.close_input_if_due(domain);
        }
    }

    /// A domain's input takes nothing any more.
    pub fn input_refused(&mut self, domain: DomainId) {
        let Some(child) = self.children.get_mut(&domain) else { return };
        child.has_input = false;
        let pending = std::mem::take(&mut child.feeding).len();
        self.actions.push_back(Action::CloseInput { domain });
        (0..pending).for_each(|_| self.report(Report::InputTaken { domain }));
    }

    fn close_input_if_due(&mut self, domain: DomainId) {
        if self.next_input(domain).is_some_and(<[u8]>::is_empty) {
            self.input_refused(domain);
        }
    }

    /// A domain's process has ended and is reaped. What it wrote last is still in the pipes: all of it is to be
    /// read, and an end of each stream reported, also where somebody else still holds the pipe: a program that it
    /// started and that left its group.
    pub fn ended(&mut self, domain: DomainId, exit: Exit) {
        let Some(child) = self.children.get_mut(&domain) else { return };
        child.exit = Some(exit);
        self.expect_orphans();
        self.domain_left_names(domain);
        self.report_end_if_complete(domain);
    }

    fn report_end_if_complete(&mut self, domain: DomainId) {
        let complete = |child: &ChildRecord| child.outputs.is_empty() && child.exit.is_some();
        if !self.children.get(&domain).is_some_and(complete) {
            return;
        }
        if let Some(exit) = self.children.remove(&domain).and_then(|child| child.exit) {
            self.report(Report::Ended { domain, exit });
        }
    }

    /// Every domain has been killed.
    pub fn children_destroyed(&mut self) {
        self.children.clear();
    }
}
