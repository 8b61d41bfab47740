//! Reports the job's threads, on all nodes, as those of one process ([`tombolo_omp_process`]).
//!
//! Processor times can be read only in a thread's own process, which writes them into the threads' records at
//! the hub's request. A job without report clients does none of this.

use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{env, fs};

use tombolo::{Error, Listener, Token};
use tombolo_omp_process::{ASK, NodeReport, ProcessReport, Role, State, ThreadReport, name_of};
use tombolo_omp_team::device::threads::{self, Seen};
use tombolo_omp_team::team::shown::{self, Activity};

use super::{Hub, ProcessState};
use crate::channel_options;
use crate::message::FromHub;
use crate::outbox::{Message, Outbox};

/// Maximum number of concurrent report clients.
const ASKING: usize = 8;
/// Time after which a report goes out without the measurements of processes that did not reply.
const PROCESSES_WITHIN: Duration = Duration::from_secs(2);
/// Time within which a client must send its request and take the report.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of descriptors in a report.
const DESCRIPTORS: usize = 256;

/// Function that returns the name of the program's function at an address.
pub type Name = fn(usize) -> Option<String>;

static NAME: OnceLock<Name> = OnceLock::new();

/// Sets the function that resolves names.
pub fn name_functions(name: Name) {
    let _ = NAME.set(name);
}

/// Clients that request reports.
#[derive(Default)]
pub(super) struct Asking {
    listener: Option<(Token, Listener)>,
    all: Vec<One>,
    number: u64,
}

/// Client that requests a report.
struct One {
    channel: Token,
    since: Instant,
    step: Step,
}

enum Step {
    /// It has not sent its request yet.
    Connected,
    /// Processes, by their index in the hub's list, have not measured their threads yet.
    Measured { number: u64, by: Vec<usize> },
    /// The report is being sent.
    Told(Outbox<Line>),
}

/// Encoded message of a report.
struct Line(Vec<u8>);

impl Message for Line {
    fn encode(&self) -> Vec<u8> {
        self.0.clone()
    }

    fn absorb(&mut self, _: &Self) -> bool {
        false
    }
}

impl Hub {
    /// Listens for report clients.
    pub(super) fn can_be_asked(&mut self) -> Result<(), Error> {
        let listener = channel_options().export(&self.domain, &name_of(self.domain.id()))?;
        self.asking.listener = Some((self.set.add_listener(&listener)?, listener));
        Ok(())
    }

    /// Accepts a client if the listener is that for reports; returns whether it is.
    pub(super) fn accept_asking(&mut self, listener: Token) -> bool {
        let Some((_, listener)) = self.asking.listener.as_ref().filter(|(token, _)| *token == listener)
        else {
            return false;
        };
        // A client beyond the limit finds its channel closed. Other errors concern only the client.
        if let Ok(channel) = listener.within(Duration::ZERO).accept()
            && self.asking.all.len() < ASKING
            && let Ok(channel) = self.set.add(channel)
        {
            self.asking.all.push(One { channel, since: Instant::now(), step: Step::Connected });
        }
        true
    }

    /// Handles an event of a client's channel; returns `false` if the channel is not a client's.
    pub(super) fn hear_asking(&mut self, channel: Token) -> bool {
        let Some(index) = self.asking.all.iter().position(|one| one.channel == channel) else { return false };
        let mut bytes = Vec::new();
        let heard = self.set.get_mut(channel).map(|channel| channel.try_recv_into(&mut bytes));
        match heard {
            Some(Ok(None)) => self.tell(index),
            Some(Ok(Some(_))) if bytes == ASK && matches!(self.asking.all[index].step, Step::Connected) => {
                self.measure_for(index);
            }
            _ => self.leave(index),
        }
        true
    }

    fn leave(&mut self, index: usize) {
        let one = self.asking.all.swap_remove(index);
        self.set.remove(one.channel);
    }

    /// Requests that all processes measure their threads.
    fn measure_for(&mut self, index: usize) {
        threads::measure(self.root, 0);
        self.asking.number += 1;
        let number = self.asking.number;
        let is_ready = |index: &usize| matches!(self.processes[*index].state, ProcessState::Ready { .. });
        let by: Vec<usize> = (0..self.processes.len()).filter(is_ready).collect();
        for process in by.clone() {
            let node = self.processes[process].node as u64;
            self.say(process, FromHub::Measure { number, node });
        }
        let one = &mut self.asking.all[index];
        (one.since, one.step) = (Instant::now(), Step::Measured { number, by });
        self.answer_if_measured(index, false);
    }

    /// Handles a process's reply that its threads are measured.
    pub(super) fn measured(&mut self, process: usize, of: u64) {
        let is_for = |one: &One| matches!(one.step, Step::Measured { number, .. } if number == of);
        let Some(index) = self.asking.all.iter().position(is_for) else { return };
        if let Step::Measured { by, .. } = &mut self.asking.all[index].step {
            by.retain(|other| *other != process);
        }
        self.answer_if_measured(index, false);
    }

    fn answer_if_measured(&mut self, index: usize, late: bool) {
        if !matches!(&self.asking.all[index].step, Step::Measured { by, .. } if by.is_empty() || late) {
            return;
        }
        let mut outbox = Outbox::default();
        self.report().messages().into_iter().for_each(|message| outbox.enter(Line(message)));
        let one = &mut self.asking.all[index];
        (one.since, one.step) = (Instant::now(), Step::Told(outbox));
        self.tell(index);
    }

    /// Sends a client what its channel has room for.
    fn tell(&mut self, index: usize) {
        let One { channel, step, .. } = &mut self.asking.all[index];
        if let Step::Told(outbox) = step
            && outbox.send(&mut self.set, *channel).is_err()
        {
            self.leave(index);
        }
    }

    /// Handles expired deadlines of clients and of their measurements.
    pub(super) fn look_after_asking(&mut self) {
        for index in (0..self.asking.all.len()).rev() {
            let one = &self.asking.all[index];
            match one.step {
                Step::Measured { .. } if one.since.elapsed() > PROCESSES_WITHIN => {
                    self.answer_if_measured(index, true);
                }
                _ if one.since.elapsed() > PATIENCE => self.leave(index),
                _ => {}
            }
        }
    }

    fn report(&self) -> ProcessReport {
        let words = fs::read("/proc/self/cmdline").unwrap_or_default();
        let words = words.strip_suffix(b"\0").unwrap_or(&words).split(|byte| *byte == 0);
        let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
        let node = |(number, node): (usize, &crate::place::JobNode)| {
            let of_process = |process: &super::Process| process.child.id();
            let process = self.processes.iter().find(|process| process.node == number).map(of_process);
            let domain = if number == 0 { Some(self.domain.id()) } else { process };
            NodeReport {
                name: node.name.clone(),
                isa: node.isa.name().to_owned(),
                processors: node.processors,
                domain: domain.map(|domain| domain.to_string()),
            }
        };
        ProcessReport {
            pid: std::process::id(),
            program: words.join(" "),
            folder: env::current_dir().unwrap_or_default().to_string_lossy().into_owned(),
            nodes: self.places.iter().enumerate().map(node).collect(),
            descriptors: descriptors(),
            threads: threads::seen(self.root).iter().map(thread).collect(),
        }
    }
}

/// Returns the descriptors of this process with their targets in `/proc/self/fd`.
fn descriptors() -> Vec<(u32, String)> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let mut all: Vec<(u32, String)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            // The descriptor of the directory itself is closed by now.
            let of = fs::read_link(entry.path()).ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, of.to_string_lossy().into_owned()))
        })
        .collect();
    all.sort_unstable();
    all.truncate(DESCRIPTORS);
    all
}

fn thread(seen: &Seen) -> ThreadReport {
    ThreadReport {
        number: seen.number,
        role: match seen.role {
            shown::Role::Main => Role::Main,
            shown::Role::Created => Role::Created,
            shown::Role::Worker | shown::Role::Other | shown::Role::None => Role::Worker,
        },
        member: seen.in_team,
        handle: seen.handle as u64,
        made: seen.made as usize,
        on: seen.on as usize,
        state: match (seen.activity, seen.letter) {
            (Activity::Idle, _) => State::Idle,
            (Activity::Calls, _) => State::Calling,
            _ if seen.is_asleep => State::Waiting,
            (_, Some(b'S' | b'D' | b'T' | b't')) => State::Sleeping,
            _ => State::Running,
        },
        time_ns: seen.time_ns,
        moves: seen.moves,
        function: (seen.function != 0).then(|| NAME.get()?(seen.function)).flatten(),
    }
}
