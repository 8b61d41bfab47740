//! Looking at names.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tombolo::Domain;
use tombolo::names::{Record, Value};
use tombolo::nodes::NodeInfo;
use tombolo_admin::Machine;

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::{Table, printable};

#[derive(Args, Debug)]
pub(crate) struct ListOptions {
    /// The query [default: all names of the machine]
    #[arg(value_name = "QUERY")]
    query: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A record as JSON.
#[derive(Serialize)]
pub(super) struct RecordReport {
    name: String,
    kind: &'static str,
    /// The domain that owns the record.
    domain: Option<String>,
    /// The node of that domain.
    node: Option<String>,
    version: u64,
    attributes: BTreeMap<String, serde_json::Value>,
}

impl RecordReport {
    pub(super) fn new(record: &Record, nodes: &[NodeInfo]) -> RecordReport {
        let node = |id| nodes.iter().find(|node| node.id == id).map(|node| node.name.clone());
        RecordReport {
            name: record.name.clone(),
            kind: kind(record),
            domain: record.owner.map(|owner| owner.to_string()),
            node: record.owner.and_then(|owner| node(owner.node())),
            version: record.version,
            attributes: record.attributes.iter().map(|(name, value)| (name.clone(), json(value))).collect(),
        }
    }
}

fn kind(record: &Record) -> &'static str {
    if record.endpoint { "export" } else { "record" }
}

/// Converts a value to JSON. Bytes become an array of numbers, which is unambiguous.
pub(super) fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Integer(value) => (*value).into(),
        Value::Float(value) => value.0.into(),
        Value::Text(value) => value.as_str().into(),
        Value::Bool(value) => (*value).into(),
        Value::Bytes(value) => value.as_slice().into(),
    }
}

/// Formats the attributes of a record in the notation of `names set`, without the name.
fn attributes(record: &Record) -> String {
    let text = record.to_string();
    if record.attributes.is_empty() { String::new() } else { printable(text[record.name.len()..].trim()) }
}

#[derive(Serialize)]
struct Report {
    machine: String,
    names: Vec<RecordReport>,
}

pub(super) fn records(context: &Context, options: &ListOptions) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let records = domain.names().find(options.query.as_deref().unwrap_or("_"))?;
    let nodes = domain.nodes()?;
    if options.json {
        let names = records.iter().map(|record| RecordReport::new(record, &nodes)).collect();
        return print_json(&Report { machine: domain.machine_name().to_owned(), names });
    }
    let mut table = Table::new(&["NAME", "KIND", "DOMAIN", "NODE", "ATTRIBUTES"]);
    for record in &records {
        let RecordReport { name, kind, domain, node, .. } = RecordReport::new(record, &nodes);
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        table.row([name, kind.to_owned(), or_none(domain), or_none(node), attributes(record)]);
    }
    print(table.render(context.colour))
}

pub(super) fn get(context: &Context, query: &str, wait: Option<Duration>, json: bool) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let record = match wait {
        Some(timeout) => domain.names().wait_for(query, timeout)?,
        None => domain.names().get(query)?,
    };
    if json {
        return print_json(&RecordReport::new(&record, &domain.nodes()?));
    }
    print(printable(&record.to_string()) + "\n")
}

/// A lock, semaphore or barrier as JSON.
#[derive(Serialize)]
struct ObjectReport {
    kind: String,
    name: String,
    holders: Vec<String>,
    count: u64,
    waiting: u32,
}

#[derive(Serialize)]
struct Objects {
    machine: String,
    objects: Vec<ObjectReport>,
}

pub(super) fn locks(context: &Context, node: Option<&str>, json: bool) -> Result<(), Failure> {
    let domain: Domain = context.attach_running()?;
    let scope = node.map_or(String::new(), |node| format!("@{node}/"));
    let objects: Vec<ObjectReport> = Machine::of(&domain)
        .locks(&scope)?
        .into_iter()
        .map(|object| ObjectReport {
            kind: object.kind,
            name: object.name,
            holders: object.holders.iter().map(ToString::to_string).collect(),
            count: object.count,
            waiting: object.waiting,
        })
        .collect();
    if json {
        return print_json(&Objects { machine: domain.machine_name().to_owned(), objects });
    }
    let mut table = Table::new(&["KIND", "NAME", "HELD BY", "WAITING>", "STATE"]);
    for object in objects {
        let state = match object.kind.as_str() {
            "lock" => format!("token {}", object.count),
            "semaphore" => format!("{} free", object.count),
            _ => format!("{} meetings", object.count),
        };
        table.row([object.kind, object.name, object.holders.join(" "), object.waiting.to_string(), state]);
    }
    print(table.render(context.colour))
}
