//! Where in memory the parts of an object lie: `docs/specs/objects.md`.

use core::ops::Range;

use tombolo_base::LINE_BYTES;
use tombolo_directory::MAX_RANKS;

use crate::controller::Consistency;
use crate::memory::Memory;
use crate::object::Fault;

/// The unit in which changed data is fetched, in bytes.
pub const CHUNK_BYTES: usize = 4096;

/// "TMBOBJ01" read as little-endian bytes: the first word of an object.
const MAGIC: u64 = u64::from_le_bytes(*b"TMBOBJ01");

/// The most data of an object, in bytes.
const MAX_LENGTH_BYTES: u64 = 1 << 40;

/// How ranks reach the data of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Caching {
    /// In a private copy, which is fetched when it is old and published when it was changed.
    Cached,
    /// In the shared memory, value by value.
    Uncached,
    /// Reads in a private copy; each write goes to the copy and to the shared memory at once.
    WriteThrough,
}

impl Caching {
    const ALL: [Caching; 3] = [Caching::Cached, Caching::Uncached, Caching::WriteThrough];
}

/// The parts of an object in memory. Line 0 is the header, line 1 the state, then come a lock line and a
/// line with news for each rank, the versions of the chunks, and the data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    at_bytes: usize,
    ranks: usize,
    length_bytes: usize,
}

impl Layout {
    /// Of an object of `length_bytes` at `at_bytes`, a multiple of the line, for `ranks` ranks.
    ///
    /// # Errors
    /// [`Fault::BadHeader`]: a number is out of its range.
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

    /// Where the object lies.
    #[must_use]
    pub fn at_bytes(&self) -> usize {
        self.at_bytes
    }

    /// The ranks that can have it.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// The length of the data, in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.length_bytes
    }

    /// The chunks of the data.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.length_bytes.div_ceil(CHUNK_BYTES)
    }

    /// The line of the state: in its first word the version of the object, in its second the dead writers
    /// whose work was repaired.
    #[must_use]
    pub fn state(&self) -> usize {
        1
    }

    /// The line that `rank` alone writes: its lock word.
    #[must_use]
    pub fn lock(&self, rank: usize) -> usize {
        2 + rank
    }

    /// The lines by which ranks learn that the object was written, in their order.
    #[must_use]
    pub fn news(&self) -> Range<usize> {
        2 + self.ranks..2 + 2 * self.ranks
    }

    /// The offset of a line in the memory, in bytes.
    #[must_use]
    pub fn line(&self, line: usize) -> usize {
        self.at_bytes + line * LINE_BYTES
    }

    /// The offset of the versions of the chunks, a word each.
    #[must_use]
    pub fn versions(&self) -> usize {
        self.line(self.news().end)
    }

    /// The offset of the data.
    #[must_use]
    pub fn data(&self) -> usize {
        self.versions() + (self.chunks() * 8).next_multiple_of(LINE_BYTES)
    }

    /// The length of the whole, in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.data() - self.at_bytes + self.length_bytes.next_multiple_of(LINE_BYTES)
    }
}

/// What an object is. Its creator writes it, before another rank learns of the object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// A number that no other object of the job has.
    pub id: u64,
    /// A hash of the type of the data.
    pub shape: u64,
    /// How ranks learn that it was written.
    pub consistency: Consistency,
    /// How ranks reach the data.
    pub caching: Caching,
}

impl Header {
    /// Makes an object of the bytes `data`.
    ///
    /// # Errors
    /// [`Fault::Memory`]: there is not enough of it. Another rank finds no object then.
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

    /// Reads what the object at `at_bytes` is, which has the number `id` and data of the type `shape`.
    ///
    /// # Errors
    /// [`Fault`]: there is no such object, or it is of another type.
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
