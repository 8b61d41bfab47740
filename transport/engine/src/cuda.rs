//! The engine that uses the copy engine of a GPU.

use std::sync::Arc;

use tombolo_platform::OsError;
use tombolo_platform::copy::cuda::{CudaError, Device};

use crate::contract::Abilities;
use crate::queue::{Mover, Queue, queued};
use crate::request::{Failure, Location, Operation, Request};

/// Bytes copied between two checks of deadlines and cancellations.
const PIECE_BYTES: u64 = 8 << 20;

/// A CUDA device's copy engine, through the driver's library, which is loaded when the first engine starts.
pub struct Cuda {
    name: String,
    queue: Queue,
}

/// Why the engine could not be started.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotStarted {
    /// There is no driver or no such device.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A thread cannot be started.
    #[error(transparent)]
    Os(#[from] OsError),
}

struct Driver;

impl Mover for Driver {
    fn work(&mut self, request: &Request, at: u64, length: u64) -> Result<(), Failure> {
        // Checked when the request was accepted: both ranges lie in memory.
        let (at, length) = (at as usize, length as usize);
        match &request.operation {
            Operation::Copy { source, target } => match (source, target) {
                (
                    Location::Mapped { memory: source, offset_bytes: from },
                    Location::Device { memory: target, offset_bytes: to },
                ) => target.write(to + at, (source, from + at), length)?,
                (
                    Location::Device { memory: source, offset_bytes: from },
                    Location::Mapped { memory: target, offset_bytes: to },
                ) => source.read(from + at, (target, to + at), length)?,
                (
                    Location::Device { memory: source, offset_bytes: from },
                    Location::Device { memory: target, offset_bytes: to },
                ) => target.write_within(to + at, (source, from + at), length)?,
                // Such requests are not accepted.
                _ => {}
            },
            Operation::Fill { target: Location::Device { memory, offset_bytes }, byte } => {
                memory.fill(offset_bytes + at, length, *byte)?;
            }
            // Such requests are not accepted.
            Operation::Fill { .. } => {}
        }
        Ok(())
    }
}

impl Cuda {
    const ABILITIES: Abilities = Abilities::DEVICE.with(Abilities::FILL).with(Abilities::BACKGROUND);

    /// Opens a device and starts the thread that drives it; the engine accepts `limit` requests. Allocate
    /// memory from the returned device.
    ///
    /// # Errors
    /// There is no driver or no such device, or a thread cannot be started.
    pub fn start(ordinal: u32, limit: usize) -> Result<(Cuda, Arc<Device>), NotStarted> {
        let device = Device::open(ordinal)?;
        let name = format!("cuda-{ordinal}");
        let queue = Queue::start(&name, vec![Driver], limit, PIECE_BYTES)?;
        Ok((Cuda { name, queue }, device))
    }

    fn name_of(&self) -> &str {
        &self.name
    }
}

queued!(Cuda);
