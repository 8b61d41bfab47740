//! The domains that this agent started: their processes, output, input and ends.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tombolo_base::DomainId;
use tombolo_control::{Bytes, Exit, Report, StartOrder};
use tombolo_platform::error::Context;
use tombolo_platform::event::Interest;
use tombolo_platform::process::{Ended, Process};
use tombolo_platform::{Errno, OsError, Signal};

use super::orphans::DOMAIN_VARIABLE;
use super::{Agent, Token};

/// Output that may be on its way to whoever reads it; the domain's next writes wait in its pipe.
const IN_FLIGHT_BYTES: usize = 64 * 1024;

/// Output bytes of one report.
const PIECE_BYTES: usize = 8 * 1024;

/// Pieces of output that may be on their way, however short: what a program writes line by line comes so.
const IN_FLIGHT_PIECES: usize = IN_FLIGHT_BYTES / PIECE_BYTES;

/// Variables that belong to the monitor, not to the domains that it starts.
const OWN_VARIABLES: [&str; 4] = ["TOMBOLO_MONITOR", "TOMBOLO_MACHINE", "TOMBOLO_KIT", "TOMBOLO_TOMBOLOD"];

/// A domain's output stream.
#[derive(Debug)]
struct OutputPipe {
    number: u8,
    pipe: OwnedFd,
    in_flight_bytes: usize,
    in_flight_pieces: usize,
}

impl OutputPipe {
    fn may_be_read(&self) -> bool {
        self.in_flight_bytes < IN_FLIGHT_BYTES && self.in_flight_pieces < IN_FLIGHT_PIECES
    }
}

/// A domain that this agent started.
#[derive(Debug)]
pub(super) struct ChildRecord {
    process: Process,
    outputs: Vec<OutputPipe>,
    input: Option<OwnedFd>,
    /// What it has not taken yet; an empty piece ends it.
    feeding: VecDeque<Vec<u8>>,
    ended: Option<Ended>,
}

impl ChildRecord {
    pub(super) fn pid(&self) -> i32 {
        self.process.pid()
    }

    pub(super) fn destroy(&mut self) {
        self.process.destroy();
    }

    pub(super) fn sources<'a>(
        &'a self,
        domain: DomainId,
        add: &mut impl FnMut(BorrowedFd<'a>, Interest, Token),
    ) {
        add(self.process.ended_fd(), Interest::Read, Token::ChildEnd(domain));
        for output in self.outputs.iter().filter(|output| output.may_be_read()) {
            add(output.pipe.as_fd(), Interest::Read, Token::ChildOutput(domain, output.number));
        }
        if let Some(input) = self.input.as_ref().filter(|_| !self.feeding.is_empty()) {
            add(input.as_fd(), Interest::Write, Token::ChildInput(domain));
        }
    }
}

impl Agent {
    pub(super) fn start(&mut self, order: StartOrder) {
        let domain = order.domain;
        match self.try_start(order) {
            Ok(child) => {
                let pid = child.pid();
                self.children.insert(domain, child);
                self.report(Report::Started { domain, pid });
            }
            Err(error) => {
                // If it was started and cannot be watched, it is nobody's.
                self.expect_orphans();
                self.report(Report::NotStarted { domain, why: error.to_string() });
            }
        }
    }

    fn try_start(&self, order: StartOrder) -> Result<ChildRecord, OsError> {
        let domain = order.domain;
        let missing = || OsError::new("start a program that did not arrive", Errno::NOENT);
        let program = self.programs.get(&order.program).ok_or_else(missing)?;
        let path = format!("/proc/self/fd/{}", program.as_raw_fd());
        let mut command = match &self.emulator {
            None => {
                let mut command = Command::new(&path);
                command.arg0(&order.name);
                command
            }
            Some(emulator) => {
                let mut command = Command::new(&emulator.program);
                if let Some(cpu) = &emulator.cpu {
                    command.args(["-cpu", cpu]);
                }
                command.args(["-0", &order.name, &path]);
                command
            }
        };
        command.args(&order.arguments);
        OWN_VARIABLES.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.envs(order.environment).env("TOMBOLO_MONITOR", &self.socket_name);
        command.env(DOMAIN_VARIABLE, domain.to_string());
        let directory = Path::new(&order.directory);
        command.current_dir(if directory.is_dir() { directory } else { Path::new("/") });
        command.stdin(if order.stdin { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // The emulator opens the program itself, after it has been executed, so it must inherit it.
        let inherit: &[BorrowedFd<'_>] = if self.emulator.is_some() { &[program.as_fd()] } else { &[] };
        let mut process = Process::start(&mut command, inherit)?;
        let child = process.child_mut();
        let outputs = [
            child.stdout.take().map(|pipe| (1, OwnedFd::from(pipe))),
            child.stderr.take().map(|pipe| (2, OwnedFd::from(pipe))),
        ];
        let input = child.stdin.take().map(OwnedFd::from);
        let mut record = ChildRecord {
            process,
            outputs: Vec::with_capacity(2),
            input,
            feeding: VecDeque::new(),
            ended: None,
        };
        for (number, pipe) in outputs.into_iter().flatten() {
            rustix::io::ioctl_fionbio(&pipe, true).context("read a program's output")?;
            record.outputs.push(OutputPipe { number, pipe, in_flight_bytes: 0, in_flight_pieces: 0 });
        }
        if let Some(input) = &record.input {
            rustix::io::ioctl_fionbio(input, true).context("feed a program")?;
        }
        Ok(record)
    }

    pub(super) fn signal(&mut self, domain: DomainId, number: u8) {
        if let Some(child) = self.children.get(&domain)
            && let Some(signal) = Signal::from_named_raw(number.into())
        {
            child.process.signal(signal);
        }
    }

    /// Reads one piece of output; at the end of the stream, closes it.
    pub(super) fn read_output(&mut self, domain: DomainId, number: u8) {
        let Some(child) = self.children.get_mut(&domain) else { return };
        let Some(output) = child.outputs.iter_mut().find(|output| output.number == number) else { return };
        let mut piece = vec![0; PIECE_BYTES];
        let bytes = match rustix::io::read(&output.pipe, &mut piece) {
            Ok(0) => Vec::new(),
            Ok(count) => {
                piece.truncate(count);
                output.in_flight_bytes += count;
                output.in_flight_pieces += 1;
                piece
            }
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => Vec::new(),
        };
        if bytes.is_empty() {
            child.outputs.retain(|output| output.number != number);
        }
        self.report(Report::Output { domain, stream: number, bytes: Bytes(bytes) });
        self.report_end_if_complete(domain);
    }

    pub(super) fn output_taken(&mut self, domain: DomainId, number: u8, bytes: usize) {
        if let Some(child) = self.children.get_mut(&domain)
            && let Some(output) = child.outputs.iter_mut().find(|output| output.number == number)
        {
            // One answer for each piece.
            output.in_flight_bytes = output.in_flight_bytes.saturating_sub(bytes);
            output.in_flight_pieces = output.in_flight_pieces.saturating_sub(1);
        }
    }

    pub(super) fn feed(&mut self, domain: DomainId, bytes: Vec<u8>) {
        let Some(child) = self.children.get_mut(&domain) else { return };
        if child.input.is_none() {
            // It has closed its input, or never had one: what is fed to it is gone, as in any pipe.
            return self.report(Report::InputTaken { domain });
        }
        child.feeding.push_back(bytes);
        self.write_input(domain);
    }

    pub(super) fn write_input(&mut self, domain: DomainId) {
        let Some(child) = self.children.get_mut(&domain) else { return };
        let mut taken = false;
        while let (Some(piece), Some(input)) = (child.feeding.front_mut(), &child.input) {
            if piece.is_empty() {
                child.input = None;
            } else {
                match rustix::io::write(input, piece) {
                    Ok(count) if count < piece.len() => {
                        piece.drain(..count);
                        continue;
                    }
                    Ok(_) => {}
                    Err(Errno::AGAIN | Errno::INTR) => break,
                    Err(_) => child.input = None,
                }
            }
            child.feeding.pop_front();
            taken = true;
        }
        if taken {
            self.report(Report::InputTaken { domain });
        }
    }

    pub(super) fn child_may_have_ended(&mut self, domain: DomainId) {
        let Some(child) = self.children.get_mut(&domain) else { return };
        match child.process.try_reap() {
            Ok(Some(ended)) => child.ended = Some(ended),
            Ok(None) => return,
            // It cannot be reaped, so nothing more will be learned of it.
            Err(_) => child.ended = Some(Ended::Signalled(0)),
        }
        self.expect_orphans();
        // What it wrote last is still in the pipes, and no more than they hold.
        for number in [1, 2] {
            while self.has_output(domain, number) {
                let before = self.reports.len();
                self.read_output(domain, number);
                if self.reports.len() == before {
                    // Somebody else still holds the pipe: a program that it started and that left its group.
                    self.close_output(domain, number);
                }
            }
        }
        self.report_end_if_complete(domain);
    }

    fn has_output(&self, domain: DomainId, number: u8) -> bool {
        self.children
            .get(&domain)
            .is_some_and(|child| child.outputs.iter().any(|output| output.number == number))
    }

    fn close_output(&mut self, domain: DomainId, number: u8) {
        if let Some(child) = self.children.get_mut(&domain) {
            child.outputs.retain(|output| output.number != number);
        }
        self.report(Report::Output { domain, stream: number, bytes: Bytes::default() });
    }

    fn report_end_if_complete(&mut self, domain: DomainId) {
        let complete = |child: &ChildRecord| child.outputs.is_empty() && child.ended.is_some();
        if !self.children.get(&domain).is_some_and(complete) {
            return;
        }
        if let Some(Some(ended)) = self.children.remove(&domain).map(|child| child.ended) {
            let exit = match ended {
                Ended::Exited(status) => Exit::Exited { status },
                Ended::Signalled(signal) => Exit::Signalled { signal },
            };
            self.report(Report::Ended { domain, exit });
        }
    }
}
