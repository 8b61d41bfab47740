//! Routes: the nodes that relay a channel between two nodes without a link.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_base::NodeId;
use tombolo_control::MAX_RELAYS;

/// Assumed cost of a hop whose round trip was not measured.
const DEFAULT_HOP_COST_NS: u64 = 1_000_000;

/// Links of a machine that channels can pass over.
#[derive(Debug, Default)]
pub(super) struct Graph {
    neighbours: BTreeMap<NodeId, Vec<(NodeId, u64)>>,
}

impl Graph {
    /// Adds a link, with its measured round trip or 0.
    pub(super) fn add_link(&mut self, a: NodeId, b: NodeId, round_trip_ns: u64) {
        let cost_ns = if round_trip_ns == 0 { DEFAULT_HOP_COST_NS } else { round_trip_ns };
        self.neighbours.entry(a).or_default().push((b, cost_ns));
        self.neighbours.entry(b).or_default().push((a, cost_ns));
    }

    /// Returns the nodes between `from` and `to`, in order: of the routes with the fewest hops the one with
    /// the lowest cost. All of them satisfy `may_relay`. `None` if there is no route with at most
    /// [`MAX_RELAYS`] of them.
    ///
    /// A node is settled once, at its lowest cost, so no node is on a route twice.
    pub(super) fn route(
        &self,
        from: NodeId,
        to: NodeId,
        may_relay: impl Fn(NodeId) -> bool,
    ) -> Option<Vec<NodeId>> {
        let mut predecessors: BTreeMap<NodeId, NodeId> = BTreeMap::new();
        let mut settled = BTreeSet::new();
        // Hops, cost, the node, and its predecessor.
        let mut open = BTreeSet::from([(0, 0_u64, from, from)]);
        while let Some((hops, cost_ns, node, previous)) = open.pop_first() {
            if !settled.insert(node) {
                continue;
            }
            predecessors.insert(node, previous);
            if node == to {
                break;
            }
            if (node != from && !may_relay(node)) || hops > MAX_RELAYS {
                continue;
            }
            for (next, link_ns) in self.neighbours.get(&node).into_iter().flatten() {
                if !settled.contains(next) {
                    open.insert((hops + 1, cost_ns.saturating_add(*link_ns), *next, node));
                }
            }
        }
        let mut via = Vec::new();
        let mut node = *predecessors.get(&to)?;
        while node != from {
            via.push(node);
            node = *predecessors.get(&node)?;
        }
        via.reverse();
        Some(via)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn graph(links: &[(u16, u16, u64)]) -> Graph {
        let mut graph = Graph::default();
        links.iter().for_each(|(a, b, cost_ns)| graph.add_link(NodeId(*a), NodeId(*b), *cost_ns));
        graph
    }

    fn route(links: &[(u16, u16, u64)], from: u16, to: u16) -> Option<Vec<u16>> {
        let via = graph(links).route(NodeId(from), NodeId(to), |_| true)?;
        Some(via.into_iter().map(|node| node.0).collect())
    }

    #[test]
    fn the_fewest_hops_then_the_lowest_cost() {
        let links = [(1, 0, 9), (0, 2, 9), (1, 3, 1), (3, 4, 1), (4, 2, 1), (1, 5, 5), (5, 2, 5)];
        assert_eq!(route(&links, 1, 2), Some(vec![5]));
        assert_eq!(route(&links, 1, 4), Some(vec![3]));
        assert_eq!(route(&links, 1, 0), Some(vec![]));
        // An unmeasured link costs more than a fast one, and less than a slow one.
        let links = [(1, 0, 0), (0, 2, 0), (1, 3, 400_000), (3, 2, 400_000)];
        assert_eq!(route(&links, 1, 2), Some(vec![3]));
        let links = [(1, 0, 0), (0, 2, 0), (1, 3, 4_000_000), (3, 2, 4_000_000)];
        assert_eq!(route(&links, 1, 2), Some(vec![0]));
    }

    #[test]
    fn only_permitted_nodes_relay() {
        let links = graph(&[(1, 0, 1), (0, 2, 1), (1, 3, 5), (3, 2, 5)]);
        let via = |barred: &[u16]| links.route(NodeId(1), NodeId(2), |node| !barred.contains(&node.0));
        assert_eq!(via(&[]), Some(vec![NodeId(0)]));
        assert_eq!(via(&[0]), Some(vec![NodeId(3)]));
        assert_eq!(via(&[0, 3]), None);
        // The ends need not satisfy it.
        assert_eq!(via(&[1, 2]), Some(vec![NodeId(0)]));
        assert_eq!(links.route(NodeId(1), NodeId(9), |_| true), None);
    }

    #[test]
    fn a_route_has_a_limit() {
        let most = MAX_RELAYS as u16;
        for (relays, found) in [(most - 1, true), (most, true), (most + 1, false)] {
            let links: Vec<_> = (0..=relays).map(|node| (node, node + 1, 1)).collect();
            assert_eq!(route(&links, 0, relays + 1).is_some(), found, "{relays}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Checks in any graph, including loops, that a route is a path over links, without repeated nodes,
        /// and as short as found by breadth-first search.
        #[test]
        fn routes_are_the_shortest_paths(
            links in prop::collection::vec((0..8_u16, 0..8_u16, 0..9_u64), 0..20),
            barred in prop::collection::btree_set(0..8_u16, 0..4),
        ) {
            let links: Vec<_> = links.into_iter().filter(|(a, b, _)| a != b).collect();
            let may_relay = |node: NodeId| !barred.contains(&node.0);
            let joined = |a: u16, b: u16| links.iter().any(|(c, d, _)| (a, b) == (*c, *d) || (b, a) == (*c, *d));
            let mut distance = [None; 8];
            distance[0] = Some(0_usize);
            let mut frontier = vec![0_u16];
            while let Some(node) = (!frontier.is_empty()).then(|| frontier.remove(0)) {
                if node != 0 && !may_relay(NodeId(node)) {
                    continue;
                }
                for next in (0..8).filter(|next| joined(node, *next)) {
                    if distance[usize::from(next)].is_none() {
                        distance[usize::from(next)] = distance[usize::from(node)].map(|hops| hops + 1);
                        frontier.push(next);
                    }
                }
            }
            for to in 1..8_u16 {
                let via = graph(&links).route(NodeId(0), NodeId(to), may_relay);
                prop_assert_eq!(via.as_ref().map(|via| via.len() + 1), distance[usize::from(to)]);
                let Some(via) = via else { continue };
                prop_assert!(via.iter().all(|node| may_relay(*node)));
                let mut path = vec![0];
                path.extend(via.iter().map(|node| node.0));
                path.push(to);
                prop_assert!(path.windows(2).all(|hop| joined(hop[0], hop[1])));
                let once: BTreeSet<u16> = path.iter().copied().collect();
                prop_assert_eq!(once.len(), path.len());
            }
        }
    }
}
