//! Sleep without lost wake-ups: [`tombolo_ring::doorbell`] for both directions of a channel.

use tombolo_base::CacheMaintenance;
use tombolo_ring::Sleeper;

use super::{ChannelEnd, Signals};

/// Condition that a side waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// A message, or the end of the channel.
    Message,
    /// Room for the message that was last refused.
    Room,
    /// A message or room.
    Both,
}

impl Awaited {
    fn message(self) -> bool {
        matches!(self, Awaited::Message | Awaited::Both)
    }

    fn room(self) -> bool {
        matches!(self, Awaited::Room | Awaited::Both)
    }
}

/// Work that remains after a sleep was announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Announced {
    /// Nothing remains: the announcement is visible to the peer.
    Complete,
    /// A barrier in place of the peer's fence is required: [`Signals::barrier`], or one for many channels.
    NeedsBarrier,
}

impl<S: Signals, C: CacheMaintenance> ChannelEnd<S, C> {
    /// Announces that this side is about to sleep. Execute the barrier if the result requires it, then do a
    /// [last poll](Self::may_sleep), sleep, and call [`finish_sleep`](Self::finish_sleep).
    #[must_use = "without the barrier a wake-up can be lost"]
    pub fn announce(&mut self, awaited: Awaited) -> Announced {
        let ends = &mut self.ends;
        // Announces both unconditionally: the peer may fence for one and not for the other.
        let message = if awaited.message() { arm(&mut ends.sleeper) } else { Announced::Complete };
        let room = if awaited.room() { arm(&mut ends.room_sleeper) } else { Announced::Complete };
        if message == Announced::NeedsBarrier { message } else { room }
    }

    /// Runs [`announce`](Self::announce), the barrier, and the [last poll](Self::may_sleep).
    #[must_use = "sleeping on what is already there can last for ever"]
    pub fn prepare_to_sleep(&mut self, awaited: Awaited) -> bool {
        if self.announce(awaited) == Announced::NeedsBarrier {
            self.signals.barrier();
        }
        self.may_sleep(awaited)
    }

    /// Polls a last time before a sleep. Returns false if the awaited condition already holds.
    ///
    /// After it returned true, every awaited action of the peer rings this side: no wake-up is lost.
    #[must_use = "sleeping on what is already there can last for ever"]
    pub fn may_sleep(&mut self, awaited: Awaited) -> bool {
        // Unconditional, because it returns slots that the peer may be waiting for.
        let nothing_to_read = !self.has_message_or_end();
        let no_room = !self.sendable();
        let may_sleep = (nothing_to_read || !awaited.message()) && (no_room || !awaited.room());
        self.sleeps += u64::from(may_sleep);
        may_sleep
    }

    /// Whether the awaited condition holds.
    #[inline]
    pub fn is_ready(&mut self, awaited: Awaited) -> bool {
        (awaited.message() && self.readable()) || (awaited.room() && self.sendable())
    }

    /// Withdraws the announcement. After a sleep ended by a bell or lifeline (`rung`), also reads both.
    pub fn finish_sleep(&mut self, rung: bool) {
        if !self.closed {
            self.ends.sleeper.disarm();
        }
        self.ends.room_sleeper.disarm();
        if rung {
            self.poll_signals();
        }
    }
}

/// Announces a sleep. The agreed order determines whether that needs a barrier.
pub(super) fn arm<C: CacheMaintenance>(sleeper: &mut Sleeper<C>) -> Announced {
    let mut announced = Announced::Complete;
    let Ok(()) = sleeper.arm(|| {
        announced = Announced::NeedsBarrier;
        Ok::<(), core::convert::Infallible>(())
    });
    announced
}
