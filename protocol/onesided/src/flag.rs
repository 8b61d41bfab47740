//! Flags: lines by which one side tells another of something.

use tombolo_base::coherence::CACHE_LINE_BYTES;
use tombolo_base::sync::Ordering;
use tombolo_base::{CacheMaintenance, OutOfRange, SharedMemory, Steps};

/// Words of a flag's line beside its value, which travel with it.
pub const FLAG_WORDS: usize = CACHE_LINE_BYTES / 8 - 1;

/// The value is the last word of the line: caches store a line from the first word to the last and load it
/// from the last to the first, so that the words before it are as new as it is.
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

/// The side that raises a flag. There is one for each flag, and it alone writes the line.
#[derive(Clone, Debug)]
pub struct FlagWriter<C: CacheMaintenance> {
    line: SharedMemory<C>,
    raised: u64,
}

impl<C: CacheMaintenance> FlagWriter<C> {
    /// What [`raise`](Self::raise) does to shared memory.
    pub const RAISE_BOUND: Steps = Steps::of(0, 1);

    /// The flag at `offset_bytes` of `memory`, a multiple of the cache line. The line is zero: the flag was
    /// never raised.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn new(memory: &SharedMemory<C>, offset_bytes: usize) -> Result<Self, OutOfRange> {
        Ok(FlagWriter { line: line(memory, offset_bytes)?, raised: 0 })
    }

    /// Raises the flag and returns its new value, with `words` from the word `first` of the line on.
    ///
    /// What this side put before is there for a reader that sees the new value.
    ///
    /// # Panics
    /// If the words do not fit [`FLAG_WORDS`], a mistake of the caller.
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

    /// [`raise_with`](Self::raise_with) no words.
    pub fn raise(&mut self) -> u64 {
        self.raise_with(0, &[])
    }

    /// Raises the flag `count` times at once.
    pub fn raise_by(&mut self, count: u64) -> u64 {
        self.raised += count;
        self.line.store_through_le(VALUE, self.raised, Ordering::Release);
        self.raised
    }

    /// How often it was raised.
    #[must_use]
    pub fn raised(&self) -> u64 {
        self.raised
    }
}

/// The side that looks at a flag.
#[derive(Clone, Debug)]
pub struct FlagReader<C: CacheMaintenance> {
    line: SharedMemory<C>,
    taken: u64,
}

impl<C: CacheMaintenance> FlagReader<C> {
    /// What [`latest`](Self::latest), [`is_raised`](Self::is_raised) and [`take`](Self::take) do to shared
    /// memory.
    pub const LOOK_BOUND: Steps = Steps::of(1, 0);

    /// The flag at `offset_bytes` of `memory`, of which nothing was taken yet.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub fn new(memory: &SharedMemory<C>, offset_bytes: usize) -> Result<Self, OutOfRange> {
        Ok(FlagReader { line: line(memory, offset_bytes)?, taken: 0 })
    }

    /// How often the flag has been raised, as far as the writer wrote back.
    #[must_use]
    pub fn latest(&self) -> u64 {
        self.line.load_current_le(VALUE, Ordering::Acquire)
    }

    /// How many of these were taken.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether the flag was raised beyond what was taken.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.latest() > self.taken
    }

    /// Takes one, if the flag was raised beyond what was taken.
    pub fn take(&mut self) -> bool {
        let raised = self.is_raised();
        self.taken += u64::from(raised);
        raised
    }

    /// A word of the line, which came with the value that [`latest`](Self::latest) returned last, or a later
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

/// A flag that holds a value of its user, such as *set* and *unset*. Several sides may write it, one at a
/// time: what another side does in between is lost, as with RCCE's flags, so that they take turns.
#[derive(Clone, Debug)]
pub struct ValueFlag<C: CacheMaintenance> {
    line: SharedMemory<C>,
}

impl<C: CacheMaintenance> ValueFlag<C> {
    /// The offset of the value in the line, in bytes.
    pub const VALUE_OFFSET_BYTES: usize = VALUE * 8;

    /// The flag at `offset_bytes` of `memory`, a multiple of the cache line.
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
        // Another side may have written the line since this one held it.
        self.line.invalidate(0..VALUE + 1);
        if !tag.is_empty() {
            tombolo_base::memory::copy_to_words(&self.line.words()[..VALUE], tag);
            self.line.caches().between_stores(self.line.words());
        }
        self.line.store_through_le(VALUE, value, Ordering::Release);
    }

    /// The value, as another side last wrote it back.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.line.load_current_le(VALUE, Ordering::Acquire)
    }

    /// Copies the tag out that came with the value which [`read`](Self::read) returned last.
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
    fn a_reader_that_looks_late_learns_how_often_the_flag_was_raised() {
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
    fn value_flags_change_hands() {
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
