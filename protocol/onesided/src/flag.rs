//! Flags: lines by which one side notifies another.

use tombolo_base::coherence::CACHE_LINE_BYTES;
use tombolo_base::sync::Ordering;
use tombolo_base::{CacheMaintenance, OutOfRange, SharedMemory, Steps};

/// Number of words in a flag's line beside its value, which travel with it.
pub const FLAG_WORDS: usize = CACHE_LINE_BYTES / 8 - 1;

/// Index of the value, the last word of the line: caches store a line from the first word to the last and
/// load it from the last to the first, so that the words before it are at least as new.
const VALUE: usize = FLAG_WORDS;

fn line<C: CacheMaintenance>(
    memory: &SharedMemory<C>,
    offset_bytes: usize,
) -> Result<SharedMemory<C>, OutOfRange> {
    if !offset_bytes.is_multiple_of(CACHE_LINE_BYTES) {
        let available_bytes = memory.len_bytes();
        return Err(OutOfRange { offset_bytes, length_bytes: CACHE_LINE_BYTES, available_bytes });
    }
    memory.slice(offset_bytes, CACHE_LINE_BYTES)
}

/// Side that raises a flag. There must be only one for each flag, and only it writes the line.
#[derive(Clone, Debug)]
pub struct FlagWriter<C: CacheMaintenance> {
    line: SharedMemory<C>,
    raised: u64,
}

impl<C: CacheMaintenance> FlagWriter<C> {
    /// Bounds the accesses of [`raise`](Self::raise) to shared memory.
    pub const RAISE_BOUND: Steps = Steps::of(0, 1);

    /// Creates the writer of the flag at `offset_bytes` of `memory`, a multiple of the cache line. The line
    /// must be zero: the flag was never raised.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn new(memory: &SharedMemory<C>, offset_bytes: usize) -> Result<Self, OutOfRange> {
        Ok(FlagWriter { line: line(memory, offset_bytes)?, raised: 0 })
    }

    /// Raises the flag and returns its new value. Stores `words` from word `first` of the line on.
    ///
    /// Earlier puts of this side are visible to a reader that sees the new value.
    ///
    /// # Panics
    /// Panics if the words do not fit into [`FLAG_WORDS`].
    pub fn raise_with(&mut self, first: usize, words: &[u64]) -> u64 {
        assert!(first + words.len() <= FLAG_WORDS, "{} words from {first} on", words.len());
        for (index, word) in words.iter().enumerate() {
            self.line.store_le(first + index, *word, Ordering::Relaxed);
            self.line.caches().between_stores(self.line.words());
        }
        self.raised += 1;
        self.line.store_through_le(VALUE, self.raised, Ordering::Release);
        self.raised
    }

    /// Like [`raise_with`](Self::raise_with), without words.
    pub fn raise(&mut self) -> u64 {
        self.raise_with(0, &[])
    }

    /// Raises the flag `count` times at once.
    pub fn raise_by(&mut self, count: u64) -> u64 {
        self.raised += count;
        self.line.store_through_le(VALUE, self.raised, Ordering::Release);
        self.raised
    }

    /// Returns how often it was raised.
    #[must_use]
    pub fn raised(&self) -> u64 {
        self.raised
    }
}

/// Side that reads a flag.
#[derive(Clone, Debug)]
pub struct FlagReader<C: CacheMaintenance> {
    line: SharedMemory<C>,
    taken: u64,
}

impl<C: CacheMaintenance> FlagReader<C> {
    /// Bounds the accesses of [`latest`](Self::latest), [`is_raised`](Self::is_raised) and
    /// [`take`](Self::take) to shared memory.
    pub const READ_BOUND: Steps = Steps::of(1, 0);

    /// Creates a reader of the flag at `offset_bytes` of `memory`, of which nothing was taken yet.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn new(memory: &SharedMemory<C>, offset_bytes: usize) -> Result<Self, OutOfRange> {
        Ok(FlagReader { line: line(memory, offset_bytes)?, taken: 0 })
    }

    /// Returns how often the flag has been raised, as far as the writer has written back.
    #[must_use]
    pub fn latest(&self) -> u64 {
        self.line.load_current_le(VALUE, Ordering::Acquire)
    }

    /// Returns how many of these were taken.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether the flag was raised more often than was taken.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.latest() > self.taken
    }

    /// Takes one, if the flag was raised more often than was taken.
    pub fn take(&mut self) -> bool {
        let raised = self.is_raised();
        self.taken += u64::from(raised);
        raised
    }

    /// Returns a word of the line, from the version that [`latest`](Self::latest) last returned or a later
    /// one.
    ///
    /// # Panics
    /// If `index` is not below [`FLAG_WORDS`].
    #[must_use]
    pub fn word(&self, index: usize) -> u64 {
        assert!(index < FLAG_WORDS, "word {index}");
        self.line.load_le(index, Ordering::Relaxed)
    }
}

/// Flag that holds a value of its user, such as *set* and *unset*. Several sides may write it, one at a time:
/// concurrent writes of another side are lost, as with RCCE's flags, so the sides must take turns.
#[derive(Clone, Debug)]
pub struct ValueFlag<C: CacheMaintenance> {
    line: SharedMemory<C>,
}

impl<C: CacheMaintenance> ValueFlag<C> {
    /// Offset of the value in the line, in bytes.
    pub const VALUE_OFFSET_BYTES: usize = VALUE * 8;

    /// Creates the flag at `offset_bytes` of `memory`, a multiple of the cache line.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn new(memory: &SharedMemory<C>, offset_bytes: usize) -> Result<Self, OutOfRange> {
        Ok(ValueFlag { line: line(memory, offset_bytes)? })
    }

    /// Sets the value, with `tag` in the words before it, in address order.
    ///
    /// # Panics
    /// If the tag is longer than [`FLAG_WORDS`] words.
    pub fn write(&self, value: u64, tag: &[u8]) {
        // Another side may have written the line since this side held it.
        self.line.invalidate(0..VALUE + 1);
        if !tag.is_empty() {
            tombolo_base::memory::copy_to_words(&self.line.words()[..VALUE], tag);
            self.line.caches().between_stores(self.line.words());
        }
        self.line.store_through_le(VALUE, value, Ordering::Release);
    }

    /// Returns the value, as another side last wrote it back.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.line.load_current_le(VALUE, Ordering::Acquire)
    }

    /// Copies the tag that came with the value last returned by [`read`](Self::read).
    ///
    /// # Panics
    /// If `tag` is longer than [`FLAG_WORDS`] words.
    pub fn tag(&self, tag: &mut [u8]) {
        tombolo_base::memory::copy_from_words(&self.line.words()[..VALUE], tag);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use tombolo_base::coherence::{EmulatedCache, Evictions, Flushed};

    fn views() -> [SharedMemory<Flushed>; 2] {
        let memory = SharedMemory::zeroed(128);
        [(); 2].map(|()| EmulatedCache::view(memory.clone(), Evictions { seed: 1, one_in: None }))
    }

    #[test]
    fn late_reader_gets_the_number_of_raises() {
        let [writer, reader] = views();
        let mut writer = FlagWriter::new(&writer, 64).unwrap();
        let mut reader = FlagReader::new(&reader, 64).unwrap();
        assert!(!reader.take());
        for round in 1..=3 {
            assert_eq!(writer.raise_with(2, &[10 * round]), round);
        }
        assert_eq!((reader.latest(), reader.word(2)), (3, 30));
        assert!(reader.take() && reader.take() && reader.take() && !reader.take());
        assert_eq!((reader.taken(), writer.raised()), (3, 3));
        assert_eq!((writer.raise_by(4), reader.latest()), (7, 7));
    }

    #[test]
    fn value_flags_can_be_written_by_each_side_in_turn() {
        let [a, b] = views();
        let (at_a, at_b) = (ValueFlag::new(&a, 0).unwrap(), ValueFlag::new(&b, 0).unwrap());
        for round in 0..5_u8 {
            at_a.write(1, &[round; 11]);
            assert_eq!(at_b.read(), 1);
            let mut tag = [0; 11];
            at_b.tag(&mut tag);
            assert_eq!(tag, [round; 11]);
            at_b.write(0, &[]);
            assert_eq!(at_a.read(), 0);
        }
    }

    #[test]
    fn a_flag_is_a_whole_line() {
        let [memory, _] = views();
        for offset in [8, 32, 128] {
            assert!(FlagWriter::new(&memory, offset).is_err(), "{offset}");
            assert!(FlagReader::new(&memory, offset).is_err(), "{offset}");
            assert!(ValueFlag::new(&memory, offset).is_err(), "{offset}");
        }
    }
}
