//! Device memory, and the mapping of host memory to it.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use tombolo_omp_team::device::calls;
use tombolo_omp_team::job::start;
use tombolo_omp_team::team::thread::Thread;

use super::{FALLBACK, devices};

/// Returns the node of a device, or `None` for the host; `EINVAL` if the device does not exist.
pub(super) fn node_of(me: &'static Thread, device: i32) -> Result<Option<u32>, i32> {
    let devices = devices(me);
    match device {
        FALLBACK => Ok(None),
        device if device == devices => Ok(None),
        device if (0..devices).contains(&device) => Ok(Some(device.cast_unsigned() + 1)),
        _ => Err(libc::EINVAL),
    }
}

/// Allocates memory of a device. Returns null if the device does not exist or has none left.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_alloc(size: usize, device: i32) -> *mut c_void {
    let me = start::current();
    match node_of(me, device) {
        // SAFETY: any size is valid.
        Ok(None) => unsafe { libc::malloc(size) },
        Ok(Some(node)) if size > 0 => calls::allocate(me, node, size) as *mut c_void,
        _ => ptr::null_mut(),
    }
}

/// Frees memory of a device.
///
/// # Safety
/// `memory` came from [`omp_target_alloc`], or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_free(memory: *mut c_void, device: i32) {
    let me = start::current();
    match node_of(me, device) {
        // SAFETY: guaranteed by the caller.
        Ok(None) => unsafe { libc::free(memory) },
        Ok(Some(node)) if !memory.is_null() => calls::release(me, node, memory as usize),
        _ => {}
    }
}

/// Translates a host address to a device's: the mapped address, or the same one if the device can access it.
fn device_address_of(me: &'static Thread, memory: usize, device: i32) -> Option<usize> {
    let root = me.root();
    match node_of(me, device) {
        Ok(None) => Some(memory),
        Ok(Some(node)) => {
            let reached = !root.settings.target_copies && calls::is_shared(root, memory);
            root.devices().at(node).translate(memory).or(reached.then_some(memory))
        }
        Err(_) => None,
    }
}

/// Returns whether host memory is mapped on a device, or accessible to it.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_is_present(memory: *const c_void, device: i32) -> i32 {
    i32::from(device_address_of(start::current(), memory as usize, device).is_some())
}

/// Returns the device address of host memory, or null.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_mapped_ptr(memory: *const c_void, device: i32) -> *mut c_void {
    device_address_of(start::current(), memory as usize, device).unwrap_or(0) as *mut c_void
}

/// Returns whether a device can access all of a range of host memory in place.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_is_accessible(memory: *const c_void, size: usize, device: i32) -> i32 {
    let me = start::current();
    let root = me.root();
    let (first, last) = (memory as usize, (memory as usize).checked_add(size.saturating_sub(1)));
    i32::from(match (node_of(me, device), last) {
        (Ok(None), Some(_)) => !memory.is_null(),
        (Ok(Some(_)), Some(last)) => {
            !root.settings.target_copies && [first, last].iter().all(|&at| calls::is_shared(root, at))
        }
        _ => false,
    })
}

/// Associates host memory with memory of a device. Returns 0, or `EINVAL` for the host, or if part of the
/// range is already mapped.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_associate_ptr(
    host: *const c_void,
    memory: *const c_void,
    size: usize,
    offset: usize,
    device: i32,
) -> i32 {
    let me = start::current();
    let Ok(Some(node)) = node_of(me, device) else { return libc::EINVAL };
    let device = me.root().devices().at(node);
    if device.associate(me.store(), host as usize, size, memory as usize + offset) { 0 } else { libc::EINVAL }
}

/// Removes such an association. Returns 0, or `EINVAL` if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_disassociate_ptr(host: *const c_void, device: i32) -> i32 {
    let me = start::current();
    match node_of(me, device) {
        Ok(Some(node)) if me.root().devices().at(node).dissociate(host as usize) => 0,
        _ => libc::EINVAL,
    }
}

/// Stores the name of a device's node, truncated to the buffer. Returns its length, or -1 if the device does
/// not exist. Not part of OpenMP.
///
/// # Safety
/// `buffer` is null, or has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_omp_device_name(device: i32, buffer: *mut c_char, bytes: usize) -> i32 {
    let me = start::current();
    let Ok(node) = node_of(me, device) else { return -1 };
    let mut name = me.root().nodes().at(node.unwrap_or(0)).name().into_bytes();
    let length = i32::try_from(name.len()).unwrap_or(i32::MAX);
    name.push(0);
    if !buffer.is_null() && bytes > 0 {
        name.truncate(bytes);
        if let Some(last) = name.last_mut() {
            *last = 0;
        }
        debug_assert!(CStr::from_bytes_until_nul(&name).is_ok());
        // SAFETY: guaranteed by the caller.
        unsafe { ptr::copy_nonoverlapping(name.as_ptr(), buffer.cast(), name.len()) };
    }
    length
}
