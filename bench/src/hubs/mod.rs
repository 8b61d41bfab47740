//! `tombolo bench hub`: semaphores, ports and fifos shared by tasks, compared with the figures of OpenComRTOS
//! and with the mechanisms of a host.
//!
//! Two processes of this host are the tasks: the one that calls [`run`], and one that it starts for each
//! figure, which calls [`run_member`].

mod alternatives;
mod board;
mod hops;
mod report;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tombolo::nodes::{NodeInfo, NodeKind};
use tombolo::{Child, Domain, DomainId, SpawnOptions};
use tombolo_hub::wire::REQUEST_BYTES;
use tombolo_hubs::plan::to_argument;
use tombolo_hubs::{Description, HubError, Kind, MAX_WINDOW, Task};

use crate::sample::{median, sorted};
use crate::suite::Error;
use hops::{Forwarders, HOPS, name};
pub use report::{Report, Row};

/// Options of the hub benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nodes that serve the hubs, one after another; on a board, the interrupt latency of a program is
    /// measured instead.
    pub on: Vec<NodeInfo>,
    /// Number of operations per figure.
    pub count: u64,
    /// Image of the program that serves hubs.
    pub image: PathBuf,
    /// Image of the program that measures interrupts on boards.
    pub board_image: PathBuf,
    /// Arguments that make this program call [`run_member`]; the role is appended.
    pub member_arguments: Vec<String>,
}

/// Packet sizes in bytes; the paper's largest is 4 KiB.
const PACKETS: [usize; 4] = [8, 64, 512, 4096];

/// Number of values in flight of a pipelined sender or receiver: in the small fifo and in the large one.
const WINDOW: usize = 64;
const LARGE_WINDOW: usize = MAX_WINDOW;

/// Capacity of the large fifo, in values.
const LARGE_FIFO: u32 = 4096;

/// Number of values through the large fifo per operation of other figures.
const LARGE_COUNT: u64 = 100;

/// Number of senders, and of receivers, that share the large fifo.
const MANY: u64 = 4;

const FIFO_BYTES: usize = 64;

/// Number of operations that are timed together; the median of such times is robust against other programs.
const BATCH: u64 = 10;

/// Timeout for a server to start, and for a task to find its hubs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Semaphore loop in the paper, on the SCC at 533 MHz, in nanoseconds: both tasks and semaphores on one core.
const PAPER_LOOP_NS: f64 = 4900.0;

/// Throughput of a port in the paper, with packets of 4 KiB between tasks on one core of the SCC, in bytes
/// per second.
const PAPER_BYTES_PER_S: f64 = 19.8e6;

/// Mean and median time of operations.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Times {
    mean_ns: f64,
    p50_ns: f64,
}

impl Times {
    /// Times `count` calls of a function.
    fn of<E>(count: u64, mut once: impl FnMut() -> Result<(), E>) -> Result<Times, E> {
        let begun = Instant::now();
        let mut batches = Vec::new();
        let mut left = count;
        while left > 0 {
            let (batch, at) = (left.min(BATCH), Instant::now());
            for _ in 0..batch {
                once()?;
            }
            batches.push(at.elapsed().as_nanos() as f64 / batch as f64);
            left -= batch;
        }
        let mean_ns = begun.elapsed().as_nanos() as f64 / count.max(1) as f64;
        let p50_ns = median(&sorted(batches)).unwrap_or(mean_ns);
        Ok(Times { mean_ns, p50_ns })
    }
}

/// Role of the other process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Role {
    /// Wait for one semaphore and signal the other, over this number of channels.
    Loop { hops: usize, count: u64 },
    /// Send values one by one.
    Send { hub: String, bytes: usize, count: u64 },
    /// Send values with this number in flight, from one task or several that share them.
    Pipeline { hub: String, window: usize, count: u64, tasks: u64 },
    /// Forward the messages of one service to another one.
    Forward { service: String, onward: String },
    /// Echo the messages of its only client.
    Echo { service: String },
    /// Echo standard input to standard output.
    EchoStream { bytes: usize, count: u64 },
}

/// Context for starting processes of this benchmark.
struct Bench<'a> {
    domain: &'a Domain,
    options: &'a Options,
}

impl Bench<'_> {
    /// Returns this program and its arguments for a role.
    fn member(&self, role: &Role) -> Result<(PathBuf, Vec<String>), Error> {
        let program = std::env::current_exe().map_err(Error::system("find this program"))?;
        let role = serde_json::to_string(role).map_err(|error| Error::failed(error.to_string()))?;
        Ok((program, self.options.member_arguments.iter().cloned().chain([role]).collect()))
    }

    /// Starts the other task as a separate process; `input` and `output` are its standard streams.
    fn start(&self, role: &Role, input: Stdio, output: Stdio) -> Result<std::process::Child, Error> {
        let (program, arguments) = self.member(role)?;
        let mut command = Command::new(program);
        command.args(["--machine", self.domain.machine_name()]).args(arguments).stdin(input).stdout(output);
        command.spawn().map_err(Error::system("start the other process"))
    }

    /// Measures while another process plays a role.
    fn measure_with_peer<T>(
        &self,
        role: &Role,
        measure: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let peer = self.start(role, Stdio::piped(), Stdio::inherit())?;
        let measured = measure()?;
        finish(peer, role)?;
        Ok(measured)
    }

    /// Starts a server of this benchmark's hubs on a node.
    fn serve(&self, node: &str) -> Result<Child, Error> {
        let of = |name: &str, kind, capacity| Description { capacity, ..Description::new(name, kind) };
        let value_bytes = PACKETS[PACKETS.len() - 1] as u32;
        let hubs = [
            of("bench/a", Kind::Semaphore, 16),
            of("bench/b", Kind::Semaphore, 16),
            Description { value_bytes, ..of("bench/port", Kind::Port, 0) },
            of("bench/fifo", Kind::Fifo, 64),
            of("bench/large", Kind::Fifo, LARGE_FIFO),
        ];
        let options = SpawnOptions::image(&self.options.image).on(node).args(hubs.iter().map(to_argument));
        Ok(self.domain.spawn(&options)?)
    }

    /// Measures the rows of the hubs on a node.
    fn of_node(&self, node: &str) -> Result<Vec<Row>, Error> {
        let count = self.options.count;
        let task = Task::attach(self.domain)?.within(TIMEOUT);
        let mut rows = vec![
            Row::new("semaphore pair, one task", node, 0, count, pairs(&task, count)?),
            Row::new("semaphore pair, both under way", node, 0, count, pairs_together(&task, count)?),
        ];
        let looped = |hops| {
            let role = Role::Loop { hops, count };
            let times = self.measure_with_peer(&role, || Ok(signal_first(&task, hops, count)?))?;
            Ok::<_, Error>(Row { hops, ..Row::new("semaphore loop", node, 0, count, times) })
        };
        rows.push(looped(1)?.with_paper_value(PAPER_LOOP_NS));
        for hops in HOPS {
            let forwarders = Forwarders::start(self, hops)?;
            rows.push(looped(hops)?);
            forwarders.end(self.domain, hops)?;
        }
        for (what, hub, bytes) in PACKETS.map(|bytes| ("port", "bench/port", bytes)).into_iter().chain([(
            "fifo of 64",
            "bench/fifo",
            FIFO_BYTES,
        )]) {
            let role = Role::Send { hub: hub.into(), bytes, count };
            let times = self.measure_with_peer(&role, || Ok(receive(&task, hub, count)?))?;
            let row = Row::new(what, node, bytes, count, times);
            let is_in_paper = bytes == 4096;
            let paper_ns = is_in_paper.then_some(bytes as f64 * 1e9 / PAPER_BYTES_PER_S);
            rows.push(Row { paper_ns, ..row });
        }
        let many = count * LARGE_COUNT;
        for (what, hub, window, count, tasks) in [
            ("fifo of 64, pipelined", "bench/fifo", WINDOW, count, 1),
            ("fifo of 64, 512 under way", "bench/fifo", LARGE_WINDOW, many, 1),
            ("fifo of 4096, pipelined", "bench/large", LARGE_WINDOW, many, 1),
            ("fifo of 4096, 4 to 4", "bench/large", LARGE_WINDOW, many, MANY),
        ] {
            let role = Role::Pipeline { hub: hub.into(), window, count, tasks };
            let times =
                self.measure_with_peer(&role, || receive_pipelined(self.domain, hub, window, count, tasks))?;
            rows.push(Row::new(what, node, FIFO_BYTES, count, times));
        }
        Ok(rows)
    }
}

fn finish(mut peer: std::process::Child, role: &Role) -> Result<(), Error> {
    let status = peer.wait().map_err(Error::system("wait for the other process"))?;
    if status.success() { Ok(()) } else { Err(Error::failed(format!("the other process failed: {role:?}"))) }
}

/// Measures hubs on the nodes of `options`, then the alternatives on this host. `output_of` returns the
/// output of a child of `domain`, and clears it.
///
/// # Errors
/// A program cannot be started or fails; the error has its output.
pub fn run(
    domain: &Domain,
    options: &Options,
    output_of: &dyn Fn(DomainId) -> String,
) -> Result<Report, Error> {
    let bench = Bench { domain, options };
    let mut rows = Vec::new();
    for node in &options.on {
        if node.kind == NodeKind::Bare {
            rows.push(board::interrupts(&bench, output_of, &node.name)?);
            continue;
        }
        let server = bench.serve(&node.name)?;
        let measured = bench.of_node(&node.name);
        let ended = server.wait(Duration::ZERO);
        server.kill()?;
        server.wait(TIMEOUT)?;
        // The exit of the server is the more useful error.
        if let (Err(_), Ok(exit)) = (&measured, ended) {
            let (node, output_of) = (&node.name, output_of(server.id()));
            let what = format!("the server of hubs on {node} ended: {exit}; it said: {}", output_of.trim());
            return Err(Error::failed(what));
        }
        rows.extend(measured?);
    }
    let echoed = hops::echoed(&bench)?;
    rows.push(Row::new("there and back", "a channel", REQUEST_BYTES, options.count, echoed).of_host());
    rows.extend(alternatives::of_host(&bench)?);
    let (others, absent) = alternatives::of_peers(options.count)?;
    rows.extend(others);
    Ok(Report { rows, absent })
}

/// Plays the role that the measuring process assigns to this one.
///
/// # Errors
/// A description of the failure.
pub fn run_member(domain: &Domain, role: &str) -> Result<(), String> {
    let role: Role = serde_json::from_str(role).map_err(|error| format!("no role: {error}"))?;
    play(domain, &role).map_err(|error| error.to_string())
}

fn play(domain: &Domain, role: &Role) -> Result<(), Error> {
    match role {
        Role::EchoStream { bytes, count } => alternatives::echo(*bytes, *count),
        Role::Forward { service, onward } => hops::forward(domain, service, onward),
        Role::Echo { service } => hops::return_all(domain, service),
        Role::Loop { hops, count } => Ok(wait_first(domain, *hops, *count)?),
        Role::Send { hub, bytes, count } => Ok(send(domain, hub, *bytes, *count)?),
        Role::Pipeline { hub, window, count, tasks } => {
            // Sends a surplus equal to the receiver's outstanding requests at its end; the rest must fit in
            // the small fifo.
            let surplus = if hub == "bench/fifo" { WINDOW } else { *window } as u64;
            let sent = by_many(*tasks, || send_pipelined(domain, hub, *window, count / tasks + surplus));
            Ok(sent.map(drop)?)
        }
    }
}

/// Runs a function on several threads.
fn by_many<T: Send, E: Send>(count: u64, one: impl Fn() -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(&one)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

fn pairs(task: &Task, count: u64) -> Result<Times, HubError> {
    let semaphore = task.semaphore("bench/a")?;
    semaphore.signal()?;
    semaphore.wait()?;
    Times::of(count, || {
        semaphore.signal()?;
        semaphore.wait()
    })
}

/// Measures pairs of signal and wait; the answer to the signal is received after the wait.
fn pairs_together(task: &Task, count: u64) -> Result<Times, HubError> {
    let semaphore = task.semaphore("bench/a")?;
    Times::of(count, || {
        let signal = semaphore.start_signal()?;
        semaphore.wait()?;
        signal.wait().map(drop)
    })
}

fn signal_first(task: &Task, hops: usize, count: u64) -> Result<Times, HubError> {
    let (a, b) = (task.semaphore(&name(hops, "a"))?, task.semaphore(&name(hops, "b"))?);
    // The first answer means that the other task is ready.
    a.signal()?;
    b.wait()?;
    Times::of(count, || {
        a.signal()?;
        b.wait()
    })
}

fn wait_first(domain: &Domain, hops: usize, count: u64) -> Result<(), HubError> {
    let task = Task::attach(domain)?.within(TIMEOUT);
    let (a, b) = (task.semaphore(&name(hops, "a"))?, task.semaphore(&name(hops, "b"))?);
    for _ in 0..=count {
        a.wait()?;
        b.signal()?;
    }
    Ok(())
}

/// Measures receipt from the first packet on, as in the paper.
fn receive(task: &Task, hub: &str, count: u64) -> Result<Times, HubError> {
    let chan = task.chan::<Vec<u8>>(hub)?;
    chan.recv()?;
    Times::of(count, || chan.recv().map(drop))
}

fn send(domain: &Domain, hub: &str, bytes: usize, count: u64) -> Result<(), HubError> {
    let task = Task::attach(domain)?.within(TIMEOUT);
    let chan = task.chan::<Vec<u8>>(hub)?;
    (0..=count).try_for_each(|_| chan.send(vec![7; bytes]).map_err(|unsent| unsent.error))
}

/// Measures several receivers with as many senders in the other process. Each starts timing at its first
/// value.
fn receive_pipelined(
    domain: &Domain,
    hub: &str,
    window: usize,
    count: u64,
    tasks: u64,
) -> Result<Times, Error> {
    let times = by_many(tasks, || {
        let task = Task::attach(domain)?.within(TIMEOUT);
        let chan = task.chan::<Vec<u8>>(hub)?;
        let mut receiver = chan.receiver(window);
        receiver.recv()?;
        Times::of(count / tasks, || receiver.recv().map(drop))
    });
    let times: Vec<Times> = times.map_err(|error: HubError| Error::from(error))?;
    // The receivers share the rate.
    let mean = |of: fn(&Times) -> f64| times.iter().map(of).sum::<f64>() / (tasks * tasks) as f64;
    Ok(Times { mean_ns: mean(|times| times.mean_ns), p50_ns: mean(|times| times.p50_ns) })
}

fn send_pipelined(domain: &Domain, hub: &str, window: usize, count: u64) -> Result<(), HubError> {
    let task = Task::attach(domain)?.within(TIMEOUT);
    let chan = task.chan::<Vec<u8>>(hub)?;
    let mut sender = chan.sender(window);
    for _ in 0..count {
        sender.send(vec![7; FIFO_BYTES])?;
    }
    Ok(sender.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_pass_a_command_line() {
        let role = Role::Pipeline { hub: "bench/fifo".into(), window: 64, count: 5, tasks: 1 };
        let words = serde_json::to_string(&role).expect("words");
        assert_eq!(serde_json::from_str::<Role>(&words).expect("a role"), role);
    }

    #[test]
    fn times_are_of_all_operations() {
        let mut done = 0;
        let times = Times::of(25, || -> Result<(), ()> {
            done += 1;
            Ok(())
        });
        assert!(times.is_ok_and(|times| times.mean_ns >= 0.0) && done == 25);
    }
}
