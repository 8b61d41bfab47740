//! Relays: domains, at most one per node, that join channels between nodes without a link.
//!
//! The root starts a relay when the first channel needs it: the monitor's own program in another mode. A
//! relay is ready when it exports a listener, whose name is not added to any scope. Channels that need it
//! wait until then.

use std::collections::BTreeMap;
use std::time::Duration;

use tombolo_base::{ChannelId, DomainId, NodeId};
use tombolo_control::{Fault, OWN_PROGRAM, Order, ProgramSpec, RELAY_PROGRAM, Reply, StartOrder};
use tombolo_link::ChannelConfig;
use tombolo_machine::NodeSettings;

use super::observing::ObservedDomain;
use super::routes::Graph;
use super::{ClientId, Core, Destination, DomainRecord, Nanos, NodeState};

/// Timeout of a relay from its start to the first export.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Relay of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relay {
    pub(super) domain: DomainId,
    /// Connection and listener, once it is ready.
    pub(super) listener: Option<(ClientId, u32)>,
}

/// A channel that waits for a relay to start.
#[derive(Debug)]
struct PendingChannel {
    client: ClientId,
    request: u32,
    to: Destination,
    config: ChannelConfig,
    /// Node of the relay.
    node: NodeId,
    until: Nanos,
}

/// A relayed channel that is not completely released.
#[derive(Debug)]
struct RelayedChannel {
    via: Vec<NodeId>,
    /// Hops that are not released yet.
    hops: Vec<ChannelId>,
}

/// Relays of a machine, and the channels that pass through them.
#[derive(Debug, Default)]
pub(super) struct Relays {
    of_node: BTreeMap<NodeId, Relay>,
    pending: Vec<PendingChannel>,
    channels: BTreeMap<ChannelId, RelayedChannel>,
    /// Channels by their hops.
    of_hop: BTreeMap<ChannelId, ChannelId>,
}

impl Relays {
    /// Returns the time when [`Core::expire_relay_starts`] is due.
    pub(super) fn next_tick(&self) -> Option<Nanos> {
        self.pending.iter().map(|pending| pending.until).min()
    }

    /// Returns the nodes of the relays between the ends of a channel.
    pub(super) fn via(&self, channel: ChannelId) -> Vec<NodeId> {
        self.channels.get(&channel).map(|relayed| relayed.via.clone()).unwrap_or_default()
    }

    /// Returns the relay of a node, once it is ready.
    pub(super) fn ready(&self, node: NodeId) -> Option<(DomainId, ClientId, u32)> {
        let relay = self.of_node.get(&node)?;
        relay.listener.map(|(client, listener)| (relay.domain, client, listener))
    }

    /// Returns whether a domain is a relay.
    pub(super) fn has(&self, domain: DomainId) -> bool {
        self.of_node.get(&domain.node()).is_some_and(|relay| relay.domain == domain)
    }

    /// Records a channel through these relays, over these hops whose release will be reported.
    pub(super) fn opened(&mut self, channel: ChannelId, via: Vec<NodeId>, hops: Vec<ChannelId>) {
        self.of_hop.extend(hops.iter().map(|hop| (*hop, channel)));
        self.channels.insert(channel, RelayedChannel { via, hops });
    }

    /// Handles the release of a hop by both sides.
    pub(super) fn hop_released(&mut self, hop: ChannelId) {
        let Some(channel) = self.of_hop.remove(&hop) else { return };
        if let Some(relayed) = self.channels.get_mut(&channel) {
            relayed.hops.retain(|of| *of != hop);
            if relayed.hops.is_empty() {
                self.channels.remove(&channel);
            }
        }
    }

    /// Drops pending channels from or to a client that left.
    pub(super) fn client_left(&mut self, client: ClientId) {
        self.pending.retain(|pending| pending.client != client);
    }
}

impl Core {
    /// Returns the nodes that relay a channel between two nodes without a link.
    pub(super) fn relays_between(&self, from: NodeId, to: NodeId) -> Result<Vec<NodeId>, Fault> {
        let mut graph = Graph::default();
        for link in self.machine.links() {
            graph.add_link(link.a, link.b, self.observing.round_trip_ns(link.a, link.b));
        }
        let may_relay = |id: NodeId| {
            // A board runs one program at a time. The host itself reaches all nodes that foreign programs on
            // its kernel reach.
            let able = self
                .machine
                .node(id)
                .is_some_and(|node| matches!(node.settings, NodeSettings::Host | NodeSettings::Vm(_)));
            able && self.nodes.get(usize::from(id.0)).is_some_and(|node| node.state == NodeState::Up)
        };
        graph
            .route(from, to, may_relay)
            .ok_or_else(|| Fault::NoLink { from: self.node_name(from), to: self.node_name(to) })
    }

    /// Returns whether all relays of a route are ready. Otherwise starts the missing ones and queues the
    /// channel.
    pub(super) fn relays_ready(
        &mut self,
        (client, request): (ClientId, u32),
        to: &Destination,
        config: ChannelConfig,
        via: &[NodeId],
    ) -> Result<bool, Fault> {
        let missing: Vec<NodeId> =
            via.iter().copied().filter(|node| self.relays.ready(*node).is_none()).collect();
        for node in &missing {
            if !self.relays.of_node.contains_key(node) {
                self.start_relay(*node)?;
            }
        }
        let Some(node) = missing.first().copied() else { return Ok(true) };
        let until = self.now.saturating_add(START_TIMEOUT.as_nanos() as Nanos);
        self.relays.pending.push(PendingChannel { client, request, to: to.clone(), config, node, until });
        Ok(false)
    }

    fn start_relay(&mut self, node: NodeId) -> Result<(), Fault> {
        let domain = self.new_id(node).ok_or_else(|| Fault::Limit {
            what: format!("node {} has used all its domain ids; restart it", self.node_name(node)),
        })?;
        let mut program = ProgramSpec::new(RELAY_PROGRAM);
        program.arguments = vec![RELAY_PROGRAM.into()];
        self.domains.insert(
            domain,
            DomainRecord {
                program: RELAY_PROGRAM.into(),
                pid: 0,
                since: self.now,
                parent: None,
                image: None,
                build: OWN_PROGRAM,
                channels: 0,
                start_request: None,
                initial_capabilities: Vec::new(),
                pending_inputs: Vec::new(),
                observed: ObservedDomain::default(),
            },
        );
        self.relays.of_node.insert(node, Relay { domain, listener: None });
        self.domain_changed(domain);
        self.node_changed(node);
        self.send_order(node, Order::Start { order: StartOrder { domain, build: OWN_PROGRAM, program } });
        Ok(())
    }

    /// Handles an export by a relay, which is then ready. Returns `None` if the domain is not a relay.
    pub(super) fn register_relay_listener(&mut self, client: ClientId, domain: DomainId) -> Option<Reply> {
        let relay = self.relays.of_node.get_mut(&domain.node()).filter(|relay| relay.domain == domain)?;
        let record = self.clients.get_mut(&client)?;
        let listener = record.next_listener;
        record.next_listener += 1;
        relay.listener = Some((client, listener));
        Some(Reply::Export { listener })
    }

    /// Opens the channels that waited for the relay of a node.
    pub(super) fn open_pending(&mut self, node: NodeId) {
        let (ready, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.relays.pending).into_iter().partition(|pending| pending.node == node);
        self.relays.pending = rest;
        for PendingChannel { client, request, to, config, .. } in ready {
            if self.clients.contains_key(&client) {
                self.open(client, request, &to, config);
            }
        }
    }

    /// Handles the end of a domain that may be a relay. The next channel starts another; channels that waited
    /// for this one fail.
    pub(super) fn relay_ended(&mut self, domain: DomainId, why: &str) {
        // Drops everything that the ended domain waited for.
        let clients = &self.clients;
        self.relays
            .pending
            .retain(|pending| clients.get(&pending.client).and_then(|of| of.domain) != Some(domain));
        if !self.relays.has(domain) {
            return;
        }
        let node = domain.node();
        self.relays.of_node.remove(&node);
        self.fail_pending(|pending| pending.node == node, why);
    }

    /// Gives up relays whose start timed out.
    pub(super) fn expire_relay_starts(&mut self, now: Nanos) {
        let late: Vec<NodeId> =
            self.relays.pending.iter().filter(|late| late.until <= now).map(|late| late.node).collect();
        for node in late {
            if let Some(relay) = self.relays.of_node.get(&node).copied()
                && relay.listener.is_none()
            {
                self.kill_now(relay.domain);
            }
        }
        let why = format!("it was not ready within {} s", START_TIMEOUT.as_secs());
        self.fail_pending(|pending| pending.until <= now, &why);
    }

    fn fail_pending(&mut self, which: impl Fn(&PendingChannel) -> bool, why: &str) {
        let (failed, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.relays.pending).into_iter().partition(|pending| which(pending));
        self.relays.pending = rest;
        for PendingChannel { client, request, node, .. } in failed {
            let node = self.node_name(node);
            let why = format!("the relay on node {node}, which the channel needs, did not start: {why}");
            self.answer(client, request, Err(Fault::Refused { why }));
        }
    }
}
