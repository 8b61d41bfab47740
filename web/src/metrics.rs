//! Metrics of a machine in Prometheus's text format, version 0.0.4.

use std::fmt::{Display, Write};

use tombolo_admin::observe::{EndSample, NodePhase, NodeSample, Seen, SeenChannel, SeenDomain, SeenNode};

use crate::cache::{MonitorState, Snapshot};
use crate::view::{channel_ends, domain_name, load, node_name, reporting_end, shares_kernel};

/// Media type of the format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Maximum number of domains and of channels that are exported; those with the lowest numbers are. A scraper
/// keeps a time series for each.
const MAX_PARTS: usize = 2000;

/// Maximum length of a label value, in characters.
const MAX_LABEL_CHARS: usize = 128;

/// Exposition text under construction, one metric family after another.
struct Exposition(String);

impl Exposition {
    /// Begins a metric family.
    fn family(&mut self, name: &str, kind: &str, help: &str) -> Family<'_> {
        let head = self.0.len();
        // Writing to a string does not fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        let name = name.to_owned();
        Family { text: &mut self.0, name, head, empty: true }
    }

    fn gauge(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    fn counter(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, "counter", help)
    }
}

/// Metric family: all series of one name. Its header is removed if it has no series.
struct Family<'a> {
    text: &'a mut String,
    name: String,
    head: usize,
    empty: bool,
}

impl Family<'_> {
    fn series(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.empty = false;
        self.text.push_str(&self.name);
        for (index, (name, value)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{name}=\"");
            escape(self.text, value);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

impl Drop for Family<'_> {
    fn drop(&mut self) {
        if self.empty {
            self.text.truncate(self.head);
        }
    }
}

/// Writes a label value with escapes, so that any text is valid.
fn escape(text: &mut String, value: &str) {
    for c in value.chars().take(MAX_LABEL_CHARS) {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
}

/// Renders all metrics of a snapshot.
pub(crate) fn render(snapshot: &Snapshot) -> String {
    let mut all = Exposition(String::new());
    let up = snapshot.monitor == MonitorState::Connected && snapshot.taken.is_some();
    all.gauge("tombolo_monitor_up", "Whether the machine's monitor answers; without it nothing else is told")
        .series(&[("machine", &snapshot.machine)], u8::from(up));
    if up {
        let seen = &snapshot.seen;
        nodes(&mut all, seen);
        cores(&mut all, seen);
        links(&mut all, seen);
        domains(&mut all, seen);
        channels(&mut all, seen);
        let regions = seen.regions.values().map(|region| region.info.length_bytes);
        all.gauge("tombolo_region_bytes", "Bytes of all regions").series(&[], regions.sum::<u64>());
        let last = seen.events.keys().next_back().copied().unwrap_or(0);
        all.counter("tombolo_events_total", "Events that the monitor has told of").series(&[], last);
        omitted_counts(&mut all, seen);
    }
    server_metrics(&mut all);
    all.0
}

fn milli(value: impl Into<u64>) -> f64 {
    value.into() as f64 / 1000.0
}

fn nodes(all: &mut Exposition, seen: &Seen) {
    let mut family = all.gauge("tombolo_node_up", "Whether a node is up");
    for node in seen.nodes.values() {
        let info = &node.info;
        let labels = [("node", &*info.name), ("isa", info.isa.name()), ("kind", info.kind.name())];
        family.series(&labels, u8::from(node.phase == NodePhase::Up));
    }
    drop(family);
    let mut each = |name, help, value: &dyn Fn(&SeenNode) -> Option<f64>| {
        let mut family = all.gauge(name, help);
        for node in seen.nodes.values() {
            if let Some(value) = value(node) {
                family.series(&[("node", &node.info.name)], value);
            }
        }
    };
    let sampled = |value: fn(&NodeSample) -> f64| move |node: &SeenNode| node.sample.as_ref().map(value);
    // Sums over nodes must not count a kernel's resources twice.
    let kernels = |value: fn(&NodeSample) -> f64| {
        move |node: &SeenNode| node.sample.as_ref().filter(|_| !shares_kernel(node)).map(value)
    };
    let guests = |value: fn(&NodeSample) -> f64| {
        move |node: &SeenNode| node.sample.as_ref().filter(|_| shares_kernel(node)).map(value)
    };
    each("tombolo_node_domains", "Live domains of a node", &|node| Some(f64::from(node.info.domains)));
    each(
        "tombolo_node_memory_used_bytes",
        "Memory in use on a node",
        &kernels(|sample| sample.memory_used_bytes as f64),
    );
    each("tombolo_node_memory_bytes", "All memory of a node", &kernels(|sample| sample.memory_bytes as f64));
    each(
        "tombolo_node_own_memory_bytes",
        "Memory in use by a node on the host's kernel, which is part of the host's",
        &guests(|sample| sample.memory_used_bytes as f64),
    );
    each(
        "tombolo_node_own_cpu_ratio",
        "Processor time of a node on the host's kernel, in processors, which is part of the host's",
        &guests(|sample| milli(u32::try_from(load(sample)).unwrap_or(u32::MAX))),
    );
    each(
        "tombolo_node_window_lent_bytes",
        "What of a node's window is lent to channels and regions",
        &|node| (node.info.window_bytes.1 != 0).then_some(node.info.window_bytes.0 as f64),
    );
    each("tombolo_node_window_bytes", "A node's window", &|node| {
        (node.info.window_bytes.1 != 0).then_some(node.info.window_bytes.1 as f64)
    });
    each(
        "tombolo_node_sampling_cpu_ratio",
        "What it costs to look at a node, in processors",
        &sampled(|sample| f64::from(sample.cost_ppm) / 1e6),
    );
    let mut family = all.gauge("tombolo_node_power_watts", "What a part of a node draws, by its meter");
    for (node, sample) in samples(seen) {
        for meter in &sample.power {
            family.series(&[("node", &node.info.name), ("meter", &meter.name)], milli(meter.power_mw));
        }
    }
}

fn samples(seen: &Seen) -> impl Iterator<Item = (&SeenNode, &NodeSample)> {
    seen.nodes.values().filter_map(|node| Some((node, node.sample.as_ref()?)))
}

fn cores(all: &mut Exposition, seen: &Seen) {
    let mut family =
        all.gauge("tombolo_node_core_load_ratio", "How much of the time a processor does something");
    for (node, sample) in samples(seen) {
        for (number, core) in sample.cores.iter().enumerate() {
            let labels = [("node", &*node.info.name), ("core", &number.to_string())];
            family.series(&labels, milli(core.load_permille));
        }
    }
    drop(family);
    let mut family = all.gauge("tombolo_node_core_frequency_hertz", "How fast a processor runs");
    for (node, sample) in samples(seen) {
        let exported = sample.cores.iter().enumerate().filter(|(_, core)| core.frequency_khz != 0);
        for (number, core) in exported {
            let labels = [("node", &*node.info.name), ("core", &number.to_string())];
            family.series(&labels, u64::from(core.frequency_khz) * 1000);
        }
    }
}

fn links(all: &mut Exposition, seen: &Seen) {
    let mut each = |name, help, value: &dyn Fn(&tombolo_admin::observe::SeenLink) -> Option<f64>| {
        let mut family = all.gauge(name, help);
        for link in seen.links.values() {
            let (a, b) = (node_name(seen, link.a), node_name(seen, link.b));
            if let Some(value) = value(link) {
                family.series(&[("a", &a), ("b", &b), ("transport", link.transport.name())], value);
            }
        }
    };
    each("tombolo_link_channels", "Open channels between two nodes", &|link| Some(f64::from(link.channels)));
    each("tombolo_link_round_trip_seconds", "There and back between two nodes' monitors", &|link| {
        (link.round_trip_ns != 0).then_some(link.round_trip_ns as f64 / 1e9)
    });
}

fn domains(all: &mut Exposition, seen: &Seen) {
    all.gauge("tombolo_domains", "Live domains").series(&[], seen.live().count());
    let mut each = |name, help, value: fn(&tombolo_admin::observe::DomainSample) -> f64| {
        let mut family = all.gauge(name, help);
        let exported = seen.live().take(MAX_PARTS);
        for (domain, sample) in exported.filter_map(|domain| Some((domain, domain.sample.as_ref()?))) {
            let SeenDomain { id, program, node, .. } = domain;
            let labels =
                [("domain", &*id.to_string()), ("program", program), ("node", &node_name(seen, *node))];
            family.series(&labels, value(sample));
        }
    };
    each("tombolo_domain_cpu_ratio", "Processor time of a domain, in processors", |sample| {
        milli(sample.load_permille)
    });
    each("tombolo_domain_memory_bytes", "Memory that a domain has in use", |sample| {
        sample.resident_bytes as f64
    });
    each("tombolo_domain_threads", "Threads of a domain", |sample| f64::from(sample.threads));
}

/// One direction of a channel.
struct ChannelDirection<'a> {
    from: Option<tombolo::DomainId>,
    to: Option<tombolo::DomainId>,
    /// Messages and bytes transferred. Both directions are taken from the same end.
    passed: Option<(u64, u64)>,
    /// Sample of the sending end.
    sender: Option<&'a EndSample>,
}

fn channel_directions(channel: &SeenChannel) -> [ChannelDirection<'_>; 2] {
    let (a, b) = channel_ends(channel);
    // Prometheus takes a decreasing counter for a restart. An accepting end that remains after its peer died
    // may have lower counts, so it is not exported.
    let end = reporting_end(channel).filter(|end| !end.accepting || end.open);
    let sent = end.map(|end| (end.sent, end.sent_bytes));
    let received = end.map(|end| (end.received, end.received_bytes));
    let (forth, back) =
        if end.is_some_and(|end| end.accepting) { (received, sent) } else { (sent, received) };
    let (connecting, accepting) = (channel.connecting.as_ref(), channel.accepting.as_ref());
    [
        ChannelDirection { from: a, to: b, passed: forth, sender: connecting },
        ChannelDirection { from: b, to: a, passed: back, sender: accepting },
    ]
}

fn channels(all: &mut Exposition, seen: &Seen) {
    all.gauge("tombolo_channels", "Channels").series(&[], seen.channels.len());
    let mut each = |name, help, value: fn(&ChannelDirection<'_>) -> Option<u64>| {
        let mut family = all.counter(name, help);
        for channel in seen.channels.values().take(MAX_PARTS) {
            let Some(transport) = reporting_end(channel).map(|end| end.transport.name()) else { continue };
            for way in channel_directions(channel) {
                let Some(value) = value(&way) else { continue };
                let (from, to) = (way.from.map(domain_name), way.to.map(domain_name));
                let labels = [
                    ("channel", &*channel.id.0.to_string()),
                    ("from", from.as_deref().unwrap_or_default()),
                    ("to", to.as_deref().unwrap_or_default()),
                    ("transport", transport),
                ];
                family.series(&labels, value);
            }
        }
    };
    each("tombolo_channel_messages_total", "Messages that passed through a channel", |way| {
        way.passed.map(|(messages, _)| messages)
    });
    each("tombolo_channel_bytes_total", "Bytes of messages that passed through a channel", |way| {
        way.passed.map(|(_, bytes)| bytes)
    });
    each("tombolo_channel_stalls_total", "How often a sender found no room", |way| {
        way.sender.map(|end| end.stalls)
    });
    each("tombolo_channel_wakeups_total", "How often a sender woke the receiver", |way| {
        way.sender.map(|end| end.rings)
    });
}

fn omitted_counts(all: &mut Exposition, seen: &Seen) {
    let mut family =
        all.gauge("tombolo_metrics_left_out", "Domains and channels beyond the limit, which have no series");
    for (part, count) in [("domain", seen.live().count()), ("channel", seen.channels.len())] {
        family.series(&[("part", part)], count.saturating_sub(MAX_PARTS));
    }
}

/// Exports the resource usage of this server.
fn server_metrics(all: &mut Exposition) {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9;
    all.counter("process_cpu_seconds_total", "Processor time of this server").series(&[], seconds);
    let resident = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = resident.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    if let Some(pages) = pages {
        let bytes = pages * rustix::param::page_size() as u64;
        all.gauge("process_resident_memory_bytes", "Memory that this server has in use").series(&[], bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{channel, domain, ended, id, node, seen, user_node};

    fn snapshot(seen: Seen, monitor: MonitorState) -> Snapshot {
        Snapshot::of("duo", seen, monitor)
    }

    /// Renders the metrics of a machine, without those of this process.
    fn text(seen: Seen) -> String {
        let all = render(&snapshot(seen, MonitorState::Connected));
        all.split("# HELP process_").next().unwrap().to_owned()
    }

    #[test]
    fn metrics_are_in_base_units() {
        let mut machine = seen([node(0, "host", "x86_64", &[250, 1000], 4000)]);
        for one in [domain(0, 1, "tombolo", 5), domain(0, 2, "work", 1500)] {
            machine.domains.insert(one.id, one);
        }
        let gone = ended(domain(0, 3, "gone", 0), tombolo::Exit::Left);
        machine.domains.insert(gone.id, gone);
        let one = channel(7, id(0, 1), id(0, 2), 10);
        machine.channels.insert(one.id, one);
        assert_eq!(text(machine), GOLDEN);
    }

    const GOLDEN: &str = include_str!("metrics/golden.txt");

    #[test]
    fn both_directions_come_from_one_end() {
        let mut machine = seen([]);
        let mut one = channel(7, id(0, 1), id(0, 2), 10);
        // A ping-pong channel whose ends were sampled at different moments.
        let (near, far) = (one.connecting.as_mut().unwrap(), one.accepting.as_mut().unwrap());
        (near.sent, near.received) = (61_000, 60_999);
        (far.sent, far.received) = (50_000, 50_000);
        machine.channels.insert(one.id, one.clone());
        let passed = |machine: &Seen| -> Vec<String> {
            let text = text(machine.clone());
            let lines = text.lines().filter_map(|line| line.strip_prefix("tombolo_channel_messages_total"));
            lines.filter_map(|line| line.split_once("} ")).map(|(_, value)| value.to_owned()).collect()
        };
        assert_eq!(passed(&machine), ["61000", "60999"]);
        // The end that remains after its peer died has lower counts: a counter must not decrease.
        let left = one.accepting.as_mut().unwrap();
        left.open = false;
        one.connecting = None;
        machine.channels.insert(one.id, one.clone());
        assert_eq!(passed(&machine), [""; 0]);
        one.accepting.as_mut().unwrap().open = true;
        machine.channels.insert(one.id, one);
        assert_eq!(passed(&machine), ["50000", "50000"], "the other end is not on this machine");
    }

    #[test]
    fn user_nodes_are_counted_once() {
        let text =
            text(seen([node(0, "host", "x86_64", &[250, 1000], 4000), user_node(1, "arm0", "aarch64", 700)]));
        let sum = |name: &str| -> f64 {
            let lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
            lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
        };
        assert_eq!(sum("tombolo_node_core_load_ratio"), 1.25);
        assert_eq!(sum("tombolo_node_memory_bytes"), f64::from(4) * f64::from(1 << 30));
        assert_eq!(sum("tombolo_node_memory_used_bytes"), f64::from(1 << 30));
        assert_eq!(sum("tombolo_node_power_watts"), 12.5);
        assert!(text.contains("tombolo_node_own_cpu_ratio{node=\"arm0\"} 0.7\n"), "{text}");
        assert!(text.contains("tombolo_node_own_memory_bytes{node=\"arm0\"} 12582912\n"), "{text}");
    }

    #[test]
    fn hostile_names_stay_values() {
        let mut machine = seen([]);
        let program = format!("a\"}} 1\nevil{{x=\"\\{}", "é".repeat(1000));
        let one = domain(0, 2, &program, 1);
        machine.domains.insert(one.id, one);
        let text = text(machine);
        let line = text.lines().find(|line| line.starts_with("tombolo_domain_cpu_ratio{")).unwrap();
        let start = "tombolo_domain_cpu_ratio{domain=\"0.1.2\",program=\"a\\\"} 1\\nevil{x=\\\"\\\\é";
        assert!(line.starts_with(start), "{line}");
        assert!(line.ends_with("é\",node=\"node 0\"} 0.001"), "{line}");
        assert!(line.chars().count() < 300, "{line}");
    }

    #[test]
    fn excess_series_are_omitted_and_counted() {
        let mut machine = seen([]);
        for index in 1..=MAX_PARTS as u32 + 3 {
            let one = domain(0, index, "one", 1);
            machine.domains.insert(one.id, one);
        }
        let text = text(machine);
        assert!(text.contains("tombolo_metrics_left_out{part=\"domain\"} 3\n"));
        assert_eq!(text.matches("tombolo_domain_threads{").count(), MAX_PARTS);
    }

    #[test]
    fn nothing_is_exported_without_a_monitor() {
        let machine = seen([node(0, "host", "x86_64", &[250], 4000)]);
        let all = render(&snapshot(machine, MonitorState::Gone { why: "gone".into() }));
        assert!(all.contains("tombolo_monitor_up{machine=\"duo\"} 0\n") && !all.contains("tombolo_node_up"));
        assert!(all.contains("process_cpu_seconds_total "));
    }
}
