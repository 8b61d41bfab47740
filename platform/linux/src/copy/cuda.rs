//! Memory of GPUs, through NVIDIA's driver library (`libcuda.so.1`), which is loaded on first use.
//!
//! Nothing is linked against it: a program is the same with and without a driver, and gets
//! [`CudaError::NoDriver`] without one. A statically linked program cannot load libraries and gets that
//! error too.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Arc, OnceLock};

use tombolo_base::SharedMemory;

use super::{CopyError, address};

/// Error of an operation on a GPU.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum CudaError {
    /// There is no driver, or it is incomplete.
    #[error("no CUDA driver: {why}")]
    NoDriver { why: String },
    /// The driver has no such device.
    #[error("no CUDA device {ordinal}: the driver has {count}")]
    NoDevice { ordinal: u32, count: u32 },
    /// The driver refused an operation.
    #[error("the CUDA driver cannot {operation}: {name} ({code})")]
    Driver { operation: &'static str, code: i32, name: String },
    /// A range lies outside its memory.
    #[error(transparent)]
    Copy(#[from] CopyError),
}

/// Declares the functions used from the library and their lookup.
macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        /// Functions of the driver. All return a status, with zero for success.
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            /// # Safety
            /// `library` must be the handle of an open library with the driver's interface.
            #[cfg(not(target_feature = "crt-static"))]
            unsafe fn find(library: *mut c_void) -> Result<Functions, CudaError> {
                Ok(Functions {
                    $($field: {
                        // SAFETY: the handle is valid by this function's contract.
                        let found = unsafe { symbol(library, $symbol) }?;
                        // SAFETY: the library has the driver's interface (contract of this function), in
                        // which the function of this name has this type.
                        unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> c_int>(found) }
                    },)*
                })
            }
        }
    };
}

/// Looks up the address of a function.
///
/// # Safety
/// `library` must be the handle of an open library.
#[cfg(not(target_feature = "crt-static"))]
unsafe fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void, CudaError> {
    // SAFETY: the handle is valid by this function's contract, and the name ends with zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        return Err(CudaError::NoDriver { why: format!("it has no {}", name.to_string_lossy()) });
    }
    Ok(found)
}

type Context = *mut c_void;
type Pointer = u64;

functions! {
    error_name = c"cuGetErrorName": fn(c_int, *mut *const c_char);
    device_count = c"cuDeviceGetCount": fn(*mut c_int);
    device_get = c"cuDeviceGet": fn(*mut c_int, c_int);
    device_name = c"cuDeviceGetName": fn(*mut c_char, c_int, c_int);
    context_retain = c"cuDevicePrimaryCtxRetain": fn(*mut Context, c_int);
    context_release = c"cuDevicePrimaryCtxRelease_v2": fn(c_int);
    context_set = c"cuCtxSetCurrent": fn(Context);
    synchronize = c"cuCtxSynchronize": fn();
    allocate = c"cuMemAlloc_v2": fn(*mut Pointer, usize);
    free = c"cuMemFree_v2": fn(Pointer);
    host_to_device = c"cuMemcpyHtoD_v2": fn(Pointer, *const c_void, usize);
    device_to_host = c"cuMemcpyDtoH_v2": fn(*mut c_void, Pointer, usize);
    device_to_device = c"cuMemcpyDtoD_v2": fn(Pointer, Pointer, usize);
    fill = c"cuMemsetD8_v2": fn(Pointer, u8, usize);
    pin = c"cuMemHostRegister_v2": fn(*mut c_void, usize, c_uint);
    unpin = c"cuMemHostUnregister": fn(*mut c_void);
}

impl Functions {
    fn check(&self, operation: &'static str, code: c_int) -> Result<(), CudaError> {
        if code == 0 {
            return Ok(());
        }
        let mut name = core::ptr::null();
        // SAFETY: the driver stores a pointer to a constant string, or null for an unknown code.
        let known = unsafe { (self.error_name)(code, &raw mut name) } == 0 && !name.is_null();
        let name = if known {
            // SAFETY: as above: a string that ends with zero and is never freed.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        } else {
            "unknown".into()
        };
        Err(CudaError::Driver { operation, code, name })
    }

    /// Waits until the device has finished the work of this thread. Some driver calls return when the
    /// driver has read its input, before all of it has arrived.
    fn wait_for_device(&self) -> Result<(), CudaError> {
        // SAFETY: takes no arguments.
        let code = unsafe { (self.synchronize)() };
        self.check("finish what was asked", code)
    }
}

/// Returns the driver, loaded once per process and never unloaded, which it does not support.
fn driver() -> Result<&'static Functions, CudaError> {
    static DRIVER: OnceLock<Result<Functions, CudaError>> = OnceLock::new();
    DRIVER.get_or_init(load).as_ref().map_err(Clone::clone)
}

#[cfg(target_feature = "crt-static")]
fn load() -> Result<Functions, CudaError> {
    Err(no_loader_error())
}

fn no_loader_error() -> CudaError {
    CudaError::NoDriver { why: "this program is linked statically and can load none".into() }
}

/// Returns whether this program can load libraries. In the library for programs in C on foreign nodes, which
/// are static, `dlopen` is replaced by a symbol whose address is null (`xtask/src/c_library.rs`).
#[cfg(not(target_feature = "crt-static"))]
fn can_load() -> bool {
    // The compiler assumes that the address of a function is never null.
    !core::hint::black_box(libc::dlopen as *const ()).is_null()
}

#[cfg(not(target_feature = "crt-static"))]
fn load() -> Result<Functions, CudaError> {
    if !can_load() {
        return Err(no_loader_error());
    }
    // SAFETY: a name that ends with zero; the loader runs the library's initialisers, which is what a driver
    // is for: it lies where only the administrator, or this user's own environment, can put it.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(CudaError::NoDriver { why: "libcuda.so.1 cannot be loaded".into() });
    }
    // SAFETY: the handle of a library that was opened under the driver's name and is never closed.
    let functions = unsafe { Functions::find(library) }?;
    // SAFETY: as above.
    let init = unsafe { symbol(library, c"cuInit") }?;
    // SAFETY: the driver's interface has a function of this type under this name.
    let init = unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_uint) -> c_int>(init) };
    // SAFETY: the driver's function, with its only argument.
    let code = unsafe { init(0) };
    functions.check("start", code)?;
    Ok(functions)
}

/// A GPU with the context of this process.
pub struct Device {
    functions: &'static Functions,
    number: c_int,
    context: Context,
    name: String,
}

// SAFETY: a context names state of the driver, which does its own locking; a thread makes it current before
// each call.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl core::fmt::Debug for Device {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Device({})", self.name)
    }
}

impl Device {
    /// Returns the number of GPUs.
    ///
    /// # Errors
    /// There is no driver, or it reports an error.
    pub fn count() -> Result<u32, CudaError> {
        let functions = driver()?;
        let mut count = 0;
        // SAFETY: the driver stores a number at the address given.
        let code = unsafe { (functions.device_count)(&raw mut count) };
        functions.check("count its devices", code)?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Opens the device with the number `ordinal`, from 0.
    ///
    /// # Errors
    /// There is no driver or no such device, or another program has exclusive use of it.
    pub fn open(ordinal: u32) -> Result<Arc<Device>, CudaError> {
        let functions = driver()?;
        let count = Device::count()?;
        let Some(wanted) = c_int::try_from(ordinal).ok().filter(|_| ordinal < count) else {
            return Err(CudaError::NoDevice { ordinal, count });
        };
        let (mut number, mut context) = (0, core::ptr::null_mut());
        let mut name = [0; 128];
        // SAFETY: the driver stores a number, a string of at most this many bytes and a handle at the
        // addresses given.
        unsafe {
            functions.check("find a device", (functions.device_get)(&raw mut number, wanted))?;
            let room = name.len() as c_int;
            functions
                .check("name a device", (functions.device_name)(name.as_mut_ptr().cast(), room, number))?;
            functions.check("use a device", (functions.context_retain)(&raw mut context, number))?;
        }
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into_owned();
        Ok(Arc::new(Device { functions, number, context, name }))
    }

    /// Returns the device's name according to the driver.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the context current on this thread, which calls require.
    fn enter(&self) -> Result<&'static Functions, CudaError> {
        // SAFETY: the context was retained, and is released when this is dropped.
        let code = unsafe { (self.functions.context_set)(self.context) };
        self.functions.check("switch to a device", code)?;
        Ok(self.functions)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: retained once, in `open`; its memory holds a reference to it.
        let _ = unsafe { (self.functions.context_release)(self.number) };
    }
}

/// Pinned memory of this process: the kernel does not move or evict its pages, and the driver knows their bus
/// addresses. The device's copy engine accesses it directly; other memory is first copied into a bounce
/// buffer of the driver, at a fraction of the rate. Pinning costs about as much as copying the memory a few
/// times, so pin memory that is used often, such as a pool. Unpinned when dropped.
#[derive(Debug)]
pub struct PinnedMemory {
    device: Arc<Device>,
    /// Stays mapped at least as long as it is pinned.
    memory: SharedMemory,
}

impl PinnedMemory {
    /// Pins all of `memory`, for all devices of this process. Copies name the memory as before.
    ///
    /// # Errors
    /// `memory` is empty, or the driver refuses: for example, a part is pinned already, or the limit on
    /// locked memory (`ulimit -l`) is reached.
    pub fn pin(device: &Arc<Device>, memory: &SharedMemory) -> Result<PinnedMemory, CudaError> {
        /// `CU_MEMHOSTREGISTER_PORTABLE`: for all contexts, not only the current one.
        const PORTABLE: c_uint = 1;
        let (first, length_bytes) = (address(memory, 0, memory.len_bytes())?, memory.len_bytes());
        let functions = device.enter()?;
        // SAFETY: the range is one mapping, and the clone below keeps it mapped until it is unpinned.
        let code = unsafe { (functions.pin)(first.cast(), length_bytes, PORTABLE) };
        functions.check("pin memory", code)?;
        Ok(PinnedMemory { device: Arc::clone(device), memory: memory.clone() })
    }

    /// Returns the memory that is pinned.
    #[must_use]
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if let (Ok(functions), Ok(first)) = (self.device.enter(), address(&self.memory, 0, 0)) {
            // SAFETY: pinned once, in `pin`, from this address on; the memory is still mapped.
            let _ = unsafe { (functions.unpin)(first.cast()) };
        }
    }
}

/// Memory of a GPU, which the processor cannot access. Freed when dropped.
#[derive(Debug)]
pub struct DeviceMemory {
    device: Arc<Device>,
    pointer: Pointer,
    length_bytes: usize,
}

impl DeviceMemory {
    /// Allocates `length_bytes` on a device, at least one byte.
    ///
    /// # Errors
    /// The device has no room.
    pub fn allocate(device: &Arc<Device>, length_bytes: usize) -> Result<DeviceMemory, CudaError> {
        let functions = device.enter()?;
        let mut pointer = 0;
        // SAFETY: the driver stores a device address at the address given.
        let code = unsafe { (functions.allocate)(&raw mut pointer, length_bytes.max(1)) };
        functions.check("allocate memory", code)?;
        Ok(DeviceMemory { device: Arc::clone(device), pointer, length_bytes })
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.length_bytes
    }

    /// Checks that a range lies inside.
    ///
    /// # Errors
    /// [`CopyError::OutOfRange`] otherwise.
    pub fn check(&self, offset_bytes: usize, length_bytes: usize) -> Result<(), CopyError> {
        let available_bytes = self.length_bytes;
        match offset_bytes.checked_add(length_bytes) {
            Some(end) if end <= available_bytes => Ok(()),
            _ => Err(CopyError::OutOfRange { offset_bytes, length_bytes, available_bytes }),
        }
    }

    fn at(&self, offset_bytes: usize, length_bytes: usize) -> Result<Pointer, CudaError> {
        self.check(offset_bytes, length_bytes)?;
        Ok(self.pointer + offset_bytes as u64)
    }

    /// Copies `length_bytes` of `source` into the device memory; complete when this returns.
    ///
    /// # Errors
    /// A range lies outside, or the driver refused.
    pub fn write(
        &self,
        offset_bytes: usize,
        (source, source_offset_bytes): (&SharedMemory, usize),
        length_bytes: usize,
    ) -> Result<(), CudaError> {
        let to = self.at(offset_bytes, length_bytes)?;
        let from = address(source, source_offset_bytes, length_bytes)?;
        let functions = self.device.enter()?;
        // SAFETY: both ranges were checked; the local one stays mapped while it is borrowed, and the driver
        // has read it when it returns.
        let code = unsafe { (functions.host_to_device)(to, from.cast_const().cast(), length_bytes) };
        functions.check("copy to a device", code)?;
        functions.wait_for_device()
    }

    /// Copies `length_bytes` of the device memory into `target`; complete when this returns.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn read(
        &self,
        offset_bytes: usize,
        (target, target_offset_bytes): (&SharedMemory, usize),
        length_bytes: usize,
    ) -> Result<(), CudaError> {
        let from = self.at(offset_bytes, length_bytes)?;
        let to = address(target, target_offset_bytes, length_bytes)?;
        let functions = self.device.enter()?;
        // SAFETY: both ranges were checked; the local one stays mapped while it is borrowed and is shared,
        // so it may be written; the driver has written it when it returns.
        let code = unsafe { (functions.device_to_host)(to.cast(), from, length_bytes) };
        functions.check("copy from a device", code)
    }

    /// Copies `length_bytes` of `source`, on the same device, into this memory; complete when this returns.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_within(
        &self,
        offset_bytes: usize,
        (source, source_offset_bytes): (&DeviceMemory, usize),
        length_bytes: usize,
    ) -> Result<(), CudaError> {
        let to = self.at(offset_bytes, length_bytes)?;
        let from = source.at(source_offset_bytes, length_bytes)?;
        let functions = self.device.enter()?;
        // SAFETY: both ranges lie in device memory that stays allocated while it is borrowed.
        let code = unsafe { (functions.device_to_device)(to, from, length_bytes) };
        functions.check("copy within a device", code)?;
        functions.wait_for_device()
    }

    /// Fills `length_bytes` of the device memory with one byte; complete when this returns.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn fill(&self, offset_bytes: usize, length_bytes: usize, byte: u8) -> Result<(), CudaError> {
        let to = self.at(offset_bytes, length_bytes)?;
        let functions = self.device.enter()?;
        // SAFETY: the range lies in device memory that stays allocated while it is borrowed.
        let code = unsafe { (functions.fill)(to, byte, length_bytes) };
        functions.check("fill memory", code)?;
        functions.wait_for_device()
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if let Ok(functions) = self.device.enter() {
            // SAFETY: allocated once, in `allocate`; no other object refers to it.
            let _ = unsafe { (functions.free)(self.pointer) };
        }
    }
}
