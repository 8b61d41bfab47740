//! How long the suite waits for what must come. A case that waited so long has failed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tombolo_platform::time::Deadline;

/// Longer than anything in the suite takes on a machine that does ten other things.
static PATIENCE_MS: AtomicU64 = AtomicU64::new(30_000);

/// How long a case waits for what must come.
#[must_use]
pub fn patience() -> Duration {
    Duration::from_millis(PATIENCE_MS.load(Ordering::Relaxed))
}

/// Waits less, in the whole process: for transports that are known to be broken, where waiting is in vain.
pub fn set_patience(patience: Duration) {
    PATIENCE_MS.store(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// What `wait` found, and that it found it by being woken: a wait that slept over what came finds it too, when its
/// deadline makes it look once more.
///
/// # Panics
/// When it took all the time there was.
#[track_caller]
pub fn in_time<R>(wait: impl FnOnce() -> R) -> R {
    let deadline = deadline();
    let found = wait();
    assert!(!deadline.passed(), "a wake-up was lost: the wait ended with its deadline, {:?}", patience());
    found
}

/// The moment at which a wait that begins now has failed.
#[must_use]
pub fn deadline() -> Deadline {
    Deadline::after(patience())
}
