//! A task that is released at equal intervals and must finish within a deadline.

/// Policy for a job that is still running when the next one is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overload {
    /// Skips missed releases: the next job is that of the latest release. For control loops, which want the
    /// newest input.
    Skip,
    /// Runs a job for every release, back to back, until the task has caught up. For work that must not be
    /// skipped.
    CatchUp,
    /// Ends the task at the first missed deadline.
    Stop,
}

/// Error of an invalid period or deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a task cannot have a period of {period_ns} ns and a deadline of {deadline_ns} ns: both must be above zero, and the deadline at most the period"
)]
pub struct BadPeriod {
    /// The period, in nanoseconds.
    pub period_ns: u64,
    /// The deadline, in nanoseconds after the release.
    pub deadline_ns: u64,
}

/// Next action of the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// Sleep: the next job is not released yet.
    Wait {
        /// The release, on the caller's clock.
        until_ns: u64,
    },
    /// Run the job, and then call [`Periodic::finish`].
    Run {
        /// When the job was released, on the caller's clock: its deadline counts from here.
        release_ns: u64,
        /// Delay from its release to its start.
        late_ns: u64,
    },
    /// The task has ended, see [`Overload::Stop`].
    Stopped,
}

/// Result of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finish {
    /// Before its deadline, or at it.
    InTime {
        /// Time left until the deadline.
        left_ns: u64,
    },
    /// After its deadline.
    Missed {
        /// Time past the deadline.
        late_ns: u64,
        /// Number of releases skipped because of it.
        skipped: u64,
    },
    /// No job was running.
    NotRunning,
}

/// Statistics of a task. Times are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Number of finished jobs.
    pub jobs: u64,
    /// Number of jobs that finished after their deadline.
    pub missed: u64,
    /// Number of skipped releases.
    pub skipped: u64,
    /// The longest time from a release to the start of its job.
    pub worst_start_ns: u64,
    /// The longest time from a release to the end of its job.
    pub worst_response_ns: u64,
}

/// A periodic task, without a clock or a thread of its own: the caller reads the clock, sleeps and runs the
/// jobs.
#[derive(Clone, Debug)]
pub struct Periodic {
    period_ns: u64,
    deadline_ns: u64,
    overload: Overload,
    /// The release of the next job, or of the one that runs.
    release_ns: u64,
    running: bool,
    stopped: bool,
    statistics: Statistics,
}

impl Periodic {
    /// Creates a task that is released at `first_ns` and every `period_ns` after that, and whose jobs must
    /// finish within `deadline_ns` of their releases.
    ///
    /// # Errors
    /// [`BadPeriod`].
    pub fn new(
        first_ns: u64,
        period_ns: u64,
        deadline_ns: u64,
        overload: Overload,
    ) -> Result<Self, BadPeriod> {
        if period_ns == 0 || deadline_ns == 0 || deadline_ns > period_ns {
            return Err(BadPeriod { period_ns, deadline_ns });
        }
        Ok(Periodic {
            period_ns,
            deadline_ns,
            overload,
            release_ns: first_ns,
            running: false,
            stopped: false,
            statistics: Statistics::default(),
        })
    }

    /// Returns what to do at `now_ns`. While a job is running, returns the same job again.
    pub fn start(&mut self, now_ns: u64) -> Start {
        if self.stopped {
            return Start::Stopped;
        }
        let Some(late_ns) = now_ns.checked_sub(self.release_ns) else {
            return Start::Wait { until_ns: self.release_ns };
        };
        if !self.running {
            self.running = true;
            self.statistics.worst_start_ns = self.statistics.worst_start_ns.max(late_ns);
        }
        Start::Run { release_ns: self.release_ns, late_ns }
    }

    /// Notes that the job that [`start`](Self::start) began ended at `now_ns`.
    pub fn finish(&mut self, now_ns: u64) -> Finish {
        if !core::mem::take(&mut self.running) {
            return Finish::NotRunning;
        }
        let response_ns = now_ns.saturating_sub(self.release_ns);
        self.statistics.jobs += 1;
        self.statistics.worst_response_ns = self.statistics.worst_response_ns.max(response_ns);
        if let Some(left_ns) = self.deadline_ns.checked_sub(response_ns) {
            self.release_ns = self.release_ns.saturating_add(self.period_ns);
            return Finish::InTime { left_ns };
        }
        self.statistics.missed += 1;
        let passed = match self.overload {
            Overload::Skip => (response_ns / self.period_ns).max(1),
            Overload::CatchUp => 1,
            Overload::Stop => {
                self.stopped = true;
                1
            }
        };
        self.release_ns = self.release_ns.saturating_add(self.period_ns.saturating_mul(passed));
        self.statistics.skipped += passed - 1;
        Finish::Missed { late_ns: response_ns - self.deadline_ns, skipped: passed - 1 }
    }

    /// Returns the statistics of the task so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(overload: Overload) -> Periodic {
        Periodic::new(1_000, 100, 80, overload).unwrap()
    }

    fn run(task: &mut Periodic, from_ns: u64, to_ns: u64) -> (Start, Finish) {
        (task.start(from_ns), task.finish(to_ns))
    }

    #[test]
    fn jobs_are_released_at_equal_intervals() {
        let mut task = task(Overload::Skip);
        assert_eq!(task.start(999), Start::Wait { until_ns: 1_000 });
        assert_eq!(task.finish(999), Finish::NotRunning);
        let first = (Start::Run { release_ns: 1_000, late_ns: 7 }, Finish::InTime { left_ns: 30 });
        assert_eq!(run(&mut task, 1_007, 1_050), first);
        assert_eq!(task.start(1_060), Start::Wait { until_ns: 1_100 });
        let second = (Start::Run { release_ns: 1_100, late_ns: 0 }, Finish::InTime { left_ns: 0 });
        assert_eq!(run(&mut task, 1_100, 1_180), second, "at the deadline");
        let statistics =
            Statistics { jobs: 2, missed: 0, skipped: 0, worst_start_ns: 7, worst_response_ns: 80 };
        assert_eq!(task.statistics(), statistics);
    }

    #[test]
    fn overloaded_task_skips_catches_up_or_stops() {
        let mut skipping = task(Overload::Skip);
        let late = Finish::Missed { late_ns: 270, skipped: 2 };
        assert_eq!(run(&mut skipping, 1_000, 1_350).1, late);
        assert_eq!(skipping.start(1_350), Start::Run { release_ns: 1_300, late_ns: 50 });

        let mut catching_up = task(Overload::CatchUp);
        assert_eq!(run(&mut catching_up, 1_000, 1_350).1, Finish::Missed { late_ns: 270, skipped: 0 });
        for release_ns in [1_100, 1_200, 1_300] {
            let late_ns = 1_350 - release_ns;
            assert_eq!(catching_up.start(1_350), Start::Run { release_ns, late_ns });
            catching_up.finish(1_350);
        }
        assert_eq!(catching_up.start(1_350), Start::Wait { until_ns: 1_400 });
        assert_eq!(catching_up.statistics().missed, 3, "that of 1,300 was in time");

        let mut stopping = task(Overload::Stop);
        assert_eq!(run(&mut stopping, 1_000, 1_081).1, Finish::Missed { late_ns: 1, skipped: 0 });
        assert_eq!(stopping.start(5_000), Start::Stopped);
    }

    /// A job that ends between its deadline and the next release does not skip that release.
    #[test]
    fn late_finish_within_period_skips_nothing() {
        let mut task = task(Overload::Skip);
        assert_eq!(run(&mut task, 1_000, 1_090).1, Finish::Missed { late_ns: 10, skipped: 0 });
        assert_eq!(task.start(1_090), Start::Wait { until_ns: 1_100 });
    }

    #[test]
    fn invalid_periods_are_refused() {
        for (period_ns, deadline_ns) in [(0, 0), (0, 1), (10, 0), (10, 11)] {
            let refused = Periodic::new(0, period_ns, deadline_ns, Overload::Skip);
            assert_eq!(refused.unwrap_err(), BadPeriod { period_ns, deadline_ns });
        }
    }

    #[test]
    fn clock_overflow_causes_no_panic() {
        let mut task = Periodic::new(u64::MAX - 5, 100, 100, Overload::CatchUp).unwrap();
        for _ in 0..3 {
            run(&mut task, u64::MAX, u64::MAX);
        }
        assert_eq!(task.statistics().jobs, 3);
    }
}
