//! Views that pages can watch: each consists of rows of a snapshot, filtered, sorted and paged.

mod channels;
mod domains;
mod events;
mod hubs;
mod machine;
mod nodes;
mod process;
mod regions;

use serde::Deserialize;
use tombolo::{ChannelId, DomainId, NodeId};
use tombolo_admin::observe::Seen;

pub use channels::{ChannelRow, ChannelSort, ChannelsQuery, FlowRow, channel, channels};
pub(crate) use channels::{ends as channel_ends, reporting_end};
pub use domains::{DomainDetail, DomainRow, DomainSort, DomainState, DomainsQuery, domain, domains};
pub use events::{EventRow, EventsQuery, events};
pub use hubs::{HubRow, HubsQuery, WaitingRow, hubs};
pub use machine::{MachineRow, machine};
pub use nodes::{CoreRow, EngineRow, LinkRow, NodeDetail, NodeRow, PowerRow, link, links, node, nodes};
pub(crate) use nodes::{load, shares_kernel};
pub use process::{DescriptorRow, ProcessNodeRow, ProcessRow, ThreadRow, ThreadsQuery, process, threads};
pub use regions::{HolderRow, RegionRow, RegionsQuery, holders, regions};

/// Maximum number of rows of a page.
pub const MAX_ROWS: usize = 500;

/// Page of the matching rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Page<T> {
    /// Number of all matching rows.
    pub total: usize,
    /// Rows of the page, in order.
    pub rows: Vec<T>,
}

/// Range of the matching rows.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(default)]
pub struct RowRange {
    /// Number of rows to skip.
    pub offset: usize,
    /// Maximum number of rows, at most [`MAX_ROWS`].
    pub limit: usize,
}

impl Default for RowRange {
    fn default() -> Self {
        RowRange { offset: 0, limit: 100 }
    }
}

impl RowRange {
    /// Returns the page of the matching items; only its rows are created.
    pub(crate) fn of<T, R>(&self, all: &[T], row: impl FnMut(&T) -> R) -> Page<R> {
        let rows = all.iter().skip(self.offset).take(self.limit.min(MAX_ROWS)).map(row).collect();
        Page { total: all.len(), rows }
    }
}

/// Error: a named object does not exist.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no {0} (any more)")]
pub struct Missing(pub String);

/// Case-insensitive search for a word.
struct Filter(String);

impl Filter {
    fn new(text: &str) -> Filter {
        Filter(text.trim().to_lowercase())
    }

    /// Returns whether any of the texts contains the word.
    fn matches<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> bool {
        let has = |text: &str| {
            if text.is_ascii() && self.0.is_ascii() {
                // Fast path: ten thousand texts are searched four times per second, most of them ASCII.
                let wanted = self.0.as_bytes();
                return text.as_bytes().windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(wanted));
            }
            text.to_lowercase().contains(&self.0)
        };
        self.0.is_empty() || texts.into_iter().any(has)
    }
}

/// Formats a domain's id.
pub(crate) fn domain_name(id: DomainId) -> String {
    id.to_string()
}

/// Returns the name of a node, or its number if it is unknown.
pub(crate) fn node_name(seen: &Seen, node: NodeId) -> String {
    seen.nodes.get(&node).map_or_else(|| node.to_string(), |node| node.info.name.clone())
}

/// Returns the node with this name.
fn node_named<'a>(seen: &'a Seen, name: &str) -> Result<&'a tombolo_admin::observe::SeenNode, Missing> {
    let found = seen.nodes.values().find(|node| node.info.name == name);
    found.ok_or_else(|| Missing(format!("node '{name}'")))
}

fn program_of(seen: &Seen, domain: DomainId) -> &str {
    seen.domains.get(&domain).map_or("", |domain| &domain.program)
}

/// Parses a domain's id as written by pages.
pub(crate) fn domain_id(text: &str) -> Result<DomainId, Missing> {
    text.parse().map_err(|_| Missing(format!("domain '{text}'")))
}

/// Parses a channel's number as written by pages.
pub(crate) fn channel_id(text: &str) -> Result<ChannelId, Missing> {
    text.parse().map(ChannelId).map_err(|_| Missing(format!("channel '{text}'")))
}

/// Converts nanoseconds to milliseconds.
fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tombolo::Exit;
    use tombolo_admin::observe::{Happening, NodePhase, SeenEvent};

    use super::*;
    use crate::testing::{channel, domain, ended, id, node, seen};

    fn duo() -> Seen {
        let mut seen =
            seen([node(0, "host", "x86_64", &[250, 1000], 4000), node(1, "arm0", "aarch64", &[0], 500)]);
        let gone = ended(domain(0, 3, "gone", 0), Exit::Exited { status: 3 });
        for domain in [domain(0, 2, "Work", 700), gone, domain(1, 4, "ping", 900), domain(1, 5, "pong", 900)]
        {
            seen.domains.insert(domain.id, domain);
        }
        for channel in [channel(7, id(1, 4), id(1, 5), 10), channel(8, id(0, 2), id(1, 4), 1000)] {
            seen.channels.insert(channel.id, channel);
        }
        seen
    }

    fn asked<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn keys(query: serde_json::Value) -> (usize, Vec<String>) {
        let page = domains(&duo(), &asked(query));
        (page.total, page.rows.into_iter().map(|row| row.key).collect())
    }

    #[test]
    fn domains_are_filtered_sorted_and_cut() {
        let all = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(keys(json!({})), (3, all("0.1.2 1.1.4 1.1.5")));
        assert_eq!(
            keys(json!({"state": "all", "sort": "id", "descending": true})),
            (4, all("1.1.5 1.1.4 0.1.3 0.1.2"))
        );
        assert_eq!(keys(json!({"state": "ended"})), (1, all("0.1.3")));
        assert_eq!(keys(json!({"sort": "load", "descending": true})), (3, all("1.1.4 1.1.5 0.1.2")));
        assert_eq!(keys(json!({"sort": "load"})), (3, all("0.1.2 1.1.4 1.1.5")), "equal ones stay in order");
        assert_eq!(keys(json!({"filter": "WORK"})), (1, all("0.1.2")));
        assert_eq!(keys(json!({"filter": "arm", "limit": 1, "offset": 1})), (2, all("1.1.5")));
        assert_eq!(keys(json!({"node": "host"})), (1, all("0.1.2")));
        assert_eq!(keys(json!({"node": "mars"})), (0, Vec::new()));
        assert_eq!(keys(json!({"filter": "1.1.4"})), (1, all("1.1.4")));
    }

    #[test]
    fn a_domain_says_how_it_ended_and_what_it_has() {
        let seen = duo();
        let gone = domain_of(&seen, id(0, 3));
        assert_eq!((gone["exit"].as_str(), &gone["failed"]), (Some("ended with status 3"), &json!(true)));
        assert_eq!((&gone["load"], &gone["steerable"]), (&json!(null), &json!(false)));
        let live = domain_of(&seen, id(1, 4));
        assert_eq!(
            (&live["load"], &live["isa"], &live["steerable"]),
            (&json!(900), &json!("aarch64"), &json!(true))
        );
        assert_eq!((&live["parent"], &live["output_bytes"]), (&json!("0.1.1"), &json!(12)));
        assert!(super::domain(&seen, id(0, 9)).is_err());
    }

    fn domain_of(seen: &Seen, id: DomainId) -> serde_json::Value {
        serde_json::to_value(super::domain(seen, id).unwrap()).unwrap()
    }

    #[test]
    fn channels_have_both_directions() {
        let seen = duo();
        let query = |value| channels(&seen, &asked(value));
        let all = query(json!({"sort": "rate", "descending": true})).unwrap();
        let row = serde_json::to_value(&all.rows[0]).unwrap();
        assert_eq!(
            (&row["key"], &row["a"], &row["b_program"]),
            (&json!("8"), &json!("0.1.2"), &json!("ping"))
        );
        assert_eq!(
            (&row["forth"]["depth"], &row["forth"]["per_s"], &row["back"]["sent"]),
            (&json!(4), &json!(1000.0), &json!(0)),
            "of a channel through which something passes the sender tells what its ring holds"
        );
        assert_eq!(row["forth"]["depth_exact"], json!(false));
        assert_eq!(query(json!({"domain": "1.1.5"})).unwrap().total, 1);
        assert_eq!(query(json!({"node": "host"})).unwrap().total, 1);
        assert_eq!(query(json!({"filter": "pong"})).unwrap().total, 1);
        assert!(query(json!({"node": "mars"})).is_err() && query(json!({"domain": "x"})).is_err());
    }

    #[test]
    fn unknown_node_values_are_null() {
        let mut seen = duo();
        let host = serde_json::to_value(super::node(&seen, "host").unwrap()).unwrap();
        assert_eq!(
            (&host["load"], &host["cores"], &host["power_mw"]),
            (&json!(1250), &json!(2), &json!(12_500))
        );
        assert_eq!(host["core_list"][1]["governor"], "performance");
        assert_eq!((&host["can_restart"], &host["has_console"]), (&json!(false), &json!(false)));
        let arm = seen.nodes.get_mut(&NodeId(1)).unwrap();
        (arm.phase, arm.sample, arm.info.cause) = (NodePhase::Down, None, "killed".into());
        let arm = serde_json::to_value(super::node(&seen, "arm0").unwrap()).unwrap();
        assert_eq!(
            (&arm["phase"], &arm["cause"], &arm["load"]),
            (&json!("down"), &json!("killed"), &json!(null))
        );
        assert_eq!((&arm["can_restart"], &arm["has_console"]), (&json!(true), &json!(true)));
        assert!(super::node(&seen, "mars").is_err());
    }

    #[test]
    fn the_newest_event_comes_first() {
        let mut seen = duo();
        for number in 1..=3 {
            let text = format!("text {number}");
            let happening = if number == 3 { Happening(250) } else { Happening::NODE_UP };
            let event =
                SeenEvent { number, at_ns: number, happening, node: Some(NodeId(1)), domain: None, text };
            seen.events.insert(number, event);
        }
        let page = events(&seen, &asked(json!({"limit": 2})));
        let shown: Vec<_> = page.rows.iter().map(|row| (row.key.as_str(), row.what)).collect();
        assert_eq!((page.total, shown), (3, vec![("3", "something else"), ("2", "node up")]));
        assert_eq!(events(&seen, &asked(json!({"filter": "arm0"}))).total, 3);
        assert_eq!(events(&seen, &asked(json!({"filter": "text 2"}))).total, 1);
    }

    #[test]
    fn filters_look_for_a_word_in_any_case() {
        assert!(Filter::new("").matches(["x"]) && Filter::new(" ").matches([]));
        assert!(Filter::new("PING").matches(["no", "a pingpong"]));
        assert!(Filter::new("grün").matches(["GRÜN"]));
        assert!(!Filter::new("ping").matches(["pin", "g"]));
    }

    #[test]
    fn a_page_is_cut_and_counts_all() {
        let all: Vec<u32> = (0..1000).collect();
        let page = RowRange { offset: 990, limit: 20 }.of(&all, |number| *number);
        assert_eq!((page.total, page.rows.len(), page.rows[0]), (1000, 10, 990));
        assert_eq!(RowRange { offset: 0, limit: usize::MAX }.of(&all, |number| *number).rows.len(), MAX_ROWS);
        assert_eq!(RowRange { offset: usize::MAX, limit: 1 }.of(&all, |number| *number).rows.len(), 0);
    }
}
