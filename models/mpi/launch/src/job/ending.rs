//! Why a job is over, and how its ranks ended.

use std::time::{Duration, Instant};

use tombolo::{DomainId, Exit};

use super::{RankName, SIGKILL};

/// How long the news of a killed rank may come after another rank has called `MPI_Abort`, and still be the
/// reason.
const LATE_NEWS: Duration = Duration::from_millis(500);

/// How long the other ranks go on after an error inside of MPI. It is most often what a rank makes of the end
/// of another, of which the news is on its way: until the launcher has sent signals, every death is one that
/// explains something.
pub(super) const HOLD: Duration = Duration::from_millis(500);

/// `MPI_Abort` with more than this is an error code of the MPI itself: those have the number of a message in
/// their upper bits, and an exit status has no room for them.
const LARGEST_CODE_OF_PROGRAM: i64 = 0xffff;

/// What ended a job, from what explains least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Cause {
    /// MPI in a rank met an error, which may be that a peer is gone.
    MpiError,
    /// A rank ended with a status other than 0.
    Status,
    /// A rank called for the end, spoke nonsense, or crashed.
    Abort,
    /// A rank was killed by another process, or was lost with its node.
    Death,
    /// The user, a limit of time, or that not all could be started.
    Order,
}

impl Cause {
    /// Of a call of `MPI_Abort` with this code: by the program, or by its MPI when it cannot go on.
    pub(super) fn of_abort(code: i64) -> Cause {
        if code > LARGEST_CODE_OF_PROGRAM { Cause::MpiError } else { Cause::Abort }
    }

    /// Of the end of a rank that did not end well.
    pub(super) fn of_exit(exit: &Exit) -> Cause {
        // SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
        const CRASHES: [u8; 5] = [4, 6, 7, 8, 11];
        match exit {
            Exit::Signalled { signal } if CRASHES.contains(signal) => Cause::Abort,
            Exit::Signalled { .. } | Exit::NodeLost { .. } => Cause::Death,
            _ => Cause::Status,
        }
    }
}

/// A signal that all ranks were sent, and what they got to end by themselves before they were killed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) signal: u8,
    pub(super) grace: Duration,
    pub(super) since: Instant,
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
    /// What the others were sent. None while they are left alone.
    pub(super) order: Option<Order>,
}

impl Ending {
    pub(super) fn new(cause: Cause, why: String, status: u8, others: usize) -> Ending {
        Ending { cause, why, status, others, since: Instant::now(), order: None }
    }

    /// Takes note of another reason: it is the true one if it explains more. What comes long after a call of
    /// `MPI_Abort` is its consequence.
    pub(super) fn explain(&mut self, cause: Cause, why: String, status: u8) {
        let late = self.cause == Cause::Abort && self.since.elapsed() >= LATE_NEWS;
        if cause > self.cause && cause != Cause::Order && !late {
            self.others = self.others.saturating_sub(1);
            (self.cause, self.why, self.status) = (cause, why, status);
        }
    }

    /// How much longer the others are left alone: not at all once they have been told to end, or the reason
    /// is known.
    pub(super) fn hold(&self) -> Option<Duration> {
        let held = self.order.is_none() && self.cause == Cause::MpiError;
        held.then(|| HOLD.saturating_sub(self.since.elapsed()))
    }

    /// Whether a rank that ended so may have done it because it was told to.
    pub(super) fn caused(&self, exit: &Exit) -> bool {
        let (Some(order), Exit::Signalled { signal }) = (self.order, exit) else { return false };
        *signal == order.signal || *signal == SIGKILL && order.since.elapsed() >= order.grace
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
    /// The rank.
    pub name: RankName,
    /// The name of its node.
    pub node: String,
    /// What it ran.
    pub program: String,
    /// The rank's domain; `None` if it did not start.
    pub domain: Option<DomainId>,
    /// How the rank ended; `None` if it did not start, or if its end was not observed.
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

    fn reason(ending: &Ending) -> (&str, u8, usize) {
        (&ending.why, ending.status, ending.others)
    }

    #[test]
    fn the_first_reason_counts_unless_a_better_one_comes() {
        let mut ending = Ending::new(Cause::MpiError, "rank 0 had an error".into(), 143, 4);
        ending.explain(Cause::MpiError, "rank 3 had an error".into(), 143);
        assert_eq!(reason(&ending), ("rank 0 had an error", 143, 4));
        ending.explain(Cause::Status, "rank 1 ended with status 1".into(), 1);
        ending.explain(Cause::Status, "rank 2 ended with status 2".into(), 2);
        assert_eq!(reason(&ending), ("rank 1 ended with status 1", 1, 3));
        ending.explain(Cause::Abort, "rank 2 called".into(), 7);
        ending.explain(Cause::Abort, "rank 0 crashed".into(), 139);
        assert_eq!(reason(&ending), ("rank 2 called", 7, 2));
        ending.explain(Cause::Death, "rank 3 was killed".into(), 137);
        ending.explain(Cause::Abort, "rank 0 called".into(), 7);
        ending.explain(Cause::Order, "late".into(), 130);
        assert_eq!(reason(&ending), ("rank 3 was killed", 137, 1));
        assert_eq!(ending.sentence(), "rank 3 was killed; 1 rank that still ran was ended");
        let mut ordered = Ending::new(Cause::Order, "ended by SIGINT".into(), 130, 2);
        ordered.explain(Cause::Death, "rank 1 was killed".into(), 137);
        assert_eq!(ordered.sentence(), "ended by SIGINT; 2 ranks that still ran were ended");
    }

    #[test]
    fn a_death_long_after_an_abort_is_its_consequence_and_long_after_an_error_of_mpi_its_reason() {
        for (cause, reason) in [(Cause::Abort, "first"), (Cause::MpiError, "late"), (Cause::Status, "late")] {
            let first = Ending::new(cause, "first".into(), 1, 0);
            let mut ending = Ending { since: Instant::now() - 2 * LATE_NEWS, ..first };
            ending.explain(Cause::Death, "late".into(), 137);
            assert_eq!(ending.why, reason, "{cause:?}");
        }
    }

    #[test]
    fn what_ranks_were_told_to_do_explains_nothing() {
        let signalled = |signal| Exit::Signalled { signal };
        let mut ending = Ending::new(Cause::MpiError, "first".into(), 1, 0);
        assert!(ending.hold().is_some_and(|left| left <= HOLD));
        assert!(!ending.caused(&signalled(15)), "no rank has been sent it");
        let grace = Duration::from_secs(10);
        ending.order = Some(Order { signal: 15, grace, since: Instant::now() });
        assert!(ending.caused(&signalled(15)) && ending.hold().is_none());
        assert!(!ending.caused(&signalled(9)), "it comes only after the grace");
        assert!(!ending.caused(&signalled(11)) && !ending.caused(&Exit::Exited { status: 15 }));
        ending.order = Some(Order { signal: 15, grace, since: Instant::now() - grace });
        assert!(ending.caused(&signalled(9)));
    }

    #[test]
    fn errors_of_mpi_are_told_from_what_programs_say() {
        for code in [-1, 0, 37, 300, 65_535] {
            assert_eq!(Cause::of_abort(code), Cause::Abort, "{code}");
        }
        // Seen of MPICH 5.0.2, whose peer was gone.
        assert_eq!(Cause::of_abort(678_509_711), Cause::MpiError);
        assert_eq!(Cause::of_exit(&Exit::Signalled { signal: 11 }), Cause::Abort);
        assert_eq!(Cause::of_exit(&Exit::Signalled { signal: 9 }), Cause::Death);
        assert_eq!(Cause::of_exit(&Exit::NodeLost { cause: String::new() }), Cause::Death);
        assert_eq!(Cause::of_exit(&Exit::Exited { status: 3 }), Cause::Status);
    }
}
