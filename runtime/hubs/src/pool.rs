//! Pools of blocks of memory.

use std::sync::Arc;

use tombolo::Error;
use tombolo::region::Mapping;
use tombolo_hub::{Kind, Taken};

use crate::HubError;
use crate::hub::Hub;
use crate::task::Task;

/// A pool: a number of blocks of one size, each held by one task at a time.
///
/// The memory lies on the node of the hub. Tasks on the same kernel have it mapped; others have the numbers
/// of their blocks only.
#[derive(Clone, Debug)]
pub struct Pool {
    pub(crate) hub: Hub,
    memory: Option<Arc<Mapping>>,
}

/// A block that this task holds, until this is dropped.
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
    /// The hub, for its generic operations.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// How many blocks there are.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.hub.capacity()
    }

    /// The size of a block, in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.hub.value_bytes()
    }

    /// Whether this task has the memory of the blocks.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.memory.is_some()
    }

    /// Takes a block, waiting up to the deadline of the task until one is free. Its content is what its last
    /// holder left.
    ///
    /// # Errors
    /// [`Fault::TimedOut`](crate::Fault::TimedOut), [`Fault::Closed`](crate::Fault::Closed),
    /// [`HubError::Lost`].
    pub fn allocate(&self) -> Result<Block, HubError> {
        self.block(self.hub.get()?)
    }

    /// [`allocate`](Self::allocate) as a future.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub async fn allocate_async(&self) -> Result<Block, HubError> {
        self.block(self.hub.start_get()?.wait_async().await?)
    }

    /// Takes a block if one is free.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate), with [`Fault::WouldBlock`](crate::Fault::WouldBlock).
    pub fn try_allocate(&self) -> Result<Block, HubError> {
        self.block(self.hub.trying().get()?)
    }

    pub(crate) fn block(&self, taken: Taken) -> Result<Block, HubError> {
        let Taken::Block { number, token, .. } = taken else {
            return Err(self.hub.about.wrong_answer());
        };
        Ok(Block { hub: self.hub.clone(), number, token, memory: self.memory.clone() })
    }
}

impl Block {
    /// Its number, from 0.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Where it lies in the pool, if `length_bytes` from `offset_bytes` on are in it.
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

    /// Reads bytes from the block.
    ///
    /// # Errors
    /// [`HubError::Tombolo`]: not in the block, or this task has no memory of the pool.
    pub fn read(&self, offset_bytes: usize, target: &mut [u8]) -> Result<(), HubError> {
        let (memory, at) = self.range(offset_bytes, target.len())?;
        Ok(memory.read(at, target)?)
    }

    /// Writes bytes to the block.
    ///
    /// # Errors
    /// As [`read`](Self::read).
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
