//! Lists of the views, as rows for a terminal.

use std::time::Duration;

use ratatui::text::Line;
use tombolo::{ChannelId, NodeId};
use tombolo_web::Snapshot;
use tombolo_web::view::{
    self, ChannelRow, ChannelsQuery, DomainRow, DomainsQuery, EventRow, EventsQuery, FlowRow, HubRow,
    HubsQuery, LinkRow, NodeRow, RowRange, WaitingRow,
};

use super::app::{App, RowSubject, Tab};
use super::details::by_way_of;
use crate::text::{bytes, duration, one_line};

/// Semantic colour of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tone {
    Plain,
    Good,
    Busy,
    Bad,
    Dim,
}

/// A column: its head, and its rank in being omitted for lack of room; 0 is never omitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Column {
    pub(super) head: &'static str,
    pub(super) right: bool,
    pub(super) rank: u8,
}

/// Maximum width of a column, except for the last, which takes the remaining room.
pub(super) const MAX_COLUMN: usize = 26;

const fn left(head: &'static str, rank: u8) -> Column {
    Column { head, right: false, rank }
}

const fn right(head: &'static str, rank: u8) -> Column {
    Column { head, right: true, rank }
}

/// Text of a cell, with its tone.
pub(super) type Cell = (String, Tone);

/// A section of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct List {
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Vec<Cell>>,
    /// Subject of each row.
    pub(super) subjects: Vec<Option<RowSubject>>,
    pub(super) total: usize,
}

const NODES: &[Column] = &[
    left("NODE", 0),
    left("ISA", 2),
    left("STATE", 1),
    right("LOAD", 0),
    right("MEMORY", 3),
    right("DOMAINS", 4),
    right("POWER", 5),
    left("PROCESSORS", 0),
];

const DOMAINS: &[Column] = &[
    left("DOMAIN", 0),
    left("NODE", 2),
    right("LOAD", 0),
    right("MEMORY", 1),
    right("THREADS", 4),
    right("CHANNELS", 5),
    right("AGE", 3),
    left("STATE", 1),
    left("PROGRAM", 0),
];

const CHANNELS: &[Column] = &[
    right("CHANNEL", 5),
    left("FROM", 0),
    left("TO", 0),
    left("VIA", 4),
    right("MESSAGES/S", 1),
    right("BYTES/S", 0),
    right("DEPTH", 2),
    right("STALLS", 3),
];

const LINKS: &[Column] = &[
    left("BETWEEN", 0),
    left("AND", 0),
    left("VIA", 3),
    right("CHANNELS", 4),
    right("THERE/S", 1),
    right("BACK/S", 1),
    right("BYTES/S", 0),
    right("ROUND TRIP", 2),
];

const EVENTS: &[Column] =
    &[right("AGO", 0), left("WHAT", 0), left("NODE", 1), left("DOMAIN", 1), left("MORE", 0)];

const HUBS: &[Column] = &[
    left("HUB", 0),
    left("KIND", 1),
    left("NODE", 1),
    right("DEPTH", 0),
    right("CAPACITY", 3),
    left("PUTTING", 1),
    left("GETTING", 1),
    left("OWNER", 2),
    left("STATE", 0),
];

fn plain(text: impl Into<String>) -> Cell {
    (text.into(), Tone::Plain)
}

/// Returns a cell with text from another program, made printable.
fn printable_cell(text: &str) -> Cell {
    plain(one_line(text))
}

fn optional_cell<T>(value: Option<T>, show: impl Fn(T) -> String) -> Cell {
    value.map_or_else(|| ("-".to_owned(), Tone::Dim), |value| plain(show(value)))
}

/// Formats a rate per second in about four characters.
pub(super) fn rate(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 10.0 => format!("{value:.1}"),
        value if value < 10_000.0 => format!("{value:.0}"),
        value if value < 1e7 => format!("{:.0}k", value / 1e3),
        value => format!("{:.0}M", value / 1e6),
    }
}

/// Formats thousandths of a processor as processors.
pub(super) fn processors(permille: Option<u64>) -> String {
    permille.map_or_else(|| "-".to_owned(), |load| format!("{}.{:02}", load / 1000, load % 1000 / 10))
}

/// Formats a time in nanoseconds.
pub(super) fn nanoseconds(ns: u64) -> String {
    if ns < 10_000 { format!("{ns} ns") } else { format!("{} µs", ns / 1000) }
}

/// Formats the total load of `count` processors, with a tone for their mean load.
fn load(permille: u64, count: usize) -> Cell {
    let share = permille / count.max(1) as u64;
    let tone = match share {
        0..10 => Tone::Dim,
        10..700 => Tone::Good,
        700..950 => Tone::Busy,
        _ => Tone::Bad,
    };
    (processors(Some(permille)), tone)
}

/// Formats the memory of a node. One on the host's kernel has a part of the host's.
pub(super) fn memory(row: &NodeRow) -> Option<String> {
    let used = bytes(row.memory_used_bytes?);
    match row.memory_bytes {
        Some(all) => Some(format!("{used} of {}", bytes(all))),
        None if row.shared => Some(format!("{used} of host's")),
        None => Some(used),
    }
}

/// Formats the loads of processors as bars, one character each.
fn bars(loads: &[u16]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    loads.iter().map(|load| BARS[(usize::from((*load).min(999)) * BARS.len()) / 1000]).collect()
}

fn node(snapshot: &Snapshot, row: &NodeRow) -> Vec<Cell> {
    let (state, tone) = match row.phase {
        "up" => ("up".to_owned(), Tone::Good),
        "down" => (one_line(&format!("down: {}", row.cause)), Tone::Bad),
        phase => (phase.to_owned(), Tone::Busy),
    };
    let cores = snapshot.seen.nodes.get(&tombolo::NodeId(row.id)).and_then(|node| node.sample.as_ref());
    let loads: Vec<u16> =
        cores.iter().flat_map(|sample| &sample.cores).map(|core| core.load_permille).collect();
    vec![
        printable_cell(&row.name),
        plain(row.target),
        (state, tone),
        row.load.map_or_else(|| ("-".to_owned(), Tone::Dim), |permille| load(permille, row.cores)),
        optional_cell(memory(row), |text| text),
        plain(row.domains.to_string()),
        optional_cell(row.power_mw, |mw| format!("{}.{} W", mw / 1000, mw % 1000 / 100)),
        plain(bars(&loads)),
    ]
}

/// Returns the time since an instant of the monitor's clock.
fn since(snapshot: &Snapshot, then_ms: u64) -> Duration {
    Duration::from_millis((snapshot.now_ns / 1_000_000).saturating_sub(then_ms))
}

fn domain(snapshot: &Snapshot, row: &DomainRow) -> Vec<Cell> {
    let state = match (&row.exit, row.paused) {
        (Some(exit), _) => (one_line(exit), if row.failed { Tone::Bad } else { Tone::Dim }),
        (None, true) => ("paused".to_owned(), Tone::Busy),
        (None, false) => plain(""),
    };
    let program = match row.arguments.as_str() {
        "" => one_line(&row.program),
        arguments => one_line(&format!("{} {arguments}", row.program)),
    };
    vec![
        plain(&row.key),
        printable_cell(&row.node),
        row.load.map_or_else(|| ("-".to_owned(), Tone::Dim), |permille| load(permille.into(), 1)),
        optional_cell(row.memory_bytes, bytes),
        optional_cell(row.threads, |threads| threads.to_string()),
        plain(row.channels.to_string()),
        plain(duration(since(snapshot, row.since_ms))),
        state,
        plain(program),
    ]
}

fn end(program: &str, id: Option<&str>, node: Option<&str>) -> Cell {
    match id {
        Some(id) => printable_cell(format!("{program} {id} {}", node.unwrap_or_default()).trim()),
        None => ("-".to_owned(), Tone::Dim),
    }
}

/// Formats the number of messages in flight, with `≈` if it is estimated.
pub(super) fn waiting(ways: &[&FlowRow]) -> String {
    let known: Option<Vec<u64>> = ways.iter().map(|flow| flow.depth).collect();
    let Some(known) = known else { return "-".to_owned() };
    let about = if ways.iter().all(|flow| flow.depth_exact) { "" } else { "≈" };
    format!("{about}{}", known.iter().fold(0, |sum: u64, depth| sum.saturating_add(*depth)))
}

fn channel(row: &ChannelRow) -> Vec<Cell> {
    let both = |of: fn(&FlowRow) -> u64| of(&row.forth).saturating_add(of(&row.back));
    let stalls = both(|flow| flow.stalls);
    vec![
        plain(&row.key),
        end(&row.a_program, row.a.as_deref(), row.a_node.as_deref()),
        end(&row.b_program, row.b.as_deref(), row.b_node.as_deref()),
        optional_cell(row.transport, |transport| by_way_of(transport, &row.via)),
        plain(rate(row.forth.per_s + row.back.per_s)),
        plain(bytes(both(|flow| flow.bytes_per_s))),
        plain(waiting(&[&row.forth, &row.back])),
        (stalls.to_string(), if stalls == 0 { Tone::Dim } else { Tone::Busy }),
    ]
}

fn link(row: &LinkRow) -> Vec<Cell> {
    vec![
        printable_cell(&row.a),
        printable_cell(&row.b),
        plain(row.transport),
        plain(row.channels.to_string()),
        plain(rate(row.forth_per_s)),
        plain(rate(row.back_per_s)),
        plain(bytes(row.forth_bytes_per_s.saturating_add(row.back_bytes_per_s))),
        optional_cell(row.round_trip_ns, nanoseconds),
    ]
}

fn event(snapshot: &Snapshot, row: &EventRow) -> Vec<Cell> {
    vec![
        plain(duration(since(snapshot, row.at_ms))),
        plain(row.what),
        optional_cell(row.node.as_deref(), one_line),
        optional_cell(row.domain.as_deref(), str::to_owned),
        printable_cell(&row.text),
    ]
}

fn hub(row: &HubRow) -> Vec<Cell> {
    let waiting = |all: &[WaitingRow]| {
        let each = all.iter().map(|waiting| format!("{}×{}", waiting.priority, waiting.count));
        let text = each.collect::<Vec<_>>().join(" ");
        if text.is_empty() { ("-".to_owned(), Tone::Dim) } else { (text, Tone::Busy) }
    };
    let state = match (row.closed, row.inheritance, row.inherited) {
        (true, ..) => ("closed".to_owned(), Tone::Dim),
        (_, _, Some(priority)) => (format!("inherits {priority}"), Tone::Busy),
        (_, Some(false), _) => plain("no inheritance"),
        _ => plain("open"),
    };
    vec![
        printable_cell(&row.key),
        plain(row.kind),
        printable_cell(&row.node),
        plain(row.depth.to_string()),
        plain(row.capacity.to_string()),
        waiting(&row.putters),
        waiting(&row.getters),
        optional_cell(row.owner.clone(), |owner| owner),
        state,
    ]
}

/// Returns whether a row matches the filter; for lists that the server's side does not filter.
fn matches_filter(cells: &[Cell], filter: &str) -> bool {
    let filter = filter.trim().to_lowercase();
    filter.is_empty() || cells.iter().any(|(text, _)| text.to_lowercase().contains(&filter))
}

/// Creates a list from complete rows, each with its subject.
fn list_from_rows(
    columns: &'static [Column],
    rows: impl Iterator<Item = (RowSubject, Vec<Cell>)>,
    app: &App,
    cut: &RowRange,
) -> List {
    let rows: Vec<(RowSubject, Vec<Cell>)> =
        rows.filter(|(_, row)| matches_filter(row, &app.filter)).collect();
    let total = rows.len();
    let shown = rows.into_iter().skip(cut.offset).take(cut.limit);
    let (subjects, rows) = shown.map(|(subject, row)| (Some(subject), row)).unzip();
    List { columns, rows, subjects, total }
}

/// Returns the domain of an id as written in rows.
fn domain_of(key: &str) -> Option<RowSubject> {
    key.parse().ok().map(RowSubject::Domain)
}

/// Returns the subject of an event: its domain, otherwise its node.
fn subject(snapshot: &Snapshot, row: &EventRow) -> Option<RowSubject> {
    row.domain.as_deref().and_then(domain_of).or_else(|| {
        let name = row.node.as_deref()?;
        let node = snapshot.seen.nodes.values().find(|node| node.info.name == name)?;
        Some(RowSubject::Node(node.info.id))
    })
}

/// Returns rows of the current view, from `offset` on.
pub(super) fn list(snapshot: &Snapshot, app: &App, offset: usize, limit: usize) -> List {
    let (seen, cut, filter) = (&*snapshot.seen, RowRange { offset, limit }, app.filter.clone());
    match app.tab {
        Tab::Nodes => {
            let rows = view::nodes(seen);
            let rows = rows.iter().map(|row| (RowSubject::Node(NodeId(row.id)), node(snapshot, row)));
            list_from_rows(NODES, rows, app, &cut)
        }
        Tab::Links => {
            let rows = seen.links.values();
            let rows = rows.map(|each| (RowSubject::Link(each.a, each.b), link(&view::link(seen, each))));
            list_from_rows(LINKS, rows, app, &cut)
        }
        Tab::Domains => {
            let descending = !matches!(
                app.domain_sort,
                view::DomainSort::Program | view::DomainSort::Node | view::DomainSort::Id
            );
            let query =
                DomainsQuery { filter, sort: app.domain_sort, descending, cut, ..DomainsQuery::default() };
            let page = view::domains(seen, &query);
            List {
                columns: DOMAINS,
                subjects: page.rows.iter().map(|row| domain_of(&row.key)).collect(),
                rows: page.rows.iter().map(|row| domain(snapshot, row)).collect(),
                total: page.total,
            }
        }
        Tab::Channels => {
            let descending = app.channel_sort != view::ChannelSort::Id;
            let query =
                ChannelsQuery { filter, sort: app.channel_sort, descending, cut, ..ChannelsQuery::default() };
            // Its query refers to no node or domain that could be missing.
            let page = view::channels(seen, &query);
            let (rows, total) = page.map_or((Vec::new(), 0), |page| (page.rows, page.total));
            List {
                columns: CHANNELS,
                subjects: rows
                    .iter()
                    .map(|row| row.key.parse().ok().map(|id| RowSubject::Channel(ChannelId(id))))
                    .collect(),
                rows: rows.iter().map(channel).collect(),
                total,
            }
        }
        Tab::Events => {
            let page = view::events(seen, &EventsQuery { filter, cut });
            let rows = page.rows.iter().map(|row| event(snapshot, row)).collect();
            let subjects = page.rows.iter().map(|row| subject(snapshot, row)).collect();
            List { columns: EVENTS, rows, subjects, total: page.total }
        }
        Tab::Hubs => {
            let page = view::hubs(&app.hubs, &HubsQuery { filter, cut });
            let rows = page.rows.iter().map(hub).collect();
            let owner = |row: &HubRow| row.owner.as_deref().and_then(domain_of);
            List { columns: HUBS, rows, subjects: page.rows.iter().map(owner).collect(), total: page.total }
        }
    }
}

/// Returns the total number of rows.
pub(super) fn total(snapshot: &Snapshot, app: &App) -> usize {
    list(snapshot, app, 0, 0).total
}

impl List {
    /// Returns the columns that fit, with their widths. The last takes the remaining room.
    pub(super) fn widths(&self, room: usize) -> Vec<(usize, usize)> {
        let natural = |index: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            let widest = cells.map(|(text, _)| Line::from(text.as_str()).width()).max().unwrap_or(0);
            widest.min(MAX_COLUMN).max(self.columns[index].head.len())
        };
        let mut shown: Vec<(usize, usize)> =
            (0..self.columns.len()).map(|index| (index, natural(index))).collect();
        loop {
            let needed: usize = shown.iter().map(|(_, width)| width + 1).sum();
            let least = shown.iter().map(|(index, _)| self.columns[*index].rank).max().unwrap_or(0);
            if needed <= room + 1 || least == 0 {
                break;
            }
            // Among columns of equal rank the last is omitted first.
            let place = shown.iter().rposition(|(index, _)| self.columns[*index].rank == least);
            place.map(|place| shown.remove(place));
        }
        let others: usize = shown.iter().rev().skip(1).map(|(_, width)| width + 1).sum();
        if let Some((_, width)) = shown.last_mut() {
            *width = room.saturating_sub(others);
        }
        shown
    }
}
