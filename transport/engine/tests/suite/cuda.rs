//! GPU for the suite: a real one if present, otherwise a fake driver, compiled here, which a second process
//! of the suite loads in place of the real one.

use std::path::Path;
use std::process::{Command, ExitCode};

use tombolo_base::SharedMemory;
use tombolo_platform::copy::CopyError;
use tombolo_platform::copy::cuda::{CudaError, Device, DeviceMemory, PinnedMemory};

/// Environment variable that tells a second process of the suite to run with the fake driver.
const WITH_FAKE: &str = "TOMBOLO_ENGINE_TEST_FAKE_CUDA";

pub(crate) enum Preparation {
    /// The suite runs here, with a driver, or without one for this reason.
    Available(Result<(), String>),
    /// The suite ran in another process, which ended with this code.
    RanElsewhere(ExitCode),
}

/// Finds a driver.
pub(crate) fn prepare() -> Preparation {
    let fake = std::env::var_os(WITH_FAKE).is_some();
    match Device::open(0) {
        Ok(device) => {
            let kind = if fake { "the fake driver of this test" } else { "a real driver" };
            println!("GPU: {} ({kind})", device.name());
            check_error_names(fake);
            Preparation::Available(Ok(()))
        }
        Err(CudaError::NoDriver { why }) if !fake => match compile() {
            Ok(folder) => Preparation::RanElsewhere(rerun(&folder)),
            Err(reason) => {
                Preparation::Available(Err(format!("no CUDA driver: {why}; and no fake one: {reason}")))
            }
        },
        Err(error) => Preparation::Available(Err(error.to_string())),
    }
}

/// Checks that errors of the driver have names.
fn check_error_names(fake: bool) {
    let count = Device::count().unwrap();
    let missing = Device::open(count).unwrap_err();
    assert_eq!(missing, CudaError::NoDevice { ordinal: count, count });
    let device = Device::open(0).unwrap();
    let refused = DeviceMemory::allocate(&device, 1 << 60).unwrap_err();
    assert!(matches!(refused, CudaError::Driver { operation: "allocate memory", .. }), "{refused}");
    assert!(refused.to_string().contains("CUDA_ERROR_"), "{refused}");
    assert!(!fake || device.name() == "fake");
    let memory = SharedMemory::zeroed(1 << 16);
    let pinned = PinnedMemory::pin(&device, &memory).unwrap();
    let part = memory.slice(4096, 4096).unwrap();
    let twice = PinnedMemory::pin(&device, &part).unwrap_err();
    assert!(matches!(twice, CudaError::Driver { operation: "pin memory", .. }), "{twice}");
    drop(pinned);
    drop(PinnedMemory::pin(&device, &part).unwrap());
    let none = PinnedMemory::pin(&device, &SharedMemory::zeroed(0)).unwrap_err();
    assert!(matches!(none, CudaError::Driver { operation: "pin memory", .. }), "{none}");
    let on_device = DeviceMemory::allocate(&device, 100).unwrap();
    let outside = on_device.fill(64, 37, 1).unwrap_err();
    assert!(matches!(outside, CudaError::Copy(CopyError::OutOfRange { .. })), "{outside}");
}

/// Compiles the fake driver into a folder, which is then used by `rerun`.
fn compile() -> Result<Folder, String> {
    let folder = Folder::new()?;
    let library = folder.0.join("libcuda.so.1");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/fake_cuda.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread", "-o"]).arg(library).arg(source);
    match cc.status() {
        Ok(status) if status.success() => Ok(folder),
        Ok(status) => Err(format!("cc: {status}")),
        Err(error) => Err(format!("cc: {error}")),
    }
}

struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let name = format!("tombolo-fake-cuda-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the suite once more in a process whose loader finds the fake driver.
fn rerun(folder: &Folder) -> ExitCode {
    let mut suite = Command::new(std::env::current_exe().unwrap());
    suite.args(std::env::args_os().skip(1)).env(WITH_FAKE, "1").env("LD_LIBRARY_PATH", &folder.0);
    match suite.status() {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("cannot start the suite again: {error}");
            ExitCode::FAILURE
        }
    }
}
