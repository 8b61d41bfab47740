//! Sleep and wake-up without lost wake-ups.
//!
//! A side without work polls for a while, then sleeps until the link's doorbell, an event or an interrupt,
//! wakes it. To be rung only while it sleeps, it announces the sleep in one word of its own line:
//!
//! | word | state of the owner |
//! |---|---|
//! | even | awake |
//! | odd | asleep, or about to be; a different number for each sleep |
//!
//! The sleeper: [`arm`](Sleeper::arm), poll once more, sleep if that found nothing,
//! [`disarm`](Sleeper::disarm). The waker: publish, then ring if [`must_ring`](Waker::must_ring).
//!
//! # Why no wake-up is lost
//! Each side stores and then loads what the other stores: the sleeper its line, then the slot; the waker the
//! slot, then the line. Without a barrier a processor may let the load overtake the store before it. Both
//! sides may then see the old value, and the sleeper sleeps although a message is there. A barrier between
//! store and load on *both* sides forbids that outcome: whichever barrier comes first in their common order,
//! the load after the other barrier sees the store before it. So the sleeper's last poll finds the message,
//! or the waker finds the line odd and rings, or both. [`WakeOrder`] describes where the barriers come from.
//! Release and acquire are not enough, and a processor emulated without its barriers (QEMU with a single
//! possible CPU) loses wake-ups.
//!
//! The doorbell must be latched: a ring between the last poll and the sleep must end that sleep. Counting
//! events and interrupts are latched. A ring that arrives late, after the sleeper woke for another reason,
//! ends its next sleep early, which costs one poll.
//!
//! # Temporary fencing by the waker
//! The sleeper's barrier under [`WakeOrder::Asymmetric`] costs nothing while no side sleeps, but is expensive
//! when both sides sleep for each message: it interrupts the very processor that was just woken. So a waker
//! that had to ring announces in a word of its own that it fences from now on, and does so until about a
//! thousand messages have passed without a ring. A sleeper that sees the word set skips its barrier.
//!
//! *Starting:* the word is stored with release after the check that rang. A sleeper that loads it with
//! acquire sees every message before it, and every later message is followed by a fence.
//!
//! *Stopping:* the waker stores zero, executes the heavy barrier, and only then stops fencing. A sleeper
//! stores its line, fences, and loads the word. If it still sees the word set, that load preceded the heavy
//! barrier on its processor, and so did the store of its line, which every later check of the waker therefore
//! sees. If it sees zero, it executes the barrier itself.
//!
//! A peer that announces fences but omits them only delays the detection of its own messages until a
//! deadline, like a peer that never rings. For a peer that never announces fences, from an earlier build, the
//! sleeper always executes the barrier.
//!
//! The waker rings once for each sleep: it remembers the odd number for which it rang. So a sleeper must arm
//! anew before every sleep, and a waker must not lose a ring that its link refused. A hostile sleeper can
//! make its peer ring at most once per message.

use core::sync::atomic::compiler_fence;

use tombolo_base::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use tombolo_base::sync::fence;
use tombolo_base::{CacheMaintenance, Coherent, SharedMemory, SharedWords};

use crate::config::{LayoutError, check_line};

/// Bytes of a sleep line that are used.
pub const SLEEP_LINE_BYTES: usize = 8;

/// Bytes of a sleep line that are used if wakers [announce](Waker::with_own_fence_line) that they fence.
pub const FENCE_LINE_BYTES: usize = 16;

/// Index of the word in a side's sleep line that announces that it fences before it checks the peer's line.
const FENCE_WORD: usize = 1;

/// Messages without a ring after which a waker may stop fencing.
const QUIET_MESSAGES: u32 = 1024;

/// Source of the waking side's barrier. Both sides must use the same order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WakeOrder {
    /// Each side executes a sequentially consistent fence. Works on any link, but costs the waker a fence for
    /// every message (5 to 20 ns).
    Fence,
    /// The waker only prevents compiler reordering; the sleeper makes every processor that may run the waker
    /// execute a full barrier. On Linux that is `membarrier(2)` with `MEMBARRIER_CMD_GLOBAL_EXPEDITED`, for
    /// which the *waking* process must have registered. Works only between processes of one kernel.
    ///
    /// The barrier falls somewhere in the waker's program. If it falls before the waker's load of the line,
    /// the load sees the line odd, because the line was stored before the barrier. If it falls after, the
    /// store of the message also preceded the barrier and was completed by it, so the sleeper's last poll
    /// sees the message.
    Asymmetric,
}

/// Sleeping side: owns the sleep line that the peer's [`Waker`] reads.
#[derive(Debug)]
pub struct Sleeper<C: CacheMaintenance = Coherent> {
    line: SharedMemory<C>,
    order: WakeOrder,
    sequence: u64,
    /// Line in which the peer announces that it fences.
    peer_line: Option<SharedMemory<C>>,
}

impl<C: CacheMaintenance> Sleeper<C> {
    /// Creates a sleeper in the awake state. `line` must be zero.
    ///
    /// # Errors
    /// [`LayoutError::LineLength`] when `line` has fewer than [`SLEEP_LINE_BYTES`].
    pub fn new(line: SharedMemory<C>, order: WakeOrder) -> Result<Self, LayoutError> {
        check_line("sleep", &line, SLEEP_LINE_BYTES)?;
        Ok(Sleeper { line, order, sequence: 0, peer_line: None })
    }

    /// Skips the heavy barrier while the peer announces in `peer_line`, the peer's own sleep line, that it
    /// fences.
    ///
    /// # Errors
    /// [`LayoutError::LineLength`] when `peer_line` has fewer than [`FENCE_LINE_BYTES`].
    pub fn with_peer_fence_line(self, peer_line: SharedMemory<C>) -> Result<Self, LayoutError> {
        check_line("sleep", &peer_line, FENCE_LINE_BYTES)?;
        Ok(Sleeper { peer_line: Some(peer_line), ..self })
    }

    /// Whether the peer announces that it fences. The caller must have stored its line and fenced.
    fn peer_fences(&self) -> bool {
        self.peer_line.as_ref().is_some_and(|line| line.load_current_le(FENCE_WORD, Acquire) != 0)
    }

    /// Announces that this side is about to sleep, and orders the announcement before the poll that must
    /// follow. Arming an armed sleeper starts another sleep.
    ///
    /// Calls `heavy_barrier` only for [`WakeOrder::Asymmetric`], and not while the peer fences itself. If it
    /// fails, do not sleep: [`disarm`](Self::disarm) and keep polling.
    ///
    /// # Errors
    /// Returns the error of `heavy_barrier`.
    pub fn arm<E>(&mut self, heavy_barrier: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        self.sequence = (self.sequence + 1) | 1;
        self.line.store_through_le(0, self.sequence, Relaxed);
        match self.order {
            WakeOrder::Fence => fence(SeqCst),
            WakeOrder::Asymmetric => {
                fence(SeqCst);
                if !self.peer_fences() {
                    heavy_barrier()?;
                    compiler_fence(SeqCst);
                }
            }
        }
        Ok(())
    }

    /// Announces that this side is awake. Does nothing if it is not armed.
    pub fn disarm(&mut self) {
        if self.is_armed() {
            self.sequence += 1;
            self.line.store_through_le(0, self.sequence, Relaxed);
        }
    }

    /// Whether the line announces a sleep.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.sequence % 2 == 1
    }
}

/// Waking side: reads the peer's sleep line after each publication.
#[derive(Debug)]
pub struct Waker<C: CacheMaintenance = Coherent> {
    line: SharedWords<1, C>,
    order: WakeOrder,
    /// Whether a check needs no fence. False under the asymmetric order while this waker fences temporarily.
    fence_free: bool,
    /// Number of the sleep that was last rung for; zero, which is even, means none.
    last_rung: u64,
    /// This side's own sleep line, in which it announces that it fences.
    own_line: Option<SharedMemory<C>>,
    /// Messages since the last ring, counted while fencing.
    quiet_messages: u32,
}

/// Action required of a waker after it published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeCheck {
    /// The peer is awake or was already rung for; nothing to do.
    NotNeeded,
    /// Ring the doorbell.
    Ring,
    /// The peer needs no ring, and this side has fenced long enough without one: it may
    /// [stop](Waker::stop_fencing).
    StopFencing,
}

impl<C: CacheMaintenance> Waker<C> {
    /// Creates a waker of the peer that owns the sleep line `line`.
    ///
    /// # Errors
    /// [`LayoutError::LineLength`] when `line` has fewer than [`SLEEP_LINE_BYTES`].
    pub fn new(line: SharedMemory<C>, order: WakeOrder) -> Result<Self, LayoutError> {
        check_line("sleep", &line, SLEEP_LINE_BYTES)?;
        let line = SharedWords::first_of(line);
        let fence_free = order == WakeOrder::Asymmetric;
        Ok(Waker { line, order, fence_free, last_rung: 0, own_line: None, quiet_messages: 0 })
    }

    /// Fences temporarily after each ring, and announces it in `own_line`, this side's own sleep line.
    ///
    /// # Errors
    /// [`LayoutError::LineLength`] when `own_line` has fewer than [`FENCE_LINE_BYTES`].
    pub fn with_own_fence_line(self, own_line: SharedMemory<C>) -> Result<Self, LayoutError> {
        check_line("sleep", &own_line, FENCE_LINE_BYTES)?;
        Ok(Waker { own_line: Some(own_line), ..self })
    }

    /// Whether the doorbell must be rung now. Call it after publishing. Returns true once for each sleep.
    #[inline]
    #[must_use = "a doorbell that is not rung leaves the peer asleep"]
    pub fn must_ring(&mut self) -> bool {
        self.check() == WakeCheck::Ring
    }

    /// Whether [`check`](Self::check) has nothing to do: the peer is awake or was already rung for, and this
    /// side is not fencing temporarily. Makes no call and stores nothing.
    #[inline(always)]
    #[must_use = "a doorbell that is not rung leaves the peer asleep"]
    pub fn is_quiet(&self) -> bool {
        if self.fence_free {
            compiler_fence(SeqCst);
        } else if self.is_fencing() {
            return false;
        } else {
            fence(SeqCst);
        }
        let sequence = self.line.load_current_le::<0>(Relaxed);
        sequence.is_multiple_of(2) || sequence == self.last_rung
    }

    /// Like [`must_ring`](Self::must_ring), for callers that can execute the heavy barrier that ends fencing.
    #[inline]
    #[must_use = "a doorbell that is not rung leaves the peer asleep"]
    pub fn check(&mut self) -> WakeCheck {
        if self.fence_free {
            compiler_fence(SeqCst);
        } else {
            fence(SeqCst);
        }
        let sequence = self.line.load_current_le::<0>(Relaxed);
        if sequence.is_multiple_of(2) || sequence == self.last_rung {
            return if self.is_fencing() { self.count_message_without_ring() } else { WakeCheck::NotNeeded };
        }
        self.last_rung = sequence;
        if tombolo_base::canary!("doorbell is forgotten") {
            return WakeCheck::NotNeeded;
        }
        self.start_fencing();
        WakeCheck::Ring
    }

    /// Whether this waker fences temporarily, beyond what its order requires.
    #[inline(always)]
    fn is_fencing(&self) -> bool {
        !self.fence_free && self.order == WakeOrder::Asymmetric
    }

    #[cold]
    fn start_fencing(&mut self) {
        self.quiet_messages = 0;
        if let (Some(line), true) = (&self.own_line, self.fence_free) {
            self.fence_free = false;
            line.store_through_le(FENCE_WORD, 1, Release);
        }
    }

    fn count_message_without_ring(&mut self) -> WakeCheck {
        self.quiet_messages = self.quiet_messages.saturating_add(1);
        if self.quiet_messages < QUIET_MESSAGES { WakeCheck::NotNeeded } else { WakeCheck::StopFencing }
    }

    /// Hands the barrier back to the sleeper. `heavy_barrier` is the same as for [`Sleeper::arm`].
    pub fn stop_fencing(&mut self, heavy_barrier: impl FnOnce()) {
        if let (Some(line), true) = (&self.own_line, self.is_fencing()) {
            line.store_through_le(FENCE_WORD, 0, Release);
            heavy_barrier();
            self.fence_free = true;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn pair(order: WakeOrder) -> (Sleeper, Waker, SharedMemory) {
        let line = SharedMemory::zeroed(SLEEP_LINE_BYTES);
        (Sleeper::new(line.clone(), order).unwrap(), Waker::new(line.clone(), order).unwrap(), line)
    }

    #[test]
    fn each_sleep_gets_one_ring() {
        for order in [WakeOrder::Fence, WakeOrder::Asymmetric] {
            let (mut sleeper, mut waker, _) = pair(order);
            assert!(!waker.must_ring());
            for _ in 0..3 {
                sleeper.arm(|| Ok::<(), ()>(())).unwrap();
                assert!(waker.must_ring());
                assert!(!waker.must_ring());
                sleeper.disarm();
                sleeper.disarm();
                assert!(!waker.must_ring());
            }
            // Arming again without disarming starts another sleep.
            for _ in 0..2 {
                sleeper.arm(|| Ok::<(), ()>(())).unwrap();
                assert!(waker.must_ring());
            }
        }
    }

    #[test]
    fn the_heavy_barrier_is_for_the_asymmetric_order_only() {
        let (mut sleeper, _, _) = pair(WakeOrder::Fence);
        assert_eq!(sleeper.arm(|| Err("called")), Ok(()));
        let (mut sleeper, mut waker, _) = pair(WakeOrder::Asymmetric);
        assert_eq!(sleeper.arm(|| Err("called")), Err("called"));
        assert!(sleeper.is_armed());
        sleeper.disarm();
        assert!(!waker.must_ring());
    }

    /// Returns a sleeper and a waker that announce fencing to each other.
    fn announcing_pair() -> (Sleeper, Waker, SharedMemory) {
        let lines = [0, 1].map(|_| SharedMemory::zeroed(FENCE_LINE_BYTES));
        let [sleepers, wakers] = lines;
        let sleeper = Sleeper::new(sleepers.clone(), WakeOrder::Asymmetric).unwrap();
        let waker = Waker::new(sleepers, WakeOrder::Asymmetric).unwrap();
        (
            sleeper.with_peer_fence_line(wakers.clone()).unwrap(),
            waker.with_own_fence_line(wakers.clone()).unwrap(),
            wakers,
        )
    }

    #[test]
    fn waker_fences_after_a_ring_until_quiet() {
        let (mut sleeper, mut waker, line) = announcing_pair();
        assert_eq!(waker.check(), WakeCheck::NotNeeded);
        assert_eq!(sleeper.arm(|| Err("called")), Err("called"));
        assert_eq!(waker.check(), WakeCheck::Ring);
        assert_eq!(line.load_le(FENCE_WORD, Relaxed), 1);
        for _ in 0..3 {
            sleeper.disarm();
            assert_eq!(sleeper.arm(|| Err("called")), Ok(()));
            assert_eq!(waker.check(), WakeCheck::Ring);
        }
        sleeper.disarm();
        for _ in 1..QUIET_MESSAGES {
            assert_eq!(waker.check(), WakeCheck::NotNeeded);
        }
        assert_eq!(waker.check(), WakeCheck::StopFencing);
        let mut called = false;
        waker.stop_fencing(|| {
            called = true;
            assert_eq!(line.load_le(FENCE_WORD, Relaxed), 0, "before the barrier");
        });
        assert!(called);
        assert_eq!(waker.check(), WakeCheck::NotNeeded);
        waker.stop_fencing(|| panic!("it does not fence"));
        assert_eq!(sleeper.arm(|| Err("called")), Err("called"));
    }

    #[test]
    fn ring_resets_the_fencing_count_and_no_line_means_no_fencing() {
        let (mut sleeper, mut waker, _) = announcing_pair();
        sleeper.arm(|| Ok::<(), ()>(())).unwrap();
        assert!(waker.must_ring());
        for _ in 1..QUIET_MESSAGES {
            assert_eq!(waker.check(), WakeCheck::NotNeeded);
        }
        sleeper.disarm();
        sleeper.arm(|| Ok::<(), ()>(())).unwrap();
        assert_eq!(waker.check(), WakeCheck::Ring);
        assert_eq!(waker.check(), WakeCheck::NotNeeded);
        let (mut sleeper, mut waker, _) = pair(WakeOrder::Asymmetric);
        sleeper.arm(|| Ok::<(), ()>(())).unwrap();
        assert!(waker.must_ring());
        for _ in 0..2 * QUIET_MESSAGES {
            assert_eq!(waker.check(), WakeCheck::NotNeeded);
        }
        let short = SharedMemory::zeroed(SLEEP_LINE_BYTES);
        assert!(
            waker.with_own_fence_line(short.clone()).is_err() && sleeper.with_peer_fence_line(short).is_err()
        );
    }

    #[test]
    fn waker_is_quiet_if_and_only_if_check_does_nothing() {
        let (mut armed, of_armed, _) = pair(WakeOrder::Fence);
        let (mut asymmetric, of_asymmetric, _) = pair(WakeOrder::Asymmetric);
        let (mut announcing, of_announcing, _) = announcing_pair();
        for (sleeper, mut waker, fences) in [
            (&mut armed, of_armed, false),
            (&mut asymmetric, of_asymmetric, false),
            (&mut announcing, of_announcing, true),
        ] {
            assert!(waker.is_quiet());
            sleeper.arm(|| Ok::<(), ()>(())).unwrap();
            assert!(!waker.is_quiet() && !waker.is_quiet(), "a look rings for no sleep");
            assert!(waker.must_ring());
            // A fencing waker counts quiet messages in `check`.
            assert_eq!(waker.is_quiet(), !fences);
            sleeper.disarm();
            assert_eq!(waker.is_quiet(), !fences);
            waker.stop_fencing(|| ());
            assert!(waker.is_quiet());
        }
    }

    #[test]
    fn arbitrary_words_do_not_panic() {
        let (_, mut waker, line) = pair(WakeOrder::Fence);
        for (word, rings) in [(u64::MAX, true), (u64::MAX, false), (u64::MAX - 1, false), (7, true)] {
            line.store_le(0, word, Relaxed);
            assert_eq!(waker.must_ring(), rings);
        }
        assert!(Waker::new(SharedMemory::zeroed(0), WakeOrder::Fence).is_err());
    }
}
