//! Engine that lets the kernel copy between this process and another one that shares no memory with it.

use tombolo_platform::OsError;

use crate::contract::Abilities;
use crate::queue::{Mover, Queue, queued};
use crate::request::{Failure, Location, Operation, Request};

/// Bytes that the kernel copies between two checks of deadlines and cancellations.
const PIECE_BYTES: u64 = 1 << 20;

/// Cross-memory attach: the kernel copies between the memories of two processes (`process_vm_readv`), on a
/// thread of this process.
pub struct Attach {
    queue: Queue,
}

struct Kernel;

impl Mover for Kernel {
    fn piece_bytes(&self, _request: &Request) -> u64 {
        PIECE_BYTES
    }

    fn work(&mut self, request: &Request, at: u64, length: u64) -> Result<(), Failure> {
        // Checked when the request was accepted: the local range lies in memory, and no address wraps around.
        let (here, length) = (at as usize, length as usize);
        if let Operation::Copy { source, target } = &request.operation {
            match (source, target) {
                (Location::Process { process, address }, Location::Mapped { memory, offset_bytes }) => {
                    process.read(address + at, memory, offset_bytes + here, length)?;
                }
                (Location::Mapped { memory, offset_bytes }, Location::Process { process, address }) => {
                    process.write(memory, offset_bytes + here, address + at, length)?;
                }
                // Other requests are not accepted.
                _ => {}
            }
        }
        Ok(())
    }
}

impl Attach {
    const ABILITIES: Abilities = Abilities::PROCESS.with(Abilities::BACKGROUND);

    /// Starts the thread. The engine accepts `limit` requests.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(limit: usize) -> Result<Attach, OsError> {
        Ok(Attach { queue: Queue::start("attach", vec![Kernel], limit)? })
    }

    fn name_of(&self) -> &str {
        "attach"
    }
}

queued!(Attach);
