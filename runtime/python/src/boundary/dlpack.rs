//! Memory as a DLPack tensor.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::Lease;

/// `DLTensor`, in CPU memory.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// Device type of CPU memory.
const CPU: i32 = 1;
const READ_ONLY: u64 = 1;
const UNVERSIONED_NAME: &CStr = c"dltensor";
const VERSIONED_NAME: &CStr = c"dltensor_versioned";

/// State that a tensor keeps until it is deleted.
struct Kept {
    _lease: Lease,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

fn tensor(lease: Lease) -> (Tensor, *mut c_void) {
    let item = lease.item;
    let (data, bytes) = (lease.address(), item.bytes as i64);
    let shape: Vec<i64> = lease.shape.iter().map(|length| *length as i64).collect();
    let strides = lease.strides.iter().map(|stride| *stride as i64 / bytes).collect();
    let kept = Box::into_raw(Box::new(Kept { _lease: lease, shape, strides }));
    // SAFETY: just created, and not shared yet.
    let lists = unsafe { &mut *kept };
    let tensor = Tensor {
        data: data.cast(),
        device_type: CPU,
        device_id: 0,
        ndim: lists.shape.len() as i32,
        code: item.dlpack,
        bits: (item.bytes * 8) as u8,
        lanes: 1,
        shape: lists.shape.as_mut_ptr(),
        strides: lists.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    (tensor, kept.cast())
}

/// # Safety
/// A tensor that [`dlpack`] made; called once.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: made from a box, like its context; the holder of the tensor deletes it once. The interpreter is
    // not needed: Python objects dropped here without it are released when a thread next holds it.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Kept>()));
    }
}

/// # Safety
/// As for [`delete`].
unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    // SAFETY: as for `delete`.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Kept>()));
    }
}

/// # Safety
/// Called by Python, with a capsule that [`dlpack`] made.
unsafe extern "C" fn dropped(capsule: *mut ffi::PyObject) {
    // SAFETY: a live capsule. It has its original name only while the tensor was not taken out, and then has
    // to delete it.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, UNVERSIONED_NAME.as_ptr()) != 0 {
            delete(ffi::PyCapsule_GetPointer(capsule, UNVERSIONED_NAME.as_ptr()).cast());
        } else if ffi::PyCapsule_IsValid(capsule, VERSIONED_NAME.as_ptr()) != 0 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED_NAME.as_ptr()).cast());
        }
    }
}

/// Returns a capsule with a tensor, in the versioned form with a read-only flag if the consumer supports it.
pub(crate) fn dlpack(py: Python<'_>, lease: Lease, versioned: bool) -> PyResult<Bound<'_, PyAny>> {
    if lease.readonly && !versioned {
        return Err(PyBufferError::new_err(
            "the memory is only to be read, which DLPack says since version 1.0: pass max_version=(1, 0)",
        ));
    }
    let flags = if lease.readonly { READ_ONLY } else { 0 };
    let (tensor, context) = tensor(lease);
    let (pointer, name) = if versioned {
        let deleter = Some(delete_versioned as unsafe extern "C" fn(*mut Versioned));
        let managed = Versioned { major: 1, minor: 0, context, deleter, flags, tensor };
        (Box::into_raw(Box::new(managed)).cast::<c_void>(), VERSIONED_NAME)
    } else {
        let managed = Managed { tensor, context, deleter: Some(delete) };
        (Box::into_raw(Box::new(managed)).cast(), UNVERSIONED_NAME)
    };
    // SAFETY: a pointer that is not null, a static name, and a destructor that deletes the tensor if it was
    // not taken. If the capsule could not be created, the tensor is deleted here.
    unsafe {
        let capsule = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(dropped));
        if capsule.is_null() {
            if versioned { delete_versioned(pointer.cast()) } else { delete(pointer.cast()) }
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}
