//! Channels in coherent or incoherent memory, for programs that learn the kind at run time.
//!
//! All other types of this crate have the kind of memory as a parameter, so code for coherent memory has no
//! branch for it. Boards, and programs that place rings in a window, choose the kind by the window that they
//! were given.

use alloc::vec::Vec;

use tombolo_base::coherence::{Caches, Flushed, NoCacheInstructions};
use tombolo_base::{OutOfRange, SharedMemory};
use tombolo_ring::Violation;

use crate::disconnect_reason::{self, DisconnectReason};
use crate::end::{Announced, Awaited, ChannelEnd, EndError, Signals, Stats};
use crate::hello::Agreed;
use crate::layout::AttachError;
use crate::open::{OpenError, Opening, Park};
use crate::{Hello, RingCounter, Side};

/// Evaluates the same expression for either variant.
macro_rules! dispatch {
    ($either:expr, $inner:ident => $then:expr) => {
        match $either {
            Either::Coherent($inner) => $then,
            Either::Flushed($inner) => $then,
        }
    };
}

/// Value over either kind of memory.
#[derive(Clone, Debug)]
pub enum Either<A, B> {
    /// Memory that is coherent.
    Coherent(A),
    /// Memory whose lines are written back and invalidated.
    Flushed(B),
}

impl<A, B> Either<A, B> {
    /// Returns the value over coherent memory, or `None` over memory whose lines are written back and
    /// invalidated.
    #[must_use]
    pub fn coherent(self) -> Option<A> {
        match self {
            Either::Coherent(inner) => Some(inner),
            Either::Flushed(_) => None,
        }
    }
}

/// Memory of a channel, of either kind.
pub type EitherMemory = Either<SharedMemory, SharedMemory<Flushed>>;

impl EitherMemory {
    /// Creates one side's view of `memory`. The memory is coherent unless `caches` is given.
    ///
    /// # Errors
    /// [`NoCacheInstructions`]; see [`Caches::view`].
    pub fn view(memory: SharedMemory, caches: Option<Caches>) -> Result<Self, NoCacheInstructions> {
        Ok(match caches {
            None => Either::Coherent(memory),
            Some(caches) => Either::Flushed(caches.view(memory)?),
        })
    }

    /// Creates the ring counter of `side`.
    ///
    /// # Errors
    /// Same as [`RingCounter::new`].
    pub fn ring_counter(&self, side: Side) -> Result<EitherRings, OutOfRange> {
        Ok(match self {
            Either::Coherent(memory) => Either::Coherent(RingCounter::new(memory, side)?),
            Either::Flushed(memory) => Either::Flushed(RingCounter::new(memory, side)?),
        })
    }

    /// Starts to open a channel, as [`Opening::start`] does.
    ///
    /// # Errors
    /// Same as [`Opening::start`].
    pub fn open(
        &self,
        side: Side,
        hello: Hello,
        signals: &mut impl Signals,
    ) -> Result<EitherOpening, OutOfRange> {
        Ok(match self {
            Either::Coherent(memory) => Either::Coherent(Opening::start(memory, side, hello, signals)?),
            Either::Flushed(memory) => Either::Flushed(Opening::start(memory, side, hello, signals)?),
        })
    }

    /// Same as [`disconnect_reason::disconnect_reason`].
    #[must_use]
    pub fn disconnect_reason(&self, side: Side) -> Option<DisconnectReason> {
        dispatch!(self, memory => disconnect_reason::disconnect_reason(memory, side))
    }
}

/// Counter of the doorbell rings of one side.
pub type EitherRings = Either<RingCounter, RingCounter<Flushed>>;

impl EitherRings {
    /// Counts a ring. Call it before each ring.
    pub fn count(&mut self) {
        dispatch!(self, rings => rings.count());
    }
}

/// One side of a channel that is being opened.
pub type EitherOpening = Either<Opening, Opening<Flushed>>;

impl EitherOpening {
    /// Same as [`Opening::step`].
    ///
    /// # Errors
    /// Same as [`Opening::step`].
    pub fn step(&mut self, signals: &mut impl Signals) -> Result<Option<Agreed>, OpenError> {
        dispatch!(self, opening => opening.step(signals))
    }

    /// Same as [`Opening::wait`].
    ///
    /// # Errors
    /// Same as [`Opening::wait`].
    pub fn wait<S: Park>(&mut self, signals: &mut S, until_ns: u64) -> Result<Agreed, OpenError<S::Error>> {
        dispatch!(self, opening => opening.wait(signals, until_ns))
    }

    /// Same as [`Opening::attach`].
    ///
    /// # Errors
    /// Same as [`Opening::attach`].
    pub fn attach<S: Signals>(&self, agreed: Agreed, signals: S) -> Result<EitherEnd<S>, AttachError> {
        Ok(match self {
            Either::Coherent(opening) => Either::Coherent(opening.attach(agreed, signals)?),
            Either::Flushed(opening) => Either::Flushed(opening.attach(agreed, signals)?),
        })
    }
}

/// One end of a channel, with the methods of [`ChannelEnd`].
pub type EitherEnd<S> = Either<ChannelEnd<S>, ChannelEnd<S, Flushed>>;

#[expect(missing_docs, reason = "the documentation is that of `ChannelEnd`")]
#[expect(clippy::missing_errors_doc, reason = "the documentation is that of `ChannelEnd`")]
impl<S: Signals> EitherEnd<S> {
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        dispatch!(self, end => end.try_send(message))
    }

    /// Receives a message into `buffer`, replacing its contents, and returns the length. See
    /// [`ChannelEnd::try_recv`].
    #[inline]
    pub fn try_recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, EndError> {
        dispatch!(self, end => end.try_recv(|message| {
            buffer.resize(message.len(), 0);
            // The buffer was just resized to the length of the message.
            message.copy_to(buffer).unwrap_or(0)
        }))
    }

    pub fn readable(&mut self) -> bool {
        dispatch!(self, end => end.readable())
    }

    pub fn announce(&mut self, awaited: Awaited) -> Announced {
        dispatch!(self, end => end.announce(awaited))
    }

    pub fn prepare_to_sleep(&mut self, awaited: Awaited) -> bool {
        dispatch!(self, end => end.prepare_to_sleep(awaited))
    }

    pub fn may_sleep(&mut self, awaited: Awaited) -> bool {
        dispatch!(self, end => end.may_sleep(awaited))
    }

    pub fn is_ready(&mut self, awaited: Awaited) -> bool {
        dispatch!(self, end => end.is_ready(awaited))
    }

    pub fn finish_sleep(&mut self, rung: bool) {
        dispatch!(self, end => end.finish_sleep(rung));
    }

    pub fn close(&mut self) {
        dispatch!(self, end => end.close());
    }

    #[must_use]
    pub fn signals(&self) -> &S {
        dispatch!(self, end => end.signals())
    }

    pub fn signals_mut(&mut self) -> &mut S {
        dispatch!(self, end => end.signals_mut())
    }

    #[must_use]
    pub fn violation(&self) -> Option<Violation> {
        dispatch!(self, end => end.violation())
    }

    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        dispatch!(self, end => end.max_message_bytes())
    }

    #[must_use]
    pub fn stats(&self) -> Stats {
        dispatch!(self, end => end.stats())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::end::DeferredSignals;
    use crate::{ChannelConfig, ChannelLayout};
    use tombolo_base::coherence::{EmulatedCache, Evictions};

    #[test]
    fn both_kinds_open_and_carry_messages() {
        // Few slots: an interpreter takes seconds for each slot that an emulated cache writes back.
        let config = ChannelConfig { slots: 4, ..ChannelConfig::default() };
        for caches in [None, Some(Caches::Emulated(Evictions::default()))] {
            let memory = SharedMemory::zeroed(ChannelLayout::new(config).length_bytes());
            let views = [(); 2].map(|()| EitherMemory::view(memory.clone(), caches).unwrap());
            let hello = Hello::new(config, 0, None);
            let mut openings = [(0, Side::A), (1, Side::B)].map(|(index, side)| {
                views[index].open(side, hello, &mut DeferredSignals::default()).unwrap()
            });
            let mut agreed = [None, None];
            for _ in 0..4 {
                for (opening, agreed) in openings.iter_mut().zip(&mut agreed) {
                    *agreed = agreed.or(opening.step(&mut DeferredSignals::default()).unwrap());
                }
            }
            let [a, b] = [0, 1]
                .map(|index| openings[index].attach(agreed[index].unwrap(), DeferredSignals::default()));
            let (mut a, mut b) = (a.unwrap(), b.unwrap());
            a.try_send(b"over").unwrap();
            let mut buffer = Vec::new();
            assert_eq!(b.try_recv_into(&mut buffer), Ok(Some(4)));
            assert_eq!(buffer, b"over");
            assert_eq!(b.try_recv_into(&mut buffer), Ok(None));
            if let Either::Flushed(view) = &views[0] {
                let counters = view.caches().cache().map(EmulatedCache::counters).unwrap();
                assert!(counters.written_back > 0, "the handshake went through the cache");
            }
            a.close();
            assert_eq!(b.try_recv_into(&mut buffer), Err(EndError::Closed));
        }
    }
}
