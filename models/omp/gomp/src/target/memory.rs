//! Memory of devices, and copying between them.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use tombolo_omp::device;
use tombolo_omp::thread::{self, Thread};

use super::{FALLBACK, devices};

/// The node that a device is, or `None` for the host; an error if there is no such device.
fn node_of(me: &'static Thread, device: i32) -> Result<Option<u32>, i32> {
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
    let me = thread::current();
    match node_of(me, device) {
        // SAFETY: any size may be asked for.
        Ok(None) => unsafe { libc::malloc(size) },
        Ok(Some(node)) if size > 0 => device::allocate(me, node, size) as *mut c_void,
        _ => ptr::null_mut(),
    }
}

/// Gives memory of a device back.
///
/// # Safety
/// It came from [`omp_target_alloc`], or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_free(memory: *mut c_void, device: i32) {
    let me = thread::current();
    match node_of(me, device) {
        // SAFETY: the caller says so.
        Ok(None) => unsafe { libc::free(memory) },
        Ok(Some(node)) if !memory.is_null() => device::release(me, node, memory as usize),
        _ => {}
    }
}

/// Whether memory of the host is there on a device too, or the device reaches it.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_is_present(memory: *const c_void, device: i32) -> i32 {
    let me = thread::current();
    let root = me.root();
    i32::from(match node_of(me, device) {
        Ok(None) => true,
        Ok(Some(node)) => {
            let reached = !root.settings.target_copies && device::is_shared(root, memory as usize);
            reached || root.devices().at(node).translate(memory as usize).is_some()
        }
        Err(_) => false,
    })
}

/// Copies between devices. 0, or `EINVAL` if there is no such device.
///
/// # Safety
/// Both are as long as offset and length say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy(
    target: *mut c_void,
    source: *const c_void,
    length: usize,
    target_offset: usize,
    source_offset: usize,
    target_device: i32,
    source_device: i32,
) -> i32 {
    let me = thread::current();
    let (Ok(to), Ok(from)) = (node_of(me, target_device), node_of(me, source_device)) else {
        return libc::EINVAL;
    };
    let (target, source) = (target as usize + target_offset, source as usize + source_offset);
    // SAFETY: the caller says so.
    unsafe { device::copy(me, (to, target), (from, source), length) };
    0
}

/// Dimensions that a block may have at most.
const DIMENSIONS: usize = 64;

/// A block within an array: in each dimension its length, where it begins, and how long the array is.
struct Block {
    lengths: *const usize,
    target: (*const usize, *const usize),
    source: (*const usize, *const usize),
}

impl Block {
    /// Copies what is left from this dimension on, by rows: `row` gets addresses and bytes.
    ///
    /// # Safety
    /// There are so many dimensions.
    unsafe fn copy(
        &self,
        (at, dimensions): (usize, usize),
        (target, source): (usize, usize),
        element: usize,
        row: &impl Fn(usize, usize, usize),
    ) {
        // SAFETY: the caller says so.
        unsafe {
            let length = *self.lengths.add(at);
            let (to, from) = (*self.target.0.add(at), *self.source.0.add(at));
            let rest = |lengths: *const usize| {
                (at + 1..dimensions).map(|at| *lengths.add(at)).product::<usize>() * element
            };
            let (target_step, source_step) = (rest(self.target.1), rest(self.source.1));
            let (target, source) = (target + to * target_step, source + from * source_step);
            if at + 1 == dimensions {
                return row(target, source, length * element);
            }
            for index in 0..length {
                let (target, source) = (target + index * target_step, source + index * source_step);
                self.copy((at + 1, dimensions), (target, source), element, row);
            }
        }
    }
}

/// Copies a block of an array between devices. 0, or `EINVAL`; without arrays, how many dimensions there may be.
///
/// # Safety
/// The arrays are as large as their dimensions say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy_rect(
    target: *mut c_void,
    source: *const c_void,
    element: usize,
    dimensions: i32,
    lengths: *const usize,
    target_offsets: *const usize,
    source_offsets: *const usize,
    target_lengths: *const usize,
    source_lengths: *const usize,
    target_device: i32,
    source_device: i32,
) -> i32 {
    if target.is_null() && source.is_null() {
        return i32::MAX;
    }
    let me = thread::current();
    let count = usize::try_from(dimensions).unwrap_or(0);
    let (Ok(to), Ok(from)) = (node_of(me, target_device), node_of(me, source_device)) else {
        return libc::EINVAL;
    };
    if count == 0 || count > DIMENSIONS {
        return libc::EINVAL;
    }
    let block =
        Block { lengths, target: (target_offsets, target_lengths), source: (source_offsets, source_lengths) };
    let row = |target: usize, source: usize, bytes: usize| {
        // SAFETY: the caller says so.
        unsafe { device::copy(me, (to, target), (from, source), bytes) };
    };
    // SAFETY: the caller says so.
    unsafe { block.copy((0, count), (target as usize, source as usize), element, &row) };
    0
}

/// Has a device use memory for what the host has. 0, or `EINVAL`: for the host, or where something of it is there already.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_associate_ptr(
    host: *const c_void,
    memory: *const c_void,
    size: usize,
    offset: usize,
    device: i32,
) -> i32 {
    let me = thread::current();
    let Ok(Some(node)) = node_of(me, device) else { return libc::EINVAL };
    let device = me.root().devices().at(node);
    if device.associate(me.store(), host as usize, size, memory as usize + offset) { 0 } else { libc::EINVAL }
}

/// The reverse. 0, or `EINVAL` if there is nothing to undo.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_disassociate_ptr(host: *const c_void, device: i32) -> i32 {
    let me = thread::current();
    match node_of(me, device) {
        Ok(Some(node)) if me.root().devices().at(node).dissociate(host as usize) => 0,
        _ => libc::EINVAL,
    }
}

/// The name of the node that a device is, as much of it as fits; how long it is, or -1 if there is no such device. Not OpenMP's.
///
/// # Safety
/// The buffer is null, or so long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_omp_device_name(device: i32, buffer: *mut c_char, bytes: usize) -> i32 {
    let me = thread::current();
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
