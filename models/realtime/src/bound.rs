//! Upper bounds of the time that operations and patterns take.
//!
//! They are computed from the [`Steps`] of operations and the cost of each kind of step. All times are in one
//! unit, which the caller chooses: nanoseconds, cycles, or instructions.

use tombolo_base::Steps;

/// Maximum cost of each kind of step, including surrounding instructions, and of a call apart from its steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A load of a word of shared memory.
    pub load: u64,
    /// A store.
    pub store: u64,
    /// An atomic operation that loads and stores.
    pub read_modify_write: u64,
    /// A fence between processors.
    pub fence: u64,
    /// The rest of the operation, in private memory.
    pub call: u64,
}

impl Costs {
    /// Returns the maximum time of an operation with these steps.
    #[must_use]
    pub const fn time(&self, steps: Steps) -> u64 {
        self.call
            .saturating_add(self.load.saturating_mul(steps.loads))
            .saturating_add(self.store.saturating_mul(steps.stores))
            .saturating_add(self.read_modify_write.saturating_mul(steps.read_modify_writes))
            .saturating_add(self.fence.saturating_mul(steps.fences))
    }
}

/// The bounds of a pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PipelineBound {
    /// Maximum time between two results: that of the slowest stage. A shorter period overloads the pipeline.
    pub period: u64,
    /// Maximum time from an input to its result, if inputs arrive no faster than the period.
    pub latency: u64,
}

/// Returns the bounds of a pipeline whose stages take at most `stages`, each on its own processor, and pass
/// results on by messages: `hand_over` is the time of one send and one receive.
///
/// Returns zeros if there are no stages.
#[must_use]
pub fn pipeline(stages: &[u64], hand_over: u64) -> PipelineBound {
    let stage_time = |stage: &u64| stage.saturating_add(hand_over);
    PipelineBound {
        period: stages.iter().map(stage_time).max().unwrap_or(0),
        latency: stages.iter().map(stage_time).fold(0, u64::saturating_add),
    }
}

/// Returns the bound of a step whose `items` are [distributed](crate::share) over `workers`, each on its own
/// processor: a part `alone` that one worker does, `each` for every item, and a barrier.
///
/// `barrier` is the time of arriving and of two polls: the barrier is complete when the slowest worker has
/// arrived, and another worker sees that at the latest in the poll after its current one.
#[must_use]
pub const fn data_parallel(alone: u64, items: u64, each: u64, workers: u64, barrier: u64) -> u64 {
    let longest_share = if workers == 0 { items } else { items.div_ceil(workers) };
    let synchronised = if workers > 1 { barrier } else { 0 };
    alone.saturating_add(longest_share.saturating_mul(each)).saturating_add(synchronised)
}

/// Returns the speed-up of the worst case (*WCET speed-up*) from the bounds of one worker and of many.
#[must_use]
pub fn speed_up(of_one: u64, of_many: u64) -> f64 {
    of_one as f64 / of_many.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs { load: 10, store: 5, read_modify_write: 100, fence: 20, call: 7 };

    #[test]
    fn each_kind_of_step_has_its_cost() {
        assert_eq!(COSTS.time(Steps::NONE), 7);
        let steps = Steps { loads: 2, stores: 3, read_modify_writes: 1, fences: 4 };
        assert_eq!(COSTS.time(steps), 7 + 20 + 15 + 100 + 80);
        let max_steps = Steps::of(u64::MAX, 0);
        assert_eq!(COSTS.time(max_steps), u64::MAX, "it does not wrap");
    }

    #[test]
    fn slowest_stage_limits_pipeline() {
        assert_eq!(pipeline(&[100, 300, 200], 10), PipelineBound { period: 310, latency: 630 });
        assert_eq!(pipeline(&[], 10), PipelineBound { period: 0, latency: 0 });
    }

    #[test]
    fn speed_up_is_bounded_by_the_longest_share() {
        let bound = |workers| data_parallel(50, 100, 10, workers, 40);
        assert_eq!([1, 2, 3, 4].map(bound), [1_050, 590, 430, 340]);
        assert!((speed_up(bound(1), bound(4)) - 3.088).abs() < 0.001);
        // More workers than items do not help, and cost a barrier.
        assert!(data_parallel(0, 4, 10, 8, 40) > data_parallel(0, 4, 10, 1, 40));
    }
}
