//! Buffer protocol, as consumer and as exporter.
//!
//! Its structure and functions have been part of the stable ABI since Python 3.11, unchanged since 3.0, and
//! types created from a specification have supported its slots since 3.9. They are declared here because the
//! headers for 3.9 do not include them.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::thread::LocalKey;

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use pyo3::{PyClass, ffi};

use super::Lease;
use crate::failure::Failure;

/// `Py_buffer`.
#[repr(C)]
struct View {
    buf: *mut c_void,
    obj: *mut ffi::PyObject,
    len: isize,
    itemsize: isize,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut isize,
    strides: *mut isize,
    suboffsets: *mut isize,
    internal: *mut c_void,
}

const SIMPLE: c_int = 0;
const WRITABLE: c_int = 1;
const FORMAT: c_int = 4;
const ND: c_int = 8;
const STRIDES: c_int = 0x10 | ND;

/// `Py_bf_getbuffer` and `Py_bf_releasebuffer`.
const GET: c_int = 1;
const RELEASE: c_int = 2;

// SAFETY: declared as in Python's own header; every Python since 3.0 exports them.
unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, view: *mut View, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut View);
}

/// Bytes of any object that exports some. While this exists, the object neither moves nor shortens them.
pub(crate) struct Source {
    /// Boxed, because exporters may point into the structure.
    view: Box<View>,
}

// SAFETY: a view may be released by any thread that holds the interpreter, which `drop` ensures; its fields
// do not change.
unsafe impl Send for Source {}
// SAFETY: as above; the memory is only accessed with the interpreter held.
unsafe impl Sync for Source {}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Source({} bytes)", self.view.len)
    }
}

impl Source {
    /// Returns the contiguous bytes of `object`.
    ///
    /// # Errors
    /// Python's exception for objects without bytes, with gaps between them, or, if `writable`, with
    /// read-only bytes.
    pub(crate) fn of(object: &Bound<'_, PyAny>, writable: bool) -> PyResult<Source> {
        let mut view = Box::new(View {
            buf: ptr::null_mut(),
            obj: ptr::null_mut(),
            len: 0,
            itemsize: 0,
            readonly: 0,
            ndim: 0,
            format: ptr::null_mut(),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            suboffsets: ptr::null_mut(),
            internal: ptr::null_mut(),
        });
        let flags = if writable { WRITABLE } else { SIMPLE };
        // SAFETY: a live object, with the interpreter held, and memory for a view, which is filled in on
        // success.
        if unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Source { view })
    }

    pub(crate) fn address(&self) -> *const u8 {
        self.view.buf.cast()
    }

    pub(crate) fn len(&self) -> usize {
        self.view.len.unsigned_abs()
    }

    /// Returns the bytes. Python threads do not run meanwhile.
    pub(crate) fn bytes<'a>(&'a self, _py: Python<'a>) -> &'a [u8] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: the exporter guarantees `len` bytes at this address until the view is released, which
        // happens when `self` is dropped. The interpreter is held, so that no Python code writes to them;
        // native code that writes without holding it causes a data race of its own.
        unsafe { std::slice::from_raw_parts(self.address(), self.len()) }
    }

    /// Returns the bytes for writing, if the view is writable.
    pub(crate) fn bytes_mut<'a>(&'a mut self, _py: Python<'a>) -> &'a mut [u8] {
        if self.len() == 0 || self.view.readonly != 0 {
            return &mut [];
        }
        // SAFETY: as for `bytes`; the exporter has declared them writable.
        unsafe { std::slice::from_raw_parts_mut(self.view.buf.cast(), self.len()) }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: filled in by `of`, and released once, with the interpreter held.
        Python::attach(|_| unsafe { PyBuffer_Release(&raw mut *self.view) });
    }
}

/// Class whose objects export memory.
pub(crate) trait Exporter: PyClass {
    /// Initial value of an object.
    type Parts: 'static;

    /// Name of the type as seen by Python.
    const PYTHON_NAME: &'static CStr;

    /// Returns a lease for a new view.
    ///
    /// # Errors
    /// An error if the memory no longer exists.
    fn lease(slf: &Bound<'_, Self>) -> Result<Lease, Failure>;

    /// Slot through which the initial value of an object reaches its type's constructor.
    fn initial_value_slot() -> &'static LocalKey<Cell<Option<Self::Parts>>>;
}

/// Creates an object of the type that Python sees.
pub(crate) fn new_object<T: Exporter>(py: Python<'_>, value: T::Parts) -> PyResult<Bound<'_, T>> {
    let class = py.import("tombolo._native")?.getattr(short_name(T::PYTHON_NAME))?;
    T::initial_value_slot().set(Some(value));
    Ok(class.call0()?.cast_into()?)
}

fn short_name(name: &'static CStr) -> &'static str {
    name.to_str().ok().and_then(|name| name.rsplit('.').next()).unwrap_or_default()
}

/// Creates the type that Python sees: the class with the buffer protocol.
pub(crate) fn buffer_type<T: Exporter>(py: Python<'_>) -> PyResult<(&'static str, Bound<'_, PyType>)> {
    let base = py.get_type::<T>();
    let doc: CString = base.getattr("__doc__")?.extract::<String>().map(CString::new)?.unwrap_or_default();
    let mut slots = [
        ffi::PyType_Slot { slot: GET, pfunc: get::<T> as *mut c_void },
        ffi::PyType_Slot { slot: RELEASE, pfunc: release as *mut c_void },
        ffi::PyType_Slot { slot: ffi::Py_tp_doc, pfunc: doc.as_ptr().cast_mut().cast() },
        ffi::PyType_Slot { slot: 0, pfunc: ptr::null_mut() },
    ];
    let mut spec = ffi::PyType_Spec {
        name: T::PYTHON_NAME.as_ptr(),
        // The same size as the base.
        basicsize: 0,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as c_uint,
        slots: slots.as_mut_ptr(),
    };
    let bases = PyTuple::new(py, [base])?;
    // SAFETY: the name is static; the slots end with a zero, and are functions of the types that their
    // numbers require and a text that is copied; objects have the size of the base, which creates and frees
    // them.
    let made = unsafe {
        let made = ffi::PyType_FromSpecWithBases(&raw mut spec, bases.as_ptr());
        Bound::from_owned_ptr_or_err(py, made)
    }?;
    Ok((short_name(T::PYTHON_NAME), made.cast_into()?))
}

/// State that a view keeps until it is released.
struct Kept {
    lease: Lease,
}

fn fill(view: &mut View, lease: Lease, flags: c_int) -> PyResult<()> {
    let asks = |for_what: c_int| flags & for_what == for_what;
    if lease.readonly && asks(WRITABLE) {
        return Err(PyBufferError::new_err("the memory is only to be read"));
    }
    if asks(FORMAT) && !asks(ND) {
        return Err(PyBufferError::new_err("a view with a format needs a shape"));
    }
    let mut kept = Box::new(Kept { lease });
    let lease = &mut kept.lease;
    let as_bytes = !asks(ND);
    view.buf = lease.address().cast();
    view.len = lease.length_bytes().cast_signed();
    view.itemsize = lease.item.bytes.cast_signed();
    view.readonly = c_int::from(lease.readonly);
    view.ndim = if as_bytes { 1 } else { c_int::try_from(lease.shape.len()).unwrap_or(c_int::MAX) };
    view.format = if asks(FORMAT) { lease.item.format.as_ptr().cast_mut() } else { ptr::null_mut() };
    view.shape = if as_bytes { ptr::null_mut() } else { lease.shape.as_mut_ptr() };
    view.strides = if asks(STRIDES) { lease.strides.as_mut_ptr() } else { ptr::null_mut() };
    view.suboffsets = ptr::null_mut();
    view.internal = Box::into_raw(kept).cast();
    Ok(())
}

/// # Safety
/// Called by Python: a live object of the type, memory for a view or null, the interpreter held.
unsafe extern "C" fn get<T: Exporter>(object: *mut ffi::PyObject, view: *mut View, flags: c_int) -> c_int {
    let lend = |py: Python<'_>| {
        // SAFETY: null is checked; otherwise it is memory for a view.
        let view =
            unsafe { view.as_mut() }.ok_or_else(|| PyBufferError::new_err("there is no room for a view"))?;
        view.obj = ptr::null_mut();
        // SAFETY: a live object.
        let exporter = unsafe { Bound::from_borrowed_ptr(py, object) };
        let lease = T::lease(exporter.cast::<T>()?)?;
        fill(view, lease, flags)?;
        view.obj = exporter.into_ptr();
        Ok(())
    };
    Python::attach(|py| {
        let lent: Result<PyResult<()>, _> = catch_unwind(AssertUnwindSafe(|| lend(py)));
        match lent.unwrap_or_else(|_| Err(PyBufferError::new_err("a defect of tombolo: please report it"))) {
            Ok(()) => 0,
            Err(error) => {
                error.restore(py);
                -1
            }
        }
    })
}

/// # Safety
/// Called by Python once for each view that [`get`] filled in.
unsafe extern "C" fn release(_object: *mut ffi::PyObject, view: *mut View) {
    // SAFETY: a view that was filled in.
    let internal = unsafe { &mut (*view).internal };
    let kept = std::mem::replace(internal, ptr::null_mut()).cast::<Kept>();
    if !kept.is_null() {
        // SAFETY: `fill` made it from a box; it is taken back once, because the pointer is replaced by null.
        let kept = unsafe { Box::from_raw(kept) };
        Python::attach(|_| drop(kept));
    }
}
