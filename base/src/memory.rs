//! Memory shared with a peer, as an array of 64-bit atomic words.
//!
//! A peer may write any byte at any time, so no `&[u8]` or `&T` over such memory can be sound. A slice of
//! [`AtomicU64`] can: concurrent atomic accesses are defined for any number of writers, and a peer that
//! writes nonsense changes values, never soundness. Eight bytes is also the widest access that stays whole
//! between unlike processors: 16-byte vector accesses tear between an emulated Arm core and its host.
//!
//! Words are in the byte order of the wire (little-endian) where they hold numbers, see [`load_le`] and
//! [`store_le`]. Payload bytes are copied in address order and have no byte order.
//!
//! [`load_le`]: SharedMemory::load_le
//! [`store_le`]: SharedMemory::store_le

use core::ops::Range;

use crate::coherence::{CacheMaintenance, Coherent};
use crate::sync::{AtomicU64, Ordering};

/// Error for a range that does not lie inside its memory, or is not a multiple of eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "bytes {offset_bytes}..+{length_bytes} do not lie, 8-byte aligned, in a memory of {available_bytes} bytes"
)]
pub struct OutOfRange {
    /// Offset of the first byte requested.
    pub offset_bytes: usize,
    /// Number of bytes requested.
    pub length_bytes: usize,
    /// Length of the memory, in bytes.
    pub available_bytes: usize,
}

/// A range of memory that a peer may read and write at the same time, accessed in 64-bit atomic words.
///
/// Cloning is cheap and refers to the same bytes; the owner (the mapping) is dropped with the last clone. `C`
/// is the cache maintenance that a store needs to reach the peer; see [`crate::coherence`].
#[derive(Clone)]
pub struct SharedMemory<C = Coherent> {
    #[cfg(not(loom))]
    words: core::ptr::NonNull<AtomicU64>,
    #[cfg(not(loom))]
    len_words: usize,
    /// Keeps the mapping alive; `None` for static memory.
    #[cfg(all(not(loom), feature = "alloc"))]
    _owner: Option<alloc::sync::Arc<dyn core::any::Any + Send + Sync>>,
    #[cfg(loom)]
    words: alloc::sync::Arc<alloc::vec::Vec<AtomicU64>>,
    #[cfg(loom)]
    range: Range<usize>,
    caches: C,
}

// SAFETY: the pointer is to memory that is valid from every thread for as long as the owner lives (contract
// of `from_raw`), and all access through it is atomic.
#[cfg(not(loom))]
unsafe impl<C: Send> Send for SharedMemory<C> {}
// SAFETY: as above; `&SharedMemory` gives out only `&[AtomicU64]`.
#[cfg(not(loom))]
unsafe impl<C: Sync> Sync for SharedMemory<C> {}

#[cfg(not(loom))]
impl SharedMemory {
    /// Wraps `length_bytes` bytes at `address`; `owner` is dropped with the last clone.
    ///
    /// # Safety
    /// While `owner` lives, `address` must be valid for reads and writes of `length_bytes` bytes and aligned
    /// to 8, and this process must access those bytes only atomically, in aligned words of 8 bytes. Accesses
    /// by other processes are unrestricted.
    #[cfg(feature = "alloc")]
    pub unsafe fn from_raw(
        address: core::ptr::NonNull<u8>,
        length_bytes: usize,
        owner: alloc::sync::Arc<dyn core::any::Any + Send + Sync>,
    ) -> Self {
        debug_assert_eq!(address.as_ptr() as usize % 8, 0);
        SharedMemory {
            words: address.cast(),
            len_words: length_bytes / 8,
            _owner: Some(owner),
            caches: Coherent,
        }
    }

    /// Wraps static memory: on a board without an OS, or in a test.
    #[must_use]
    pub fn from_static(words: &'static [AtomicU64]) -> Self {
        SharedMemory {
            words: core::ptr::NonNull::from(words).cast(),
            len_words: words.len(),
            #[cfg(feature = "alloc")]
            _owner: None,
            caches: Coherent,
        }
    }

    /// Allocates zeroed memory of this process, rounded up to words, for tests and simulated links.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn zeroed(length_bytes: usize) -> Self {
        let words: alloc::vec::Vec<AtomicU64> =
            (0..length_bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        let len_words = words.len();
        let owner = alloc::sync::Arc::new(words);
        let words = core::ptr::NonNull::from(owner.as_slice()).cast();
        SharedMemory { words, len_words, _owner: Some(owner), caches: Coherent }
    }
}

#[cfg(not(loom))]
impl<C: Clone> SharedMemory<C> {
    /// Returns the words. `&AtomicU64` is the only sound reference into memory that a peer writes.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: `words` is valid for `len_words` aligned words while `_owner` lives (contract of
        // `from_raw`, or a static or the vector in `_owner`), and `&self` keeps it alive. Atomics allow
        // concurrent writes.
        unsafe { core::slice::from_raw_parts(self.words.as_ptr(), self.len_words) }
    }

    fn narrow(&self, first_word: usize, len_words: usize) -> Self {
        debug_assert!(first_word + len_words <= self.len_words);
        let mut part = self.clone();
        // SAFETY: the caller checked that the range lies inside, so the offset stays in the same allocation.
        part.words = unsafe { self.words.add(first_word) };
        part.len_words = len_words;
        part
    }
}

#[cfg(loom)]
impl SharedMemory {
    /// Allocates zeroed memory of the model.
    #[must_use]
    pub fn zeroed(length_bytes: usize) -> Self {
        let words: alloc::vec::Vec<AtomicU64> =
            (0..length_bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        let range = 0..words.len();
        SharedMemory { words: alloc::sync::Arc::new(words), range, caches: Coherent }
    }
}

#[cfg(loom)]
impl<C: Clone> SharedMemory<C> {
    /// Returns the memory as words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        &self.words[self.range.clone()]
    }

    fn narrow(&self, first_word: usize, len_words: usize) -> Self {
        let start = self.range.start + first_word;
        SharedMemory {
            words: self.words.clone(),
            range: start..start + len_words,
            caches: self.caches.clone(),
        }
    }
}

impl<C: CacheMaintenance> SharedMemory<C> {
    /// Returns the same bytes, kept consistent by `caches`.
    #[must_use]
    pub fn with_caches<D>(self, caches: D) -> SharedMemory<D> {
        SharedMemory {
            words: self.words,
            #[cfg(not(loom))]
            len_words: self.len_words,
            #[cfg(all(not(loom), feature = "alloc"))]
            _owner: self._owner,
            #[cfg(loom)]
            range: self.range,
            caches,
        }
    }

    /// Returns the cache maintenance that keeps this view consistent with those of other sides.
    #[inline(always)]
    #[must_use]
    pub fn caches(&self) -> &C {
        &self.caches
    }

    /// Writes back `words`, a range of indexes; see [`CacheMaintenance::write_back`].
    ///
    /// # Panics
    /// Panics if the range lies outside, which is a caller error.
    #[inline(always)]
    pub fn write_back(&self, words: Range<usize>) {
        if !C::COHERENT {
            self.caches.write_back(&self.words()[words]);
        }
    }

    /// Invalidates `words`, a range of indexes; see [`CacheMaintenance::invalidate`].
    ///
    /// # Panics
    /// As [`write_back`](Self::write_back).
    #[inline(always)]
    pub fn invalidate(&self, words: Range<usize>) {
        if !C::COHERENT {
            self.caches.invalidate(&self.words()[words]);
        }
    }

    /// Loads word `index` as a little-endian number, as the peer last wrote it back.
    ///
    /// # Panics
    /// As [`load_le`](Self::load_le).
    #[inline(always)]
    #[must_use]
    pub fn load_current_le(&self, index: usize, order: Ordering) -> u64 {
        self.invalidate(index..index + 1);
        self.load_le(index, order)
    }

    /// Stores word `index` as a little-endian number and writes it back.
    ///
    /// # Panics
    /// As [`load_le`](Self::load_le).
    #[inline(always)]
    pub fn store_through_le(&self, index: usize, value: u64, order: Ordering) {
        self.store_le(index, value, order);
        self.write_back(index..index + 1);
    }

    /// Returns the length in bytes.
    #[inline]
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.words().len() * 8
    }

    /// Returns the part of `length_bytes` at `offset_bytes`; both are multiples of eight.
    ///
    /// # Errors
    /// [`OutOfRange`] when the part does not lie inside or is not aligned to words.
    pub fn slice(&self, offset_bytes: usize, length_bytes: usize) -> Result<Self, OutOfRange> {
        let error = OutOfRange { offset_bytes, length_bytes, available_bytes: self.len_bytes() };
        let end = offset_bytes.checked_add(length_bytes).ok_or(error)?;
        if end > self.len_bytes() || !offset_bytes.is_multiple_of(8) || !length_bytes.is_multiple_of(8) {
            return Err(error);
        }
        Ok(self.narrow(offset_bytes / 8, length_bytes / 8))
    }

    /// Loads word `index` as a little-endian number.
    ///
    /// # Panics
    /// Panics if `index` is out of range. Indexes come from the caller, never from a peer.
    #[inline]
    #[must_use]
    pub fn load_le(&self, index: usize, order: Ordering) -> u64 {
        u64::from_le(self.words()[index].load(order))
    }

    /// Stores word `index` as a little-endian number.
    ///
    /// # Panics
    /// As [`load_le`](Self::load_le).
    #[inline]
    pub fn store_le(&self, index: usize, value: u64, order: Ordering) {
        self.words()[index].store(value.to_le(), order);
    }

    /// Copies `source` in, starting at `offset_bytes`, a multiple of eight, in relaxed word stores.
    ///
    /// If the length is not a multiple of eight, the rest of the last word is zeroed.
    ///
    /// # Errors
    /// [`OutOfRange`] if it does not fit; nothing was written.
    pub fn copy_in(&self, offset_bytes: usize, source: &[u8]) -> Result<(), OutOfRange> {
        let part = self.slice(offset_bytes, source.len().next_multiple_of(8))?;
        copy_to_words(part.words(), source);
        Ok(())
    }

    /// Copies bytes out, starting at `offset_bytes`, a multiple of eight, in relaxed word loads.
    ///
    /// # Errors
    /// [`OutOfRange`] if the range lies outside; `target` is unchanged.
    pub fn copy_out(&self, offset_bytes: usize, target: &mut [u8]) -> Result<(), OutOfRange> {
        let part = self.slice(offset_bytes, target.len().next_multiple_of(8))?;
        copy_from_words(part.words(), target);
        Ok(())
    }

    /// Zeroes every word and writes the memory back.
    pub fn clear(&self) {
        for word in self.words() {
            word.store(0, Ordering::Relaxed);
        }
        self.write_back(0..self.words().len());
    }
}

/// The first `N` words of a memory, resolved once, so that accesses need no bounds check.
#[derive(Clone, Debug)]
pub struct SharedWords<const N: usize, C: CacheMaintenance = Coherent> {
    memory: SharedMemory<C>,
}

impl<const N: usize, C: CacheMaintenance> SharedWords<N, C> {
    /// Wraps the first `N` words of `memory`.
    ///
    /// # Panics
    /// Panics if `memory` is too short. Its length comes from the caller, never from a peer.
    #[must_use]
    pub fn first_of(memory: SharedMemory<C>) -> Self {
        assert!(memory.words().len() >= N, "{N} words of a memory of {} bytes", memory.len_bytes());
        SharedWords { memory }
    }

    /// Returns these words as atomics.
    #[inline(always)]
    #[must_use]
    pub fn words(&self) -> &[AtomicU64; N] {
        #[cfg(not(loom))]
        // SAFETY: the memory has at least `N` words, see `first_of`, and they are valid as those of
        // `SharedMemory::words`.
        unsafe {
            self.memory.words.cast().as_ref()
        }
        #[cfg(loom)]
        self.memory.words().first_chunk().expect("checked when it was made")
    }

    /// Loads word `INDEX` as a little-endian number, as the peer last wrote it back.
    #[inline(always)]
    #[must_use]
    pub fn load_current_le<const INDEX: usize>(&self, order: Ordering) -> u64 {
        const { assert!(INDEX < N) };
        let word = &self.words()[INDEX];
        if !C::COHERENT {
            self.memory.caches().invalidate(core::slice::from_ref(word));
        }
        u64::from_le(word.load(order))
    }
}

/// Memory with a power-of-two number of words, indexed modulo that number, so that accesses need no bounds
/// check.
#[derive(Clone, Debug)]
pub struct CircularWords<C: CacheMaintenance = Coherent> {
    memory: SharedMemory<C>,
    /// Number of words minus one.
    mask: usize,
}

impl<C: CacheMaintenance> CircularWords<C> {
    /// Minimum number of words.
    pub const MIN_WORDS: usize = 8;

    /// Wraps the words of `memory`.
    ///
    /// # Panics
    /// Panics if their number is not a power of two or below [`MIN_WORDS`](Self::MIN_WORDS). The length comes
    /// from the caller, never from a peer.
    #[must_use]
    pub fn of(memory: SharedMemory<C>) -> Self {
        let count = memory.words().len();
        assert!(count.is_power_of_two() && count >= Self::MIN_WORDS, "{count} words");
        CircularWords { mask: count - 1, memory }
    }

    /// Returns the underlying memory of the words.
    #[inline(always)]
    #[must_use]
    pub fn memory(&self) -> &SharedMemory<C> {
        &self.memory
    }

    /// Returns word `index`, modulo the number of words.
    #[inline(always)]
    #[must_use]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        let [word] = self.chunk(index);
        word
    }

    /// Returns the `N` words from word `N * index` on, modulo the number of words. `N` must be a power of two
    /// and at most that number.
    #[inline(always)]
    #[must_use]
    pub fn chunk<const N: usize>(&self, index: usize) -> &[AtomicU64; N] {
        const { assert!(N.is_power_of_two()) };
        let start = index.wrapping_mul(N) & self.mask;
        #[cfg(not(loom))]
        if N <= Self::MIN_WORDS {
            // SAFETY: `start` is a multiple of `N` below the number of words, which is one too, as `of` has
            // checked: that many words follow. They are valid as those of `SharedMemory::words`.
            return unsafe { self.memory.words.cast::<AtomicU64>().add(start).cast().as_ref() };
        }
        self.memory.words()[start..].first_chunk().expect("at most the number of words")
    }
}

/// Copies `source` into `words` in relaxed stores; the tail of the last word is zeroed.
///
/// # Panics
/// Panics if `words` is shorter than `source`, which is a caller error.
#[inline]
pub fn copy_to_words(words: &[AtomicU64], source: &[u8]) {
    let (chunks, tail) = source.as_chunks::<8>();
    for (word, chunk) in words[..chunks.len()].iter().zip(chunks) {
        word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        words[chunks.len()].store(u64::from_ne_bytes(last), Ordering::Relaxed);
    }
}

/// Copies from `words` into `target` in relaxed loads, each word loaded once.
///
/// # Panics
/// As [`copy_to_words`].
#[inline]
pub fn copy_from_words(words: &[AtomicU64], target: &mut [u8]) {
    let (chunks, tail) = target.as_chunks_mut::<8>();
    let whole = chunks.len();
    for (word, chunk) in words[..whole].iter().zip(chunks) {
        *chunk = word.load(Ordering::Relaxed).to_ne_bytes();
    }
    if !tail.is_empty() {
        let last = words[whole].load(Ordering::Relaxed).to_ne_bytes();
        tail.copy_from_slice(&last[..tail.len()]);
    }
}

impl<C: CacheMaintenance> core::fmt::Debug for SharedMemory<C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SharedMemory({} bytes)", self.len_bytes())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn slices_are_bounded_and_aligned() {
        let memory = SharedMemory::zeroed(64);
        assert_eq!(memory.slice(0, 64).unwrap().len_bytes(), 64);
        assert_eq!(memory.slice(64, 0).unwrap().len_bytes(), 0);
        for (offset, length) in [(0, 72), (64, 8), (4, 8), (0, 12), (usize::MAX - 7, 8)] {
            assert!(memory.slice(offset, length).is_err(), "{offset} {length}");
        }
    }

    #[test]
    fn circular_words_are_addressed_modulo_their_number() {
        let memory = SharedMemory::zeroed(32 * 8);
        for (index, word) in memory.words().iter().enumerate() {
            word.store(index as u64, Ordering::Relaxed);
        }
        let circle = CircularWords::of(memory);
        let value = |word: &AtomicU64| word.load(Ordering::Relaxed);
        for index in [0, 1, 31, 32, 33, 1000, usize::MAX] {
            assert_eq!(value(circle.word(index)), index as u64 % 32);
            assert_eq!(circle.chunk::<8>(index).each_ref().map(value)[0], index as u64 % 4 * 8);
            let half = circle.chunk::<16>(index).each_ref().map(value);
            assert!(half.iter().copied().eq(index as u64 % 2 * 16..index as u64 % 2 * 16 + 16));
        }
        assert_eq!(circle.memory().len_bytes(), 256);
        let small = CircularWords::of(SharedMemory::zeroed(8 * 8));
        let beyond = std::panic::AssertUnwindSafe(|| small.chunk::<16>(0).len());
        assert!(std::panic::catch_unwind(beyond).is_err(), "more words than there are");
    }

    #[test]
    fn circular_memory_must_be_a_power_of_two_of_words() {
        for words in [0, 4, 12, 24] {
            let made = std::panic::catch_unwind(|| CircularWords::of(SharedMemory::zeroed(8 * words)));
            assert!(made.is_err(), "{words} words");
        }
    }

    #[test]
    fn slice_aliases_the_same_bytes() {
        let memory = SharedMemory::zeroed(64);
        let part = memory.slice(16, 16).unwrap();
        drop(memory.clone());
        part.store_le(1, 0x0102_0304_0506_0708, Ordering::Relaxed);
        let mut bytes = [0; 8];
        memory.copy_out(24, &mut bytes).unwrap();
        assert_eq!(bytes, [8, 7, 6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn bytes_of_any_length_come_back_in_order() {
        for length in 0..=40 {
            let memory = SharedMemory::zeroed(64);
            let source: std::vec::Vec<u8> = (1..=length).collect();
            memory.copy_in(8, &source).unwrap();
            let mut target = std::vec![0; source.len()];
            memory.copy_out(8, &mut target).unwrap();
            assert_eq!(source, target);
        }
        let memory = SharedMemory::zeroed(16);
        assert!(memory.copy_in(8, &[1; 9]).is_err());
    }

    #[test]
    fn memory_outlives_the_handle_it_was_made_from() {
        let part = {
            let memory = SharedMemory::zeroed(1024);
            memory.slice(512, 64).unwrap()
        };
        part.clear();
        assert_eq!(part.load_le(7, Ordering::Relaxed), 0);
    }
    #[test]
    fn clearing_reaches_every_word_of_the_part_and_no_other() {
        let memory = SharedMemory::zeroed(32);
        memory.copy_in(0, &[0xee; 32]).unwrap();
        memory.slice(8, 16).unwrap().clear();
        let words: std::vec::Vec<u64> =
            (0..4).map(|index| memory.load_le(index, Ordering::Relaxed)).collect();
        assert_eq!(words, [0xeeee_eeee_eeee_eeee, 0, 0, 0xeeee_eeee_eeee_eeee]);
    }

    #[test]
    fn zeroed_memory_is_rounded_up_to_words() {
        for (requested_bytes, rounded_bytes) in [(0, 0), (1, 8), (8, 8), (9, 16)] {
            assert_eq!(SharedMemory::zeroed(requested_bytes).len_bytes(), rounded_bytes);
        }
    }

    #[test]
    fn static_memory_is_shared_as_it_is() {
        static WORDS: [AtomicU64; 3] = [const { AtomicU64::new(7_u64.to_le()) }; 3];
        let memory = SharedMemory::from_static(&WORDS);
        assert_eq!(memory.len_bytes(), 24);
        memory.store_le(2, 9, Ordering::Relaxed);
        assert_eq!(WORDS.each_ref().map(|word| u64::from_le(word.load(Ordering::Relaxed))), [7, 7, 9]);
    }

    #[test]
    fn a_copy_out_beyond_the_end_is_refused_and_changes_nothing() {
        let memory = SharedMemory::zeroed(16);
        let mut target = [0xee; 9];
        let refused = OutOfRange { offset_bytes: 8, length_bytes: 16, available_bytes: 16 };
        assert_eq!(memory.copy_out(8, &mut target), Err(refused));
        assert_eq!(target, [0xee; 9]);
    }
}
