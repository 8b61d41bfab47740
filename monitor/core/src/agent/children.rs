//! Domains started by this agent: their output, input and ends.

use std::collections::VecDeque;

use tombolo_base::DomainId;
use tombolo_control::{Exit, Report, streams};

use super::{Action, AgentCore};

/// Maximum number of output bytes not acknowledged by the reader; further writes wait in the domain's pipe.
const IN_FLIGHT_BYTES: usize = 64 * 1024;

/// Maximum number of output bytes per report, and per read of a domain's output.
pub const PIECE_BYTES: usize = 8 * 1024;

/// Maximum number of pieces of output in flight, regardless of length: line-buffered programs produce short
/// ones.
const IN_FLIGHT_PIECES: usize = IN_FLIGHT_BYTES / PIECE_BYTES;

/// Open output stream of a domain.
#[derive(Debug)]
struct OutputRecord {
    stream: u8,
    in_flight_bytes: usize,
    in_flight_pieces: usize,
}

/// Open input stream of a domain.
#[derive(Debug)]
struct InputRecord {
    stream: u8,
    /// Input that the domain has not accepted yet; an empty piece marks the end.
    queue: VecDeque<Vec<u8>>,
}

/// Domain started by this agent.
#[derive(Debug)]
pub(super) struct ChildRecord {
    pid: i32,
    outputs: Vec<OutputRecord>,
    inputs: Vec<InputRecord>,
    exit: Option<Exit>,
}

impl ChildRecord {
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    fn output(&mut self, stream: u8) -> Option<&mut OutputRecord> {
        self.outputs.iter_mut().find(|output| output.stream == stream)
    }

    fn input(&mut self, stream: u8) -> Option<&mut InputRecord> {
        self.inputs.iter_mut().find(|input| input.stream == stream)
    }
}

impl<D> AgentCore<D> {
    /// Records that a domain was started, with both outputs, and with these inputs. A side stream is both an
    /// input and an output.
    pub fn child_started(&mut self, domain: DomainId, pid: i32, inputs: &[u8]) {
        let side = inputs.contains(&streams::SIDE).then_some(streams::SIDE);
        let outputs = [streams::OUTPUT, streams::ERROR]
            .into_iter()
            .chain(side)
            .map(|stream| OutputRecord { stream, in_flight_bytes: 0, in_flight_pieces: 0 })
            .collect();
        let inputs =
            inputs.iter().map(|stream| InputRecord { stream: *stream, queue: VecDeque::new() }).collect();
        self.children.insert(domain, ChildRecord { pid, outputs, inputs, exit: None });
        self.sampling.started(domain, pid);
        self.report(Report::Started { domain, pid });
    }

    /// Records that a domain could not be started.
    pub fn child_start_failed(&mut self, domain: DomainId, why: String) {
        // If it was started but cannot be watched, it has no parent.
        self.expect_orphans();
        self.report(Report::NotStarted { domain, why });
    }

    pub(super) fn signal(&mut self, domain: DomainId, signal: u8) {
        // A reaped process has no group; its number may have been reused.
        if self.children.get(&domain).is_some_and(|child| child.exit.is_none()) {
            self.actions.push_back(Action::Signal { domain, signal });
        }
    }

    /// Returns whether a piece of output should be read: false while too much is in flight.
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

    /// Reports a piece of output; an empty one is the end of the stream, whose descriptor must be closed.
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
            // One acknowledgement for each piece.
            output.in_flight_bytes = output.in_flight_bytes.saturating_sub(bytes);
            output.in_flight_pieces = output.in_flight_pieces.saturating_sub(1);
        }
    }

    pub(super) fn queue_input(&mut self, domain: DomainId, stream: u8, bytes: Vec<u8>) {
        let Some(child) = self.children.get_mut(&domain) else { return };
        let Some(input) = child.input(stream) else {
            // It has closed its input, or never had one: discard the data, as a closed pipe would.
            return self.report(Report::InputTaken { domain, stream });
        };
        input.queue.push_back(bytes);
        self.close_input_if_due(domain, stream);
        self.actions.push_back(Action::WriteInput { domain, stream });
    }

    /// Returns the next bytes to write to an input of a domain.
    #[must_use]
    pub fn next_input(&self, domain: DomainId, stream: u8) -> Option<&[u8]> {
        let input = self.children.get(&domain)?.inputs.iter().find(|input| input.stream == stream)?;
        input.queue.front().map(Vec::as_slice)
    }

    /// Records that an input of a domain accepted `count` bytes.
    pub fn input_written(&mut self, domain: DomainId, stream: u8, count: usize) {
        let input = self.children.get_mut(&domain).and_then(|child| child.input(stream));
        let Some(input) = input else { return };
        let Some(piece) = input.queue.front_mut() else { return };
        piece.drain(..count.min(piece.len()));
        if piece.is_empty() {
            input.queue.pop_front();
            self.report(Report::InputTaken { domain, stream });
            self.close_input_if_due(domain, stream);
        }
    }

    /// Records that an input of a domain is closed.
    pub fn input_closed(&mut self, domain: DomainId, stream: u8) {
        let Some(child) = self.children.get_mut(&domain) else { return };
        let Some(index) = child.inputs.iter().position(|input| input.stream == stream) else { return };
        let pending = child.inputs.swap_remove(index).queue.len();
        self.actions.push_back(Action::CloseInput { domain, stream });
        (0..pending).for_each(|_| self.report(Report::InputTaken { domain, stream }));
    }

    fn close_input_if_due(&mut self, domain: DomainId, stream: u8) {
        if self.next_input(domain, stream).is_some_and(<[u8]>::is_empty) {
            self.input_closed(domain, stream);
        }
    }

    /// Records that a domain's process has ended and is reaped. Its last output is still in the pipes: the
    /// agent reads all of it and reports the end of each stream, even if another process still holds the
    /// pipe: a program that the domain started and that left its process group.
    pub fn child_exited(&mut self, domain: DomainId, exit: Exit) {
        let Some(child) = self.children.get_mut(&domain) else { return };
        child.exit = Some(exit);
        self.sampling.ended(domain);
        self.expect_orphans();
        self.names_domain_ended(domain);
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

    /// Records that every domain has been killed.
    pub fn children_destroyed(&mut self) {
        self.children.keys().for_each(|domain| self.sampling.ended(*domain));
        self.children.clear();
    }
}
