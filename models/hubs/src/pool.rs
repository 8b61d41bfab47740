//! Pools of blocks of memory.

use std::rc::Rc;
use std::time::Duration;

use tombolo::Error;
use tombolo::region::{CapabilityId, Mapping, Rights};
use tombolo_hub::{Kind, Operation, Taken};

use crate::HubError;
use crate::chan::wrong_answer;
use crate::task::{Hub, Task};

/// A pool: a number of blocks of one size, each held by one task at a time.
///
/// The memory lies on the node of the hub. Tasks on the same kernel have it mapped; others have the numbers
/// of their blocks only.
#[derive(Clone, Debug)]
pub struct Pool {
    task: Task,
    pub(crate) hub: Hub,
    memory: Option<Rc<Mapping>>,
}

/// A block that this task holds, until this is dropped.
#[derive(Debug)]
pub struct Block {
    task: Task,
    hub: Hub,
    number: u32,
    token: u64,
    memory: Option<Rc<Mapping>>,
}

impl Task {
    /// Opens a pool, waiting for its name up to the deadline of the task, and maps its memory.
    ///
    /// # Errors
    /// [`HubError::Unknown`], [`HubError::OtherKind`].
    pub fn pool(&self, name: &str) -> Result<Pool, HubError> {
        let hub = self.open(name, &[Kind::Pool], "")?;
        let domain = self.domain().clone();
        let memory = match hub.memory {
            0 => None,
            number => {
                let capability = domain.capability(CapabilityId(number))?;
                // Memory of another kernel cannot be mapped.
                capability.map(Rights::READ | Rights::WRITE).ok().map(Rc::new)
            }
        };
        Ok(Pool { task: self.clone(), hub, memory })
    }
}

impl Pool {
    /// How many blocks there are.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.hub.capacity
    }

    /// The size of a block, in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.hub.value_bytes
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
        self.allocate_by(&self.task)
    }

    /// Takes a block if one is free.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate), with [`Fault::WouldBlock`](crate::Fault::WouldBlock).
    pub fn try_allocate(&self) -> Result<Block, HubError> {
        self.allocate_by(&self.task.within(Duration::ZERO))
    }

    fn allocate_by(&self, task: &Task) -> Result<Block, HubError> {
        let taken = task.operate(&self.hub, Operation::Get)?;
        self.block(taken)
    }

    pub(crate) fn block(&self, taken: Taken) -> Result<Block, HubError> {
        let Taken::Block { number, token, .. } = taken else {
            return wrong_answer(&self.hub);
        };
        let (task, hub, memory) = (self.task.clone(), self.hub.clone(), self.memory.clone());
        Ok(Block { task, hub, number, token, memory })
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
        let block_bytes = self.hub.value_bytes as usize;
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
        self.task.release(&self.hub, self.token);
    }
}
