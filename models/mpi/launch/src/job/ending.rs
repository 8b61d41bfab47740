//! Why a job ended, and how each rank exited.

use std::time::{Duration, Instant};

use tombolo::{DomainId, Exit};

use super::{RankName, SIGKILL};

/// A rank's death reported within this time after another rank's `MPI_Abort` still counts as the cause of
/// the job's end.
const LATE_NEWS: Duration = Duration::from_millis(500);

/// Delay between an error inside MPI and the signals to the other ranks. Such an error is usually the
/// reaction to a peer's death whose report is still in flight; before the launcher sends signals, every death
/// that it observes is a possible cause.
pub(super) const HOLD: Duration = Duration::from_millis(500);

/// A larger argument of `MPI_Abort` is an error code of the MPI library, which has a message number in its
/// upper bits and does not fit into an exit status.
const LARGEST_CODE_OF_PROGRAM: i64 = 0xffff;

/// Cause of a job's end, ordered from the least to the most specific.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Cause {
    /// MPI reported an error in a rank; its peer may be gone.
    MpiError,
    /// A rank exited with a nonzero status.
    Status,
    /// A rank called `MPI_Abort`, violated the protocol, or crashed.
    Abort,
    /// Another process killed a rank, or its node was lost.
    Death,
    /// The user or the time limit ended the job, or a rank could not be started.
    Order,
}

impl Cause {
    /// Classifies an `MPI_Abort`: called by the program, or by the MPI library after an error.
    pub(super) fn of_abort(code: i64) -> Cause {
        if code > LARGEST_CODE_OF_PROGRAM { Cause::MpiError } else { Cause::Abort }
    }

    /// Classifies the exit of a rank that failed.
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

/// Signal sent to all ranks, and the grace period before SIGKILL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) signal: u8,
    pub(super) grace: Duration,
    pub(super) since: Instant,
}

/// State of a job that is being ended before all of its ranks exited by themselves.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    cause: Cause,
    /// A sentence without its full stop.
    why: String,
    status: u8,
    /// Number of other ranks that had to be terminated.
    others: usize,
    pub(super) since: Instant,
    /// Signal sent to the other ranks; `None` while they keep running.
    pub(super) order: Option<Order>,
}

impl Ending {
    pub(super) fn new(cause: Cause, why: String, status: u8, others: usize) -> Ending {
        Ending { cause, why, status, others, since: Instant::now(), order: None }
    }

    /// Records another cause, which replaces the current one if it is more specific. Reports long after an
    /// `MPI_Abort` are its consequences and are ignored.
    pub(super) fn explain(&mut self, cause: Cause, why: String, status: u8) {
        let late = self.cause == Cause::Abort && self.since.elapsed() >= LATE_NEWS;
        if cause > self.cause && cause != Cause::Order && !late {
            self.others = self.others.saturating_sub(1);
            (self.cause, self.why, self.status) = (cause, why, status);
        }
    }

    /// Time for which the other ranks keep running; `None` if they were signalled already or the cause is
    /// certain.
    pub(super) fn hold(&self) -> Option<Duration> {
        let held = self.order.is_none() && self.cause == Cause::MpiError;
        held.then(|| HOLD.saturating_sub(self.since.elapsed()))
    }

    /// Whether our own signal can have caused this exit.
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
    /// Name of the node that it ran on.
    pub node: String,
    /// Name of the program.
    pub program: String,
    /// The rank's domain; `None` if it did not start.
    pub domain: Option<DomainId>,
    /// How the rank ended; `None` if it did not start, or if its end was not observed.
    pub exit: Option<Exit>,
}

/// How a job ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Exit status for the launcher to return.
    pub status: u8,
    /// Reason of a failure, as a sentence without its full stop.
    pub reason: Option<String>,
    /// Duration from start to end.
    pub took: Duration,
    /// All ranks, sorted by world and number.
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
        // Observed with MPICH 5.0.2 after its peer died.
        assert_eq!(Cause::of_abort(678_509_711), Cause::MpiError);
        assert_eq!(Cause::of_exit(&Exit::Signalled { signal: 11 }), Cause::Abort);
        assert_eq!(Cause::of_exit(&Exit::Signalled { signal: 9 }), Cause::Death);
        assert_eq!(Cause::of_exit(&Exit::NodeLost { cause: String::new() }), Cause::Death);
        assert_eq!(Cause::of_exit(&Exit::Exited { status: 3 }), Cause::Status);
    }
}
