//! What can be looked at: each view is rows of a picture, filtered, sorted and cut.

mod channels;
mod domains;
mod events;
mod machine;
mod nodes;
mod regions;

use serde::Deserialize;
use tombolo::observe::Seen;
use tombolo::{ChannelId, DomainId, NodeId};

pub(crate) use channels::ends as channel_ends;
pub use channels::{ChannelRow, ChannelSort, ChannelsQuery, FlowRow, channels};
pub use domains::{DomainDetail, DomainRow, DomainSort, DomainState, DomainsQuery, domain, domains};
pub use events::{EventRow, EventsQuery, events};
pub use machine::{MachineRow, machine};
pub(crate) use nodes::load;
pub use nodes::{CoreRow, EngineRow, LinkRow, NodeDetail, NodeRow, PowerRow, links, node, nodes};
pub use regions::{HolderRow, RegionRow, RegionsQuery, holders, regions};

/// The most rows of a page of a view.
pub const MAX_ROWS: usize = 500;

/// Some of the rows that match.
#[derive(Clone, PartialEq, Debug)]
pub struct Page<T> {
    /// How many match in all.
    pub total: usize,
    /// Those that are wanted, in order.
    pub rows: Vec<T>,
}

/// Which of the rows that match are wanted.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(default)]
pub struct Cut {
    /// How many to leave out before.
    pub offset: usize,
    /// How many at most, up to [`MAX_ROWS`].
    pub limit: usize,
}

impl Default for Cut {
    fn default() -> Self {
        Cut { offset: 0, limit: 100 }
    }
}

impl Cut {
    /// These of all that match; rows are made of no others.
    pub(crate) fn of<T, R>(&self, all: &[T], row: impl FnMut(&T) -> R) -> Page<R> {
        let rows = all.iter().skip(self.offset).take(self.limit.min(MAX_ROWS)).map(row).collect();
        Page { total: all.len(), rows }
    }
}

/// Something that there is not.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no {0} (any more)")]
pub struct Missing(pub String);

/// Looks for a word, whatever its case.
struct Filter(String);

impl Filter {
    fn new(text: &str) -> Filter {
        Filter(text.trim().to_lowercase())
    }

    /// Whether any of these has it.
    fn takes<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> bool {
        let has = |text: &str| {
            if text.is_ascii() && self.0.is_ascii() {
                // Most texts are, and ten thousand of them are looked at four times a second.
                let wanted = self.0.as_bytes();
                return text.as_bytes().windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(wanted));
            }
            text.to_lowercase().contains(&self.0)
        };
        self.0.is_empty() || texts.into_iter().any(has)
    }
}

/// A domain's id, as text.
pub(crate) fn domain_name(id: DomainId) -> String {
    id.to_string()
}

/// What is known of a node by its number.
pub(crate) fn node_name(seen: &Seen, node: NodeId) -> String {
    seen.nodes.get(&node).map_or_else(|| node.to_string(), |node| node.info.name.clone())
}

/// The node of that name.
fn node_named<'a>(seen: &'a Seen, name: &str) -> Result<&'a tombolo::observe::SeenNode, Missing> {
    let found = seen.nodes.values().find(|node| node.info.name == name);
    found.ok_or_else(|| Missing(format!("node '{name}'")))
}

fn program_of(seen: &Seen, domain: DomainId) -> &str {
    seen.domains.get(&domain).map_or("", |domain| &domain.program)
}

/// A domain's id, as pages write it.
pub(crate) fn domain_id(text: &str) -> Result<DomainId, Missing> {
    text.parse().map_err(|_| Missing(format!("domain '{text}'")))
}

/// A channel's number, as pages write it.
pub(crate) fn channel_id(text: &str) -> Result<ChannelId, Missing> {
    text.parse().map(ChannelId).map_err(|_| Missing(format!("channel '{text}'")))
}

/// Milliseconds of nanoseconds.
fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_look_for_a_word_in_any_case() {
        assert!(Filter::new("").takes(["x"]) && Filter::new(" ").takes([]));
        assert!(Filter::new("PING").takes(["no", "a pingpong"]));
        assert!(Filter::new("grün").takes(["GRÜN"]));
        assert!(!Filter::new("ping").takes(["pin", "g"]));
    }

    #[test]
    fn a_page_is_cut_and_counts_all() {
        let all: Vec<u32> = (0..1000).collect();
        let page = Cut { offset: 990, limit: 20 }.of(&all, |number| *number);
        assert_eq!((page.total, page.rows.len(), page.rows[0]), (1000, 10, 990));
        assert_eq!(Cut { offset: 0, limit: usize::MAX }.of(&all, |number| *number).rows.len(), MAX_ROWS);
        assert_eq!(Cut { offset: usize::MAX, limit: 1 }.of(&all, |number| *number).rows.len(), 0);
    }
}
