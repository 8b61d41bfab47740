//! Load balancing among workers of different speeds: selects the worker for the next task that any may run.
//!
//! Workers ask for tasks when they can run some, so that each gets tasks in proportion to its speed. The
//! remaining decision concerns the end: the last tasks on a slow worker would keep all others waiting. So a
//! worker takes a task only if it would end it before faster workers had ended everything that is queued,
//! judged by measured speeds and assuming that tasks are alike. The assumption may be wrong: a task that
//! faster workers have not taken in the time that it would have taken the slow worker, or in a second, goes
//! to the slow worker after all.

use crate::scheduler::{Nanos, Scheduler, TaskId, Worker, WorkerId};

/// Maximum time that a task is left to faster workers, in nanoseconds. Measured costs of a function include
/// the time that its tasks waited, so they may be misleading.
const MAX_WAIT_NS: Nanos = 1_000_000_000;

impl Scheduler {
    /// Returns the worker, among those that want a task, that would end it first if tasks are alike.
    pub(crate) fn first_free(&self, fits: impl Fn(&Worker) -> bool) -> Option<WorkerId> {
        let free = |(_, worker): &(usize, &Worker)| worker.alive && worker.wanted > 0 && fits(worker);
        let sooner = |(_, a): &(usize, &Worker), (_, b): &(usize, &Worker)| {
            // (its own + 1) / its speed, of both
            let (a_end, b_end) = (u128::from(a.busy) + 1, u128::from(b.busy) + 1);
            (a_end * u128::from(b.speed)).cmp(&(b_end * u128::from(a.speed)))
        };
        let first = self.workers.iter().enumerate().filter(free).min_by(sooner)?;
        Some(WorkerId(first.0))
    }

    /// Takes the next task for any node, unless it is better left to faster workers.
    pub(crate) fn take_shared(&mut self, now: Nanos, worker: WorkerId) -> Option<TaskId> {
        self.shared.front()?;
        let state = &self.workers[worker.0];
        let patient = self.wait_deadline(state).is_none_or(|at| now < at);
        if patient && self.is_faster_elsewhere(state) {
            let state = &mut self.workers[worker.0];
            state.skipped_since.get_or_insert(now);
            // Without a measured cost of the function there is no time after which it is too long.
            if self.wait_deadline(&self.workers[worker.0]).is_some() {
                return None;
            }
        }
        self.workers[worker.0].skipped_since = None;
        self.shared.pop_front()
    }

    /// Whether faster workers end everything that is queued before this one would end one more.
    fn is_faster_elsewhere(&self, worker: &Worker) -> bool {
        let faster = self.workers.iter().filter(|other| other.alive && other.speed > worker.speed);
        let (mut speed, mut busy) = (0_u128, 0_u128);
        for other in faster {
            speed += u128::from(other.speed);
            busy += u128::from(other.busy);
        }
        let queued = self.shared.len() as u128;
        // (its own + 1) / its speed > (theirs + all that is queued) / their speed
        (u128::from(worker.busy) + 1) * speed > (busy + queued) * u128::from(worker.speed)
    }

    /// Returns the time until which a worker that was passed over leaves the next task to others. Returns
    /// `None` if it was not passed over, or the cost of the task is unknown.
    pub(crate) fn wait_deadline(&self, worker: &Worker) -> Option<Nanos> {
        let since = worker.skipped_since?;
        let function = self.function_of(*self.shared.front()?)?;
        let work = self.work.get(&function)?;
        Some(since.saturating_add((work / worker.speed).min(MAX_WAIT_NS)))
    }
}
