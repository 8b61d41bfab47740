//! Memory of single buffers, for pools with half trust: a domain maps a buffer when it first receives it and
//! keeps the mapping.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use tombolo_base::SharedMemory;
use tombolo_platform::memory::{FileId, check_sealed, create_sealed, file_id, map};
use tombolo_platform::{Errno, OsError};

/// Memory of one buffer, mapped by every domain that it was sent to.
#[derive(Debug)]
pub(super) struct OpenMemory {
    file: OwnedFd,
    id: FileId,
    memory: SharedMemory,
}

/// Memory of a pool's buffers, as far as this domain has mapped it.
#[derive(Debug, Default)]
pub(super) struct OpenMemoryList {
    of: Vec<Option<Arc<OpenMemory>>>,
}

impl OpenMemory {
    fn of_file(file: OwnedFd, length_bytes: usize) -> Result<OpenMemory, OsError> {
        let memory = map(&file, 0, length_bytes)?;
        Ok(OpenMemory { id: file_id(&file)?, file, memory })
    }

    pub(super) fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl OpenMemoryList {
    /// Creates the table for `count` buffers, with no memory mapped yet.
    pub(super) fn new(count: u32) -> OpenMemoryList {
        OpenMemoryList { of: vec![None; count as usize] }
    }

    /// Number of buffers whose memory this domain has mapped.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.of.iter().flatten().count()
    }

    fn pool_index(&mut self, buffer: u32) -> Result<&mut Option<Arc<OpenMemory>>, OsError> {
        let pool_index = self.of.get_mut(buffer as usize);
        pool_index.ok_or(OsError::new("find a buffer of a pool with half trust", Errno::INVAL))
    }

    /// Returns the memory of a buffer, creating it at the first use.
    pub(super) fn take(&mut self, buffer: u32, length_bytes: usize) -> Result<Arc<OpenMemory>, OsError> {
        let pool_index = self.pool_index(buffer)?;
        if let Some(known) = pool_index {
            return Ok(Arc::clone(known));
        }
        let file = create_sealed("tombolo-open-buffer", length_bytes as u64)?;
        let made = Arc::new(OpenMemory::of_file(file, length_bytes)?);
        *pool_index = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Returns the memory that arrived with a buffer, mapping it unless it is mapped already.
    pub(super) fn receive(
        &mut self,
        buffer: u32,
        file: OwnedFd,
        length_bytes: usize,
    ) -> Result<Arc<OpenMemory>, OsError> {
        let pool_index = self.pool_index(buffer)?;
        if let Some(known) = pool_index
            && known.id == file_id(&file)?
        {
            return Ok(Arc::clone(known));
        }
        check_sealed(&file, length_bytes as u64)?;
        let came = Arc::new(OpenMemory::of_file(file, length_bytes)?);
        *pool_index = Some(Arc::clone(&came));
        Ok(came)
    }
}
