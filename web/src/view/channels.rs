//! Channels, from the samples of their ends.

use serde::{Deserialize, Serialize};
use tombolo::{ChannelId, DomainId, NodeId};
use tombolo_admin::observe::{EndSample, Flow, InFlight, Seen, SeenChannel};

use super::{Filter, Missing, Page, RowRange, domain_id, node_name, node_named, program_of};

/// Selects and sorts channels.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct ChannelsQuery {
    /// Word to find in the number, transport, programs or ids.
    pub filter: String,
    /// Only channels with an end on this node.
    pub node: Option<String>,
    /// Only channels with an end of this domain.
    pub domain: Option<String>,
    /// Sort key of the channels.
    pub sort: ChannelSort,
    /// Whether the greatest comes first.
    pub descending: bool,
    /// Range of the matching rows.
    #[serde(flatten)]
    pub cut: RowRange,
}

/// Sort key of channels; ties are broken by number.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "they say what they are")]
pub enum ChannelSort {
    #[default]
    Id,
    Rate,
    Bytes,
    Depth,
}

/// Row of a channel. `a` is the connecting end.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct ChannelRow {
    pub key: String,
    pub transport: Option<&'static str>,
    /// Nodes whose relays are on the path, in order from `a`.
    pub via: Vec<String>,
    pub a: Option<String>,
    pub b: Option<String>,
    pub a_program: String,
    pub b_program: String,
    pub a_node: Option<String>,
    pub b_node: Option<String>,
    pub forth: FlowRow,
    pub back: FlowRow,
}

/// One direction of a channel.
#[derive(Serialize, Clone, PartialEq, Debug, Default)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct FlowRow {
    pub sent: u64,
    pub received: u64,
    pub sent_bytes: u64,
    /// Messages in flight, if known.
    pub depth: Option<u64>,
    /// Whether `depth` is exact rather than an estimate.
    pub depth_exact: bool,
    pub per_s: f64,
    pub bytes_per_s: u64,
    pub rings: u64,
    pub sleeps: u64,
    pub stalls: u64,
    pub slots: Option<u32>,
    pub credit: Option<u32>,
}

impl FlowRow {
    /// Creates the row of one direction from the samples of its ends, as far as known; `has_traffic` is
    /// whether the channel had recent traffic.
    fn new(from: Option<&EndSample>, to: Option<&EndSample>, flow: Flow, moves: bool) -> FlowRow {
        let known = from.filter(|from| from.slots != 0);
        let in_flight = InFlight::between(from, to, moves);
        FlowRow {
            sent: from.map_or(0, |from| from.sent),
            received: to.map_or(0, |to| to.received),
            sent_bytes: from.map_or(0, |from| from.sent_bytes),
            depth: in_flight.map(|in_flight| in_flight.messages),
            depth_exact: in_flight.is_some_and(|in_flight| in_flight.exact),
            per_s: flow.rate_mhz as f64 / 1000.0,
            bytes_per_s: flow.bytes_per_s,
            rings: from.map_or(0, |from| from.rings),
            sleeps: to.map_or(0, |to| to.sleeps),
            stalls: from.map_or(0, |from| from.stalls),
            slots: known.map(|from| from.slots),
            credit: known.map(|from| from.credit_slots),
        }
    }
}

/// Returns whether a channel had recent traffic.
fn has_traffic(channel: &SeenChannel) -> bool {
    [channel.forth, channel.back].iter().any(|flow| flow.rate_mhz != 0 || flow.bytes_per_s != 0)
}

/// Returns the number of messages in flight in both directions.
fn total_depth(channel: &SeenChannel) -> u64 {
    let (a, b, moves) = (channel.connecting.as_ref(), channel.accepting.as_ref(), has_traffic(channel));
    let ways = [InFlight::between(a, b, moves), InFlight::between(b, a, moves)];
    ways.iter().flatten().map(|in_flight| in_flight.messages).fold(0, u64::saturating_add)
}

/// Returns the end whose figures describe both directions: those of two ends are sampled at different moments
/// and would not agree. The connecting end, if it has a sample.
pub(crate) fn reporting_end(channel: &SeenChannel) -> Option<&EndSample> {
    channel.connecting.as_ref().or(channel.accepting.as_ref())
}

/// Returns the domains at the ends of a channel: connecting and accepting.
pub(crate) fn ends(channel: &SeenChannel) -> (Option<DomainId>, Option<DomainId>) {
    let (a, b) = (channel.connecting.as_ref(), channel.accepting.as_ref());
    let told = |own: Option<&EndSample>, other: Option<&EndSample>| {
        own.map(|end| end.domain).or_else(|| other.and_then(|end| end.peer))
    };
    (told(a, b), told(b, a))
}

fn row(seen: &Seen, channel: &SeenChannel) -> ChannelRow {
    let (from, to) = (channel.connecting.as_ref(), channel.accepting.as_ref());
    let (a, b) = ends(channel);
    let program = |end: Option<DomainId>| end.map_or("", |end| program_of(seen, end)).to_owned();
    let node = |end: Option<DomainId>| end.map(|end| node_name(seen, end.node()));
    let moves = has_traffic(channel);
    ChannelRow {
        key: channel.id.0.to_string(),
        transport: from.or(to).map(|end| end.transport.name()),
        via: channel.via.iter().map(|node| node_name(seen, *node)).collect(),
        a: a.map(|id| id.to_string()),
        b: b.map(|id| id.to_string()),
        a_program: program(a),
        b_program: program(b),
        a_node: node(a),
        b_node: node(b),
        forth: FlowRow::new(from, to, channel.forth, moves),
        back: FlowRow::new(to, from, channel.back, moves),
    }
}

/// Returns the row of a channel.
#[must_use]
pub fn channel(seen: &Seen, id: ChannelId) -> Option<ChannelRow> {
    seen.channels.get(&id).map(|channel| row(seen, channel))
}

/// Returns the channels that a query selects.
///
/// # Errors
/// If the query names an unknown node or domain.
pub fn channels(seen: &Seen, query: &ChannelsQuery) -> Result<Page<ChannelRow>, Missing> {
    let filter = Filter::new(&query.filter);
    let node: Option<NodeId> =
        query.node.as_deref().map(|name| node_named(seen, name).map(|node| node.info.id)).transpose()?;
    let domain = query.domain.as_deref().map(domain_id).transpose()?;
    let wanted = |channel: &&SeenChannel| {
        let (a, b) = ends(channel);
        let both = [a, b].into_iter().flatten();
        node.is_none_or(|node| both.clone().any(|end| end.node() == node))
            && domain.is_none_or(|domain| both.clone().any(|end| end == domain))
            && (filter.0.is_empty()
                || filter.matches(both.clone().map(|end| program_of(seen, end)))
                || both.clone().any(|end| filter.matches([end.to_string().as_str()]))
                || both.clone().any(|end| filter.matches([node_name(seen, end.node()).as_str()]))
                || filter.matches([channel.id.0.to_string().as_str()]))
    };
    let mut all: Vec<&SeenChannel> = seen.channels.values().filter(wanted).collect();
    let key = |channel: &SeenChannel| match query.sort {
        ChannelSort::Id => channel.id.0,
        ChannelSort::Rate => channel.forth.rate_mhz.saturating_add(channel.back.rate_mhz),
        ChannelSort::Bytes => channel.forth.bytes_per_s.saturating_add(channel.back.bytes_per_s),
        ChannelSort::Depth => total_depth(channel),
    };
    all.sort_by(|a, b| {
        let order = key(a).cmp(&key(b));
        let order = if query.descending { order.reverse() } else { order };
        order.then(a.id.cmp(&b.id))
    });
    Ok(query.cut.of(&all, |channel| row(seen, channel)))
}
