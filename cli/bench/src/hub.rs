//! `tombolo bench hub`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use tombolo::nodes::NodeKind;
use tombolo::{Child, Domain, SpawnOptions};
use tombolo_bench::suite::Absent;
use tombolo_cli_common::heard::Heard;
use tombolo_cli_common::nodes::named;
use tombolo_hub::wire::REQUEST_BYTES;
use tombolo_hubs::plan::to_word;
use tombolo_hubs::{Description, HubError, Kind, MAX_WINDOW, Task};
use tombolo_machine::Kit;

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::hub_beside::{beside, echo_pipe, echo_semaphores, peers};
use crate::hub_board::interrupts;
use crate::hub_hops::{Forwarders, HOPS, echoed, forward, name, return_all};
use crate::text::Table;

/// Measures hubs on nodes, beside the figures of OpenComRTOS and what this host has
///
/// Two processes of this host are the tasks; the hubs are on each node of --on in turn. The semaphore loop
/// is that of OpenComRTOS: two tasks and two semaphores, each task signals one and waits for the other; also
/// over 2, 3 and 8 hops, which are channels joined by processes of this host that forward messages. A pair
/// is signal and wait by one task, without contention, one after the other or both under way. Packets go
/// through a port, so that a sender waits for its receiver each time, and values of 64 bytes through a fifo
/// of 64, one by one and with 64 and 512 under way, and through one of 4096 with 512 under way, from one
/// task to one and from four to four. A board of --on has no hubs: there a program sleeps until interrupts
/// of the timer, and is measured for how late it runs.
///
/// Beside them, in the same run: a message there and back on a channel; two semaphores of the kernel
/// (eventfd), a pipe, and the standard library's channels (crossbeam's) between two threads; and, if `make
/// bench-peers` has built them, semaphores and message queues of POSIX, ZeroMQ and NNG between two
/// processes and channels of Go between two goroutines.
///
/// The JSON has, for each of `rows`: what, where, hops, bytes, count, ns_each, p50_ns and paper_ns (null
/// where the paper has none); and for each of `absent`, which was not measured: peer and why.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench hub                      hubs on this host
  tombolo bench hub --on host,arm0       and on the Arm machine
  tombolo bench hub --on bare0           interrupts on a board
  tombolo bench hub --json | jq '.rows[] | select(.what == \"semaphore loop\")'")]
pub(super) struct Options {
    /// The nodes that have the hubs, one after another
    #[arg(long, value_name = "NODE,…", value_delimiter = ',', default_value = "host")]
    on: Vec<String>,

    /// Operations for each figure
    #[arg(long, value_name = "COUNT", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(10..=10_000_000))]
    count: u64,

    /// The image of the program that serves hubs [default: that of the kit]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,

    /// Run as the other task
    #[arg(long, hide = true, value_name = "ROLE")]
    peer: Option<String>,
}

/// Sizes of packets in bytes; the paper's largest is 4 KiB.
const PACKETS: [usize; 4] = [8, 64, 512, 4096];

/// Values under way of a pipelined sender or receiver: in the small fifo and in the large one.
const WINDOW: usize = 64;
const LARGE_WINDOW: usize = MAX_WINDOW;

/// Values of the large fifo.
const LARGE_FIFO: u32 = 4096;

/// Values through the large fifo for each operation that is measured otherwise.
const LARGE_COUNT: u64 = 100;

/// Senders, and receivers, of the large fifo where many share it.
const MANY: u64 = 4;

pub(super) const FIFO_BYTES: usize = 64;

/// Operations whose time is taken together; the median of such times is little affected by other programs.
const BATCH: u64 = 10;

/// How long a server may take to serve, and a task to find its hubs.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The semaphore loop on the SCC at 533 MHz, in nanoseconds: both tasks and semaphores on one core.
const PAPER_LOOP_NS: f64 = 4900.0;

/// Throughput of a port with packets of 4 KiB between tasks on one core of the SCC, in bytes per second.
const PAPER_BYTES_PER_S: f64 = 19.8e6;

#[derive(Serialize)]
struct Report {
    rows: Vec<Row>,
    absent: Vec<Absent>,
}

#[derive(Serialize)]
pub(super) struct Row {
    what: String,
    #[serde(rename = "where")]
    place: String,
    /// Channels that a request passes; 0 for what has none.
    hops: usize,
    bytes: usize,
    count: u64,
    /// The mean.
    ns_each: f64,
    /// The median of batches of ten.
    p50_ns: f64,
    paper_ns: Option<f64>,
}

impl Row {
    /// Of what passes no channel.
    pub(super) fn of_host(self) -> Row {
        Row { hops: 0, ..self }
    }

    pub(super) fn beside_paper(self, paper_ns: f64) -> Row {
        Row { paper_ns: Some(paper_ns), ..self }
    }
}

/// What operations took.
pub(super) struct Times {
    pub(super) mean_ns: f64,
    pub(super) p50_ns: f64,
}

impl Times {
    /// Does something this number of times.
    pub(super) fn of<E>(count: u64, mut once: impl FnMut() -> Result<(), E>) -> Result<Times, E> {
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
        batches.sort_by(f64::total_cmp);
        let p50_ns = batches.get(batches.len() / 2).copied().unwrap_or(mean_ns);
        Ok(Times { mean_ns, p50_ns })
    }
}

fn hub_failure(error: HubError) -> Failure {
    match error {
        HubError::Tombolo(error) => error.into(),
        error => Failure::Other(error.into()),
    }
}

pub(super) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    if let Some(role) = &options.peer {
        return peer(context, role, options.count);
    }
    let domain = context.attach_running()?;
    let nodes = domain.nodes()?;
    let on = options.on.iter().map(|node| named(&nodes, node)).collect::<Result<Vec<_>, _>>()?;
    let kit = Kit::locate()?;
    let image = options.image.clone().unwrap_or_else(|| kit.image("hubs"));
    let heard = Heard::of(&domain);
    let mut rows = Vec::new();
    for node in on {
        if node.kind == NodeKind::Bare {
            rows.push(interrupts(&domain, &heard, &node.name, &kit.image("bounded"))?);
            continue;
        }
        let server = serve(&domain, &node.name, &image)?;
        let measured = measure(&domain, &node.name, options.count, &mut rows);
        let ended = server.wait(Duration::ZERO);
        server.kill()?;
        server.wait(PATIENCE)?;
        // Why the server ended is the better error.
        if let (Err(_), Ok(exit)) = (&measured, ended) {
            let (node, said) = (&node.name, heard.take(server.id()));
            let what = format!("the server of hubs on {node} ended: {exit}; it said: {}", said.trim());
            return Err(Failure::Other(what.into()));
        }
        measured?;
    }
    let echoed = echoed(&domain, options.count)?;
    rows.push(row("there and back", "a channel", REQUEST_BYTES, options.count, echoed).of_host());
    beside(options.count, &mut rows)?;
    let absent = peers(options.count, &mut rows)?;
    if options.json {
        return print_json(&Report { rows, absent });
    }
    let mut text = render(&rows, context.colour);
    for Absent { peer, why } in &absent {
        let _ = writeln!(text, "{peer} was not measured: {why}");
    }
    print(text)
}

fn render(rows: &[Row], colour: bool) -> String {
    let mut table = Table::new(&["WHAT", "WHERE", "HOPS>", "BYTES>", "MEAN>", "MEDIAN>", "RATE>", "PAPER>"]);
    for row in rows {
        let mut rate = format!("{:.0} /s", 1e9 / row.ns_each);
        if row.bytes > 0 {
            let _ = write!(rate, ", {:.1} MB/s", row.bytes as f64 * 1e3 / row.ns_each);
        }
        table.row([
            row.what.clone(),
            row.place.clone(),
            if row.hops == 0 { "-".to_owned() } else { row.hops.to_string() },
            if row.bytes == 0 { "-".to_owned() } else { row.bytes.to_string() },
            format!("{:.2} us", row.ns_each / 1e3),
            format!("{:.2} us", row.p50_ns / 1e3),
            rate,
            row.paper_ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.1} us", ns / 1e3)),
        ]);
    }
    table.render(colour)
}

/// A server of this benchmark's hubs on a node.
fn serve(domain: &Domain, node: &str, image: &Path) -> Result<Child, Failure> {
    let of = |name: &str, kind, capacity| Description { capacity, ..Description::new(name, kind) };
    let value_bytes = PACKETS[PACKETS.len() - 1] as u32;
    let hubs = [
        of("bench/a", Kind::Semaphore, 16),
        of("bench/b", Kind::Semaphore, 16),
        Description { value_bytes, ..of("bench/port", Kind::Port, 0) },
        of("bench/fifo", Kind::Fifo, 64),
        of("bench/large", Kind::Fifo, LARGE_FIFO),
    ];
    Ok(domain.spawn(&SpawnOptions::image(image).on(node).args(hubs.iter().map(to_word)))?)
}

/// The other task, as a process of its own.
fn start(domain: &Domain, role: &str, count: u64) -> Result<std::process::Child, Failure> {
    let program = std::env::current_exe().map_err(Failure::system("find this program"))?;
    let words = ["bench", "hub", "--peer", role, "--count", &count.to_string()].map(str::to_owned);
    let mut command = Command::new(program);
    command.args(["--machine", domain.machine_name()]).args(words).stdin(Stdio::piped());
    command.spawn().map_err(Failure::system("start the other task"))
}

pub(super) fn finish(mut peer: std::process::Child, what: &'static str) -> Result<(), Failure> {
    let status = peer.wait().map_err(Failure::system("wait for the other task"))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Other(format!("the other task of '{what}' failed").into()))
    }
}

pub(super) fn row(what: &str, place: &str, bytes: usize, count: u64, time: Times) -> Row {
    let Times { mean_ns: ns_each, p50_ns } = time;
    Row {
        what: what.to_owned(),
        place: place.to_owned(),
        hops: 1,
        bytes,
        count,
        ns_each,
        p50_ns,
        paper_ns: None,
    }
}

fn measure(domain: &Domain, node: &str, count: u64, rows: &mut Vec<Row>) -> Result<(), Failure> {
    let task = Task::attach(domain)?.within(PATIENCE);
    let pair = pairs(&task, count).map_err(hub_failure)?;
    rows.push(row("semaphore pair, one task", node, 0, count, pair));
    let together = pairs_together(&task, count).map_err(hub_failure)?;
    rows.push(row("semaphore pair, both under way", node, 0, count, together));

    let peer = start(domain, "loop:1", count)?;
    let time = signal_first(&task, 1, count).map_err(hub_failure)?;
    finish(peer, "semaphore loop")?;
    rows.push(row("semaphore loop", node, 0, count, time).beside_paper(PAPER_LOOP_NS));
    for hops in HOPS {
        let forwarders = Forwarders::start(domain, hops)?;
        let peer = start(domain, &format!("loop:{hops}"), count)?;
        let time = signal_first(&task, hops, count).map_err(hub_failure)?;
        finish(peer, "semaphore loop")?;
        forwarders.end(domain, hops)?;
        rows.push(Row { hops, ..row("semaphore loop", node, 0, count, time) });
    }

    for bytes in PACKETS {
        let peer = start(domain, &format!("port:{bytes}"), count)?;
        let time = receive(&task, "bench/port", count).map_err(hub_failure)?;
        finish(peer, "port")?;
        let paper = (bytes == 4096).then_some(bytes as f64 * 1e9 / PAPER_BYTES_PER_S);
        rows.push(Row { paper_ns: paper, ..row("port", node, bytes, count, time) });
    }
    let peer = start(domain, "fifo", count)?;
    let time = receive(&task, "bench/fifo", count).map_err(hub_failure)?;
    finish(peer, "fifo")?;
    rows.push(row("fifo of 64", node, FIFO_BYTES, count, time));
    let peer = start(domain, "pipelined", count)?;
    let time = receive_pipelined(&task, "bench/fifo", WINDOW, count).map_err(hub_failure)?;
    finish(peer, "pipelined fifo")?;
    rows.push(row("fifo of 64, pipelined", node, FIFO_BYTES, count, time));

    let count = count * LARGE_COUNT;
    let peer = start(domain, "deep", count)?;
    let time = receive_pipelined(&task, "bench/fifo", LARGE_WINDOW, count).map_err(hub_failure)?;
    finish(peer, "fifo with many under way")?;
    rows.push(row("fifo of 64, 512 under way", node, FIFO_BYTES, count, time));
    let peer = start(domain, "large", count)?;
    let time = receive_pipelined(&task, "bench/large", LARGE_WINDOW, count).map_err(hub_failure)?;
    finish(peer, "large fifo")?;
    rows.push(row("fifo of 4096, pipelined", node, FIFO_BYTES, count, time));
    let peer = start(domain, "many", count)?;
    let time = receive_by_many(domain, count).map_err(hub_failure)?;
    finish(peer, "large fifo of many")?;
    rows.push(row("fifo of 4096, 4 to 4", node, FIFO_BYTES, count, time));
    Ok(())
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

/// The answer to the signal is taken after the wait.
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
    // The other task is there when it has answered once.
    a.signal()?;
    b.wait()?;
    Times::of(count, || {
        a.signal()?;
        b.wait()
    })
}

/// From the first packet on, as in the paper.
fn receive(task: &Task, name: &str, count: u64) -> Result<Times, HubError> {
    let chan = task.chan::<Vec<u8>>(name)?;
    chan.recv()?;
    Times::of(count, || chan.recv().map(drop))
}

fn receive_pipelined(task: &Task, name: &str, window: usize, count: u64) -> Result<Times, HubError> {
    let chan = task.chan::<Vec<u8>>(name)?;
    let mut receiver = chan.receiver(window);
    receiver.recv()?;
    Times::of(count, || receiver.recv().map(drop))
}

/// Several receivers take what as many senders of the other process send. Each begins with its first value.
fn receive_by_many(domain: &Domain, count: u64) -> Result<Times, HubError> {
    let one = || {
        let task = Task::attach(domain)?.within(PATIENCE);
        receive_pipelined(&task, "bench/large", LARGE_WINDOW, count / MANY)
    };
    let times: Vec<Result<Times, HubError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..MANY).map(|_| scope.spawn(one)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let times: Vec<Times> = times.into_iter().collect::<Result<_, _>>()?;
    // They share the rate.
    let mean = |of: fn(&Times) -> f64| times.iter().map(of).sum::<f64>() / (MANY * MANY) as f64;
    Ok(Times { mean_ns: mean(|times| times.mean_ns), p50_ns: mean(|times| times.p50_ns) })
}

/// What the other process does.
fn peer(context: &Context, role: &str, count: u64) -> Result<(), Failure> {
    match role {
        "eventfd" => return echo_semaphores(count),
        "pipe" => return echo_pipe(count),
        _ => {}
    }
    let domain = context.attach_running()?;
    match role.split(',').collect::<Vec<_>>()[..] {
        ["forward", service, onward] => return forward(&domain, service, onward),
        ["echo", service] => return return_all(&domain, service),
        _ => {}
    }
    let task = Task::attach(&domain)?.within(PATIENCE);
    let done = match role.split_once(':') {
        Some(("port", bytes)) => send(&task, "bench/port", bytes.parse().unwrap_or(8), count),
        _ if role == "fifo" => send(&task, "bench/fifo", FIFO_BYTES, count),
        _ if role == "pipelined" => send_pipelined(&task, "bench/fifo", WINDOW, count),
        // What is left has to fit the fifo.
        _ if role == "deep" => send_many(&task, "bench/fifo", LARGE_WINDOW, count + WINDOW as u64),
        _ if role == "large" => send_pipelined(&task, "bench/large", LARGE_WINDOW, count),
        _ if role == "many" => send_by_many(&domain, count),
        Some((_, hops)) => wait_first(&task, hops.parse().unwrap_or(1), count),
        None => wait_first(&task, 1, count),
    };
    done.map_err(hub_failure)
}

fn wait_first(task: &Task, hops: usize, count: u64) -> Result<(), HubError> {
    let (a, b) = (task.semaphore(&name(hops, "a"))?, task.semaphore(&name(hops, "b"))?);
    for _ in 0..=count {
        a.wait()?;
        b.signal()?;
    }
    Ok(())
}

/// As many more as the receiver has asked for at its end.
fn send_pipelined(task: &Task, name: &str, window: usize, count: u64) -> Result<(), HubError> {
    send_many(task, name, window, count + window as u64)
}

fn send_many(task: &Task, name: &str, window: usize, count: u64) -> Result<(), HubError> {
    let chan = task.chan::<Vec<u8>>(name)?;
    let mut sender = chan.sender(window);
    for _ in 0..count {
        sender.send(vec![7; FIFO_BYTES])?;
    }
    Ok(sender.flush()?)
}

fn send_by_many(domain: &Domain, count: u64) -> Result<(), HubError> {
    let one = || {
        let task = Task::attach(domain)?.within(PATIENCE);
        send_pipelined(&task, "bench/large", LARGE_WINDOW, count / MANY)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..MANY).map(|_| scope.spawn(one)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })
}

fn send(task: &Task, name: &str, bytes: usize, count: u64) -> Result<(), HubError> {
    let chan = task.chan::<Vec<u8>>(name)?;
    let mut value = vec![7; bytes];
    for _ in 0..=count {
        if let Err(unsent) = chan.send(value) {
            return Err(unsent.error);
        }
        value = vec![7; bytes];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_show_rates_and_the_paper() {
        let of = |ns| Times { mean_ns: ns, p50_ns: ns };
        let loop_row = row("semaphore loop", "arm0", 0, 10, of(10_000.0));
        let port = row("port", "host", 4096, 10, of(4000.0));
        let rows = [loop_row.beside_paper(PAPER_LOOP_NS), port];
        let text = render(&rows, false);
        let lines: Vec<&str> = text.lines().collect();
        for word in ["10.00 us", "100000 /s", "4.9 us"] {
            assert!(lines[1].contains(word), "{word}: {}", lines[1]);
        }
        assert!(lines[2].contains("1024.0 MB/s"), "{}", lines[2]);
    }
}
