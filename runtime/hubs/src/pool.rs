//! Pools of blocks of memory.

use std::sync::Arc;

use tombolo::Error;
use tombolo::region::Mapping;
use tombolo_hub::{Kind, Taken};

use crate::HubError;
use crate::hub::Hub;
use crate::task::Task;

/// Pool: blocks of memory of equal size, each held by one task at a time.
///
/// The memory is on the node of the hub. Tasks on the same kernel map it; other tasks only have the numbers
/// of their blocks.
#[derive(Clone, Debug)]
pub struct Pool {
    pub(crate) hub: Hub,
    memory: Option<Arc<Mapping>>,
}

/// Block held by this task, until this is dropped.
#[derive(Debug)]
pub struct Block {
    hub: Hub,
    number: u32,
    token: u64,
    memory: Option<Arc<Mapping>>,
}

impl Task {
    /// Opens a pool, waiting for its name up to the deadline of the task, and maps its memory.
    ///
    /// # Errors
    /// [`HubError::Unknown`], [`HubError::OtherKind`].
    pub fn pool(&self, name: &str) -> Result<Pool, HubError> {
        let hub = self.hub(name, &[Kind::Pool], "")?;
        let memory = hub.map()?.map(Arc::new);
        Ok(Pool { hub, memory })
    }
}

impl Pool {
    /// Returns the hub, for its generic operations.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Number of blocks in the pool.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.hub.capacity()
    }

    /// Size of a block, in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.hub.value_bytes()
    }

    /// Whether this task has mapped the memory of the blocks.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.memory.is_some()
    }

    /// Takes a block, waiting up to the deadline of the task until one is free. Its contents are what its
    /// last holder left.
    ///
    /// # Errors
    /// [`Fault::TimedOut`](crate::Fault::TimedOut), [`Fault::Closed`](crate::Fault::Closed),
    /// [`HubError::Lost`].
    pub fn allocate(&self) -> Result<Block, HubError> {
        self.block(self.hub.get()?)
    }

    /// Async version of [`allocate`](Self::allocate).
    ///
    /// # Errors
    /// Same as [`allocate`](Self::allocate).
    pub async fn allocate_async(&self) -> Result<Block, HubError> {
        self.block(self.hub.start_get()?.wait_async().await?)
    }

    /// Takes a block if one is free.
    ///
    /// # Errors
    /// Same as [`allocate`](Self::allocate), with [`Fault::WouldBlock`](crate::Fault::WouldBlock).
    pub fn try_allocate(&self) -> Result<Block, HubError> {
        self.block(self.hub.nonblocking().get()?)
    }

    pub(crate) fn block(&self, taken: Taken) -> Result<Block, HubError> {
        let Taken::Block { number, token, .. } = taken else {
            return Err(self.hub.info.unexpected_answer());
        };
        Ok(Block { hub: self.hub.clone(), number, token, memory: self.memory.clone() })
    }
}

impl Block {
    /// Number of the block, from 0.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the offset in the pool of `length_bytes` bytes at `offset_bytes`, if they are within the
    /// block.
    fn range(&self, offset_bytes: usize, length_bytes: usize) -> Result<(&Mapping, usize), HubError> {
        let block_bytes = self.hub.value_bytes() as usize;
        let fits = offset_bytes.checked_add(length_bytes).is_some_and(|end| end <= block_bytes);
        match &self.memory {
            Some(memory) if fits => Ok((memory, self.number as usize * block_bytes + offset_bytes)),
            _ => {
                let (given, allowed) = (offset_bytes as u64, "a range of a block whose memory is mapped");
                Err(HubError::Tombolo(Error::BadOption { option: "offset of a block", given, allowed }))
            }
        }
    }

    /// Reads bytes from the block into `target`.
    ///
    /// # Errors
    /// [`HubError::Tombolo`] if the range is not within the block, or this task has not mapped the pool.
    pub fn read(&self, offset_bytes: usize, target: &mut [u8]) -> Result<(), HubError> {
        let (memory, at) = self.range(offset_bytes, target.len())?;
        Ok(memory.read(at, target)?)
    }

    /// Writes the bytes of `source` to the block.
    ///
    /// # Errors
    /// Same as [`read`](Self::read).
    pub fn write(&mut self, offset_bytes: usize, source: &[u8]) -> Result<(), HubError> {
        let (memory, at) = self.range(offset_bytes, source.len())?;
        Ok(memory.write(at, source)?)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.hub.release(self.token);
    }
}
