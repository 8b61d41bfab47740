//! Policy and delay of restarting failed ranks.

use std::str::FromStr;
use std::time::Duration;

use tombolo::Exit;

use crate::signals;

/// Default maximum number of restarts of a rank.
const DEFAULT_MAX: u32 = 5;

/// Maximum delay between a failure and the restart.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Run time after which the delay starts over.
const STABLE_RUN_TIME: Duration = Duration::from_secs(10);

/// Signals that ask a program to end. A rank ended by one of them is not restarted.
const REQUESTS: [u8; 4] = [signals::HUP, signals::INT, signals::PIPE, signals::TERM];

/// Policy of restarting ranks: `--restart`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Policy {
    /// Restart no rank.
    #[default]
    No,
    /// Restart those that fail, each at most `max` times.
    OnFailure { max: u32 },
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        let (policy, max) = text.split_once(':').map_or((text, None), |(policy, max)| (policy, Some(max)));
        match (policy, max) {
            ("no", None) => Ok(Policy::No),
            ("on-failure", None) => Ok(Policy::OnFailure { max: DEFAULT_MAX }),
            ("on-failure", Some(max)) => match max.parse() {
                Ok(max) if max > 0 => Ok(Policy::OnFailure { max }),
                _ => Err(format!("'{max}' is not a number of restarts; write on-failure:5, for example")),
            },
            ("always" | "unless-stopped" | "on-success" | "on-abnormal" | "on-abort", _) => Err(format!(
                "a job has no policy '{policy}', because it ends with its programs; write on-failure"
            )),
            _ => Err("write no, on-failure or on-failure:MAX".to_owned()),
        }
    }
}

impl Policy {
    /// Returns whether a rank that ended like this is to be restarted.
    pub(super) fn should_restart(self, exit: &Exit) -> bool {
        let failed = match exit {
            Exit::Exited { status } => *status != 0,
            Exit::Signalled { signal } => !REQUESTS.contains(signal),
            Exit::NodeLost { .. } => true,
            Exit::Left => false,
        };
        failed && self != Policy::No
    }
}

/// Restarts of one rank.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Restarts {
    /// Number of restarts so far.
    pub(super) count: u32,
    /// The latest delay; zero before the first restart and after a long run.
    delay: Duration,
}

impl Restarts {
    /// Counts one more restart of a rank that ran for `ran`, and returns its delay. `None` if the policy
    /// allows no more.
    ///
    /// The delay begins with `first` and doubles with each restart, up to a minute.
    pub(super) fn next(&mut self, policy: Policy, first: Duration, ran: Duration) -> Option<Duration> {
        let Policy::OnFailure { max } = policy else { return None };
        if self.count >= max {
            return None;
        }
        self.count += 1;
        let again = !self.delay.is_zero() && ran < STABLE_RUN_TIME;
        self.delay = if again { self.delay.saturating_mul(2) } else { first }.min(MAX_DELAY);
        Some(self.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_written_as_for_containers() {
        assert_eq!("no".parse(), Ok(Policy::No));
        assert_eq!("on-failure".parse(), Ok(Policy::OnFailure { max: 5 }));
        assert_eq!("on-failure:1".parse(), Ok(Policy::OnFailure { max: 1 }));
        for wrong in
            ["", "no:3", "on-failure:", "on-failure:0", "on-failure:x", "on-failure:-1", "on-failure:1:2"]
        {
            assert!(wrong.parse::<Policy>().is_err(), "{wrong}");
        }
        assert!("always".parse::<Policy>().unwrap_err().contains("a job has no policy 'always'"));
    }

    #[test]
    fn a_rank_that_was_asked_to_end_is_not_started_again() {
        let policy = Policy::OnFailure { max: 1 };
        for again in [
            Exit::Exited { status: 1 },
            Exit::Signalled { signal: 9 },
            Exit::Signalled { signal: 11 },
            Exit::NodeLost { cause: String::new() },
        ] {
            assert!(policy.should_restart(&again) && !Policy::No.should_restart(&again), "{again:?}");
        }
        for ended in [
            Exit::Exited { status: 0 },
            Exit::Signalled { signal: 15 },
            Exit::Signalled { signal: 2 },
            Exit::Left,
        ] {
            assert!(!policy.should_restart(&ended), "{ended:?}");
        }
    }

    #[test]
    fn delays_double_up_to_a_minute_and_start_over_after_a_long_run() {
        let policy = Policy::OnFailure { max: 100 };
        let mut restarts = Restarts::default();
        let short = STABLE_RUN_TIME - Duration::from_millis(1);
        let mut next = |ran| restarts.next(policy, Duration::from_millis(100), ran).unwrap().as_millis();
        let delays: Vec<u128> = (0..4).map(|_| next(short)).collect();
        assert_eq!(delays, [100, 200, 400, 800]);
        assert_eq!(next(STABLE_RUN_TIME), 100);
        assert_eq!((0..20).map(|_| next(Duration::ZERO)).last(), Some(60_000));
    }

    #[test]
    fn the_bound_holds_however_long_a_rank_ran() {
        let mut restarts = Restarts::default();
        let mut next = || restarts.next(Policy::OnFailure { max: 2 }, Duration::ZERO, STABLE_RUN_TIME);
        assert_eq!((next(), next(), next()), (Some(Duration::ZERO), Some(Duration::ZERO), None));
        assert_eq!(Restarts::default().next(Policy::No, Duration::ZERO, STABLE_RUN_TIME), None);
    }
}
