//! Bulk data between the host and the nodes of a machine, across whatever lies between them.

use std::path::Path;
use std::time::{Duration, Instant};

use tombolo::{
    BulkChannel, BulkOptions, Channel, ChannelOptions, Domain, NodeInfo, Pool, PoolOptions, SpawnOptions,
};

use super::command::{self, Command, PATIENCE, Way};
use super::far::{bulk_name, check, fill, memory};
use super::{copies, latency, row};
use crate::ring::{Error, accept, finish};
use crate::sample::{Latency, Rate};
use crate::suite::{Failed, Metric, Results, Row, Schedule, buffers, length};

/// Lengths, in bytes.
const LENGTHS: [usize; 5] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];

/// What a node's copies are called, after its name: within its own memory; out of the window and into it; and where it has
/// no window, out of memory that it shares and into it.
pub const OWN_WAY: &str = ": memcpy";
/// As [`OWN_WAY`].
pub const WINDOW_WAYS: [&str; 2] = [": out of the window", ": into the window"];
const MEMORY_WAYS: [&str; 2] = [": out of shared memory", ": into shared memory"];

/// Round trips of a right that are timed together.
const RETURNS: u64 = 64;

/// Adds rows for every node of the domain's machine but its own, where that runs programs beside each other; `image` is
/// `bench.tbi`, with a build of the peer for every node. A node that is down or fails does not keep the others from being
/// measured: see [`Results::failed`].
///
/// Of each, for every length: buffers that are filled on one side, moved, and read on the other, in both directions; what it
/// takes to give a right away and have it back; what the processor of each side takes to copy out of the pool and into it, and
/// within its own memory.
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
    // Boards run one program at a time, built for them, and the image holds none.
    for node in nodes.iter().filter(|node| node.name != domain.node_name() && node.kind != "bare") {
        progress(&format!("{}: starting the peer", node.name));
        if let Err(error) = measure(results, (domain, image), node, schedule, progress) {
            results.failed.push(Failed::new(format!("bulk data with {}", node.name), &error));
        }
    }
}

fn measure(
    results: &mut Results,
    (domain, image): (&Domain, &Path),
    node: &NodeInfo,
    schedule: Schedule,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    if !node.up {
        return Err(Error::NodeDown { node: node.name.clone(), cause: node.cause.clone() });
    }
    if !image.is_file() {
        return Err(Error::NoImage { path: image.to_owned() });
    }
    let name = format!("bench/bulk/{}/{}", domain.id(), node.name);
    let options = BulkOptions::default();
    let listener = domain.export(&name, &ChannelOptions::default())?;
    let bulk_listener = domain.export_bulk(&bulk_name(&name), &options)?;
    let spawn = SpawnOptions::image(image).on(&node.name).args(["bulk", &name]);
    let child = domain.spawn(&spawn)?;
    let measured = accept(&child, |timeout| listener.accept(timeout)).and_then(|control| {
        let bulk = accept(&child, |timeout| bulk_listener.accept_bulk(&options, timeout))?;
        let names = [domain.node_name(), &node.name];
        let mut near = Near { domain, node, names, control, bulk, schedule, metadata: Vec::new() };
        near.lengths(results, progress)?;
        command::tell(&mut near.control, Command::Bye)?;
        command::answered(&mut near.control).map(|_| ())
    });
    finish(&child, measured)
}

/// This side of one link.
struct Near<'a> {
    domain: &'a Domain,
    node: &'a NodeInfo,
    names: [&'a str; 2],
    control: Channel,
    bulk: BulkChannel,
    schedule: Schedule,
    metadata: Vec<u8>,
}

impl Near<'_> {
    fn lengths(&mut self, results: &mut Results, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
        for bytes in LENGTHS {
            progress(&format!("{}: {}", self.node.name, length(bytes)));
            let options = PoolOptions::new(bytes as u64, buffers(bytes) as u32);
            // A virtual machine reaches nothing but the window.
            let options =
                if self.node.kind == "vm" { options.reachable_from(&self.node.name) } else { options };
            let pool = match self.domain.create_pool(&options) {
                Ok(pool) => pool,
                Err(error) => {
                    let what = format!("a pool for {} of {}", self.node.name, length(bytes));
                    results.failed.push(Failed::new(what, &error));
                    return Ok(());
                }
            };
            self.tell(Command::Join)?;
            self.bulk.assign(&pool, PATIENCE)?;
            command::answered(&mut self.control)?;
            self.length(results, bytes, &pool)?;
            self.tell(Command::Leave)?;
            self.bulk.unassign(&pool, PATIENCE)?;
            command::answered(&mut self.control)?;
        }
        Ok(())
    }

    fn tell(&mut self, command: Command) -> Result<(), Error> {
        command::tell(&mut self.control, command)
    }

    /// Everything of one length.
    fn length(&mut self, results: &mut Results, bytes: usize, pool: &Pool) -> Result<(), Error> {
        let [own, other] = self.names.map(str::to_owned);
        let there = self.flow(bytes, |near, count| near.send(pool, count))?;
        let back = self.flow(bytes, |near, count| near.fetch(pool, count))?;
        for (title, rate) in [(format!("{own} → {other}"), there), (format!("{other} → {own}"), back)] {
            let (rate_per_s, slices) = (Some(rate), self.schedule.slices);
            results.rows.push(Row { rate_per_s, slices, ..row(title, Metric::Bandwidth { bytes }) });
        }
        let latency_ns = Some(self.returns(pool)?);
        let title = format!("{own} ↔ {other}");
        results.rows.push(Row { latency_ns, ..row(title, Metric::Transfer { bytes }) });
        let length_ns =
            u64::try_from((self.schedule.slice * self.schedule.slices).as_nanos()).unwrap_or(u64::MAX);
        for way in Way::ALL {
            self.tell(Command::Copy { way, length_ns })?;
            self.lend(pool)?;
            let far_ns = command::answered(&mut self.control)?;
            let buffer = self.bulk.take(pool, PATIENCE)?;
            let mut add = |title: String, took_ns: u64| {
                let value = Some(took_ns as f64);
                results.rows.push(Row { value, ..row(title, Metric::Copy { bytes }) });
            };
            match way {
                Way::Own => add(format!("{other}{OWN_WAY}"), far_ns),
                Way::Pull | Way::Push => {
                    let into = usize::from(way == Way::Push);
                    let which = if self.node.kind == "vm" { WINDOW_WAYS[into] } else { MEMORY_WAYS[into] };
                    add(format!("{other}{which}"), far_ns);
                    let near_ns = copies::median_ns(way, &memory(&buffer)?, length_ns)?;
                    add(format!("{own}{which} with {other}"), near_ns);
                }
            }
        }
        Ok(())
    }

    fn lend(&mut self, pool: &Pool) -> Result<(), Error> {
        let buffer = self.bulk.take(pool, PATIENCE)?;
        Ok(self.bulk.move_to(buffer, &[], PATIENCE).map_err(tombolo::Error::from)?)
    }

    /// Bytes a second of what moves so many buffers.
    fn flow(
        &mut self,
        bytes: usize,
        mut run: impl FnMut(&mut Self, u64) -> Result<(), Error>,
    ) -> Result<Rate, Error> {
        let mut timed = |near: &mut Self, count| {
            let start = Instant::now();
            run(near, count)?;
            Ok::<_, Error>(start.elapsed().max(Duration::from_nanos(1)))
        };
        timed(self, 2)?;
        let two = timed(self, 2)?;
        let count = (2.0 * self.schedule.slice.as_secs_f64() / two.as_secs_f64()) as u64;
        let count = count.clamp(2, 1_000_000);
        let (mut rates, mut total) = (Vec::new(), Duration::ZERO);
        for _ in 0..self.schedule.slices {
            let took = timed(self, count)?;
            total += took;
            rates.push((count * bytes as u64) as f64 / took.as_secs_f64());
        }
        rates.sort_unstable_by(f64::total_cmp);
        let messages = count * u64::from(self.schedule.slices);
        let mean = (messages * bytes as u64) as f64 / total.as_secs_f64();
        Ok(Rate { p50: rates[rates.len() / 2], p99: rates[0], mean, messages })
    }

    /// Fills so many buffers and moves them there, until the last is read and back.
    fn send(&mut self, pool: &Pool, count: u64) -> Result<(), Error> {
        self.tell(Command::Take { count })?;
        for sequence in 0..count {
            let buffer = self.bulk.take(pool, PATIENCE)?;
            fill(&buffer, sequence)?;
            self.bulk.move_to(buffer, &[], PATIENCE).map_err(tombolo::Error::from)?;
        }
        command::answered(&mut self.control).map(|_| ())
    }

    /// Reads so many buffers that are filled there.
    fn fetch(&mut self, pool: &Pool, count: u64) -> Result<(), Error> {
        self.tell(Command::Give { count })?;
        let ahead = u64::from(pool.count()).min(count);
        for _ in 0..ahead {
            let buffer = self.bulk.take(pool, PATIENCE)?;
            self.bulk.pass(buffer, &[], PATIENCE).map_err(tombolo::Error::from)?;
        }
        for sequence in 0..count {
            let buffer = self.bulk.recv_moved(&mut self.metadata, PATIENCE)?;
            check(&buffer, sequence)?;
            if sequence + ahead < count {
                self.bulk.pass(buffer, &[], PATIENCE).map_err(tombolo::Error::from)?;
            }
        }
        command::answered(&mut self.control).map(|_| ())
    }

    /// What it takes to give a right away and have it back.
    fn returns(&mut self, pool: &Pool) -> Result<Latency, Error> {
        // All but one are kept, so that what is taken is what came back.
        let mut kept = Vec::new();
        while kept.len() + 1 < pool.count() as usize {
            kept.push(self.bulk.take(pool, PATIENCE)?);
        }
        let (mut times_ns, start) = (Vec::new(), Instant::now());
        let enough = self.schedule.slice * self.schedule.slices;
        while times_ns.len() < 3 || start.elapsed() < enough {
            self.tell(Command::Return { count: RETURNS })?;
            // The first wakes the peer; the rest are one after the other.
            self.lend(pool)?;
            drop(self.bulk.take(pool, PATIENCE)?);
            let began = Instant::now();
            for _ in 1..RETURNS {
                self.lend(pool)?;
                drop(self.bulk.take(pool, PATIENCE)?);
            }
            times_ns.push(began.elapsed().as_nanos() as f64 / (RETURNS - 1) as f64);
            command::answered(&mut self.control)?;
        }
        Ok(latency(times_ns, RETURNS - 1))
    }
}
