//! Sharing among unlike workers: who gets the next task that any may run.
//!
//! Workers ask for tasks when they can run some, so that each gets as many as it is fast. What is left to
//! decide is the end: the last tasks on a slow worker would keep all others waiting. So a worker takes a task
//! only if it would have ended it before faster workers had ended all that is queued, by measured speeds and
//! tasks that are alike. That they are alike is an assumption: a task that faster workers have not taken in
//! the time that it would have taken the slow worker, or in a second, is that worker's after all.

use crate::scheduler::{Nanos, Scheduler, TaskId, Worker, WorkerId};

/// The longest that a task is left to faster workers, in nanoseconds. What tasks of a function have taken
/// includes what they waited for, so that it may say little.
const MAX_PATIENCE_NS: Nanos = 1_000_000_000;

impl Scheduler {
    /// Of the workers that want a task the one that would end it first, if tasks are alike.
    pub(crate) fn first_free(&self, fits: impl Fn(&Worker) -> bool) -> Option<WorkerId> {
        let free = |(_, worker): &(usize, &Worker)| worker.alive && worker.wants > 0 && fits(worker);
        let sooner = |(_, a): &(usize, &Worker), (_, b): &(usize, &Worker)| {
            // (its own + 1) / its speed, of both
            let (a_end, b_end) = (u128::from(a.busy) + 1, u128::from(b.busy) + 1);
            (a_end * u128::from(b.speed)).cmp(&(b_end * u128::from(a.speed)))
        };
        let first = self.workers.iter().enumerate().filter(free).min_by(sooner)?;
        Some(WorkerId(first.0))
    }

    /// The next task for any node, unless it is better left to faster workers.
    pub(crate) fn take_shared(&mut self, now: Nanos, worker: WorkerId) -> Option<TaskId> {
        self.shared.front()?;
        let state = &self.workers[worker.0];
        let patient = self.patience_ends(state).is_none_or(|at| now < at);
        if patient && self.is_sooner_elsewhere(state) {
            let state = &mut self.workers[worker.0];
            state.passed_over.get_or_insert(now);
            // Without a measure of the function there is no time after which it is too long.
            if self.patience_ends(&self.workers[worker.0]).is_some() {
                return None;
            }
        }
        self.workers[worker.0].passed_over = None;
        self.shared.pop_front()
    }

    /// Whether faster workers end everything that is queued before this one has ended one more.
    fn is_sooner_elsewhere(&self, worker: &Worker) -> bool {
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

    /// Until when a worker that was passed over leaves the next task to others; `None` when it was not, or
    /// what that takes is not known.
    pub(crate) fn patience_ends(&self, worker: &Worker) -> Option<Nanos> {
        let since = worker.passed_over?;
        let function = self.function_of(*self.shared.front()?)?;
        let work = self.work.get(&function)?;
        Some(since.saturating_add((work / worker.speed).min(MAX_PATIENCE_NS)))
    }
}
