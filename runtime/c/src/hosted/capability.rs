//! Operations on capabilities other than mapping: parts, services, and capabilities that a program is started
//! with.

use std::ffi::c_char;
use std::time::Duration;

use tombolo::region::{Capability, Kind};

use crate::boundary::{guard, hand_out, present, put, shared, text};
use crate::channel::ChannelHandle;
use crate::domain::{DomainHandle, ListenerHandle, Options, options};
use crate::region::{CapabilityHandle, Part, give_out};
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
        present(result, "where to put the capabilities")?;
        present(parts.cast_mut(), "the parts")?;
        // SAFETY: a live handle, by the contract; not null, and `count` extents lie there, by the contract.
        let (capability, parts) =
            unsafe { (shared(capability, "the capability")?, std::slice::from_raw_parts(parts, count)) };
        let extents: Vec<_> = parts.iter().map(|part| part.extent()).collect();
        let made = capability.capability.split(kind_of(kind)?, &extents)?;
        for (index, capability) in made.into_iter().take(count).enumerate() {
            // SAFETY: room for `count` pointers, by the contract.
            unsafe { give_out(result.add(index), capability) }?;
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
    // SAFETY: a live handle, by the contract; it never changes.
    crate::boundary::ask(0, || Ok(unsafe { shared(capability, "the capability") }?.capability.kind() as u32))
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
        present(result, "where to put the capability")?;
        // SAFETY: a live handle and a C string, by the contract.
        let (domain, name) = unsafe { (shared(domain, "the domain")?, text(name, "the name")?) };
        let capability = domain.domain.given(name)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { give_out(result, capability) }
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
        present(listener, "where to put the listener")?;
        present(service, "where to put the capability")?;
        // SAFETY: a live handle and options, by the contract.
        let (domain, how) = unsafe { (shared(domain, "the domain")?, options(how)?) };
        let (made, capability) = how.serve(&domain.domain)?;
        // SAFETY: each valid for a write of a pointer, by the contract.
        unsafe {
            put(listener, hand_out(ListenerHandle::from(made)), "where to put the listener")?;
            give_out(service, capability)
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
        present(service, "where to put the capability")?;
        // SAFETY: a live handle, by the contract.
        let capability = match unsafe { shared(listener, "the listener") }? {
            ListenerHandle::Plain(listener) => listener.capability(),
            ListenerHandle::Bulk(listener) => listener.capability(),
        }?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { give_out(service, capability) }
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
        present(result, "where to put the channel")?;
        // SAFETY: live handles and options, by the contract.
        let (domain, service, how) =
            unsafe { (shared(domain, "the domain")?, shared(service, "the service")?, options(how)?) };
        let service: &Capability = &service.capability;
        let channel = how.connect(&domain.domain.within(Duration::from_nanos(timeout_ns)), service)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { put(result, ChannelHandle::hand_out(channel), "where to put the channel") }
    })
}
