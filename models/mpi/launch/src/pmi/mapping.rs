//! The value of `PMI_process_mapping`, from which MPICH learns which ranks share memory.

use std::fmt::Write;

/// Maximum length of a value that clients accept.
pub(super) const MAX_VALUE_BYTES: usize = 1024;

/// Encodes the nodes of the ranks. Returns `None` if the value would be too long; the client must then be
/// told that no two ranks share memory.
///
/// The value is a list of blocks (first node, number of nodes, ranks per node), repeated until every rank has
/// a node.
#[must_use]
pub fn process_mapping(nodes: &[usize]) -> Option<String> {
    // Nodes are numbered by first appearance, since a repeated pattern must begin with node 0.
    let mut known: Vec<usize> = Vec::new();
    let mut numbered = Vec::with_capacity(nodes.len());
    for node in nodes {
        let index = known.iter().position(|other| other == node).unwrap_or(known.len());
        if index == known.len() {
            known.push(*node);
        }
        numbered.push(index);
    }
    let repeats =
        |period: &usize| numbered.iter().skip(*period).zip(&numbered).all(|(later, first)| later == first);
    let period = (1..=numbered.len()).find(repeats)?;
    let mut blocks: Vec<(usize, usize, usize)> = Vec::new();
    let mut rest = &numbered[..period];
    while let Some(node) = rest.first() {
        let ranks = rest.iter().take_while(|other| *other == node).count();
        match blocks.last_mut() {
            Some((first, count, each)) if *first + *count == *node && *each == ranks => *count += 1,
            _ => blocks.push((*node, 1, ranks)),
        }
        rest = &rest[ranks..];
    }
    let mut text = "(vector".to_owned();
    for (first, count, each) in blocks {
        let _ = write!(text, ",({first},{count},{each})");
    }
    text.push(')');
    (text.len() < MAX_VALUE_BYTES).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mapping(nodes: &[usize]) -> String {
        process_mapping(nodes).unwrap()
    }

    #[test]
    fn mapping_groups_ranks_that_share_memory() {
        assert_eq!(mapping(&[7]), "(vector,(0,1,1))");
        assert_eq!(mapping(&[3, 3, 3, 3]), "(vector,(0,1,1))", "repeated");
        assert_eq!(mapping(&[0, 0, 1, 1]), "(vector,(0,2,2))");
        assert_eq!(mapping(&[0, 1, 0, 1, 0]), "(vector,(0,2,1))", "round and round");
        assert_eq!(mapping(&[2, 2, 2, 0]), "(vector,(0,1,3),(1,1,1))");
        assert_eq!(mapping(&[0, 1, 2, 3]), "(vector,(0,4,1))");
        assert_eq!(mapping(&[0, 1, 1, 0]), "(vector,(0,1,1),(1,1,2))", "and from the start");
        assert_eq!(mapping(&[0, 0, 1, 0]), "(vector,(0,1,2),(1,1,1))");
        assert_eq!(mapping(&[0, 1, 1, 0, 0]), "(vector,(0,1,1),(1,1,2),(0,1,1))");
        assert_eq!(process_mapping(&[]), None);
        // A sequence without repetition.
        let unlike: Vec<usize> = (0..2000_usize).map(|rank| (rank.pow(3) / 17 + rank / 5) % 5).collect();
        assert_eq!(process_mapping(&unlike), None);
    }

    /// Decodes the value as a client does.
    fn read(text: &str, size: usize) -> Vec<usize> {
        let blocks = text.strip_prefix("(vector,(").unwrap().strip_suffix("))").unwrap();
        let blocks: Vec<Vec<usize>> = blocks
            .split("),(")
            .map(|block| block.split(',').map(|number| number.parse().unwrap()).collect())
            .collect();
        let all = blocks.iter().flat_map(|block| {
            (block[0]..block[0] + block[1]).flat_map(move |node| std::iter::repeat_n(node, block[2]))
        });
        all.cycle().take(size).collect()
    }

    proptest! {
        #[test]
        fn mapping_round_trips(nodes in prop::collection::vec(0_usize..4, 1..40)) {
            let groups = read(&mapping(&nodes), nodes.len());
            for (left, right) in (0..nodes.len()).flat_map(|left| (0..left).map(move |right| (left, right))) {
                prop_assert_eq!(groups[left] == groups[right], nodes[left] == nodes[right]);
            }
        }
    }
}
