//! Bulk data between the host and the nodes of a machine, across any kind of link.

use std::path::Path;
use std::time::{Duration, Instant};

use tombolo::nodes::{NodeInfo, NodeKind};
use tombolo::{BulkOptions, Channel, Child, Domain, Pool, PoolOptions, SpawnOptions};

use tombolo_bench_far::bulk::command::{self, Command, Way};
use tombolo_bench_far::bulk::copies;
use tombolo_bench_far::bulk::moving::{Mover, memory};
use tombolo_bench_far::bulk::peer::bulk_name;

use super::{latency, pairs, row};
use crate::ring::{Error, accept, finish};
use crate::sample::{Latency, Rate};
use crate::suite::{Failed, Metric, Results, Route, Row, Schedule, buffers, length};

/// Lengths of the buffers, in bytes.
pub(super) const LENGTHS: [usize; 8] =
    [64, 1 << 10, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];

/// Suffix of a node's copies in tables, after its name: within its own memory. [`WINDOW_COPY_SUFFIXES`] are
/// out of the window and into it; `MEMORY_COPY_SUFFIXES`, for nodes without a window, out of shared memory
/// and into it.
pub const OWN_COPY_SUFFIX: &str = ": memcpy";
/// Suffixes of copies through a window, like [`OWN_COPY_SUFFIX`].
pub const WINDOW_COPY_SUFFIXES: [&str; 2] = [": out of the window", ": into the window"];
const MEMORY_COPY_SUFFIXES: [&str; 2] = [": out of shared memory", ": into shared memory"];

/// Legend of a buffer that is filled, moved and read.
pub(super) const BY_MOVE: &str = "pool: move";
/// Legend of a round trip of the right to a buffer.
pub(super) const BY_RIGHT: &str = "right there and back";

/// Number of round trips of a right that are timed together.
pub(super) const RETURNS: u64 = 64;

/// Adds rows for every node of the domain's machine that can run programs concurrently, except the domain's
/// own, and for every pair of those nodes; `image` is `bench.tbi`, with a build of the peer for every node. A
/// node that is down or fails does not prevent the others from being measured: see [`Results::failed`].
///
/// For each node and length: buffers that are filled on one side, moved, and read on the other, in both
/// directions; the round trip of a right; and the time of each side's processor to copy out of the pool, into
/// it, and within its own memory. For each pair of nodes: buffers in both directions, and the right where it
/// is passed directly; two nodes without a link communicate through this program, which copies.
pub fn add(
    results: &mut Results,
    (domain, image): (&Domain, &Path),
    schedule: Schedule,
    progress: &mut dyn FnMut(&str),
) {
    let nodes = match domain.nodes() {
        Ok(nodes) => nodes,
        Err(error) => return results.failed.push(Failed::new("the nodes of the machine", &error)),
    };
    // Boards run one program at a time, and the image has no build for them.
    let nodes: Vec<&NodeInfo> =
        nodes.iter().filter(|node| node.name != domain.node_name() && node.kind != NodeKind::Bare).collect();
    for node in &nodes {
        progress(&format!("{}: starting the peer", node.name));
        if let Err(error) = measure(results, (domain, image), node, schedule, progress) {
            results.failed.push(Failed::new(format!("bulk data with {}", node.name), &error));
        }
    }
    pairs::add(results, (domain, image), &nodes, schedule, progress);
}

/// Peer started on a node, with the channels to it.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) control: Channel,
    pub(super) mover: Mover,
}

/// Checks that the peer can be started on a node.
pub(super) fn check_node(node: &NodeInfo, image: &Path) -> Result<(), Error> {
    if !node.up {
        return Err(Error::NodeDown { node: node.name.clone(), cause: node.cause.clone() });
    }
    if image.is_file() { Ok(()) } else { Err(Error::NoImage { path: image.to_owned() }) }
}

/// Starts the peer on a node; `measured` names the measured node in the names of the channels.
pub(super) fn start(
    (domain, image): (&Domain, &Path),
    node: &NodeInfo,
    measured: &str,
) -> Result<Started, Error> {
    check_node(node, image)?;
    let name = format!("bench/bulk/{}/{measured}", domain.id());
    let options = BulkOptions::default();
    let listener = domain.export(&name)?;
    let bulk_listener = options.export(domain, &bulk_name(&name))?;
    let spawn = SpawnOptions::image(image).on(&node.name).args(["bulk", &name]);
    let child = domain.spawn(&spawn)?;
    let opened = accept(&child, |timeout| listener.within(timeout).accept()).and_then(|control| {
        let bulk = accept(&child, |timeout| bulk_listener.within(timeout).accept())?;
        Ok((control, Mover::new(bulk)))
    });
    match opened {
        Ok((control, mover)) => Ok(Started { child, control, mover }),
        Err(error) => finish(&child, Err(error)),
    }
}

/// Tells the peer to end.
pub(super) fn send_bye(control: &mut Channel) -> Result<(), Error> {
    command::send_command(control, Command::Bye)?;
    command::recv_answer(control).map(|_| ())
}

/// Creates a pool, reachable from a node, for buffers of that length.
pub(super) fn pool_for(domain: &Domain, node: &NodeInfo, bytes: usize) -> Result<Pool, Error> {
    let options = PoolOptions::new(bytes as u64, buffers(bytes) as u32);
    // A virtual machine reaches only the window.
    let options = if node.kind == NodeKind::Vm { options.reachable_from(&node.name) } else { options };
    Ok(domain.create_pool(&options)?)
}

fn measure(
    results: &mut Results,
    (domain, image): (&Domain, &Path),
    node: &NodeInfo,
    schedule: Schedule,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let Started { child, control, mover } = start((domain, image), node, &node.name)?;
    let names = [domain.node_name(), &node.name];
    let mut near = Near { domain, node, names, control, mover, schedule };
    let measured = near.lengths(results, progress).and_then(|()| send_bye(&mut near.control));
    finish(&child, measured)
}

/// Near side of one link.
struct Near<'a> {
    domain: &'a Domain,
    node: &'a NodeInfo,
    names: [&'a str; 2],
    control: Channel,
    mover: Mover,
    schedule: Schedule,
}

impl Near<'_> {
    fn lengths(&mut self, results: &mut Results, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
        for bytes in LENGTHS {
            progress(&format!("{}: {}", self.node.name, length(bytes)));
            let pool = match pool_for(self.domain, self.node, bytes) {
                Ok(pool) => pool,
                Err(error) => {
                    let what = format!("a pool for {} of {}", self.node.name, length(bytes));
                    results.failed.push(Failed::new(what, &error));
                    return Ok(());
                }
            };
            self.send_command(Command::Join)?;
            self.mover.bulk.assign(&pool)?;
            command::recv_answer(&mut self.control)?;
            self.length(results, bytes, &pool)?;
            self.send_command(Command::Leave)?;
            self.mover.bulk.unassign(&pool)?;
            command::recv_answer(&mut self.control)?;
        }
        Ok(())
    }

    fn send_command(&mut self, command: Command) -> Result<(), Error> {
        command::send_command(&mut self.control, command)
    }

    /// Measures everything for one length.
    fn length(&mut self, results: &mut Results, bytes: usize, pool: &Pool) -> Result<(), Error> {
        let [own, other] = self.names;
        let there = flow(self.schedule, bytes, |count| {
            self.send_command(Command::Take { count })?;
            self.mover.give(pool, count)?;
            command::recv_answer(&mut self.control).map(|_| ())
        })?;
        results.rows.push(flow_row((own, other), bytes, there, self.schedule));
        let back = flow(self.schedule, bytes, |count| {
            self.send_command(Command::Give { count })?;
            self.mover.fetch(pool, count)?;
            command::recv_answer(&mut self.control).map(|_| ())
        })?;
        results.rows.push(flow_row((other, own), bytes, back, self.schedule));
        let delivery = self.deliveries(bytes, pool)?;
        results.rows.push(delivery_row((own, other), BY_MOVE, bytes, delivery));
        let right = self.returns(pool)?;
        results.rows.push(right_row((own, other), bytes, right));
        let length_ns =
            u64::try_from((self.schedule.slice * self.schedule.slices).as_nanos()).unwrap_or(u64::MAX);
        for way in Way::ALL {
            self.copies(results, (way, bytes), pool, length_ns)?;
        }
        Ok(())
    }

    /// Measures the copies of both sides.
    fn copies(
        &mut self,
        results: &mut Results,
        (way, bytes): (Way, usize),
        pool: &Pool,
        length_ns: u64,
    ) -> Result<(), Error> {
        let [own, other] = self.names;
        self.send_command(Command::Copy { way, length_ns })?;
        self.mover.lend(pool)?;
        let far_ps = command::recv_answer(&mut self.control)?;
        let buffer = self.mover.take(pool)?;
        let mut add = |title: String, (from, to): (&str, &str), by: &str, took_ps: u64| {
            let value = Some(took_ps as f64 / 1000.0);
            let route = Some(Route { from: from.into(), to: to.into(), by: by.into() });
            results.rows.push(Row { value, route, ..row(title, Metric::Copy { bytes }) });
        };
        if way == Way::Own {
            add(format!("{other}{OWN_COPY_SUFFIX}"), (other, other), "memcpy", far_ps);
            return Ok(());
        }
        let into = usize::from(way == Way::Push);
        let which = if self.node.kind == NodeKind::Vm {
            WINDOW_COPY_SUFFIXES[into]
        } else {
            MEMORY_COPY_SUFFIXES[into]
        };
        // The shared memory belongs to this side: data copied into it comes from the copying side.
        let (far_route, near_route) =
            if into == 1 { ((other, own), (own, other)) } else { ((own, other), (other, own)) };
        add(format!("{other}{which}"), far_route, &format!("{other} copies"), far_ps);
        let near_ps = copies::median_ps(way, &memory(&buffer)?, length_ns)?;
        add(format!("{own}{which} with {other}"), near_route, &format!("{own} copies"), near_ps);
        Ok(())
    }

    /// Measures round trips of a right.
    fn returns(&mut self, pool: &Pool) -> Result<Latency, Error> {
        rounds(self.schedule, RETURNS, |count| {
            command::send_command(&mut self.control, Command::Return { count })?;
            let took_ns = self.mover.round_trip_ns(pool, count, false)?;
            command::recv_answer(&mut self.control)?;
            Ok(took_ns)
        })
    }

    /// Measures deliveries of single buffers: filled, read by the other side and returned.
    fn deliveries(&mut self, bytes: usize, pool: &Pool) -> Result<Latency, Error> {
        rounds(self.schedule, deliveries(bytes), |count| {
            command::send_command(&mut self.control, Command::Take { count })?;
            let took_ns = self.mover.round_trip_ns(pool, count, true)?;
            command::recv_answer(&mut self.control)?;
            Ok(took_ns)
        })
    }
}

/// Returns the number of single deliveries of that length that are timed together.
pub(super) fn deliveries(bytes: usize) -> u64 {
    ((8 << 20) / bytes as u64).clamp(3, RETURNS)
}

/// Creates a row of buffers that are filled on one node, moved, and read on the other.
pub(super) fn flow_row((from, to): (&str, &str), bytes: usize, rate: Rate, schedule: Schedule) -> Row {
    let (rate_per_s, slices) = (Some(rate), schedule.slices);
    let route = Some(Route { from: from.into(), to: to.into(), by: BY_MOVE.into() });
    Row { rate_per_s, slices, route, ..row(format!("{from} → {to}"), Metric::Bandwidth { bytes }) }
}

/// Creates a row of buffers that are filled, read on the other node and returned, one at a time.
pub(super) fn delivery_row((from, to): (&str, &str), by: &str, bytes: usize, latency: Latency) -> Row {
    let route = Some(Route { from: from.into(), to: to.into(), by: by.into() });
    let title = if by == BY_MOVE { format!("{from} → {to}") } else { format!("{from} → {to}: {by}") };
    Row { latency_ns: Some(latency), route, ..row(title, Metric::Delivery { bytes }) }
}

/// Creates a row of round trips of a right.
pub(super) fn right_row((from, to): (&str, &str), bytes: usize, latency: Latency) -> Row {
    let route = Some(Route { from: from.into(), to: to.into(), by: BY_RIGHT.into() });
    let latency_ns = Some(latency);
    Row { latency_ns, route, ..row(format!("{from} ↔ {to}"), Metric::Transfer { bytes }) }
}

/// Times an operation, in nanoseconds: each sample is the mean of `count` rounds, the first of which is not
/// counted.
pub(super) fn rounds<E>(
    schedule: Schedule,
    count: u64,
    mut run: impl FnMut(u64) -> Result<f64, E>,
) -> Result<Latency, E> {
    let (mut times_ns, start) = (Vec::new(), Instant::now());
    let enough = schedule.slice * schedule.slices;
    while times_ns.len() < 3 || start.elapsed() < enough {
        times_ns.push(run(count)?);
    }
    Ok(latency(times_ns, count - 1))
}

/// Measures the bytes per second of an operation that moves a given number of buffers.
pub(super) fn flow<E>(
    schedule: Schedule,
    bytes: usize,
    mut run: impl FnMut(u64) -> Result<(), E>,
) -> Result<Rate, E> {
    let mut timed = |count| {
        let start = Instant::now();
        run(count)?;
        Ok::<_, E>(start.elapsed().max(Duration::from_nanos(1)))
    };
    // Grows until a trial takes a quarter of a slice: a shorter one is mostly start-up and wind-down.
    timed(2)?;
    let mut count = 2;
    let count = loop {
        let took = timed(count)?;
        let fitting = (count as f64 * schedule.slice.as_secs_f64() / took.as_secs_f64()) as u64;
        if 4 * took >= schedule.slice || count >= MAX_BUFFERS {
            break fitting.clamp(2, MAX_BUFFERS);
        }
        count = fitting.clamp(count + 1, 16 * count).min(MAX_BUFFERS);
    };
    let (mut rates, mut total) = (Vec::new(), Duration::ZERO);
    for _ in 0..schedule.slices {
        let took = timed(count)?;
        total += took;
        rates.push((count * bytes as u64) as f64 / took.as_secs_f64());
    }
    rates.sort_unstable_by(f64::total_cmp);
    let messages = count * u64::from(schedule.slices);
    let mean = (messages * bytes as u64) as f64 / total.as_secs_f64();
    Ok(Rate { p50: rates[rates.len() / 2], p99: rates[0], mean, messages })
}

/// Maximum number of buffers in a slice.
const MAX_BUFFERS: u64 = 1_000_000;
