//! Executes the actions of the real agent core on simulated sockets, processes and programs.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_base::{ChannelId, DomainId};
use tombolo_control::observation::{DomainSample, NodeSample};
use tombolo_control::{Exit, Order, RegionId, Seal, StartOrder, streams};
use tombolo_monitor_core::agent::{
    Action, AgentCore, Item, OutgoingReport, PIECE_BYTES, ProgramSource, RegionSource, SampleRound, Stopped,
};

use crate::descriptor::{Actor, Fd, SocketEnd};
use crate::shared::{Event, ProcessStart, Shared};
use crate::window::WindowPlace;

/// Maximum number of messages read of one client per turn.
const BURST: usize = 16;

/// The length of every file.
const FILE_BYTES: u64 = 32 * 1024;

/// Capacity of a pipe, in packets.
pub const PIPE_PACKETS: usize = 8;

struct Child {
    pid: i32,
    life: SocketEnd,
    outputs: [Option<SocketEnd>; 2],
    input: Option<SocketEnd>,
    side: Option<Side>,
}

/// A side stream: one socket whose two directions are shut down independently.
struct Side {
    end: SocketEnd,
    reads: bool,
    writes: bool,
}

impl Child {
    /// The parser of an input.
    fn input(&self, stream: u8) -> Option<&SocketEnd> {
        match stream {
            streams::SIDE => self.side.as_ref().filter(|side| side.writes).map(|side| &side.end),
            _ => self.input.as_ref(),
        }
    }

    fn close_input(&mut self, stream: u8) {
        match stream {
            streams::SIDE => {
                if let Some(side) = &mut self.side {
                    side.writes = false;
                    // As shutting it down does.
                    side.end.hang_up();
                }
            }
            _ => self.input = None,
        }
    }
}

/// An agent in the simulation.
pub struct SimAgent {
    node: u16,
    core: AgentCore<Fd>,
    window: Option<WindowPlace>,
    clients: BTreeMap<u32, SocketEnd>,
    children: BTreeMap<DomainId, Child>,
    programs: BTreeSet<[u8; 32]>,
    lifelines: BTreeMap<ChannelId, SocketEnd>,
    pairs: BTreeMap<ChannelId, SocketEnd>,
    /// Regions whose memory it holds, and whether that is writable.
    regions: BTreeMap<RegionId, bool>,
}

impl SimAgent {
    /// Creates an agent and its listening socket.
    #[must_use]
    pub fn new(shared: &mut Shared, node: u16, window: Option<WindowPlace>) -> Self {
        shared.listeners.insert(node, Default::default());
        SimAgent {
            node,
            core: AgentCore::new(),
            window,
            clients: BTreeMap::new(),
            children: BTreeMap::new(),
            programs: BTreeSet::new(),
            lifelines: BTreeMap::new(),
            pairs: BTreeMap::new(),
            regions: BTreeMap::new(),
        }
    }

    fn actor(&self) -> Actor {
        if self.node == 0 { Actor::Root } else { Actor::Node(self.node) }
    }

    /// Returns the next report to the root.
    pub fn next_report(&mut self) -> Option<OutgoingReport<Fd>> {
        self.core.next_report()
    }

    /// Returns the ids of the processes that it started.
    #[must_use]
    pub fn pids(&self) -> Vec<i32> {
        self.children.values().map(|child| child.pid).collect()
    }

    /// The rights that it still holds, if any.
    #[must_use]
    pub fn leftovers(&self, clients: usize) -> Option<String> {
        let counts = [
            ("clients", self.clients.len().saturating_sub(clients)),
            ("children", self.children.len()),
            ("lifelines", self.lifelines.len()),
            ("pairs", self.pairs.len()),
            ("regions", self.regions.len()),
        ];
        let left: Vec<String> = counts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        (!left.is_empty())
            .then(|| left.join(", "))
            .or_else(|| leftover_entries(&self.core.resource_counts(), clients))
    }

    /// Executes an order of the root.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn execute(&mut self, shared: &mut Shared, order: Order, passed: Vec<Fd>) -> Result<(), Stopped> {
        let outcome = self.core.execute(order, passed);
        self.perform(shared);
        outcome
    }

    /// Polls all event sources, in random order.
    pub fn poll_events(&mut self, shared: &mut Shared) {
        self.core.tick(shared.now);
        self.perform(shared);
        let mut what = [0, 1, 2, 3];
        shared.random.shuffle(&mut what);
        for what in what {
            match what {
                0 => self.accept(shared),
                1 => self.serve_clients(shared),
                2 => self.poll_lifelines(shared),
                _ => self.poll_children(shared),
            }
        }
        if let Some(at) = self.core.next_tick() {
            shared.schedule_turn(self.actor(), at.saturating_sub(shared.now).max(1));
        }
    }

    fn accept(&mut self, shared: &mut Shared) {
        while let Some((pid, end)) = shared.listeners.get_mut(&self.node).and_then(|queue| queue.pop_front())
        {
            if let Some(connection) = self.core.client_connected(pid, true) {
                self.clients.insert(connection, end.owned_by(self.actor()));
            }
            self.perform(shared);
        }
    }

    fn serve_clients(&mut self, shared: &mut Shared) {
        let mut connections: Vec<u32> = self.clients.keys().copied().collect();
        shared.random.shuffle(&mut connections);
        for connection in connections {
            for _ in 0..BURST {
                let Some(end) = self.clients.get(&connection) else { break };
                if !self.core.should_read_client(connection) {
                    break;
                }
                match end.receive() {
                    Some((message, fds)) => {
                        self.core.client_message_received(connection, message, false, fds.into_iter().next());
                    }
                    None if end.is_gone() => self.core.client_disconnected(connection),
                    None => break,
                }
                self.perform(shared);
            }
            // More messages may be pending than one turn reads.
            if self.clients.get(&connection).is_some_and(|end| end.pending_packets() > 0) {
                shared.wake(self.actor());
            }
        }
    }

    fn poll_lifelines(&mut self, shared: &mut Shared) {
        let gone: Vec<ChannelId> =
            self.lifelines.iter().filter(|(_, end)| end.is_gone()).map(|(channel, _)| *channel).collect();
        for channel in gone {
            self.core.lifeline_closed(channel);
            self.perform(shared);
        }
    }

    fn poll_children(&mut self, shared: &mut Shared) {
        let mut domains: Vec<DomainId> = self.children.keys().copied().collect();
        shared.random.shuffle(&mut domains);
        for domain in domains {
            for stream in [streams::INPUT, streams::SIDE] {
                self.write_input(domain, stream);
            }
            for stream in [streams::OUTPUT, streams::ERROR, streams::SIDE] {
                while self.core.may_read_output(domain, stream) && self.read_output(domain, stream) {}
            }
            self.poll_end(domain);
            self.perform(shared);
        }
    }

    fn poll_end(&mut self, domain: DomainId) {
        let Some(child) = self.children.get(&domain).filter(|child| child.life.is_gone()) else { return };
        let exit = match child.life.receive().as_ref().map(|(bytes, _)| bytes.as_slice()) {
            Some([0, status]) => Exit::Exited { status: *status },
            Some([_, signal]) => Exit::Signalled { signal: *signal },
            _ => Exit::Signalled { signal: 0 },
        };
        self.core.child_exited(domain, exit);
        for stream in [streams::OUTPUT, streams::ERROR, streams::SIDE] {
            while self.read_output(domain, stream) {}
        }
        self.children.remove(&domain);
    }

    /// Reads one piece; at the end of the stream, closes it. Whether there was any, or the end.
    fn read_output(&mut self, domain: DomainId, stream: u8) -> bool {
        let Some(child) = self.children.get_mut(&domain) else { return false };
        let end = match stream {
            streams::SIDE => child.side.as_ref().filter(|side| side.reads).map(|side| &side.end),
            stream => child.outputs[usize::from(stream) - 1].as_ref(),
        };
        let Some(end) = end else { return false };
        match end.receive() {
            Some((bytes, _)) => {
                // The pipe has room again.
                end.ring();
                self.core.output_read(domain, stream, bytes);
            }
            None if end.is_gone() => {
                match stream {
                    streams::SIDE => child.side.iter_mut().for_each(|side| side.reads = false),
                    stream => child.outputs[usize::from(stream) - 1] = None,
                }
                self.core.output_read(domain, stream, Vec::new());
            }
            None => return false,
        }
        true
    }

    fn write_input(&mut self, domain: DomainId, stream: u8) {
        while let Some(input) = self.children.get(&domain).and_then(|child| child.input(stream))
            && let Some(piece) = self.core.next_input(domain, stream)
        {
            let count = piece.len().min(PIECE_BYTES);
            if input.is_gone() {
                return self.core.input_closed(domain, stream);
            }
            if input.unreceived_packets() >= PIPE_PACKETS {
                return;
            }
            input.send((piece[..count].to_vec(), Vec::new()));
            self.core.input_written(domain, stream, count);
        }
    }

    fn perform(&mut self, shared: &mut Shared) {
        while let Some(action) = self.core.next_action() {
            match action {
                Action::Send { connection, channel, items, message } => {
                    self.send(shared, connection, channel, items, message);
                }
                Action::Close { connection } => {
                    self.clients.remove(&connection);
                }
                Action::Keep { hash, source } => self.store_program(shared, hash, source),
                Action::Forget { hash } => {
                    self.programs.remove(&hash);
                }
                Action::Start { order } => self.start(shared, order),
                Action::Signal { domain, signal } => {
                    if let Some(child) = self.children.get(&domain) {
                        shared.schedule_after(1_000, Event::Signal { pid: child.pid, signal });
                    }
                }
                Action::WriteInput { domain, stream } => self.write_input(domain, stream),
                Action::CloseInput { domain, stream } => {
                    if let Some(child) = self.children.get_mut(&domain) {
                        child.close_input(stream);
                    }
                }
                Action::HangUp { channel } => {
                    if let Some(lifeline) = self.lifelines.get(&channel) {
                        lifeline.hang_up();
                    }
                }
                Action::CloseLifeline { channel } => {
                    self.lifelines.remove(&channel);
                }
                // Tracing is not simulated: domains have no trace page.
                Action::ReadTrace { ticket, .. } => self.core.trace_read(ticket, None),
                Action::Trace { .. } | Action::ForgetTrace { .. } => {}
                Action::MakeRegion { region, length_bytes, source } => {
                    self.make_region(shared, region, length_bytes, &source);
                }
                Action::SealRegion { region, seal } => self.seal_region(shared, region, seal),
                Action::ForgetRegion { region } => {
                    self.regions.remove(&region);
                }
                Action::Sample => self.sample(shared.now),
                Action::StartSampling | Action::StopSampling | Action::RestoreFrequency => {}
                Action::SetFrequency { ticket, .. } => {
                    self.core.frequency_set(ticket, Err("no processors are simulated".into()));
                }
            }
        }
    }

    /// Reports something about every domain, which differs from round to round.
    fn sample(&mut self, now: u64) {
        let load_of = |domain: DomainId| (domain.to_bits() ^ (now / 1_000_000_000)) as u32 % 1000;
        let sampled = |(domain, _): (DomainId, i32)| DomainSample {
            domain,
            load_permille: load_of(domain),
            resident_bytes: 1 << 20,
            threads: 1,
            stopped: false,
        };
        let domains: Vec<DomainSample> = self.core.processes().map(sampled).collect();
        let node = NodeSample {
            cores: Vec::new(),
            governors: Vec::new(),
            memory_used_bytes: domains.len() as u64 * (1 << 20),
            memory_bytes: 1 << 30,
            power: Vec::new(),
            speed: 1,
            period_ms: 0,
            cost_ppm: 0,
            own_load_permille: 0,
        };
        self.core.sampled(SampleRound { node, domains: &domains, ends: &[], cost_ns: 1000 });
    }

    fn send(
        &mut self,
        shared: &mut Shared,
        connection: u32,
        channel: ChannelId,
        items: Vec<Item<Fd>>,
        message: Vec<u8>,
    ) {
        let made: Vec<Option<Fd>> =
            items.into_iter().map(|item| self.create_attachment(shared, channel, item)).collect();
        let fds: Option<Vec<Fd>> = made.into_iter().collect();
        let Some(end) = self.clients.get(&connection) else { return };
        if end.send((message, fds.unwrap_or_default())) {
            self.core.client_message_sent(connection);
        } else {
            self.core.client_disconnected(connection);
        }
    }

    fn create_attachment(&mut self, shared: &mut Shared, channel: ChannelId, item: Item<Fd>) -> Option<Fd> {
        match item {
            Item::Passed(fd) => Some(fd),
            Item::Missing => None,
            Item::Lifeline => {
                // A monitor may be out of descriptors.
                if !shared.healed && shared.random.chance(shared.plan.faults.start / 8) {
                    self.core.lifeline_failed(channel);
                    shared.audit.rights.maps.lifeline(channel.0, None);
                    return None;
                }
                let (ours, theirs) = SocketEnd::pair(&shared.wakes);
                shared.audit.rights.maps.lifeline(channel.0, Some(theirs.mark_lifeline(channel.0)));
                self.lifelines.insert(channel, ours.owned_by(self.actor()));
                self.core.lifeline_created(channel);
                Some(Fd::SocketEnd(theirs))
            }
            Item::PairEnd => Some(Fd::SocketEnd(self.pairs.remove(&channel).unwrap_or_else(|| {
                let (first, second) = SocketEnd::pair(&shared.wakes);
                self.pairs.insert(channel, second);
                first
            }))),
            Item::WindowMemory(_) => self.window.map(Fd::Window),
            Item::Interrupt(..) | Item::SharedBell { .. } | Item::Registers(_) | Item::Ringer(..) => {
                self.window.map(|_| Fd::Bell)
            }
            Item::TracePage(_) => Some(Fd::Bell),
            // Simulated nodes are behind windows, or on the host's kernel.
            Item::LinkStream => None,
            Item::Region(region, writable) => self.region_memory(region, writable),
            Item::WindowToRead(_) => self.window.map(Fd::WindowToRead),
        }
    }

    fn make_region(
        &mut self,
        shared: &mut Shared,
        region: RegionId,
        length_bytes: u64,
        source: &RegionSource<Fd>,
    ) {
        // A kernel may be out of memory.
        let made = match source {
            _ if !shared.healed && shared.random.chance(shared.plan.faults.start / 4) => {
                Err("out of memory".to_owned())
            }
            RegionSource::Made(_) => Ok(false),
            RegionSource::File(Some(Fd::File { .. })) if length_bytes > FILE_BYTES => {
                Err(format!("make a region of {length_bytes} bytes of a file of {FILE_BYTES}"))
            }
            RegionSource::File(Some(Fd::File { writable })) => Ok(!writable),
            RegionSource::File(_) => Err("it did not arrive".to_owned()),
        };
        if let Ok(read_only) = made {
            self.regions.insert(region, !read_only);
        }
        self.core.region_made(region, made);
    }

    /// Seals as a kernel does: not while the memory is mapped for writing.
    fn seal_region(&mut self, shared: &mut Shared, region: RegionId, seal: Seal) {
        let sealed = match self.regions.get_mut(&region) {
            None => Err("it is not here".to_owned()),
            // A kernel may be out of memory for that too.
            Some(_) if !shared.healed && shared.random.chance(shared.plan.faults.start / 4) => {
                Err("out of memory".to_owned())
            }
            Some(writable) => {
                *writable = false;
                Ok(())
            }
        };
        if sealed.is_ok() && seal == Seal::Frozen {
            shared.audit.rights.on_region_frozen(region);
        }
        self.core.region_sealed(region, sealed);
    }

    /// The mapping of a domain.
    pub fn region_memory(&self, region: RegionId, writable: bool) -> Option<Fd> {
        let can_be_written = *self.regions.get(&region)?;
        // What cannot be opened so is not passed on.
        (can_be_written || !writable).then_some(Fd::Region { region, writable })
    }

    fn store_program(&mut self, shared: &mut Shared, hash: [u8; 32], source: ProgramSource<Fd>) {
        let arrived = match source {
            ProgramSource::Passed(Some(Fd::Program(passed))) => passed == hash,
            ProgramSource::Passed(_) | ProgramSource::Stream { .. } => false,
            ProgramSource::Window { offset_bytes, length_bytes } => {
                let arrived = self.copy_from_window(shared, hash, offset_bytes, length_bytes);
                self.core.program_copied(hash);
                arrived
            }
        };
        if arrived {
            self.programs.insert(hash);
        }
    }

    /// Whether the window holds the program that the root refers to.
    fn copy_from_window(&self, shared: &mut Shared, hash: [u8; 32], offset: u64, length: u64) -> bool {
        let memory = self.window.and_then(|place| shared.windows.memory(place));
        let mut bytes = vec![0; length as usize];
        if memory.is_none_or(|memory| memory.copy_out(offset as usize, &mut bytes).is_err()) {
            return false;
        }
        let isas = crate::plan::isas();
        let whole = shared.images.iter().any(|image| {
            isas.iter().any(|isa| {
                image.program(*isa).is_ok_and(|program| program.sha256 == hash && program.bytes == bytes)
            })
        });
        if !whole {
            shared.audit.fail(format!("a program did not arrive whole in the window of node {}", self.node));
        }
        whole
    }

    fn start(&mut self, shared: &mut Shared, order: StartOrder) {
        let domain = order.domain;
        if !self.programs.contains(&order.build) {
            return self.core.child_start_failed(domain, "it did not arrive".into());
        }
        if !shared.healed && shared.random.chance(shared.plan.faults.start) {
            return self.core.child_start_failed(domain, "out of memory".into());
        }
        let pid = shared.pid();
        let pair = || SocketEnd::pair(&shared.wakes);
        let (life, their_life) = pair();
        let ((out, their_out), (err, their_err)) = (pair(), pair());
        let (input, their_input) = order.program.stdin.then(pair).unzip();
        let (side, their_side) = order.program.side.as_ref().map(|_| pair()).unzip();
        let actor = self.actor();
        let child = Child {
            pid,
            life: life.owned_by(actor),
            outputs: [Some(out.owned_by(actor)), Some(err.owned_by(actor))],
            input: input.map(|input| input.owned_by(actor)),
            side: side.map(|side| Side { end: side.owned_by(actor), reads: true, writes: true }),
        };
        let inputs =
            [child.input.as_ref().map(|_| streams::INPUT), child.side.as_ref().map(|_| streams::SIDE)];
        self.core.child_started(domain, pid, &inputs.into_iter().flatten().collect::<Vec<u8>>());
        self.children.insert(domain, child);
        shared.born.push(ProcessStart {
            pid,
            node: self.node,
            domain: Some(domain),
            life: Some(their_life),
            outputs: vec![their_out, their_err],
            input: their_input,
            side: their_side,
        });
    }
}

/// Returns the table entries of a monitor that do not belong to `clients` idle clients, each a domain without
/// requests.
pub fn leftover_entries(held: &[(&'static str, usize)], clients: usize) -> Option<String> {
    const OF_EACH_CLIENT: [&str; 6] =
        ["clients", "domains", "clients of names", "sessions", "trace pages", "sampled processes"];
    let due = |what: &str| if OF_EACH_CLIENT.contains(&what) { clients } else { 0 };
    let left: Vec<String> = held
        .iter()
        .filter(|(what, count)| *count > due(what))
        .map(|(what, count)| format!("{count} {what} in its tables"))
        .collect();
    (!left.is_empty()).then(|| left.join(", "))
}
