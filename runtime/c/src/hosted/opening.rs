//! Channels that are opened with a request, on which the listener decides.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use tombolo::{Listener, Opening};

use crate::boundary::{bytes, check_not_null, deref, from_handle, guard, into_handle, text, write_result};
use crate::channel::ChannelHandle;
use crate::domain::{DomainHandle, Options, options};
use crate::status::{Failure, Status};

/// `tombolo_request_listener`.
#[derive(Debug)]
pub struct RequestListenerHandle {
    listener: Listener<Opening>,
}

/// `tombolo_opening`.
#[derive(Debug)]
pub struct OpeningHandle {
    opening: Opening,
}

/// `tombolo_connect_with`: see `tombolo/opening.h`.
///
/// # Safety
/// As documented in `tombolo/opening.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_connect_with(
    domain: *const DomainHandle,
    name: *const c_char,
    how: *const Options,
    kind: u64,
    request: *const c_void,
    length: usize,
    timeout_ns: u64,
    result: *mut *mut ChannelHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the channel")?;
        // SAFETY: a live handle, a C string, options and bytes, by the contract.
        let (domain, name, how, request) = unsafe {
            let request = bytes(request.cast(), length, "the request")?;
            (deref(domain, "the domain")?, text(name, "the name")?, options(how)?, request)
        };
        let domain = domain.domain.within(Duration::from_nanos(timeout_ns));
        let channel = how.request(kind, request)?.connect(&domain, name)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, ChannelHandle::into_handle(channel), "where to put the channel") }
    })
}

/// `tombolo_export_for_requests`: see `tombolo/opening.h`.
///
/// # Safety
/// As documented in `tombolo/opening.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_export_for_requests(
    domain: *const DomainHandle,
    name: *const c_char,
    how: *const Options,
    kind: u64,
    result: *mut *mut RequestListenerHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the listener")?;
        // SAFETY: a live handle, a C string and options, by the contract.
        let (domain, name, how) =
            unsafe { (deref(domain, "the domain")?, text(name, "the name")?, options(how)?) };
        let listener = how.export_for_requests(&domain.domain, name, kind)?;
        let listener = into_handle(RequestListenerHandle { listener });
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, listener, "where to put the listener") }
    })
}

/// `tombolo_unexport_requests`: see `tombolo/opening.h`.
///
/// # Safety
/// As documented in `tombolo/opening.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_unexport_requests(listener: *mut RequestListenerHandle) {
    guard(|| {
        // SAFETY: a handle that is released once, by the contract.
        drop(unsafe { from_handle(listener) });
        Ok(())
    });
}

/// `tombolo_accept_request`: see `tombolo/opening.h`.
///
/// # Safety
/// As documented in `tombolo/opening.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_accept_request(
    listener: *const RequestListenerHandle,
    timeout_ns: u64,
    result: *mut *mut OpeningHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the opening")?;
        // SAFETY: a live handle, by the contract; the object is `Sync`.
        let listener = unsafe { deref(listener, "the listener") }?;
        let opening = listener.listener.within(Duration::from_nanos(timeout_ns)).accept()?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, into_handle(OpeningHandle { opening }), "where to put the opening") }
    })
}

/// `tombolo_opening_request`: see `tombolo/opening.h`.
///
/// # Safety
/// As documented in `tombolo/opening.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_opening_request(
    opening: *const OpeningHandle,
    request: *mut *const c_void,
    length: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract; it does not change until the decision.
        let bytes = unsafe { deref(opening, "the opening") }?.opening.request();
        // SAFETY: valid for writes of a pointer and a length, by the contract.
        unsafe {
            write_result(request, bytes.as_ptr().cast(), "where to put the request")?;
            write_result(length, bytes.len(), "where to put the length")
        }
    })
}

/// `tombolo_opening_accept`: see `tombolo/opening.h`.
///
/// # Safety
/// As documented in `tombolo/opening.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_opening_accept(
    opening: *mut OpeningHandle,
    result: *mut *mut ChannelHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the channel")?;
        // SAFETY: a handle that is decided once, by the contract.
        let opening = unsafe { take_opening(opening) }?;
        let channel = opening.accept()?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, ChannelHandle::into_handle(channel), "where to put the channel") }
    })
}

/// `tombolo_opening_refuse`: see `tombolo/opening.h`.
///
/// # Safety
/// As documented in `tombolo/opening.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_opening_refuse(
    opening: *mut OpeningHandle,
    reason: *const c_char,
) -> Status {
    guard(|| {
        // SAFETY: a handle that is decided once, by the contract.
        let opening = unsafe { take_opening(opening) }?;
        // SAFETY: a C string, by the contract.
        Ok(opening.refuse(unsafe { text(reason, "the reason") }?)?)
    })
}

/// Takes the opening out of its handle, which is released.
///
/// # Safety
/// The handle is null, or was handed out and not taken back before.
unsafe fn take_opening(opening: *mut OpeningHandle) -> Result<Opening, Failure> {
    // SAFETY: this function's safety condition.
    let taken = unsafe { from_handle(opening) };
    taken.map(|handle| handle.opening).ok_or_else(|| Failure::invalid("the opening is null"))
}
