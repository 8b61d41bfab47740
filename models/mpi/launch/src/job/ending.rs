//! Why a job is over, and how its ranks ended.

use std::time::{Duration, Instant};

use tombolo::{DomainId, Exit};

use super::RankName;

/// How long news of a death may come after what others made of it.
const NEWS: Duration = Duration::from_millis(500);

/// What ended a job, from what explains least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Cause {
    /// A rank ended with a status other than 0.
    Status,
    /// A rank called for the end, or could not go on.
    Abort,
    /// A rank was killed, or was lost with its node.
    Death,
    /// The user, a limit of time, or that not all could be started.
    Order,
}

/// Why the job is over before all its ranks have ended by themselves.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    cause: Cause,
    /// As a sentence without its end.
    why: String,
    status: u8,
    /// How many others had to be ended.
    others: usize,
    pub(super) since: Instant,
}

impl Ending {
    pub(super) fn new(cause: Cause, why: String, status: u8, others: usize) -> Ending {
        Ending { cause, why, status, others, since: Instant::now() }
    }

    /// Takes note of another reason: it is the true one if it explains more and comes soon.
    pub(super) fn explain(&mut self, cause: Cause, why: String, status: u8) {
        if cause > self.cause && cause != Cause::Order && self.since.elapsed() < NEWS {
            let others = self.others.saturating_sub(1);
            *self = Ending { cause, why, status, others, since: self.since };
        }
    }

    fn sentence(&self) -> String {
        match self.others {
            0 => self.why.clone(),
            1 => format!("{}; 1 rank that still ran was ended", self.why),
            others => format!("{}; {others} ranks that still ran were ended", self.why),
        }
    }
}

/// How a rank ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RankEnd {
    /// Which.
    pub name: RankName,
    /// The name of its node.
    pub node: String,
    /// What it ran.
    pub program: String,
    /// Who it was; none if it did not start.
    pub domain: Option<DomainId>,
    /// How; none if it did not start, or was not seen to end.
    pub exit: Option<Exit>,
}

/// How a job ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The exit status that tells it.
    pub status: u8,
    /// Why it did not end well, as a sentence without its end.
    pub reason: Option<String>,
    /// How long it took.
    pub took: Duration,
    /// All its ranks, by world and number.
    pub ranks: Vec<RankEnd>,
}

impl Outcome {
    pub(super) fn new(ending: Option<&Ending>, took: Duration, ranks: Vec<RankEnd>) -> Outcome {
        Outcome {
            status: ending.map_or(0, |ending| ending.status),
            reason: ending.map(Ending::sentence),
            took,
            ranks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_counts_unless_a_better_one_comes_soon() {
        let reason = |ending: &Ending| (ending.why.clone(), ending.status, ending.others);
        let mut ending = Ending::new(Cause::Status, "rank 1 ended with status 1".into(), 1, 3);
        ending.explain(Cause::Status, "rank 2 ended with status 2".into(), 2);
        assert_eq!(reason(&ending), ("rank 1 ended with status 1".into(), 1, 3));
        ending.explain(Cause::Abort, "rank 2 called".into(), 7);
        ending.explain(Cause::Death, "rank 3 was killed".into(), 137);
        ending.explain(Cause::Abort, "rank 0 called".into(), 7);
        ending.explain(Cause::Order, "late".into(), 130);
        assert_eq!(reason(&ending), ("rank 3 was killed".into(), 137, 1));
        assert_eq!(ending.sentence(), "rank 3 was killed; 1 rank that still ran was ended");
        let mut late =
            Ending { since: Instant::now() - 2 * NEWS, ..Ending::new(Cause::Status, "first".into(), 1, 0) };
        late.explain(Cause::Death, "late".into(), 137);
        assert_eq!(late.sentence(), "first");
        let mut ordered = Ending::new(Cause::Order, "ended by SIGINT".into(), 130, 2);
        ordered.explain(Cause::Death, "rank 1 was killed".into(), 137);
        assert_eq!(ordered.sentence(), "ended by SIGINT; 2 ranks that still ran were ended");
    }
}
