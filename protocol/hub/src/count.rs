//! Count of a semaphore or an event, in memory that the hub server of a node shares with tasks there.
//!
//! While no request waits at the hub, its count is *lent*: it is in a word of that memory, and tasks signal
//! and wait with one atomic operation, without a message. The server takes the count back before it handles
//! any request for the hub, and lends it again once no request waits. A task that finds the count not lent,
//! or that would have to wait, sends a request. So the queues of the server contain every waiter and nothing
//! overtakes them, as with a POSIX semaphore on a futex, with the server in place of the kernel.

use tombolo_base::sync::{AtomicU64, Ordering};

/// Distance between the counts of two hubs, in bytes, so that no two share a cache line. Counts are in the
/// order of the hubs' numbers.
pub const COUNT_BYTES: usize = 64;

/// Set while the count is lent. In memory that is all zeros no count is lent.
const LENT: u64 = 1 << 63;

/// Number of attempts of a task before it sends a request; other tasks may change the count meanwhile.
const MAX_ATTEMPTS: u32 = 4;

/// Word with the count of a hub, little-endian. Peers may write anything there at any time, which only
/// changes the count to another value between 0 and the capacity.
#[derive(Clone, Copy, Debug)]
pub struct CountWord<'m>(&'m AtomicU64);

impl<'m> CountWord<'m> {
    /// Wraps the count in this word.
    #[must_use]
    pub fn new(word: &'m AtomicU64) -> CountWord<'m> {
        CountWord(word)
    }

    /// Adds one to a lent count that is below `capacity`. Returns whether it did. Takes at most four loads
    /// and four compare-and-swaps.
    #[inline]
    #[must_use]
    pub fn put(self, capacity: u32) -> bool {
        self.change(|count| (count < u64::from(capacity)).then(|| count + 1))
    }

    /// Takes one from a lent count that is not 0. Returns whether it did. Takes as many steps as
    /// [`put`](Self::put).
    #[inline]
    #[must_use]
    pub fn get(self) -> bool {
        self.change(|count| count.checked_sub(1))
    }

    #[inline]
    fn change(self, change: impl Fn(u64) -> Option<u64>) -> bool {
        let mut attempts = 0;
        let changed = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
            attempts += 1;
            let word = u64::from_le(word);
            if word & LENT == 0 || attempts > MAX_ATTEMPTS {
                return None;
            }
            change(word & !LENT).map(|count| (count | LENT).to_le())
        });
        changed.is_ok()
    }

    /// Lends the count. Called by the server.
    pub fn lend(self, count: u32) {
        self.0.store((u64::from(count) | LENT).to_le(), Ordering::Release);
    }

    /// Takes a lent count back. Called by the server.
    #[must_use]
    pub fn reclaim(self, capacity: u32) -> u32 {
        let count = u64::from_le(self.0.swap(0, Ordering::AcqRel)) & !LENT;
        count.min(capacity.into()) as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_lent_count_is_changed_within_its_limits() {
        let word = AtomicU64::new(0);
        let count = CountWord::new(&word);
        assert!(!count.put(2) && !count.get(), "nothing is lent yet");
        count.lend(1);
        assert!(count.put(2) && !count.put(2), "it is full with 2");
        assert!(count.get() && count.get() && !count.get());
        assert!(count.put(2));
        assert_eq!(count.reclaim(2), 1);
        assert!(!count.put(2) && !count.get(), "the server has it");
    }

    #[test]
    fn count_written_by_a_peer_is_clamped_to_the_capacity() {
        for nonsense in [u64::MAX, LENT, 1, u64::MAX >> 1, 7 | LENT] {
            let word = AtomicU64::new(nonsense.to_le());
            let count = CountWord::new(&word);
            let _ = count.put(3);
            assert!(count.reclaim(3) <= 3);
        }
        let word = AtomicU64::new(u64::MAX);
        assert!(!CountWord::new(&word).put(u32::MAX), "it is above every capacity");
    }
}
