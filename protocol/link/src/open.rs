//! Opens one side of a channel in memory: runs the handshake with its doorbell and deadline, and then creates
//! the [`ChannelEnd`].
//!
//! The differences between Linux, boards and the simulator are behind [`Signals`], as for the end itself.
//! Callers that can sleep open a channel with [`wait`](Opening::wait). The simulator and a board's monitor,
//! which have other work meanwhile, use single [`step`](Opening::step)s.

use core::convert::Infallible;

use tombolo_base::{CacheMaintenance, Coherent, OutOfRange, SharedMemory};
use tombolo_ring::WakeOrder;

use crate::end::{ChannelEnd, Signals};
use crate::handshake::{Handshake, HandshakeError, Progress};
use crate::hello::{Agreed, Hello};
use crate::layout::{AttachError, ChannelConfig, ChannelLayout, Side};

/// Signals on which a side can sleep while it opens a channel.
pub trait Park: Signals {
    /// The error of a failed sleep.
    type Error;

    /// Sleeps until the bell rings, the lifeline reports something or the clock reaches `until_ns`, then
    /// [polls](Signals::poll_signals).
    ///
    /// # Errors
    /// The error of the operating system or of the monitor.
    fn park(&mut self, until_ns: u64) -> Result<(), Self::Error>;
}

/// Reason why a channel did not open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError<E = Infallible> {
    /// The two sides disagree, or one of them declined.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The peer died before it completed the handshake.
    #[error("the peer died before the channel was open")]
    PeerGone,
    /// The peer did not answer before the deadline. It was notified that this side stopped waiting.
    #[error("the peer did not answer the handshake in time")]
    TimedOut,
    /// This side failed to sleep.
    #[error("{0}")]
    Park(E),
}

impl OpenError {
    /// Converts to the error type of a side that can sleep.
    fn widen<E>(self) -> OpenError<E> {
        match self {
            OpenError::Handshake(error) => OpenError::Handshake(error),
            OpenError::PeerGone => OpenError::PeerGone,
            OpenError::TimedOut => OpenError::TimedOut,
            OpenError::Park(never) => match never {},
        }
    }
}

/// One side of a channel that is being opened.
#[derive(Debug)]
pub struct Opening<C: CacheMaintenance = Coherent> {
    handshake: Handshake<C>,
    memory: SharedMemory<C>,
    side: Side,
    config: ChannelConfig,
}

impl<C: CacheMaintenance> Opening<C> {
    /// Publishes the hello as `side` of the channel in `memory` and rings the peer.
    ///
    /// # Errors
    /// [`OutOfRange`] when the memory is too short for the handshake.
    pub fn start(
        memory: &SharedMemory<C>,
        side: Side,
        hello: Hello,
        signals: &mut impl Signals,
    ) -> Result<Self, OutOfRange> {
        let handshake = Handshake::start(memory, side, hello)?;
        signals.ring();
        Ok(Opening { handshake, memory: memory.clone(), side, config: hello.config })
    }

    /// Advances as far as the peer's answers allow. Returns `None` while it is the peer's turn.
    ///
    /// # Errors
    /// [`OpenError::Handshake`], which was reported to the peer, and [`OpenError::PeerGone`].
    pub fn step(&mut self, signals: &mut impl Signals) -> Result<Option<Agreed>, OpenError> {
        loop {
            // Read before the memory: a peer that is gone by now has already written everything.
            let peer_gone = signals.peer_gone();
            match self.handshake.step() {
                Ok(Progress::Open(agreed)) => return Ok(Some(agreed)),
                Ok(Progress::Changed) => signals.ring(),
                Ok(Progress::Waiting) if peer_gone => return Err(OpenError::PeerGone),
                Ok(Progress::Waiting) => return Ok(None),
                Err(error) => {
                    signals.ring();
                    return Err(error.into());
                }
            }
        }
    }

    /// Waits for the peer until the clock reaches `deadline_ns`.
    ///
    /// # Errors
    /// [`OpenError`]; the channel will not open.
    pub fn wait<S: Park>(
        &mut self,
        signals: &mut S,
        deadline_ns: u64,
    ) -> Result<Agreed, OpenError<S::Error>> {
        loop {
            if let Some(agreed) = self.step(signals).map_err(OpenError::widen)? {
                return Ok(agreed);
            }
            if signals.now_ns() >= deadline_ns {
                self.withdraw(signals);
                return Err(OpenError::TimedOut);
            }
            signals.park(deadline_ns).map_err(OpenError::Park)?;
        }
    }

    /// Attaches to this side of the opened channel.
    ///
    /// # Errors
    /// [`AttachError`] when the memory is too small for the channel.
    pub fn attach<S: Signals>(&self, agreed: Agreed, signals: S) -> Result<ChannelEnd<S, C>, AttachError> {
        let order = if agreed.expedited_barrier { WakeOrder::Asymmetric } else { WakeOrder::Fence };
        ChannelEnd::attach(&self.memory, self.side, self.config, order, signals)
    }

    /// Returns the peer's hello, once it was compared.
    #[must_use]
    pub fn peer_hello(&self) -> Option<&[u64; 8]> {
        self.handshake.peer_hello()
    }

    /// Notifies the peer that this side stopped waiting. A peer that already uses the channel, because it saw
    /// this side accept, finds it closed.
    pub fn withdraw(&mut self, signals: &mut impl Signals) {
        if self.handshake.withdraw()
            && let Ok(mut ends) =
                ChannelLayout::new(self.config).attach(&self.memory, self.side, WakeOrder::Fence)
        {
            ends.close();
        }
        signals.ring();
    }
}

/// Declines a channel that a peer opens in `memory`, with a reason defined by the interface.
///
/// # Errors
/// Same as [`Opening::start`].
pub fn decline<C: CacheMaintenance>(
    memory: &SharedMemory<C>,
    side: Side,
    hello: Hello,
    reason: u32,
    signals: &mut impl Signals,
) -> Result<(), OutOfRange> {
    Handshake::start(memory, side, hello)?.decline(reason);
    signals.ring();
    Ok(())
}

/// Notifies the peer that this side will never start the handshake.
///
/// # Errors
/// Same as [`Opening::start`].
pub fn cancel<C: CacheMaintenance>(
    memory: &SharedMemory<C>,
    side: Side,
    signals: &mut impl Signals,
) -> Result<(), OutOfRange> {
    Handshake::cancel(memory, side)?;
    signals.ring();
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use tombolo_ring::{SlotSize, Variant};

    use super::*;
    use crate::end::EndError;
    use crate::hello::Refusal;

    const SMALL: ChannelConfig =
        ChannelConfig { slot: SlotSize::B32, slots: 2, variant: Variant::EpochCredit };

    /// Side with a clock that only its sleeps advance. The test decides what happens during each sleep.
    struct Scripted<'a> {
        now_ns: u64,
        gone: bool,
        rings: u32,
        asleep: &'a mut dyn FnMut(&mut u64, &mut bool),
    }

    impl<'a> Scripted<'a> {
        fn new(asleep: &'a mut dyn FnMut(&mut u64, &mut bool)) -> Self {
            Scripted { now_ns: 0, gone: false, rings: 0, asleep }
        }
    }

    impl Signals for Scripted<'_> {
        fn ring(&mut self) {
            self.rings += 1;
        }

        fn peer_gone(&self) -> bool {
            self.gone
        }

        fn poll_signals(&mut self) {}

        fn now_ns(&self) -> u64 {
            self.now_ns
        }
    }

    impl Park for Scripted<'_> {
        type Error = &'static str;

        fn park(&mut self, until_ns: u64) -> Result<(), &'static str> {
            if until_ns == u64::MAX {
                return Err("it never ends");
            }
            self.now_ns += 1;
            (self.asleep)(&mut self.now_ns, &mut self.gone);
            Ok(())
        }
    }

    fn memory() -> SharedMemory {
        SharedMemory::zeroed(ChannelLayout::new(SMALL).length_bytes())
    }

    fn step(opening: &mut Opening, signals: &mut Scripted<'_>) -> Option<Agreed> {
        opening.step(signals).unwrap()
    }

    #[test]
    fn both_sides_open_and_each_step_rings() {
        let (memory, hello) = (memory(), Hello::new(SMALL, 1, None));
        let (mut nothing, mut nothing_either) =
            (|_: &mut u64, _: &mut bool| {}, |_: &mut u64, _: &mut bool| {});
        let (mut bell_a, mut bell_b) = (Scripted::new(&mut nothing), Scripted::new(&mut nothing_either));
        let mut a = Opening::start(&memory, Side::A, hello, &mut bell_a).unwrap();
        assert_eq!((step(&mut a, &mut bell_a), bell_a.rings), (None, 1));
        let mut b = Opening::start(&memory, Side::B, hello, &mut bell_b).unwrap();
        assert_eq!((step(&mut b, &mut bell_b), bell_b.rings), (None, 2));
        let agreed = step(&mut a, &mut bell_a).expect("both have accepted");
        assert_eq!(bell_a.rings, 2);
        let mut end = a.attach(agreed, bell_a).unwrap();
        assert_eq!(end.try_send(b"first"), Ok(()));
        let agreed = b.wait(&mut bell_b, 0).expect("there is nothing left to wait for");
        let mut end = b.attach(agreed, bell_b).unwrap();
        assert_eq!(end.try_recv(|message| message.len()), Ok(Some(5)));
    }

    #[test]
    fn asymmetric_order_is_used_if_both_agree() {
        for expedited_barrier in [false, true] {
            let hello = Hello { expedited_barrier, ..Hello::new(SMALL, 1, None) };
            let memory = memory();
            let mut signals = crate::end::DeferredSignals::default();
            let mut a = Opening::start(&memory, Side::A, hello, &mut signals).unwrap();
            let mut b = Opening::start(&memory, Side::B, hello, &mut signals).unwrap();
            assert_eq!(a.step(&mut signals), Ok(None));
            let agreed = b.step(&mut signals).unwrap().unwrap();
            let mut end = b.attach(agreed, signals).unwrap();
            let needs_barrier =
                end.announce(crate::end::Awaited::Message) == crate::end::Announced::NeedsBarrier;
            assert_eq!(needs_barrier, expedited_barrier);
        }
    }

    #[test]
    fn hello_that_arrives_during_a_sleep_is_found() {
        let (memory, hello) = (memory(), Hello::new(SMALL, 1, None));
        let mut other = None;
        let mut asleep = |_: &mut u64, _: &mut bool| {
            let signals = &mut crate::end::DeferredSignals::default();
            let peer = other.get_or_insert_with(|| {
                Opening::start(&memory, Side::B, hello, signals).expect("there is room for both")
            });
            peer.step(signals).expect("the two fit");
        };
        let mut signals = Scripted::new(&mut asleep);
        let mut a = Opening::start(&memory, Side::A, hello, &mut signals).unwrap();
        assert_eq!(a.wait(&mut signals, 100).map(|agreed| agreed.peer), Ok(None));
        assert_eq!(signals.now_ns, 1);
    }

    #[test]
    fn late_peer_gets_an_error() {
        let (memory, hello) = (memory(), Hello::new(SMALL, 1, None));
        let mut asleep = |_: &mut u64, _: &mut bool| {};
        let mut signals = Scripted::new(&mut asleep);
        let mut a = Opening::start(&memory, Side::A, hello, &mut signals).unwrap();
        assert_eq!(a.wait(&mut signals, 3).err(), Some(OpenError::TimedOut));
        assert_eq!((signals.now_ns, signals.rings), (3, 2));
        let mut late = Opening::start(&memory, Side::B, hello, &mut signals).unwrap();
        let withdrawn = OpenError::Handshake(HandshakeError::Withdrawn);
        // Its own step, in which it accepts, comes before it sees the verdict.
        assert_eq!(late.wait(&mut signals, 100).err(), Some(withdrawn));
    }

    #[test]
    fn withdrawn_channel_is_closed_for_the_peer() {
        let (memory, hello) = (memory(), Hello::new(SMALL, 1, None));
        let mut signals = crate::end::DeferredSignals::default();
        let mut b = Opening::start(&memory, Side::B, hello, &mut signals).unwrap();
        let mut asleep = |_: &mut u64, _: &mut bool| {};
        let mut bell = Scripted::new(&mut asleep);
        let mut a = Opening::start(&memory, Side::A, hello, &mut bell).unwrap();
        // A accepts and waits for the verdict of B. B accepts and opens, but too late: A gives up.
        assert_eq!(step(&mut a, &mut bell), None);
        let agreed = b.step(&mut signals).unwrap().expect("A has accepted");
        a.withdraw(&mut bell);
        let mut end = b.attach(agreed, signals).unwrap();
        assert_eq!(end.try_recv(|_| ()), Err(EndError::Closed));
    }

    #[test]
    fn words_written_before_death_are_processed_first() {
        let (memory, hello) = (memory(), Hello::new(SMALL, 1, None));
        let mut asleep = |_: &mut u64, gone: &mut bool| *gone = true;
        let mut signals = Scripted::new(&mut asleep);
        let mut a = Opening::start(&memory, Side::A, hello, &mut signals).unwrap();
        assert_eq!(a.wait(&mut signals, 100).err(), Some(OpenError::PeerGone));

        let other = Hello::new(SMALL, 2, None);
        let mut b = Opening::start(&memory, Side::B, other, &mut signals).unwrap();
        let refusal = Refusal::Interface { ours: 2, theirs: 1 };
        assert_eq!(b.wait(&mut signals, 100).err(), Some(OpenError::Handshake(refusal.into())));
    }

    #[test]
    fn a_failed_sleep_is_an_error() {
        let mut asleep = |_: &mut u64, _: &mut bool| {};
        let mut signals = Scripted::new(&mut asleep);
        let mut a = Opening::start(&memory(), Side::A, Hello::new(SMALL, 1, None), &mut signals).unwrap();
        assert_eq!(a.wait(&mut signals, u64::MAX).err(), Some(OpenError::Park("it never ends")));
    }

    #[test]
    fn decline_and_cancel_ring_the_peer() {
        let (memory, hello) = (memory(), Hello::new(SMALL, 1, None));
        let mut asleep = |_: &mut u64, _: &mut bool| {};
        let mut signals = Scripted::new(&mut asleep);
        let mut a = Opening::start(&memory, Side::A, hello, &mut signals).unwrap();
        cancel(&memory, Side::B, &mut signals).unwrap();
        assert_eq!(signals.rings, 2);
        let withdrawn = OpenError::Handshake(HandshakeError::Withdrawn);
        assert_eq!(a.wait(&mut signals, 1).err(), Some(withdrawn));
        decline(&memory, Side::B, hello, 7, &mut signals).unwrap();
        let declined = OpenError::Handshake(HandshakeError::Declined { reason: 7 });
        assert_eq!(a.wait(&mut signals, 1).err(), Some(declined));
        assert!(decline(&SharedMemory::zeroed(8), Side::B, hello, 7, &mut signals).is_err());
        assert!(cancel(&SharedMemory::zeroed(8), Side::B, &mut signals).is_err());
    }
}
