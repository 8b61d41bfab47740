//! Scheduler of the steps of `cargo xtask ci`.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::step::{Lane, Step};

/// Steps that are waiting or running. In every lane a step comes after its dependencies, so as long as steps
/// are waiting, one of them can eventually begin.
pub(crate) struct Schedule {
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    waiting: Vec<Step>,
    /// Names of the steps that are waiting or running.
    unfinished: Vec<String>,
}

impl State {
    /// Returns the index of the first waiting step of a lane.
    fn first_in_lane(&self, lane: Lane) -> Option<usize> {
        self.waiting.iter().position(|step| step.lane == lane)
    }

    /// Returns whether all dependencies of a step have ended or are not part of this run.
    fn is_ready(&self, step: &Step) -> bool {
        step.after.iter().all(|needed| self.unfinished.iter().all(|name| name != needed))
    }
}

impl Schedule {
    pub(crate) fn new(steps: Vec<Step>) -> Self {
        let unfinished = steps.iter().map(|step| step.name.clone()).collect();
        Self { state: Mutex::new(State { waiting: steps, unfinished }), ended: Condvar::new() }
    }

    /// Waits until the next step of the first non-empty lane can begin, and returns it; `None` if no lane has
    /// a step left. The step counts as running until the returned [`Running`] is dropped.
    pub(crate) fn take(&self, lanes: &[Lane]) -> Option<(Step, Running<'_>)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let next = lanes.iter().find_map(|&lane| state.first_in_lane(lane))?;
            if state.is_ready(&state.waiting[next]) {
                let step = state.waiting.remove(next);
                let running = Running { schedule: self, name: step.name.clone() };
                return Some((step, running));
            }
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Guard of a running step. Dropping it releases dependent steps, even if the step could not be run or
/// panicked.
pub(crate) struct Running<'a> {
    schedule: &'a Schedule,
    name: String,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.schedule.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.unfinished.retain(|unfinished| *unfinished != self.name);
        self.schedule.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn step(name: &str, lane: Lane) -> Step {
        Step::new(name, Command::new("true")).in_lane(lane)
    }

    #[test]
    fn a_lane_keeps_its_order_and_goes_on_to_the_next_when_it_is_empty() {
        let schedule = Schedule::new(vec![
            step("beside", Lane::Beside),
            step("one", Lane::Machines),
            step("two", Lane::Machines).after(&["one"]),
        ]);
        let lanes = [Lane::Machines, Lane::Beside];
        for name in ["one", "two", "beside"] {
            let (step, _running) = schedule.take(&lanes).expect("a step");
            assert_eq!(step.name, name);
        }
        assert!(schedule.take(&lanes).is_none());
    }

    #[test]
    fn steps_outside_the_run_are_not_awaited() {
        let schedule = Schedule::new(vec![step("two", Lane::Machines).after(&["one"])]);
        assert!(schedule.take(&[Lane::Machines]).is_some());
    }
}
