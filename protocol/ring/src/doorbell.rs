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
//! The waker rings once for each sleep: it remembers the odd number that it rang for. A sleeper must therefore arm
//! anew before every sleep, and a waker must not forget a ring that its link refused. A hostile sleeper can make its
//! own peer ring once per message, no more.

use core::sync::atomic::compiler_fence;

use tombolo_base::SharedMemory;
use tombolo_base::sync::Ordering::{Relaxed, SeqCst};
use tombolo_base::sync::fence;

use crate::config::{LayoutError, check_line};

/// Bytes of a sleep line that are used.
pub const SLEEP_LINE_BYTES: usize = 8;

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
}

impl Sleeper {
    /// A sleeper, awake, with `line`, which must be zero.
    ///
    /// # Errors
    /// [`LayoutError::LineLength`] when it has less than [`SLEEP_LINE_BYTES`].
    pub fn new(line: SharedMemory, order: WakeOrder) -> Result<Self, LayoutError> {
        check_line("sleep", &line, SLEEP_LINE_BYTES)?;
        Ok(Sleeper { line, order, sequence: 0 })
    }

    /// Says that this side is about to sleep, and orders that before the poll that must follow.
    ///
    /// `heavy_barrier` is called for [`WakeOrder::Asymmetric`] only, see there. If it fails, do not sleep:
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
                compiler_fence(SeqCst);
                heavy_barrier()?;
                compiler_fence(SeqCst);
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
}

impl Waker {
    /// A waker of the peer whose sleep line is `line`.
    ///
    /// # Errors
    /// [`LayoutError::LineLength`] when it has less than [`SLEEP_LINE_BYTES`].
    pub fn new(line: SharedMemory, order: WakeOrder) -> Result<Self, LayoutError> {
        check_line("sleep", &line, SLEEP_LINE_BYTES)?;
        Ok(Waker { line, order, rung: 0 })
    }

    /// To be asked after publishing: whether the doorbell must be rung now. True once for each sleep.
    #[inline]
    #[must_use = "a doorbell that is not rung leaves the peer asleep"]
    pub fn must_ring(&mut self) -> bool {
        match self.order {
            WakeOrder::Fence => fence(SeqCst),
            WakeOrder::Asymmetric => compiler_fence(SeqCst),
        }
        let sequence = self.line.load_le(0, Relaxed);
        if sequence.is_multiple_of(2) || sequence == self.rung {
            return false;
        }
        self.rung = sequence;
        true
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
