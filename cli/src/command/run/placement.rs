//! Where the domains of a job go.

use std::str::FromStr;

use tombolo::{Error, Fault, NodeInfo};
use tombolo_cli_common::nodes;

/// The most domains that one job has.
const MAX_DOMAINS: usize = 4096;

/// One `NODE[:COUNT]` of `--on`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Placement {
    node: String,
    count: usize,
}

impl FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (node, count) = match text.split_once(':') {
            None => (text, 1),
            Some((node, count)) => match count.parse() {
                Ok(count) if (1..=MAX_DOMAINS).contains(&count) => (node, count),
                _ => return Err(format!("'{count}' is not a number of domains from 1 to {MAX_DOMAINS}")),
            },
        };
        if node.is_empty() {
            return Err("the name of a node is missing; write NODE or NODE:COUNT".to_owned());
        }
        Ok(Placement { node: node.to_owned(), count })
    }
}

/// The node of each rank. Without placements there is one, on the host.
pub(super) fn spread<'a>(
    placements: &[Placement],
    nodes: &'a [NodeInfo],
) -> Result<Vec<&'a NodeInfo>, Error> {
    if placements.is_empty() {
        return Ok(nodes.iter().take(1).collect());
    }
    let mut ranks = Vec::new();
    for placement in placements {
        let node = nodes::named(nodes, &placement.node)?;
        if !node.up {
            return Err(Fault::NodeDown { node: node.name.clone(), cause: node.cause.clone() }.into());
        }
        if ranks.len() + placement.count > MAX_DOMAINS {
            return Err(Fault::Limit { what: format!("a job has at most {MAX_DOMAINS} domains") }.into());
        }
        ranks.extend(std::iter::repeat_n(node, placement.count));
    }
    Ok(ranks)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use tombolo::{Isa, NodeId};

    use super::*;

    fn node(id: u16, name: &str, up: bool) -> NodeInfo {
        NodeInfo {
            id: NodeId(id),
            name: name.into(),
            kind: "user".into(),
            isa: Isa::Riscv64,
            generation: 1,
            up,
            cause: "not started".into(),
            cores: 1,
            domains: 0,
            transport: None,
            window_bytes: (0, 0),
            boot: Duration::ZERO,
            pid: 0,
        }
    }

    fn spread_over(on: &str) -> Result<Vec<String>, String> {
        let nodes = [node(0, "host", true), node(1, "arm0", true), node(2, "arm1", false)];
        let placements: Result<Vec<Placement>, String> =
            on.split(',').filter(|text| !text.is_empty()).map(str::parse).collect();
        let ranks = spread(&placements?, &nodes).map_err(|error| error.to_string())?;
        Ok(ranks.into_iter().map(|node| node.name.clone()).collect())
    }

    #[test]
    fn ranks_are_in_the_order_of_the_placements() {
        assert_eq!(spread_over("arm0:2,host").unwrap(), ["arm0", "arm0", "host"]);
        assert_eq!(spread_over("host,arm0,host").unwrap(), ["host", "arm0", "host"]);
        assert_eq!(spread_over("").unwrap(), ["host"]);
    }

    #[test]
    fn a_node_that_is_unknown_or_down_is_named() {
        let unknown = "this machine has no node 'arm7'; it has host, arm0 and arm1";
        assert_eq!(spread_over("host,arm7"), Err(unknown.to_owned()));
        assert_eq!(spread_over("arm1"), Err("node arm1 is down: not started".to_owned()));
    }

    #[test]
    fn counts_have_bounds() {
        assert_eq!(spread_over("host:4096").unwrap().len(), 4096);
        for on in ["host:0", "host:4097", "host:-1", "host:x", "host:", ":2"] {
            assert!(spread_over(on).is_err(), "{on}");
        }
        assert!(spread_over("host:4096,host").unwrap_err().contains("at most 4096"));
    }
}
