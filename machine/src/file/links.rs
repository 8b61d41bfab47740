//! The `[[link]]` tables of a machine file, which override the default links between nodes.

use std::ops::Range;

use tombolo_link::TransportKind;
use toml::de::{DeTable, DeValue};

use super::nodes::unknown_word;
use super::report::Problem;
use super::values::{Reader, Text, Value, quoted_list};
use crate::model::{Link, Node, default_links, possible_transports};
use crate::windows::{CommonWindows, Window};

const KEYS: [&str; 3] = ["between", "transport", "window"];
const BETWEEN_NOTE: &str = "for example: between = [\"host\", \"arm0\"]";

/// Nodes and windows that links may refer to.
pub(super) struct KnownNodes<'a> {
    /// Nodes without mistakes.
    pub(super) nodes: &'a [Node],
    /// Names of all nodes, so that a mistake in a node is not reported again for its links.
    pub(super) names: &'a [String],
}

/// Reads all `[[link]]` tables; the result has a link for every pair of nodes that can reach each other.
pub(super) fn read<'t, 'i: 't>(
    reader: &mut Reader,
    tables: impl Iterator<Item = (&'t DeTable<'i>, Range<usize>)>,
    known: &KnownNodes<'_>,
    windows: &[Window],
) -> Vec<Link> {
    let common = CommonWindows::of(windows);
    let mut links = default_links(known.nodes, &common);
    let mut seen = Vec::new();
    for (table, header) in tables {
        reader.refuse_unknown_keys(table, &KEYS, "a link");
        let pair = read_between(reader, table, header.clone(), known, ("this link", None));
        let transport = read_transport(reader, table, header, "this link");
        let window = read_window(reader, table, windows);
        if let Some((a, b)) = &pair {
            let mut names = [a.text.clone(), b.text.clone()];
            names.sort();
            if seen.contains(&names) {
                reader.report(
                    Problem::new(a.span.start..b.span.end, "these two nodes have a link already")
                        .note("a pair of nodes has one [[link]] at most, in either order"),
                );
            }
            seen.push(names);
        }
        if let (Some((a, b)), Some((transport, span))) = (pair, transport) {
            let requested = RequestedLink { transport, span, window };
            apply(reader, &mut links, known, &common, [&a.text, &b.text], requested);
        }
    }
    links.sort_by_key(|link| (link.a, link.b));
    links
}

/// Reads the two ends; `None` if they are invalid, which is then reported. `what` describes the table, with a
/// remedy for unknown nodes.
pub(super) fn read_between(
    reader: &mut Reader,
    table: &DeTable<'_>,
    header: Range<usize>,
    known: &KnownNodes<'_>,
    (what, remedy): (&str, Option<&str>),
) -> Option<(Text, Text)> {
    let Some(value) = reader.value(table, "between") else {
        reader.missing(header, "between", what, BETWEEN_NOTE);
        return None;
    };
    let DeValue::Array(array) = value.get_ref() else {
        reader.report(
            Problem::new(value.span(), "`between` must be an array of two names of nodes").note(BETWEEN_NOTE),
        );
        return None;
    };
    if array.len() != 2 {
        reader.report(
            Problem::new(value.span(), format!("a link joins two nodes, not {}", array.len()))
                .note(BETWEEN_NOTE),
        );
        return None;
    }
    let reported = reader.problems.len();
    let a = read_node(reader, "between", &array[0], BETWEEN_NOTE, known);
    let b = read_node(reader, "between", &array[1], BETWEEN_NOTE, known);
    for problem in &mut reader.problems[reported..] {
        problem.notes.extend(remedy.map(str::to_owned));
    }
    let (a, b) = (a?, b?);
    if a.text == b.text {
        reader.report(
            Problem::new(b.span, format!("`{}` needs no link to itself", a.text))
                .note("domains on one node always share its memory"),
        );
        return None;
    }
    Some((a, b))
}

/// Reads the name of a node of the machine.
pub(super) fn read_node(
    reader: &mut Reader,
    key: &str,
    value: &Value<'_>,
    note: &str,
    known: &KnownNodes<'_>,
) -> Option<Text> {
    let text = reader.text(key, value, note)?;
    if known.names.contains(&text.text) {
        return Some(text);
    }
    let names = || known.names.iter().map(String::as_str);
    reader.report(
        unknown_word(&text, "node", names()).note(format!("nodes of this machine: {}", quoted_list(names()))),
    );
    None
}

pub(super) fn read_transport(
    reader: &mut Reader,
    table: &DeTable<'_>,
    header: Range<usize>,
    what: &str,
) -> Option<(TransportKind, Range<usize>)> {
    let names = || TransportKind::ALL.into_iter().map(TransportKind::name);
    let note = format!("transport: one of {}", quoted_list(names()));
    let Some(value) = reader.value(table, "transport") else {
        reader.missing(header, "transport", what, &note);
        return None;
    };
    let text = reader.text("transport", value, &note)?;
    let Some(transport) = TransportKind::from_name(&text.text) else {
        reader.report(unknown_word(&text, "transport", names()).note(note));
        return None;
    };
    Some((transport, text.span))
}

/// Connection of two nodes according to a `[[link]]`.
struct RequestedLink<'a> {
    transport: TransportKind,
    /// Location of the transport in the file.
    span: Range<usize>,
    /// Window of the link, with its location.
    window: Option<(&'a Window, Range<usize>)>,
}

/// Reads the window of a link; `None` also if it is invalid, which is then reported.
fn read_window<'a>(
    reader: &mut Reader,
    table: &DeTable<'_>,
    windows: &'a [Window],
) -> Option<(&'a Window, Range<usize>)> {
    const NOTE: &str = "window: the name of a [[window]] that has both nodes";
    let value = reader.value(table, "window")?;
    let text = reader.text("window", value, NOTE)?;
    let window = windows.iter().find(|window| window.name == text.text);
    if window.is_none() {
        let names = windows.iter().map(|window| window.name.as_str());
        reader.report(unknown_word(&text, "window", names).note(NOTE));
    }
    Some((window?, text.span))
}

/// Replaces the default transport, if the given one can join the two nodes.
fn apply(
    reader: &mut Reader,
    links: &mut [Link],
    known: &KnownNodes<'_>,
    common: &CommonWindows<'_>,
    names: [&str; 2],
    requested: RequestedLink<'_>,
) {
    let find = |name: &str| known.nodes.iter().find(|node| node.name == name);
    let (Some(a), Some(b)) = (find(names[0]), find(names[1])) else {
        return; // one of them has a mistake of its own
    };
    let possible = possible_transports(common, a, b);
    let Some(&(_, mut window)) = possible.iter().find(|(transport, _)| *transport == requested.transport)
    else {
        return refuse(reader, (a, b), &possible, &requested);
    };
    if let Some((named, span)) = requested.window {
        let joins = [a.kernel(), b.kernel()].iter().all(|kernel| named.members.contains(kernel));
        if !joins || requested.transport != TransportKind::Window {
            let message = format!("window `{}` does not join `{}` and `{}`", named.name, a.name, b.name);
            let label = match requested.transport {
                TransportKind::Window => "it has not both of them",
                _ => "only `window` links have a window",
            };
            return reader.report(Problem::new(span, message).label(label));
        }
        window = Some(named.id);
    }
    let pair = (a.id.min(b.id), a.id.max(b.id));
    if let Some(link) = links.iter_mut().find(|link| (link.a, link.b) == pair) {
        (link.transport, link.window) = (requested.transport, window);
    }
}

fn refuse(
    reader: &mut Reader,
    (a, b): (&Node, &Node),
    possible: &[(TransportKind, Option<tombolo_base::WindowId>)],
    requested: &RequestedLink<'_>,
) {
    let vm_to_host = |one: &Node, other: &Node| one.as_vm().is_some() && other.as_user().is_some();
    let note = match possible {
        _ if requested.transport == TransportKind::Socket && (vm_to_host(a, b) || vm_to_host(b, a)) => {
            "a virtual machine has a `socket` with the host, and with it with all programs of its kernel"
                .to_owned()
        }
        [] => "nothing joins these two nodes: give them a [[window]] in common".to_owned(),
        _ => format!("between them: {}", quoted_list(possible.iter().map(|(kind, _)| kind.name()))),
    };
    let kinds = (a.settings.name(), b.settings.name());
    let message = format!(
        "`{}` cannot join `{}` ({}) and `{}` ({})",
        requested.transport, a.name, kinds.0, b.name, kinds.1
    );
    reader.report(Problem::new(requested.span.clone(), message).note(note));
}
