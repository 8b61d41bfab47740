//! The `[[window]]` tables of a machine file: memory that several nodes share, beside the window that each
//! has with the host.

use std::ops::Range;

use tombolo_base::{NodeId, WindowId};
use toml::de::{DeTable, DeValue};

use super::coherence;
use super::links::{KnownNodes, read_node};
use super::nodes::{NumberKey, check_window, number, range_bounds};
use super::report::Problem;
use super::values::{Reader, Text};
use crate::model::{Node, NodeSettings, VmJoin, VmNode};
use crate::windows::{Window, own_windows};

const KEYS: [&str; 11] = [
    "name",
    "nodes",
    "size_mib",
    "doorbells",
    "trust",
    "coherence",
    "cache_seed",
    "evict_one_in",
    "home",
    "read_ns",
    "line_ns",
];
const NODES_NOTE: &str = "for example: nodes = [\"arm0\", \"arm1\"]";
const TRUST_NOTE: &str =
    "trust: a name for the nodes that trust each other with all that is in their windows";

const SIZE: NumberKey = ("size_mib", "the memory that the nodes share, a power of two");
const DOORBELLS: NumberKey =
    ("doorbells", "interrupts of each node, one for the monitors and one that channels share");

const HOME_NOTE: &str = "home: the node of the window whose memory it is meant to be";
const READ: NumberKey = ("read_ns", "modelled nanoseconds of a read by a node that is not `home`");
const LINE: NumberKey = ("line_ns", "modelled nanoseconds of writing a line by a node that is not `home`");

/// Default size of a window, in MiB.
const DEFAULT_SIZE_MIB: u32 = 64;
const DEFAULT_DOORBELLS: u16 = 16;

/// Maximum number of `[[window]]` tables.
const MAX_TABLES: usize = 256;

/// Maximum number of windows of one node, including that with the host: each is a device on its PCI bus.
const MAX_WINDOWS_OF_NODE: usize = 8;

/// Reads all `[[window]]` tables; the result also has the windows of nodes with the host, which come first.
pub(super) fn read<'t, 'i: 't>(
    reader: &mut Reader,
    tables: impl Iterator<Item = (&'t DeTable<'i>, Range<usize>)>,
    known: &KnownNodes<'_>,
) -> Vec<Window> {
    let mut windows = own_windows(known.nodes);
    for (count, (table, header)) in tables.enumerate() {
        if count == MAX_TABLES {
            let message = format!("a machine has {MAX_TABLES} [[window]] tables at most");
            reader.report(Problem::new(header, message));
            break;
        }
        let window = read_window(reader, table, header.clone(), known, &windows);
        if let Some(window) = window {
            check_nodes(reader, known.nodes, &windows, &window, header);
            windows.push(window);
        }
    }
    windows
}

fn read_window(
    reader: &mut Reader,
    table: &DeTable<'_>,
    header: Range<usize>,
    known: &KnownNodes<'_>,
    windows: &[Window],
) -> Option<Window> {
    reader.refuse_unknown_keys(table, &KEYS, "a window");
    let name = match reader.value(table, "name") {
        Some(value) => reader.name(value, "a window"),
        None => {
            reader.missing(header.clone(), "name", "this window", "for example: name = \"arms\"");
            None
        }
    };
    let name = name.and_then(|name| check_unique_name(reader, name, known, windows));
    let members = read_nodes(reader, table, header, known);
    let size_mib = number(reader, table, &SIZE, range_bounds(&VmNode::WINDOW_MIB), DEFAULT_SIZE_MIB);
    check_window(reader, table, "size_mib", size_mib);
    let bells = range_bounds(&VmNode::DOORBELLS);
    let doorbells = number(reader, table, &DOORBELLS, bells, DEFAULT_DOORBELLS.into()) as u16;
    let trust = match reader.value(table, "trust") {
        Some(value) => reader.argument("trust", value, TRUST_NOTE)?,
        None => Window::DEFAULT_TRUST.to_owned(),
    };
    let caches = coherence::read(reader, table);
    let home = read_home(reader, table, known, members.as_deref());
    let modelled = range_bounds(&Window::MODELLED_NS);
    let read_ns = number(reader, table, &READ, modelled, 0);
    let line_ns = number(reader, table, &LINE, modelled, 0);
    let (name, members) = (name?, members?);
    let mut members: Vec<NodeId> = members
        .iter()
        .filter_map(|name| known.nodes.iter().find(|node| node.name == name.text))
        .map(|node| node.id)
        .collect();
    members.sort();
    check_size(reader, table, &name, members.len(), size_mib);
    check_doorbells(reader, table, &name, members.len(), doorbells);
    let id = WindowId(windows.len() as u16);
    let home = home.or_else(|| members.first().copied()).unwrap_or(NodeId::HOST);
    let name = name.text;
    let private_to = None;
    Some(Window { id, name, members, size_mib, doorbells, private_to, trust, caches, home, read_ns, line_ns })
}

/// Reads the preferred home of the memory; `None` also if it is invalid, which is then reported.
fn read_home(
    reader: &mut Reader,
    table: &DeTable<'_>,
    known: &KnownNodes<'_>,
    members: Option<&[Text]>,
) -> Option<NodeId> {
    let value = reader.value(table, "home")?;
    let home = read_node(reader, "home", value, HOME_NOTE, known)?;
    if members.is_some_and(|members| members.iter().all(|member| member.text != home.text)) {
        let message = format!("`home` is not a node of the window: `{}`", home.text);
        reader.report(Problem::new(home.span, message).note(HOME_NOTE));
        return None;
    }
    known.nodes.iter().find(|node| node.name == home.text).map(|node| node.id)
}

/// Checks that no node and no other window has the name: regions are created in a window by its name.
fn check_unique_name(
    reader: &mut Reader,
    name: Text,
    known: &KnownNodes<'_>,
    windows: &[Window],
) -> Option<Text> {
    let label = if known.names.contains(&name.text) {
        format!("a node is called `{}`, and so is its window with the host", name.text)
    } else if windows.iter().any(|window| window.name == name.text) {
        "another window has this name".to_owned()
    } else {
        return Some(name);
    };
    reader.report(
        Problem::new(name.span, format!("two windows are called `{}`", name.text))
            .label(label)
            .note("names of windows are unique among windows and nodes"),
    );
    None
}

/// Returns the names of its nodes; `None` if one is invalid, which is then reported.
fn read_nodes(
    reader: &mut Reader,
    table: &DeTable<'_>,
    header: Range<usize>,
    known: &KnownNodes<'_>,
) -> Option<Vec<Text>> {
    let Some(value) = reader.value(table, "nodes") else {
        reader.missing(header, "nodes", "this window", NODES_NOTE);
        return None;
    };
    let DeValue::Array(array) = value.get_ref() else {
        let message = "`nodes` must be an array of names of nodes";
        reader.report(Problem::new(value.span(), message).note(NODES_NOTE));
        return None;
    };
    if !Window::MEMBERS.contains(&array.len()) {
        let (least, most) = (Window::MEMBERS.start(), Window::MEMBERS.end());
        reader.report(
            Problem::new(value.span(), format!("a window has {least} to {most} nodes, not {}", array.len()))
                .note(NODES_NOTE),
        );
        return None;
    }
    let mut members: Vec<Text> = Vec::new();
    let mut right = true;
    for item in array.iter() {
        let Some(name) = read_node(reader, "nodes", item, NODES_NOTE, known) else {
            right = false;
            continue;
        };
        if members.iter().any(|member| member.text == name.text) {
            let message = format!("`{}` is in this window twice", name.text);
            reader.report(Problem::new(name.span.clone(), message).label("named before").note(NODES_NOTE));
            right = false;
        } else if let Some(node) = known.nodes.iter().find(|node| node.name == name.text)
            && let Some(why) = membership_refusal(node)
        {
            let message = format!("`{}` ({}) cannot be in a window", name.text, node.settings.name());
            reader.report(Problem::new(name.span.clone(), message).label(why).note(NODES_NOTE));
            right = false;
        }
        members.push(name);
    }
    right.then_some(members)
}

/// Returns the reason why a node cannot be in a `[[window]]`, if there is one.
fn membership_refusal(node: &Node) -> Option<&'static str> {
    match &node.settings {
        NodeSettings::Vm(vm) if vm.join == VmJoin::Streams => {
            Some("its [[link]] with the host is a `socket`: it shares no memory with other nodes")
        }
        NodeSettings::Host | NodeSettings::Vm(_) | NodeSettings::Bare(_) => None,
        NodeSettings::User(_) => Some("its programs share the memory of the host: name the host instead"),
        NodeSettings::Attached(_) => Some("a node that joins has the window with the host only"),
    }
}

/// Checks the size: at least one MiB for each node, so that all can have channels to all.
fn check_size(reader: &mut Reader, table: &DeTable<'_>, name: &Text, count: usize, size_mib: u32) {
    let least = (count as u32).next_power_of_two();
    if size_mib < least {
        let span = reader.value(table, "size_mib").map_or(name.span.clone(), |value| value.span());
        reader.report(
            Problem::new(span, format!("window `{}` is too small for its {count} nodes", name.text))
                .label(format!("at least {least}"))
                .note("size_mib: a MiB or more for each node"),
        );
    }
}

fn check_doorbells(reader: &mut Reader, table: &DeTable<'_>, name: &Text, count: usize, doorbells: u16) {
    let most = usize::from(Window::MAX_DOORBELLS) / count.max(1);
    if usize::from(doorbells) > most {
        let span = reader.value(table, "doorbells").map_or(name.span.clone(), |value| value.span());
        let message = format!("window `{}` has too many doorbells for {count} nodes", name.text);
        reader.report(Problem::new(span, message).label(format!("at most {most}")).note(format!(
            "doorbells: {} for all nodes of a window together; channels share one when there are not enough",
            Window::MAX_DOORBELLS
        )));
    }
}

/// Checks the total number and size of the windows of each node.
fn check_nodes(
    reader: &mut Reader,
    nodes: &[Node],
    windows: &[Window],
    window: &Window,
    header: Range<usize>,
) {
    let guests = nodes.iter().filter(|node| window.members.contains(&node.id) && node.is_behind_window());
    for node in guests {
        let others = || windows.iter().filter(|other| other.members.contains(&node.id));
        let count = others().count() + 1;
        if count > MAX_WINDOWS_OF_NODE {
            let message = format!("node `{}` is in too many windows", node.name);
            let label =
                format!("its window number {count}, with that to the host; at most {MAX_WINDOWS_OF_NODE}");
            reader.report(Problem::new(header.clone(), message).label(label));
        }
        let bells = others().map(|other| other.doorbells).sum::<u16>() + window.doorbells;
        if bells > Window::MAX_DOORBELLS_OF_NODE {
            let message = format!("the windows of node `{}` have too many doorbells: {bells}", node.name);
            let label = format!("at most {} together", Window::MAX_DOORBELLS_OF_NODE);
            reader.report(Problem::new(header.clone(), message).label(label).note(format!(
                "give `doorbells` of node `{}` or of its windows a smaller number; channels share one when there \
                 are not enough",
                node.name
            )));
        }
        let sizes = others().map(|other| other.size_mib).chain([window.size_mib]);
        let needed_mib = addresses_mib(sizes);
        if node.as_bare().is_some() && needed_mib > Window::MAX_ADDRESSES_OF_BOARD_MIB {
            let message = format!("the windows of board `{}` are too large together", node.name);
            let label = format!("{} GiB with this one", needed_mib.div_ceil(1024));
            reader.report(Problem::new(header.clone(), message).label(label).note(format!(
                "the windows of a board take {} GiB of its addresses at most, each whole GiBs",
                Window::MAX_ADDRESSES_OF_BOARD_MIB / 1024
            )));
        }
        let distrusted = others().find(|other| other.private_to.is_none() && other.trust != window.trust);
        if let Some(other) = distrusted {
            let message = format!(
                "node `{}` is in windows of two trust domains, `{}` and `{}`",
                node.name, other.trust, window.trust
            );
            reader.report(
                Problem::new(header.clone(), message)
                    .label(format!("window `{}` is of `{}`", other.name, other.trust))
                    .note("a node other than the host belongs to one trust domain: its programs reach everything in its windows"),
            );
        }
    }
}

/// Returns the size of a board's address range for its windows, in MiB: each begins at a multiple of its
/// length and of a GiB.
fn addresses_mib(sizes_mib: impl Iterator<Item = u32>) -> u64 {
    sizes_mib.map(u64::from).fold(0, |end, size| end.next_multiple_of(size) + size.next_multiple_of(1024))
}
