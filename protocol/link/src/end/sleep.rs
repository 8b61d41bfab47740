//! Sleeping without losing a wake-up: [`tombolo_ring::doorbell`] for both directions of a channel.

use tombolo_ring::Sleeper;

use super::{ChannelEnd, Signals};

/// What a side waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// A message, or the end.
    Message,
    /// Room for the message that last found none.
    Room,
    /// Either.
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

/// What an announcement of a sleep still lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Announced {
    /// Nothing: the peer sees it.
    Complete,
    /// A barrier that this end spares its peer: [`Signals::barrier`], or another that does for many channels.
    NeedsBarrier,
}

impl<S: Signals> ChannelEnd<S> {
    /// Says that this side is about to sleep. What follows is the barrier if the answer says so, a
    /// [last look](Self::may_sleep), the sleep, and [`awake`](Self::awake).
    #[must_use = "without the barrier a wake-up can be lost"]
    pub fn announce(&mut self, awaited: Awaited) -> Announced {
        let ends = &mut self.ends;
        // Both announced, whatever the first lacks: the peer may fence for one and not for the other.
        let message = if awaited.message() { arm(&mut ends.sleeper) } else { Announced::Complete };
        let room = if awaited.room() { arm(&mut ends.room_sleeper) } else { Announced::Complete };
        if message == Announced::NeedsBarrier { message } else { room }
    }

    /// [`announce`](Self::announce), with the barrier, and the [last look](Self::may_sleep).
    #[must_use = "sleeping on what is already there can last for ever"]
    pub fn about_to_sleep(&mut self, awaited: Awaited) -> bool {
        if self.announce(awaited) == Announced::NeedsBarrier {
            self.signals.barrier();
        }
        self.may_sleep(awaited)
    }

    /// The last look before a sleep: false when what is awaited came meanwhile.
    ///
    /// Once it returned true, whatever the peer does that was awaited rings this side: no wake-up is lost.
    #[must_use = "sleeping on what is already there can last for ever"]
    pub fn may_sleep(&mut self, awaited: Awaited) -> bool {
        // In any case, for it gives back all room that the peer may be waiting for.
        let nothing_to_read = !self.has_message_or_end();
        let no_room = !self.sendable();
        let may_sleep = (nothing_to_read || !awaited.message()) && (no_room || !awaited.room());
        self.sleeps += u64::from(may_sleep);
        may_sleep
    }

    /// Whether what is awaited is there.
    #[inline]
    pub fn is_ready(&mut self, awaited: Awaited) -> bool {
        (awaited.message() && self.readable()) || (awaited.room() && self.sendable())
    }

    /// Takes back the announcement; after a sleep that a bell or a lifeline ended (`rung`), also takes note of what
    /// they say.
    pub fn awake(&mut self, rung: bool) {
        if !self.closed {
            self.ends.sleeper.disarm();
        }
        self.ends.room_sleeper.disarm();
        if rung {
            self.listen();
        }
    }
}

/// Says asleep. Whether that needs a barrier yet depends on the order that the two sides agreed on.
pub(super) fn arm(sleeper: &mut Sleeper) -> Announced {
    let mut announced = Announced::Complete;
    let Ok(()) = sleeper.arm(|| {
        announced = Announced::NeedsBarrier;
        Ok::<(), core::convert::Infallible>(())
    });
    announced
}
