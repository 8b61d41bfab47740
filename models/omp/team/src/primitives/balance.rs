//! Placement of functions that may run on any node: on the node with the shortest measured time.
//!
//! This module only decides; its caller supplies the times and the placement. A function is first tried on
//! each node that has a free processor. Afterwards it runs where the cost is least: its time there, scaled by
//! the load of the processors, plus the time of the move. Other nodes are retried once calls since the last
//! try have taken 32 times as long as a retry costs, which bounds the cost of retries.

use super::nodes::NODES_MAX;

/// Maximum number of functions tracked; further ones run where they are called.
pub const FUNCTIONS_MAX: usize = 64;
/// Number of tries on a node before its time is used: the first call also loads code and data.
const WARMUP_CALLS: u32 = 2;
/// A measurement below the kept time lowers it by 1/`DECREASE_DIVISOR` of the difference.
const DECREASE_DIVISOR: u64 = 2;
/// A measurement above the kept time raises it by at most 1/`INCREASE_DIVISOR`. A thread that is preempted in
/// a short function can measure a thousand times too much, but nothing makes it measure too little.
const INCREASE_DIVISOR: u64 = 8;
/// Retries on other nodes cost at most 1/`PROBE_SHARE` of the time of calls.
const PROBE_SHARE: u64 = 32;
/// A move must gain at least 1/`MIN_GAIN_DIVISOR` of the time of a call that stays.
const MIN_GAIN_DIVISOR: u64 = 8;
/// Marks a thread that is not counted on any node.
const NO_NODE: u32 = u32::MAX;

/// Processors of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeInfo {
    /// Number of processors of the node, or of the one whose processors it uses.
    pub processors: u32,
    /// Node whose processors it uses.
    pub runs_on: u32,
}

/// Measurements of a function on a node.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct NodeTimes {
    /// Number of calls started on the node.
    started: u32,
    /// Number of calls that returned.
    count: u32,
    /// Time of a call, on a processor of its own.
    run_ns: u64,
    /// Additional time for a caller on another node; 0 if not measured yet.
    move_ns: u64,
    /// Time of all calls of the function, on all nodes, since the last call here.
    untried_ns: u64,
}

impl NodeTimes {
    /// Updates the kept times with a measurement.
    fn record(&mut self, run_ns: u64, move_ns: Option<u64>) {
        // The minimum of the first few: the others include one-time costs.
        let update_average = |kept: u64, new: u64| match kept {
            0 => new,
            kept if self.count < WARMUP_CALLS => kept.min(new),
            kept if new <= kept => kept - (kept - new).div_ceil(DECREASE_DIVISOR),
            kept => kept + (new - kept).min((kept / INCREASE_DIVISOR).max(1)),
        };
        let (run_ns, move_ns) = (
            update_average(self.run_ns, run_ns.max(1)),
            move_ns.map(|new| update_average(self.move_ns, new.max(1))),
        );
        self.run_ns = run_ns;
        self.move_ns = move_ns.unwrap_or(self.move_ns);
        self.count = self.count.saturating_add(1);
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct FunctionTimes {
    /// Address of the function; 0 for a free entry.
    key: usize,
    by_node: [NodeTimes; NODES_MAX],
}

/// Placement state of all functions and nodes. It can be in memory shared by all processes; the caller locks
/// it. All-zero memory is valid.
#[repr(C)]
#[derive(Debug)]
pub struct Balance {
    /// Number of threads in tracked functions, by the node whose processors they use.
    busy: [u32; NODES_MAX],
    functions: [FunctionTimes; FUNCTIONS_MAX],
}

/// Measurements of a function on a node, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// Address of the function.
    pub key: usize,
    /// Number of the node.
    pub node: u32,
    /// Number of calls started on the node.
    pub calls: u32,
    /// Kept time of a call on a processor of its own; 0 if none has returned.
    pub run_ns: u64,
    /// Kept time of a move to the node; 0 if no caller was on another node.
    pub move_ns: u64,
}

/// Placement of a call, to be passed to [`Balance::end_call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Node that executes the call.
    pub node: u32,
    function: Option<usize>,
    from: u32,
    /// Node on which the caller was counted before, or [`NO_NODE`].
    caller_group: u32,
    /// Threads per processor of the node during the call, in 1/256.
    load: u64,
}

impl Default for Balance {
    fn default() -> Self {
        let function = FunctionTimes { key: 0, by_node: [NodeTimes::default(); NODES_MAX] };
        Self { busy: [0; NODES_MAX], functions: [function; FUNCTIONS_MAX] }
    }
}

impl Balance {
    /// Chooses a node for a call by a thread on node `from`. A thread that is already in such a function is
    /// counted at that call's node, given by `outer`.
    pub fn begin_call(
        &mut self,
        key: usize,
        from: u32,
        outer: Option<Placement>,
        node_infos: &[NodeInfo],
    ) -> Placement {
        let caller_group = outer.map_or(NO_NODE, |outer| group(outer.node, node_infos));
        if let Some(busy) = self.busy.get_mut(caller_group as usize) {
            *busy = busy.saturating_sub(1);
        }
        let function = self.find(key);
        let node = function.map_or(from, |function| self.choose_node(function, from, node_infos));
        let load = self.load(node, node_infos);
        if let Some(function) = function {
            let on = &mut self.functions[function].by_node[node as usize % NODES_MAX];
            on.started = on.started.saturating_add(1);
            on.untried_ns = 0;
        }
        let group = group(node, node_infos);
        self.busy[group as usize % NODES_MAX] += 1;
        Placement { node, function, from, caller_group, load }
    }

    /// Ends a call that will not return, nor will its callers: its thread has ended.
    pub fn abandon_call(&mut self, placement: Placement, node_infos: &[NodeInfo]) {
        let busy = &mut self.busy[group(placement.node, node_infos) as usize % NODES_MAX];
        *busy = busy.saturating_sub(1);
    }

    /// Ends a call that returned: `run_ns` is its own time, `all_ns` that seen by its caller.
    pub fn end_call(&mut self, placement: Placement, (run_ns, all_ns): (u64, u64), node_infos: &[NodeInfo]) {
        self.abandon_call(placement, node_infos);
        if let Some(busy) = self.busy.get_mut(placement.caller_group as usize) {
            *busy += 1;
        }
        let Some(function) = placement.function else { return };
        let move_ns = (placement.node != placement.from).then(|| all_ns.saturating_sub(run_ns));
        let function = &mut self.functions[function % FUNCTIONS_MAX];
        for on in &mut function.by_node {
            on.untried_ns = on.untried_ns.saturating_add(all_ns);
        }
        let alone_ns = run_ns.saturating_mul(256) / placement.load.max(256);
        function.by_node[placement.node as usize % NODES_MAX].record(alone_ns, move_ns);
    }

    /// Returns the number of threads in tracked functions on the processors of a node.
    #[must_use]
    pub fn busy(&self, node: u32) -> u32 {
        self.busy.get(node as usize).copied().unwrap_or(0)
    }

    /// Iterates over the measurements of functions on the first `nodes` nodes.
    pub fn measurements(&self, nodes: usize) -> impl Iterator<Item = Measurement> {
        let of_function = move |function: &FunctionTimes| {
            let (key, all) = (function.key, function.by_node);
            let of_node = move |(node, on): (usize, NodeTimes)| {
                let NodeTimes { started, run_ns, move_ns, .. } = on;
                Measurement { key, node: node as u32, calls: started, run_ns, move_ns }
            };
            all.into_iter().take(nodes).enumerate().map(of_node).filter(|known| known.calls > 0)
        };
        self.functions.iter().take_while(|function| function.key != 0).flat_map(of_function)
    }

    fn find(&mut self, key: usize) -> Option<usize> {
        let index = self.functions.iter().position(|function| function.key == key || function.key == 0)?;
        self.functions[index].key = key;
        Some(index)
    }

    /// Returns the threads per processor if one more is added, in 1/256.
    fn load(&self, node: u32, node_infos: &[NodeInfo]) -> u64 {
        let busy = self.busy(group(node, node_infos));
        (u64::from(busy) + 1) * 256 / processors(node, node_infos)
    }

    fn choose_node(&self, function: usize, from: u32, node_infos: &[NodeInfo]) -> u32 {
        // The load of the caller's own processors does not matter, as it already uses one of them.
        let has_room = |node: &u32| {
            self.load(*node, node_infos) <= 256 || group(*node, node_infos) == group(from, node_infos)
        };
        let all = || (0..NODES_MAX.min(node_infos.len()) as u32).filter(has_room);
        let on = |node: u32| &self.functions[function].by_node[node as usize % NODES_MAX];
        // The caller's node first, then the others in order, one call at a time.
        let new = |node: &u32| on(*node).started < WARMUP_CALLS && on(*node).count == on(*node).started;
        let by_use = |node: &u32| (on(*node).started, *node != from, *node);
        if let Some(node) = all().filter(new).min_by_key(by_use) {
            return node;
        }
        let stays_ns = self.estimate(function, from, from, node_infos);
        let known = |node: &u32| on(*node).count > 0;
        let best = (0..NODES_MAX.min(node_infos.len()) as u32)
            .filter(known)
            .map(|node| (self.estimate(function, node, from, node_infos), node != from, node))
            .min();
        let Some((best_ns, _, best)) = best else { return from };
        let gains = best_ns.saturating_add(stays_ns / MIN_GAIN_DIVISOR) < stays_ns;
        let (chosen, chosen_ns) = if !known(&from) || gains { (best, best_ns) } else { (from, stays_ns) };
        let again = |node: &u32| {
            let cost_ns = self.estimate(function, *node, from, node_infos).saturating_sub(chosen_ns);
            *node != chosen && on(*node).untried_ns / PROBE_SHARE > cost_ns.max(chosen_ns / 2)
        };
        let probed = all().filter(known).filter(again).max_by_key(|node| (on(*node).untried_ns, *node));
        probed.unwrap_or(chosen)
    }

    /// Estimates the time of a call on a node for its caller. On shared processors it also delays the other
    /// threads, so a full node is chosen only if the nodes with room are slower by more than that.
    fn estimate(&self, function: usize, node: u32, from: u32, node_infos: &[NodeInfo]) -> u64 {
        let on = &self.functions[function].by_node;
        let at = &on[node as usize % NODES_MAX];
        let load = self.load(node, node_infos);
        let load = if load > 256 { load * 2 - 256 / processors(node, node_infos) } else { 256 };
        let run_ns = at.run_ns.saturating_mul(load) / 256;
        let unknown = || on.iter().map(|other| other.move_ns).max().unwrap_or(0);
        let move_ns = match at.move_ns {
            _ if node == from => 0,
            0 => unknown(),
            known => known,
        };
        run_ns.saturating_add(move_ns)
    }
}

/// Returns the node whose processors a node uses.
fn group(node: u32, node_infos: &[NodeInfo]) -> u32 {
    node_infos.get(node as usize).map_or(0, |place| place.runs_on)
}

fn processors(node: u32, node_infos: &[NodeInfo]) -> u64 {
    node_infos.get(node as usize).map_or(1, |place| u64::from(place.processors.max(1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node_infos(processors: &[u32]) -> Vec<NodeInfo> {
        let place = |(node, &processors): (usize, &u32)| NodeInfo { processors, runs_on: node as u32 };
        processors.iter().enumerate().map(place).collect()
    }

    /// Makes calls from node 0, one after another, of a function with the given time on each node. Returns
    /// the number of calls on each node.
    fn calls(balance: &mut Balance, key: usize, times: &[u64], move_ns: u64, count: u32) -> Vec<u32> {
        let node_infos = node_infos(&vec![1; times.len()]);
        let mut had = vec![0; times.len()];
        for _ in 0..count {
            let placement = balance.begin_call(key, 0, None, &node_infos);
            let run_ns = times[placement.node as usize];
            let moved = if placement.node == 0 { 0 } else { move_ns };
            balance.end_call(placement, (run_ns, run_ns + moved), &node_infos);
            had[placement.node as usize] += 1;
        }
        had
    }

    #[test]
    fn each_node_is_tried_and_the_fastest_wins() {
        let mut balance = Balance::default();
        assert_eq!(calls(&mut balance, 1, &[1_000_000, 100_000, 9_000_000], 1000, 6), [2, 2, 2]);
        assert_eq!(calls(&mut balance, 1, &[1_000_000, 100_000, 9_000_000], 1000, 100), [0, 100, 0]);
        // Another function is fastest on another node.
        let had = calls(&mut balance, 2, &[10_000, 1_000_000, 50_000], 1000, 50);
        assert!(had[0] >= 44, "{had:?}");
    }

    #[test]
    fn unprofitable_move_is_not_made() {
        let mut balance = Balance::default();
        let had = calls(&mut balance, 1, &[10_000, 5000], 100_000, 1000);
        assert!(had[1] <= 10, "{had:?}");
        // Neither is one that gains little.
        let mut balance = Balance::default();
        let had = calls(&mut balance, 1, &[10_000, 9500], 100, 100);
        assert!(had[1] < 30, "{had:?}");
    }

    #[test]
    fn retries_are_cheap_and_detect_changes() {
        let mut balance = Balance::default();
        let had = calls(&mut balance, 1, &[1000, 50_000], 1000, 10_000);
        let tried = u64::from(had[1]) * 51_000;
        assert!(had[1] > 2 && tried < 10_000 * 1000 / 16, "{had:?}");
        // The other node has become fast.
        let had = calls(&mut balance, 1, &[1000, 100], 100, 40_000);
        assert!(had[1] > 20_000, "{had:?}");
    }

    /// Returns the kept times of a function on a node and of a move there.
    fn kept(balance: &Balance, key: usize, node: u32) -> (u64, u64) {
        let is_it = |known: &Measurement| known.key == key && known.node == node;
        let known = balance.measurements(NODES_MAX).find(is_it).expect("it was called there");
        (known.run_ns, known.move_ns)
    }

    #[test]
    fn preempted_calls_do_not_change_placement() {
        let mut balance = Balance::default();
        let (times, move_ns) = ([1_000_000, 5_000_000], 10_000);
        calls(&mut balance, 1, &times, move_ns, 4);
        let node_infos = node_infos(&[1, 1]);
        // Three calls of ten take fifty times as long on the fast node and would make it ten times slower on
        // average.
        let mut elsewhere = 0;
        for call in 0..1000 {
            let placement = balance.begin_call(1, 0, None, &node_infos);
            let outlier = if placement.node == 0 && call % 10 < 3 { 50 } else { 1 };
            let run_ns = times[placement.node as usize] * outlier;
            let moved = if placement.node == 0 { 0 } else { move_ns };
            balance.end_call(placement, (run_ns, run_ns + moved), &node_infos);
            elsewhere += placement.node;
            let (kept, _) = kept(&balance, 1, 0);
            assert!((1_000_000..1_500_000).contains(&kept), "call {call}: {kept}");
        }
        // It is retried, for at most 1/32 of the time of calls.
        assert!((1..150).contains(&elsewhere), "{elsewhere}");
    }

    #[test]
    fn slower_function_moves_within_log_calls() {
        for (factor, within) in [(2, 9), (10, 23), (100, 43), (1000, 62)] {
            let mut balance = Balance::default();
            calls(&mut balance, 1, &[1_000_000, 1_000_000 * factor * 8 / 10], 1000, 200);
            // The other node would be faster by a fifth now.
            let slow = [1_000_000 * factor, 1_000_000 * factor * 8 / 10];
            calls(&mut balance, 1, &slow, 1000, within);
            let had = calls(&mut balance, 1, &slow, 1000, 20);
            assert!(had[1] >= 19, "{factor} times as slow: {had:?}");
        }
    }

    #[test]
    fn first_call_on_a_node_does_not_count() {
        let mut balance = Balance::default();
        let node_infos = node_infos(&[1, 1]);
        for (node, run_ns) in [(0, 1000), (1, 90_000), (0, 1000), (1, 100)] {
            let placement = balance.begin_call(1, 0, None, &node_infos);
            assert_eq!(placement.node, node);
            balance.end_call(placement, (run_ns, run_ns), &node_infos);
        }
        assert_eq!(balance.begin_call(1, 0, None, &node_infos).node, 1);
    }

    #[test]
    fn threads_are_spread_over_nodes() {
        let mut balance = Balance::default();
        // Node 1 is twice as fast, with two processors.
        let node_infos = node_infos(&[2, 2]);
        let call = |balance: &mut Balance| balance.begin_call(1, 0, None, &node_infos);
        for _ in 0..2 * WARMUP_CALLS {
            let placement = call(&mut balance);
            let run_ns = if placement.node == 0 { 2000 } else { 1000 };
            balance.end_call(placement, (run_ns, run_ns + 10), &node_infos);
        }
        let choices: Vec<Placement> = (0..4).map(|_| call(&mut balance)).collect();
        let on = |node| choices.iter().filter(|placement| placement.node == node).count();
        assert_eq!((on(0), on(1)), (2, 2), "{choices:?}");
        choices.into_iter().for_each(|placement| balance.abandon_call(placement, &node_infos));
        assert_eq!((balance.busy(0), balance.busy(1)), (0, 0));
    }

    #[test]
    fn shared_processors_are_counted_once() {
        let mut balance = Balance::default();
        let shared = NodeInfo { processors: 1, runs_on: 0 };
        let placement = balance.begin_call(1, 0, None, &[shared, shared]);
        assert_eq!((placement.node, balance.busy(0)), (0, 1));
        // The other one is tried although this is busy, as it uses the same processor.
        assert_eq!(balance.begin_call(1, 0, None, &[shared, shared]).node, 1);
        assert_eq!((balance.busy(0), balance.busy(1)), (2, 0));
    }

    #[test]
    fn excess_function_stays_with_its_caller() {
        let mut balance = Balance::default();
        let node_infos = node_infos(&[1, 1]);
        for key in 1..=FUNCTIONS_MAX + 1 {
            for _ in 0..3 {
                let placement = balance.begin_call(key, 0, None, &node_infos);
                assert_eq!(placement.function.is_some(), key <= FUNCTIONS_MAX);
                assert!(key <= FUNCTIONS_MAX || placement.node == 0);
                balance.end_call(placement, (10, 10), &node_infos);
            }
        }
    }

    proptest! {
        /// Single slow calls, with at least three usual ones between them, raise the kept time by at most a
        /// sixth of a usual call, and never lower it.
        #[test]
        fn single_outliers_are_ignored(
            usual in 8_u64..1_000_000_000,
            outliers in prop::collection::vec((3_usize..6, 1_u64..10_000), 1..50),
        ) {
            let mut measured = NodeTimes::default();
            let mut record = |run_ns| {
                measured.record(run_ns, Some(run_ns));
                (measured.run_ns, measured.move_ns)
            };
            record(usual);
            for (between, factor) in outliers {
                for _ in 0..between {
                    record(usual);
                }
                let (run_ns, move_ns) = record(usual * factor);
                prop_assert!((usual..=usual + usual / 6).contains(&run_ns), "{run_ns} of {usual}");
                prop_assert_eq!(run_ns, move_ns);
            }
        }

        /// For any calls that return in any order, the counts match the running calls, and calls go to
        /// existing nodes.
        #[test]
        fn counts_match_running_calls(
            processors in prop::collection::vec(1_u32..4, 1..5),
            steps in prop::collection::vec((0_usize..70, any::<u8>(), 0_u64..20, any::<bool>()), 0..200),
        ) {
            let node_infos = node_infos(&processors);
            let mut balance = Balance::default();
            // Stack of nested calls of each thread.
            let mut threads: Vec<Vec<Placement>> = vec![Vec::new(); 6];
            for (key, which, time, ends) in steps {
                let chain = &mut threads[which as usize % 6];
                if ends && let Some(placement) = chain.pop() {
                    balance.end_call(placement, (time, time * 2), &node_infos);
                } else {
                    let outer = chain.last().copied();
                    let placement = balance.begin_call(key + 1, outer.map_or(0, |outer| outer.node), outer, &node_infos);
                    prop_assert!((placement.node as usize) < node_infos.len());
                    chain.push(placement);
                }
                // A thread ends in the middle of its calls.
                if time == 0 && let Some(placement) = threads[which as usize % 6].last().copied() {
                    balance.abandon_call(placement, &node_infos);
                    threads[which as usize % 6].clear();
                }
                for node in 0..node_infos.len() as u32 {
                    let run = threads.iter().filter(|chain| chain.last().is_some_and(|last| last.node == node));
                    prop_assert_eq!(balance.busy(node) as usize, run.count());
                }
            }
        }

        /// Equally fast nodes are not oversubscribed while others have free processors.
        #[test]
        fn free_processors_come_first(processors in prop::collection::vec(1_u32..4, 2..5)) {
            let node_infos = node_infos(&processors);
            let mut balance = Balance::default();
            for _ in 0..2 * WARMUP_CALLS * processors.len() as u32 {
                let placement = balance.begin_call(1, 0, None, &node_infos);
                balance.end_call(placement, (100_000, 100_001), &node_infos);
            }
            for _ in 0..processors.iter().sum::<u32>() {
                balance.begin_call(1, 0, None, &node_infos);
            }
            for (node, processors) in (0..).zip(processors) {
                prop_assert_eq!(balance.busy(node), processors);
            }
        }
    }
}
