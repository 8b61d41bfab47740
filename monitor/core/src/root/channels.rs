//! Channels: selection of the links that carry one, and allocation of its resources.

use tombolo_base::{ChannelId, DomainId, NodeId, WindowId};
use tombolo_control::{Attachment, AttachmentWindow, Fault, Grant, Order, RelayNode, Reply, WindowPlace};
use tombolo_link::window::{SHARED_VECTOR, WindowRange};
use tombolo_link::{ChannelConfig, ChannelLayout, Side, TransportKind};

use super::{ClientId, Core, Destination, Effect, Resource, WindowChannel};

/// Ends of a channel or hop to be opened: the connecting and the accepting one.
struct Ends {
    /// Domain whose limits it counts for.
    opener: DomainId,
    connecting: DomainId,
    accepting: DomainId,
}

/// Domain that gets an end of a channel or of a hop: the connecting one, a relay, or the accepting one.
struct Participant {
    client: ClientId,
    domain: DomainId,
    /// Listener that it arrives at; `None` for the connecting domain.
    reply: Option<u32>,
}

impl Participant {
    fn listening((domain, client, listener): (DomainId, ClientId, u32)) -> Participant {
        Participant { client, domain, reply: Some(listener) }
    }
}

/// Channel between two neighbours on the route.
struct Hop {
    id: ChannelId,
    transport: TransportKind,
    connecting: EndResources,
    accepting: EndResources,
}

/// A channel or hop carried by a stream of the link with a node.
#[derive(Debug)]
pub(super) struct StreamChannel {
    /// Domain whose limits it counts for.
    pub(super) opener: DomainId,
    node: NodeId,
}

/// Returns the resources of the end on a kernel, in a stream of the link between the host and `node`.
fn stream_end_resources(channel: ChannelId, node: NodeId, kernel: NodeId) -> EndResources {
    if kernel == node {
        return EndResources { attachments: vec![Attachment::LinkStream], passed: Vec::new(), window: None };
    }
    let passed = vec![Resource::LinkStream { node, channel }];
    EndResources { attachments: vec![Attachment::Passed], passed, window: None }
}

/// Resources for one end of the channel or of a hop of it.
struct EndResources {
    attachments: Vec<Attachment>,
    passed: Vec<Resource>,
    window: Option<WindowPlace>,
}

impl Core {
    /// Opens a channel to the owner of a name or service.
    pub(super) fn open(
        &mut self,
        client: ClientId,
        request: u32,
        destination: &Destination,
        config: ChannelConfig,
    ) {
        let (Some(record), Some(domain)) =
            (self.listener_of(destination), self.clients.get(&client).and_then(|record| record.domain))
        else {
            return self.answer(client, request, Err(self.no_listener_fault(destination)));
        };
        let (from, to) = (domain.node(), record.owner.node());
        let via = match self.machine.link_between(from, to) {
            Some(_) => Vec::new(),
            None => match self.ready_relays((client, request), destination, config, (from, to)) {
                Ok(Some(via)) => via,
                Ok(None) => return,
                Err(fault) => return self.answer(client, request, Err(fault)),
            },
        };
        let mut participants = vec![Participant { client, domain, reply: None }];
        participants
            .extend(via.iter().filter_map(|node| self.relays.ready(*node)).map(Participant::listening));
        participants.push(Participant::listening((record.owner, record.client, record.listener)));
        let channel = self.new_channel();
        let hops = match self.allocate_hops(channel, &participants, config) {
            Ok(hops) => hops,
            Err(fault) => return self.answer(client, request, Err(fault)),
        };
        if !via.is_empty() {
            let kept = |hop: &ChannelId| self.channels.contains_key(hop) || self.streams.contains_key(hop);
            let carried = hops.iter().map(|hop| hop.id).filter(kept).collect();
            self.relays.opened(channel, via, carried);
        }
        if let Some(owner) = self.clients.get_mut(&record.client) {
            owner.unaccepted += 1;
        }
        for domain in [domain, record.owner] {
            if let Some(record) = self.domains.get_mut(domain) {
                record.channels += 1;
                self.domain_changed(domain);
            }
        }
        self.send_grants(channel, request, config, &participants, hops);
    }

    pub(super) fn new_channel(&mut self) -> ChannelId {
        let channel = ChannelId(self.next_channel);
        self.next_channel += 1;
        channel
    }

    /// Returns the nodes that relay a channel, if their relays are ready; otherwise the channel waits for
    /// them.
    fn ready_relays(
        &mut self,
        requester: (ClientId, u32),
        destination: &Destination,
        config: ChannelConfig,
        (from, to): (NodeId, NodeId),
    ) -> Result<Option<Vec<NodeId>>, Fault> {
        if from == to {
            return Err(Fault::NoLink { from: self.node_name(from), to: self.node_name(to) });
        }
        let via = self.relays_between(from, to)?;
        Ok(self.relays_ready(requester, destination, config, &via)?.then_some(via))
    }

    /// Allocates the resources of each hop between the participants. The only hop of a channel without relays
    /// has the channel's number.
    fn allocate_hops(
        &mut self,
        channel: ChannelId,
        participants: &[Participant],
        config: ChannelConfig,
    ) -> Result<Vec<Hop>, Fault> {
        let opener = participants[0].domain;
        let mut hops: Vec<Hop> = Vec::new();
        for pair in participants.windows(2) {
            let id = if participants.len() == 2 { channel } else { self.new_channel() };
            let ends = Ends { opener, connecting: pair[0].domain, accepting: pair[1].domain };
            match self.allocate_hop(id, &ends, config) {
                Ok((transport, connecting, accepting)) => {
                    hops.push(Hop { id, transport, connecting, accepting });
                }
                Err(fault) => {
                    // The earlier hops have not been announced to any node yet.
                    hops.iter().for_each(|hop| self.free_channel(hop.id));
                    return Err(fault);
                }
            }
        }
        Ok(hops)
    }

    /// Sends every participant its resources: the accepting side first, because it may have to be woken.
    fn send_grants(
        &mut self,
        channel: ChannelId,
        request: u32,
        config: ChannelConfig,
        participants: &[Participant],
        hops: Vec<Hop>,
    ) {
        let (first, last) = (0, participants.len() - 1);
        let relay = |participant: &Participant| RelayNode {
            node: participant.domain.node(),
            name: self.node_name(participant.domain.node()),
        };
        let relays: Vec<RelayNode> = participants[1..last].iter().map(relay).collect();
        for (index, hop) in hops.into_iter().enumerate().rev() {
            let Hop { id, transport, connecting, accepting } = hop;
            for (side, resources) in [(Side::B, accepting), (Side::A, connecting)] {
                let (participant, end) = match side {
                    Side::A => (&participants[index], &participants[last]),
                    Side::B => (&participants[index + 1], &participants[first]),
                };
                let via = match side {
                    Side::A => relays[index..].to_vec(),
                    Side::B => relays[..index].iter().rev().cloned().collect(),
                };
                let peer = end.domain;
                let peer_node = self.node_name(peer.node());
                let EndResources { attachments, passed, window } = resources;
                let grant = Grant { channel, side, peer, peer_node, transport, config, window, hop: id, via };
                let (request, reply) = match participant.reply {
                    Some(listener) => (0, Reply::Incoming { listener, grant }),
                    None => (request, Reply::Connect { grant }),
                };
                self.deliver_with(participant.client, request, reply, id, attachments, passed);
            }
        }
    }

    /// Chooses the transport and allocates its resources.
    fn allocate_hop(
        &mut self,
        channel: ChannelId,
        ends: &Ends,
        config: ChannelConfig,
    ) -> Result<(TransportKind, EndResources, EndResources), Fault> {
        let (from, to) = (ends.connecting.node(), ends.accepting.node());
        let transport = self
            .machine
            .link_between(from, to)
            .ok_or_else(|| Fault::NoLink { from: self.node_name(from), to: self.node_name(to) })?;
        if transport == TransportKind::Window {
            self.check_cross_link_limit(ends.opener)?;
            let (a, b) = self.allocate_in_window(channel, ends, config)?;
            return Ok((transport, a, b));
        }
        let kernels = [from, to].map(|node| self.machine.kernel_of(node));
        if kernels[0] != kernels[1] {
            // One of the two is the host's.
            self.check_cross_link_limit(ends.opener)?;
            let node = kernels[0].max(kernels[1]);
            self.streams.insert(channel, StreamChannel { opener: ends.opener, node });
            let resources = |kernel| stream_end_resources(channel, node, kernel);
            return Ok((transport, resources(kernels[0]), resources(kernels[1])));
        }
        let stream = transport == TransportKind::Socket;
        let resources = |accepting: bool| {
            if kernels[0] != NodeId::HOST {
                // Both in one virtual machine: its agent creates the pair.
                let attachments = vec![Attachment::PairEnd { accepting, stream }];
                return EndResources { attachments, passed: Vec::new(), window: None };
            }
            let passed = vec![Resource::PairEnd { channel, accepting, stream }];
            EndResources { attachments: vec![Attachment::Passed], passed, window: None }
        };
        Ok((transport, resources(false), resources(true)))
    }

    /// Handles the end of a channel's stream on both sides of the link with a node.
    pub fn stream_ended(&mut self, channel: ChannelId) {
        if self.streams.remove(&channel).is_some() {
            self.relays.hop_released(channel);
        }
    }

    /// Returns whether a node reaches others through a window only.
    pub(super) fn is_behind_window(&self, id: NodeId) -> bool {
        self.machine.node(id).is_some_and(tombolo_machine::Node::is_behind_window)
    }

    /// Lends a range of the window that joins two nodes, and a vector to each end.
    fn allocate_in_window(
        &mut self,
        channel: ChannelId,
        ends: &Ends,
        config: ChannelConfig,
    ) -> Result<(EndResources, EndResources), Fault> {
        let opener = ends.opener;
        let nodes = [ends.connecting.node(), ends.accepting.node()];
        let [from, to] = nodes.map(|node| self.node_name(node));
        let no_link = Fault::NoLink { from, to };
        let window = self.machine.window_between(nodes[0], nodes[1]).ok_or(no_link.clone())?;
        let (id, name) = (window.id, window.name.clone());
        let peers = nodes.map(|node| window.peer(self.machine.kernel_of(node)));
        let [Some(from_peer), Some(to_peer)] = peers else { return Err(no_link) };
        let needed = ChannelLayout::new(config).length_bytes() as u64;
        let window = self
            .window(id)
            .ok_or(Fault::NodeDown { node: name.clone(), cause: "it has no window".into() })?;
        let range = window.allocator.allocate(needed).map_err(|full| Fault::Limit {
            what: format!("no room for a channel in window {name}: {full}"),
        })?;
        let bells = [from_peer, to_peer].map(|peer| (peer, window.allocate_vector(peer)));
        self.effects.push(Effect::ClearWindow { window: id, range });
        let groups = [0, 1].map(|end| self.allocate_group(id, nodes[end], (bells[1 - end].0, bells[end])));
        self.window_changed(id);
        let record = WindowChannel { opener, window: id, range, bells, groups, held_by: nodes.to_vec() };
        let resources = |end: usize| self.window_end_resources(channel, nodes[end], &record, end == 1);
        let both = (resources(0), resources(1));
        self.channels.insert(channel, record);
        Ok(both)
    }

    /// Determines how the monitor of `node` detects that an end there was rung by the peer `ringer`. An end
    /// with its own vector needs nothing, and a board's program checks all its channels anyway. Of the
    /// channels that share a vector, the monitor checks the groups whose word has changed, provided that the
    /// programs of one node can add to a word, which takes coherent memory. Otherwise, and if there is no
    /// room, it checks all.
    fn allocate_group(
        &mut self,
        id: WindowId,
        node: NodeId,
        (ringer, (peer, vector)): (u16, (u16, u16)),
    ) -> Option<u64> {
        let coherent = self.machine.window(id).is_some_and(|window| window.caches.is_none());
        let attached = self.machine.window(id).and_then(|window| window.private_to);
        let attached = attached.is_some_and(|node| self.is_attached(node));
        if vector != SHARED_VECTOR || self.is_board(node) || !coherent || attached {
            return None;
        }
        let window = self.window(id)?;
        let word = window.groups.allocate((ringer, peer), &mut window.allocator)?;
        if let Some(range) = word.new_page {
            self.effects.push(Effect::ClearWindow { window: id, range });
        }
        Some(word.offset_bytes)
    }

    fn is_board(&self, node: NodeId) -> bool {
        self.machine.node(node).is_some_and(|node| node.as_bare().is_some())
    }

    /// Returns the resources of the end at `node`.
    fn window_end_resources(
        &self,
        channel: ChannelId,
        node: NodeId,
        record: &WindowChannel,
        accepting: bool,
    ) -> EndResources {
        let WindowChannel { window, range, bells, groups, .. } = *record;
        let (own, other) = (bells[usize::from(accepting)], bells[usize::from(!accepting)]);
        let WindowRange { offset_bytes, length_bytes } = range;
        let (group, peers_group) = (groups[usize::from(accepting)], groups[usize::from(!accepting)]);
        let (peer, vector) = other;
        let caches = self.machine.window(window).and_then(|window| window.caches);
        let (outside, inside) = self.base_bytes(window);
        let place = |base_bytes: u64, ring| {
            let offset_bytes = base_bytes + offset_bytes;
            let group = peers_group.map(|word| base_bytes + word);
            Some(WindowPlace { offset_bytes, length_bytes, ring, caches, group })
        };
        let shared = own.1 == SHARED_VECTOR;
        if self.is_behind_window(node) {
            let number = AttachmentWindow { window: window.0 };
            // A board checks all of its channels when any doorbell rings.
            let bell = match shared && !self.is_board(node) {
                true => Attachment::SharedBell {
                    offset_bytes: inside + offset_bytes,
                    window: window.0,
                    accepting,
                    group: group.map(|word| inside + word),
                },
                false => Attachment::Interrupt { vector: own.1, window: window.0 },
            };
            // Without registers, the agent forwards the rings.
            let (ringer, ring) = match self.is_attached(node) {
                true => (Attachment::Ringer { vector, window: window.0 }, None),
                false => (Attachment::Registers(number), Some(u32::from(peer) << 16 | u32::from(vector))),
            };
            let attachments = vec![Attachment::WindowMemory(number), Attachment::Lifeline, bell, ringer];
            return EndResources { attachments, passed: Vec::new(), window: place(inside, ring) };
        }
        let bell = match shared {
            true => Resource::SharedBell { channel, window, offset_bytes, accepting, group },
            false => Resource::Bell { window, peer: own.0, vector: own.1 },
        };
        let attachments =
            vec![Attachment::Passed, Attachment::Lifeline, Attachment::Passed, Attachment::Passed];
        let passed = vec![Resource::WindowMemory(window), bell, Resource::Bell { window, peer, vector }];
        EndResources { attachments, passed, window: place(outside, None) }
    }

    /// Handles the release of an end by a domain of `node` and hangs up the other end. Range and vector are
    /// freed only after both are released: a domain that holds an end can still access the memory.
    pub(super) fn channel_released(&mut self, node: NodeId, channel: ChannelId) {
        let Some(record) = self.channels.get_mut(&channel) else {
            // Mapped regions have lifelines too.
            self.release_held(node, Some(channel));
            if self.regions.table.mapping_released(node, channel) {
                self.observing.regions.changed();
            }
            return;
        };
        let before = record.held_by.len();
        record.held_by.retain(|holder| *holder != node);
        if record.held_by.len() == before {
            return;
        }
        if let Some(other) = record.held_by.first().copied() {
            if tombolo_base::canary!("core hangs up no channel") {
                return;
            }
            return self.send_order(other, Order::HangUp { channel });
        }
        self.free_channel(channel);
        self.relays.hop_released(channel);
    }

    /// Frees the resources of a channel that no side can access.
    fn free_channel(&mut self, channel: ChannelId) {
        self.streams.remove(&channel);
        if let Some(record) = self.channels.remove(&channel) {
            self.remove_shared_bell(channel, &record);
            if let Some(window) = self.window(record.window) {
                window.allocator.free(record.range);
                record.bells.iter().for_each(|(peer, vector)| window.free_vector(*peer, *vector));
                for (end, word) in record.groups.iter().enumerate() {
                    let direction = (record.bells[1 - end].0, record.bells[end].0);
                    if let Some(word) = *word {
                        window.groups.free(direction, word, &mut window.allocator);
                    }
                }
                self.window_changed(record.window);
            }
        }
    }

    /// Removes the shared bell of a channel that has ended.
    fn remove_shared_bell(&mut self, channel: ChannelId, record: &WindowChannel) {
        let host = self.machine.window(record.window).and_then(|window| window.peer(NodeId::HOST));
        if record.bells.iter().any(|(peer, vector)| Some(*peer) == host && *vector == SHARED_VECTOR) {
            self.effects.push(Effect::RemoveSharedBell { channel });
        }
    }

    /// Hangs up all channels to a lost node.
    pub(super) fn channels_lost(&mut self, node: NodeId) {
        let theirs: Vec<ChannelId> = self
            .channels
            .iter()
            .filter(|(_, record)| record.held_by.contains(&node))
            .map(|(channel, _)| *channel)
            .collect();
        theirs.into_iter().for_each(|channel| self.channel_released(node, channel));
        // The end of its link hangs up all of them.
        let streams = self.streams.extract_if(.., |_, stream| stream.node == node);
        let streams: Vec<ChannelId> = streams.map(|(channel, _)| channel).collect();
        streams.into_iter().for_each(|channel| self.relays.hop_released(channel));
        // The window of the node with the host is removed, so nothing needs to be freed. A node that joins by
        // itself keeps its window.
        if self.is_attached(node) {
            return;
        }
        let own = self.machine.own_window(node).map(|window| window.id);
        let gone: Vec<(ChannelId, WindowChannel)> =
            self.channels.extract_if(.., |_, record| Some(record.window) == own).collect();
        for (channel, record) in &gone {
            self.remove_shared_bell(*channel, record);
            self.relays.hop_released(*channel);
        }
    }
}
