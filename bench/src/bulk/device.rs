//! Cost of copies to and from a GPU: by the engine, and by the driver alone.

use std::sync::Arc;

use tombolo_copies::engines::{Device, DeviceMemory, Location, PinnedMemory, Request, SharedMemory};
use tombolo_engine::cuda::Cuda;
use tombolo_platform::copy::cuda::CudaError;

use super::alone::{Memory, keep, times, times_of_engine};
use crate::suite::{Error, Failed, Results, Schedule};

/// Direction of a copy, with pinned or pageable host memory.
#[derive(Clone, Copy)]
enum Way {
    To { pinned: bool },
    From { pinned: bool },
    Within,
}

impl Way {
    const ALL: [Way; 5] = [
        Way::To { pinned: false },
        Way::To { pinned: true },
        Way::From { pinned: false },
        Way::From { pinned: true },
        Way::Within,
    ];

    const fn name(self) -> &'static str {
        match self {
            Way::To { pinned: false } => "to the device",
            Way::To { pinned: true } => "to the device, pinned",
            Way::From { pinned: false } => "from the device",
            Way::From { pinned: true } => "from the device, pinned",
            Way::Within => "within the device",
        }
    }

    const fn is_pinned(self) -> bool {
        matches!(self, Way::To { pinned: true } | Way::From { pinned: true })
    }
}

/// Adds rows for the first GPU; none if this host has no driver or no device.
pub(super) fn add(
    results: &mut Results,
    schedule: Schedule,
    (memory, lengths): (&Memory, impl Iterator<Item = usize> + Clone),
    progress: &mut dyn FnMut(&str),
) {
    if Device::count().unwrap_or(0) == 0 {
        return;
    }
    let longest_bytes = lengths.clone().max().unwrap_or(0);
    let started = Gpu::start(longest_bytes);
    let mut gpu = match started {
        Ok(gpu) => gpu,
        Err(error) => return results.failed.push(Failed::new("copies to a GPU", &error)),
    };
    results.host.gpu = Some(gpu.device.name().to_owned());
    for way in Way::ALL {
        progress(&format!("copies by one program: {}", way.name()));
        let pinned = match way.is_pinned() {
            true => PinnedMemory::pin(&gpu.device, &memory.source).map(Some),
            false => Ok(None),
        };
        let name = format!("cuda-0: {}", way.name());
        let _pinned = match pinned.map_err(refused) {
            Ok(pinned) => pinned,
            Err(error) => {
                results.failed.push(Failed::new(name, &error));
                continue;
            }
        };
        let request = gpu.request(way, &memory.source);
        for bytes in lengths.clone() {
            let found = times_of_engine(&mut gpu.engine, &request, bytes, schedule);
            keep(results, &name, bytes, found);
            let by_driver = times(schedule, || gpu.copy(way, &memory.source, bytes).map_err(refused));
            keep(results, &format!("CUDA driver: {}", way.name()), bytes, by_driver);
        }
    }
}

fn refused(error: CudaError) -> Error {
    Error::Far { what: error.to_string() }
}

/// GPU with two memories and its engine.
struct Gpu {
    device: Arc<Device>,
    engine: Cuda,
    first: Arc<DeviceMemory>,
    second: Arc<DeviceMemory>,
}

impl Gpu {
    fn start(longest_bytes: usize) -> Result<Gpu, Error> {
        let (engine, device) = Cuda::start(0, 1).map_err(|error| Error::Far { what: error.to_string() })?;
        let allocate = || DeviceMemory::allocate(&device, longest_bytes).map(Arc::new).map_err(refused);
        let (first, second) = (allocate()?, allocate()?);
        Ok(Gpu { device, engine, first, second })
    }

    fn request(&self, way: Way, host: &SharedMemory) -> Request {
        let on =
            |memory: &Arc<DeviceMemory>| Location::Device { memory: Arc::clone(memory), offset_bytes: 0 };
        let host = Location::mapped(host);
        match way {
            Way::To { .. } => Request::copy(host, on(&self.first), 0),
            Way::From { .. } => Request::copy(on(&self.first), host, 0),
            Way::Within => Request::copy(on(&self.first), on(&self.second), 0),
        }
    }

    /// Copies by the driver on the calling thread, without the queue and the thread of the engine.
    fn copy(&self, way: Way, host: &SharedMemory, bytes: usize) -> Result<(), CudaError> {
        match way {
            Way::To { .. } => self.first.write(0, (host, 0), bytes),
            Way::From { .. } => self.first.read(0, (host, 0), bytes),
            Way::Within => self.second.write_within(0, (&self.first, 0), bytes),
        }
    }
}
