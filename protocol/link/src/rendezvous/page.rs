//! Layout of the first page's words that the rendezvous uses, and access to them.
//!
//! Words are 8 bytes long and little-endian. Numbers are word indices from the start of the window.

use tombolo_base::hash::fnv1a;
use tombolo_base::sync::Ordering;
use tombolo_base::{CacheMaintenance, SharedMemory};

use super::{Nonce, RENDEZVOUS_VERSION, RendezvousError, WireCoherence, WireTerms};

pub(super) const OFFER_MAGIC: u64 = u64::from_le_bytes(*b"TMBLHOST");
pub(super) const CLAIM_MAGIC: u64 = u64::from_le_bytes(*b"TMBLJOIN");
pub(super) const ORDER: u64 = 0x0102_0304_0506_0708;

/// Block of the root: its offer, and its answer to a claim.
pub(super) mod offer {
    pub(crate) const MAGIC: usize = 64;
    pub(crate) const ORDER: usize = 65;
    pub(crate) const VERSIONS: usize = 66;
    pub(crate) const LENGTH: usize = 67;
    pub(crate) const SESSION: usize = 68;
    /// Node in bits 0 to 15, bells in 16 to 31, kind of bells in 32 to 39, coherence in 40 to 47, instruction
    /// set in 48 to 55.
    pub(crate) const SHAPE: usize = 69;
    /// Attempt that may write the claim; 0 while there is none.
    pub(crate) const GRANTED: usize = 70;
    /// Seed and frequency of evictions of emulated caches.
    pub(crate) const CACHE_SEED: usize = 71;
    pub(crate) const EVICT_ONE_IN: usize = 75;
    pub(crate) const ANSWERED: usize = 72;
    pub(crate) const VERDICT: usize = 73;
    pub(crate) const GENERATION: usize = 74;
    pub(crate) const PROOF: usize = 76;
    pub(crate) const NODE_NAME: usize = 80;
    pub(crate) const MACHINE_NAME: usize = 84;
    pub(crate) const TRIAL: usize = 328;
}

/// Block of the joiner: its claim, written once the root has granted its attempt.
pub(super) mod claim {
    pub(crate) const MAGIC: usize = 128;
    // Byte order, version and length follow, then the session and the shape, all as in the offer. Bits 56 to
    // 63 of the shape hold the number of words lost in the root's trial.
    pub(crate) const SESSION: usize = 132;
    pub(crate) const SHAPE: usize = 133;
    pub(crate) const TRIAL: usize = 456;
    /// Kernel that the joiner runs under.
    pub(crate) const KERNEL: usize = 134;
    /// Offset of the window in the file that programs of the node map.
    pub(crate) const BASE: usize = 135;
    pub(crate) const PROOF: usize = 136;
    pub(crate) const ATTEMPT: usize = 140;
    pub(crate) const CACHE_SEED: usize = 141;
    pub(crate) const EVICT_ONE_IN: usize = 142;
    pub(crate) const SEAL: usize = 143;
    /// Words covered by the proof, in the order of the digest.
    pub(crate) const SIGNED: [usize; 10] =
        [MAGIC, 129, 130, 131, SESSION, SHAPE, KERNEL, BASE, CACHE_SEED, EVICT_ONE_IN];
    // Indices of some of them in that list.
    pub(crate) const SIGNED_SESSION: usize = 4;
    pub(crate) const SIGNED_SHAPE: usize = 5;
    pub(crate) const SIGNED_KERNEL: usize = 6;
    pub(crate) const SIGNED_BASE: usize = 7;
}

/// Word written by every joiner with a single store: the attempt to be granted, xor the session.
pub(super) const REQUEST: usize = 144;

/// Pulse of a side: its heartbeat, doorbells, state and identity, followed by a counter for each doorbell.
pub(super) mod pulse {
    pub(crate) const HOST: usize = 256;
    pub(crate) const JOINER: usize = 384;
    pub(crate) const BEAT: usize = 0;
    pub(crate) const RINGS: usize = 1;
    pub(crate) const STATE: usize = 2;
    pub(crate) const IDENTITY: usize = 3;
    pub(crate) const COUNTERS: usize = 8;
    pub(crate) const OPEN: u64 = 1;
    pub(crate) const LEFT: u64 = 2;
}

pub(super) fn read<C: CacheMaintenance>(window: &SharedMemory<C>, word: usize) -> u64 {
    window.load_current_le(word, Ordering::Acquire)
}

pub(super) fn write<C: CacheMaintenance>(window: &SharedMemory<C>, word: usize, value: u64) {
    window.store_through_le(word, value, Ordering::Release);
}

pub(super) fn read_four<C: CacheMaintenance>(window: &SharedMemory<C>, word: usize) -> [u64; 4] {
    core::array::from_fn(|index| read(window, word + index))
}

pub(super) fn write_four<C: CacheMaintenance>(window: &SharedMemory<C>, word: usize, values: [u64; 4]) {
    values.into_iter().enumerate().for_each(|(index, value)| write(window, word + index, value));
}

pub(super) fn nonce<C: CacheMaintenance>(window: &SharedMemory<C>, word: usize) -> Option<Nonce> {
    Nonce::new(read(window, word))
}

/// Computes the seal that distinguishes a claim of one joiner from one with words of two.
pub(super) fn seal(attempt: Nonce, signed: &[u64; claim::SIGNED.len()], proof: &[u64; 4]) -> u64 {
    let mut bytes = [0; 8 * (1 + claim::SIGNED.len() + 4)];
    let words = [attempt.get()].into_iter().chain(*signed).chain(*proof);
    bytes.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
    fnv1a(&bytes)
}

pub(super) const fn versions(release: u32) -> u64 {
    RENDEZVOUS_VERSION as u64 | (release as u64) << 32
}

pub(super) const fn shape(terms: &WireTerms) -> u64 {
    (terms.kind as u64) << 32 | (terms.coherence.code as u64) << 40 | (terms.isa as u64) << 48
}

/// Reads the terms of the other side. Its block begins at `magic`; the behavior of emulated caches is in the
/// words `evictions`.
///
/// Magic, byte order and version have the same positions in every version.
pub(super) fn read_terms<C: CacheMaintenance>(
    window: &SharedMemory<C>,
    magic: usize,
    expected: u64,
    evictions: [usize; 2],
) -> Result<WireTerms, RendezvousError> {
    let found = read(window, magic);
    if found == expected.swap_bytes() {
        return Err(RendezvousError::ByteOrder { found });
    }
    if found != expected {
        return Err(RendezvousError::NotTombolo { found });
    }
    let order = read(window, magic + 1);
    if order != ORDER {
        return Err(RendezvousError::ByteOrder { found: order });
    }
    let versions = read(window, magic + 2);
    if versions as u32 != RENDEZVOUS_VERSION {
        return Err(RendezvousError::Version { ours: RENDEZVOUS_VERSION, theirs: versions as u32 });
    }
    let shape = read(window, magic + 5);
    let [seed, one_in] = evictions.map(|word| read(window, word));
    Ok(WireTerms {
        release: (versions >> 32) as u32,
        length_bytes: read(window, magic + 3),
        kind: (shape >> 32) as u8,
        coherence: WireCoherence { code: (shape >> 40) as u8, seed, one_in },
        isa: (shape >> 48) as u8,
    })
}
