//! Where C's pointers become references, and where panics end.

use alloc::ffi::CString;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, Ordering};

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use crate::status::{Failure, Status, remember};
use crate::system;

/// Does something for C: its error is remembered, a panic is one.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), Failure>) -> Status {
    match system::caught(body) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(failure)) => remember(failure),
        Err(()) => remember(Failure::new(
            Status::Internal,
            "a defect of the library, which wrote more to standard error: please report it",
        )),
    }
}

/// Answers a question whose answer is a value.
pub(crate) fn ask<T>(otherwise: T, body: impl FnOnce() -> Result<T, Failure>) -> T {
    let mut answer = otherwise;
    guard(|| {
        answer = body()?;
        Ok(())
    });
    answer
}

/// What a pointer points to.
///
/// # Safety
/// It is null, or points to a `T` that does not change while the reference lives.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T, what: &'static str) -> Result<&'a T, Failure> {
    // SAFETY: null is told apart here; all else is this function's own condition.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// Puts a value where C wants it.
///
/// # Safety
/// The pointer is null, or points to room for a `T` that only the caller uses.
pub(crate) unsafe fn put<T>(pointer: *mut T, value: T, what: &'static str) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null; the rest is this function's own condition. What was there is C's and has nothing to
    // drop.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Fails before anything is done whose result could not be given back.
pub(crate) fn present<T>(pointer: *mut T, what: &'static str) -> Result<(), Failure> {
    if pointer.is_null() { Err(null(what)) } else { Ok(()) }
}

/// A text that ends with a zero byte.
///
/// # Safety
/// The pointer is null, or points to such a text, which does not change while the reference lives.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &'static str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null; the rest is this function's own condition.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}

/// Bytes to read.
///
/// # Safety
/// The pointer points to that many bytes, which do not change while the reference lives; null is allowed for
/// none.
pub(crate) unsafe fn bytes<'a>(
    pointer: *const u8,
    length: usize,
    what: &'static str,
) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() || length > isize::MAX as usize {
        return Err(null(what));
    }
    // SAFETY: not null and not longer than any object can be; the rest is this function's own condition.
    Ok(unsafe { core::slice::from_raw_parts(pointer, length) })
}

/// Bytes to write.
///
/// # Safety
/// The pointer points to that many bytes, which only the caller uses while the reference lives; null is
/// allowed for none.
pub(crate) unsafe fn bytes_mut<'a>(
    pointer: *mut u8,
    length: usize,
    what: &'static str,
) -> Result<&'a mut [u8], Failure> {
    if length == 0 {
        return Ok(&mut []);
    }
    if pointer.is_null() || length > isize::MAX as usize {
        return Err(null(what));
    }
    // SAFETY: not null and not longer than any object can be; the rest is this function's own condition. The
    // bytes are the C program's: whatever it wrote to them or not, they have values as far as this side
    // knows.
    Ok(unsafe { core::slice::from_raw_parts_mut(pointer, length) })
}

fn null(what: &'static str) -> Failure {
    Failure::invalid(format!("{what} is null"))
}

/// A text for C to read, as long as its owner lives.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// Something that one thread uses at a time. C cannot be held to that, so it is checked: a callback that uses
/// the channel that it was called for, or a second thread, is told [`Status::Busy`].
#[derive(Debug)]
pub(crate) struct Exclusive<T> {
    busy: AtomicBool,
    value: UnsafeCell<T>,
}

/// Frees what is in use again, also after a panic.
struct Free<'a>(&'a AtomicBool);

impl Drop for Free<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Exclusive { busy: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Uses it.
    #[inline]
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> Result<R, Failure>) -> Result<R, Failure> {
        if self.busy.swap(true, Ordering::Acquire) {
            return Err(in_use());
        }
        let _free = Free(&self.busy);
        // SAFETY: the thread that found the mark clear has set it, and clears it only after this reference is
        // gone; so there is one at a time. The value is not moved: it goes with `self`, which is borrowed.
        body(unsafe { &mut *self.value.get() })
    }

    /// What was in it, for who has it alone.
    #[cfg(not(target_os = "none"))]
    pub(crate) fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Marks it as in use for ever, unless it is.
    pub(crate) fn retire(&self) -> Result<(), Failure> {
        if self.busy.swap(true, Ordering::Acquire) { Err(in_use()) } else { Ok(()) }
    }
}

fn in_use() -> Failure {
    Failure::new(
        Status::Busy,
        "the handle is in use: by another thread, or by the function that called this one",
    )
}

/// Gives a handle to C.
pub(crate) fn hand_out<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes a handle back. Null is none.
///
/// # Safety
/// The pointer is null, or came from [`hand_out`] and was not taken back.
pub(crate) unsafe fn take_back<T>(pointer: *mut T) -> Option<Box<T>> {
    // SAFETY: not null, and by this function's own condition what `Box::into_raw` made, once.
    (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_goes_no_further() {
        assert_eq!(guard(|| panic!("on purpose")), Status::Internal);
        let value = Exclusive::new(1);
        assert_eq!(guard(|| value.with(|_| panic!("on purpose"))), Status::Internal);
        assert_eq!(value.with(|value| Ok(*value)).unwrap(), 1, "free again after a panic");
    }

    #[test]
    fn what_is_in_use_is_not_used_twice() {
        let value = Exclusive::new(1);
        let inner = value.with(|_| Ok(value.with(|_| Ok(())).unwrap_err().status)).unwrap();
        assert_eq!(inner, Status::Busy);
        value.retire().unwrap();
        assert_eq!(value.with(|_| Ok(())).unwrap_err().status, Status::Busy);
    }
}
