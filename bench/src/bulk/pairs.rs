//! Bulk data between two nodes, directly or, where they have no link, through the host.

use std::path::Path;

use tombolo::nodes::{NodeInfo, NodeKind, WindowInfo};
use tombolo::{Channel, Child, Domain, SpawnOptions};
use tombolo_platform::copy::{self, CopyLoop};

use super::nodes::{
    self, BY_MOVE, LENGTHS, RETURNS, Started, deliveries, delivery_row, flow, flow_row, right_row, rounds,
};
use crate::ring::{Error, accept, finish};
use crate::suite::{Failed, Metric, Results, Route, Row, Schedule, buffers, length};
use tombolo_bench_far::bulk::command::{self, Command};
use tombolo_bench_far::bulk::moving::memory;

/// Adds rows for every pair of `nodes`.
pub(super) fn add(
    results: &mut Results,
    (domain, image): (&Domain, &Path),
    nodes: &[&NodeInfo],
    schedule: Schedule,
    progress: &mut dyn FnMut(&str),
) {
    for (index, first) in nodes.iter().enumerate() {
        for second in &nodes[index + 1..] {
            progress(&format!("{} and {}: starting the peers", first.name, second.name));
            // If the first is a virtual machine, the second creates the memory: in the machine's window.
            let pair = if first.kind == NodeKind::Vm { [*second, *first] } else { [*first, *second] };
            let have_link = joined(domain, pair);
            let measured = match have_link {
                false => by_way_of_host(results, (domain, image), pair, schedule, progress),
                true => directly(results, (domain, image), pair, schedule, progress),
            };
            if let Err(error) = measured {
                let what = format!("bulk data between {} and {}", first.name, second.name);
                results.failed.push(Failed::new(what, &error));
            }
        }
    }
}

/// Returns whether the two can share memory; two virtual machines need a window that both have.
fn joined(domain: &Domain, pair: [&NodeInfo; 2]) -> bool {
    let both_behind_windows = pair.iter().all(|node| node.kind == NodeKind::Vm);
    let common = |window: WindowInfo| pair.iter().all(|node| window.nodes.contains(&node.id));
    !both_behind_windows || domain.windows().is_ok_and(|windows| windows.into_iter().any(common))
}

/// Measures two programs with a channel to each other; this program sends the commands and takes the times.
fn directly(
    results: &mut Results,
    (domain, image): (&Domain, &Path),
    [maker, other]: [&NodeInfo; 2],
    schedule: Schedule,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let pair = format!("bench/bulk/{}/{}/{}", domain.id(), maker.name, other.name);
    let reach = if other.kind == NodeKind::Vm { other.name.as_str() } else { "" };
    let start = |node: &NodeInfo, role: &[&str]| {
        nodes::check_node(node, image)?;
        let name = format!("{pair}/{}", node.name);
        let listener = domain.export(&name)?;
        let arguments = ["bulk-pair", &name, &pair].into_iter().chain(role.iter().copied());
        let child = domain.spawn(&SpawnOptions::image(image).on(&node.name).args(arguments))?;
        match accept(&child, |timeout| listener.within(timeout).accept()) {
            Ok(control) => Ok((child, control)),
            Err(error) => finish(&child, Err(error)),
        }
    };
    let (maker_child, maker_control): (Child, Channel) = start(maker, &[reach])?;
    let (other_child, other_control) = match start(other, &[]) {
        Ok(started) => started,
        Err(error) => return finish(&maker_child, Err(error)),
    };
    let names = [maker.name.as_str(), other.name.as_str()];
    let mut pair = Pair { names, controls: [maker_control, other_control], schedule };
    let measured = pair.lengths(results, progress).and_then(|()| {
        let [maker, other] = &mut pair.controls;
        nodes::send_bye(maker).and(nodes::send_bye(other))
    });
    // Finishes both, even if the first fails.
    let measured = finish(&maker_child, measured);
    finish(&other_child, measured)
}

struct Pair<'a> {
    names: [&'a str; 2],
    controls: [Channel; 2],
    schedule: Schedule,
}

impl Pair<'_> {
    fn lengths(&mut self, results: &mut Results, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let [maker, other] = self.names;
        for bytes in LENGTHS {
            progress(&format!("{maker} and {other}: {}", length(bytes)));
            let make = Command::Make { bytes: bytes as u64, count: buffers(bytes) as u32 };
            self.both(make, Command::Join)?;
            let schedule = self.schedule;
            let there = flow(schedule, bytes, |count| {
                self.both(Command::Give { count }, Command::Take { count }).map(|_| ())
            })?;
            results.rows.push(flow_row((maker, other), bytes, there, schedule));
            let back = flow(schedule, bytes, |count| {
                self.both(Command::Fetch { count }, Command::Give { count }).map(|_| ())
            })?;
            results.rows.push(flow_row((other, maker), bytes, back, schedule));
            let delivery = rounds(schedule, deliveries(bytes), |count| {
                let took_ps = self.both(Command::Deliver { count }, Command::Take { count })?;
                Ok::<_, Error>(took_ps as f64 / 1000.0)
            })?;
            results.rows.push(delivery_row((maker, other), BY_MOVE, bytes, delivery));
            let latency = rounds(schedule, RETURNS, |count| {
                let took_ps = self.both(Command::Lend { count }, Command::Return { count })?;
                Ok::<_, Error>(took_ps as f64 / 1000.0)
            })?;
            results.rows.push(right_row((maker, other), bytes, latency));
            self.both(Command::Drop, Command::Leave)?;
        }
        Ok(())
    }

    /// Sends each side its command and returns the maker's answer.
    fn both(&mut self, maker: Command, other: Command) -> Result<u64, Error> {
        let [maker_control, other_control] = &mut self.controls;
        // The side that waits starts first.
        command::send_command(other_control, other)?;
        command::send_command(maker_control, maker)?;
        let took_ps = command::recv_answer(maker_control)?;
        command::recv_answer(other_control)?;
        Ok(took_ps)
    }
}

/// Measures two nodes that each share a window only with this node: this program copies each buffer from one
/// window into the other.
fn by_way_of_host(
    results: &mut Results,
    at: (&Domain, &Path),
    pair: [&NodeInfo; 2],
    schedule: Schedule,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let [first, second] = pair;
    let tag = |a: &NodeInfo, b: &NodeInfo| format!("{}/{}", a.name, b.name);
    let mut near = nodes::start(at, first, &tag(first, second))?;
    let mut far = match nodes::start(at, second, &tag(second, first)) {
        Ok(started) => started,
        Err(error) => return finish(&near.child, Err(error)),
    };
    let measured = relay_lengths(results, at.0, pair, (&mut near, &mut far), (schedule, progress));
    let measured =
        measured.and_then(|()| nodes::send_bye(&mut near.control).and(nodes::send_bye(&mut far.control)));
    let measured = finish(&near.child, measured);
    finish(&far.child, measured)
}

fn relay_lengths(
    results: &mut Results,
    domain: &Domain,
    [first, second]: [&NodeInfo; 2],
    (near, far): (&mut Started, &mut Started),
    (schedule, progress): (Schedule, &mut dyn FnMut(&str)),
) -> Result<(), Error> {
    for bytes in LENGTHS {
        progress(&format!("{} and {}: {}", first.name, second.name, length(bytes)));
        let pools = [nodes::pool_for(domain, first, bytes)?, nodes::pool_for(domain, second, bytes)?];
        for (peer, pool) in [(&mut *near, &pools[0]), (&mut *far, &pools[1])] {
            command::send_command(&mut peer.control, Command::Join)?;
            peer.mover.bulk.assign(pool)?;
            command::recv_answer(&mut peer.control)?;
        }
        let [near_pool, far_pool] = [&pools[0], &pools[1]];
        let there = flow(schedule, bytes, |count| relay(bytes, (near, near_pool), (far, far_pool), count))?;
        let back = flow(schedule, bytes, |count| relay(bytes, (far, far_pool), (near, near_pool), count))?;
        for (from, to, rate) in [(first, second, there), (second, first, back)] {
            let (rate_per_s, slices) = (Some(rate), schedule.slices);
            let by = format!("by way of {}", domain.node_name());
            let title = format!("{} → {} {by}", from.name, to.name);
            let route = Some(Route { from: from.name.clone(), to: to.name.clone(), by });
            let row = super::row(title, Metric::Bandwidth { bytes });
            results.rows.push(Row { rate_per_s, slices, route, ..row });
        }
        for (peer, pool) in [(&mut *near, &pools[0]), (&mut *far, &pools[1])] {
            command::send_command(&mut peer.control, Command::Leave)?;
            peer.mover.bulk.unassign(pool)?;
            command::recv_answer(&mut peer.control)?;
        }
    }
    Ok(())
}

/// Relays buffers that one node fills and the other reads.
fn relay(
    bytes: usize,
    (from, from_pool): (&mut Started, &tombolo::Pool),
    (to, to_pool): (&mut Started, &tombolo::Pool),
    count: u64,
) -> Result<(), Error> {
    command::send_command(&mut to.control, Command::Take { count })?;
    command::send_command(&mut from.control, Command::Give { count })?;
    let ahead = from.mover.pass_empty(from_pool, count)?;
    for sequence in 0..count {
        let filled = from.mover.recv()?;
        let empty = to.mover.take(to_pool)?;
        let copied = copy::between(CopyLoop::Best, (&memory(&filled)?, 0), (&memory(&empty)?, 0), bytes);
        copied.map_err(|_| Error::Unexpected { length_bytes: bytes })?;
        to.mover.move_to(empty)?;
        if sequence + ahead < count {
            from.mover.pass(filled)?;
        }
    }
    command::recv_answer(&mut from.control)?;
    command::recv_answer(&mut to.control).map(|_| ())
}
