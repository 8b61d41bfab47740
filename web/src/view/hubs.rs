//! Hubs, the synchronization objects that programs share.

use serde::{Deserialize, Serialize};
use tombolo::DomainId;
use tombolo_hubs::{Description, Kind, Status, Waiting};

use super::{Filter, Page, RowRange};

/// Selects hubs by a word, and a page of them.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct HubsQuery {
    /// Word to find in the name, kind, node or owner.
    pub filter: String,
    /// Range of the matching rows.
    #[serde(flatten)]
    pub cut: RowRange,
}

/// Row of a hub, as of the last query.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct HubRow {
    pub key: String,
    pub kind: &'static str,
    pub node: String,
    pub capacity: u32,
    pub depth: u32,
    pub held: u32,
    /// Domain that owns the resource, or that holds the oldest block of a pool.
    pub owner: Option<String>,
    pub fencing_token: Option<u64>,
    /// Whether the owner inherits the priority of waiting tasks; null if there is no owner.
    pub inheritance: Option<bool>,
    /// Priority that the owner inherits.
    pub inherited: Option<u8>,
    pub closed: bool,
    pub putters: Vec<WaitingRow>,
    pub getters: Vec<WaitingRow>,
}

/// Waiting requests of one priority.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct WaitingRow {
    pub priority: u8,
    pub count: u32,
}

impl HubRow {
    /// Creates the row of a hub on this node.
    #[must_use]
    pub fn new(node: String, status: Status) -> HubRow {
        let waiting = |all: &[Waiting]| -> Vec<WaitingRow> {
            let row = |waiting: &Waiting| WaitingRow { priority: waiting.priority, count: waiting.count };
            all.iter().map(row).collect()
        };
        let inherited = status.inherited();
        let Description { name, kind, capacity, inheritance, .. } = status.description;
        HubRow {
            key: name,
            kind: kind.name(),
            node,
            capacity,
            depth: status.depth,
            held: status.held,
            owner: status.owner.and_then(|(domain, _)| DomainId::from_bits(domain)).map(|id| id.to_string()),
            fencing_token: status.owner.map(|(_, token)| token),
            inheritance: (kind == Kind::Resource).then_some(inheritance),
            inherited,
            closed: status.closed,
            putters: waiting(&status.putters),
            getters: waiting(&status.getters),
        }
    }
}

/// Returns the hubs that a query selects, by name.
#[must_use]
pub fn hubs(all: &[HubRow], query: &HubsQuery) -> Page<HubRow> {
    let filter = Filter::new(&query.filter);
    let owner = |hub: &HubRow| hub.owner.clone().unwrap_or_default();
    let wanted = |hub: &&HubRow| filter.matches([&*hub.key, hub.kind, &*hub.node, &*owner(hub)]);
    let all: Vec<&HubRow> = all.iter().filter(wanted).collect();
    query.cut.of(&all, |hub| (*hub).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(owner: Option<(u64, u64)>) -> HubRow {
        let description = Description { inheritance: true, ..Description::new("guard", Kind::Resource) };
        let getters = vec![Waiting { priority: 9, count: 1 }, Waiting { priority: 2, count: 3 }];
        let (depth, held) = (0, 1);
        let status = Status { description, depth, held, owner, closed: false, putters: Vec::new(), getters };
        HubRow::new("arm0".into(), status)
    }

    #[test]
    fn an_owner_inherits_the_highest_priority_that_waits() {
        let row = guard(Some((0x0001_0001_0000_0002, 7)));
        assert_eq!((row.inheritance, row.inherited, row.fencing_token), (Some(true), Some(9), Some(7)));
        assert!(row.owner.is_some());
        assert_eq!(guard(None).inherited, None, "no task owns it");
        let fifo = Description::new("jobs", Kind::Fifo);
        let status = Status {
            description: fifo,
            depth: 3,
            held: 0,
            owner: None,
            closed: true,
            putters: Vec::new(),
            getters: vec![Waiting { priority: 9, count: 1 }],
        };
        let row = HubRow::new("host".into(), status);
        assert_eq!((row.inheritance, row.inherited, row.depth, row.closed), (None, None, 3, true));
    }

    #[test]
    fn hubs_are_filtered_and_cut() {
        let all = [guard(None), HubRow { key: "jobs".into(), kind: "fifo", ..guard(None) }];
        let keys = |filter: &str| -> Vec<String> {
            let query = HubsQuery { filter: filter.into(), ..HubsQuery::default() };
            hubs(&all, &query).rows.into_iter().map(|row| row.key).collect()
        };
        assert_eq!(keys(""), ["guard", "jobs"]);
        assert_eq!(keys("FIFO"), ["jobs"]);
        assert_eq!(keys("arm"), ["guard", "jobs"]);
        assert!(keys("mars").is_empty());
    }
}
