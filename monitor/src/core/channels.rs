//! Channels: which link carries one, and what it takes.

use tombolo_base::{ChannelId, DomainId, NodeId};
use tombolo_control::{Attachment, Fault, Grant, Order, Reply, WindowPlace};
use tombolo_link::{ChannelConfig, ChannelLayout, Side, TransportKind};
use tombolo_machine::vm::HOST_PEER;

use super::{Client, Core, Effect, NameKey, Resource, WindowChannel};

/// The two ends of a channel to be: who connects and who accepts.
struct Ends {
    connecting: (Client, DomainId),
    accepting: (Client, DomainId),
}

/// What one end gets.
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
        let ends = Ends { connecting: (client, domain), accepting: (record.client, record.owner) };
        let channel = ChannelId(self.next_channel);
        self.next_channel += 1;
        let (transport, connecting, accepting) = match self.shares(channel, &ends, config) {
            Ok(shares) => shares,
            Err(fault) => return self.answer(client, request, Err(fault)),
        };
        let grant = |side: Side, peer: DomainId, peer_node: String, window| Grant {
            channel,
            side,
            peer,
            peer_node,
            transport,
            config,
            window,
        };
        if let Some(owner) = self.clients.get_mut(&record.client) {
            owner.unaccepted += 1;
        }
        for domain in [domain, record.owner] {
            if let Some(record) = self.domains.get_mut(domain) {
                record.channels += 1;
                self.domain_changed(domain);
            }
        }
        // The accepting side first: it is the one that may have to be woken.
        let grant_b = grant(Side::B, domain, self.node_name(domain.node()), accepting.window);
        let incoming = Reply::Incoming { listener: record.listener, grant: grant_b };
        self.deliver_with(record.client, 0, incoming, channel, accepting.attachments, accepting.passed);
        let grant_a = grant(Side::A, record.owner, self.node_name(record.owner.node()), connecting.window);
        let connected = Reply::Connect { grant: grant_a };
        self.deliver_with(client, request, connected, channel, connecting.attachments, connecting.passed);
    }

    /// Chooses the transport and divides what it needs.
    fn shares(
        &mut self,
        channel: ChannelId,
        ends: &Ends,
        config: ChannelConfig,
    ) -> Result<(TransportKind, Share, Share), Fault> {
        let (from, to) = (ends.connecting.1.node(), ends.accepting.1.node());
        let transport = self
            .machine
            .link_between(from, to)
            .ok_or_else(|| Fault::NoLink { from: self.node_name(from), to: self.node_name(to) })?;
        if transport == TransportKind::Window {
            self.may_open_across_window(ends.connecting.1)?;
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
        let opener = ends.connecting.1;
        let (from, to) = (opener.node(), ends.accepting.1.node());
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
        self.effects.push(Effect::ClearWindow { node: vm, range });
        self.node_changed(vm);
        let caches = self.machine.own_window(vm).and_then(|window| window.caches);
        let held_by = vec![from, to];
        self.channels.insert(channel, WindowChannel { opener, window: vm, range, vector, held_by });
        let place = |ring| {
            Some(WindowPlace {
                offset_bytes: range.offset_bytes,
                length_bytes: range.length_bytes,
                ring,
                caches,
            })
        };
        let inside = Share {
            attachments: vec![
                Attachment::WindowMemory,
                Attachment::Lifeline,
                Attachment::Interrupt { vector },
                Attachment::Registers,
            ],
            passed: Vec::new(),
            window: place(Some(u32::from(HOST_PEER) << 16 | u32::from(vector))),
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
            window: place(None),
        };
        Ok(if vm == from { (inside, outside) } else { (outside, inside) })
    }

    /// A domain of `node` released its end. The other end is hung up. Range and vector come back once both
    /// are released, not earlier: a domain that holds an end can still reach the memory.
    pub(super) fn channel_released(&mut self, node: NodeId, channel: ChannelId) {
        let Some(record) = self.channels.get_mut(&channel) else {
            // Regions that are mapped have lifelines too.
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
        // With its node goes the window: nothing of it will be lent again, so nothing has to come back.
        self.channels.retain(|_, record| record.window != node);
    }
}
