//! Memory layout of an object, specified in `docs/specs/objects.md`.

use core::ops::Range;

use tombolo_base::LINE_BYTES;
use tombolo_directory::MAX_RANKS;

use crate::controller::Consistency;
use crate::memory::Memory;
use crate::object::Fault;

/// Unit in which changed data is fetched, in bytes.
pub const CHUNK_BYTES: usize = 4096;

/// First word of an object: "TMBOBJ01" read as little-endian bytes.
const MAGIC: u64 = u64::from_le_bytes(*b"TMBOBJ01");

/// Maximum data of an object, in bytes.
const MAX_LENGTH_BYTES: u64 = 1 << 40;

/// Method by which ranks access the data of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Caching {
    /// In a private copy, which is fetched when it is stale and published when it was changed.
    Cached,
    /// In the shared memory, value by value.
    Uncached,
    /// Reads in a private copy; each write goes to the copy and to the shared memory at once.
    WriteThrough,
}

impl Caching {
    const ALL: [Caching; 3] = [Caching::Cached, Caching::Uncached, Caching::WriteThrough];
}

/// Offsets of the parts of an object in memory. Line 0 is the header and line 1 the state, followed by a lock
/// line and a news line for each rank, the versions of the chunks, and the data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    at_bytes: usize,
    ranks: usize,
    length_bytes: usize,
}

impl Layout {
    /// Computes the layout of an object of `length_bytes` at `at_bytes`, a multiple of the line, for `ranks`
    /// ranks.
    ///
    /// # Errors
    /// [`Fault::BadHeader`] when a number is out of its range.
    pub fn new(at_bytes: usize, ranks: usize, length_bytes: usize) -> Result<Layout, Fault> {
        let is_valid = (1..=usize::from(MAX_RANKS)).contains(&ranks)
            && length_bytes as u64 <= MAX_LENGTH_BYTES
            && at_bytes as u64 <= MAX_LENGTH_BYTES
            && at_bytes.is_multiple_of(LINE_BYTES);
        if is_valid {
            Ok(Layout { at_bytes, ranks, length_bytes })
        } else {
            Err(Fault::BadHeader { at_bytes })
        }
    }

    /// Returns the offset of the object, in bytes.
    #[must_use]
    pub fn at_bytes(&self) -> usize {
        self.at_bytes
    }

    /// Returns the number of ranks that can access it.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Returns the length of the data, in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.length_bytes
    }

    /// Returns the number of chunks of the data.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.length_bytes.div_ceil(CHUNK_BYTES)
    }

    /// Returns the state line. Its first word is the version of the object, its second the dead writers whose
    /// work was repaired.
    #[must_use]
    pub fn state(&self) -> usize {
        1
    }

    /// Returns the lock line of `rank`, which only that rank writes.
    #[must_use]
    pub fn lock(&self, rank: usize) -> usize {
        2 + rank
    }

    /// Returns the lines through which ranks learn that the object was written, in their order.
    #[must_use]
    pub fn news(&self) -> Range<usize> {
        2 + self.ranks..2 + 2 * self.ranks
    }

    /// Returns the offset of a line in the memory, in bytes.
    #[must_use]
    pub fn line(&self, line: usize) -> usize {
        self.at_bytes + line * LINE_BYTES
    }

    /// Returns the offset of the versions of the chunks, one word each.
    #[must_use]
    pub fn versions(&self) -> usize {
        self.line(self.news().end)
    }

    /// Returns the offset of the data.
    #[must_use]
    pub fn data(&self) -> usize {
        self.versions() + (self.chunks() * 8).next_multiple_of(LINE_BYTES)
    }

    /// Returns the total length, in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.data() - self.at_bytes + self.length_bytes.next_multiple_of(LINE_BYTES)
    }
}

/// Header of an object. Its creator writes it before another rank learns of the object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// Id of the object, unique in the job.
    pub id: u64,
    /// Hash of the type of the data.
    pub shape: u64,
    /// Method by which ranks learn that it was written.
    pub consistency: Consistency,
    /// Method by which ranks access the data.
    pub caching: Caching,
}

impl Header {
    /// Creates an object with the bytes `data`.
    ///
    /// # Errors
    /// [`Fault::Memory`] when the memory is too short. Other ranks then find no object.
    pub fn create(&self, memory: &dyn Memory, layout: &Layout, data: &[u8]) -> Result<(), Fault> {
        let lines = [0; LINE_BYTES];
        memory.put(layout.at_bytes, &lines)?;
        let mut offset = layout.line(1);
        while offset < layout.data() {
            memory.put(offset, &lines)?;
            offset += LINE_BYTES;
        }
        memory.put(layout.data(), data)?;
        let kinds = layout.ranks as u64 | (self.consistency as u64) << 8 | (self.caching as u64) << 16;
        let words = [0, self.id, layout.length_bytes as u64, self.shape, kinds];
        for (index, word) in words.into_iter().enumerate() {
            memory.store(layout.at_bytes + 8 * index, word)?;
        }
        Ok(memory.store(layout.at_bytes, MAGIC)?)
    }

    /// Reads the header of the object at `at_bytes`, which must have the id `id` and data of the type
    /// `shape`.
    ///
    /// # Errors
    /// [`Fault`] when there is no such object, or it has another type.
    pub fn read(
        memory: &dyn Memory,
        at_bytes: usize,
        ranks: usize,
        id: u64,
        shape: u64,
    ) -> Result<(Header, Layout), Fault> {
        let mut words = [0; 5];
        for (index, word) in words.iter_mut().enumerate() {
            *word = memory.load(at_bytes.checked_add(8 * index).ok_or(Fault::BadHeader { at_bytes })?)?;
        }
        let [magic, its_id, length, its_shape, kinds] = words;
        if magic != MAGIC || its_id != id {
            return Err(Fault::NoSuchObject { at_bytes, id });
        }
        if its_shape != shape {
            return Err(Fault::OtherType { at_bytes });
        }
        let bad = Fault::BadHeader { at_bytes };
        let kind = |shift: u32| (kinds >> shift & 0xff) as usize;
        let consistency = *Consistency::ALL.get(kind(8)).ok_or(bad)?;
        let caching = *Caching::ALL.get(kind(16)).ok_or(bad)?;
        let layout = Layout::new(at_bytes, ranks, usize::try_from(length).map_err(|_| bad)?)?;
        let end = at_bytes.checked_add(layout.total_bytes());
        if kind(0) != ranks || kinds >> 24 != 0 || end.is_none_or(|end| end > memory.len_bytes()) {
            return Err(bad);
        }
        Ok((Header { id, shape, consistency, caching }, layout))
    }
}
