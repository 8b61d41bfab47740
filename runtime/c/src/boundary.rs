//! Boundary to C: converts pointers to references, and stops panics.

use alloc::ffi::CString;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, Ordering};

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use crate::status::{Failure, Status, record_failure};
use crate::system;

/// Runs `body` for C: its error is stored for `tombolo_last_error`, and a panic becomes an error.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), Failure>) -> Status {
    match system::catch_panic(body) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(failure)) => record_failure(failure),
        Err(()) => record_failure(Failure::new(
            Status::Internal,
            "a defect of the library, which wrote more to standard error: please report it",
        )),
    }
}

/// Runs `body` for a function that returns a value; returns `otherwise` on an error.
pub(crate) fn guard_value<T>(otherwise: T, body: impl FnOnce() -> Result<T, Failure>) -> T {
    let mut answer = otherwise;
    guard(|| {
        answer = body()?;
        Ok(())
    });
    answer
}

/// Converts a pointer to a reference.
///
/// # Safety
/// The pointer is null, or points to a `T` that does not change while the reference lives.
pub(crate) unsafe fn deref<'a, T>(pointer: *const T, what: &'static str) -> Result<&'a T, Failure> {
    // SAFETY: null is checked here; everything else is this function's safety condition.
    unsafe { pointer.as_ref() }.ok_or_else(|| null_pointer(what))
}

/// Writes a value through a pointer from C.
///
/// # Safety
/// The pointer is null, or points to writable memory for a `T` that only the caller uses.
pub(crate) unsafe fn write_result<T>(pointer: *mut T, value: T, what: &'static str) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(null_pointer(what));
    }
    // SAFETY: not null; the rest is this function's safety condition. The previous value belongs to C and
    // needs no drop.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Fails if a result pointer is null, before anything is done whose result could not be returned.
pub(crate) fn check_not_null<T>(pointer: *mut T, what: &'static str) -> Result<(), Failure> {
    if pointer.is_null() { Err(null_pointer(what)) } else { Ok(()) }
}

/// Converts a C string to a `str`.
///
/// # Safety
/// The pointer is null, or points to a C string that does not change while the reference lives.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &'static str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(null_pointer(what));
    }
    // SAFETY: not null; the rest is this function's safety condition.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}

/// Converts a pointer and a length to a byte slice.
///
/// # Safety
/// The pointer points to `length` bytes that do not change while the reference lives; it may be null if the
/// length is 0.
pub(crate) unsafe fn bytes<'a>(
    pointer: *const u8,
    length: usize,
    what: &'static str,
) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() || length > isize::MAX as usize {
        return Err(null_pointer(what));
    }
    // SAFETY: not null, and not longer than any object can be; the rest is this function's safety condition.
    Ok(unsafe { core::slice::from_raw_parts(pointer, length) })
}

/// Converts a pointer and a length to a mutable byte slice.
///
/// # Safety
/// The pointer points to `length` bytes that only the caller uses while the reference lives; it may be null
/// if the length is 0.
pub(crate) unsafe fn bytes_mut<'a>(
    pointer: *mut u8,
    length: usize,
    what: &'static str,
) -> Result<&'a mut [u8], Failure> {
    if length == 0 {
        return Ok(&mut []);
    }
    if pointer.is_null() || length > isize::MAX as usize {
        return Err(null_pointer(what));
    }
    // SAFETY: not null, and not longer than any object can be; the rest is this function's safety condition.
    // The memory belongs to the C program and has some value from the point of view of this library, whether
    // C initialized it or not.
    Ok(unsafe { core::slice::from_raw_parts_mut(pointer, length) })
}

fn null_pointer(what: &'static str) -> Failure {
    Failure::invalid(format!("{what} is null"))
}

/// Converts a text to a C string, which C may read while its owner lives.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// Cell that one thread uses at a time. C cannot be forced to do so, so it is checked: a callback that uses
/// the channel that it was called for, or a second thread, gets [`Status::Busy`].
#[derive(Debug)]
pub(crate) struct Exclusive<T> {
    busy: AtomicBool,
    value: UnsafeCell<T>,
}

/// Clears the mark on drop, also after a panic.
struct BusyGuard<'a>(&'a AtomicBool);

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Exclusive { busy: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Runs `body` with the value, or fails if it is in use.
    #[inline]
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> Result<R, Failure>) -> Result<R, Failure> {
        if self.busy.swap(true, Ordering::Acquire) {
            return Err(busy());
        }
        let _free = BusyGuard(&self.busy);
        // SAFETY: the thread that found the mark clear has set it, and clears it only after this reference is
        // gone, so there is one reference at a time. The value is not moved: it is part of `self`, which is
        // borrowed.
        body(unsafe { &mut *self.value.get() })
    }

    /// Returns the value of a cell that the caller owns.
    #[cfg(not(target_os = "none"))]
    pub(crate) fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Marks the cell as in use permanently, unless it is in use.
    pub(crate) fn retire(&self) -> Result<(), Failure> {
        if self.busy.swap(true, Ordering::Acquire) { Err(busy()) } else { Ok(()) }
    }
}

fn busy() -> Failure {
    Failure::new(
        Status::Busy,
        "the handle is in use: by another thread, or by the function that called this one",
    )
}

/// Converts a value to a handle for C.
pub(crate) fn into_handle<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes a handle back from C. Returns `None` for null.
///
/// # Safety
/// The pointer is null, or came from [`into_handle`] and was not taken back before.
pub(crate) unsafe fn from_handle<T>(pointer: *mut T) -> Option<Box<T>> {
    // SAFETY: not null, and by this function's safety condition the result of one `Box::into_raw`.
    (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_errors() {
        assert_eq!(guard(|| panic!("on purpose")), Status::Internal);
        let value = Exclusive::new(1);
        assert_eq!(guard(|| value.with(|_| panic!("on purpose"))), Status::Internal);
        assert_eq!(value.with(|value| Ok(*value)).unwrap(), 1, "free again after a panic");
    }

    #[test]
    fn handles_in_use_are_refused() {
        let value = Exclusive::new(1);
        let inner = value.with(|_| Ok(value.with(|_| Ok(())).unwrap_err().status)).unwrap();
        assert_eq!(inner, Status::Busy);
        value.retire().unwrap();
        assert_eq!(value.with(|_| Ok(())).unwrap_err().status, Status::Busy);
    }
}
