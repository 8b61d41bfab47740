//! Time that the suite waits for required events. A case that waits longer has failed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tombolo_platform::time::Deadline;

/// Longer than anything in the suite takes on a heavily loaded machine, in milliseconds.
static PATIENCE_MS: AtomicU64 = AtomicU64::new(30_000);

/// Returns the time that a case waits for a required event.
#[must_use]
pub fn patience() -> Duration {
    Duration::from_millis(PATIENCE_MS.load(Ordering::Relaxed))
}

/// Shortens the wait in the whole process, for transports known to be broken.
pub fn set_patience(patience: Duration) {
    PATIENCE_MS.store(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Returns the result of `wait`, and checks that it was woken: a wait that slept through an event also finds
/// it, but only when it polls once more at its deadline.
///
/// # Panics
/// Panics if the wait took all of the time.
#[track_caller]
pub fn expect_in_time<R>(wait: impl FnOnce() -> R) -> R {
    let deadline = deadline();
    let found = wait();
    assert!(!deadline.passed(), "a wake-up was lost: the wait ended with its deadline, {:?}", patience());
    found
}

/// Returns the time at which a wait that starts now has failed.
#[must_use]
pub fn deadline() -> Deadline {
    Deadline::after(patience())
}
