//! The knowledge base: the root's knowledge of nodes and the routes between them, as records.
//!
//! A fact is computed on request, from state that the core has anyway: nothing is stored twice, and there is
//! no work until a program asks. An attribute with an unknown value is absent, so no constraint on it holds.

use tombolo_base::NodeId;
use tombolo_control::observation::NodeSample;
use tombolo_control::{Fault, Reply};
use tombolo_machine::{Node, NodeSettings};
use tombolo_naming::{Attributes, NameFault, Query, Record, Value};

use super::{Core, Nanos, NodeState, scope_limits, truncate_name};

/// Maximum number of records per answer; the next constant limits their length.
const MAX_RECORDS: usize = 128;
const PAGE_BYTES: usize = 32 * 1024;

/// Maximum number of facts examined per answer: a machine has as many links as pairs of nodes.
const MAX_EXAMINED: usize = 4096;

/// Upper estimate of an attribute's overhead in a message, beside its name and value.
const ATTRIBUTE_BYTES: usize = 48;

/// Order of the facts: nodes by number, then pairs of them.
#[derive(Clone, Copy)]
enum Subject {
    Node(NodeId),
    Link(NodeId, NodeId),
}

impl Core {
    /// Returns the facts that match a query, from number `from` on.
    pub(super) fn facts(&self, now: Nanos, query: &Query, from: u32) -> Result<Reply, Fault> {
        let limits = scope_limits(0, 0);
        let matcher = query.compile(&limits).map_err(|fault| Fault::Name { fault })?;
        let (mut steps, mut length_bytes) = (limits.steps_per_request, 0);
        let (mut records, mut next, mut looks) = (Vec::new(), from, 0);
        while let Some(subject) = self.subject(next) {
            looks += 1;
            if looks > MAX_EXAMINED || records.len() == MAX_RECORDS || length_bytes > PAGE_BYTES {
                return Ok(Reply::Facts { records, next, more: true });
            }
            next += 1;
            let Some((name, attributes)) = self.fact(now, subject) else { continue };
            let matches = matcher.matches(&name, &attributes, &mut steps).map_err(|_| {
                let what = format!("steps to match '{}'", truncate_name(&query.to_string()));
                Fault::Name { fault: NameFault::Limit { what, limit: limits.steps_per_request } }
            })?;
            if matches {
                let sizes = attributes.iter().map(|(name, value)| name.len() + value.size_bytes());
                length_bytes += name.len() + sizes.map(|size| size + ATTRIBUTE_BYTES).sum::<usize>();
                records.push(Record { name, attributes, version: 0, owner: None, endpoint: false });
            }
        }
        Ok(Reply::Facts { records, next, more: false })
    }

    /// Returns the subject of a fact by number.
    fn subject(&self, number: u32) -> Option<Subject> {
        let id = |index: usize| NodeId(index as u16);
        let nodes = self.machine.nodes().len();
        let number = number as usize;
        if number < nodes {
            return Some(Subject::Node(id(number)));
        }
        // Pairs in rows: all of node 0, then all of node 1 with later ones, …
        let (mut left, mut first) = (number - nodes, 0);
        while first + 1 < nodes {
            let row = nodes - first - 1;
            if left < row {
                return Some(Subject::Link(id(first), id(first + 1 + left)));
            }
            left -= row;
            first += 1;
        }
        None
    }

    fn fact(&self, now: Nanos, subject: Subject) -> Option<(String, Attributes)> {
        match subject {
            Subject::Node(id) => self.fact_of_node(now, id),
            Subject::Link(a, b) => self.fact_of_link(a, b),
        }
    }

    fn fact_of_node(&self, now: Nanos, id: NodeId) -> Option<(String, Attributes)> {
        let (node, record) = (self.machine.node(id)?, self.nodes.get(usize::from(id.0))?);
        let mut fact = Attributes::new();
        let mut set = |name: &str, value: Value| drop(fact.insert(name.to_owned(), value));
        set("node", text(&node.name));
        set("number", integer(u64::from(id.0)));
        set("kind", text(node.settings.name()));
        set("isa", text(node.isa.name()));
        set("system", text(if node.as_bare().is_some() { "none" } else { "linux" }));
        set("up", Value::Bool(record.state == NodeState::Up));
        set("domains", integer(self.domains_of(id).count() as u64));
        if record.cores > 0 {
            set("processors", integer(u64::from(record.cores)));
        }
        let own = self.machine.own_window(id).map(|window| usize::from(window.id.0));
        if let Some(window) = own.and_then(|own| self.windows.get(own)?.as_ref()) {
            let (all, lent) = (window.allocator.total_bytes(), window.allocator.allocated_bytes());
            set("window_bytes", integer(all));
            set("window_free_bytes", integer(all.saturating_sub(lent)));
        }
        // Programs of a `user` node run on the host's kernel, and share its processors and memory.
        let kernel = if node.as_user().is_some() { self.machine.host() } else { node };
        set("kernel", text(&kernel.name));
        if let Some(sample) = self.observing.fresh_sample(now, kernel.id) {
            set_sample(sample, &mut set);
        } else if let Some(bytes) = configured_bytes(node) {
            set("memory_bytes", integer(bytes));
        }
        // The speed of programs under an emulator of the host is not measured.
        let speed = self.observing.fresh_sample(now, id).map_or(0, |sample| sample.speed);
        if speed > 0 {
            set("rounds_per_ms", integer(u64::from(speed)));
        }
        Some((format!("node/{}", node.name), fact))
    }

    /// Returns the route between two nodes: their link, or that of a relayed channel.
    fn fact_of_link(&self, a: NodeId, b: NodeId) -> Option<(String, Attributes)> {
        let [from, to] = [a, b].map(|id| self.machine.node(id));
        let (from, to) = (from?, to?);
        let transport = self.machine.link_between(a, b);
        let via = if transport.is_some() { Vec::new() } else { self.via(a, b)? };
        let mut fact = Attributes::new();
        let mut set = |name: &str, value: Value| drop(fact.insert(name.to_owned(), value));
        set("from", text(&from.name));
        set("to", text(&to.name));
        set("up", Value::Bool(self.is_up(a) && self.is_up(b)));
        set("hops", integer(via.len() as u64 + 1));
        if let Some(transport) = transport {
            set("transport", text(transport.name()));
        } else {
            let names: Vec<String> = via.iter().map(|id| self.node_name(*id)).collect();
            set("via", text(&names.join(" ")));
        }
        if let Some((time_ns, measured)) = self.round_trip_between(a, b, &via) {
            set("round_trip_ns", integer(time_ns));
            set("round_trip_measured", Value::Bool(measured));
        }
        let found = self.machine.found_between(a, b);
        let cost = found.and_then(|found| found.cost.as_ref());
        // A record set by a program is newer than the machine file.
        let found_rate = cost.map(|cost| cost.bytes_per_s.min(cost.bytes_per_s_back));
        if let Some(bytes_per_s) = self.measured_rate(&from.name, &to.name).or(found_rate) {
            set("bytes_per_s", integer(bytes_per_s));
        }
        if let Some(cost) = cost {
            set("message_round_trip_ns", integer(cost.round_trip_ns));
            set("latency_ns", text(&curve(&cost.latency_ns)));
        }
        if let Some(memory) = found.and_then(|found| found.memory.as_ref()) {
            set("order", text(memory.order.name()));
            set("widest_store_bytes", integer(memory.widest_store_bytes.into()));
            set("atomics", Value::Bool(memory.atomics));
        }
        if let Some(bytes) = self.window_between(a, b) {
            set("window_bytes", integer(bytes));
        }
        if let Some((messages_mhz, bytes_per_s)) = self.observing.channels.traffic(a, b) {
            set("traffic_messages_per_s", integer(messages_mhz / 1000));
            set("traffic_bytes_per_s", integer(bytes_per_s));
        }
        Some((format!("link/{}/{}", from.name, to.name), fact))
    }

    /// Returns the nodes that relay a channel between two without a link. Prefers the host, if it reaches
    /// both: a search for each pair of a thousand nodes would delay everything else.
    fn via(&self, a: NodeId, b: NodeId) -> Option<Vec<NodeId>> {
        let host = NodeId::HOST;
        if [a, b].iter().all(|id| self.machine.link_between(host, *id).is_some()) && self.is_up(host) {
            return Some(vec![host]);
        }
        self.relays_between(a, b).ok()
    }

    /// Returns the round trip between the monitors of two nodes, and whether it was measured. The host probes
    /// all nodes that it is linked with. Other pairs are estimated: the mean of both if a link of the same
    /// type joins them, and the sum if the host relays.
    fn round_trip_between(&self, a: NodeId, b: NodeId, via: &[NodeId]) -> Option<(u64, bool)> {
        let known = |id| self.observing.channels.round_trip_ns(NodeId::HOST, id);
        match via {
            [] if a == NodeId::HOST => known(b).map(|time_ns| (time_ns, true)),
            [] => Some((known(a)?.saturating_add(known(b)?) / 2, false)),
            [NodeId::HOST] => Some((known(a)?.saturating_add(known(b)?), false)),
            _ => None,
        }
    }

    /// Returns the rate of a long copy over a link, as `tombolo bench memory` measured and stored it.
    fn measured_rate(&self, from: &str, to: &str) -> Option<u64> {
        let record = self.names.record(&format!("{LINK_COSTS}/{from}/{to}"))?;
        // Any program may set a record: invalid ones are ignored.
        match record.attributes.get("bytes_per_s") {
            Some(Value::Integer(rate)) if *rate > 0 => u64::try_from(*rate).ok(),
            _ => None,
        }
    }

    /// Returns the size of the window that joins two nodes, in bytes.
    fn window_between(&self, a: NodeId, b: NodeId) -> Option<u64> {
        let window = self.machine.window_between(a, b)?;
        let record = self.windows.get(usize::from(window.id.0))?.as_ref()?;
        Some(record.allocator.total_bytes())
    }
}

/// Prefix of records with measured link costs: `link.costs/FROM/TO { bytes_per_s: … }`, the lower-numbered
/// node first.
const LINK_COSTS: &str = "link.costs";

fn set_sample(sample: &NodeSample, set: &mut impl FnMut(&str, Value)) {
    let busy = Core::node_load(sample);
    set("load_permille", integer(busy));
    if !sample.cores.is_empty() {
        set("free_permille", integer((sample.cores.len() as u64 * 1000).saturating_sub(busy)));
    }
    if sample.memory_bytes > 0 {
        set("memory_bytes", integer(sample.memory_bytes));
        set("memory_free_bytes", integer(sample.memory_bytes.saturating_sub(sample.memory_used_bytes)));
    }
}

/// Returns the memory configured for a node in the machine file.
fn configured_bytes(node: &Node) -> Option<u64> {
    match &node.settings {
        NodeSettings::Vm(vm) => Some(u64::from(vm.memory_mib) << 20),
        _ => None,
    }
}

/// Formats times by length: `8:450 64:480 …`.
fn curve(latency_ns: &[(u64, u64)]) -> String {
    let points: Vec<String> =
        latency_ns.iter().map(|(bytes, time_ns)| format!("{bytes}:{time_ns}")).collect();
    points.join(" ")
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn integer(value: u64) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}
