//! The `[[found]]` tables of a machine file: results of `tombolo litmus` and `tombolo bench link` for links.

use std::ops::{Range, RangeInclusive};

use tombolo_link::TransportKind;
use toml::de::{DeTable, DeValue};

use super::links::{KnownNodes, read_between, read_transport};
use super::nodes::unknown_word;
use super::report::Problem;
use super::values::{Reader, Value, quoted_list, with_article};
use crate::found::{Found, FoundCost, FoundMemory, Order};
use crate::model::{Link, Node};
use crate::windows::Window;

const KEYS: [&str; 4] = ["between", "transport", "memory", "cost"];
const MEMORY_KEYS: [&str; 6] = ["coherence", "order", "widest_store_bytes", "atomics", "on", "by"];
const COST_KEYS: [&str; 6] = ["round_trip_ns", "latency_ns", "bytes_per_s", "bytes_per_s_back", "on", "by"];

const WHAT: &str = "this [[found]]";
const REMEDY: &str = "delete this [[found]]; `tombolo litmus --write FILE` and `tombolo bench link --write FILE` write \
                      what they find on the machine as it is now";
const MEMORY_NOTE: &str = "memory = { coherence = \"coherent\", order = \"sequential\", widest_store_bytes = 8, \
                           atomics = true }, as `tombolo litmus --write FILE` writes it";
const COST_NOTE: &str = "cost = { round_trip_ns = 900, latency_ns = [[8, 450], [64, 480]], bytes_per_s = 2000000000, \
                         bytes_per_s_back = 2000000000 }, as `tombolo bench link --write FILE` writes it";
const COHERENCE: [&str; 2] = ["coherent", "flush"];

/// Links and nodes that a finding may refer to.
pub(super) struct Links<'a> {
    pub(super) known: KnownNodes<'a>,
    pub(super) links: &'a [Link],
    pub(super) windows: &'a [Window],
}

/// Reads all `[[found]]` tables.
pub(super) fn read<'t, 'i: 't>(
    reader: &mut Reader,
    tables: impl Iterator<Item = (&'t DeTable<'i>, Range<usize>)>,
    links: &Links<'_>,
) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for (table, header) in tables {
        reader.refuse_unknown_keys(table, &KEYS, "a [[found]]");
        let between = read_between(reader, table, header.clone(), &links.known, (WHAT, Some(REMEDY)));
        let transport = read_transport(reader, table, header.clone(), WHAT);
        let memory = read_memory(reader, table);
        let cost = read_cost(reader, table);
        if reader.value(table, "memory").is_none() && reader.value(table, "cost").is_none() {
            reader
                .report(Problem::new(header, "this [[found]] has neither `memory` nor `cost`").note(REMEDY));
        }
        let (Some((a, b)), Some((transport, span))) = (between, transport) else { continue };
        let named = |name: &str| links.known.nodes.iter().find(|node| node.name == name);
        let (Some(one), Some(other)) = (named(&a.text), named(&b.text)) else {
            continue; // one of them has a mistake of its own
        };
        let pair = (one.id.min(other.id), one.id.max(other.id));
        if found.iter().any(|found| (found.a, found.b) == pair) {
            reader.report(
                Problem::new(a.span.start..b.span.end, "there is a [[found]] for these two nodes already")
                    .note("a pair of nodes has one [[found]] at most, in either order"),
            );
            continue;
        }
        let Some(link) = links.links.iter().find(|link| (link.a, link.b) == pair) else {
            let message = format!("nothing joins `{}` and `{}` any more", one.name, other.name);
            reader.report(Problem::new(a.span.start..b.span.end, message).note(REMEDY));
            continue;
        };
        if link.transport != transport {
            let message =
                format!("this was found of `{transport}`, and the link is `{}` now", link.transport);
            reader.report(Problem::new(span, message).note(REMEDY));
        }
        if let (Some((_, span)), TransportKind::Socket) = (&memory, link.transport) {
            let message = "`memory` has no meaning for a link that shares none";
            reader.report(Problem::new(span.clone(), message).note(REMEDY));
        }
        let context = LinkContext { nodes: [one, other], link, windows: links.windows };
        let memory = memory.map(|(memory, span)| {
            check_coherence(reader, &memory, span, &context);
            memory
        });
        found.push(Found { a: pair.0, b: pair.1, transport: link.transport, memory, cost });
    }
    found.sort_by_key(|found| (found.a, found.b));
    found
}

struct LinkContext<'a> {
    nodes: [&'a Node; 2],
    link: &'a Link,
    windows: &'a [Window],
}

/// Checks the date and version of the finding, which are for people only.
fn check_origin(reader: &mut Reader, table: &DeTable<'_>) {
    const ON: &str = "on: the date on which it was found, such as 2026-11-27";
    if let Some(value) = reader.value(table, "on")
        && !matches!(value.get_ref(), DeValue::Datetime(_))
    {
        let found = with_article(value.get_ref().type_str());
        let problem = Problem::new(value.span(), format!("`on` must be a date, not {found}"));
        reader.report(problem.note(ON));
    }
    if let Some(value) = reader.value(table, "by") {
        reader.argument("by", value, "by: the version of Tombolo that found it");
    }
}

/// Checks that the finding's memory has the coherence of the link's window.
fn check_coherence(reader: &mut Reader, memory: &FoundMemory, span: Range<usize>, context: &LinkContext<'_>) {
    let caches = |window: &Window| window.caches.is_none();
    let window = context.link.window.and_then(|id| context.windows.get(usize::from(id.0)));
    let coherent = window.is_none_or(caches);
    if memory.coherent != coherent {
        let [a, b] = context.nodes.map(|node| node.name.as_str());
        let name = |coherent: bool| COHERENCE[usize::from(!coherent)];
        let message = format!(
            "this was found of memory that is `{}`, and that of `{a}` and `{b}` is `{}` now",
            name(memory.coherent),
            name(coherent)
        );
        reader.report(Problem::new(span, message).note(REMEDY));
    }
}

fn read_subtable<'t, 'i>(
    reader: &mut Reader,
    table: &'t DeTable<'i>,
    key: &str,
    note: &str,
) -> Option<(&'t DeTable<'i>, Range<usize>)> {
    let value = reader.value(table, key)?;
    match value.get_ref() {
        DeValue::Table(read_subtable) => Some((read_subtable, value.span())),
        other => {
            let found = with_article(other.type_str());
            let message = format!("`{key}` must be a table, not {found}");
            reader.report(Problem::new(value.span(), message).note(note));
            None
        }
    }
}

/// Reads the properties of the memory in a `[[found]]` table, with their location.
fn read_memory(reader: &mut Reader, table: &DeTable<'_>) -> Option<(FoundMemory, Range<usize>)> {
    let (memory, span) = read_subtable(reader, table, "memory", MEMORY_NOTE)?;
    reader.refuse_unknown_keys(memory, &MEMORY_KEYS, "`memory`");
    check_origin(reader, memory);
    let coherence = read_word(reader, memory, &span, "coherence", &COHERENCE);
    let order = read_word(reader, memory, &span, "order", &Order::NAMES);
    let widest_store_bytes = read_store(reader, memory, &span);
    let atomics = match reader.value(memory, "atomics") {
        None => {
            reader.missing(span.clone(), "atomics", "`memory`", MEMORY_NOTE);
            None
        }
        Some(value) => match value.get_ref() {
            DeValue::Boolean(atomics) => Some(*atomics),
            other => {
                let message =
                    format!("`atomics` must be true or false, not {}", with_article(other.type_str()));
                reader.report(Problem::new(value.span(), message).note(MEMORY_NOTE));
                None
            }
        },
    };
    let memory = FoundMemory {
        coherent: coherence? == "coherent",
        order: Order::from_name(order?)?,
        widest_store_bytes: widest_store_bytes?,
        atomics: atomics?,
    };
    Some((memory, span))
}

fn read_store(reader: &mut Reader, memory: &DeTable<'_>, span: &Range<usize>) -> Option<u8> {
    const KEY: &str = "widest_store_bytes";
    let Some(value) = reader.value(memory, KEY) else {
        reader.missing(span.clone(), KEY, "`memory`", MEMORY_NOTE);
        return None;
    };
    let allowed = FoundMemory::STORE_BYTES;
    let meaning = "the widest aligned store that was never seen in parts";
    let bytes = reader.number(KEY, value, (1, u8::MAX.into()), meaning)? as u8;
    if !allowed.contains(&bytes) {
        let widths = allowed.map(|bytes| bytes.to_string());
        reader.report(
            Problem::new(value.span(), format!("`{KEY}` is out of range"))
                .note(format!("{KEY}: {}", quoted_list(widths.iter().map(String::as_str)))),
        );
        return None;
    }
    Some(bytes)
}

fn read_word<'w>(
    reader: &mut Reader,
    table: &DeTable<'_>,
    span: &Range<usize>,
    key: &str,
    words: &[&'w str],
) -> Option<&'w str> {
    let note = format!("{key}: one of {}", quoted_list(words.iter().copied()));
    let Some(value) = reader.value(table, key) else {
        reader.missing(span.clone(), key, "`memory`", &note);
        return None;
    };
    let text = reader.text(key, value, &note)?;
    let word = words.iter().copied().find(|word| *word == text.text);
    if word.is_none() {
        reader.report(unknown_word(&text, key, words.iter().copied()).note(note));
    }
    word
}

fn read_cost(reader: &mut Reader, table: &DeTable<'_>) -> Option<FoundCost> {
    let (cost, span) = read_subtable(reader, table, "cost", COST_NOTE)?;
    reader.refuse_unknown_keys(cost, &COST_KEYS, "`cost`");
    check_origin(reader, cost);
    let mut number = |key: &str, range: &RangeInclusive<u64>| match reader.value(cost, key) {
        Some(value) => read_u64(reader, key, value, range),
        None => {
            reader.missing(span.clone(), key, "`cost`", COST_NOTE);
            None
        }
    };
    let round_trip_ns = number("round_trip_ns", &FoundCost::TIME_NS);
    let bytes_per_s = number("bytes_per_s", &FoundCost::RATE);
    let bytes_per_s_back = number("bytes_per_s_back", &FoundCost::RATE);
    let latency_ns = read_latency(reader, cost, &span);
    Some(FoundCost {
        round_trip_ns: round_trip_ns?,
        latency_ns: latency_ns?,
        bytes_per_s: bytes_per_s?,
        bytes_per_s_back: bytes_per_s_back?,
    })
}

/// Reads pairs of a length and a time, in order of ascending length.
fn read_latency(reader: &mut Reader, cost: &DeTable<'_>, span: &Range<usize>) -> Option<Vec<(u64, u64)>> {
    const KEY: &str = "latency_ns";
    const PAIRS: &str =
        "latency_ns: pairs of a length in bytes and a time in ns, [[8, 450], [64, 480]], lengths ascending";
    let Some(value) = reader.value(cost, KEY) else {
        reader.missing(span.clone(), KEY, "`cost`", COST_NOTE);
        return None;
    };
    let DeValue::Array(array) = value.get_ref() else {
        let message = format!("`{KEY}` must be an array, not {}", with_article(value.get_ref().type_str()));
        reader.report(Problem::new(value.span(), message).note(PAIRS));
        return None;
    };
    if !(1..=FoundCost::MAX_LENGTHS).contains(&array.len()) {
        let message = format!("`{KEY}` has 1 to {} pairs, not {}", FoundCost::MAX_LENGTHS, array.len());
        reader.report(Problem::new(value.span(), message).note(PAIRS));
        return None;
    }
    let mut curve: Vec<(u64, u64)> = Vec::with_capacity(array.len());
    let mut right = true;
    for item in array.iter() {
        let pair = item.get_ref().as_array().filter(|pair| pair.len() == 2);
        let Some(pair) = pair else {
            reader.report(Problem::new(item.span(), "this is not a pair of a length and a time").note(PAIRS));
            right = false;
            continue;
        };
        let bytes = read_u64(reader, "the length", &pair[0], &FoundCost::BYTES);
        let time_ns = read_u64(reader, "the time", &pair[1], &FoundCost::TIME_NS);
        let (Some(bytes), Some(time_ns)) = (bytes, time_ns) else {
            right = false;
            continue;
        };
        if curve.last().is_some_and(|(last, _)| *last >= bytes) {
            reader.report(Problem::new(item.span(), "the lengths do not ascend").note(PAIRS));
            right = false;
        }
        curve.push((bytes, time_ns));
    }
    right.then_some(curve)
}

/// Reads an integer in a range beyond 32 bits.
fn read_u64(reader: &mut Reader, key: &str, value: &Value<'_>, range: &RangeInclusive<u64>) -> Option<u64> {
    let note = format!("{key}: {} to {}", range.start(), range.end());
    let DeValue::Integer(digits) = value.get_ref() else {
        let found = with_article(value.get_ref().type_str());
        let message = format!("`{key}` must be an integer, not {found}");
        reader.report(Problem::new(value.span(), message).note(note));
        return None;
    };
    let number = i128::from_str_radix(digits.as_str(), digits.radix()).ok();
    let fitting = number.and_then(|number| u64::try_from(number).ok()).filter(|it| range.contains(it));
    if fitting.is_none() {
        reader.report(Problem::new(value.span(), format!("`{key}` is out of range")).note(note));
    }
    fitting
}
