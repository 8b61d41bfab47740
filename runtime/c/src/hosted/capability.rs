//! Operations on capabilities other than mapping: parts, services, and capabilities that a program is started
//! with.

use std::ffi::c_char;
use std::time::Duration;

use tombolo::region::{Capability, Kind};

use crate::boundary::{check_not_null, deref, guard, into_handle, text, write_result};
use crate::channel::ChannelHandle;
use crate::domain::{DomainHandle, ListenerHandle, Options, options};
use crate::region::{CapabilityHandle, Part, write_capability};
use crate::status::{Failure, Status};

/// Converts `TOMBOLO_PART_MEMORY` and the like.
fn kind_of(kind: u32) -> Result<Kind, Failure> {
    let known = [Kind::Memory, Kind::Frame, Kind::Pool];
    known.into_iter().find(|known| *known as u32 == kind).ok_or_else(|| {
        Failure::invalid(format!("there are no parts of kind {kind}: use TOMBOLO_PART_FRAME and the like"))
    })
}

/// `tombolo_split`: see `tombolo/capabilities.h`.
///
/// # Safety
/// As documented in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_split(
    capability: *const CapabilityHandle,
    kind: u32,
    parts: *const Part,
    count: usize,
    result: *mut *mut CapabilityHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the capabilities")?;
        check_not_null(parts.cast_mut(), "the parts")?;
        // SAFETY: a live handle, by the contract; not null, and `count` extents lie there, by the contract.
        let (capability, parts) =
            unsafe { (deref(capability, "the capability")?, std::slice::from_raw_parts(parts, count)) };
        let extents: Vec<_> = parts.iter().map(|part| part.extent()).collect();
        let made = capability.capability.split(kind_of(kind)?, &extents)?;
        for (index, capability) in made.into_iter().take(count).enumerate() {
            // SAFETY: room for `count` pointers, by the contract.
            unsafe { write_capability(result.add(index), capability) }?;
        }
        Ok(())
    })
}

/// `tombolo_capability_kind`: see `tombolo/capabilities.h`.
///
/// # Safety
/// As documented in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_capability_kind(capability: *const CapabilityHandle) -> u32 {
    crate::boundary::guard_value(0, || {
        // SAFETY: a live handle, by the contract; it never changes.
        Ok(unsafe { deref(capability, "the capability") }?.capability.kind() as u32)
    })
}

/// `tombolo_take_given`: see `tombolo/capabilities.h`.
///
/// # Safety
/// As documented in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_take_given(
    domain: *const DomainHandle,
    name: *const c_char,
    result: *mut *mut CapabilityHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the capability")?;
        // SAFETY: a live handle and a C string, by the contract.
        let (domain, name) = unsafe { (deref(domain, "the domain")?, text(name, "the name")?) };
        let capability = domain.domain.given(name)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_capability(result, capability) }
    })
}

/// `tombolo_serve`: see `tombolo/capabilities.h`.
///
/// # Safety
/// As documented in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_serve(
    domain: *const DomainHandle,
    how: *const Options,
    listener: *mut *mut ListenerHandle,
    service: *mut *mut CapabilityHandle,
) -> Status {
    guard(|| {
        check_not_null(listener, "where to put the listener")?;
        check_not_null(service, "where to put the capability")?;
        // SAFETY: a live handle and options, by the contract.
        let (domain, how) = unsafe { (deref(domain, "the domain")?, options(how)?) };
        let (made, capability) = how.serve(&domain.domain)?;
        // SAFETY: each valid for a write of a pointer, by the contract.
        unsafe {
            write_result(listener, into_handle(ListenerHandle::from(made)), "where to put the listener")?;
            write_capability(service, capability)
        }
    })
}

/// `tombolo_listener_capability`: see `tombolo/capabilities.h`.
///
/// # Safety
/// As documented in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_listener_capability(
    listener: *const ListenerHandle,
    service: *mut *mut CapabilityHandle,
) -> Status {
    guard(|| {
        check_not_null(service, "where to put the capability")?;
        // SAFETY: a live handle, by the contract.
        let capability = match unsafe { deref(listener, "the listener") }? {
            ListenerHandle::Plain(listener) => listener.capability(),
            ListenerHandle::Bulk(listener) => listener.capability(),
        }?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_capability(service, capability) }
    })
}

/// `tombolo_connect_by`: see `tombolo/capabilities.h`.
///
/// # Safety
/// As documented in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_connect_by(
    domain: *const DomainHandle,
    service: *const CapabilityHandle,
    how: *const Options,
    timeout_ns: u64,
    result: *mut *mut ChannelHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the channel")?;
        // SAFETY: live handles and options, by the contract.
        let (domain, service, how) =
            unsafe { (deref(domain, "the domain")?, deref(service, "the service")?, options(how)?) };
        let service: &Capability = &service.capability;
        let channel = how.connect(&domain.domain.within(Duration::from_nanos(timeout_ns)), service)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, ChannelHandle::into_handle(channel), "where to put the channel") }
    })
}
