//! Steering: pausing, restarting and moving domains, and setting processor frequencies.

use std::collections::BTreeMap;
use std::time::Duration;

use tombolo_base::{DomainId, NodeId};
use tombolo_control::observation::Happening;
use tombolo_control::{Fault, Order, ProgramSpec, Reply, Request, SpawnRequest};
use tombolo_machine::image::Image;

use super::{ClientId, Core, DomainRecord, Nanos, NodeState};

const SIGKILL: u8 = 9;
const SIGTERM: u8 = 15;
/// Signals that do not resume a paused domain: those it cannot handle, or ignores by default.
const SIGCHLD: u8 = 17;
const SIGCONT: u8 = 18;
const SIGSTOP: u8 = 19;

/// Parameters to start a domain again.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) image: Image,
    pub(super) program: ProgramSpec,
}

impl Launch {
    /// Returns the memory used, without its image.
    pub(super) fn length_bytes(&self) -> usize {
        let ProgramSpec { name, arguments, environment, directory, .. } = &self.program;
        let arguments: usize = arguments.iter().map(String::len).sum();
        let environment: usize = environment.iter().map(|(name, value)| name.len() + value.len()).sum();
        arguments + environment + directory.len() + name.len()
    }

    /// Returns whether the launch can be repeated. A side stream belongs to the domain that started the
    /// original.
    fn is_repeatable(&self) -> bool {
        self.program.side.is_none()
    }

    /// Returns the request that starts it again on a node, without standard input.
    fn request(&self, node: String) -> SpawnRequest {
        let program = ProgramSpec { stdin: false, side: None, ..self.program.clone() };
        SpawnRequest { node, own_image: false, program, given: Vec::new() }
    }
}

/// A domain to be started elsewhere once it has ended.
#[derive(Debug)]
struct Move {
    client: ClientId,
    request: u32,
    to: String,
    launch: Launch,
}

/// Pending requests, and settings to be restored.
#[derive(Debug, Default)]
pub(super) struct Steering {
    moves: BTreeMap<DomainId, Move>,
    /// Unanswered orders to set frequencies.
    pending_frequencies: BTreeMap<u64, (ClientId, u32, NodeId)>,
    /// Clients whose end restores the processor frequencies of a node.
    frequency_owners: BTreeMap<NodeId, FrequencyOwner>,
    tickets: u64,
}

/// Client that sets the frequencies of a node.
#[derive(Clone, Copy, Debug)]
struct FrequencyOwner {
    client: ClientId,
    /// Whether an order was carried out, so that a setting differs from its former value.
    has_set: bool,
}

impl Steering {
    pub(super) fn resource_counts(&self) -> [(&'static str, usize); 3] {
        [
            ("domains that move", self.moves.len()),
            ("frequencies being set", self.pending_frequencies.len()),
            ("nodes with frequencies set", self.frequency_owners.len()),
        ]
    }
}

impl DomainRecord {
    /// Returns whether the machine can start the same again.
    pub(super) fn is_repeatable(&self) -> bool {
        self.observed.launch.as_ref().is_some_and(Launch::is_repeatable)
    }
}

/// Returns the answer to a request that started a domain.
pub(super) fn start_reply(request: u32, domain: DomainId) -> Reply {
    match (request >> 24) as u16 {
        Request::REPEAT => Reply::Repeat { domain },
        Request::MOVE_TO => Reply::MoveTo { domain },
        _ => Reply::Spawn { domain },
    }
}

impl Core {
    /// Returns a living domain that the machine started under a kernel, so that it can be stopped and
    /// resumed.
    fn pausable_domain(&self, domain: DomainId) -> Result<&DomainRecord, Fault> {
        let record = self.managed_domain(domain)?;
        let node = self.machine.node(domain.node());
        if node.is_some_and(|node| node.as_bare().is_some()) {
            let why = format!(
                "domain {domain} runs on a board, {}, which has no kernel that could stop it and let it go on",
                self.node_name(domain.node())
            );
            return Err(Fault::Refused { why });
        }
        Ok(record)
    }

    /// Returns a living domain that the machine started.
    pub(super) fn managed_domain(&self, domain: DomainId) -> Result<&DomainRecord, Fault> {
        let record = self.domains.get(&domain).ok_or(Fault::NoSuchDomain { domain })?;
        if record.parent.is_none() && !self.relays.has(domain) {
            return Err(Fault::Refused {
                why: format!(
                    "domain {domain} was not started by the machine: stop it yourself (process {} on node {})",
                    record.pid,
                    self.node_name(domain.node())
                ),
            });
        }
        Ok(record)
    }

    /// Stops or resumes a domain.
    pub(super) fn pause(&mut self, now: Nanos, domain: DomainId, paused: bool) -> Result<Reply, Fault> {
        self.pausable_domain(domain)?;
        self.send_order(
            domain.node(),
            Order::Signal { domain, signal: if paused { SIGSTOP } else { SIGCONT } },
        );
        self.set_paused(now, domain, paused);
        Ok(Reply::Done)
    }

    /// Handles a signal sent to a domain: one that it can handle also resumes it.
    pub(super) fn note_signal(&mut self, now: Nanos, domain: DomainId, signal: u8) {
        let Ok(record) = self.pausable_domain(domain) else { return };
        match signal {
            SIGSTOP => self.set_paused(now, domain, true),
            SIGCONT => self.set_paused(now, domain, false),
            SIGKILL | SIGCHLD => {}
            _ if record.observed.paused => {
                self.send_order(domain.node(), Order::Signal { domain, signal: SIGCONT });
                self.set_paused(now, domain, false);
            }
            _ => {}
        }
    }

    fn set_paused(&mut self, now: Nanos, domain: DomainId, paused: bool) {
        let Some(record) = self.domains.get_mut(domain) else { return };
        record.observed.paused_at = Some(now);
        if std::mem::replace(&mut record.observed.paused, paused) != paused {
            let program = record.program.clone();
            let happening = if paused { Happening::DOMAIN_PAUSED } else { Happening::DOMAIN_RESUMED };
            self.domain_changed(domain);
            self.record_domain_event(domain, happening, program);
        }
    }

    /// Returns the parameters to start a living or retained domain again.
    fn launch_of(&self, domain: DomainId) -> Result<Launch, Fault> {
        let launch = match (self.domains.get(&domain), self.observing.ended.get(domain)) {
            (Some(_), _) => self.managed_domain(domain)?.observed.launch.as_ref(),
            (None, Some(ended)) => ended.launch.as_ref(),
            (None, None) => return Err(Fault::NoSuchDomain { domain }),
        };
        let why = match launch {
            Some(launch) if launch.is_repeatable() => return Ok(launch.clone()),
            Some(_) => format!(
                "domain {domain} had a side stream to the domain that started it, as ranks of an MPI job do; start the job again"
            ),
            None => {
                format!("how domain {domain} was started is no longer known; start it from its image")
            }
        };
        Err(Fault::Refused { why })
    }

    /// Starts the same program again.
    pub(super) fn repeat(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: u32,
        by: DomainId,
        domain: DomainId,
        node: Option<String>,
    ) {
        let node = node.unwrap_or_else(|| self.node_name(domain.node()));
        match self.launch_of(domain) {
            Ok(launch) => {
                self.spawn(now, client, request, by, launch.request(node), Some(Ok(launch.image)));
            }
            Err(fault) => self.answer(client, request, Err(fault)),
        }
    }

    /// Ends a domain in order to start it elsewhere.
    pub(super) fn move_to(
        &mut self,
        now: Nanos,
        (client, request): (ClientId, u32),
        by: DomainId,
        domain: DomainId,
        node: String,
        grace: Duration,
    ) {
        let launch = match self.check_move(by, domain, &node) {
            Ok(launch) => launch,
            Err(fault) => return self.answer(client, request, Err(fault)),
        };
        let signal = if grace.is_zero() { SIGKILL } else { SIGTERM };
        if let Err(fault) = self.kill(now, domain, signal, grace) {
            return self.answer(client, request, Err(fault));
        }
        self.steering.moves.insert(domain, Move { client, request, to: node, launch });
    }

    /// Checks all known preconditions before the domain is ended.
    fn check_move(&mut self, by: DomainId, domain: DomainId, to: &str) -> Result<Launch, Fault> {
        self.managed_domain(domain)?;
        let launch = self.launch_of(domain)?;
        let refused = |why: String| Err(Fault::Refused { why });
        if !launch.image.is_restartable() {
            return refused(format!(
                "the image of domain {domain}, {}, does not say that it can be ended and started again: build it with \
                 `tombolo build --restartable` if it can",
                launch.image.name()
            ));
        }
        if self.steering.moves.contains_key(&domain) {
            return refused(format!("domain {domain} is already being moved"));
        }
        if domain == by {
            return refused("a domain cannot move itself; ask from another domain".into());
        }
        let (node, target) = self.running_node(to)?;
        if node == domain.node() {
            return refused(format!("domain {domain} already runs on node {to}"));
        }
        if launch.image.program(target).is_err() {
            let (image, available) = (launch.image.name().to_owned(), launch.image.targets());
            return Err(Fault::NoBuildForIsa { image, node: to.to_owned(), isa: target, available });
        }
        self.check_node_limit(node)?;
        self.check_children_limit(by)?;
        Ok(launch)
    }

    /// Handles the end of a domain: starts it elsewhere if it is being moved.
    pub(super) fn continue_move(&mut self, domain: DomainId) {
        let Some(Move { client, request, to, launch }) = self.steering.moves.remove(&domain) else { return };
        let Some(by) = self.clients.get(&client).and_then(|record| record.domain) else { return };
        self.record_domain_event(
            domain,
            Happening::DOMAIN_MOVED,
            format!("{} to node {to}", launch.program.name),
        );
        let spawn = launch.request(to.clone());
        let started = self.try_spawn(self.now, client, request, by, spawn, Some(Ok(launch.image)));
        if let Err(fault) = started {
            let why = format!("{fault}; domain {domain}, which was to move there, has ended");
            self.answer(client, request, Err(Fault::StartFailed { node: to, why }));
        }
    }

    /// Returns the fault for a request whose domain did not start.
    pub(super) fn start_failed(&self, request: u32, node: NodeId, why: String) -> Fault {
        let moved = (request >> 24) as u16 == Request::MOVE_TO;
        let why = if moved { format!("{why}; the domain that was to move there has ended") } else { why };
        Fault::StartFailed { node: self.node_name(node), why }
    }

    /// Sets processor frequencies of a node.
    pub(super) fn set_frequency(&mut self, client: ClientId, request: u32, node: &str, setting: Frequency) {
        let id = match self.check_frequency_change(client, node, &setting) {
            Ok(id) => id,
            Err(fault) => return self.answer(client, request, Err(fault)),
        };
        self.steering.tickets += 1;
        let ticket = self.steering.tickets;
        self.steering.pending_frequencies.insert(ticket, (client, request, id));
        self.steering.frequency_owners.entry(id).or_insert(FrequencyOwner { client, has_set: false });
        let Frequency { cores, governor, min_khz, max_khz } = setting;
        self.send_order(id, Order::SetFrequency { ticket, cores, governor, min_khz, max_khz });
    }

    fn check_frequency_change(
        &mut self,
        client: ClientId,
        name: &str,
        setting: &Frequency,
    ) -> Result<NodeId, Fault> {
        let (id, _) = self.running_node(name)?;
        let refused = |why: String| Err(Fault::Refused { why });
        if self.machine.kernel_of(id) != id {
            let host = self.node_name(NodeId::HOST);
            return refused(format!(
                "node {name} uses the processors of node {host}; set their frequencies there"
            ));
        }
        if setting.governor.is_none() && setting.min_khz.is_none() && setting.max_khz.is_none() {
            return refused("no setting given; set a governor, a lowest or a highest frequency".into());
        }
        if let (Some(min), Some(max)) = (setting.min_khz, setting.max_khz)
            && min > max
        {
            return refused(format!("the lowest frequency, {min} kHz, is above the highest, {max} kHz"));
        }
        match self.steering.frequency_owners.get(&id) {
            Some(other) if other.client != client => refused(format!(
                "{} has set how fast processors of node {name} run: they are given back when it leaves",
                match self.clients.get(&other.client).and_then(|record| record.domain) {
                    Some(domain) => format!("domain {domain}"),
                    None => "another client".into(),
                }
            )),
            _ => Ok(id),
        }
    }

    /// Handles a node's result of setting processor frequencies.
    pub(super) fn frequency_set(&mut self, node: NodeId, ticket: u64, failed: Option<String>) {
        let of_node = |(_, _, of): &(ClientId, u32, NodeId)| *of == node;
        if !self.steering.pending_frequencies.get(&ticket).is_some_and(of_node) {
            return;
        }
        let Some((client, request, _)) = self.steering.pending_frequencies.remove(&ticket) else { return };
        let result = match failed {
            None => {
                if let Some(setter) = self.steering.frequency_owners.get_mut(&node) {
                    setter.has_set = true;
                }
                self.record_event(Happening::FREQUENCY_CHANGED, Some(node), None, "set");
                Ok(Reply::Done)
            }
            Some(why) => {
                self.release_unset(node);
                Err(Fault::Refused { why: format!("node {}: {why}", self.node_name(node)) })
            }
        };
        self.answer(client, request, result);
    }

    /// Releases a node's processors for other clients if the present one has set nothing and waits for
    /// nothing.
    fn release_unset(&mut self, node: NodeId) {
        let waits = self.steering.pending_frequencies.values().any(|(_, _, of)| *of == node);
        if !waits && self.steering.frequency_owners.get(&node).is_some_and(|setter| !setter.has_set) {
            self.steering.frequency_owners.remove(&node);
            // A partially failed order undoes itself; if that failed too, this retries.
            self.send_order(node, Order::RestoreFrequency);
        }
    }

    /// Restores the processor frequencies of a node from before any client set them.
    pub(super) fn restore_frequency(&mut self, client: ClientId, name: &str) -> Result<Reply, Fault> {
        let id = self.node_by_name(name)?;
        match self.steering.frequency_owners.get(&id) {
            Some(by) if by.client == client => {
                self.steering.frequency_owners.remove(&id);
                self.restore(id);
                Ok(Reply::Done)
            }
            Some(_) => Err(Fault::Refused {
                why: format!(
                    "another client has set how fast processors of node {name} run, and gives them back"
                ),
            }),
            None => Ok(Reply::Done),
        }
    }

    fn restore(&mut self, node: NodeId) {
        if self.is_up(node) {
            self.send_order(node, Order::RestoreFrequency);
            self.record_event(Happening::FREQUENCY_CHANGED, Some(node), None, "as before");
        }
    }

    /// Restores the settings of a client that is gone, and drops its requests.
    pub(super) fn steering_client_left(&mut self, client: ClientId) {
        self.steering.moves.retain(|_, moving| moving.client != client);
        self.steering.pending_frequencies.retain(|_, (by, _, _)| *by != client);
        let owned_nodes: Vec<NodeId> = self
            .steering
            .frequency_owners
            .iter()
            .filter(|(_, by)| by.client == client)
            .map(|(node, _)| *node)
            .collect();
        for node in owned_nodes {
            self.steering.frequency_owners.remove(&node);
            self.restore(node);
        }
    }

    /// Drops the settings and requests of a lost node.
    pub(super) fn steering_node_lost(&mut self, node: NodeId, cause: &str) {
        self.steering.frequency_owners.remove(&node);
        let waiting: Vec<u64> = self
            .steering
            .pending_frequencies
            .iter()
            .filter(|(_, (_, _, of))| *of == node)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in waiting {
            if let Some((client, request, _)) = self.steering.pending_frequencies.remove(&ticket) {
                let fault = Fault::NodeDown { node: self.node_name(node), cause: cause.to_owned() };
                self.answer(client, request, Err(fault));
            }
        }
    }

    pub(super) fn is_up(&self, id: NodeId) -> bool {
        self.nodes.get(usize::from(id.0)).is_some_and(|node| node.state == NodeState::Up)
    }
}

/// Requested frequencies; missing values stay unchanged.
pub(super) struct Frequency {
    /// Processors to change; all if empty.
    pub(super) cores: Vec<u16>,
    pub(super) governor: Option<String>,
    pub(super) min_khz: Option<u32>,
    pub(super) max_khz: Option<u32>,
}
