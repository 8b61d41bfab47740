//! Channels: which link carries one or which links do, and what it takes.

use tombolo_base::{ChannelId, DomainId, NodeId};
use tombolo_control::{Attachment, Fault, Grant, Order, RelayNode, Reply, WindowPlace};
use tombolo_link::{ChannelConfig, ChannelLayout, Side, TransportKind};
use tombolo_machine::vm::HOST_PEER;

use super::{Client, Core, Effect, NameKey, Resource, WindowChannel};

/// The two ends of a channel or hop to be: who connects and who accepts.
struct Ends {
    /// Whose limits it counts for.
    opener: DomainId,
    connecting: DomainId,
    accepting: DomainId,
}

/// A domain that gets an end of a channel or of a hop: the one that connects, relays, the one that accepts.
struct Stop {
    client: Client,
    domain: DomainId,
    /// The listener that it comes to; `None` for the domain that connects.
    reply: Option<u32>,
}

impl Stop {
    fn listening((domain, client, listener): (DomainId, Client, u32)) -> Stop {
        Stop { client, domain, reply: Some(listener) }
    }
}

/// A channel between two neighbours on the way.
struct Hop {
    id: ChannelId,
    transport: TransportKind,
    connecting: Share,
    accepting: Share,
}

/// What one end gets, of the channel or of a hop of it.
struct Share {
    attachments: Vec<Attachment>,
    passed: Vec<Resource>,
    window: Option<WindowPlace>,
}

impl Core {
    /// Opens a channel to the owner of a name.
    pub(super) fn open(&mut self, client: Client, request: u32, place: &NameKey, config: ChannelConfig) {
        let (Some(record), Some(domain)) =
            (self.exported(place), self.clients.get(&client).and_then(|record| record.domain))
        else {
            return self.answer(client, request, Err(Fault::NoSuchName { name: self.scoped(place) }));
        };
        let (from, to) = (domain.node(), record.owner.node());
        let via = match self.machine.link_between(from, to) {
            Some(_) => Vec::new(),
            None => match self.ready_relays((client, request), place, config, (from, to)) {
                Ok(Some(via)) => via,
                Ok(None) => return,
                Err(fault) => return self.answer(client, request, Err(fault)),
            },
        };
        let mut stops = vec![Stop { client, domain, reply: None }];
        stops.extend(via.iter().filter_map(|node| self.relays.ready(*node)).map(Stop::listening));
        stops.push(Stop::listening((record.owner, record.client, record.listener)));
        let channel = self.new_channel();
        let hops = match self.hops(channel, &stops, config) {
            Ok(hops) => hops,
            Err(fault) => return self.answer(client, request, Err(fault)),
        };
        if !via.is_empty() {
            let lent = hops.iter().map(|hop| hop.id).filter(|hop| self.channels.contains_key(hop)).collect();
            self.relays.opened(channel, via, lent);
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
        self.hand_out(channel, request, config, &stops, hops);
    }

    fn new_channel(&mut self) -> ChannelId {
        let channel = ChannelId(self.next_channel);
        self.next_channel += 1;
        channel
    }

    /// The nodes that relay a channel, if their relays are ready; otherwise the channel waits for them.
    fn ready_relays(
        &mut self,
        asked: (Client, u32),
        place: &NameKey,
        config: ChannelConfig,
        (from, to): (NodeId, NodeId),
    ) -> Result<Option<Vec<NodeId>>, Fault> {
        if from == to {
            return Err(Fault::NoLink { from: self.node_name(from), to: self.node_name(to) });
        }
        let via = self.relays_between(from, to)?;
        Ok(self.relays_ready(asked, place, config, &via)?.then_some(via))
    }

    /// Divides what each hop between the stops needs. The only hop of a channel that is not relayed has the
    /// number of the channel.
    fn hops(&mut self, channel: ChannelId, stops: &[Stop], config: ChannelConfig) -> Result<Vec<Hop>, Fault> {
        let opener = stops[0].domain;
        let mut hops: Vec<Hop> = Vec::new();
        for pair in stops.windows(2) {
            let id = if stops.len() == 2 { channel } else { self.new_channel() };
            let ends = Ends { opener, connecting: pair[0].domain, accepting: pair[1].domain };
            match self.shares(id, &ends, config) {
                Ok((transport, connecting, accepting)) => {
                    hops.push(Hop { id, transport, connecting, accepting });
                }
                Err(fault) => {
                    // No stop was told of the others.
                    hops.iter().for_each(|hop| self.take_back_channel(hop.id));
                    return Err(fault);
                }
            }
        }
        Ok(hops)
    }

    /// Tells every stop what it gets: the accepting side first, because it may have to be woken.
    fn hand_out(
        &mut self,
        channel: ChannelId,
        request: u32,
        config: ChannelConfig,
        stops: &[Stop],
        hops: Vec<Hop>,
    ) {
        let (first, last) = (0, stops.len() - 1);
        let relay =
            |stop: &Stop| RelayNode { node: stop.domain.node(), name: self.node_name(stop.domain.node()) };
        let relays: Vec<RelayNode> = stops[1..last].iter().map(relay).collect();
        for (index, hop) in hops.into_iter().enumerate().rev() {
            let Hop { id, transport, connecting, accepting } = hop;
            for (side, share) in [(Side::B, accepting), (Side::A, connecting)] {
                let (stop, end) = match side {
                    Side::A => (&stops[index], &stops[last]),
                    Side::B => (&stops[index + 1], &stops[first]),
                };
                let via = match side {
                    Side::A => relays[index..].to_vec(),
                    Side::B => relays[..index].iter().rev().cloned().collect(),
                };
                let peer = end.domain;
                let peer_node = self.node_name(peer.node());
                let Share { attachments, passed, window } = share;
                let grant = Grant { channel, side, peer, peer_node, transport, config, window, hop: id, via };
                let (request, reply) = match stop.reply {
                    Some(listener) => (0, Reply::Incoming { listener, grant }),
                    None => (request, Reply::Connect { grant }),
                };
                self.deliver_with(stop.client, request, reply, id, attachments, passed);
            }
        }
    }

    /// Chooses the transport and divides what it needs.
    fn shares(
        &mut self,
        channel: ChannelId,
        ends: &Ends,
        config: ChannelConfig,
    ) -> Result<(TransportKind, Share, Share), Fault> {
        let (from, to) = (ends.connecting.node(), ends.accepting.node());
        let transport = self
            .machine
            .link_between(from, to)
            .ok_or_else(|| Fault::NoLink { from: self.node_name(from), to: self.node_name(to) })?;
        if transport == TransportKind::Window {
            self.may_open_across_window(ends.opener)?;
            let (a, b) = self.window_shares(channel, ends, config)?;
            return Ok((transport, a, b));
        }
        let stream = transport == TransportKind::Socket;
        let share = |accepting: bool| {
            if self.behind_window(from) {
                // Both in one virtual machine: its agent makes the pair.
                let attachments = vec![Attachment::PairEnd { accepting, stream }];
                return Share { attachments, passed: Vec::new(), window: None };
            }
            let passed = vec![Resource::PairEnd { channel, accepting, stream }];
            Share { attachments: vec![Attachment::Passed], passed, window: None }
        };
        Ok((transport, share(false), share(true)))
    }

    /// Whether a node reaches others through a window only.
    pub(super) fn behind_window(&self, id: NodeId) -> bool {
        self.machine.node(id).is_some_and(tombolo_machine::Node::behind_window)
    }

    /// Lends a range and a vector of the window that joins two nodes.
    fn window_shares(
        &mut self,
        channel: ChannelId,
        ends: &Ends,
        config: ChannelConfig,
    ) -> Result<(Share, Share), Fault> {
        let opener = ends.opener;
        let (from, to) = (ends.connecting.node(), ends.accepting.node());
        let vm = if self.behind_window(from) { from } else { to };
        let name = self.node_name(vm);
        let needed = ChannelLayout::new(config).length_bytes() as u64;
        let window = self
            .node(vm)
            .and_then(|node| node.window.as_mut())
            .ok_or(Fault::NodeDown { node: name.clone(), cause: "it has no window".into() })?;
        let vector = *window.vectors.last().ok_or_else(|| Fault::Limit {
            what: format!(
                "all {} doorbells of node {name} are in use: raise `doorbells` in the machine file",
                window.vectors_total
            ),
        })?;
        let range = window
            .allocator
            .lend(needed)
            .map_err(|full| Fault::Limit { what: format!("no room for a channel to node {name}: {full}") })?;
        window.vectors.pop();
        let base_bytes = window.base_bytes;
        self.effects.push(Effect::ClearWindow { node: vm, range });
        self.node_changed(vm);
        let caches = self.machine.own_window(vm).and_then(|window| window.caches);
        let held_by = vec![from, to];
        self.channels.insert(channel, WindowChannel { opener, window: vm, range, vector, held_by });
        let place = |base_bytes: u64, ring| {
            let offset_bytes = base_bytes + range.offset_bytes;
            Some(WindowPlace { offset_bytes, length_bytes: range.length_bytes, ring, caches })
        };
        // Where there are no registers, the agent passes on what is rung.
        let is_attached = self.is_attached(vm);
        let ringer = if is_attached { Attachment::Ringer { vector } } else { Attachment::Registers };
        let ring = (!is_attached).then_some(u32::from(HOST_PEER) << 16 | u32::from(vector));
        let inside = Share {
            attachments: vec![
                Attachment::WindowMemory,
                Attachment::Lifeline,
                Attachment::Interrupt { vector },
                ringer,
            ],
            passed: Vec::new(),
            window: place(base_bytes.1, ring),
        };
        let outside = Share {
            attachments: vec![
                Attachment::Passed,
                Attachment::Lifeline,
                Attachment::Passed,
                Attachment::Passed,
            ],
            passed: vec![
                Resource::WindowMemory(vm),
                Resource::HostBell(vm, vector),
                Resource::NodeBell(vm, vector),
            ],
            window: place(base_bytes.0, None),
        };
        Ok(if vm == from { (inside, outside) } else { (outside, inside) })
    }

    /// A domain of `node` released its end. The other end is hung up. Range and vector come back once both
    /// are released, not earlier: a domain that holds an end can still reach the memory.
    pub(super) fn channel_released(&mut self, node: NodeId, channel: ChannelId) {
        let Some(record) = self.channels.get_mut(&channel) else {
            // Regions that are mapped have lifelines too.
            self.held_released(node, Some(channel));
            if self.regions.table.released(node, channel) {
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
            return self.order(other, Order::HangUp { channel });
        }
        self.take_back_channel(channel);
        self.relays.hop_released(channel);
    }

    /// Takes back what was lent to a channel that no side can reach.
    fn take_back_channel(&mut self, channel: ChannelId) {
        if let Some(record) = self.channels.remove(&channel)
            && let Some(window) = self.node(record.window).and_then(|node| node.window.as_mut())
        {
            window.allocator.take_back(record.range);
            window.vectors.push(record.vector);
            self.node_changed(record.window);
        }
    }

    /// A node is lost: hangs up all channels to it.
    pub(super) fn channels_lost(&mut self, node: NodeId) {
        let theirs: Vec<ChannelId> = self
            .channels
            .iter()
            .filter(|(_, record)| record.held_by.contains(&node))
            .map(|(channel, _)| *channel)
            .collect();
        theirs.into_iter().for_each(|channel| self.channel_released(node, channel));
        // With its node goes the window: nothing of it will be lent again, so nothing has to come back. But
        // that of a node that joins anew stays.
        if self.is_attached(node) {
            return;
        }
        let (channels, relays) = (&mut self.channels, &mut self.relays);
        channels.retain(|hop, record| {
            let stays = record.window != node;
            if !stays {
                relays.hop_released(*hop);
            }
            stays
        });
    }
}
