//! What is asked of an engine, and what comes of it.

use std::fmt;
use std::sync::Arc;

use tombolo_base::SharedMemory;
use tombolo_platform::copy::attach::{AttachError, ForeignProcess};
use tombolo_platform::copy::cuda::{CudaError, DeviceMemory};
use tombolo_platform::copy::{self, CopyError};
use tombolo_platform::{Deadline, OsError};
use tombolo_transport::ChannelError;

use crate::far::{FarRefusal, MemoryId};

/// Where bytes are.
#[derive(Clone, Debug)]
pub enum Location {
    /// In memory that this process maps.
    Mapped {
        /// The memory.
        memory: SharedMemory,
        /// Where in it.
        offset_bytes: usize,
    },
    /// In the memory of another process of this kernel, which this one does not map.
    Process {
        /// The process.
        process: Arc<ForeignProcess>,
        /// The address there, as that process said.
        address: u64,
    },
    /// In memory that the far side of a channel offers.
    Far {
        /// Its id there.
        memory: MemoryId,
        /// Where in it.
        offset_bytes: u64,
    },
    /// In the memory of a graphics processor.
    Device {
        /// The memory.
        memory: Arc<DeviceMemory>,
        /// Where in it.
        offset_bytes: usize,
    },
}

impl Location {
    /// The beginning of memory that this process maps.
    #[must_use]
    pub fn mapped(memory: &SharedMemory) -> Location {
        Location::Mapped { memory: memory.clone(), offset_bytes: 0 }
    }

    /// By whom it can be reached.
    #[must_use]
    pub fn reach(&self) -> Reach {
        match self {
            Location::Mapped { .. } => Reach::Mapped,
            Location::Process { .. } => Reach::Process,
            Location::Far { .. } => Reach::Far,
            Location::Device { .. } => Reach::Device,
        }
    }

    /// Checks what can be checked here of a range that begins there: what is ours. The far side and the kernel check theirs.
    fn check(&self, length_bytes: u64) -> Result<(), Refusal> {
        let length = usize::try_from(length_bytes).map_err(|_| Refusal::TooLong { length_bytes })?;
        match self {
            Location::Mapped { memory, offset_bytes } => copy::check(memory, *offset_bytes, length)?,
            Location::Device { memory, offset_bytes } => memory.check(*offset_bytes, length)?,
            Location::Process { address: first, .. } | Location::Far { offset_bytes: first, .. } => {
                first.checked_add(length_bytes).ok_or(Refusal::TooLong { length_bytes })?;
            }
        }
        Ok(())
    }
}

/// By whom a place can be reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reach {
    /// By every instruction of this process.
    Mapped,
    /// By the kernel, in another process.
    Process,
    /// By the far side of a channel.
    Far,
    /// By a graphics processor.
    Device,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reach::Mapped => "mapped",
            Reach::Process => "process",
            Reach::Far => "far",
            Reach::Device => "device",
        })
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Copy from one place to another.
    Copy {
        /// Where bytes are taken from.
        source: Location,
        /// Where they go.
        target: Location,
    },
    /// Fill a place with one byte.
    Fill {
        /// Where.
        target: Location,
        /// With which byte.
        byte: u8,
    },
}

/// Copy or fill.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OperationKind {
    /// Copy.
    Copy,
    /// Fill.
    Fill,
}

/// From where to where: what the cost of a request depends on, besides its length. A fill goes from its target to its
/// target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Route {
    /// Copy or fill.
    pub kind: OperationKind,
    /// By whom the source can be reached.
    pub source: Reach,
    /// By whom the target can be reached.
    pub target: Reach,
}

impl Route {
    /// Of copies between two.
    #[must_use]
    pub const fn copy(source: Reach, target: Reach) -> Route {
        Route { kind: OperationKind::Copy, source, target }
    }

    /// Of fills.
    #[must_use]
    pub const fn fill(target: Reach) -> Route {
        Route { kind: OperationKind::Fill, source: target, target }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            OperationKind::Copy => write!(f, "{}-{}", self.source, self.target),
            OperationKind::Fill => write!(f, "fill-{}", self.target),
        }
    }
}

/// A request. It keeps the memory that it names mapped until its completion is taken.
#[derive(Clone, Debug)]
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// With how many bytes.
    pub length_bytes: u64,
    /// Until when. What has not been done then is not done any more.
    pub deadline: Option<Deadline>,
}

impl Request {
    /// A copy, without a deadline.
    #[must_use]
    pub fn copy(source: Location, target: Location, length_bytes: u64) -> Request {
        Request { operation: Operation::Copy { source, target }, length_bytes, deadline: None }
    }

    /// A fill, without a deadline.
    #[must_use]
    pub fn fill(target: Location, byte: u8, length_bytes: u64) -> Request {
        Request { operation: Operation::Fill { target, byte }, length_bytes, deadline: None }
    }

    /// With a deadline.
    #[must_use]
    pub fn by(mut self, deadline: Deadline) -> Request {
        self.deadline = Some(deadline);
        self
    }

    /// From where to where.
    #[must_use]
    pub fn route(&self) -> Route {
        match &self.operation {
            Operation::Copy { source, target } => Route::copy(source.reach(), target.reach()),
            Operation::Fill { target, .. } => Route::fill(target.reach()),
        }
    }

    /// Checks all ranges that can be checked here, before anything is done.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        match &self.operation {
            Operation::Copy { source, target } => {
                source.check(self.length_bytes)?;
                target.check(self.length_bytes)?;
                self.check_apart(source, target)
            }
            Operation::Fill { target, .. } => target.check(self.length_bytes),
        }
    }

    fn check_apart(&self, source: &Location, target: &Location) -> Result<(), Refusal> {
        let apart = |from: u64, to: u64| from.abs_diff(to) >= self.length_bytes;
        let apart = match (source, target) {
            (
                Location::Mapped { memory: from, offset_bytes: from_bytes },
                Location::Mapped { memory: to, offset_bytes: to_bytes },
            ) => {
                let address = |memory: &SharedMemory, offset_bytes: usize| {
                    memory.words().as_ptr().addr() as u64 + offset_bytes as u64
                };
                apart(address(from, *from_bytes), address(to, *to_bytes))
            }
            (
                Location::Far { memory: from, offset_bytes: from_bytes },
                Location::Far { memory: to, offset_bytes: to_bytes },
            ) => from != to || apart(*from_bytes, *to_bytes),
            (
                Location::Device { memory: from, offset_bytes: from_bytes },
                Location::Device { memory: to, offset_bytes: to_bytes },
            ) => !Arc::ptr_eq(from, to) || apart(*from_bytes as u64, *to_bytes as u64),
            _ => true,
        };
        let length_bytes = self.length_bytes as usize;
        if apart || length_bytes == 0 { Ok(()) } else { Err(CopyError::Overlap { length_bytes }.into()) }
    }
}

/// The name of a request at the engine that took it. None comes twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub(crate) u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.0)
    }
}

/// Why an engine does not do such a request at all. Nothing was done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// It cannot reach the source or the target.
    #[error("it does not reach {route}")]
    Unreachable {
        /// From where to where.
        route: Route,
    },
    /// A range does not lie inside its memory, or two overlap.
    #[error(transparent)]
    Range(#[from] CopyError),
    /// A length that no memory has.
    #[error("there is no range of {length_bytes} bytes there")]
    TooLong {
        /// The length.
        length_bytes: u64,
    },
    /// What it works with is lost: its peer died, or its channel failed.
    #[error("it is of no use any more: {why}")]
    Lost {
        /// What happened.
        why: String,
    },
}

/// Why a request that was taken was not done. What the target holds is unspecified, unless said.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// It was cancelled.
    #[error("the copy was cancelled")]
    Cancelled,
    /// Its deadline passed.
    #[error("the deadline of the copy passed")]
    DeadlinePassed,
    /// A range; nothing was written.
    #[error(transparent)]
    Range(#[from] CopyError),
    /// The kernel, or the other process.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The far side refused; nothing was written by the part that it refused.
    #[error("the far side refused the copy: {0}")]
    Far(FarRefusal),
    /// The channel to the far side.
    #[error("the channel to the far side: {0}")]
    Channel(#[from] ChannelError),
    /// The engine lost what it works with before this was begun. Nothing was written.
    #[error("the engine was lost before it began the copy: {why}")]
    Lost {
        /// What happened.
        why: String,
    },
    /// The graphics processor.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The operating system.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// What came of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Which.
    pub id: RequestId,
    /// Done, all of it; or why not.
    pub result: Result<(), Failure>,
}
