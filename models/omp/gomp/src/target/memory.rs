//! Memory of devices, and what of the host's they have.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use tombolo_omp_team::device::calls;
use tombolo_omp_team::job::start;
use tombolo_omp_team::team::thread::Thread;

use super::{FALLBACK, devices};

/// The node that a device is, or `None` for the host; an error if there is no such device.
pub(super) fn node_of(me: &'static Thread, device: i32) -> Result<Option<u32>, i32> {
    let devices = devices(me);
    match device {
        FALLBACK => Ok(None),
        device if device == devices => Ok(None),
        device if (0..devices).contains(&device) => Ok(Some(device.cast_unsigned() + 1)),
        _ => Err(libc::EINVAL),
    }
}

/// Memory of a device; null if there is no such device, or none left.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_alloc(size: usize, device: i32) -> *mut c_void {
    let me = start::current();
    match node_of(me, device) {
        // SAFETY: any size may be asked for.
        Ok(None) => unsafe { libc::malloc(size) },
        Ok(Some(node)) if size > 0 => calls::allocate(me, node, size) as *mut c_void,
        _ => ptr::null_mut(),
    }
}

/// Gives memory of a device back.
///
/// # Safety
/// It came from [`omp_target_alloc`], or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_free(memory: *mut c_void, device: i32) {
    let me = start::current();
    match node_of(me, device) {
        // SAFETY: the caller says so.
        Ok(None) => unsafe { libc::free(memory) },
        Ok(Some(node)) if !memory.is_null() => calls::release(me, node, memory as usize),
        _ => {}
    }
}

/// Where a device has an address of the host's: the same where it reaches that.
fn place_on(me: &'static Thread, memory: usize, device: i32) -> Option<usize> {
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

/// Whether memory of the host is there on a device too, or the device reaches it.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_is_present(memory: *const c_void, device: i32) -> i32 {
    i32::from(place_on(start::current(), memory as usize, device).is_some())
}

/// Where a device has memory of the host; null if it has not.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_mapped_ptr(memory: *const c_void, device: i32) -> *mut c_void {
    place_on(start::current(), memory as usize, device).unwrap_or(0) as *mut c_void
}

/// Whether a device reaches memory of the host, all of it, where it is.
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

/// Has a device use memory for what the host has. 0, or `EINVAL`: for the host, or where something of it is
/// there already.
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

/// The reverse. 0, or `EINVAL` if there is nothing to undo.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_disassociate_ptr(host: *const c_void, device: i32) -> i32 {
    let me = start::current();
    match node_of(me, device) {
        Ok(Some(node)) if me.root().devices().at(node).dissociate(host as usize) => 0,
        _ => libc::EINVAL,
    }
}

/// The name of the node that a device is, as much of it as fits; how long it is, or -1 if there is no such
/// device. Not OpenMP's.
///
/// # Safety
/// The buffer is null, or so long.
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
        // SAFETY: the caller says so.
        unsafe { ptr::copy_nonoverlapping(name.as_ptr(), buffer.cast(), name.len()) };
    }
    length
}
