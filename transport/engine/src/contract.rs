//! Contract of an engine.

use std::fmt;
use std::ops::BitOr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use tombolo_platform::event::{Interest, poll};
use tombolo_platform::{Deadline, OsError};

use crate::request::{Completion, Refusal, Request, RequestId};
use tombolo_link::copy_cost::{Reach, Route};

/// Optional abilities of an engine. The conformance suite tests those that are claimed and skips the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Abilities(u32);

impl Abilities {
    /// Empty set of abilities.
    pub const NONE: Abilities = Abilities(0);
    /// Fills as well as copies.
    pub const FILL: Abilities = Abilities(1);
    /// Works concurrently with the caller. Without it, a request is complete when it is accepted.
    pub const BACKGROUND: Abilities = Abilities(1 << 1);
    /// Copies between memories that this process maps.
    pub const MAPPED: Abilities = Abilities(1 << 2);
    /// Copies between memory that this process maps and memory of another process.
    pub const PROCESS: Abilities = Abilities(1 << 3);
    /// Copies between memory that this process maps and memory of the far side.
    pub const FAR: Abilities = Abilities(1 << 4);
    /// Lets the far side copy between memories that the far side maps.
    pub const FAR_ALONE: Abilities = Abilities(1 << 5);
    /// Copies between memory that this process maps, or memory of a GPU, and memory of that GPU.
    pub const DEVICE: Abilities = Abilities(1 << 6);

    /// Abilities with their names in reports.
    pub const NAMED: [(Abilities, &'static str); 7] = [
        (Abilities::FILL, "fills"),
        (Abilities::BACKGROUND, "works in the background"),
        (Abilities::MAPPED, "memory mapped here"),
        (Abilities::PROCESS, "other processes"),
        (Abilities::FAR, "memory of the far side"),
        (Abilities::FAR_ALONE, "the far side's own processor"),
        (Abilities::DEVICE, "memory of a GPU"),
    ];

    /// Whether the set contains all of `others`.
    #[must_use]
    pub const fn contains(self, others: Abilities) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns the union with `others`. Usable in constants.
    #[must_use]
    pub const fn with(self, others: Abilities) -> Abilities {
        Abilities(self.0 | others.0)
    }

    /// Whether these abilities suffice for a copy along `route`.
    #[must_use]
    pub fn reaches(self, route: Route) -> bool {
        use Reach::{Device, Far, Mapped, Process};
        if route == Route::fill(route.target) && !self.contains(Abilities::FILL) {
            return false;
        }
        let needed = match (route.source, route.target) {
            (Mapped, Mapped) => Abilities::MAPPED,
            (Mapped, Process) | (Process, Mapped) => Abilities::PROCESS,
            (Mapped, Far) | (Far, Mapped) => Abilities::FAR,
            (Far, Far) => Abilities::FAR_ALONE,
            (Mapped | Device, Device) | (Device, Mapped) => Abilities::DEVICE,
            _ => return false,
        };
        self.contains(needed)
    }
}

impl BitOr for Abilities {
    type Output = Abilities;

    fn bitor(self, others: Abilities) -> Abilities {
        self.with(others)
    }
}

impl fmt::Display for Abilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Abilities::NAMED.iter().filter(|(one, _)| self.contains(*one)).map(|(_, name)| *name);
        f.write_str(names.next().unwrap_or("nothing in particular"))?;
        names.try_for_each(|name| write!(f, ", {name}"))
    }
}

impl fmt::Debug for Abilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Abilities({self})")
    }
}

/// Error of a request that was not accepted. Returns the request to the caller.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct Rejected {
    /// The request, unchanged.
    pub request: Request,
    /// Reason why it was not accepted.
    pub why: RejectionReason,
}

/// Reason why a request was not accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RejectionReason {
    /// The engine holds its maximum number of requests, including completions not taken yet.
    #[error("the engine is full with {limit} requests; take completions and try again")]
    Full {
        /// Limit of the engine.
        limit: usize,
    },
    /// The engine cannot execute such a request.
    #[error("the engine refuses the request: {0}")]
    Refused(#[from] Refusal),
}

/// Engine that copies and fills memory.
///
/// Accepted requests are started in order. Each ends in exactly one [`Completion`], even if it is cancelled,
/// its deadline passes or the far side dies. A request [conflicts](Request::conflicts) with one in progress
/// if either writes bytes of the other: it is refused, unless it is [fenced](Request::fenced). Dropping an
/// engine cancels requests that it has not started and waits for the piece in progress.
pub trait Engine: Send {
    /// Returns the name in tables, unique among the engines of a manager.
    fn name(&self) -> &str;

    /// Returns the optional abilities. Constant for the engine's lifetime.
    fn abilities(&self) -> Abilities;

    /// Returns the maximum number of requests held before completions must be taken.
    fn limit(&self) -> usize;

    /// Checks whether the engine could execute a request, regardless of whether it is full.
    ///
    /// # Errors
    /// The reason why it cannot.
    fn check(&self, request: &Request) -> Result<(), Refusal>;

    /// Submits a request.
    ///
    /// # Errors
    /// The engine is full or cannot execute such a request. Nothing happened.
    // The request is returned by value.
    #[expect(clippy::result_large_err, reason = "the request itself, to be tried again")]
    fn submit(&mut self, request: Request) -> Result<RequestId, Rejected>;

    /// Requests the cancellation of a request. It still completes, with [`Failure::Cancelled`] or with its
    /// result if it was already done. Returns false if no such request is in progress.
    ///
    /// [`Failure::Cancelled`]: crate::Failure::Cancelled
    fn cancel(&mut self, id: RequestId) -> bool;

    /// Takes the next completion, in order of completion.
    fn take(&mut self) -> Option<Completion>;

    /// Returns the number of accepted requests whose completions were not taken.
    fn in_flight(&self) -> usize;

    /// Returns the number of accepted requests that have not ended.
    fn in_progress(&self) -> usize;

    /// Returns a request in progress that conflicts with this one.
    fn conflict(&self, request: &Request) -> Option<RequestId>;

    /// Returns a descriptor for a waitset or `epoll`, readable while there are completions to take. If this
    /// is never called, the engine makes no system call for it.
    ///
    /// # Errors
    /// Too many open files.
    fn descriptor(&mut self) -> Result<BorrowedFd<'_>, OsError>;
}

/// Duration of spinning in a wait: about the cost of a wake-up.
const SPIN: Duration = Duration::from_micros(50);

/// Spin hints between two polls, because each poll takes a lock.
const SPINS: usize = 16;

/// Waits for the next completion. Returns `None` after `timeout`.
///
/// # Errors
/// An error of the kernel.
pub fn finish(engine: &mut dyn Engine, timeout: Duration) -> Result<Option<Completion>, OsError> {
    if let Some(completion) = engine.take() {
        return Ok(Some(completion));
    }
    if engine.in_flight() == 0 {
        return Ok(None);
    }
    let deadline = Deadline::after(timeout);
    let awake = Deadline::after(SPIN.min(timeout));
    while !awake.passed() {
        for _ in 0..SPINS {
            std::hint::spin_loop();
        }
        if let Some(completion) = engine.take() {
            return Ok(Some(completion));
        }
    }
    loop {
        poll(&[(engine.descriptor()?, Interest::Read)], Some(deadline))?;
        if let Some(completion) = engine.take() {
            return Ok(Some(completion));
        }
        if deadline.passed() {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ability_has_its_own_bit_and_name() {
        let mut all = Abilities::NONE;
        for (one, name) in Abilities::NAMED {
            assert!(one != Abilities::NONE && !all.contains(one), "{name}");
            all = all | one;
        }
        assert_eq!((Abilities::FILL | Abilities::PROCESS).to_string(), "fills, other processes");
        assert_eq!(Abilities::NONE.to_string(), "nothing in particular");
    }

    #[test]
    fn routes_and_fills_require_their_abilities() {
        use Reach::{Device, Far, Mapped, Process};
        let mapped = Abilities::MAPPED;
        assert!(mapped.reaches(Route::copy(Mapped, Mapped)));
        assert!(!mapped.reaches(Route::fill(Mapped)));
        assert!((mapped | Abilities::FILL).reaches(Route::fill(Mapped)));
        assert!(!mapped.reaches(Route::copy(Mapped, Far)));
        assert!(Abilities::FAR_ALONE.reaches(Route::copy(Far, Far)));
        assert!(!Abilities::FAR.reaches(Route::copy(Far, Far)));
        assert!(Abilities::DEVICE.reaches(Route::copy(Device, Device)));
        for (source, target) in [(Process, Process), (Far, Device), (Process, Far)] {
            let all = Abilities::NAMED.iter().fold(Abilities::NONE, |sum, (one, _)| sum | *one);
            assert!(!all.reaches(Route::copy(source, target)), "{source} {target}");
        }
    }
}
