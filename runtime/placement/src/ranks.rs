//! Assigns the ranks of a job to nodes.

use std::str::FromStr;

use tombolo::Error;
use tombolo::error::Fault;
use tombolo::nodes::NodeInfo;

use crate::choose::{Auto, Rejected};

/// Name that stands for a node to be chosen.
pub const AUTO: &str = "auto";

/// Maximum number of ranks of a job, including those that it starts itself.
pub const MAX_RANKS: usize = 4096;

/// Entry `NODE[:COUNT]` of a list of nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Name of the node.
    pub node: String,
    /// Number of ranks; a share of the ranks to place if `None`.
    pub count: Option<usize>,
}

impl Placement {
    /// Whether the node is to be chosen: `auto`.
    #[must_use]
    pub fn is_auto(&self) -> bool {
        self.node == AUTO
    }
}

impl FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (node, count) = match text.split_once(':') {
            None => (text, None),
            Some((node, count)) => match count.parse() {
                Ok(count) if (1..=MAX_RANKS).contains(&count) => (node, Some(count)),
                _ => return Err(format!("'{count}' is not a number of ranks from 1 to {MAX_RANKS}")),
            },
        };
        if node.is_empty() {
            return Err("the name of a node is missing; write NODE or NODE:COUNT".to_owned());
        }
        Ok(Placement { node: node.to_owned(), count })
    }
}

/// Order in which ranks are assigned to nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// All ranks of one node, then all of the next.
    #[default]
    Block,
    /// One rank of each node in turn.
    RoundRobin,
}

/// Reason why ranks cannot be placed.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// A node does not exist, or is down.
    #[error(transparent)]
    Machine(#[from] Error),
    /// The number of ranks does not fit, or is zero.
    #[error("{0}")]
    Count(String),
    /// No node meets the needs.
    #[error("no node fits: {}", reasons(rejected))]
    NoFit {
        /// All nodes, with the reasons.
        rejected: Vec<Rejected>,
    },
}

/// Formats the reasons of as many nodes as fit on a readable line.
fn reasons(rejected: &[Rejected]) -> String {
    const SHOWN: usize = 8;
    let mut shown: Vec<String> = rejected
        .iter()
        .take(SHOWN)
        .map(|rejected| format!("{}: {}", rejected.node, rejected.reasons.join(", ")))
        .collect();
    if rejected.len() > SHOWN {
        shown.push(format!("and {} more", rejected.len() - SHOWN));
    }
    shown.join("; ")
}

/// Returns the node of each rank, as an index into `nodes`.
///
/// Without `on`, all ranks go to the host, the first node. Without `count`, their number is that of the
/// host's processors, or the sum of the list, where a node without a number takes one. With both, nodes
/// without a number share what the others leave. `auto` chooses nodes for the entries named `auto`, which
/// require it.
///
/// # Errors
/// [`PlacementError`] with the node, or the numbers that do not fit.
pub fn place(
    count: Option<usize>,
    on: &[Placement],
    order: Order,
    nodes: &[NodeInfo],
    mut auto: Option<&mut Auto>,
) -> Result<Vec<usize>, PlacementError> {
    let wrong = |what: String| Err(PlacementError::Count(what));
    if count == Some(0) {
        return wrong("a job has at least one rank: 0 were asked for".into());
    }
    let counts = match on {
        [] => {
            let host = nodes.first().map_or(1, |host| usize::from(host.cores.max(1)));
            vec![(0, count.unwrap_or(host))]
        }
        on => {
            let named = on.iter().filter(|placement| !placement.is_auto());
            named.map(|placement| find(&placement.node, nodes)).collect::<Result<Vec<_>, _>>()?;
            let per_entry = counts_of(count, on)?;
            check_total(per_entry.iter().sum())?;
            let mut counts = Vec::new();
            for (placement, count) in on.iter().zip(per_entry) {
                match &mut auto {
                    Some(auto) if placement.is_auto() => {
                        for node in auto.assign(count)? {
                            let index = find(&node, nodes)?;
                            match counts.last_mut() {
                                Some((last, count)) if *last == index => *count += 1,
                                _ => counts.push((index, 1)),
                            }
                        }
                    }
                    _ => counts.push((find(&placement.node, nodes)?, count)),
                }
            }
            counts
        }
    };
    check_total(counts.iter().map(|(_, count)| count).sum())?;
    Ok(match order {
        Order::Block => counts.iter().flat_map(|(node, count)| std::iter::repeat_n(*node, *count)).collect(),
        Order::RoundRobin => {
            let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
            let round =
                |turn: usize| counts.iter().filter(move |(_, count)| turn < *count).map(|(node, _)| *node);
            (0..most).flat_map(round).collect()
        }
    })
}

fn check_total(total: usize) -> Result<(), PlacementError> {
    if total > MAX_RANKS {
        let what = format!("a job has at most {MAX_RANKS} ranks: {total} were asked for");
        return Err(PlacementError::Count(what));
    }
    Ok(())
}

/// Returns the index of the node with this name.
///
/// # Errors
/// [`Fault::NoSuchNode`] with the names that exist.
pub fn position(nodes: &[NodeInfo], name: &str) -> Result<usize, Error> {
    nodes.iter().position(|node| node.name == name).ok_or_else(|| {
        let available = nodes.iter().map(|node| node.name.clone()).collect();
        Fault::NoSuchNode { name: name.to_owned(), available }.into()
    })
}

/// Finds a node by its name; it has to be up.
fn find(name: &str, nodes: &[NodeInfo]) -> Result<usize, Error> {
    let index = position(nodes, name)?;
    let node = &nodes[index];
    if !node.up {
        return Err(Fault::NodeDown { node: node.name.clone(), cause: node.cause.clone() }.into());
    }
    Ok(index)
}

/// Number of ranks of each entry of the list.
fn counts_of(count: Option<usize>, on: &[Placement]) -> Result<Vec<usize>, PlacementError> {
    let Some(count) = count else {
        return Ok(on.iter().map(|placement| placement.count.unwrap_or(1)).collect());
    };
    let fixed_count: usize = on.iter().filter_map(|placement| placement.count).sum();
    let open = on.iter().filter(|placement| placement.count.is_none()).count();
    if open == 0 {
        if count > fixed_count {
            let what = format!("the number of ranks is {count}, but the named nodes take {fixed_count}");
            return Err(PlacementError::Count(what));
        }
        // The first entries take as many as they may.
        let mut left = count;
        let take = |placement: &Placement| {
            let taken = placement.count.unwrap_or(0).min(left);
            left -= taken;
            taken
        };
        return Ok(on.iter().map(take).collect());
    }
    let rest = count.checked_sub(fixed_count).ok_or_else(|| {
        PlacementError::Count(format!(
            "the number of ranks is {count}, but the named nodes take {fixed_count}"
        ))
    })?;
    let (each, mut more) = (rest / open, rest % open);
    let share = |placement: &Placement| {
        placement.count.unwrap_or_else(|| {
            let extra = usize::from(more > 0);
            more -= extra;
            each + extra
        })
    };
    Ok(on.iter().map(share).collect())
}

#[cfg(test)]
mod tests {
    use tombolo::nodes::NodeKind;
    use tombolo::{Isa, NodeId};

    use super::*;
    use crate::{Facts, Needs};

    fn node(id: u16, name: &str, up: bool) -> NodeInfo {
        NodeInfo {
            up,
            cause: "not started".into(),
            cores: 3,
            ..NodeInfo::new(NodeId(id), name, NodeKind::User, Isa::Riscv64)
        }
    }

    fn placed(count: Option<usize>, on: &str, order: Order) -> Result<String, String> {
        let nodes = [node(0, "host", true), node(1, "arm0", true), node(2, "arm1", false)];
        let on: Result<Vec<Placement>, String> =
            on.split(',').filter(|text| !text.is_empty()).map(str::parse).collect();
        let facts = [
            "node/host { node: 'host', number: 0, up: true, processors: 3, free_permille: 3000, rounds_per_ms: 9 }",
            "node/arm0 { node: 'arm0', number: 1, up: true, processors: 3, free_permille: 3000, rounds_per_ms: 1 }",
        ];
        let records = facts.map(|text| {
            let (name, attributes) = tombolo_naming::parse_record(text).unwrap();
            tombolo::names::Record { name, attributes, version: 0, owner: None, endpoint: false }
        });
        let mut auto = Auto::new(Facts::from_records(records), Needs::default(), None);
        let ranks = place(count, &on?, order, &nodes, Some(&mut auto)).map_err(|error| error.to_string())?;
        Ok(ranks.into_iter().map(|index| nodes[index].name.chars().next().unwrap()).collect())
    }

    fn block(count: Option<usize>, on: &str) -> String {
        placed(count, on, Order::Block).unwrap()
    }

    #[test]
    fn ranks_are_placed_as_requested() {
        assert_eq!(block(None, ""), "hhh", "a rank for each processor of the host");
        assert_eq!(block(Some(5), ""), "hhhhh");
        assert_eq!(block(Some(1), ""), "h");
        assert_eq!(block(None, "host,arm0"), "ha");
        assert_eq!(block(None, "arm0:2,host"), "aah");
        assert_eq!(block(Some(5), "host,arm0"), "hhhaa", "shared");
        assert_eq!(block(Some(5), "host:1,arm0"), "haaaa", "what the others leave");
        assert_eq!(block(Some(3), "host:2,arm0:4"), "hha", "the first are filled first");
        assert_eq!(placed(Some(5), "host,arm0", Order::RoundRobin).unwrap(), "hahah");
        assert_eq!(placed(None, "host:3,arm0:1", Order::RoundRobin).unwrap(), "hahh");
        assert_eq!(block(None, "host,arm0,host"), "hah", "a node may come twice");
        assert_eq!(block(None, "auto"), "h", "the fastest");
        assert_eq!(block(Some(5), "auto"), "hhhaa", "as many as it has processors, then the next");
        assert_eq!(block(None, "arm0,auto:4"), "ahhha");
        assert_eq!(placed(None, "auto:4", Order::RoundRobin).unwrap(), "hahh");
    }

    #[test]
    fn invalid_placements_are_reported() {
        let error = |count, on| placed(count, on, Order::Block).unwrap_err();
        assert!(error(Some(0), "").contains("at least one"));
        assert!(error(Some(7), "host:2,arm0:4").contains("the number of ranks is 7"));
        assert!(error(Some(1), "host:2,arm0").contains("take 2"));
        assert!(error(None, "host,arm7").contains("no node 'arm7'"));
        assert_eq!(error(None, "arm7"), "this machine has no node 'arm7'; it has host, arm0 and arm1");
        assert_eq!(error(None, "arm1"), "node arm1 is down: not started");
        for on in ["host:0", "host:4097", "host:-1", "host:x", "host:", ":2"] {
            assert!(placed(None, on, Order::Block).is_err(), "{on}");
        }
        assert_eq!(block(Some(MAX_RANKS), "").len(), MAX_RANKS);
        assert!(error(Some(MAX_RANKS + 1), "").contains("at most 4096"));
        assert_eq!(block(None, "host:4096").len(), MAX_RANKS);
        assert!(error(None, "host:4096,arm0").contains("at most 4096"));
        assert!(error(None, "host:4096,host").contains("at most 4096"));
    }
}
