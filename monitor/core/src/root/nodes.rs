//! Nodes: booting, up, lost, restarted.

use std::num::NonZeroU16;
use std::time::Duration;

use tombolo_base::{DomainId, Isa, NodeId, Target};
use tombolo_control::FINGERPRINT;
use tombolo_control::observation::Happening;
use tombolo_control::{Exit, Fault, NodeInfo, NodeKind, Order, Reply, STARTING};
use tombolo_machine::{Accelerator, Limit, Node, NodeSettings};

use super::observing::truncate_text;
use super::{BOOT_TIMEOUT, ClientId, Core, Effect, Nanos, NodeRecord, NodeState, truncate_name};

impl Core {
    /// Starts every node of the machine.
    pub fn boot_all(&mut self, now: Nanos) {
        let ids: Vec<NodeId> = self.machine.nodes().iter().map(|node| node.id).collect();
        ids.into_iter().for_each(|id| self.boot(now, id));
    }

    fn boot(&mut self, now: Nanos, id: NodeId) {
        let is_attached = self.is_attached(id);
        let Some(node) = self.node(id) else { return };
        node.state = match (is_attached, &node.state) {
            (false, _) => NodeState::Booting { since: now },
            (true, NodeState::Down { cause }) if node.generation != NonZeroU16::MIN => {
                NodeState::AwaitingJoin { since: now, cause: format!("waiting for `tombolo join`; {cause}") }
            }
            (true, _) => {
                NodeState::AwaitingJoin { since: now, cause: "waiting for `tombolo join`".to_owned() }
            }
        };
        node.next_index = 1;
        node.console.restarted();
        let generation = node.generation;
        self.effects.push(Effect::Boot { node: id, generation });
        self.node_changed(id);
        if !is_attached {
            self.record_event(Happening::NODE_STARTING, Some(id), None, "");
        }
    }

    /// Records that a node's process has been started; `window` has the size and the number of doorbells of
    /// its window with the host.
    pub fn node_started(&mut self, id: NodeId, pid: i32, window: Option<(u64, u16)>) {
        let Some(node) = self.node(id) else { return };
        node.pid = pid;
        if let Some((length_bytes, vectors)) = window {
            self.own_window_created(id, length_bytes, vectors);
        }
        self.node_changed(id);
    }

    pub(super) fn node_ready(
        &mut self,
        now: Nanos,
        id: NodeId,
        (version, isa): (u32, Isa),
        cores: u16,
        pid: i32,
    ) {
        let expected = self.machine.node(id).map(|node| node.isa);
        let Some(node) = self.node(id) else { return };
        let NodeState::Booting { since } = node.state else { return };
        let mismatch = if version != FINGERPRINT {
            Some(format!(
                "its monitor speaks control protocol {version:08x}, the root's {FINGERPRINT:08x}: they are of different \
                 releases"
            ))
        } else {
            expected
                .filter(|expected| *expected != isa)
                .map(|expected| format!("its monitor is for {isa}, the node is of {expected}"))
        };
        if let Some(mismatch) = mismatch {
            self.effects.push(Effect::Destroy { node: id });
            return self.node_lost(id, &format!("{mismatch}: install command and kit of one release (in a source tree, `make kit` builds the kit)"));
        }
        node.state = NodeState::Up;
        let generation = node.generation.get();
        node.cores = cores;
        node.boot = Duration::from_nanos(now.saturating_sub(since));
        if node.pid == 0 {
            node.pid = pid;
        }
        let restarting = node.restarting.take();
        let limits = self.machine.limits();
        let order = Order::ServeNames {
            node: id,
            generation,
            records_per_domain: limits.of(Limit::NamesPerDomain),
            waits_per_domain: limits.of(Limit::WaitingPerDomain),
        };
        self.send_order(id, order);
        self.start_node_sampling(id);
        self.node_changed(id);
        self.record_event(Happening::NODE_UP, Some(id), None, "");
        if let Some((client, request)) = restarting {
            self.answer(client, request, Ok(Reply::Done));
        }
        self.trace_node_ready(id);
    }

    /// Handles the loss of a node: its process ended, or never started.
    pub fn node_lost(&mut self, id: NodeId, cause: &str) {
        let is_attached = self.is_attached(id);
        if is_attached {
            // Handle releases of this generation before it ends.
            self.apply_region_consequences();
        }
        let Some(node) = self.node(id) else { return };
        if matches!(node.state, NodeState::Down { .. }) {
            return;
        }
        let had_joined = is_attached && !matches!(node.state, NodeState::AwaitingJoin { .. });
        node.state = NodeState::Down { cause: cause.to_owned() };
        if !tombolo_base::canary!("core reuses a generation") {
            node.generation = node.generation.saturating_add(1);
        }
        (node.pid, node.cores) = (0, 0);
        node.programs.clear();
        self.release_held(id, None);
        match is_attached {
            true => self.retain_window(id),
            false => self.own_window_lost(id),
        }
        self.discard_node_samples(id);
        self.record_event(Happening::NODE_DOWN, Some(id), None, cause);
        let Some(node) = self.node(id) else { return };
        let restarting = node.restarting.take();
        if let Some((client, request)) = restarting {
            let fault = Fault::NodeDown { node: self.node_name(id), cause: cause.to_owned() };
            self.answer(client, request, Err(fault));
        }
        let clients: Vec<ClientId> = self.clients.keys().copied().filter(|(node, _)| *node == id).collect();
        clients.into_iter().for_each(|client| self.client_left(client));
        let domains: Vec<DomainId> = self.domains_of(id).collect();
        for domain in domains {
            self.domain_ended(domain, Exit::NodeLost { cause: cause.to_owned() });
        }
        self.trace_node_lost(id);
        self.steering_node_lost(id, cause);
        self.channels_lost(id);
        self.regions_lost(id, cause);
        self.remote_names_lost(id, cause);
        self.node_exports_lost(id, cause);
        if had_joined {
            self.boot(self.now, id);
        }
    }

    pub(super) fn expire_boots(&mut self, now: Nanos) {
        let late: Vec<NodeId> = self
            .machine
            .nodes()
            .iter()
            .map(|node| node.id)
            .filter(|id| match self.nodes[usize::from(id.0)].state {
                NodeState::Booting { since } => now >= since + BOOT_TIMEOUT.as_nanos() as Nanos,
                _ => false,
            })
            .collect();
        for id in late {
            self.effects.push(Effect::Destroy { node: id });
            self.node_lost(id, &self.boot_timeout_cause(id));
        }
        self.expire_joins(now);
    }

    /// Returns the reason for giving up a booting node.
    fn boot_timeout_cause(&self, id: NodeId) -> String {
        let vm = self.machine.node(id).and_then(|node| node.as_vm());
        let hint = match vm.map(|vm| vm.accelerator) {
            Some(Accelerator::Kvm) => {
                "; on a host that is itself a virtual machine KVM may hang: accelerator = \"tcg\" does without"
            }
            _ => "",
        };
        format!("it did not report within {} s{hint}", BOOT_TIMEOUT.as_secs())
    }

    /// Starts a node that is down; with `force` also one that is up or starting, which is first ended with
    /// its domains.
    pub(super) fn restart(&mut self, now: Nanos, requester: (ClientId, u32), name: &str, force: bool) {
        let (client, request) = requester;
        let Some(node) = self.machine.node_named(name) else {
            let fault = self.no_such_node(name);
            return self.answer(client, request, Err(fault));
        };
        let (id, is_host) = (node.id, node.id == NodeId::HOST);
        let state = self.nodes[usize::from(id.0)].state.clone();
        let is_down = matches!(state, NodeState::Down { .. });
        if !is_down && self.is_attached(id) {
            let why = format!("node {name} joins by itself: restart `tombolo join` on it");
            return self.answer(client, request, Err(Fault::Refused { why }));
        }
        if !is_down && (is_host || !force) {
            let why = if is_host {
                format!(
                    "node {name} is the host and cannot be restarted: take the machine down and bring it up again"
                )
            } else {
                let state = if state == NodeState::Up { "up" } else { "starting" };
                format!("node {name} is {state}: only one that is down is started again, unless it is forced")
            };
            return self.answer(client, request, Err(Fault::Refused { why }));
        }
        if !is_down {
            self.effects.push(Effect::Destroy { node: id });
            self.node_lost(id, "it was restarted by force");
        }
        // The client may have been on that node.
        if let Some(node) = self.nodes.get_mut(usize::from(id.0))
            && self.clients.contains_key(&client)
        {
            node.restarting = Some((client, request));
        }
        self.boot(now, id);
    }

    /// Returns the boot progress: whether every node is up, and the first that is down with its cause.
    #[must_use]
    pub fn boot_progress(&self) -> BootProgress {
        let mut progress = BootProgress::default();
        for node in self.list_nodes() {
            match self.nodes[usize::from(node.id.0)].state {
                NodeState::Booting { .. } => progress.booting.push(node),
                NodeState::Up => progress.up.push(node),
                NodeState::Down { .. } => progress.down.push(node),
                // The machine counts as up without it.
                NodeState::AwaitingJoin { .. } => {}
            }
        }
        progress
    }

    pub(super) fn list_nodes(&self) -> Vec<NodeInfo> {
        self.machine
            .nodes()
            .iter()
            .zip(&self.nodes)
            .map(|(node, record)| self.node_info(node, record))
            .collect()
    }

    /// Returns as many nodes, from number `from` on, as fit into a message.
    pub(super) fn page_of_nodes(&self, from: u32) -> Reply {
        let mut rest = self.machine.nodes().iter().zip(&self.nodes).skip(from as usize).peekable();
        let (mut nodes, mut length_bytes) = (Vec::new(), 0);
        while nodes.len() < MAX_PAGE
            && let Some((node, record)) = rest.next_if(|_| length_bytes < PAGE_BYTES)
        {
            let mut info = self.node_info(node, record);
            info.cause = truncate_text(info.cause, MAX_CAUSE_BYTES);
            length_bytes += INFO_BYTES + info.name.len() + info.cause.len();
            nodes.push(info);
        }
        Reply::Nodes { nodes, more: rest.peek().is_some() }
    }

    pub(super) fn node_info(&self, node: &Node, record: &NodeRecord) -> NodeInfo {
        let host = NodeId::HOST;
        NodeInfo {
            id: node.id,
            name: node.name.clone(),
            kind: kind_of(node),
            isa: node.isa,
            generation: record.generation.get(),
            up: record.state == NodeState::Up,
            cause: match &record.state {
                NodeState::Down { cause } | NodeState::AwaitingJoin { cause, .. } => cause.clone(),
                NodeState::Booting { .. } => STARTING.into(),
                NodeState::Up => String::new(),
            },
            cores: record.cores,
            domains: self.domains_of(node.id).count() as u32,
            transport: (node.id != host).then(|| self.machine.link_between(host, node.id)).flatten(),
            window_bytes: self
                .machine
                .own_window(node.id)
                .and_then(|window| self.windows[usize::from(window.id.0)].as_ref())
                .map_or((0, 0), |window| {
                    (window.allocator.allocated_bytes(), window.allocator.total_bytes())
                }),
            boot: record.boot,
            pid: record.pid,
        }
    }

    /// Returns the node of that name, which must be up, and the target of its programs.
    pub(super) fn running_node(&self, name: &str) -> Result<(NodeId, Target), Fault> {
        let node = self.machine.node_named(name).ok_or_else(|| self.no_such_node(name))?;
        match self.nodes.get(usize::from(node.id.0)).and_then(|record| record.state.down_reason()) {
            None => Ok((node.id, node.target())),
            Some(cause) => Err(Fault::NodeDown { node: name.to_owned(), cause }),
        }
    }

    /// Returns the answer to a client that names a node which the machine does not have.
    pub(super) fn no_such_node(&self, name: &str) -> Fault {
        let available = self.machine.nodes().iter().take(MAX_NAMED).map(|node| node.name.clone()).collect();
        Fault::NoSuchNode { name: truncate_name(name), available }
    }
}

/// Maximum number of nodes per page of a listing; the next constants limit their length.
const MAX_PAGE: usize = 200;
const PAGE_BYTES: usize = 48 * 1024;

/// Upper estimate of a node's length beside its name and cause.
const INFO_BYTES: usize = 128;

/// Maximum length of the cause why a node is down.
pub(super) const MAX_CAUSE_BYTES: usize = 2048;

/// Maximum number of nodes that [`Fault::NoSuchNode`] lists as available.
const MAX_NAMED: usize = 256;

/// Boot progress of a machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BootProgress {
    /// Nodes started, but not reported yet.
    pub booting: Vec<NodeInfo>,
    /// Nodes that are up.
    pub up: Vec<NodeInfo>,
    /// Nodes that are not running.
    pub down: Vec<NodeInfo>,
}

fn kind_of(node: &Node) -> NodeKind {
    match node.settings {
        NodeSettings::Host => NodeKind::Host,
        NodeSettings::User(_) => NodeKind::User,
        NodeSettings::Vm(_) => NodeKind::Vm,
        NodeSettings::Bare(_) => NodeKind::Bare,
        NodeSettings::Attached(_) => NodeKind::Attached,
    }
}
