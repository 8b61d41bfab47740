//! Memory of single buffers, of pools with half trust: a domain maps what it was sent, and keeps it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use tombolo_base::SharedMemory;
use tombolo_platform::memory::{FileId, check_sealed, create_sealed, file_id, map};
use tombolo_platform::{Errno, OsError};

/// The memory of a buffer, which all those map that were sent it.
#[derive(Debug)]
pub(super) struct OpenMemory {
    file: OwnedFd,
    id: FileId,
    memory: SharedMemory,
}

/// The memory of the buffers of a pool, as far as this domain has it.
#[derive(Debug, Default)]
pub(super) struct OpenMemories {
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

impl OpenMemories {
    /// For `count` buffers, none of which has memory yet.
    pub(super) fn new(count: u32) -> OpenMemories {
        OpenMemories { of: vec![None; count as usize] }
    }

    /// The buffers whose memory this domain has.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.of.iter().flatten().count()
    }

    fn place(&mut self, buffer: u32) -> Result<&mut Option<Arc<OpenMemory>>, OsError> {
        let place = self.of.get_mut(buffer as usize);
        place.ok_or(OsError::new("find a buffer of a pool with half trust", Errno::INVAL))
    }

    /// The memory of a buffer, made with the first use.
    pub(super) fn take(&mut self, buffer: u32, length_bytes: usize) -> Result<Arc<OpenMemory>, OsError> {
        let place = self.place(buffer)?;
        if let Some(known) = place {
            return Ok(Arc::clone(known));
        }
        let file = create_sealed("tombolo-open-buffer", length_bytes as u64)?;
        let made = Arc::new(OpenMemory::of_file(file, length_bytes)?);
        *place = Some(Arc::clone(&made));
        Ok(made)
    }

    /// The memory that came with a buffer; what is mapped of it already is not mapped again.
    pub(super) fn receive(
        &mut self,
        buffer: u32,
        file: OwnedFd,
        length_bytes: usize,
    ) -> Result<Arc<OpenMemory>, OsError> {
        let place = self.place(buffer)?;
        if let Some(known) = place
            && known.id == file_id(&file)?
        {
            return Ok(Arc::clone(known));
        }
        check_sealed(&file, length_bytes as u64)?;
        let came = Arc::new(OpenMemory::of_file(file, length_bytes)?);
        *place = Some(Arc::clone(&came));
        Ok(came)
    }
}
