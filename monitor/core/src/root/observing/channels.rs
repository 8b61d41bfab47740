//! Channels as reported by their ends, and links as the sums of their channels.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tombolo_base::{ChannelId, DomainId, NodeId};
use tombolo_control::InFlight;
use tombolo_control::observation::{EndSample, Flow, Happening, SeenChannel, SeenLink};
use tombolo_link::TransportKind;
use tombolo_machine::Machine;

use super::History;
use super::versions::PartKey;
use crate::root::{Core, Nanos};

/// Maximum number of observed channels.
pub(in crate::root) const MAX_CHANNELS: usize = 65_536;

/// Maximum number of observed channel ends per domain.
const MAX_ENDS_PER_DOMAIN: usize = 16_384;

/// Time that a closed channel stays visible.
const CLOSED_NS: Nanos = 10_000_000_000;

/// Upper bound of a rate: more than any link carries, and small enough that the sum of all channels cannot
/// overflow.
const MAX_RATE: u64 = 100_000_000_000_000;

const IDLE: Flow = Flow { rate_mhz: 0, bytes_per_s: 0 };

/// One end, with its recent traffic.
#[derive(Clone, Debug)]
struct ObservedEnd {
    sample: EndSample,
    sent: Flow,
    received: Flow,
}

/// An observed channel.
#[derive(Debug, Default)]
pub(super) struct Channel {
    /// The connecting and the accepting end.
    ends: [Option<ObservedEnd>; 2],
    /// Link that it is counted for, with its contribution.
    counted: Option<((NodeId, NodeId), Flow, Flow)>,
    closing: bool,
    pub(super) history: Option<History>,
}

impl Channel {
    /// Returns the traffic in each direction as reported by one end: the rates of two ends sampled at
    /// different times would not agree.
    fn flows(&self) -> (Flow, Flow) {
        match &self.ends {
            _ if !self.is_open() => (IDLE, IDLE),
            [Some(connecting), _] => (connecting.sent, connecting.received),
            [None, Some(accepting)] => (accepting.received, accepting.sent),
            [None, None] => (IDLE, IDLE),
        }
    }

    fn is_open(&self) -> bool {
        self.ends.iter().flatten().all(|end| end.sample.open) && self.ends.iter().any(Option::is_some)
    }

    /// Returns the number of messages in flight in both directions, if known.
    pub(super) fn depth(&self) -> Option<u64> {
        let (forth, back) = self.flows();
        let moves = forth != IDLE || back != IDLE;
        let [a, b] = self.ends.each_ref().map(|end| end.as_ref().map(|end| &end.sample));
        let (forth, back) = (InFlight::between(a, b, moves)?, InFlight::between(b, a, moves)?);
        Some(forth.messages + back.messages)
    }

    pub(super) fn rates(&self) -> (u64, u64) {
        let (forth, back) = self.flows();
        (forth.rate_mhz + back.rate_mhz, forth.bytes_per_s + back.bytes_per_s)
    }

    /// Returns the nodes of its ends: the connecting and the accepting one.
    fn nodes(&self) -> Option<(NodeId, NodeId)> {
        let node = |own: &Option<ObservedEnd>, other: &Option<ObservedEnd>| {
            let own = own.as_ref().map(|end| end.sample.domain);
            own.or(other.as_ref().and_then(|end| end.sample.peer)).map(DomainId::node)
        };
        let [a, b] = &self.ends;
        Some((node(a, b)?, node(b, a)?))
    }
}

/// An observed link.
#[derive(Debug)]
pub(super) struct ObservedLink {
    transport: TransportKind,
    open: u32,
    forth: Flow,
    back: Flow,
    round_trip_ns: u64,
    pub(super) history: Option<History>,
}

impl ObservedLink {
    fn new(transport: TransportKind) -> Self {
        ObservedLink { transport, open: 0, forth: IDLE, back: IDLE, round_trip_ns: 0, history: None }
    }

    pub(super) fn rates(&self) -> (u64, u64) {
        let sum = |a: u64, b: u64| a.saturating_add(b);
        (sum(self.forth.rate_mhz, self.back.rate_mhz), sum(self.forth.bytes_per_s, self.back.bytes_per_s))
    }
}

/// Observed channels of the machine, and its links.
#[derive(Debug)]
pub(in crate::root) struct Channels {
    pub(super) channels: BTreeMap<ChannelId, Channel>,
    of_domain: BTreeMap<DomainId, BTreeSet<ChannelId>>,
    pub(super) links: BTreeMap<(NodeId, NodeId), ObservedLink>,
    /// Closed channels, with the times when they stop being visible.
    closing: VecDeque<(Nanos, ChannelId)>,
    pub(super) probes: u64,
    /// Whether the lack of room for more channels has been reported since a channel was removed.
    reported_full: bool,
}

impl Channels {
    /// Creates an empty state with the links from the host.
    pub(super) fn new(machine: &Machine) -> Self {
        let host = NodeId::HOST;
        let others = machine.nodes().iter().map(|node| node.id).filter(|id| *id != host);
        let links =
            others.filter_map(|id| Some(((host, id), ObservedLink::new(machine.link_between(host, id)?))));
        Channels {
            channels: BTreeMap::new(),
            of_domain: BTreeMap::new(),
            links: links.collect(),
            closing: VecDeque::new(),
            probes: 0,
            reported_full: false,
        }
    }

    pub(super) fn links(&self) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
        self.links.keys().copied()
    }

    /// Returns whether closed channels are waiting to be removed.
    pub(super) fn has_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    pub(super) fn ends(&self) -> usize {
        self.of_domain.values().map(BTreeSet::len).sum()
    }

    pub(super) fn snapshot(&self, id: ChannelId, via: Vec<NodeId>) -> Option<SeenChannel> {
        let channel = self.channels.get(&id)?;
        let (forth, back) = channel.flows();
        let [connecting, accepting] = channel.ends.clone().map(|end| end.map(|end| end.sample));
        Some(SeenChannel { id, connecting, accepting, forth, back, via })
    }

    pub(super) fn link_snapshot(&self, a: NodeId, b: NodeId) -> Option<SeenLink> {
        let ObservedLink { transport, open, forth, back, round_trip_ns, .. } = *self.links.get(&(a, b))?;
        Some(SeenLink { a, b, transport, channels: open, forth, back, round_trip_ns })
    }

    /// Returns the measured round trip between the monitors of two nodes, the lower-numbered first.
    pub(in crate::root) fn round_trip_ns(&self, a: NodeId, b: NodeId) -> Option<u64> {
        self.links.get(&(a, b)).map(|link| link.round_trip_ns).filter(|time_ns| *time_ns > 0)
    }

    /// Returns the present traffic between two nodes in both directions: messages per second, in thousandths,
    /// and bytes per second.
    pub(in crate::root) fn traffic(&self, a: NodeId, b: NodeId) -> Option<(u64, u64)> {
        self.links.get(&(a, b)).map(ObservedLink::rates)
    }

    fn forget_end(&mut self, domain: DomainId, channel: ChannelId) {
        if let Some(ends) = self.of_domain.get_mut(&domain) {
            ends.remove(&channel);
            if ends.is_empty() {
                self.of_domain.remove(&domain);
            }
        }
    }

    /// Returns whether there is room for an end of a channel.
    fn has_room(&self, domain: DomainId, channel: ChannelId) -> bool {
        let theirs = self.of_domain.get(&domain);
        (self.channels.contains_key(&channel) || self.channels.len() < MAX_CHANNELS)
            && theirs.is_none_or(|ends| ends.len() < MAX_ENDS_PER_DOMAIN || ends.contains(&channel))
    }
}

/// Converts a growth of `more` in `time_ns` to a rate per second, in units of `1 / units`.
fn per_second(more: u64, time_ns: Nanos, units: u64) -> u64 {
    let scaled = u128::from(more) * u128::from(units) * 1_000_000_000 / u128::from(time_ns.max(1));
    u64::try_from(scaled).unwrap_or(MAX_RATE).min(MAX_RATE)
}

fn flow((messages, bytes): (u64, u64), (messages_before, bytes_before): (u64, u64), time_ns: Nanos) -> Flow {
    // A count below the previous one is invalid.
    Flow {
        rate_mhz: per_second(messages.saturating_sub(messages_before), time_ns, 1000),
        bytes_per_s: per_second(bytes.saturating_sub(bytes_before), time_ns, 1),
    }
}

impl super::Observing {
    /// Returns the round trip of a link between monitors, in nanoseconds; 0 before it was measured.
    pub(in crate::root) fn round_trip_ns(&self, a: NodeId, b: NodeId) -> u64 {
        self.channels.links.get(&(a, b)).map_or(0, |link| link.round_trip_ns)
    }
}

impl Core {
    /// Handles the sample of a channel end from the node of its domain.
    pub(super) fn end_sampled(&mut self, now: Nanos, node: NodeId, sample: EndSample) {
        let (domain, id, side) = (sample.domain, sample.channel, usize::from(sample.accepting));
        let channels = &mut self.observing.channels;
        if id.0 == 0 || !(sample.open || channels.channels.contains_key(&id)) {
            // It was closed before any observer knew it, or a while ago.
            return;
        }
        if !channels.has_room(domain, id) {
            return self.report_no_room(domain);
        }
        let Some(observed) = self.observing.nodes.get_mut(usize::from(node.0)) else { return };
        let record = channels.channels.entry(id).or_default();
        if record.ends[side].as_ref().is_some_and(|end| end.sample.domain != domain) {
            // The other domain is alive, or its ends would be gone: the first one is trusted.
            return;
        }
        // The counts of the sample hold for the time since the previous round.
        let period_ns =
            observed.sample.as_ref().map_or(0, |sample| Nanos::from(sample.period_ms) * 1_000_000);
        let time_ns = now.saturating_sub(observed.sampled_ns).max(period_ns / 2);
        let (sent, received) = match &record.ends[side] {
            Some(ObservedEnd { sample: before, .. }) if observed.sampled_ns > 0 => (
                flow((sample.sent, sample.sent_bytes), (before.sent, before.sent_bytes), time_ns),
                flow(
                    (sample.received, sample.received_bytes),
                    (before.received, before.received_bytes),
                    time_ns,
                ),
            ),
            _ => (IDLE, IDLE),
        };
        let key = (id, sample.accepting);
        if sample.open && (sent != IDLE || received != IDLE) {
            observed.active_ends.insert(key, observed.rounds);
        } else {
            observed.active_ends.remove(&key);
        }
        record.ends[side] = Some(ObservedEnd { sample, sent, received });
        channels.of_domain.entry(domain).or_default().insert(id);
        self.channel_changed(now, id);
    }

    fn report_no_room(&mut self, domain: DomainId) {
        if !std::mem::replace(&mut self.observing.channels.reported_full, true) {
            let what = format!(
                "more channels than the monitor shows: {MAX_CHANNELS} of the machine, {MAX_ENDS_PER_DOMAIN} of a domain"
            );
            self.record_domain_event(domain, Happening::LIMIT_MET, what);
        }
    }

    /// Sets the traffic of ends to zero that the node's last round did not report.
    pub(super) fn clear_idle_rates(&mut self, node: NodeId) {
        let Some(observed) = self.observing.nodes.get_mut(usize::from(node.0)) else { return };
        let rounds = observed.rounds;
        let still: Vec<(ChannelId, bool)> =
            observed.active_ends.iter().filter(|(_, of)| **of + 1 < rounds).map(|(key, _)| *key).collect();
        still.into_iter().for_each(|key| self.clear_end_rates(node, key));
    }

    /// Sets the traffic of a node to zero that has sent no samples for long.
    pub(super) fn clear_node_rates(&mut self, node: NodeId) {
        let Some(observed) = self.observing.nodes.get(usize::from(node.0)) else { return };
        let all: Vec<(ChannelId, bool)> = observed.active_ends.keys().copied().collect();
        all.into_iter().for_each(|key| self.clear_end_rates(node, key));
    }

    fn clear_end_rates(&mut self, node: NodeId, (id, accepting): (ChannelId, bool)) {
        if let Some(observed) = self.observing.node(node) {
            observed.active_ends.remove(&(id, accepting));
        }
        let channel = self.observing.channels.channels.get_mut(&id);
        if let Some(end) = channel.and_then(|channel| channel.ends[usize::from(accepting)].as_mut())
            && end.sample.domain.node() == node
        {
            (end.sent, end.received) = (IDLE, IDLE);
            self.channel_changed(self.now, id);
        }
    }

    /// Updates the contribution of a channel to its link.
    fn channel_changed(&mut self, now: Nanos, id: ChannelId) {
        let Some(channel) = self.observing.channels.channels.get_mut(&id) else { return };
        let (open, (forth, back)) = (channel.is_open(), channel.flows());
        let nodes = channel.nodes().filter(|(a, b)| open && a != b);
        // A link's direction is from the lower number to the higher.
        let counted = nodes.map(|(a, b)| if a < b { ((a, b), forth, back) } else { ((b, a), back, forth) });
        let before = std::mem::replace(&mut channel.counted, counted);
        if !open && !std::mem::replace(&mut channel.closing, true) {
            self.observing.channels.closing.push_back((now.saturating_add(CLOSED_NS), id));
        }
        self.observing.versions.mark_changed(PartKey::Channel(id));
        if before != counted {
            self.count_channel(before, false);
            self.count_channel(counted, true);
        }
    }

    fn count_channel(&mut self, counted: Option<((NodeId, NodeId), Flow, Flow)>, added: bool) {
        let Some(((a, b), forth, back)) = counted else { return };
        let Some(transport) = self.machine.link_between(a, b) else { return };
        let links = &mut self.observing.channels.links;
        let link = links.entry((a, b)).or_insert_with(|| ObservedLink::new(transport));
        let count = |sum: &mut u64, part: u64| {
            *sum = if added { sum.wrapping_add(part) } else { sum.wrapping_sub(part) };
        };
        for (sum, part) in [(&mut link.forth, forth), (&mut link.back, back)] {
            count(&mut sum.rate_mhz, part.rate_mhz);
            count(&mut sum.bytes_per_s, part.bytes_per_s);
        }
        link.open = if added { link.open + 1 } else { link.open.saturating_sub(1) };
        // Links of the host are visible even if unused.
        if link.open == 0 && a != NodeId::HOST {
            if let Some(link) = links.remove(&(a, b))
                && let Some(history) = &link.history
            {
                self.observing.budget.release(history);
            }
            self.observing.versions.mark_removed(PartKey::Link(a, b));
        } else {
            self.observing.versions.mark_changed(PartKey::Link(a, b));
        }
    }

    /// Removes a domain's ends of channels.
    pub(super) fn remove_domain_ends(&mut self, domain: DomainId) {
        let theirs = self.observing.channels.of_domain.remove(&domain);
        for id in theirs.into_iter().flatten() {
            let Some(channel) = self.observing.channels.channels.get_mut(&id) else { continue };
            for end in &mut channel.ends {
                end.take_if(|end| end.sample.domain == domain);
            }
            for accepting in [false, true] {
                if let Some(observed) = self.observing.node(domain.node()) {
                    observed.active_ends.remove(&(id, accepting));
                }
            }
            self.handle_channel_end_loss(id);
        }
    }

    /// Sets the traffic of a channel to zero that lost an end.
    fn handle_channel_end_loss(&mut self, id: ChannelId) {
        let Some(channel) = self.observing.channels.channels.get_mut(&id) else { return };
        let left = channel.ends.iter_mut().flatten();
        left.for_each(|end| end.sample.open = false);
        if channel.ends.iter().all(Option::is_none) {
            self.remove_channel(id);
        } else {
            self.channel_changed(self.now, id);
        }
    }

    fn remove_channel(&mut self, id: ChannelId) {
        let Some(channel) = self.observing.channels.channels.remove(&id) else { return };
        for end in channel.ends.iter().flatten() {
            self.observing.channels.forget_end(end.sample.domain, id);
        }
        if let Some(history) = &channel.history {
            self.observing.budget.release(history);
        }
        self.observing.channels.reported_full = false;
        self.count_channel(channel.counted, false);
        self.observing.versions.mark_removed(PartKey::Channel(id));
    }

    /// Removes channels that were closed a while ago.
    pub(super) fn remove_closed_channels(&mut self, now: Nanos) {
        while let Some((at, id)) = self.observing.channels.closing.front().copied()
            && at <= now
        {
            self.observing.channels.closing.pop_front();
            let channel = self.observing.channels.channels.get_mut(&id);
            match channel.map(|channel| (channel.is_open(), channel)) {
                Some((true, channel)) => channel.closing = false,
                Some((false, _)) => self.remove_channel(id),
                None => {}
            }
        }
    }

    /// Records a node's round trip time.
    pub(super) fn round_trip(&mut self, id: NodeId, time_ns: u64) {
        if let Some(link) = self.observing.channels.links.get_mut(&(NodeId::HOST, id)) {
            link.round_trip_ns = time_ns;
            self.observing.versions.mark_changed(PartKey::Link(NodeId::HOST, id));
        }
    }

    /// Discards the round trip time of a lost node.
    pub(super) fn reset_link_round_trip(&mut self, id: NodeId) {
        if let Some(link) = self.observing.channels.links.get_mut(&(NodeId::HOST, id))
            && link.round_trip_ns != 0
        {
            link.round_trip_ns = 0;
            self.observing.versions.mark_changed(PartKey::Link(NodeId::HOST, id));
        }
    }
}
