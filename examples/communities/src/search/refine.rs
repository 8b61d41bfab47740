//! Communities divided into parts that belong together: the refinement of the Leiden method (Traag, Waltman
//! and van Eck 2019).
//!
//! The parts are contracted instead of whole communities, so that a part can move to another community on the
//! contracted graph, which the community as a whole would not.

use super::dirty::Dirty;
use super::{Crew, Partition, ROUNDS_PER_SWEEP, Tally};
use crate::graph::Csr;

/// Maximum number of sweeps: the first visits all vertices, later ones those whose target had moved away when
/// they were to join it.
const SWEEPS: u32 = 4;

/// Joins vertices that are alone, each at most once, with neighbours within the bounds of `partition`.
pub(super) fn refine<C: Crew>(
    graph: &Csr,
    partition: &mut Partition,
    salt: u64,
    tally: &mut Tally,
    crew: &mut C,
) -> Result<(), C::Error> {
    let mut waiting = Dirty::all(graph);
    let (mut active, mut moves) = (Vec::new(), Vec::new());
    for _ in 0..SWEEPS {
        for turn in 0..ROUNDS_PER_SWEEP {
            waiting.take(salt, turn, ROUNDS_PER_SWEEP, &mut active);
            active.retain(|&vertex| partition.is_alone(graph, vertex));
            if active.is_empty() {
                continue;
            }
            moves.clear();
            crew.best_moves(graph, partition, &active, &mut moves)?;
            // All were evaluated against the same state. Apply them one after another, if their target is
            // still there.
            moves.retain(|found| {
                if !partition.is_alone(graph, found.vertex) {
                    return false;
                }
                let is_there = partition.weight(found.label) > 0;
                if is_there {
                    partition.relabel(graph, found.vertex, found.label);
                } else {
                    waiting.insert(found.vertex);
                }
                is_there
            });
            crew.applied(&moves)?;
            tally.rounds += 1;
            tally.moves += moves.len() as u64;
            tally.evaluations += active.len() as u64;
        }
        if waiting.is_empty() {
            break;
        }
    }
    Ok(())
}
