//! Memory as an array of Arrow, by its C data interface.

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

/// What an array keeps until it is released.
struct Kept {
    _lease: Lease,
    /// Which items are none, which has no entry, and the items.
    buffers: [*const c_void; 2],
}

/// # Safety
/// As the C data interface says: a schema that is not released.
unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: a live schema, which has nothing of its own: its texts live for ever.
    unsafe { (*schema).release = None };
}

/// # Safety
/// As the C data interface says: an array of [`arrow_array`] that is not released.
unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: a live array, whose private data is what `arrow_array` made of a box; it is marked as released
    // first, so this happens once. The interpreter is not needed: what is dropped here without it is let go
    // when a thread has it.
    unsafe {
        (*array).release = None;
        drop(Box::from_raw((*array).private.cast::<Kept>()));
    }
}

/// # Safety
/// As Python calls it, with a capsule of [`arrow_schema`].
unsafe extern "C" fn schema_dropped(capsule: *mut ffi::PyObject) {
    // SAFETY: a live capsule, with the box that it was made with. Who has moved the schema out has marked it
    // as released.
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
/// As Python calls it, with a capsule of [`arrow_array`].
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

/// A capsule with the schema of an array of items that Arrow writes like this.
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
    // SAFETY: a pointer that is not null, a name that lives for ever, and what frees it; here if no capsule
    // could be made.
    unsafe {
        let capsule = ffi::PyCapsule_New(schema.cast(), SCHEMA_NAME.as_ptr(), Some(schema_dropped));
        if capsule.is_null() {
            drop(Box::from_raw(schema));
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// A capsule with an array of all items, of which none is null.
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
        // SAFETY: just made, and not shared yet; it stays where it is until it is released.
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
