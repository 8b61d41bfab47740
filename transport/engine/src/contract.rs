//! What every engine does.

use std::fmt;
use std::ops::BitOr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use tombolo_platform::event::{Interest, poll};
use tombolo_platform::{Deadline, OsError};

use crate::request::{Completion, Reach, Refusal, Request, RequestId, Route};

/// What an engine says it can do. The conformance test holds it to each claim, and skips what it does not claim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Abilities(u32);

impl Abilities {
    /// None.
    pub const NONE: Abilities = Abilities(0);
    /// It fills as well as copies.
    pub const FILL: Abilities = Abilities(1);
    /// It works while the caller does something else. Without, a request is done when it is accepted.
    pub const BACKGROUND: Abilities = Abilities(1 << 1);
    /// It copies between memories that this process maps.
    pub const MAPPED: Abilities = Abilities(1 << 2);
    /// It copies between memory that this process maps and that of another process.
    pub const PROCESS: Abilities = Abilities(1 << 3);
    /// It copies between memory that this process maps and that of the far side.
    pub const FAR: Abilities = Abilities(1 << 4);
    /// It has the far side copy between memories that that side reaches.
    pub const FAR_ALONE: Abilities = Abilities(1 << 5);
    /// It copies between memory that this process maps, or its own, and that of a graphics processor.
    pub const DEVICE: Abilities = Abilities(1 << 6);

    /// Each ability with the name that reports use.
    pub const NAMED: [(Abilities, &'static str); 7] = [
        (Abilities::FILL, "fills"),
        (Abilities::BACKGROUND, "works in the background"),
        (Abilities::MAPPED, "memory mapped here"),
        (Abilities::PROCESS, "other processes"),
        (Abilities::FAR, "memory of the far side"),
        (Abilities::FAR_ALONE, "the far side's own processor"),
        (Abilities::DEVICE, "memory of a graphics processor"),
    ];

    /// Whether all of `others` are among them.
    #[must_use]
    pub const fn contains(self, others: Abilities) -> bool {
        self.0 & others.0 == others.0
    }

    /// These and `others`, in constants.
    #[must_use]
    pub const fn with(self, others: Abilities) -> Abilities {
        Abilities(self.0 | others.0)
    }

    /// The routes of copies that they are enough for.
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

/// A request that was not accepted, which is the caller's as before.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct Rejected {
    /// The request.
    pub request: Request,
    /// Why.
    pub why: WhyRejected,
}

/// Why a request was not accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WhyRejected {
    /// As many requests as it takes are waiting, or done and their completions not taken: take some, and try again.
    #[error("the engine has {limit} requests, which is as many as it takes: take completions and try again")]
    Full {
        /// How many it takes.
        limit: usize,
    },
    /// It does not do such a thing.
    #[error("the engine refuses the request: {0}")]
    Refused(#[from] Refusal),
}

/// Something that copies.
///
/// Requests that were accepted are begun in order. Each comes to exactly one [`Completion`], also when it is cancelled, its
/// deadline passes or the far side dies. Two requests whose ranges have bytes in common, of which one writes, are the caller's
/// to keep apart in time. Dropping an engine cancels what it has not begun and waits for the piece under way.
pub trait Engine: Send {
    /// Its name in tables, unique among the engines of a manager.
    fn name(&self) -> &str;

    /// What it can do. The same throughout its life.
    fn abilities(&self) -> Abilities;

    /// How many requests it takes before completions of some have to be taken.
    fn limit(&self) -> usize;

    /// Whether it would do a request if it had room.
    ///
    /// # Errors
    /// Why not.
    fn check(&self, request: &Request) -> Result<(), Refusal>;

    /// Takes a request.
    ///
    /// # Errors
    /// There is no room, or it does not do such a thing. Nothing happened.
    // A rejected request is handed back whole.
    #[expect(clippy::result_large_err, reason = "the request itself, to be tried again")]
    fn submit(&mut self, request: Request) -> Result<RequestId, Rejected>;

    /// Asks that a request be given up. It still comes to a completion: [`Failure::Cancelled`], or whatever had become of it
    /// already. False when there is none that could be.
    ///
    /// [`Failure::Cancelled`]: crate::Failure::Cancelled
    fn cancel(&mut self, id: RequestId) -> bool;

    /// Takes the next completion, in the order in which they came about.
    fn take(&mut self) -> Option<Completion>;

    /// How many requests were accepted whose completions were not taken.
    fn in_flight(&self) -> usize;

    /// Readable while there are completions to take, from the first call of this on: for a waitset or `epoll`. Who never
    /// calls it pays for no system call.
    ///
    /// # Errors
    /// Too many open files.
    fn descriptor(&mut self) -> Result<BorrowedFd<'_>, OsError>;
}

/// How long a wait stays awake: about what being woken costs.
const SPIN: Duration = Duration::from_micros(50);

/// Pauses between two looks, which take a lock.
const SPINS: usize = 16;

/// Waits for the next completion; `None` when the deadline passes before.
///
/// # Errors
/// What the kernel answered.
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
    fn each_ability_has_a_bit_and_a_name_of_its_own() {
        let mut all = Abilities::NONE;
        for (one, name) in Abilities::NAMED {
            assert!(one != Abilities::NONE && !all.contains(one), "{name}");
            all = all | one;
        }
        assert_eq!((Abilities::FILL | Abilities::PROCESS).to_string(), "fills, other processes");
        assert_eq!(Abilities::NONE.to_string(), "nothing in particular");
    }

    #[test]
    fn a_route_takes_its_ability_and_a_fill_the_other_one_too() {
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
