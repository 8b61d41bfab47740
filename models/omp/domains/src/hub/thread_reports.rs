//! Reports the job's threads, on all nodes, as those of one process ([`tombolo_omp_process`]).
//!
//! Processor times can be read only in a thread's own process, which writes them into the threads' records at
//! the hub's request. A job without report clients does none of this.

use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{env, fs};

use tombolo::{Error, Listener, Token};
use tombolo_omp_process::{NodeReport, ProcessReport, REPORT_REQUEST, Role, State, ThreadReport, hub_name};
use tombolo_omp_team::device::threads::{self, ThreadSnapshot};
use tombolo_omp_team::team::thread_status::{self, Activity};

use super::{Hub, ProcessState};
use crate::channel_options;
use crate::message::FromHub;
use crate::outbox::{Message, Outbox};

/// Maximum number of concurrent report clients.
const CLIENTS_MAX: usize = 8;
/// Time after which a report goes out without the measurements of processes that did not reply.
const MEASURE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time within which a client must send its request and take the report.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of descriptors in a report.
const DESCRIPTORS_MAX: usize = 256;

/// Function that returns the name of the program's function at an address.
pub type Symbolizer = fn(usize) -> Option<String>;

static SYMBOLIZER: OnceLock<Symbolizer> = OnceLock::new();

/// Sets the function that resolves names.
pub fn set_symbolizer(symbolizer: Symbolizer) {
    let _ = SYMBOLIZER.set(symbolizer);
}

/// Clients that request reports.
#[derive(Default)]
pub(super) struct ReportClients {
    listener: Option<(Token, Listener)>,
    all: Vec<Client>,
    number: u64,
}

/// Client that requests a report.
struct Client {
    channel: Token,
    since: Instant,
    state: ClientState,
}

enum ClientState {
    /// It has not sent its request yet.
    Connected,
    /// Processes, by their index in the hub's list, have not measured their threads yet.
    Measuring { number: u64, by: Vec<usize> },
    /// The report is being sent.
    Sending(Outbox<EncodedLine>),
}

/// Encoded message of a report.
struct EncodedLine(Vec<u8>);

impl Message for EncodedLine {
    fn encode(&self) -> Vec<u8> {
        self.0.clone()
    }

    fn try_merge(&mut self, _: &Self) -> bool {
        false
    }
}

impl Hub {
    /// Listens for report clients.
    pub(super) fn listen_for_report_clients(&mut self) -> Result<(), Error> {
        let listener = channel_options().export(&self.domain, &hub_name(self.domain.id()))?;
        self.report_clients.listener = Some((self.set.add_listener(&listener)?, listener));
        Ok(())
    }

    /// Accepts a client if the listener is that for reports; returns whether it is.
    pub(super) fn accept_report_client(&mut self, listener: Token) -> bool {
        let Some((_, listener)) =
            self.report_clients.listener.as_ref().filter(|(token, _)| *token == listener)
        else {
            return false;
        };
        // A client beyond the limit finds its channel closed. Other errors concern only the client.
        if let Ok(channel) = listener.within(Duration::ZERO).accept()
            && self.report_clients.all.len() < CLIENTS_MAX
            && let Ok(channel) = self.set.add(channel)
        {
            self.report_clients.all.push(Client {
                channel,
                since: Instant::now(),
                state: ClientState::Connected,
            });
        }
        true
    }

    /// Handles an event of a client's channel; returns `false` if the channel is not a client's.
    pub(super) fn handle_client_channel(&mut self, channel: Token) -> bool {
        let Some(index) = self.report_clients.all.iter().position(|client| client.channel == channel) else {
            return false;
        };
        let mut bytes = Vec::new();
        let received = self.set.get_mut(channel).map(|channel| channel.try_recv_into(&mut bytes));
        match received {
            Some(Ok(None)) => self.flush_report(index),
            Some(Ok(Some(_)))
                if bytes == REPORT_REQUEST
                    && matches!(self.report_clients.all[index].state, ClientState::Connected) =>
            {
                self.start_measurement(index);
            }
            _ => self.disconnect_client(index),
        }
        true
    }

    fn disconnect_client(&mut self, index: usize) {
        let client = self.report_clients.all.swap_remove(index);
        self.set.remove(client.channel);
    }

    /// Requests that all processes measure their threads.
    fn start_measurement(&mut self, index: usize) {
        threads::measure(self.root, 0);
        self.report_clients.number += 1;
        let number = self.report_clients.number;
        let is_ready = |index: &usize| matches!(self.processes[*index].state, ProcessState::Ready { .. });
        let by: Vec<usize> = (0..self.processes.len()).filter(is_ready).collect();
        for process in by.clone() {
            let node = self.processes[process].node as u64;
            self.send_to(process, FromHub::Measure { number, node });
        }
        let client = &mut self.report_clients.all[index];
        (client.since, client.state) = (Instant::now(), ClientState::Measuring { number, by });
        self.send_report_if_measured(index, false);
    }

    /// Handles a process's reply that its threads are measured.
    pub(super) fn handle_measured(&mut self, process: usize, of: u64) {
        let is_for =
            |client: &Client| matches!(client.state, ClientState::Measuring { number, .. } if number == of);
        let Some(index) = self.report_clients.all.iter().position(is_for) else { return };
        if let ClientState::Measuring { by, .. } = &mut self.report_clients.all[index].state {
            by.retain(|other| *other != process);
        }
        self.send_report_if_measured(index, false);
    }

    fn send_report_if_measured(&mut self, index: usize, late: bool) {
        if !matches!(&self.report_clients.all[index].state, ClientState::Measuring { by, .. } if by.is_empty() || late)
        {
            return;
        }
        let mut outbox = Outbox::default();
        self.report().to_messages().into_iter().for_each(|message| outbox.push(EncodedLine(message)));
        let client = &mut self.report_clients.all[index];
        (client.since, client.state) = (Instant::now(), ClientState::Sending(outbox));
        self.flush_report(index);
    }

    /// Sends a client what its channel has room for.
    fn flush_report(&mut self, index: usize) {
        let Client { channel, state, .. } = &mut self.report_clients.all[index];
        if let ClientState::Sending(outbox) = state
            && outbox.flush(&mut self.set, *channel).is_err()
        {
            self.disconnect_client(index);
        }
    }

    /// Handles expired deadlines of clients and of their measurements.
    pub(super) fn check_client_deadlines(&mut self) {
        for index in (0..self.report_clients.all.len()).rev() {
            let client = &self.report_clients.all[index];
            match client.state {
                ClientState::Measuring { .. } if client.since.elapsed() > MEASURE_TIMEOUT => {
                    self.send_report_if_measured(index, true);
                }
                _ if client.since.elapsed() > CLIENT_TIMEOUT => self.disconnect_client(index),
                _ => {}
            }
        }
    }

    fn report(&self) -> ProcessReport {
        let words = fs::read("/proc/self/cmdline").unwrap_or_default();
        let words = words.strip_suffix(b"\0").unwrap_or(&words).split(|byte| *byte == 0);
        let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
        let node = |(number, node): (usize, &crate::node_selection::JobNode)| {
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
            nodes: self.job_nodes.iter().enumerate().map(node).collect(),
            descriptors: descriptors(),
            threads: threads::snapshots(self.root).iter().map(thread_report).collect(),
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
    all.truncate(DESCRIPTORS_MAX);
    all
}

fn thread_report(snapshot: &ThreadSnapshot) -> ThreadReport {
    ThreadReport {
        number: snapshot.number,
        role: match snapshot.role {
            thread_status::Role::Main => Role::Main,
            thread_status::Role::Created => Role::Created,
            thread_status::Role::Worker | thread_status::Role::Other | thread_status::Role::None => {
                Role::Worker
            }
        },
        team_number: snapshot.team_number,
        handle: snapshot.pthread as u64,
        home_node: snapshot.home_node as usize,
        node: snapshot.node as usize,
        state: match (snapshot.activity, snapshot.state_letter) {
            (Activity::Idle, _) => State::Idle,
            (Activity::Calling, _) => State::Calling,
            _ if snapshot.is_asleep => State::Waiting,
            (_, Some(b'S' | b'D' | b'T' | b't')) => State::Sleeping,
            _ => State::Running,
        },
        time_ns: snapshot.time_ns,
        moves: snapshot.moves,
        function: (snapshot.function != 0).then(|| SYMBOLIZER.get()?(snapshot.function)).flatten(),
    }
}
