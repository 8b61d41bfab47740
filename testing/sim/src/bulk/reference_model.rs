//! Reference model of the rights to buffers, fed with all messages and actions of programs. It shares no code
//! with the tables under test.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_base::ChannelId;
use tombolo_bulk::Verb;

use crate::audit::Audit;

/// Holder of a right to a buffer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Holder {
    Process(i32),
    /// In flight over this channel, to this side.
    Message(ChannelId, usize),
}

#[derive(Debug)]
struct Buffer {
    writer: Holder,
    /// Number of read rights per holder, without the writer's own.
    readers: BTreeMap<Holder, u32>,
}

/// Assignment of a pool to a channel: the offering process, and the receiving one after it accepted.
#[derive(Clone, Copy, Debug)]
struct Edge {
    from: i32,
    to: Option<i32>,
}

#[derive(Debug)]
struct Pool {
    owner: i32,
    buffers: Vec<Buffer>,
    edges: BTreeMap<ChannelId, Edge>,
    /// Processes whose access to the pool was revoked.
    revoked: BTreeSet<i32>,
}

/// State of all pools and the set of dead processes.
#[derive(Debug, Default)]
pub struct PoolModel {
    pools: BTreeMap<u64, Pool>,
    dead: BTreeSet<i32>,
    /// Number of buffer transfers that arrived.
    transfers: u64,
}

impl PoolModel {
    /// Creates a pool of a process and returns its number, which is never reused.
    pub fn create(&mut self, owner: i32, buffers: u32) -> u64 {
        let number = self.pools.len() as u64;
        let buffer = || Buffer { writer: Holder::Process(owner), readers: BTreeMap::new() };
        let buffers = (0..buffers).map(|_| buffer()).collect();
        self.pools.insert(number, Pool { owner, buffers, edges: BTreeMap::new(), revoked: BTreeSet::new() });
        number
    }

    /// Records that a process offers a pool over a channel.
    pub fn offered(&mut self, pool: u64, channel: ChannelId, from: i32) {
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.edges.insert(channel, Edge { from, to: None });
        }
    }

    /// Records that a process accepts an offered pool. Returns `false` if the offering process is dead or was
    /// itself revoked, so that the memory is unreachable.
    pub fn take_up(&mut self, pool: u64, channel: ChannelId, to: i32) -> bool {
        let Some(pool) = self.pools.get_mut(&pool) else { return false };
        let Some(edge) = pool.edges.get_mut(&channel) else { return false };
        if self.dead.contains(&edge.from) || pool.revoked.contains(&edge.from) {
            return false;
        }
        edge.to = Some(to);
        // An earlier assignment to this process may have been revoked.
        pool.revoked.remove(&to);
        true
    }

    /// Removes a pool from a channel after an orderly unassignment.
    pub fn off(&mut self, pool: u64, channel: ChannelId) {
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.edges.remove(&channel);
        }
    }

    /// Returns whether a process's access to the pool was revoked.
    #[must_use]
    pub fn is_revoked(&self, pool: u64, pid: i32) -> bool {
        self.pools.get(&pool).is_some_and(|pool| pool.revoked.contains(&pid))
    }

    /// Returns the number of buffer transfers that arrived.
    #[must_use]
    pub fn transfers(&self) -> u64 {
        self.transfers
    }

    /// Records that a process ended, or is cut off and does nothing more.
    pub fn ended(&mut self, pid: i32) {
        self.dead.insert(pid);
        for buffer in self.pools.values_mut().flat_map(|pool| &mut pool.buffers) {
            buffer.readers.remove(&Holder::Process(pid));
        }
    }

    /// Checks and records the transfer of one buffer that a channel accepted for side `to`.
    pub fn sent(
        &mut self,
        audit: &mut Audit,
        (pool, buffer): (u64, u32),
        verb: Verb,
        from: i32,
        (channel, to): (ChannelId, usize),
    ) {
        let Some(entry) = self.buffer(pool, buffer) else { return audit.fail("a transfer of no buffer") };
        let (sender, message) = (Holder::Process(from), Holder::Message(channel, to));
        let is_writer = entry.writer == sender;
        let reads = entry.readers.contains_key(&sender);
        let allowed = match verb {
            Verb::Move | Verb::Pass => is_writer && entry.readers.is_empty(),
            Verb::Share => is_writer || reads,
            Verb::Release => reads,
        };
        if !allowed {
            let what = format!("process {from} sent {verb} of buffer {buffer} of pool {pool}, but {entry:?}");
            return audit.fail(what);
        }
        match verb {
            Verb::Move | Verb::Pass => entry.writer = message,
            Verb::Share => *entry.readers.entry(message).or_default() += 1,
            Verb::Release => entry.take_reader(sender),
        }
    }

    /// Checks and records the transfer of one buffer that side `to` received and its table accepted.
    pub fn received(
        &mut self,
        audit: &mut Audit,
        (pool, buffer): (u64, u32),
        verb: Verb,
        by: i32,
        (channel, to): (ChannelId, usize),
    ) {
        self.transfers += 1;
        let Some(entry) = self.buffer(pool, buffer) else { return audit.fail("a transfer of no buffer") };
        let message = Holder::Message(channel, to);
        match verb {
            Verb::Move | Verb::Pass if entry.writer == message => entry.writer = Holder::Process(by),
            Verb::Share if entry.readers.contains_key(&message) => {
                entry.take_reader(message);
                *entry.readers.entry(Holder::Process(by)).or_default() += 1;
            }
            Verb::Release => {}
            _ => {
                let what = format!("process {by} received {verb} of buffer {buffer} of pool {pool}");
                audit.fail(format!("{what}, but {entry:?}"));
            }
        }
    }

    /// Records that a process drops a read right received over a channel whose other end is gone.
    pub fn forgot(&mut self, pool: u64, buffer: u32, pid: i32) {
        if let Some(entry) = self.buffer(pool, buffer) {
            entry.take_reader(Holder::Process(pid));
        }
    }

    /// Checks an access to a buffer that the process's table allows.
    pub fn used(&mut self, audit: &mut Audit, (pool, buffer): (u64, u32), pid: i32, writes: bool) {
        let Some(entry) = self.buffer(pool, buffer) else { return audit.fail("a use of no buffer") };
        let is_writer = entry.writer == Holder::Process(pid);
        let allowed = match writes {
            true => is_writer && entry.readers.is_empty(),
            false => is_writer || entry.readers.contains_key(&Holder::Process(pid)),
        };
        if !allowed {
            let verb = if writes { "writes" } else { "reads" };
            audit.fail(format!("process {pid} {verb} buffer {buffer} of pool {pool}, but {entry:?}"));
        }
    }

    /// Removes a pool from a channel that ended, with the read rights in flight on it.
    pub fn lost(&mut self, pool: u64, channel: ChannelId) {
        let Some(pool) = self.pools.get_mut(&pool) else { return };
        pool.edges.remove(&channel);
        for buffer in &mut pool.buffers {
            buffer.readers.retain(|holder, _| !matches!(holder, Holder::Message(on, _) if *on == channel));
        }
    }

    /// Revokes the access of the process at the other end of a channel, and of all processes that received
    /// the pool from it.
    pub fn revoke_beyond(&mut self, pool: u64, channel: ChannelId) {
        let Some(pool) = self.pools.get_mut(&pool) else { return };
        let mut beyond = vec![channel];
        while let Some(channel) = beyond.pop() {
            let Some(Edge { to: Some(to), .. }) = pool.edges.remove(&channel) else { continue };
            pool.revoked.insert(to);
            for buffer in &mut pool.buffers {
                buffer.readers.retain(|holder, _| match holder {
                    Holder::Process(pid) => *pid != to,
                    Holder::Message(on, _) => *on != channel,
                });
            }
            beyond.extend(pool.edges.iter().filter(|(_, edge)| edge.from == to).map(|(channel, _)| *channel));
        }
    }

    /// Checks that no other process can reach a buffer that its owner reclaims after the loss of a channel.
    pub fn reclaimed(&mut self, audit: &mut Audit, number: u64, buffer: u32, by: i32) {
        let Some(pool) = self.pools.get_mut(&number) else { return };
        let Some(entry) = pool.buffers.get_mut(buffer as usize) else { return };
        let reached = match entry.writer {
            Holder::Process(pid) => pid != by && !self.dead.contains(&pid) && !pool.revoked.contains(&pid),
            Holder::Message(channel, _) => pool.edges.contains_key(&channel),
        };
        if reached {
            audit.fail(format!("process {by} took back buffer {buffer} of pool {number}, but {entry:?}"));
        }
        entry.writer = Holder::Process(by);
    }

    /// Finds a buffer of a living owner that no living process holds; for use when the simulation is at rest.
    #[must_use]
    pub fn lost_buffer(&self) -> Option<String> {
        self.pools.iter().filter(|(_, pool)| !self.dead.contains(&pool.owner)).find_map(|(number, pool)| {
            let lost = pool.buffers.iter().position(|buffer| match buffer.writer {
                Holder::Process(pid) => self.dead.contains(&pid) || pool.revoked.contains(&pid),
                Holder::Message(..) => true,
            })?;
            Some(format!("buffer {lost} of pool {number} is lost: {:?}", pool.buffers[lost]))
        })
    }

    fn buffer(&mut self, pool: u64, buffer: u32) -> Option<&mut Buffer> {
        self.pools.get_mut(&pool)?.buffers.get_mut(buffer as usize)
    }
}

impl Buffer {
    fn take_reader(&mut self, holder: Holder) {
        if let Some(count) = self.readers.get_mut(&holder) {
            *count -= 1;
            if *count == 0 {
                self.readers.remove(&holder);
            }
        }
    }
}
