//! Sleeping on a word of shared memory.

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use tombolo_base::SharedMemory;
use tombolo_base::sync::AtomicU64;

use crate::error::OsError;
use crate::time::{Deadline, timespec};

/// Outcome of a sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitResult {
    /// Woken, or interrupted by a signal: check the condition again.
    Woken,
    /// The word did not have the expected value; the thread did not sleep.
    Changed,
    /// The deadline passed.
    TimedOut,
}

/// Sleeps while the low half of word `index`, which holds a little-endian number, equals `expected`, until
/// [`wake`] or `deadline`.
///
/// # Errors
/// An error of the kernel.
///
/// # Panics
/// Panics if `index` is out of range, which is a caller error.
pub fn wait(
    memory: &SharedMemory,
    index: usize,
    expected: u32,
    deadline: Option<Deadline>,
) -> Result<WaitResult, OsError> {
    let timeout = deadline.map(|deadline| timespec(deadline.remaining()));
    match futex::wait(low_half(&memory.words()[index]), Flags::empty(), expected.to_le(), timeout.as_ref()) {
        Ok(()) | Err(Errno::INTR) => Ok(WaitResult::Woken),
        Err(Errno::AGAIN) => Ok(WaitResult::Changed),
        Err(Errno::TIMEDOUT) => Ok(WaitResult::TimedOut),
        Err(errno) => Err(OsError::new("sleep on shared memory", errno)),
    }
}

/// Wakes up to `count` sleepers on word `index`, in any process; returns their number.
///
/// # Errors
/// An error of the kernel.
///
/// # Panics
/// As [`wait`].
pub fn wake(memory: &SharedMemory, index: usize, count: u32) -> Result<usize, OsError> {
    futex::wake(low_half(&memory.words()[index]), Flags::empty(), count)
        .map_err(|errno| OsError::new("wake sleepers on shared memory", errno))
}

/// Returns the four bytes that the kernel compares: the low half, which comes first in a little-endian
/// number.
fn low_half(word: &AtomicU64) -> &core::sync::atomic::AtomicU32 {
    // SAFETY: the word is valid for eight bytes, aligned to eight, for as long as the borrow. Nothing in this
    // process accesses memory through the result: only its address goes to the kernel, which loads it whole.
    unsafe { &*core::ptr::from_ref(word).cast() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tombolo_base::sync::Ordering;

    use super::*;
    use crate::memory::{create_sealed, map};

    #[test]
    fn wait_ends_on_changed_word_or_deadline() {
        let memory = SharedMemory::zeroed(64);
        memory.store_le(3, 0x1_0000_0007, Ordering::Relaxed);
        let soon = || Some(Deadline::after(Duration::from_millis(1)));
        assert_eq!(wait(&memory, 3, 6, None), Ok(WaitResult::Changed));
        assert_eq!(wait(&memory, 3, 7, soon()), Ok(WaitResult::TimedOut));
        assert_eq!(wake(&memory, 3, 1), Ok(0));
    }

    /// Number of sleepers found by a direct futex call right after [`wake`]; this many mean that [`wake`]
    /// does not work.
    const MISSED: usize = 1000;

    #[test]
    fn a_sleeper_is_woken_through_another_mapping() {
        let file = create_sealed("tombolo-test", 4096).unwrap();
        let (ours, theirs) = (map(&file, 0, 4096).unwrap(), map(&file, 0, 4096).unwrap());
        let until = Deadline::after(Duration::from_secs(60));
        let enough = std::sync::atomic::AtomicBool::new(false);
        let by_the_kernel = || futex::wake(low_half(&theirs.words()[0]), Flags::empty(), 1).unwrap();
        std::thread::scope(|scope| {
            // The word never changes: only a wake-up ends a sleep before its deadline.
            let sleeper = scope.spawn(|| {
                let mut slept = WaitResult::Woken;
                while slept == WaitResult::Woken && !enough.load(Ordering::Relaxed) {
                    slept = wait(&ours, 0, 0, Some(until)).unwrap();
                }
                slept
            });
            let (mut woken, mut missed) = (0, 0);
            while woken == 0 && missed < MISSED && !sleeper.is_finished() {
                woken = wake(&theirs, 0, 1).unwrap();
                if woken == 0 {
                    missed += by_the_kernel();
                }
                std::thread::yield_now();
            }
            enough.store(true, Ordering::Relaxed);
            while !sleeper.is_finished() {
                by_the_kernel();
                std::thread::yield_now();
            }
            assert_eq!(woken, 1, "{missed} sleeps were not found");
            assert_eq!(sleeper.join().unwrap(), WaitResult::Woken);
        });
    }
}
