//! The `[[link]]` tables of a machine file: they replace what would join two nodes by default.

use std::ops::Range;

use tombolo_link::TransportKind;
use toml::de::{DeTable, DeValue};

use super::nodes::unknown_word;
use super::report::Problem;
use super::values::{Reader, Text, Value, quoted_list};
use crate::model::{Link, Node, default_links};

const KEYS: [&str; 2] = ["between", "transport"];
const BETWEEN_NOTE: &str = "for example: between = [\"host\", \"arm0\"]";

/// What links may refer to.
pub(super) struct Ends<'a> {
    /// The nodes without mistakes.
    pub(super) nodes: &'a [Node],
    /// The names of all nodes, so that one mistake in a node is not reported again for its links.
    pub(super) names: &'a [String],
}

/// Reads all `[[link]]` tables; the result has a link for every pair of nodes that can reach each other.
pub(super) fn read<'t, 'i: 't>(
    reader: &mut Reader,
    tables: impl Iterator<Item = (&'t DeTable<'i>, Range<usize>)>,
    ends: &Ends<'_>,
) -> Vec<Link> {
    let mut links = default_links(ends.nodes);
    let mut seen = Vec::new();
    for (table, header) in tables {
        reader.refuse_unknown_keys(table, &KEYS, "a link");
        let pair = read_between(reader, table, header.clone(), ends);
        let transport = read_transport(reader, table, header);
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
            apply(reader, &mut links, ends, [&a.text, &b.text], transport, span);
        }
    }
    links.sort_by_key(|link| (link.a, link.b));
    links
}

/// The two ends; `None` when they are wrong, which is then reported.
fn read_between(
    reader: &mut Reader,
    table: &DeTable<'_>,
    header: Range<usize>,
    ends: &Ends<'_>,
) -> Option<(Text, Text)> {
    let Some(value) = reader.value(table, "between") else {
        reader.missing(header, "between", "this link", BETWEEN_NOTE);
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
    let a = read_end(reader, &array[0], ends);
    let b = read_end(reader, &array[1], ends);
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

fn read_end(reader: &mut Reader, value: &Value<'_>, ends: &Ends<'_>) -> Option<Text> {
    let text = reader.text("between", value, BETWEEN_NOTE)?;
    if ends.names.contains(&text.text) {
        return Some(text);
    }
    let names = || ends.names.iter().map(String::as_str);
    reader.report(
        unknown_word(&text, "node", names()).note(format!("nodes of this machine: {}", quoted_list(names()))),
    );
    None
}

fn read_transport(
    reader: &mut Reader,
    table: &DeTable<'_>,
    header: Range<usize>,
) -> Option<(TransportKind, Range<usize>)> {
    let names = || TransportKind::ALL.into_iter().map(TransportKind::name);
    let note = format!("transport: one of {}", quoted_list(names()));
    let Some(value) = reader.value(table, "transport") else {
        reader.missing(header, "transport", "this link", &note);
        return None;
    };
    let text = reader.text("transport", value, &note)?;
    let Some(transport) = TransportKind::from_name(&text.text) else {
        reader.report(unknown_word(&text, "transport", names()).note(note));
        return None;
    };
    Some((transport, text.span))
}

/// Puts the transport in place of the default, if it can join the two nodes at all.
fn apply(
    reader: &mut Reader,
    links: &mut [Link],
    ends: &Ends<'_>,
    names: [&str; 2],
    transport: TransportKind,
    span: Range<usize>,
) {
    let find = |name: &str| ends.nodes.iter().find(|node| node.name == name);
    let (Some(a), Some(b)) = (find(names[0]), find(names[1])) else {
        return; // one of them has a mistake of its own
    };
    let possible = a.transports_to(b);
    if possible.contains(&transport) {
        let pair = (a.id.min(b.id), a.id.max(b.id));
        if let Some(link) = links.iter_mut().find(|link| (link.a, link.b) == pair) {
            link.transport = transport;
        }
        return;
    }
    let (a_kind, b_kind) = (a.settings.name(), b.settings.name());
    let note = match possible {
        [] => "nothing joins two vm nodes: the window of each is shared with this kernel only".to_owned(),
        _ => format!("between them: {}", quoted_list(possible.iter().map(|kind| kind.name()))),
    };
    reader.report(
        Problem::new(
            span,
            format!("`{transport}` cannot join `{}` ({a_kind}) and `{}` ({b_kind})", a.name, b.name),
        )
        .note(note),
    );
}
