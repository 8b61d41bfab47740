//! Life cycle of a job: the running domains, the failure to report, and the next action. It performs no
//! actions itself and gets the time as an argument.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use tombolo::{DomainId, Exit};

use super::restart::{Policy, Restarts};
use crate::signals;
use crate::text;

/// Time that the others continue after a failure, so that those waiting for the failed one can report its
/// death.
const REPORT_DELAY: Duration = Duration::from_secs(1);

/// Time for a domain to end on request, before it is killed.
pub(super) const GRACE: Duration = Duration::from_secs(3);

/// Additional time for the monitors to report the end of every domain.
const END_REPORT_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum duration of a single wait: another thread may have ended the job meanwhile.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Rules of the whole job.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Rules {
    /// Whether the failure of one domain leaves the others running.
    pub(super) keep_going: bool,
    /// Policy of restarting ranks.
    pub(super) restart: Policy,
    /// Delay before a rank's first restart.
    pub(super) restart_delay: Duration,
}

/// State of a job.
#[derive(Default)]
pub(super) struct Lifecycle {
    rules: Rules,
    live: HashMap<DomainId, Running>,
    /// Ranks to restart, with their times.
    due: BTreeMap<usize, Instant>,
    restarts: HashMap<usize, Restarts>,
    /// Number of ranks started at least once.
    started: usize,
    /// Number of ranks that failed for good.
    failed: usize,
    failure: Option<ReportedFailure>,
    end_request: Option<EndRequest>,
}

/// A domain that runs as a rank of the job.
#[derive(Clone, Debug)]
struct Running {
    rank: usize,
    node: String,
    since: Instant,
}

/// Cause of a job's failure. It determines which failure is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// The user ended the job, or not all ranks could be started.
    Request,
    /// A domain ended with a status other than 0.
    Status,
    /// A domain was killed, or was lost with its node.
    Death,
}

/// The failure that the job reports.
#[derive(Clone, Debug)]
struct ReportedFailure {
    cause: Cause,
    /// The rank that failed; `None` if the cause is a request.
    rank: Option<usize>,
    /// Unfinished sentence: the rank, and how it ended.
    why: String,
    status: u8,
    since: Instant,
}

/// A request to end, sent to the running domains.
#[derive(Clone, Copy, Debug)]
struct EndRequest {
    /// Number of those domains.
    others: usize,
    since: Instant,
}

/// Next action of the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// The job has ended.
    Done,
    /// Wait for the end of a domain, for at most this long.
    Wait(Duration),
    /// Start this rank again.
    Restart { rank: usize },
    /// Ask the running domains to end.
    RequestEnd,
    /// Stop waiting: the domains ignored the request to end.
    GiveUp,
}

/// Consequence of a domain's end for the job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct EndedRank {
    /// The rank, and how it ended: `rank 1 on arm0 ended with status 3`.
    pub(super) description: String,
    /// The restart that follows, as text: `restart 1 of 5 in 0.1 s`.
    pub(super) restart: Option<String>,
}

impl Lifecycle {
    pub(super) fn new(rules: Rules) -> Lifecycle {
        Lifecycle { rules, ..Lifecycle::default() }
    }

    /// Returns whether no more domains are to be started.
    pub(super) fn is_over(&self) -> bool {
        self.end_request.is_some() || (self.failure.is_some() && !self.rules.keep_going)
    }

    /// Returns the number of restarts of a rank.
    pub(super) fn restarts(&self, rank: usize) -> u32 {
        self.restarts.get(&rank).map_or(0, |restarts| restarts.count)
    }

    /// Records that a rank runs. Returns whether it must end immediately, because the job was ended
    /// meanwhile.
    pub(super) fn started(&mut self, now: Instant, rank: usize, id: DomainId, node: &str) -> bool {
        if self.restarts(rank) == 0 {
            self.started += 1;
        }
        self.live.insert(id, Running { rank, node: node.to_owned(), since: now });
        self.end_request.is_some()
    }

    /// Records that a rank could not be started again; `node_down` if it may be possible later.
    pub(super) fn not_restarted(
        &mut self,
        now: Instant,
        rank: usize,
        why: &str,
        node_down: bool,
    ) -> Option<String> {
        let again = node_down.then(|| self.schedule(now, rank, Duration::ZERO)).flatten();
        if again.is_none() {
            self.failed += 1;
            self.fail(now, Cause::Death, Some(rank), format!("rank {rank} could not be restarted: {why}"), 1);
        }
        again
    }

    /// Records the end of a domain. `None` if it is not one of the job's ranks, but one that they started.
    pub(super) fn ended(&mut self, now: Instant, id: DomainId, exit: &Exit) -> Option<EndedRank> {
        let Running { rank, node, since } = self.live.remove(&id)?;
        let status = exit.shell_status();
        let ended = format!("rank {rank} on {node} {exit}");
        if status == 0 {
            return Some(EndedRank { description: ended, restart: None });
        }
        let covered = !self.is_over() && self.rules.restart.should_restart(exit);
        let restart =
            covered.then(|| self.schedule(now, rank, now.saturating_duration_since(since))).flatten();
        if restart.is_none() {
            self.failed += 1;
            let who = match self.started {
                0 | 1 => format!("domain {id} on {node}"),
                _ => format!("rank {rank} on {node} (domain {id})"),
            };
            let after = match self.restarts(rank) {
                0 => String::new(),
                count => format!(" after {}", text::count(count as usize, "restart")),
            };
            self.fail(now, cause(exit), Some(rank), format!("{who} {exit}{after}"), status);
        }
        Some(EndedRank { description: ended, restart })
    }

    /// Schedules the next restart of a rank that ran for `ran`, and returns its description. `None` if no
    /// restart is left.
    fn schedule(&mut self, now: Instant, rank: usize, ran: Duration) -> Option<String> {
        let Rules { restart: policy, restart_delay, .. } = self.rules;
        let Policy::OnFailure { max } = policy else { return None };
        let restarts = self.restarts.entry(rank).or_default();
        let delay = restarts.next(policy, restart_delay, ran)?;
        self.due.insert(rank, now + delay);
        Some(format!("restart {} of {max} in {} s", restarts.count, delay.as_secs_f64()))
    }

    /// Records a failure. The first is the one to report, with two exceptions.
    ///
    /// A death may become known later than the failure of a peer that noticed it; then the death is reported.
    /// With `keep_going` all failures become known and the lowest rank is reported, because the order in
    /// which two simultaneous failures become known is chance.
    pub(super) fn fail(&mut self, now: Instant, cause: Cause, rank: Option<usize>, why: String, status: u8) {
        let keep_going = self.rules.keep_going;
        let since = match &self.failure {
            None => now,
            Some(failure) if failure.cause == Cause::Request => return,
            Some(failure) if keep_going && rank < failure.rank => failure.since,
            Some(failure)
                if !keep_going
                    && failure.cause == Cause::Status
                    && cause == Cause::Death
                    && now.saturating_duration_since(failure.since) < GRACE =>
            {
                if let Some(end_request) = &mut self.end_request {
                    end_request.others = end_request.others.saturating_sub(1);
                }
                failure.since
            }
            Some(_) => return,
        };
        self.failure = Some(ReportedFailure { cause, rank, why, status, since });
        if self.is_over() {
            self.due.clear();
        }
    }

    /// Records that the running domains are asked to end, and returns them. `None` if they were asked before.
    pub(super) fn request_end(&mut self, now: Instant) -> Option<Vec<DomainId>> {
        if self.end_request.is_some() {
            return None;
        }
        self.due.clear();
        self.end_request = Some(EndRequest { others: self.live.len(), since: now });
        Some(self.live.keys().copied().collect())
    }

    pub(super) fn next(&mut self, now: Instant) -> Next {
        let since = |then: Instant| now.saturating_duration_since(then);
        let left = match (&self.end_request, &self.failure) {
            _ if self.live.is_empty() && self.due.is_empty() => return Next::Done,
            (Some(end_request), _) => (GRACE + END_REPORT_TIMEOUT).saturating_sub(since(end_request.since)),
            (None, Some(failure)) if !self.rules.keep_going => {
                REPORT_DELAY.saturating_sub(since(failure.since))
            }
            _ => MAX_WAIT,
        };
        if left.is_zero() {
            return if self.end_request.is_some() { Next::GiveUp } else { Next::RequestEnd };
        }
        let Some((rank, at)) = self.due.iter().min_by_key(|(_, at)| **at).map(|(rank, at)| (*rank, *at))
        else {
            return Next::Wait(left.min(MAX_WAIT));
        };
        if at <= now {
            self.due.remove(&rank);
            return Next::Restart { rank };
        }
        Next::Wait(left.min(MAX_WAIT).min(at - now))
    }

    /// Returns the failure to report, as a sentence, with the exit status for it.
    pub(super) fn failure(&self) -> Option<(String, u8)> {
        self.failure.as_ref().map(|failure| (self.failure_text(failure), failure.status))
    }

    fn failure_text(&self, failure: &ReportedFailure) -> String {
        let others = self.end_request.map_or(0, |end_request| end_request.others);
        let mut text = match others {
            0 => failure.why.clone(),
            1 if self.started == 1 => failure.why.clone(),
            others => format!("{}; {}", failure.why, ended_domains_text(others)),
        };
        if self.rules.keep_going && self.failed > 1 {
            text = format!("{text}; {} of {} failed", self.failed, text::count(self.started, "domain"));
        }
        text
    }
}

fn ended_domains_text(others: usize) -> String {
    match others {
        1 => "the remaining domain was ended".to_owned(),
        others => format!("the remaining {others} domains were ended"),
    }
}

fn cause(exit: &Exit) -> Cause {
    match exit {
        // The job itself sends SIGTERM once it is over, so it explains nothing.
        Exit::Signalled { signal } if *signal != signals::TERM => Cause::Death,
        Exit::NodeLost { .. } => Cause::Death,
        _ => Cause::Status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "0.1.2";
    const SECOND: &str = "1.1.3";

    fn id(text: &str) -> DomainId {
        text.parse().unwrap()
    }

    fn exited(status: u8) -> Exit {
        Exit::Exited { status }
    }

    /// Returns a job whose two ranks run since `now`.
    fn two_ranks(now: Instant, rules: Rules) -> Lifecycle {
        let mut job = Lifecycle::new(rules);
        assert!(!job.started(now, 0, id(FIRST), "host"));
        assert!(!job.started(now, 1, id(SECOND), "arm0"));
        job
    }

    const KEEP_GOING: Rules = Rules { keep_going: true, restart: Policy::No, restart_delay: Duration::ZERO };

    fn restarting(max: u32, keep_going: bool) -> Rules {
        let restart_delay = Duration::from_millis(100);
        Rules { keep_going, restart: Policy::OnFailure { max }, restart_delay }
    }

    fn reason(job: &Lifecycle) -> (u8, String) {
        job.failure().map(|(why, status)| (status, why)).unwrap()
    }

    #[test]
    fn a_death_explains_the_failure_of_a_peer_that_noticed_it() {
        let now = Instant::now();
        let mut job = two_ranks(now, Rules::default());
        job.ended(now, id(FIRST), &exited(1));
        assert_eq!(job.request_end(now), Some(vec![id(SECOND)]));
        assert_eq!(job.request_end(now), None, "they are asked once");
        let first = "rank 0 on host (domain 0.1.2) ended with status 1";
        job.fail(now, cause(&Exit::Signalled { signal: 15 }), Some(1), "rank 1".into(), 143);
        assert_eq!(reason(&job), (1, format!("{first}; the remaining domain was ended")), "the job sent it");
        job.fail(now, cause(&Exit::Signalled { signal: 9 }), Some(1), "rank 1".into(), 137);
        assert_eq!(reason(&job), (137, "rank 1".into()));
        job.fail(now, cause(&Exit::NodeLost { cause: String::new() }), Some(2), "rank 2".into(), 1);
        assert_eq!(reason(&job).1, "rank 1", "the first death counts");
    }

    #[test]
    fn user_request_stays_the_reason() {
        let now = Instant::now();
        let mut job = Lifecycle::default();
        job.fail(now, Cause::Request, None, "ended by SIGINT".into(), 130);
        job.fail(now, Cause::Death, Some(1), "rank 1".into(), 137);
        assert_eq!(reason(&job).0, 130);
    }

    #[test]
    fn others_can_notice_a_failure_before_the_end() {
        let now = Instant::now();
        let mut job = two_ranks(now, Rules::default());
        assert_eq!(job.next(now), Next::Wait(MAX_WAIT));
        job.ended(now, id(FIRST), &Exit::Signalled { signal: 9 });
        assert_eq!(job.next(now), Next::Wait(REPORT_DELAY));
        assert_eq!(job.next(now + REPORT_DELAY), Next::RequestEnd);
        job.request_end(now + REPORT_DELAY);
        assert!(matches!(job.next(now + REPORT_DELAY), Next::Wait(_)));
        assert_eq!(job.next(now + REPORT_DELAY + GRACE + END_REPORT_TIMEOUT), Next::GiveUp);
        job.ended(now, id(SECOND), &Exit::Signalled { signal: 15 });
        assert_eq!(job.next(now), Next::Done);
    }

    #[test]
    fn lowest_failed_rank_is_the_reason() {
        let now = Instant::now();
        let mut job = two_ranks(now, KEEP_GOING);
        job.fail(now, Cause::Status, Some(1), "rank 1".into(), 4);
        job.fail(now, Cause::Status, Some(0), "rank 0".into(), 3);
        job.fail(now, Cause::Death, Some(1), "rank 1".into(), 137);
        assert_eq!(reason(&job), (3, "rank 0".into()), "in whichever order they become known");
        job.fail(now, Cause::Request, None, "ended by SIGINT".into(), 130);
        assert_eq!(reason(&job), (130, "ended by SIGINT".into()));
    }

    #[test]
    fn keep_going_leaves_others_running() {
        let now = Instant::now();
        let mut job = two_ranks(now, KEEP_GOING);
        job.ended(now, id(FIRST), &exited(3));
        assert!(!job.is_over() && job.next(now + REPORT_DELAY) == Next::Wait(MAX_WAIT));
        job.ended(now, id(SECOND), &exited(4));
        let first = "rank 0 on host (domain 0.1.2) ended with status 3";
        assert_eq!(reason(&job), (3, format!("{first}; 2 of 2 domains failed")));
        assert!(job.request_end(now).is_some() && job.is_over(), "the user can still end the job");
    }

    #[test]
    fn a_failed_rank_is_restarted_after_its_delay_and_the_job_goes_well() {
        let now = Instant::now();
        let mut job = two_ranks(now, restarting(2, false));
        let ended = job.ended(now, id(SECOND), &Exit::Signalled { signal: 9 }).unwrap();
        assert_eq!(ended.description, "rank 1 on arm0 was killed by SIGKILL");
        assert_eq!(ended.restart.as_deref(), Some("restart 1 of 2 in 0.1 s"));
        assert!(!job.is_over() && job.failure().is_none());
        let delay = Duration::from_millis(100);
        assert_eq!(job.next(now), Next::Wait(delay));
        job.ended(now, id(FIRST), &exited(0));
        assert_eq!(job.next(now), Next::Wait(delay), "a rank that waits for its restart keeps the job up");
        assert_eq!(job.next(now + delay), Next::Restart { rank: 1 });
        assert_eq!(job.restarts(1), 1);
        assert!(!job.started(now, 1, id("1.1.4"), "arm0"));
        assert_eq!(job.started, 2, "it is still the same rank");
        assert_eq!(job.ended(now, id(SECOND), &exited(1)), None, "that domain is gone");
        job.ended(now, id("1.1.4"), &exited(0));
        assert_eq!((job.next(now), job.failure()), (Next::Done, None));
    }

    #[test]
    fn without_a_restart_left_the_failure_counts() {
        let now = Instant::now();
        for keep_going in [false, true] {
            let mut job = two_ranks(now, restarting(1, keep_going));
            job.ended(now, id(SECOND), &exited(3));
            let later = now + Duration::from_secs(1);
            assert_eq!(job.next(later), Next::Restart { rank: 1 });
            job.started(later, 1, id("1.1.4"), "arm0");
            assert_eq!(job.ended(later, id("1.1.4"), &exited(4)).unwrap().restart, None);
            let why = "rank 1 on arm0 (domain 1.1.4) ended with status 4 after 1 restart";
            assert_eq!(reason(&job), (4, why.into()));
            assert_eq!(job.is_over(), !keep_going);
        }
    }

    #[test]
    fn a_job_that_ends_restarts_nothing() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut job = two_ranks(now, restarting(5, false));
        job.ended(now, id(SECOND), &exited(3));
        job.fail(now, Cause::Request, None, "ended by SIGINT".into(), 130);
        assert_eq!(job.request_end(now), Some(vec![id(FIRST)]));
        assert!(matches!(job.next(later), Next::Wait(_)), "rank 0 is still to end");
        assert_eq!(job.ended(later, id(FIRST), &exited(1)).unwrap().restart, None);
        assert_eq!(job.next(later), Next::Done);
        // A rank that starts while the job is ending must end immediately.
        let mut job = Lifecycle::new(restarting(5, false));
        job.request_end(now);
        assert!(job.started(now, 0, id(FIRST), "host"));
    }

    #[test]
    fn a_final_failure_of_one_rank_cancels_the_restart_of_another() {
        let now = Instant::now();
        let mut job = two_ranks(now, restarting(5, false));
        job.ended(now, id(SECOND), &exited(3));
        job.ended(now, id(FIRST), &Exit::Signalled { signal: 15 });
        assert_eq!(job.next(now), Next::Done);
        assert_eq!(reason(&job), (143, "rank 0 on host (domain 0.1.2) was killed by SIGTERM".into()));
    }

    #[test]
    fn a_node_that_is_down_is_tried_again_until_the_bound() {
        let now = Instant::now();
        let mut job = two_ranks(now, restarting(2, true));
        job.ended(now, id(SECOND), &Exit::NodeLost { cause: String::new() });
        assert_eq!(job.next(now + MAX_WAIT), Next::Restart { rank: 1 });
        let again = job.not_restarted(now, 1, "node arm0 is down", true);
        assert_eq!(again.as_deref(), Some("restart 2 of 2 in 0.2 s"));
        assert_eq!(job.next(now + MAX_WAIT), Next::Restart { rank: 1 });
        assert_eq!(job.not_restarted(now, 1, "node arm0 is down", true), None);
        assert_eq!(reason(&job), (1, "rank 1 could not be restarted: node arm0 is down".into()));
        let mut job = two_ranks(now, restarting(2, true));
        job.ended(now, id(SECOND), &exited(1));
        assert_eq!(job.not_restarted(now, 1, "the image is gone", false), None, "that will not change");
    }
}
