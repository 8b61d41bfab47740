//! Requests to an engine, and their completions.

use std::fmt;
use std::sync::Arc;

use tombolo_base::SharedMemory;
use tombolo_link::copy_cost::{Reach, Route};
use tombolo_platform::copy::attach::{AttachError, ForeignProcess};
use tombolo_platform::copy::cuda::{CudaError, DeviceMemory};
use tombolo_platform::copy::{self, CopyError};
use tombolo_platform::memory::RevocableMapping;
use tombolo_platform::{Deadline, OsError};
use tombolo_transport::ChannelError;

use crate::far::{FarRefusal, MemoryId};

/// Location of the bytes of a request.
#[derive(Clone, Debug)]
pub enum Location {
    /// Memory that this process maps.
    Mapped {
        /// Memory, mapped by this process.
        memory: SharedMemory,
        /// Offset in it, in bytes.
        offset_bytes: usize,
    },
    /// Memory that this process maps read-only. Processors copy it to memory that is mapped.
    ReadOnly {
        /// Mapping, which requests keep alive.
        memory: Arc<RevocableMapping>,
        /// Offset in it, in bytes.
        offset_bytes: usize,
    },
    /// Memory of another process under this kernel, which this process does not map.
    Process {
        /// Process that owns the memory.
        process: Arc<ForeignProcess>,
        /// Address in that process, as reported by it.
        address: u64,
    },
    /// Memory that the far side of a channel offers.
    Far {
        /// Id under which it is offered.
        memory: MemoryId,
        /// Offset in it, in bytes.
        offset_bytes: u64,
    },
    /// Memory of a GPU.
    Device {
        /// Memory on the GPU.
        memory: Arc<DeviceMemory>,
        /// Offset in it, in bytes.
        offset_bytes: usize,
    },
}

impl Location {
    /// Returns the start of memory that this process maps.
    #[must_use]
    pub fn mapped(memory: &SharedMemory) -> Location {
        Location::Mapped { memory: memory.clone(), offset_bytes: 0 }
    }

    /// Returns how the location can be reached.
    #[must_use]
    pub fn reach(&self) -> Reach {
        match self {
            Location::Mapped { .. } | Location::ReadOnly { .. } => Reach::Mapped,
            Location::Process { .. } => Reach::Process,
            Location::Far { .. } => Reach::Far,
            Location::Device { .. } => Reach::Device,
        }
    }

    /// Checks a range that starts here, as far as this side can. The far side and the kernel check their own.
    fn check(&self, length_bytes: u64) -> Result<(), Refusal> {
        let length = usize::try_from(length_bytes).map_err(|_| Refusal::TooLong { length_bytes })?;
        match self {
            Location::Mapped { memory, offset_bytes } => copy::check(memory, *offset_bytes, length)?,
            Location::ReadOnly { memory, offset_bytes } => memory.can_copy(*offset_bytes, length)?,
            Location::Device { memory, offset_bytes } => memory.check(*offset_bytes, length)?,
            Location::Process { address: first, .. } | Location::Far { offset_bytes: first, .. } => {
                first.checked_add(length_bytes).ok_or(Refusal::TooLong { length_bytes })?;
            }
        }
        Ok(())
    }
}

impl Location {
    /// Returns the address of the location, if it is mapped.
    fn address(&self) -> Option<u64> {
        match self {
            Location::Mapped { memory, offset_bytes } => {
                Some(memory.words().as_ptr().addr() as u64 + *offset_bytes as u64)
            }
            Location::ReadOnly { memory, offset_bytes } => {
                Some(memory.address().addr().get() as u64 + *offset_bytes as u64)
            }
            _ => None,
        }
    }

    /// Whether ranges of these lengths that start here and at `other` share a byte, as far as this process
    /// can know.
    fn overlaps(&self, length_bytes: u64, other: &Location, other_bytes: u64) -> bool {
        if let (Some(here), Some(there)) = (self.address(), other.address()) {
            return here < there.saturating_add(other_bytes) && there < here.saturating_add(length_bytes);
        }
        let (here, there) = match (self, other) {
            (
                Location::Process { process: one, address: here },
                Location::Process { process: two, address: there },
            ) if Arc::ptr_eq(one, two) => (*here, *there),
            (
                Location::Far { memory: one, offset_bytes: here },
                Location::Far { memory: two, offset_bytes: there },
            ) if one == two => (*here, *there),
            (
                Location::Device { memory: one, offset_bytes: here },
                Location::Device { memory: two, offset_bytes: there },
            ) if Arc::ptr_eq(one, two) => (*here as u64, *there as u64),
            _ => return false,
        };
        here < there.saturating_add(other_bytes) && there < here.saturating_add(length_bytes)
    }
}

/// Operation of an engine.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Copy from one location to another.
    Copy {
        /// Bytes to read.
        source: Location,
        /// Bytes to write.
        target: Location,
    },
    /// Fill a location with one byte.
    Fill {
        /// Bytes to write.
        target: Location,
        /// Value of each byte.
        byte: u8,
    },
}

/// Request to an engine. It keeps the memory that it names mapped until its completion is taken.
#[derive(Clone, Debug)]
pub struct Request {
    /// Operation to perform.
    pub operation: Operation,
    /// Length, in bytes.
    pub length_bytes: u64,
    /// Deadline; pieces that have not been started by then are not executed.
    pub deadline: Option<Deadline>,
    /// Whether it starts only after everything accepted before it has ended.
    pub fence: bool,
}

impl Request {
    /// Creates a copy without a deadline.
    #[must_use]
    pub fn copy(source: Location, target: Location, length_bytes: u64) -> Request {
        Request { operation: Operation::Copy { source, target }, length_bytes, deadline: None, fence: false }
    }

    /// Creates a fill without a deadline.
    #[must_use]
    pub fn fill(target: Location, byte: u8, length_bytes: u64) -> Request {
        Request { operation: Operation::Fill { target, byte }, length_bytes, deadline: None, fence: false }
    }

    /// Adds a deadline to the request.
    #[must_use]
    pub fn by(mut self, deadline: Deadline) -> Request {
        self.deadline = Some(deadline);
        self
    }

    /// Puts the request behind a fence: it starts only after every request accepted before it has ended, and
    /// is not executed if one of these that was still in progress failed. This allows a copy to be followed
    /// by a write that announces it.
    #[must_use]
    pub fn fenced(mut self) -> Request {
        self.fence = true;
        self
    }

    /// Whether either request writes bytes that the other reads or writes, as far as this process can know.
    /// It compares addresses, and two mappings of the same memory have different ones.
    #[must_use]
    pub fn conflicts(&self, other: &Request) -> bool {
        let meets = |written: &Location, length_bytes: u64, of: &Request| {
            let (source, target) = of.locations();
            let meets = |place: &Location| written.overlaps(length_bytes, place, of.length_bytes);
            source.is_some_and(meets) || meets(target)
        };
        meets(self.locations().1, self.length_bytes, other)
            || meets(other.locations().1, other.length_bytes, self)
    }

    /// Returns the location that is read, if any, and the location that is written.
    fn locations(&self) -> (Option<&Location>, &Location) {
        match &self.operation {
            Operation::Copy { source, target } => (Some(source), target),
            Operation::Fill { target, .. } => (None, target),
        }
    }

    /// Returns how its source and target are reached.
    #[must_use]
    pub fn route(&self) -> Route {
        match &self.operation {
            Operation::Copy { source, target } => Route::copy(source.reach(), target.reach()),
            Operation::Fill { target, .. } => Route::fill(target.reach()),
        }
    }

    /// Whether read-only memory is used at most as the source, with a mapped target.
    pub(crate) fn read_only_use_is_valid(&self) -> bool {
        let is_read_only = |place: &Location| matches!(place, Location::ReadOnly { .. });
        let (source, target) = self.locations();
        let mapped = matches!(target, Location::Mapped { .. });
        !is_read_only(target) && (mapped || !source.is_some_and(is_read_only))
    }

    /// Checks the ranges that this side can check, before anything is executed.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        match &self.operation {
            Operation::Copy { source, target } => {
                source.check(self.length_bytes)?;
                target.check(self.length_bytes)?;
                self.check_no_overlap(source, target)
            }
            Operation::Fill { target, .. } => target.check(self.length_bytes),
        }
    }

    fn check_no_overlap(&self, source: &Location, target: &Location) -> Result<(), Refusal> {
        let overlap = source.overlaps(self.length_bytes, target, self.length_bytes);
        let length_bytes = self.length_bytes as usize;
        if overlap { Err(CopyError::Overlap { length_bytes }.into()) } else { Ok(()) }
    }
}

/// Id of a request at its engine. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub(crate) u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.0)
    }
}

/// Reason why an engine cannot execute a request. Nothing was done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Refusal {
    /// The engine cannot reach the source or the target.
    #[error("the engine does not reach {route}")]
    Unreachable { route: Route },
    /// A range does not lie inside its memory, or two ranges overlap.
    #[error(transparent)]
    Range(#[from] CopyError),
    /// The length is larger than any memory.
    #[error("a range of {length_bytes} bytes is longer than any memory")]
    TooLong { length_bytes: u64 },
    /// The engine has failed: its peer died, or its channel failed.
    #[error("the engine has failed: {why}")]
    Lost { why: String },
    /// A request in progress uses the same bytes as this one, and either writes them.
    #[error("{with} is in progress with the same bytes: take its completion first, or fence this request")]
    InUse { with: RequestId },
}

/// Failure of an accepted request. The contents of the target are unspecified unless stated otherwise.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Failure {
    /// The request was cancelled.
    #[error("the copy was cancelled")]
    Cancelled,
    /// The deadline passed.
    #[error("the deadline of the copy passed")]
    DeadlinePassed,
    /// The request is fenced, and a request that it waited for failed. Nothing was written.
    #[error("{earlier}, which the copy waited for, failed")]
    Earlier { earlier: RequestId },
    /// A range is invalid. Nothing was written.
    #[error(transparent)]
    Range(#[from] CopyError),
    /// The kernel refused, or the other process is gone.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The far side refused. The refused piece was not written.
    #[error("the far side refused the copy: {0}")]
    Far(FarRefusal),
    /// The channel to the far side failed.
    #[error("the channel to the far side failed: {0}")]
    Channel(#[from] ChannelError),
    /// The engine failed before it started the request. Nothing was written.
    #[error("the engine failed before it started the copy: {why}")]
    Lost { why: String },
    /// The GPU or its driver failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The operating system refused an operation.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// End of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Id of the request.
    pub id: RequestId,
    /// Success or failure of the request.
    pub result: Result<(), Failure>,
}
