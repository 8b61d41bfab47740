//! Page mappings of this program, which the protocol changes.

use tombolo_directory::wire::HEAD_BYTES;
use tombolo_directory::{Access, Rank, Store, difference};
use tombolo_platform::OsError;
use tombolo_platform::memory::PagedMemory;

/// Content of a page, preceded by room for a message header, so that it can be sent without a copy.
#[derive(Clone, Debug)]
pub(crate) struct Content(pub(crate) Vec<u8>);

impl Content {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.get(HEAD_BYTES..).unwrap_or_default()
    }
}

/// The page store of this program.
#[derive(Debug)]
pub(crate) struct Backing {
    pub(crate) memory: PagedMemory,
    /// Whether each page is mapped with its current access. Pages that the program may access but has not
    /// accessed yet are not mapped.
    mapped: Vec<bool>,
    /// Pages lost since the last report.
    pub(crate) lost: Vec<(u32, Rank)>,
    /// First failed syscall. After it the state of the pages is unreliable.
    pub(crate) failure: Option<OsError>,
    /// Buffers of processed messages, for reuse.
    spare_buffers: Vec<Vec<u8>>,
}

/// Maximum number of spare buffers.
const MAX_SPARE: usize = 16;

impl Backing {
    pub(crate) fn new(memory: PagedMemory) -> Self {
        let mapped = vec![false; memory.pages() as usize];
        Backing { memory, mapped, lost: Vec::new(), failure: None, spare_buffers: Vec::new() }
    }

    fn record_error(&mut self, done: Result<(), OsError>) {
        if let Err(error) = done {
            self.failure.get_or_insert(error);
        }
    }

    /// Returns a buffer with unspecified content.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare_buffers.pop().unwrap_or_default()
    }

    /// Keeps a buffer for reuse.
    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare_buffers.len() < MAX_SPARE {
            self.spare_buffers.push(buffer);
        }
    }

    /// Returns whether the program can access a page without a fault.
    pub(crate) fn is_mapped(&self, page: u32) -> bool {
        self.mapped[page as usize]
    }

    /// Resolves a fault at a page that the program may access.
    pub(crate) fn resolve(&mut self, page: u32, access: Access) {
        let writable = access == Access::Write;
        // The kernel may have unmapped it to reclaim memory; if not, this only wakes the thread.
        let mut done = self.memory.map(page, writable);
        if writable && self.mapped[page as usize] {
            done = done.and(self.memory.unprotect(page));
        }
        self.mapped[page as usize] = true;
        self.record_error(done);
    }
}

impl Store for Backing {
    type Content = Content;

    fn downgrade(&mut self, page: u32, leave: Access, content: bool) -> Option<Content> {
        if self.mapped[page as usize] {
            let done = if leave == Access::None {
                self.mapped[page as usize] = false;
                self.memory.unmap(page)
            } else {
                self.memory.protect(page)
            };
            self.record_error(done);
        }
        content.then(|| self.copy(page))
    }

    fn install(&mut self, page: u32, access: Access, content: Content) {
        let done = self.memory.copy_in(page, content.bytes());
        self.record_error(done);
        self.recycle(content.0);
        self.mapped[page as usize] = true;
        let done = self.memory.map(page, access == Access::Write);
        self.record_error(done);
    }

    fn upgrade(&mut self, page: u32) {
        let done = if self.mapped[page as usize] {
            self.memory.unprotect(page)
        } else {
            self.mapped[page as usize] = true;
            self.memory.map(page, true)
        };
        self.record_error(done);
    }

    fn mark_lost(&mut self, page: u32, owner: Rank) {
        self.lost.push((page, owner));
    }

    fn copy(&mut self, page: u32) -> Content {
        let mut buffer = self.buffer();
        buffer.resize(HEAD_BYTES + self.memory.page_bytes(), 0);
        let done = self.memory.copy_out(page, &mut buffer[HEAD_BYTES..]);
        self.record_error(done);
        Content(buffer)
    }

    fn difference(&mut self, page: u32, before: &Content) -> Option<Content> {
        let now = self.copy(page);
        let mut buffer = self.buffer();
        buffer.clear();
        buffer.resize(HEAD_BYTES, 0);
        let differs = difference::encode(before.bytes(), now.bytes(), &mut buffer);
        Store::recycle(self, now);
        if differs {
            return Some(Content(buffer));
        }
        Store::recycle(self, Content(buffer));
        None
    }

    fn merge(&mut self, page: u32, difference: Content) -> bool {
        let Some(lines) = difference::decode_lines(difference.bytes(), self.memory.page_bytes()) else {
            return false;
        };
        let merged = lines.map(|line| self.memory.merge(page, line.offset_bytes, line.mask, &line.bytes));
        let done = merged.collect::<Result<(), OsError>>();
        self.record_error(done);
        Store::recycle(self, difference);
        true
    }

    fn recycle(&mut self, content: Content) {
        Backing::recycle(self, content.0);
    }
}
