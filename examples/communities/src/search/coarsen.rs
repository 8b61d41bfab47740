//! Contraction of a graph: one vertex per community, edge weights added up.

use super::SearchError;
use crate::graph::{Csr, Weights};

/// Numbers the labels in use `0, 1, …` in the order of their first vertex. Returns the number of each
/// vertex's community and the number of communities.
#[must_use]
pub fn number_communities(labels: &[u32]) -> (Vec<u32>, usize) {
    const NONE: u32 = u32::MAX;
    let mut numbers = vec![NONE; labels.len()];
    let mut count = 0;
    let members = labels
        .iter()
        .map(|&label| {
            let number = &mut numbers[label as usize];
            if *number == NONE {
                *number = count;
                count += 1;
            }
            *number
        })
        .collect();
    (members, count as usize)
}

/// Labels each community with its first vertex. Then a vertex that leaves to be alone finds the label with
/// its own number free, unless its community bears that label.
#[must_use]
pub(super) fn name_by_first_vertex(labels: &[u32]) -> Vec<u32> {
    const NONE: u32 = u32::MAX;
    let mut names = vec![NONE; labels.len()];
    labels
        .iter()
        .enumerate()
        .map(|(vertex, &label)| {
            let name = &mut names[label as usize];
            if *name == NONE {
                *name = vertex as u32;
            }
            *name
        })
        .collect()
}

/// Returns the start labels on the contracted graph: parts of one community have the same label. `members[v]`
/// is the part of v.
pub(super) fn labels_of_parts(communities: &[u32], members: &[u32], count: usize) -> Vec<u32> {
    let (communities, _) = number_communities(communities);
    let mut labels = vec![0; count];
    for (&member, &community) in members.iter().zip(&communities) {
        labels[member as usize] = community;
    }
    name_by_first_vertex(&labels)
}

/// Contracts each of the `count` communities to one vertex. `members[v]` is the community of v.
///
/// # Errors
/// None for a graph within its limits.
pub fn contract(graph: &Csr, members: &[u32], count: usize) -> Result<Csr, SearchError> {
    let (starts, sorted) = sort_by_community(members, count);
    let mut offsets = Vec::with_capacity(count + 1);
    let mut targets: Vec<u32> = Vec::new();
    let mut weights: Vec<u64> = Vec::new();
    let mut loops = vec![0u64; count];
    let mut gathered = vec![0u64; count];
    let mut touched: Vec<u32> = Vec::new();
    offsets.push(0);
    for community in 0..count {
        let mut internal = 0;
        for &vertex in &sorted[starts[community] as usize..starts[community + 1] as usize] {
            loops[community] += graph.loop_weight(vertex);
            for (target, weight) in graph.arcs_of(vertex) {
                let other = members[target as usize];
                if other as usize == community {
                    internal += weight;
                    continue;
                }
                if gathered[other as usize] == 0 {
                    touched.push(other);
                }
                gathered[other as usize] += weight;
            }
        }
        loops[community] += internal / 2;
        touched.sort_unstable();
        for other in touched.drain(..) {
            targets.push(other);
            weights.push(std::mem::take(&mut gathered[other as usize]));
        }
        offsets.push(targets.len() as u32);
    }
    Ok(Csr::from_parts(offsets, targets, Weights::narrowest(weights), loops)?)
}

/// Returns the start of each community and the vertices sorted by community.
fn sort_by_community(members: &[u32], count: usize) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0u32; count + 1];
    for &community in members {
        starts[community as usize + 1] += 1;
    }
    for community in 0..count {
        starts[community + 1] += starts[community];
    }
    let mut next = starts.clone();
    let mut sorted = vec![0u32; members.len()];
    for (vertex, &community) in members.iter().enumerate() {
        sorted[next[community as usize] as usize] = vertex as u32;
        next[community as usize] += 1;
    }
    (starts, sorted)
}
