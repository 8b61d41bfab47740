//! Rendezvous: how a node that the root did not boot joins its machine through the window itself.
//!
//! There is no socket and no process to watch: the two sides communicate only through the window's first
//! page, in blocks with a single writer each. The root *offers* the window, a joiner *requests* it, the root
//! *grants* one request, that joiner *claims* the window, and the root *answers*. From then on each side
//! shows that it is alive with a heartbeat, and rings the other's doorbells by incrementing counters.
//!
//! The byte format is specified in `docs/specs/rendezvous.md`. Sans-IO: the time, random numbers and the
//! proof of the key are arguments.

mod bells;
mod host;
mod joiner;
mod page;
#[cfg(all(test, not(loom)))]
mod tests;
mod trial;

pub use bells::Bells;
pub use host::{Claim, Host, HostEvent};
pub use joiner::{Accepted, JoinEvent, Joiner, Waiting};
pub use trial::TRIAL_WORDS;

use core::fmt;

use tombolo_base::Isa;
use tombolo_base::coherence::Caches;

/// Version of the rendezvous, that is, of the layout of the first page.
pub const RENDEZVOUS_VERSION: u32 = 3;

/// Size of the area used, from the start of the window, in bytes.
pub const RENDEZVOUS_BYTES: usize = crate::layout::PAGE_BYTES;

/// Maximum number of doorbells in each direction.
pub const MAX_BELLS: u16 = 64;

/// Maximum length of a machine's or node's name, in bytes.
pub const MAX_NAME_BYTES: usize = 32;

/// Nonzero random number that identifies a session of the root or an attempt of a joiner.
pub type Nonce = core::num::NonZeroU64;

/// Mechanism that wakes a sleeping side of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BellKind {
    /// Both monitors poll counters in the window.
    Poll,
}

impl BellKind {
    /// Returns the name used in machine files and output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            BellKind::Poll => "poll",
        }
    }

    const fn code(self) -> u8 {
        match self {
            BellKind::Poll => 1,
        }
    }
}

/// Terms that both sides must agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Fingerprint of the control protocol, which differs between releases.
    pub release: u32,
    /// Length of the window as this side maps it, in bytes.
    pub length_bytes: u64,
    /// Number of doorbells in each direction, from 2 to [`MAX_BELLS`]. The root decides; a joiner passes 0.
    pub bells: u16,
    /// Mechanism of the doorbells.
    pub kind: BellKind,
    /// How each side keeps its view of the window consistent; `None` if the window is coherent.
    pub caches: Option<Caches>,
    /// Instruction set of the node.
    pub isa: Isa,
}

/// Name of a machine or a node, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Name([u8; MAX_NAME_BYTES]);

impl Name {
    /// Creates a name, truncated to [`MAX_NAME_BYTES`].
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut bytes = [0; MAX_NAME_BYTES];
        let length = name.len().min(MAX_NAME_BYTES);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        Name(bytes)
    }

    /// Returns the text up to the first zero, or up to the first character that is invalid in a name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let is_good = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let length = self.0.iter().take_while(|byte| is_good(byte)).count();
        core::str::from_utf8(&self.0[..length]).unwrap_or_default()
    }

    fn words(&self) -> [u64; 4] {
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(self.0.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words
    }

    fn from_words(words: [u64; 4]) -> Self {
        let mut bytes = [0; MAX_NAME_BYTES];
        for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        Name(bytes)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// Side that proves that it has the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The root.
    Host,
    /// The node that joins.
    Joiner,
}

/// Key shared by both sides. It never enters the window; only proofs do.
pub trait Secret {
    /// Computes a digest of the key, the role, the two nonces and `signed`. It cannot be forged without the
    /// key.
    fn proof(&self, role: Role, session: Nonce, attempt: Nonce, signed: &[u64]) -> [u64; 4];
}

/// Reason why a rendezvous fails. Both sides detect the same difference, and each reports it as its own
/// error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum RendezvousError {
    /// The memory is not a window of a machine.
    #[error(
        "the memory is not a window of a Tombolo machine (its offer begins with {found:#018x}); check its address"
    )]
    NotTombolo { found: u64 },
    /// The two processors, or the bus between them, use different byte orders.
    #[error(
        "the window swaps bytes: a word of the other side reads {found:#018x}; configure the bridge to keep them"
    )]
    ByteOrder { found: u64 },
    /// The layout of the page differs.
    #[error(
        "the other side speaks version {theirs} of the rendezvous, this one version {ours}; install one release on both"
    )]
    Version { ours: u32, theirs: u32 },
    /// The release differs.
    #[error(
        "the other side speaks control protocol {theirs:08x}, this one {ours:08x}; install one release on both"
    )]
    Release { ours: u32, theirs: u32 },
    /// The two sides map different lengths.
    #[error(
        "the other side maps {theirs} bytes of the window, this one {ours}; give both the same `window_mib`"
    )]
    Length { ours: u64, theirs: u64 },
    /// The doorbells differ.
    #[error(
        "the two sides expect different doorbells (codes {ours} and {theirs}); give both the same `doorbell`"
    )]
    Bells { ours: u8, theirs: u8 },
    /// The declared coherence of the window differs.
    #[error(
        "the two sides say different things about coherence ({ours} here, {theirs} there); give both the same \
         `coherence`, `cache_seed` and `evict_one_in`"
    )]
    Coherence { ours: WireCoherence, theirs: WireCoherence },
    /// The instruction set of the node differs.
    #[error(
        "the two sides name different instruction sets for the node ({} here, {} there); correct `isa` in the machine file",
        IsaName(*ours), IsaName(*theirs)
    )]
    Isa { ours: u8, theirs: u8 },
    /// The joiner wanted another node's window.
    #[error("the window belongs to node '{}', not to '{}'", offered.as_str(), wanted.as_str())]
    Node { offered: Name, wanted: Name },
    /// The keys differ.
    #[error("the other side has another key; copy the key file of the machine file to the node")]
    Key,
    /// Another joiner holds the node.
    #[error("another `tombolo join` has this node and is alive; stop it first, or use another window")]
    Taken,
    /// The window loses or corrupts words that one side writes.
    #[error(
        "the window is unsound: {lost} of {TRIAL_WORDS} words that one side wrote read otherwise on the other; see \
         `tombolo litmus`, or join all the same with `tombolo join --force`"
    )]
    Unsound { lost: u8 },
    /// The window corrupts the claim.
    #[error(
        "the window is unsound: what the joiner wrote of itself reads otherwise on the root's side, however often it is \
         written; see `tombolo litmus`"
    )]
    Torn,
    /// The root refused for a reason unknown to this side.
    #[error("the root refused, with code {code}")]
    Refused { code: u64 },
}

/// Displays an instruction set by its code.
struct IsaName(u8);

impl fmt::Display for IsaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Isa::from_code(self.0) {
            Some(isa) => f.write_str(isa.name()),
            None => write!(f, "code {}", self.0),
        }
    }
}

const ACCEPTED: u64 = 1;

/// Verdict on a window that does not retain what is written. The upper bits hold the number of lost words.
const UNSOUND: u64 = 13;

/// Written by a forced joiner in place of the number of words that the window lost.
const FORCED: u8 = 255;

impl RendezvousError {
    /// Returns the code that the root writes as its answer.
    const fn code(&self) -> u64 {
        match self {
            RendezvousError::NotTombolo { .. } => 2,
            RendezvousError::ByteOrder { .. } => 3,
            RendezvousError::Version { .. } => 4,
            RendezvousError::Release { .. } => 5,
            RendezvousError::Length { .. } => 6,
            RendezvousError::Bells { .. } => 7,
            RendezvousError::Coherence { .. } => 8,
            RendezvousError::Node { .. } => 9,
            RendezvousError::Key => 10,
            RendezvousError::Taken => 11,
            RendezvousError::Isa { .. } => 12,
            RendezvousError::Unsound { lost } => UNSOUND | (*lost as u64) << 8,
            RendezvousError::Torn => 14,
            RendezvousError::Refused { code } => *code,
        }
    }

    const fn from_code(code: u64) -> Self {
        match code {
            10 => RendezvousError::Key,
            11 => RendezvousError::Taken,
            14 => RendezvousError::Torn,
            code if code & 0xFF == UNSOUND => RendezvousError::Unsound { lost: (code >> 8) as u8 },
            code => RendezvousError::Refused { code },
        }
    }
}

/// Evidence of the loss of the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// It announced that it ends.
    Left,
    /// Another instance has taken its place.
    Replaced,
    /// Its heartbeat stopped.
    Silent {
        /// Time since the last heartbeat, in nanoseconds.
        for_ns: u64,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Left => f.write_str("it left"),
            Loss::Replaced => f.write_str("it started anew"),
            Loss::Silent { for_ns } => {
                write!(f, "its monitor has shown no sign of life for {:.1} s", *for_ns as f64 / 1e9)
            }
        }
    }
}

/// Monitors the heartbeat of the other side.
#[derive(Clone, Copy, Debug)]
struct HeartbeatWatch {
    beat: u64,
    since_ns: u64,
    /// Whether the heartbeat has changed since the watch began.
    is_alive: bool,
}

impl HeartbeatWatch {
    const fn new(beat: u64, now_ns: u64) -> Self {
        HeartbeatWatch { beat, since_ns: now_ns, is_alive: false }
    }

    /// Returns how long the heartbeat has not changed, in nanoseconds.
    fn silence_ns(&mut self, beat: u64, now_ns: u64) -> u64 {
        if beat != self.beat {
            *self = HeartbeatWatch { beat, since_ns: now_ns, is_alive: true };
        }
        now_ns.saturating_sub(self.since_ns)
    }
}

/// Coherence of a window as declared by one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireCoherence {
    code: u8,
    seed: u64,
    one_in: u64,
}

impl WireCoherence {
    const COHERENT: u8 = 1;
    const FLUSH: u8 = 2;
    const EMULATED: u8 = 4;

    const fn from_caches(caches: Option<Caches>) -> Self {
        let (code, seed, one_in) = match caches {
            None => (Self::COHERENT, 0, 0),
            Some(Caches::Processor) => (Self::FLUSH, 0, 0),
            Some(Caches::Emulated(evictions)) => {
                let one_in = match evictions.one_in {
                    Some(one_in) => one_in.get() as u64,
                    None => 0,
                };
                (Self::EMULATED, evictions.seed, one_in)
            }
        };
        WireCoherence { code, seed, one_in }
    }
}

impl fmt::Display for WireCoherence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Self::COHERENT => f.write_str("coherent"),
            Self::FLUSH => f.write_str("flush"),
            Self::EMULATED => {
                write!(f, "flush, emulated with cache_seed {} and evict_one_in {}", self.seed, self.one_in)
            }
            code => write!(f, "code {code}"),
        }
    }
}

/// Terms as written by the other side, without those that it could not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WireTerms {
    release: u32,
    length_bytes: u64,
    kind: u8,
    coherence: WireCoherence,
    isa: u8,
}

impl WireTerms {
    const fn from_terms(terms: &Terms) -> Self {
        WireTerms {
            release: terms.release,
            length_bytes: terms.length_bytes,
            kind: terms.kind.code(),
            coherence: WireCoherence::from_caches(terms.caches),
            isa: terms.isa.code(),
        }
    }

    /// Reports the first difference.
    fn compare(&self, theirs: &WireTerms) -> Result<(), RendezvousError> {
        if self.release != theirs.release {
            return Err(RendezvousError::Release { ours: self.release, theirs: theirs.release });
        }
        if self.length_bytes != theirs.length_bytes {
            return Err(RendezvousError::Length { ours: self.length_bytes, theirs: theirs.length_bytes });
        }
        if self.kind != theirs.kind {
            return Err(RendezvousError::Bells { ours: self.kind, theirs: theirs.kind });
        }
        if self.coherence != theirs.coherence {
            return Err(RendezvousError::Coherence { ours: self.coherence, theirs: theirs.coherence });
        }
        if self.isa != theirs.isa {
            return Err(RendezvousError::Isa { ours: self.isa, theirs: theirs.isa });
        }
        Ok(())
    }
}
