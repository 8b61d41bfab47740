//! Division of work among threads of different speed.
//!
//! A thread's *weight* is its throughput: the speed of its node, divided by the number of threads per
//! processor if there are more threads than processors. Nodes that share processors share them with all their
//! threads. So in a team whose numbers of threads are proportional to the speeds of their nodes, on
//! processors of their own, all weights are equal, and equal shares are right for it.
//!
//! Weights are relative: the heaviest thread of a team has [`HEAVIEST`]. If all are within a sixteenth of
//! that, they count as equal, and this module does nothing for the team.

use super::nodes::{NODES, Nodes};

/// Weight of the fastest thread of a team.
pub const HEAVIEST: u64 = 1 << 20;
/// Maximum number of chunks of a dynamic loop that a thread claims at once.
pub const CHUNKS: u64 = 16;

/// Weight of a thread relative to its team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// Sum of the weights of all threads with lower numbers.
    pub ahead: u64,
    /// Weight of the thread itself.
    pub own: u64,
    /// Weight of the slowest thread.
    pub least: u64,
    /// Sum of the weights of all threads.
    pub all: u64,
}

/// Computes the weights of a team and calls `tell` with that of each thread. Returns their sum and minimum,
/// or `None` if they are practically equal.
pub fn weigh(
    nodes: &Nodes,
    size: u32,
    node_of: impl Fn(u32) -> u32,
    mut tell: impl FnMut(u32, u64),
) -> Option<(u64, u64)> {
    let mut threads = [0_u32; NODES];
    for id in 0..size {
        let host = nodes.at(node_of(id)).runs_on();
        threads[host as usize % NODES] += 1;
    }
    let speed = |id: u32| {
        let node = nodes.at(node_of(id));
        let there = threads[node.runs_on() as usize % NODES].max(1);
        let running = nodes.at(node.runs_on()).processors().min(there);
        // Fits into 64 bits: a speed has 32, and `running` is at most `there`.
        (u128::from(node.speed().max(1)) << 32) * u128::from(running) / u128::from(there)
    };
    let (most, least) =
        (0..size).map(speed).fold((1, u128::MAX), |(most, least), speed| (most.max(speed), least.min(speed)));
    let weight = |speed: u128| u64::try_from(speed * u128::from(HEAVIEST) / most).unwrap_or(HEAVIEST).max(1);
    let least = weight(least.min(most));
    if least > HEAVIEST - HEAVIEST / 16 {
        return None;
    }
    let mut all = 0;
    for id in 0..size {
        let own = weight(speed(id));
        tell(id, own);
        all += own;
    }
    Some((all, least))
}

/// Returns a thread's part of `count` iterations, as start and end.
pub fn part(count: u64, weight: Weight) -> (u64, u64) {
    let at = |ahead: u64| {
        let share = u128::from(count) * u128::from(ahead) / u128::from(weight.all.max(1));
        u64::try_from(share).unwrap_or(count).min(count)
    };
    (at(weight.ahead), at(weight.ahead.saturating_add(weight.own)))
}

/// Returns how many of the `left` iterations a thread claims of a guided loop with chunks of at least `chunk`
/// iterations.
pub fn guided(left: u64, chunk: u64, weight: Weight) -> u64 {
    let share = (u128::from(left) * u128::from(weight.own)).div_ceil(u128::from(weight.all.max(1)));
    u64::try_from(share).unwrap_or(left).max(chunk).min(left)
}

/// Returns how many of the `left` iterations a thread claims of a dynamic loop with chunk size 1: as many as
/// it runs while the slowest runs one, but fewer towards the end, so that it does not finish last.
pub fn dynamic(left: u64, size: u64, weight: Weight) -> u64 {
    let ratio = weight.own / weight.least.max(1);
    ratio.min(CHUNKS).min(left / size.saturating_mul(4).max(1)).clamp(1, left.max(1))
}

/// Returns how many tasks a loop is divided into for a team of `size` threads with weights of sum `all` and
/// minimum `least`: each task is the share of the slowest thread, but there are at most eight tasks per
/// thread.
pub fn tasks(size: u64, all: u64, least: u64) -> u64 {
    all.div_ceil(least.max(1)).clamp(size, size.saturating_mul(8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::nodes::{About, Isa};

    fn about(name: &str, processors: u32) -> About<'_> {
        About { name, isa: Isa::Aarch64, processors, threads: 0, runs_on: None }
    }

    /// Creates nodes from pairs of processors and speed. If `shared`, the last uses the processors of the
    /// first.
    fn table(list: &[(u32, u32)], shared: bool) -> Box<Nodes> {
        let nodes = Nodes::table(about("host", list[0].0));
        for (index, &(processors, _)) in list.iter().enumerate().skip(1) {
            let runs_on = (shared && index == list.len() - 1).then_some(0);
            let name = index.to_string();
            nodes.add(About { runs_on, ..about(&name, processors) }).expect("there is room");
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
        let (all, least) = weigh(nodes, size, |id| on[id as usize], |id, weight| own[id as usize] = weight)?;
        let mut ahead = 0;
        let weight = |own: u64| {
            ahead += own;
            Weight { ahead: ahead - own, own, least, all }
        };
        Some(own.into_iter().map(weight).collect())
    }

    #[test]
    fn threads_of_nodes_that_are_alike_are_equal() {
        assert_eq!(weights(&table(&[(2, 1000), (2, 1030)], false), &[0, 1, 0, 1]), None);
        assert_eq!(weights(&table(&[(2, 1000)], false), &[0, 0, 0]), None);
    }

    #[test]
    fn a_team_with_more_threads_on_fast_nodes_is_one_of_equals() {
        let nodes = table(&[(1, 3000), (1, 1000)], false);
        assert_eq!(weights(&nodes, &[0, 1, 0, 0]), None);
        let few: Vec<_> = weights(&nodes, &[0, 1]).expect("they differ").iter().map(|at| at.own).collect();
        assert_eq!(few, [HEAVIEST, HEAVIEST / 3]);
    }

    #[test]
    fn nodes_on_the_same_processors_differ_however_many_threads_they_have() {
        let nodes = table(&[(1, 3000), (1, 1000)], true);
        let all = weights(&nodes, &[0, 1, 0, 0]).expect("they differ");
        assert_eq!(
            all.iter().map(|at| at.own).collect::<Vec<_>>(),
            [HEAVIEST, HEAVIEST / 3, HEAVIEST, HEAVIEST]
        );
    }

    #[test]
    fn a_slow_thread_is_not_given_what_the_others_would_wait_for() {
        let weight = |own| Weight { ahead: 0, own, least: 10, all: 110 };
        assert_eq!((guided(1100, 1, weight(100)), guided(1100, 1, weight(10))), (1000, 100));
        assert_eq!((guided(3, 2, weight(10)), guided(1, 2, weight(10))), (2, 1));
        assert_eq!((dynamic(1000, 2, weight(100)), dynamic(1000, 2, weight(10))), (10, 1));
        assert_eq!((dynamic(7, 2, weight(100)), dynamic(1, 2, weight(100))), (1, 1));
        assert_eq!((tasks(2, 110, 10), tasks(4, 4000, 1)), (11, 32));
    }

    proptest::proptest! {
        #[test]
        fn parts_follow_each_other_and_are_in_proportion(
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
                let (low, high) = part(count, weight);
                proptest::prop_assert_eq!(low, next);
                proptest::prop_assert!(high >= low);
                let fair = u128::from(count) * u128::from(weight.own) / u128::from(weight.all);
                proptest::prop_assert!(u128::from(high - low).abs_diff(fair) <= 1);
                next = high;
            }
            proptest::prop_assert_eq!(next, count);
        }

        #[test]
        fn chunks_are_never_empty_and_never_too_long(
            left in 1_u64.., chunk in 1_u64.., size in 1_u64..1 << 20, own in 1_u64..=HEAVIEST, others in 0_u64..1 << 40,
            least in 1_u64..=HEAVIEST,
        ) {
            let weight = Weight { ahead: 0, own, least: least.min(own), all: own + others };
            let (guided, dynamic) = (guided(left, chunk, weight), dynamic(left, size, weight));
            proptest::prop_assert!(guided >= 1 && guided <= left && (guided >= chunk || guided == left));
            proptest::prop_assert!(dynamic >= 1 && dynamic <= left && dynamic <= CHUNKS);
        }
    }
}
