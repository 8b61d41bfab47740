//! Watching names.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tombolo::names::{Change, EventMask, Notice};
use tombolo::nodes::NodeInfo;

use super::list::{RecordReport, json};
use crate::context::{Context, print};
use crate::failure::Failure;
use crate::text::printable;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo names watch 'svc/*'
  tombolo names watch '@arm0/*' --json --count 5")]
pub(crate) struct WatchOptions {
    /// The query [default: all names of the machine]
    #[arg(default_value = "_", hide_default_value = true)]
    query: String,

    /// End after this many changes
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,

    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// A change as JSON.
#[derive(Serialize, Default)]
struct ChangeReport {
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<RecordReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<serde_json::Value>,
    /// Number of changes lost before this one.
    lost: u64,
}

/// Maximum duration of a single wait; a change may never come.
const MAX_WAIT: Duration = Duration::from_secs(3600);

pub(super) fn run(context: &Context, options: &WatchOptions) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let nodes = domain.nodes()?;
    let events = EventMask::RECORDS.and(EventMask::PUBLISH);
    let watch = tombolo::names::WatchOptions { events, capacity: 4096, ..Default::default() };
    let mut watch = domain.names().watch(&options.query, watch)?;
    for record in watch.current().to_vec() {
        show(options, &nodes, "there", Notice { lost: 0, last: false, change: Change::Set(record) })?;
    }
    let mut left = options.count.unwrap_or(u64::MAX);
    while left > 0 {
        let notice = match watch.next(MAX_WAIT) {
            Ok(notice) => notice,
            Err(tombolo::Error::TimedOut { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let last = notice.last;
        show(options, &nodes, "set", notice)?;
        if last {
            return Ok(());
        }
        left -= 1;
    }
    Ok(())
}

fn show(
    options: &WatchOptions,
    nodes: &[NodeInfo],
    set: &'static str,
    notice: Notice,
) -> Result<(), Failure> {
    let lost = notice.lost;
    if options.json {
        let report = match &notice.change {
            Change::Set(record) => ChangeReport {
                change: set,
                record: Some(RecordReport::new(record, nodes)),
                ..Default::default()
            },
            Change::Deleted(record, _) => ChangeReport {
                change: "deleted",
                record: Some(RecordReport::new(record, nodes)),
                ..Default::default()
            },
            Change::Published { name, attributes, publisher } => {
                let attributes: serde_json::Map<_, _> =
                    attributes.iter().map(|(name, value)| (name.clone(), json(value))).collect();
                let event = serde_json::json!({
                    "name": name, "attributes": attributes, "publisher": publisher.to_string(),
                });
                ChangeReport { change: "published", event: Some(event), ..Default::default() }
            }
            Change::Ended(_) => ChangeReport { change: "ended", ..Default::default() },
            _ => ChangeReport { change: "lost", ..Default::default() },
        };
        let line = serde_json::to_string(&ChangeReport { lost, ..report });
        return print(line.map_err(|error| Failure::Output(error.into()))? + "\n");
    }
    if lost > 0 {
        print(format!("lost      {lost} changes\n"))?;
    }
    match &notice.change {
        Change::Set(record) => print(format!("{set:<9} {}\n", printable(&record.to_string()))),
        Change::Deleted(record, cause) => {
            print(format!("deleted   {} ({})\n", printable(&record.to_string()), cause_text(*cause)))
        }
        Change::Published { name, attributes, publisher } => {
            let text = tombolo::names::NewRecord::from_parts(name, attributes.clone()).to_string();
            print(format!("published {} (by domain {publisher})\n", printable(&text)))
        }
        Change::Ended(cause) => {
            let why = match cause {
                tombolo::names::EndCause::Unwatched => "it was ended",
                tombolo::names::EndCause::TooCostly => "the query takes too many steps",
                tombolo::names::EndCause::NodeLost => "the node is lost",
            };
            print(format!("ended     {why}\n"))
        }
        _ => Ok(()),
    }
}

fn cause_text(cause: tombolo::names::DeleteCause) -> &'static str {
    match cause {
        tombolo::names::DeleteCause::Deleted => "it was deleted",
        tombolo::names::DeleteCause::OwnerGone => "its domain is gone",
        tombolo::names::DeleteCause::NoMatch => "it does not match any more",
    }
}
