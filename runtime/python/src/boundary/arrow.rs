//! Memory as an Arrow array, through the Arrow C data interface.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;

use super::Lease;

/// `ArrowSchema`.
#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private: *mut c_void,
}

/// `ArrowArray`.
#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private: *mut c_void,
}

const SCHEMA_NAME: &CStr = c"arrow_schema";
const ARRAY_NAME: &CStr = c"arrow_array";

/// State that an array keeps until it is released.
struct Kept {
    _lease: Lease,
    /// Validity bitmap, which is absent, and the items.
    buffers: [*const c_void; 2],
}

/// # Safety
/// As required by the C data interface: a schema that is not released.
unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: a live schema, which owns nothing: its texts are static.
    unsafe { (*schema).release = None };
}

/// # Safety
/// As required by the C data interface: an array of [`arrow_array`] that is not released.
unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: a live array, whose private data `arrow_array` made from a box; it is marked as released first,
    // so this happens once. The interpreter is not needed: Python objects dropped here without it are
    // released when a thread next holds it.
    unsafe {
        (*array).release = None;
        drop(Box::from_raw((*array).private.cast::<Kept>()));
    }
}

/// # Safety
/// Called by Python, with a capsule of [`arrow_schema`].
unsafe extern "C" fn schema_dropped(capsule: *mut ffi::PyObject) {
    // SAFETY: a live capsule, with the box that it was made with. A consumer that has moved the schema out
    // has marked it as released.
    unsafe {
        let schema = ffi::PyCapsule_GetPointer(capsule, SCHEMA_NAME.as_ptr()).cast::<Schema>();
        if schema.is_null() {
            ffi::PyErr_Clear();
            return;
        }
        let mut schema = Box::from_raw(schema);
        if let Some(release) = schema.release {
            release(&raw mut *schema);
        }
    }
}

/// # Safety
/// Called by Python, with a capsule of [`arrow_array`].
unsafe extern "C" fn array_dropped(capsule: *mut ffi::PyObject) {
    // SAFETY: as for `schema_dropped`.
    unsafe {
        let array = ffi::PyCapsule_GetPointer(capsule, ARRAY_NAME.as_ptr()).cast::<Array>();
        if array.is_null() {
            ffi::PyErr_Clear();
            return;
        }
        let mut array = Box::from_raw(array);
        if let Some(release) = array.release {
            release(&raw mut *array);
        }
    }
}

/// Returns a capsule with the schema of an array with items of this Arrow format.
pub(crate) fn arrow_schema<'py>(py: Python<'py>, format: &'static CStr) -> PyResult<Bound<'py, PyAny>> {
    let schema = Box::into_raw(Box::new(Schema {
        format: format.as_ptr(),
        name: c"".as_ptr(),
        metadata: ptr::null(),
        flags: 0,
        n_children: 0,
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        private: ptr::null_mut(),
    }));
    // SAFETY: a pointer that is not null, a static name, and a destructor that frees it; freed here if the
    // capsule could not be created.
    unsafe {
        let capsule = ffi::PyCapsule_New(schema.cast(), SCHEMA_NAME.as_ptr(), Some(schema_dropped));
        if capsule.is_null() {
            drop(Box::from_raw(schema));
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// Returns a capsule with an array of all items, none of which is null.
pub(crate) fn arrow_array(py: Python<'_>, lease: Lease) -> PyResult<Bound<'_, PyAny>> {
    let length = lease.items() as i64;
    let buffers = [ptr::null(), lease.address().cast_const().cast()];
    let kept = Box::into_raw(Box::new(Kept { _lease: lease, buffers }));
    let array = Box::into_raw(Box::new(Array {
        length,
        null_count: 0,
        offset: 0,
        n_buffers: 2,
        n_children: 0,
        // SAFETY: just created, and not shared yet; it does not move until it is released.
        buffers: unsafe { (*kept).buffers.as_mut_ptr() },
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
        release: Some(release_array),
        private: kept.cast(),
    }));
    // SAFETY: as for the schema.
    unsafe {
        let capsule = ffi::PyCapsule_New(array.cast(), ARRAY_NAME.as_ptr(), Some(array_dropped));
        if capsule.is_null() {
            release_array(array);
            drop(Box::from_raw(array));
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}
