//! Engine that uses the copy engine of a GPU.

use std::sync::Arc;

use tombolo_platform::OsError;
use tombolo_platform::copy::cuda::{CudaError, Device};

use crate::contract::Abilities;
use crate::queue::{Mover, Queue, queued};
use crate::request::{Failure, Location, Operation, Request};

/// Bytes between two checks of deadlines and cancellations, for copies to or from a device. The driver takes
/// 0.6 ms for a piece if the memory is pinned, and up to 5 ms otherwise (H100, PCIe 5.0 x16). The bus is idle
/// for some 10 µs between two pieces: pieces of 8 MiB cost a tenth of the rate.
const TRANSFER_PIECE_BYTES: u64 = 32 << 20;

/// The same for a copy or a fill within a device, where a piece takes 0.7 ms.
const DEVICE_PIECE_BYTES: u64 = 1 << 30;

/// Copy engine of a CUDA device, used through the driver's library, which is loaded when the first engine
/// starts.
pub struct Cuda {
    name: String,
    queue: Queue,
}

/// Reason why the engine could not be started.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CudaStartError {
    /// There is no driver or no such device.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A thread cannot be started.
    #[error(transparent)]
    Os(#[from] OsError),
}

struct Driver;

impl Mover for Driver {
    fn piece_bytes(&self, request: &Request) -> u64 {
        match &request.operation {
            Operation::Copy { source: Location::Device { .. }, target: Location::Device { .. } }
            | Operation::Fill { .. } => DEVICE_PIECE_BYTES,
            Operation::Copy { .. } => TRANSFER_PIECE_BYTES,
        }
    }

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
                // Other requests are not accepted.
                _ => {}
            },
            Operation::Fill { target: Location::Device { memory, offset_bytes }, byte } => {
                memory.fill(offset_bytes + at, length, *byte)?;
            }
            // Other requests are not accepted.
            Operation::Fill { .. } => {}
        }
        Ok(())
    }
}

impl Cuda {
    const ABILITIES: Abilities = Abilities::DEVICE.with(Abilities::FILL).with(Abilities::BACKGROUND);

    /// Opens a device and starts the thread that drives it. The engine accepts `limit` requests. Allocate
    /// memory from the returned device.
    ///
    /// # Errors
    /// There is no driver or no such device, or a thread cannot be started.
    pub fn start(ordinal: u32, limit: usize) -> Result<(Cuda, Arc<Device>), CudaStartError> {
        let device = Device::open(ordinal)?;
        let name = format!("cuda-{ordinal}");
        let queue = Queue::start(&name, vec![Driver], limit)?;
        Ok((Cuda { name, queue }, device))
    }

    fn name_of(&self) -> &str {
        &self.name
    }
}

queued!(Cuda);
