//! Details of one node, domain, channel or link.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use tombolo::{ChannelId, DomainId, NodeId};
use tombolo_web::Snapshot;
use tombolo_web::view::{self, ChannelRow, FlowRow, NodeDetail};

use super::app::{App, RowSubject};
use super::draw::{bold, style};
use super::lists::{self, Tone};
use super::machine_client::DomainOutput;
use crate::text::{bytes, count, duration, one_line};

/// Draws the details of `subject`: the facts, and below them the scrolling part.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    app: &mut App,
    snapshot: &Snapshot,
    subject: RowSubject,
    output: &DomainOutput,
    area: Rect,
) {
    let facts = match subject {
        RowSubject::Domain(id) => return domain(frame, app, snapshot, id, output, area),
        RowSubject::Node(id) => node(snapshot, id),
        RowSubject::Channel(id) => channel(snapshot, id),
        RowSubject::Link(a, b) => link(snapshot, a, b),
    };
    let lines = facts.unwrap_or_else(|what| {
        vec![Line::styled(format!("there is no {what} any more"), style(Tone::Bad, app.colour))]
    });
    app.page = usize::from(area.height).max(1);
    app.scrolled = app.scrolled.min(lines.len().saturating_sub(app.page));
    let shown: Vec<Line<'_>> = lines.into_iter().skip(app.scrolled).take(app.page).collect();
    frame.render_widget(Paragraph::new(shown), area);
}

/// Draws the facts about a domain, and the end of its output.
fn domain(
    frame: &mut Frame<'_>,
    app: &mut App,
    snapshot: &Snapshot,
    id: DomainId,
    output: &DomainOutput,
    area: Rect,
) {
    let mut lines = domain_facts(snapshot, id, app.colour);
    let room = usize::from(area.height).saturating_sub(lines.len()).max(1);
    app.page = room;
    let all: Vec<&str> = if output.of == Some(id) { output.text.lines().collect() } else { Vec::new() };
    app.scrolled = app.scrolled.min(all.len().saturating_sub(room));
    let end = all.len() - app.scrolled;
    let shown = &all[end.saturating_sub(room)..end];
    lines.extend(shown.iter().map(|line| Line::raw(one_line(line))));
    if shown.is_empty() {
        let why =
            output.error.as_deref().filter(|_| output.of == Some(id)).unwrap_or("it has written nothing");
        lines.push(Line::styled(one_line(why), style(Tone::Dim, app.colour)));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn domain_facts(snapshot: &Snapshot, id: DomainId, colour: bool) -> Vec<Line<'static>> {
    let Ok(detail) = view::domain(&snapshot.seen, id) else {
        let gone = format!("{id} is no longer known");
        return vec![Line::styled(gone, style(Tone::Bad, colour)), Line::raw("")];
    };
    let row = &detail.domain;
    let state = match (&row.exit, row.paused) {
        (Some(exit), _) => exit.clone(),
        (None, true) => "paused".to_owned(),
        (None, false) => "runs".to_owned(),
    };
    let tone = if row.failed { Tone::Bad } else { Tone::Plain };
    let age = std::time::Duration::from_millis((snapshot.now_ns / 1_000_000).saturating_sub(row.since_ms));
    vec![
        Line::from(vec![
            Span::styled(one_line(&format!("{} {}", row.program, row.arguments)), bold()),
            Span::styled(format!("  {}", one_line(&state)), style(tone, colour)),
        ]),
        Line::raw(one_line(&format!(
            "{id} on {}  process {}  started {} ago by {}",
            row.node,
            row.pid,
            duration(age),
            row.parent.as_deref().unwrap_or("itself"),
        ))),
        Line::raw(format!(
            "load {}  memory {}  {}  {}  {}  {}",
            lists::processors(row.load.map(u64::from)),
            row.memory_bytes.map_or_else(|| "-".to_owned(), bytes),
            count(row.threads.unwrap_or(0) as usize, "thread"),
            count(row.channels as usize, "channel"),
            count(detail.regions.len(), "region"),
            count(detail.children.len(), "child domain"),
        )),
        Line::raw(""),
    ]
}

fn fact(name: &str, value: impl AsRef<str>) -> Line<'static> {
    Line::raw(format!("{name:12}{}", one_line(value.as_ref())))
}

fn node(snapshot: &Snapshot, id: NodeId) -> Result<Vec<Line<'static>>, String> {
    let name =
        snapshot.seen.nodes.get(&id).map(|node| node.info.name.clone()).ok_or_else(|| id.to_string())?;
    let NodeDetail { node, core_list, power, engines, boot_ms, pid, .. } =
        view::node(&snapshot.seen, &name).map_err(|_| format!("node {name}"))?;
    let state =
        if node.cause.is_empty() { node.phase.to_owned() } else { format!("{}: {}", node.phase, node.cause) };
    let memory = lists::memory(&node).unwrap_or_else(|| "-".to_owned());
    let mut lines = vec![
        Line::styled(one_line(&node.name), bold()),
        fact("state", state),
        fact("kind", format!("{}, {}, generation {}", node.kind, node.target, node.generation)),
        fact("load", format!("{} of {}", lists::processors(node.load), count(node.cores, "processor"))),
        fact("memory", memory),
        fact("domains", node.domains.to_string()),
        fact(
            "monitor",
            format!("process {pid}, up after {}", duration(std::time::Duration::from_millis(boot_ms))),
        ),
    ];
    if node.window_bytes > 0 {
        let (lent, all) = (bytes(node.window_lent_bytes), bytes(node.window_bytes));
        lines.push(fact("window", format!("{lent} lent of {all}")));
    }
    lines.push(Line::raw(""));
    for (number, core) in core_list.iter().enumerate() {
        let frequency = core.khz.map_or_else(String::new, |khz| format!("  {} MHz", khz / 1000));
        let governor = core.governor.as_deref().map_or_else(String::new, |governor| format!("  {governor}"));
        let load = lists::processors(Some(core.load.into()));
        lines.push(fact(&format!("processor {number}"), format!("{load}{frequency}{governor}")));
    }
    for meter in power {
        lines.push(fact("power", format!("{}.{} W  {}", meter.mw / 1000, meter.mw % 1000 / 100, meter.name)));
    }
    for engine in engines {
        let rate = bytes(engine.bytes_per_s);
        lines.push(fact("engine", format!("{}  {} ns  {rate}/s", engine.name, engine.latency_ns)));
    }
    Ok(lines)
}

/// A figure of one direction of a channel: its name, and its format.
type Measured<'a> = (&'static str, &'a dyn Fn(&FlowRow) -> String);

/// Describes the transport of a channel, and the nodes that relay it.
pub(super) fn by_way_of(transport: &str, relays: &[String]) -> String {
    if relays.is_empty() { transport.to_owned() } else { format!("{transport} by {}", relays.join(", ")) }
}

fn channel(snapshot: &Snapshot, id: ChannelId) -> Result<Vec<Line<'static>>, String> {
    let row = view::channel(&snapshot.seen, id).ok_or_else(|| format!("channel {}", id.0))?;
    let ChannelRow { key, transport, forth, back, .. } = &row;
    let end = |program: &str, id: &Option<String>, node: &Option<String>| {
        let id = id.as_deref().unwrap_or("not known");
        node.as_ref().map_or_else(|| id.to_owned(), |node| format!("{program} {id} on {node}"))
    };
    let mut lines = vec![
        Line::styled(format!("channel {key}"), bold()),
        fact("connected", end(&row.a_program, &row.a, &row.a_node)),
        fact("accepted", end(&row.b_program, &row.b, &row.b_node)),
        fact("via", by_way_of(transport.unwrap_or("-"), &row.via)),
        Line::raw(""),
        Line::styled(format!("{:12}{:>16}{:>16}", "", "FROM CONNECTED", "FROM ACCEPTED"), bold()),
    ];
    let known = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let ways: [Measured<'_>; 10] = [
        ("messages/s", &|flow| lists::rate(flow.per_s)),
        ("bytes/s", &|flow| bytes(flow.bytes_per_s)),
        ("sent", &|flow| flow.sent.to_string()),
        ("received", &|flow| flow.received.to_string()),
        ("waiting", &|flow| lists::waiting(&[flow])),
        ("slots", &|flow| known(flow.slots)),
        ("free slots", &|flow| known(flow.credit)),
        ("stalls", &|flow| flow.stalls.to_string()),
        ("wake-ups", &|flow| flow.rings.to_string()),
        ("sleeps", &|flow| flow.sleeps.to_string()),
    ];
    lines.extend(
        ways.iter()
            .map(|(name, value)| Line::raw(format!("{name:12}{:>16}{:>16}", value(forth), value(back)))),
    );
    Ok(lines)
}

fn link(snapshot: &Snapshot, a: NodeId, b: NodeId) -> Result<Vec<Line<'static>>, String> {
    let missing = || format!("link between {a} and {b}");
    let link = snapshot.seen.links.get(&(a, b)).ok_or_else(missing)?;
    let row = view::link(&snapshot.seen, link);
    let way = |messages: f64, per_s: u64| format!("{} messages/s, {}/s", lists::rate(messages), bytes(per_s));
    Ok(vec![
        Line::styled(one_line(&format!("{} and {}", row.a, row.b)), bold()),
        fact("via", row.transport),
        fact("channels", row.channels.to_string()),
        fact("round trip", row.round_trip_ns.map_or_else(|| "-".to_owned(), lists::nanoseconds)),
        fact("there", way(row.forth_per_s, row.forth_bytes_per_s)),
        fact("back", way(row.back_per_s, row.back_bytes_per_s)),
    ])
}
