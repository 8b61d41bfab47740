//! Sleeping without losing a wake-up.
//!
//! A side with nothing to do first polls for a while, then sleeps and is woken by whatever the link has: an event,
//! an interrupt. To be woken only when it sleeps, it says so in a line of its own, one word:
//!
//! | word | owner |
//! |---|---|
//! | even | awake |
//! | odd | asleep, or about to be; another number at each sleep |
//!
//! The sleeper: [`arm`](Sleeper::arm), poll once more, sleep if there was nothing, [`disarm`](Sleeper::disarm).
//! The waker: publish, then ring if [`must_ring`](Waker::must_ring).
//!
//! # Why no wake-up is lost
//! Each side stores and then loads what the other stores: the sleeper its line, then the slot; the waker the slot,
//! then the line. Left alone, a processor lets such a load overtake the store before it, both sides may see the
//! old value, and the sleeper sleeps over a message. A barrier between store and load on *both* sides forbids
//! that outcome: whichever barrier comes first in their one order, the store before it is seen by the load after
//! the other. So the sleeper's last poll finds the message, or the waker finds the line odd and rings, or both.
//! [`WakeOrder`] says where the barriers come from. Release and acquire are not enough, and a processor
//! emulated without its barriers (QEMU with a single possible CPU) loses wake-ups.
//!
//! The argument needs the doorbell itself to be remembered: a ring that arrives between the last poll and the
//! sleep must end that sleep. Events and interrupts with a count do. A ring that arrives late, after the sleeper
//! woke for another reason, ends its next sleep early, which costs one poll.
//!
//! # A waker that fences for a while
//! The sleeper's barrier under [`WakeOrder::Asymmetric`] costs nothing while nobody sleeps, and much when both sides
//! sleep for each message: it interrupts the very processor that was just woken. So a waker that had to ring says so
//! in a word of its own and from then on fences for itself, until a thousand messages passed without a ring; a sleeper
//! that sees the word spares its barrier.
//!
//! *Saying so:* the word is stored with release after the look that rang. A sleeper that loads it, with acquire, sees
//! every message before it, and every later one is fenced.
//!
//! *Taking it back:* the waker stores zero, executes the heavy barrier, and only then stops fencing. A sleeper stores
//! its line, fences, and loads the word. If it still saw the word set, that load came before the heavy barrier took
//! effect on its processor, and with it the store of its line, which every later look of the waker therefore sees. If
//! it saw zero it executes the barrier itself.
//!
//! A peer that says it fences and does not only leaves its own messages unheard until a deadline, as one that never
//! rings does. One that never says anything, of an earlier build, is waited for with the barrier.
//!
//! The waker rings once for each sleep: it remembers the odd number that it rang for. A sleeper must therefore arm
//! anew before every sleep, and a waker must not forget a ring that its link refused. A hostile sleeper can make its
//! own peer ring once per message, no more.

use core::sync::atomic::compiler_fence;

use tombolo_base::SharedMemory;
use tombolo_base::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use tombolo_base::sync::fence;

use crate::config::{LayoutError, check_line};

/// Bytes of a sleep line that are used.
pub const SLEEP_LINE_BYTES: usize = 8;

/// Bytes of a sleep line that are used where wakers [say](Waker::with_own_fence_line) when they fence.
pub const FENCE_LINE_BYTES: usize = 16;

/// Word of a side's sleep line in which it says that it fences before it looks at the peer's.
const FENCE_WORD: usize = 1;

/// Messages without a ring after which a waker stops fencing.
const QUIET_MESSAGES: u32 = 1024;

/// Where the barrier of the waking side comes from. Both sides must be given the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WakeOrder {
    /// Each side executes a sequentially consistent fence. Works on any link; costs the waker a fence on every
    /// message (some 5 to 20 ns).
    Fence,
    /// The waker only keeps its compiler from reordering; the sleeper makes every processor that may run the waker
    /// execute a full barrier. On Linux that is `membarrier(2)` with `MEMBARRIER_CMD_GLOBAL_EXPEDITED`, for which
    /// the *waking* process must have registered. Only between processes of one kernel.
    ///
    /// The barrier falls somewhere in the waker's program. If before its load of the line, the load sees the line
    /// odd, since that was stored before the barrier. If after, the store of the message came before the barrier
    /// too, which completed it, and the sleeper's last poll sees it.
    Asymmetric,
}

/// The sleeping side's line: written by the sleeper, read by the peer's [`Waker`].
#[derive(Debug)]
pub struct Sleeper {
    line: SharedMemory,
    order: WakeOrder,
    sequence: u64,
    /// Where the peer says that it fences.
    fences: Option<SharedMemory>,
}

impl Sleeper {
    /// A sleeper, awake, with `line`, which must be zero.
    ///
    /// # Errors
    /// [`LayoutError::LineLength`] when it has less than [`SLEEP_LINE_BYTES`].
    pub fn new(line: SharedMemory, order: WakeOrder) -> Result<Self, LayoutError> {
        check_line("sleep", &line, SLEEP_LINE_BYTES)?;
        Ok(Sleeper { line, order, sequence: 0, fences: None })
    }

    /// Spares the heavy barrier while the peer says in `peer_line`, its own sleep line, that it fences.
    ///
    /// # Errors
    /// [`LayoutError::LineLength`] when it has less than [`FENCE_LINE_BYTES`].
    pub fn with_peer_fence_line(self, peer_line: SharedMemory) -> Result<Self, LayoutError> {
        check_line("sleep", &peer_line, FENCE_LINE_BYTES)?;
        Ok(Sleeper { fences: Some(peer_line), ..self })
    }

    /// Whether the peer says that it fences. The caller's line is stored, and fenced, before.
    fn peer_fences(&self) -> bool {
        self.fences.as_ref().is_some_and(|line| line.load_le(FENCE_WORD, Acquire) != 0)
    }

    /// Says that this side is about to sleep, and orders that before the poll that must follow.
    ///
    /// `heavy_barrier` is called for [`WakeOrder::Asymmetric`] only, see there, and not while the peer fences for
    /// itself. If it fails, do not sleep:
    /// [`disarm`](Self::disarm) and go on polling. Arming an armed sleeper starts another sleep.
    ///
    /// # Errors
    /// Whatever `heavy_barrier` returned.
    pub fn arm<E>(&mut self, heavy_barrier: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        self.sequence = (self.sequence + 1) | 1;
        self.line.store_le(0, self.sequence, Relaxed);
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

    /// Says that this side is awake. Does nothing if it was not armed.
    pub fn disarm(&mut self) {
        if self.is_armed() {
            self.sequence += 1;
            self.line.store_le(0, self.sequence, Relaxed);
        }
    }

    /// Whether the line says asleep.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.sequence % 2 == 1
    }
}

/// The waking side: reads the peer's sleep line after it published.
#[derive(Debug)]
pub struct Waker {
    line: SharedMemory,
    order: WakeOrder,
    /// The sleep that was last rung for. Zero, being even, is none.
    rung: u64,
    /// This side's own sleep line, where it says that it fences.
    says: Option<SharedMemory>,
    /// It does, although the order does not ask for it.
    fencing: bool,
    /// Messages since it last rang, while it fences.
    quiet_messages: u32,
}

/// What a waker has to do after it published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeCheck {
    /// Nothing: the peer is awake, or was rung for already.
    NotNeeded,
    /// Ring the doorbell.
    Ring,
    /// Nothing for the peer; but this side has fenced for long in vain and may [stop](Waker::stop_fencing).
    StopFencing,
}

impl Waker {
    /// A waker of the peer whose sleep line is `line`.
    ///
    /// # Errors
    /// [`LayoutError::LineLength`] when it has less than [`SLEEP_LINE_BYTES`].
    pub fn new(line: SharedMemory, order: WakeOrder) -> Result<Self, LayoutError> {
        check_line("sleep", &line, SLEEP_LINE_BYTES)?;
        Ok(Waker { line, order, rung: 0, says: None, fencing: false, quiet_messages: 0 })
    }

    /// Fences after it had to ring, and says so in `own_line`, this side's own sleep line.
    ///
    /// # Errors
    /// [`LayoutError::LineLength`] when it has less than [`FENCE_LINE_BYTES`].
    pub fn with_own_fence_line(self, own_line: SharedMemory) -> Result<Self, LayoutError> {
        check_line("sleep", &own_line, FENCE_LINE_BYTES)?;
        Ok(Waker { says: Some(own_line), ..self })
    }

    /// To be asked after publishing: whether the doorbell must be rung now. True once for each sleep.
    #[inline]
    #[must_use = "a doorbell that is not rung leaves the peer asleep"]
    pub fn must_ring(&mut self) -> bool {
        self.check() == WakeCheck::Ring
    }

    /// As [`must_ring`](Self::must_ring), for who can execute the heavy barrier by which a waker stops fencing.
    #[inline]
    #[must_use = "a doorbell that is not rung leaves the peer asleep"]
    pub fn check(&mut self) -> WakeCheck {
        match self.order {
            WakeOrder::Asymmetric if !self.fencing => compiler_fence(SeqCst),
            WakeOrder::Asymmetric | WakeOrder::Fence => fence(SeqCst),
        }
        let sequence = self.line.load_le(0, Relaxed);
        if sequence.is_multiple_of(2) || sequence == self.rung {
            return if self.fencing { self.count_quiet() } else { WakeCheck::NotNeeded };
        }
        self.rung = sequence;
        if tombolo_base::canary!("doorbell is forgotten") {
            return WakeCheck::NotNeeded;
        }
        self.start_fencing();
        WakeCheck::Ring
    }

    #[cold]
    fn start_fencing(&mut self) {
        self.quiet_messages = 0;
        if let (WakeOrder::Asymmetric, Some(line), false) = (self.order, &self.says, self.fencing) {
            self.fencing = true;
            line.store_le(FENCE_WORD, 1, Release);
        }
    }

    fn count_quiet(&mut self) -> WakeCheck {
        self.quiet_messages = self.quiet_messages.saturating_add(1);
        if self.quiet_messages < QUIET_MESSAGES { WakeCheck::NotNeeded } else { WakeCheck::StopFencing }
    }

    /// Leaves the barrier to the sleeper again. `heavy_barrier` is that of [`Sleeper::arm`].
    pub fn stop_fencing(&mut self, heavy_barrier: impl FnOnce()) {
        if let (Some(line), true) = (&self.says, self.fencing) {
            line.store_le(FENCE_WORD, 0, Release);
            heavy_barrier();
            self.fencing = false;
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
    fn each_sleep_is_rung_for_once() {
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
            // Armed again without having been awake: another sleep.
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

    /// A sleeper and a waker that tell each other who fences.
    fn talking_pair() -> (Sleeper, Waker, SharedMemory) {
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
    fn a_waker_that_rang_fences_and_spares_the_sleeper_its_barrier_until_all_is_calm() {
        let (mut sleeper, mut waker, line) = talking_pair();
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
    fn a_ring_puts_off_the_calm_and_a_waker_that_cannot_say_so_never_fences() {
        let (mut sleeper, mut waker, _) = talking_pair();
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
    fn any_word_is_survived() {
        let (_, mut waker, line) = pair(WakeOrder::Fence);
        for (word, rings) in [(u64::MAX, true), (u64::MAX, false), (u64::MAX - 1, false), (7, true)] {
            line.store_le(0, word, Relaxed);
            assert_eq!(waker.must_ring(), rings);
        }
        assert!(Waker::new(SharedMemory::zeroed(0), WakeOrder::Fence).is_err());
    }
}
