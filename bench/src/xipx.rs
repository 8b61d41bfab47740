//! Message devices: the communication patterns of the Xipx paper (ping-pong, ping-ping and two-to-one) by
//! message length, between processes of this host, in coherent memory and in non-coherent windows.
//!
//! Each trial is a job of new processes, each acting as a node.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tombolo::Domain;
use tombolo_xipx::{Address, Client, Device, JoinOptions, Message, Node, Server, XipxError};

use crate::members;
use crate::report::BenchReport;
use crate::table::{align, cells, missing, none, significant};

/// Summary of the paper's Figure 4.
const PAPER: &str = "\
The paper (SCC, cores at 533 MHz, mesh and memory at 800 MHz; a figure without numbers): Xipx has about 70 % of the
bandwidth of RCCE in ping-pong and of iRCCE in ping-ping; kernel threads slightly more than user threads; two-to-one is
not possible with RCCE and iRCCE, as their calls are collective, nor is ping-ping with RCCE, whose calls are synchronous.\n";

/// Timeout of one message.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Channel numbers of a trial: that of nodes with one partner, and those of the node with two.
const CHANNELS: [u16; 2] = [1, 2];

/// Communication pattern between the nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Pattern {
    /// Two nodes send in turn.
    PingPong,
    /// Two nodes send at the same time, then each receives.
    PingPing,
    /// One node plays ping-pong with two others at once.
    TwoToOnePong,
    /// One node plays ping-ping with two others at once.
    TwoToOnePing,
}

impl Pattern {
    /// All patterns of the paper.
    pub const ALL: [Pattern; 4] =
        [Pattern::PingPong, Pattern::PingPing, Pattern::TwoToOnePong, Pattern::TwoToOnePing];

    fn name(self) -> &'static str {
        ["ping-pong", "ping-ping", "two-to-one pong", "two-to-one ping"][self as usize]
    }

    fn partners(self) -> u16 {
        if matches!(self, Pattern::PingPong | Pattern::PingPing) { 1 } else { 2 }
    }

    fn at_once(self) -> bool {
        matches!(self, Pattern::PingPing | Pattern::TwoToOnePing)
    }
}

/// Path from a program to its node's device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum AccessPath {
    /// In the process that owns the device: the paper's kernel threads.
    Kernel,
    /// Through its socket: the paper's user threads.
    User,
}

/// Parameters of one trial, which runs as its own job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Communication pattern of the trial.
    pub pattern: Pattern,
    /// Path from programs to their devices.
    pub face: AccessPath,
    /// Bytes of each message.
    pub bytes: usize,
    /// Window that holds the memory; `None` for memory of this host.
    pub window: Option<String>,
    /// Duration of the trial, in ms.
    pub slice_ms: u64,
}

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Message lengths, in bytes.
    pub sizes: Vec<usize>,
    /// Windows to measure in addition to memory of this host.
    pub windows: Vec<String>,
    /// Runs of each trial; the fastest counts.
    pub rounds: u32,
    /// Duration of each trial, in ms.
    pub slice_ms: u64,
    /// Arguments that make this program call [`run_member`]; the trial is appended.
    pub member_arguments: Vec<OsString>,
    /// Timeout of one trial.
    pub timeout: Duration,
}

/// Result of a trial, reported by node 0.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(tag = "metric")]
pub struct Figure {
    /// Time per message, in ns: half a round trip of ping-pong, or a whole exchange of ping-ping, in which
    /// two messages pass at once; averaged over both partners.
    pub message_ns: f64,
    /// Payload into and out of node 0, in MB/s.
    pub megabytes: f64,
}

/// Result of a trial.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Parameters of the trial.
    pub trial: Trial,
    /// Measured figure, if the trial succeeded.
    pub figure: Option<Figure>,
    /// Reason if it failed.
    pub failed: Option<String>,
}

/// RCCE figures of the same run, for one message length.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rcce {
    /// Bytes of each message.
    pub bytes: usize,
    /// Half a round trip of RCCE's ping-pong, in ns.
    pub ping_pong_ns: Option<f64>,
    /// Exchange time of iRCCE's ping-ping, in ns.
    pub ping_ping_ns: Option<f64>,
}

/// Results of all trials.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Number of processors that the nodes share.
    pub processors: usize,
    /// Rows of the trials.
    pub rows: Vec<Row>,
    /// RCCE between two ranks of this host.
    pub rcce: Vec<Rcce>,
}

/// Runs the trials one after another. `progress` is called before each trial; `rcce` has the figures of that
/// library.
#[must_use]
pub fn run(options: &Options, rcce: Vec<Rcce>, progress: &mut dyn FnMut(&str)) -> Report {
    let mut rows = Vec::new();
    for window in std::iter::once(None).chain(options.windows.iter().cloned().map(Some)) {
        for pattern in Pattern::ALL {
            for face in [AccessPath::Kernel, AccessPath::User] {
                for bytes in options.sizes.iter().copied() {
                    let place = window.as_deref().unwrap_or("this host");
                    progress(&format!("{}, {face:?}, {bytes} bytes, memory of {place}", pattern.name()));
                    let (window, slice_ms) = (window.clone(), options.slice_ms);
                    rows.push(measure(options, Trial { pattern, face, bytes, window, slice_ms }));
                }
            }
        }
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Report { processors, rows, rcce }
}

fn measure(options: &Options, trial: Trial) -> Row {
    let nodes = u32::from(trial.pattern.partners()) + 1;
    let (arguments, timeout) = (&options.member_arguments, options.timeout);
    let all = members::repeat::<Figure>(options.rounds, "xipx", nodes, arguments, &trial, timeout);
    match all {
        Ok(mut figures) => {
            figures.sort_by(|a, b| a.message_ns.total_cmp(&b.message_ns));
            Row { trial, figure: figures.first().copied(), failed: None }
        }
        Err(why) => Row { trial, figure: None, failed: Some(why) },
    }
}

/// Runs as a node of a trial, given as JSON, and prints the figure.
///
/// # Errors
/// A description of the failure.
pub fn run_member(domain: &Domain, trial: &str) -> Result<(), String> {
    members::run_member_trial(trial, |trial| run_trial(domain, trial))
}

/// Device, opened in this process or reached through its socket.
enum End {
    Kernel(Device, Message),
    User(Client, Message),
}

impl End {
    fn send(&mut self, to: Address, bytes: &[u8]) -> Result<(), XipxError> {
        match self {
            End::Kernel(device, _) => device.send(to, bytes, TIMEOUT),
            End::User(client, _) => client.send(to, bytes),
        }
    }

    fn receive(&mut self) -> Result<&Message, XipxError> {
        match self {
            End::Kernel(device, message) => {
                device.receive_into(message, None, TIMEOUT)?;
                Ok(message)
            }
            End::User(client, message) => {
                *message = client.receive(TIMEOUT)?;
                Ok(message)
            }
        }
    }
}

fn run_trial(domain: &Domain, trial: &Trial) -> Result<Figure, Box<dyn std::error::Error>> {
    let fifo_bytes = (4 * trial.bytes + 256).next_multiple_of(128).max(16 << 10);
    let options = JoinOptions { fifo_bytes, window: trial.window.clone(), ..JoinOptions::default() };
    let node = Node::join(domain, &options)?;
    let job = domain.job()?;
    let name = format!("tombolo-bench/{}/{}", job.id(), node.number());
    if trial.face == AccessPath::User {
        let server = Server::new(node.clone(), &name)?;
        std::thread::spawn(move || server.run());
    }
    let open = |channel: u16| -> Result<End, XipxError> {
        Ok(match trial.face {
            AccessPath::Kernel => End::Kernel(node.open(Some(channel))?, Message::default()),
            AccessPath::User => End::User(Client::open(&name, Some(channel))?, Message::default()),
        })
    };
    if node.number() > 0 {
        let channel = CHANNELS[usize::from(node.number()) - 1];
        return Ok(play(&mut open(CHANNELS[0])?, Address { node: 0, channel }, trial)?);
    }
    let partners = 1..=trial.pattern.partners();
    let ends: Vec<End> =
        partners.clone().map(|partner| open(CHANNELS[usize::from(partner) - 1])).collect::<Result<_, _>>()?;
    let figures: Result<Vec<Figure>, XipxError> = std::thread::scope(|scope| {
        let lead = |(partner, mut end): (u16, End)| {
            scope.spawn(move || lead(&mut end, Address { node: partner, channel: CHANNELS[0] }, trial))
        };
        let threads: Vec<_> = partners.zip(ends).map(lead).collect();
        let ended = |_| Err(XipxError::Refused { why: "a thread panicked".to_owned() });
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(ended)).collect()
    });
    let figures = figures?;
    Ok(Figure {
        message_ns: figures.iter().map(|figure| figure.message_ns).sum::<f64>() / figures.len() as f64,
        megabytes: figures.iter().map(|figure| figure.megabytes).sum(),
    })
}

/// Sends to a partner, retrying until it has opened its device.
fn send_when_open(end: &mut End, to: Address, bytes: &[u8]) -> Result<(), XipxError> {
    let start = Instant::now();
    loop {
        match end.send(to, bytes) {
            Err(XipxError::NotOpen { .. } | XipxError::Answered { .. }) if start.elapsed() < TIMEOUT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            sent => return sent,
        }
    }
}

/// Plays node 0 with one partner: decides when the time is over and signals that in the first byte.
fn lead(end: &mut End, to: Address, trial: &Trial) -> Result<Figure, XipxError> {
    let mut bytes = vec![0; trial.bytes.max(1)];
    send_when_open(end, to, &bytes)?;
    end.receive()?;
    let slice = Duration::from_millis(trial.slice_ms);
    let (start, mut trips) = (Instant::now(), 0_u64);
    loop {
        let is_last = start.elapsed() >= slice;
        bytes.fill(trips as u8 & 0x7f);
        bytes[0] = u8::from(is_last);
        end.send(to, &bytes)?;
        let answer = end.receive()?;
        // In ping-ping the partner's message was sent concurrently and does not echo ours.
        if !trial.pattern.at_once() && answer.bytes != bytes {
            return Err(XipxError::Refused { why: "wrong bytes came back".to_owned() });
        }
        trips += 1;
        if is_last {
            break;
        }
    }
    let trip_ns = start.elapsed().as_nanos() as f64 / trips as f64;
    let message_ns = if trial.pattern.at_once() { trip_ns } else { trip_ns / 2.0 };
    Ok(Figure { message_ns, megabytes: 2.0 * trial.bytes as f64 * 1000.0 / trip_ns })
}

/// Plays a partner: answers, or sends at the same time, until told that the time is over.
fn play(end: &mut End, to: Address, trial: &Trial) -> Result<Figure, XipxError> {
    let mut bytes = end.receive()?.bytes.clone();
    end.send(to, &bytes)?;
    loop {
        if trial.pattern.at_once() {
            bytes[trial.bytes.max(1) - 1] ^= 1;
            end.send(to, &bytes)?;
            if end.receive()?.bytes[0] == 1 {
                break;
            }
        } else {
            bytes.clone_from(&end.receive()?.bytes);
            end.send(to, &bytes)?;
            if bytes[0] == 1 {
                break;
            }
        }
    }
    Ok(Figure { message_ns: 0.0, megabytes: 0.0 })
}

impl Report {
    fn figure(
        &self,
        window: &Option<String>,
        pattern: Pattern,
        face: AccessPath,
        bytes: usize,
    ) -> Option<Figure> {
        let is_it = |row: &&Row| {
            let trial = &row.trial;
            trial.window == *window && trial.pattern == pattern && trial.face == face && trial.bytes == bytes
        };
        self.rows.iter().find(is_it).and_then(|row| row.figure)
    }

    fn line(&self, window: &Option<String>, pattern: Pattern, bytes: usize) -> Vec<String> {
        let rcce = self.rcce.iter().find(|rcce| rcce.bytes == bytes && window.is_none());
        let rcce_ns = rcce.and_then(|rcce| match pattern {
            Pattern::PingPong => rcce.ping_pong_ns,
            Pattern::PingPing => rcce.ping_ping_ns,
            Pattern::TwoToOnePong | Pattern::TwoToOnePing => None,
        });
        let figure = |face| self.figure(window, pattern, face, bytes);
        let (kernel, user) = (figure(AccessPath::Kernel), figure(AccessPath::User));
        let us = |ns: Option<f64>| ns.map_or_else(none, |ns| significant(ns / 1000.0));
        let rate = |figure: Option<Figure>| figure.map_or_else(none, |figure| significant(figure.megabytes));
        let time = |figure: Option<Figure>| us(figure.map(|figure| figure.message_ns));
        let ratio = rcce_ns.zip(kernel).map(|(rcce_ns, kernel)| rcce_ns / kernel.message_ns);
        let mut row = cells(&[window.as_deref().unwrap_or("host"), pattern.name(), &bytes.to_string()]);
        row.extend([us(rcce_ns), time(kernel), time(user), rate(kernel), rate(user)]);
        row.push(ratio.map_or_else(none, significant));
        row
    }
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let mut windows: Vec<Option<String>> = self.rows.iter().map(|row| row.trial.window.clone()).collect();
        windows.dedup();
        let mut text = format!(
            "{} processors. Time of a message in us, and payload into and out of node 0 in MB/s; / RCCE: bandwidth beside \
             RCCE's or iRCCE's.\n",
            self.processors
        );
        for window in windows {
            let mut table = vec![cells(&[
                "MEMORY",
                "PATTERN",
                "BYTES",
                "RCCE us",
                "kernel us",
                "user us",
                "kernel MB/s",
                "user MB/s",
                "/ RCCE",
            ])];
            for pattern in Pattern::ALL {
                let mut sizes: Vec<usize> = self.rows.iter().map(|row| row.trial.bytes).collect();
                sizes.sort_unstable();
                sizes.dedup();
                for bytes in sizes {
                    table.push(self.line(&window, pattern, bytes));
                }
            }
            text += &align(&table);
            text += "\n";
        }
        text += PAPER;
        text += &missing(&[], &self.failures());
        text
    }

    fn failures(&self) -> Vec<String> {
        let line = |Row { trial: Trial { pattern, face, bytes, .. }, failed, .. }: &Row| {
            let why = failed.as_ref()?;
            Some(format!("{}, {face:?}, {bytes} bytes: {why}", pattern.name()))
        };
        self.rows.iter().filter_map(line).collect()
    }
}
