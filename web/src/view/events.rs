//! Events of the machine.

use serde::{Deserialize, Serialize};
use tombolo_admin::observe::{Happening, Seen, SeenEvent};

use super::{Filter, Page, RowRange, ms, node_name};

/// Selects events by a word, and a page of them.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct EventsQuery {
    /// Word to find in the kind, node, domain or text of an event.
    pub filter: String,
    /// Range of the matching rows.
    #[serde(flatten)]
    pub cut: RowRange,
}

/// An event in the history of the machine.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct EventRow {
    pub key: String,
    pub at_ms: u64,
    pub what: &'static str,
    pub node: Option<String>,
    pub domain: Option<String>,
    pub text: String,
}

/// Returns a description of an event's kind.
fn what(happening: Happening) -> &'static str {
    match happening {
        Happening::NODE_STARTING => "node starting",
        Happening::NODE_UP => "node up",
        Happening::NODE_DOWN => "node down",
        Happening::DOMAIN_STARTED => "domain started",
        Happening::DOMAIN_NOT_STARTED => "domain not started",
        Happening::DOMAIN_ENDED => "domain ended",
        Happening::DOMAIN_PAUSED => "domain paused",
        Happening::DOMAIN_RESUMED => "domain resumed",
        Happening::DOMAIN_MOVED => "domain moved",
        Happening::LIMIT_MET => "limit met",
        Happening::FREQUENCY_CHANGED => "frequency changed",
        // A monitor of a later release may have more kinds.
        _ => "something else",
    }
}

fn row(seen: &Seen, event: &SeenEvent) -> EventRow {
    EventRow {
        key: event.number.to_string(),
        at_ms: ms(event.at_ns),
        what: what(event.happening),
        node: event.node.map(|node| node_name(seen, node)),
        domain: event.domain.map(|domain| domain.to_string()),
        text: event.text.clone(),
    }
}

/// Returns the events that a query selects, newest first.
#[must_use]
pub fn events(seen: &Seen, query: &EventsQuery) -> Page<EventRow> {
    let filter = Filter::new(&query.filter);
    let wanted = |event: &&SeenEvent| {
        filter.0.is_empty()
            || filter.matches([what(event.happening), &event.text])
            || event.domain.is_some_and(|domain| filter.matches([domain.to_string().as_str()]))
            || event.node.is_some_and(|node| filter.matches([node_name(seen, node).as_str()]))
    };
    let all: Vec<&SeenEvent> = seen.events.values().rev().filter(wanted).collect();
    query.cut.of(&all, |event| row(seen, event))
}
