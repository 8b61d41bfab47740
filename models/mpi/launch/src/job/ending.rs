//! Why a job ended, and how each rank exited.

use std::time::{Duration, Instant};

use tombolo::{DomainId, Exit};

use super::{RankName, SIGKILL};

/// A rank's death reported within this time after another rank's `MPI_Abort` still counts as the cause of
/// the job's end.
const LATE_DEATH_WINDOW: Duration = Duration::from_millis(500);

/// Delay between an error inside MPI and the signals to the other ranks. Such an error is usually the
/// reaction to a peer's death whose report is still in flight; before the launcher sends signals, every death
/// that it observes is a possible cause.
pub(super) const MPI_ERROR_HOLD: Duration = Duration::from_millis(500);

/// A larger argument of `MPI_Abort` is an error code of the MPI library, which has a message number in its
/// upper bits and does not fit into an exit status.
const MAX_PROGRAM_ABORT_CODE: i64 = 0xffff;

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
    Request,
}

impl Cause {
    /// Classifies an `MPI_Abort`: called by the program, or by the MPI library after an error.
    pub(super) fn from_abort_code(code: i64) -> Cause {
        if code > MAX_PROGRAM_ABORT_CODE { Cause::MpiError } else { Cause::Abort }
    }

    /// Classifies the exit of a rank that failed.
    pub(super) fn from_exit(exit: &Exit) -> Cause {
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
pub(super) struct Termination {
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
    terminated_others: usize,
    pub(super) since: Instant,
    /// Signal sent to the other ranks; `None` while they keep running.
    pub(super) termination: Option<Termination>,
}

impl Ending {
    pub(super) fn new(cause: Cause, why: String, status: u8, terminated_others: usize) -> Ending {
        Ending { cause, why, status, terminated_others, since: Instant::now(), termination: None }
    }

    /// Records another cause, which replaces the current one if it is more specific. Reports long after an
    /// `MPI_Abort` are its consequences and are ignored.
    pub(super) fn add_cause(&mut self, cause: Cause, why: String, status: u8) {
        let late = self.cause == Cause::Abort && self.since.elapsed() >= LATE_DEATH_WINDOW;
        if cause > self.cause && cause != Cause::Request && !late {
            self.terminated_others = self.terminated_others.saturating_sub(1);
            (self.cause, self.why, self.status) = (cause, why, status);
        }
    }

    /// Time for which the other ranks keep running; `None` if they were signalled already or the cause is
    /// certain.
    pub(super) fn remaining_hold(&self) -> Option<Duration> {
        let held = self.termination.is_none() && self.cause == Cause::MpiError;
        held.then(|| MPI_ERROR_HOLD.saturating_sub(self.since.elapsed()))
    }

    /// Whether our own signal can have caused this exit.
    pub(super) fn explains_exit(&self, exit: &Exit) -> bool {
        let (Some(termination), Exit::Signalled { signal }) = (self.termination, exit) else { return false };
        *signal == termination.signal
            || *signal == SIGKILL && termination.since.elapsed() >= termination.grace
    }

    fn describe(&self) -> String {
        match self.terminated_others {
            0 => self.why.clone(),
            1 => format!("{}; the remaining rank was ended", self.why),
            others => format!("{}; the remaining {others} ranks were ended", self.why),
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
    pub duration: Duration,
    /// All ranks, sorted by world and number.
    pub ranks: Vec<RankEnd>,
}

impl Outcome {
    pub(super) fn new(ending: Option<&Ending>, duration: Duration, ranks: Vec<RankEnd>) -> Outcome {
        Outcome {
            status: ending.map_or(0, |ending| ending.status),
            reason: ending.map(Ending::describe),
            duration,
            ranks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(ending: &Ending) -> (&str, u8, usize) {
        (&ending.why, ending.status, ending.terminated_others)
    }

    #[test]
    fn more_specific_cause_replaces_the_first() {
        let mut ending = Ending::new(Cause::MpiError, "rank 0 had an error".into(), 143, 4);
        ending.add_cause(Cause::MpiError, "rank 3 had an error".into(), 143);
        assert_eq!(reason(&ending), ("rank 0 had an error", 143, 4));
        ending.add_cause(Cause::Status, "rank 1 ended with status 1".into(), 1);
        ending.add_cause(Cause::Status, "rank 2 ended with status 2".into(), 2);
        assert_eq!(reason(&ending), ("rank 1 ended with status 1", 1, 3));
        ending.add_cause(Cause::Abort, "rank 2 called".into(), 7);
        ending.add_cause(Cause::Abort, "rank 0 crashed".into(), 139);
        assert_eq!(reason(&ending), ("rank 2 called", 7, 2));
        ending.add_cause(Cause::Death, "rank 3 was killed".into(), 137);
        ending.add_cause(Cause::Abort, "rank 0 called".into(), 7);
        ending.add_cause(Cause::Request, "late".into(), 130);
        assert_eq!(reason(&ending), ("rank 3 was killed", 137, 1));
        assert_eq!(ending.describe(), "rank 3 was killed; the remaining rank was ended");
        let mut ordered = Ending::new(Cause::Request, "ended by SIGINT".into(), 130, 2);
        ordered.add_cause(Cause::Death, "rank 1 was killed".into(), 137);
        assert_eq!(ordered.describe(), "ended by SIGINT; the remaining 2 ranks were ended");
    }

    #[test]
    fn late_death_replaces_an_mpi_error_but_not_an_abort() {
        for (cause, reason) in [(Cause::Abort, "first"), (Cause::MpiError, "late"), (Cause::Status, "late")] {
            let first = Ending::new(cause, "first".into(), 1, 0);
            let mut ending = Ending { since: Instant::now() - 2 * LATE_DEATH_WINDOW, ..first };
            ending.add_cause(Cause::Death, "late".into(), 137);
            assert_eq!(ending.why, reason, "{cause:?}");
        }
    }

    #[test]
    fn exit_by_the_launchers_signal_is_no_cause() {
        let signalled = |signal| Exit::Signalled { signal };
        let mut ending = Ending::new(Cause::MpiError, "first".into(), 1, 0);
        assert!(ending.remaining_hold().is_some_and(|left| left <= MPI_ERROR_HOLD));
        assert!(!ending.explains_exit(&signalled(15)), "no rank has been sent it");
        let grace = Duration::from_secs(10);
        ending.termination = Some(Termination { signal: 15, grace, since: Instant::now() });
        assert!(ending.explains_exit(&signalled(15)) && ending.remaining_hold().is_none());
        assert!(!ending.explains_exit(&signalled(9)), "it comes only after the grace");
        assert!(!ending.explains_exit(&signalled(11)) && !ending.explains_exit(&Exit::Exited { status: 15 }));
        ending.termination = Some(Termination { signal: 15, grace, since: Instant::now() - grace });
        assert!(ending.explains_exit(&signalled(9)));
    }

    #[test]
    fn abort_codes_of_mpi_differ_from_those_of_programs() {
        for code in [-1, 0, 37, 300, 65_535] {
            assert_eq!(Cause::from_abort_code(code), Cause::Abort, "{code}");
        }
        // Observed with MPICH 5.0.2 after its peer died.
        assert_eq!(Cause::from_abort_code(678_509_711), Cause::MpiError);
        assert_eq!(Cause::from_exit(&Exit::Signalled { signal: 11 }), Cause::Abort);
        assert_eq!(Cause::from_exit(&Exit::Signalled { signal: 9 }), Cause::Death);
        assert_eq!(Cause::from_exit(&Exit::NodeLost { cause: String::new() }), Cause::Death);
        assert_eq!(Cause::from_exit(&Exit::Exited { status: 3 }), Cause::Status);
    }
}
