//! Opening a channel over memory that both sides reach. Either side may come first.
//!
//! Each side writes its hello into its own line and publishes it with its last word, waits for the other's,
//! compares, and publishes its verdict. The channel is open when both accepted. The carrier wakes the peer
//! after every step that returns [`Progress::Changed`] and decides how long to wait.

use tombolo_base::sync::Ordering;
use tombolo_base::{OutOfRange, SharedMemory};

use crate::hello::{Agreed, Hello, Refusal};
use crate::layout::{ChannelLayout, Side};

/// Word of a hello line that publishes the hello.
const PRESENT_WORD: usize = 7;
/// Word of a hello line that holds the verdict on the peer.
const VERDICT_WORD: usize = 8;

const PRESENT: u64 = 1;
/// The channel may open.
const ACCEPTED: u64 = 1;
/// Hellos do not agree; the peer can see for itself why.
const DISAGREED: u64 = 2;
/// The program declined; its reason, a number, is in the upper half.
const DECLINED: u64 = 3;

/// Why a channel does not open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The two sides do not fit.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The peer's program declined.
    #[error("the peer declined the channel (reason {reason})")]
    Declined {
        /// The number it gave; its meaning is the interface's.
        reason: u32,
    },
    /// The peer wrote something that is no verdict.
    #[error("the peer answered the handshake with {found:#x}, which is no verdict")]
    Nonsense {
        /// What it wrote.
        found: u64,
    },
}

/// Where a handshake stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Nothing new: wait for the peer.
    Waiting,
    /// This side wrote something: wake the peer, then wait.
    Changed,
    /// Both accepted.
    Open(Agreed),
}

/// One side's handshake.
#[derive(Debug)]
pub struct Handshake {
    ours: Hello,
    own_line: SharedMemory,
    peer_line: SharedMemory,
    agreed: Option<Agreed>,
}

impl Handshake {
    /// Publishes `hello` as `side` of the channel in `memory`; wake the peer afterwards.
    ///
    /// # Errors
    /// [`OutOfRange`] when the memory has no room for the lines.
    pub fn start(memory: &SharedMemory, side: Side, hello: Hello) -> Result<Self, OutOfRange> {
        let own_line = ChannelLayout::hello_line(memory, side)?;
        let peer_line = ChannelLayout::hello_line(memory, side.other())?;
        for (index, word) in hello.to_words().into_iter().enumerate().take(PRESENT_WORD) {
            own_line.store_le(index, word, Ordering::Relaxed);
        }
        own_line.store_le(PRESENT_WORD, PRESENT, Ordering::Release);
        Ok(Handshake { ours: hello, own_line, peer_line, agreed: None })
    }

    /// Tells the peer that this side's program does not want the channel. Wake the peer afterwards.
    pub fn decline(self, reason: u32) {
        self.own_line.store_le(VERDICT_WORD, DECLINED | u64::from(reason) << 32, Ordering::Release);
    }

    /// Looks at the peer's line and takes the next step.
    ///
    /// # Errors
    /// [`HandshakeError`]: the channel will not open. If it is this side that refuses, the peer has been told:
    /// wake it.
    pub fn step(&mut self) -> Result<Progress, HandshakeError> {
        let Some(agreed) = self.agreed else {
            return self.compare();
        };
        // Pairs with the release store of the peer's verdict.
        let verdict = self.peer_line.load_le(VERDICT_WORD, Ordering::Acquire);
        match verdict & 0xffff_ffff {
            0 => Ok(Progress::Waiting),
            ACCEPTED => Ok(Progress::Open(agreed)),
            DECLINED => Err(HandshakeError::Declined { reason: (verdict >> 32) as u32 }),
            _ => Err(HandshakeError::Nonsense { found: verdict }),
        }
    }

    fn compare(&mut self) -> Result<Progress, HandshakeError> {
        // Pairs with the release store that publishes the peer's hello.
        if self.peer_line.load_le(PRESENT_WORD, Ordering::Acquire) != PRESENT {
            return Ok(Progress::Waiting);
        }
        let mut theirs = [0; 8];
        for (index, word) in theirs.iter_mut().enumerate() {
            *word = self.peer_line.load_le(index, Ordering::Relaxed);
        }
        match self.ours.agree(&theirs) {
            Ok(agreed) => {
                self.agreed = Some(agreed);
                self.own_line.store_le(VERDICT_WORD, ACCEPTED, Ordering::Release);
                Ok(Progress::Changed)
            }
            Err(refusal) => {
                self.own_line.store_le(VERDICT_WORD, DISAGREED, Ordering::Release);
                Err(refusal.into())
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::layout::ChannelConfig;

    fn pair(ours: Hello, theirs: Hello) -> (SharedMemory, Handshake, Handshake) {
        let memory = SharedMemory::zeroed(ChannelLayout::new(ours.config).length_bytes());
        let a = Handshake::start(&memory, Side::A, ours).unwrap();
        let b = Handshake::start(&memory, Side::B, theirs).unwrap();
        (memory, a, b)
    }

    #[test]
    fn either_side_may_come_first() {
        let hello = Hello::new(ChannelConfig::default(), 5, None);
        for first in [Side::A, Side::B] {
            let memory = SharedMemory::zeroed(ChannelLayout::new(hello.config).length_bytes());
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
        let config = ChannelConfig::default();
        let (_memory, mut a, mut b) = pair(Hello::new(config, 1, None), Hello::new(config, 2, None));
        assert_eq!(a.step(), Err(Refusal::Interface { ours: 1, theirs: 2 }.into()));
        assert_eq!(b.step(), Err(Refusal::Interface { ours: 2, theirs: 1 }.into()));
    }

    #[test]
    fn a_program_can_decline() {
        let hello = Hello::new(ChannelConfig::default(), 0, None);
        let (_memory, mut a, b) = pair(hello, hello);
        assert_eq!(a.step(), Ok(Progress::Changed));
        b.decline(42);
        assert_eq!(a.step(), Err(HandshakeError::Declined { reason: 42 }));
    }

    #[test]
    fn nonsense_is_an_error() {
        let hello = Hello::new(ChannelConfig::default(), 0, None);
        let (memory, mut a, _b) = pair(hello, hello);
        assert_eq!(a.step(), Ok(Progress::Changed));
        let line = ChannelLayout::hello_line(&memory, Side::B).unwrap();
        line.store_le(VERDICT_WORD, 0x77, Ordering::Relaxed);
        assert_eq!(a.step(), Err(HandshakeError::Nonsense { found: 0x77 }));
    }
}
