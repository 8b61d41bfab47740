//! Division of work among threads of different speed.
//!
//! A thread's *weight* is its throughput: the speed of its node, divided by the number of threads per
//! processor if there are more threads than processors. Nodes that share processors share them with all their
//! threads. So in a team whose numbers of threads are proportional to the speeds of their nodes, on
//! processors of their own, all weights are equal, and equal shares are right for it.
//!
//! Weights are relative: the heaviest thread of a team has [`WEIGHT_MAX`]. If all are within a sixteenth of
//! that, they count as equal, and this module does nothing for the team.

use super::nodes::{NODES_MAX, Nodes};

/// Weight of the fastest thread of a team.
pub const WEIGHT_MAX: u64 = 1 << 20;
/// Maximum number of chunks of a dynamic loop that a thread claims at once.
pub const CHUNKS_MAX: u64 = 16;

/// Weight of a thread relative to its team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// Sum of the weights of all threads with lower numbers.
    pub preceding_weight: u64,
    /// Weight of the thread itself.
    pub own: u64,
    /// Weight of the slowest thread.
    pub least: u64,
    /// Sum of the weights of all threads.
    pub all: u64,
}

/// Computes the weights of a team and calls `set_weight` with that of each thread. Returns their sum and
/// minimum, or `None` if they are practically equal.
pub fn compute_weights(
    nodes: &Nodes,
    size: u32,
    node_of: impl Fn(u32) -> u32,
    mut set_weight: impl FnMut(u32, u64),
) -> Option<(u64, u64)> {
    let mut threads = [0_u32; NODES_MAX];
    for id in 0..size {
        let host = nodes.at(node_of(id)).runs_on();
        threads[host as usize % NODES_MAX] += 1;
    }
    let speed = |id: u32| {
        let node = nodes.at(node_of(id));
        let there = threads[node.runs_on() as usize % NODES_MAX].max(1);
        let running = nodes.at(node.runs_on()).processors().min(there);
        // Fits into 64 bits: a speed has 32, and `running` is at most `there`.
        (u128::from(node.speed().max(1)) << 32) * u128::from(running) / u128::from(there)
    };
    let (most, least) =
        (0..size).map(speed).fold((1, u128::MAX), |(most, least), speed| (most.max(speed), least.min(speed)));
    let weight =
        |speed: u128| u64::try_from(speed * u128::from(WEIGHT_MAX) / most).unwrap_or(WEIGHT_MAX).max(1);
    let least = weight(least.min(most));
    if least > WEIGHT_MAX - WEIGHT_MAX / 16 {
        return None;
    }
    let mut all = 0;
    for id in 0..size {
        let own = weight(speed(id));
        set_weight(id, own);
        all += own;
    }
    Some((all, least))
}

/// Returns a thread's part of `count` iterations, as start and end.
pub fn iteration_range(count: u64, weight: Weight) -> (u64, u64) {
    let at = |preceding_weight: u64| {
        let share = u128::from(count) * u128::from(preceding_weight) / u128::from(weight.all.max(1));
        u64::try_from(share).unwrap_or(count).min(count)
    };
    (at(weight.preceding_weight), at(weight.preceding_weight.saturating_add(weight.own)))
}

/// Returns how many of the `left` iterations a thread claims of a guided loop with chunks of at least `chunk`
/// iterations.
pub fn guided_chunk(left: u64, chunk: u64, weight: Weight) -> u64 {
    let share = (u128::from(left) * u128::from(weight.own)).div_ceil(u128::from(weight.all.max(1)));
    u64::try_from(share).unwrap_or(left).max(chunk).min(left)
}

/// Returns how many of the `left` iterations a thread claims of a dynamic loop with chunk size 1: as many as
/// it runs while the slowest runs one, but fewer towards the end, so that it does not finish last.
pub fn dynamic_chunk(left: u64, size: u64, weight: Weight) -> u64 {
    let ratio = weight.own / weight.least.max(1);
    ratio.min(CHUNKS_MAX).min(left / size.saturating_mul(4).max(1)).clamp(1, left.max(1))
}

/// Returns how many tasks a loop is divided into for a team of `size` threads with weights of sum `all` and
/// minimum `least`: each task is the share of the slowest thread, but there are at most eight tasks per
/// thread.
pub fn task_count(size: u64, all: u64, least: u64) -> u64 {
    all.div_ceil(least.max(1)).clamp(size, size.saturating_mul(8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::nodes::{Isa, NodeDescription};

    fn description(name: &str, processors: u32) -> NodeDescription<'_> {
        NodeDescription { name, isa: Isa::Aarch64, processors, threads: 0, runs_on: None }
    }

    /// Creates nodes from pairs of processors and speed. If `shared`, the last uses the processors of the
    /// first.
    fn table(list: &[(u32, u32)], shared: bool) -> Box<Nodes> {
        let nodes = Nodes::table(description("host", list[0].0));
        for (index, &(processors, _)) in list.iter().enumerate().skip(1) {
            let runs_on = (shared && index == list.len() - 1).then_some(0);
            let name = index.to_string();
            nodes.add(NodeDescription { runs_on, ..description(&name, processors) }).expect("there is room");
        }
        for ((_, node), (_, speed)) in nodes.all().zip(list) {
            node.set_speed(*speed);
        }
        nodes
    }

    /// Returns the weights of a team whose threads are on these nodes.
    fn weights(nodes: &Nodes, on: &[u32]) -> Option<Vec<Weight>> {
        let mut own = vec![0; on.len()];
        let size = u32::try_from(on.len()).expect("a few");
        let (all, least) =
            compute_weights(nodes, size, |id| on[id as usize], |id, weight| own[id as usize] = weight)?;
        let mut preceding_weight = 0;
        let weight = |own: u64| {
            preceding_weight += own;
            Weight { preceding_weight: preceding_weight - own, own, least, all }
        };
        Some(own.into_iter().map(weight).collect())
    }

    #[test]
    fn equal_nodes_give_equal_weights() {
        assert_eq!(weights(&table(&[(2, 1000), (2, 1030)], false), &[0, 1, 0, 1]), None);
        assert_eq!(weights(&table(&[(2, 1000)], false), &[0, 0, 0]), None);
    }

    #[test]
    fn proportional_thread_counts_give_equal_weights() {
        let nodes = table(&[(1, 3000), (1, 1000)], false);
        assert_eq!(weights(&nodes, &[0, 1, 0, 0]), None);
        let few: Vec<_> = weights(&nodes, &[0, 1]).expect("they differ").iter().map(|at| at.own).collect();
        assert_eq!(few, [WEIGHT_MAX, WEIGHT_MAX / 3]);
    }

    #[test]
    fn shared_processors_give_unequal_weights() {
        let nodes = table(&[(1, 3000), (1, 1000)], true);
        let all = weights(&nodes, &[0, 1, 0, 0]).expect("they differ");
        assert_eq!(
            all.iter().map(|at| at.own).collect::<Vec<_>>(),
            [WEIGHT_MAX, WEIGHT_MAX / 3, WEIGHT_MAX, WEIGHT_MAX]
        );
    }

    #[test]
    fn slow_thread_gets_no_late_iterations() {
        let weight = |own| Weight { preceding_weight: 0, own, least: 10, all: 110 };
        assert_eq!((guided_chunk(1100, 1, weight(100)), guided_chunk(1100, 1, weight(10))), (1000, 100));
        assert_eq!((guided_chunk(3, 2, weight(10)), guided_chunk(1, 2, weight(10))), (2, 1));
        assert_eq!((dynamic_chunk(1000, 2, weight(100)), dynamic_chunk(1000, 2, weight(10))), (10, 1));
        assert_eq!((dynamic_chunk(7, 2, weight(100)), dynamic_chunk(1, 2, weight(100))), (1, 1));
        assert_eq!((task_count(2, 110, 10), task_count(4, 4000, 1)), (11, 32));
    }

    proptest::proptest! {
        #[test]
        fn ranges_are_contiguous_and_proportional(
            list in proptest::collection::vec((1_u32..5, 1_u32..=u32::MAX), 2..5),
            shared: bool,
            on in proptest::collection::vec(0_u32..5, 2..40),
            count in proptest::prop_oneof![
                0_u64..100, proptest::num::u64::ANY, proptest::strategy::Just(u64::MAX), proptest::strategy::Just(u64::MAX - 1)
            ],
        ) {
            let nodes = table(&list, shared);
            let on: Vec<u32> = on.iter().map(|node| node % nodes.count()).collect();
            let Some(all) = weights(&nodes, &on) else { return Ok(()) };
            let mut next = 0;
            for &weight in &all {
                let (low, high) = iteration_range(count, weight);
                proptest::prop_assert_eq!(low, next);
                proptest::prop_assert!(high >= low);
                let fair = u128::from(count) * u128::from(weight.own) / u128::from(weight.all);
                proptest::prop_assert!(u128::from(high - low).abs_diff(fair) <= 1);
                next = high;
            }
            proptest::prop_assert_eq!(next, count);
        }

        #[test]
        fn chunks_are_nonempty_and_bounded(
            left in 1_u64.., chunk in 1_u64.., size in 1_u64..1 << 20, own in 1_u64..=WEIGHT_MAX, others in 0_u64..1 << 40,
            least in 1_u64..=WEIGHT_MAX,
        ) {
            let weight = Weight { preceding_weight: 0, own, least: least.min(own), all: own + others };
            let (guided_chunk, dynamic_chunk) = (guided_chunk(left, chunk, weight), dynamic_chunk(left, size, weight));
            proptest::prop_assert!(guided_chunk >= 1 && guided_chunk <= left && (guided_chunk >= chunk || guided_chunk == left));
            proptest::prop_assert!(dynamic_chunk >= 1 && dynamic_chunk <= left && dynamic_chunk <= CHUNKS_MAX);
        }
    }
}
