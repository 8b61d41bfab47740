//! Opening a channel in memory that both sides can reach. Either side may come first.
//!
//! Each side writes its hello into its own line and publishes it with the last word, waits for the other's
//! hello, compares the two, and publishes its verdict. The channel is open when both accepted. The caller
//! wakes the peer after every step that returns [`Progress::Changed`] and decides how long to wait.

use tombolo_base::sync::Ordering;
use tombolo_base::{CacheMaintenance, Coherent, OutOfRange, SharedMemory};

use crate::disconnect_reason::DisconnectReason;
use crate::hello::{Agreed, Hello, Refusal};
use crate::layout::{ChannelLayout, Side};
use crate::verdict::{ACCEPTED, DISAGREED, WITHDRAWN, check_verdict, declined};

/// Index of the word in a hello line that publishes the hello.
const PRESENT_WORD: usize = 7;
/// Index of the word in a hello line that holds the verdict on the peer.
pub(crate) const VERDICT_WORD: usize = 8;

const PRESENT: u64 = 1;

/// Reason why a channel does not open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum HandshakeError {
    /// The two hellos do not agree.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The peer's program declined. The interface defines the meaning of the reason.
    #[error("the peer declined the channel (reason {reason})")]
    Declined { reason: u32 },
    /// The peer refuses what this side accepts. Only the peer's error gives the reason.
    #[error("the peer refused the channel although this side found no difference; see the peer's error")]
    RefusedByPeer,
    /// The peer waited for this side until its deadline, and is alive.
    #[error(
        "the peer stopped waiting for this side to open the channel; open it earlier or raise the peer's timeout"
    )]
    Withdrawn,
    /// The peer wrote a value that is not part of the handshake.
    #[error("the peer answered the handshake with the invalid value {found:#x}")]
    InvalidWord { found: u64 },
}

/// Result of a step of a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// No change: wait for the peer.
    Waiting,
    /// This side wrote: wake the peer, then wait.
    Changed,
    /// Both sides accepted; the channel is open.
    Open(Agreed),
}

/// One side of a handshake in progress.
#[derive(Debug)]
pub struct Handshake<C: CacheMaintenance = Coherent> {
    ours: Hello,
    own_line: SharedMemory<C>,
    peer_line: SharedMemory<C>,
    theirs: Option<[u64; 8]>,
    agreed: Option<Agreed>,
}

impl<C: CacheMaintenance> Handshake<C> {
    /// Publishes `hello` as `side` of the channel in `memory`. Wake the peer afterwards.
    ///
    /// # Errors
    /// [`OutOfRange`] when the memory is too short for the lines.
    pub fn start(memory: &SharedMemory<C>, side: Side, hello: Hello) -> Result<Self, OutOfRange> {
        let own_line = ChannelLayout::hello_line(memory, side)?;
        let peer_line = ChannelLayout::hello_line(memory, side.other())?;
        for (index, word) in hello.to_words().into_iter().enumerate().take(PRESENT_WORD) {
            own_line.store_le(index, word, Ordering::Relaxed);
        }
        let relaxed = tombolo_base::canary!("hello is published in no order");
        own_line.store_through_le(
            PRESENT_WORD,
            PRESENT,
            if relaxed { Ordering::Relaxed } else { Ordering::Release },
        );
        Ok(Handshake { ours: hello, own_line, peer_line, theirs: None, agreed: None })
    }

    /// Returns the peer's hello as seen by `side` of the channel in `memory`, once the peer has written it.
    ///
    /// # Errors
    /// [`OutOfRange`] when the memory is too short for the lines. The inner error is
    /// [`HandshakeError::Withdrawn`] or [`HandshakeError::InvalidWord`].
    pub fn peek(
        memory: &SharedMemory<C>,
        side: Side,
    ) -> Result<Result<Option<[u64; 8]>, HandshakeError>, OutOfRange> {
        ChannelLayout::hello_line(memory, side.other()).map(|line| read_hello(&line))
    }

    /// Whether the peer of `side` stopped waiting.
    ///
    /// # Errors
    /// Same as [`peek`](Self::peek).
    pub fn has_withdrawn(memory: &SharedMemory<C>, side: Side) -> Result<bool, OutOfRange> {
        let line = ChannelLayout::hello_line(memory, side.other())?;
        Ok(line.load_current_le(VERDICT_WORD, Ordering::Acquire) == WITHDRAWN)
    }

    /// Publishes the hello of a peer that refuses `side.other()` together with that peer's verdict, for a
    /// relay between the two. Wake the other side afterwards.
    ///
    /// # Errors
    /// Same as [`start`](Self::start).
    pub fn forward_refusal(memory: &SharedMemory<C>, side: Side, hello: &[u64; 8]) -> Result<(), OutOfRange> {
        let line = ChannelLayout::hello_line(memory, side)?;
        for (index, word) in hello.iter().enumerate().take(PRESENT_WORD) {
            line.store_le(index, *word, Ordering::Relaxed);
        }
        line.store_through_le(VERDICT_WORD, DISAGREED, Ordering::Relaxed);
        line.store_through_le(PRESENT_WORD, PRESENT, Ordering::Release);
        Ok(())
    }

    /// Returns the peer's hello, once it was compared.
    #[must_use]
    pub fn peer_hello(&self) -> Option<&[u64; 8]> {
        self.theirs.as_ref()
    }

    /// Notifies the peer that this side will never start a handshake. Wake the peer afterwards.
    ///
    /// # Errors
    /// Same as [`start`](Self::start).
    pub fn cancel(memory: &SharedMemory<C>, side: Side) -> Result<(), OutOfRange> {
        ChannelLayout::hello_line(memory, side)?.store_through_le(VERDICT_WORD, WITHDRAWN, Ordering::Release);
        Ok(())
    }

    /// Notifies the peer that this side's program declines the channel. Wake the peer afterwards.
    pub fn decline(self, reason: u32) {
        self.own_line.store_through_le(VERDICT_WORD, declined(reason), Ordering::Release);
    }

    /// Notifies the peer that this side has stopped waiting. Wake the peer afterwards.
    ///
    /// Returns true if this side had accepted. The peer may have seen that and use the channel already, so
    /// the caller must close it.
    #[must_use = "a peer that uses the channel already does not look here any more"]
    pub fn withdraw(&mut self) -> bool {
        self.own_line.store_through_le(VERDICT_WORD, WITHDRAWN, Ordering::Release);
        self.agreed.is_some()
    }

    /// Reads the peer's line and advances the handshake.
    ///
    /// # Errors
    /// [`HandshakeError`]; the channel will not open. If this side refuses, its verdict is already written:
    /// wake the peer.
    pub fn step(&mut self) -> Result<Progress, HandshakeError> {
        let Some(agreed) = self.agreed else {
            return self.compare();
        };
        // Pairs with the release store of the peer's verdict.
        let verdict = self.peer_line.load_current_le(VERDICT_WORD, Ordering::Acquire);
        // A relay whose other end is gone writes the reason in place of a verdict, even over one that was not
        // read yet, and then hangs up. The hang-up ends the wait, and the reason is read then.
        if verdict == 0 || DisconnectReason::from_word(verdict).is_some() {
            return Ok(Progress::Waiting);
        }
        check_verdict(verdict).map(|()| Progress::Open(agreed))
    }

    fn compare(&mut self) -> Result<Progress, HandshakeError> {
        let Some(theirs) = read_hello(&self.peer_line)? else { return Ok(Progress::Waiting) };
        self.theirs = Some(theirs);
        match self.ours.agree(&theirs) {
            Ok(agreed) => {
                self.agreed = Some(agreed);
                self.own_line.store_through_le(VERDICT_WORD, ACCEPTED, Ordering::Release);
                Ok(Progress::Changed)
            }
            Err(refusal) => {
                self.own_line.store_through_le(VERDICT_WORD, DISAGREED, Ordering::Release);
                Err(refusal.into())
            }
        }
    }
}

/// Returns the hello in a peer's line, once it is written.
fn read_hello<C: CacheMaintenance>(line: &SharedMemory<C>) -> Result<Option<[u64; 8]>, HandshakeError> {
    // Pairs with the release store that publishes the peer's hello.
    match line.load_current_le(PRESENT_WORD, Ordering::Acquire) {
        0 if line.load_current_le(VERDICT_WORD, Ordering::Acquire) == WITHDRAWN => {
            Err(HandshakeError::Withdrawn)
        }
        0 => Ok(None),
        PRESENT => Ok(Some(core::array::from_fn(|index| line.load_le(index, Ordering::Relaxed)))),
        found => Err(HandshakeError::InvalidWord { found }),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::layout::ChannelConfig;
    use tombolo_ring::{SlotSize, Variant};

    const SMALL: ChannelConfig =
        ChannelConfig { slot: SlotSize::B32, slots: 2, variant: Variant::EpochCredit };

    fn pair(ours: Hello, theirs: Hello) -> (SharedMemory, Handshake, Handshake) {
        let memory = SharedMemory::zeroed(256);
        let a = Handshake::start(&memory, Side::A, ours).unwrap();
        let b = Handshake::start(&memory, Side::B, theirs).unwrap();
        (memory, a, b)
    }

    #[test]
    fn either_side_may_come_first() {
        let hello = Hello::new(SMALL, 5, None);
        for first in [Side::A, Side::B] {
            let memory = SharedMemory::zeroed(256);
            let mut early = Handshake::start(&memory, first, hello).unwrap();
            assert_eq!(early.step(), Ok(Progress::Waiting));
            let mut late = Handshake::start(&memory, first.other(), hello).unwrap();
            assert_eq!(late.step(), Ok(Progress::Changed));
            assert_eq!(late.step(), Ok(Progress::Waiting));
            assert_eq!(early.step(), Ok(Progress::Changed));
            assert!(matches!(early.step(), Ok(Progress::Open(_))));
            assert!(matches!(late.step(), Ok(Progress::Open(_))));
        }
    }

    #[test]
    fn both_sides_learn_of_a_difference() {
        let config = SMALL;
        let (_memory, mut a, mut b) = pair(Hello::new(config, 1, None), Hello::new(config, 2, None));
        assert_eq!(a.step(), Err(Refusal::Interface { ours: 1, theirs: 2 }.into()));
        assert_eq!(b.step(), Err(Refusal::Interface { ours: 2, theirs: 1 }.into()));
    }

    #[test]
    fn disconnect_reason_is_not_an_invalid_verdict() {
        let hello = Hello::new(SMALL, 0, None);
        let (memory, mut a, mut b) = pair(hello, hello);
        assert_eq!((a.step(), b.step()), (Ok(Progress::Changed), Ok(Progress::Changed)));
        crate::disconnect_reason::report(&memory, Side::B, DisconnectReason::Died).unwrap();
        assert_eq!(a.step(), Ok(Progress::Waiting), "until it hangs up");
        assert_eq!(
            crate::disconnect_reason::disconnect_reason(&memory, Side::A),
            Some(DisconnectReason::Died)
        );
    }

    #[test]
    fn a_program_can_decline() {
        let hello = Hello::new(SMALL, 0, None);
        let (_memory, mut a, b) = pair(hello, hello);
        assert_eq!(a.step(), Ok(Progress::Changed));
        b.decline(42);
        assert_eq!(a.step(), Err(HandshakeError::Declined { reason: 42 }));
    }

    #[test]
    fn withdrawal_is_reported_to_the_peer() {
        let hello = Hello::new(SMALL, 0, None);
        let memory = SharedMemory::zeroed(256);
        let mut b = Handshake::start(&memory, Side::B, hello).unwrap();
        assert_eq!(b.step(), Ok(Progress::Waiting));
        Handshake::cancel(&memory, Side::A).unwrap();
        assert_eq!(b.step(), Err(HandshakeError::Withdrawn));

        let (_memory, mut a, mut b) = pair(hello, hello);
        assert!(!a.withdraw());
        assert_eq!(b.step(), Ok(Progress::Changed));
        assert_eq!(b.step(), Err(HandshakeError::Withdrawn));

        // The peer may have seen the acceptance and opened the channel before.
        let (_memory, mut a, mut b) = pair(hello, hello);
        assert_eq!(a.step(), Ok(Progress::Changed));
        assert_eq!(b.step(), Ok(Progress::Changed));
        assert!(matches!(b.step(), Ok(Progress::Open(_))));
        assert!(a.withdraw());
    }

    #[test]
    fn memory_without_room_for_the_lines_is_refused() {
        let hello = Hello::new(SMALL, 0, None);
        for length_bytes in [0, 128, 248] {
            assert!(Handshake::start(&SharedMemory::zeroed(length_bytes), Side::A, hello).is_err());
        }
        assert!(Handshake::start(&SharedMemory::zeroed(256), Side::A, hello).is_ok());
    }

    #[test]
    fn the_lines_are_golden() {
        let hello = Hello::new(SMALL, 0x0102_0304_0506_0708, None);
        let (memory, mut a, b) = pair(hello, hello);
        assert_eq!(a.step(), Ok(Progress::Changed));
        b.decline(9);
        let mut expected = [0; 256];
        for (line, verdict) in [(0, [1, 0, 0, 0, 0, 0, 0, 0]), (128, [3, 0, 0, 0, 9, 0, 0, 0])] {
            expected[line..line + 64].copy_from_slice(&hello.to_bytes());
            expected[line + 56] = 1;
            expected[line + 64..line + 72].copy_from_slice(&verdict);
        }
        let mut found = [0; 256];
        memory.copy_out(0, &mut found).unwrap();
        assert_eq!(found, expected);
    }

    #[test]
    fn invalid_words_of_the_peer_are_errors() {
        let hello = Hello::new(SMALL, 0, None);
        let (memory, mut a, _b) = pair(hello, hello);
        assert_eq!(a.step(), Ok(Progress::Changed));
        let line = ChannelLayout::hello_line(&memory, Side::B).unwrap();
        line.store_le(VERDICT_WORD, 0x77, Ordering::Relaxed);
        assert_eq!(a.step(), Err(HandshakeError::InvalidWord { found: 0x77 }));
        line.store_le(VERDICT_WORD, DISAGREED, Ordering::Relaxed);
        assert_eq!(a.step(), Err(HandshakeError::RefusedByPeer));

        let (memory, mut a, _b) = pair(hello, hello);
        let line = ChannelLayout::hello_line(&memory, Side::B).unwrap();
        line.store_le(PRESENT_WORD, 2, Ordering::Relaxed);
        assert_eq!(a.step(), Err(HandshakeError::InvalidWord { found: 2 }));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig {
            cases: if cfg!(miri) { 2 } else { proptest::prelude::ProptestConfig::default().cases },
            failure_persistence: None,
            ..proptest::prelude::ProptestConfig::default()
        })]

        #[test]
        fn handshake_survives_arbitrary_peer_words(
            words in proptest::collection::vec(
                (0_usize..16, proptest::prop_oneof![0_u64..4, proptest::prelude::any::<u64>()]), 0..if cfg!(miri) { 10 } else { 40 }),
            honest_start in proptest::prelude::any::<bool>(),
        ) {
            let hello = Hello::new(SMALL, 0, None);
            let memory = SharedMemory::zeroed(256);
            let mut a = Handshake::start(&memory, Side::A, hello).unwrap();
            if honest_start {
                Handshake::start(&memory, Side::B, hello).unwrap();
            }
            let line = ChannelLayout::hello_line(&memory, Side::B).unwrap();
            for (index, word) in words {
                line.store_le(index, word, Ordering::Relaxed);
                if !matches!(a.step(), Ok(Progress::Waiting | Progress::Changed)) {
                    break;
                }
            }
        }
    }
}
