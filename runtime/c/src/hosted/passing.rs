//! Rights as parameters of interfaces.

use std::time::Duration;

use tombolo::error::Fault;
use tombolo::interface::Handle;
use tombolo::region::FarEnd;
use tombolo::{Endpoint, Error};

use crate::boundary::{check_not_null, deref, guard, into_handle, write_result};
use crate::channel::{ChannelHandle, with};
use crate::domain::{DomainHandle, ListenerHandle, Options, options};
use crate::region::{CapabilityHandle, rights_of};
use crate::status::{Failure, Status};

/// `tombolo_right`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Right {
    pub(crate) object: u64,
    pub(crate) mark: u64,
}

/// Kinds of rights, and the flag of those that are moved.
const ENDPOINT: u64 = 1;
const REGION: u64 = 2;
const CAPABILITY: u64 = 3;
const MOVED: u64 = 0x100;

/// Converts an error: a right that this program cannot take up is the peer's fault, other errors are not.
pub(crate) fn refused(error: Error) -> Failure {
    match error {
        Error::Monitor(Fault::Capability { .. }) => Failure::new(Status::RightRefused, error.to_string()),
        error => error.into(),
    }
}

/// # Safety
/// Null, or a live handle.
pub(crate) unsafe fn far_end(channel: *mut ChannelHandle) -> Result<FarEnd, Failure> {
    // SAFETY: this function's safety condition.
    unsafe { with(channel, |end| Ok(FarEnd::from(end.channel()?))) }
}

/// `tombolo_copy_to`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_copy_to(
    capability: *const CapabilityHandle,
    channel: *mut ChannelHandle,
    rights: u32,
    kind: u32,
    result: *mut Right,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the right")?;
        let kind = kind_of(kind)?;
        let rights = rights_of(rights)?;
        // SAFETY: live handles, by the contract.
        let (capability, to) = unsafe { (deref(capability, "the capability")?, far_end(channel)?) };
        let object = capability.capability.copy_to(to, rights)?.object;
        // SAFETY: valid for a write of a right, by the contract.
        unsafe { write_result(result, Right { object, mark: kind }, "where to put the right") }
    })
}

/// `tombolo_move_to`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_move_to(
    capability: *const CapabilityHandle,
    channel: *mut ChannelHandle,
    kind: u32,
    result: *mut Right,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the right")?;
        let kind = kind_of(kind)?;
        // SAFETY: live handles, by the contract.
        let (capability, to) = unsafe { (deref(capability, "the capability")?, far_end(channel)?) };
        let object = capability.capability.move_to(to)?.object;
        // SAFETY: valid for a write of a right, by the contract.
        unsafe { write_result(result, Right { object, mark: kind | MOVED }, "where to put the right") }
    })
}

fn kind_of(kind: u32) -> Result<u64, Failure> {
    match kind.into() {
        kind @ (REGION | CAPABILITY) => Ok(kind),
        _ => Err(Failure::invalid("a right is TOMBOLO_A_REGION or TOMBOLO_A_CAPABILITY")),
    }
}

/// `tombolo_accept_right`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_accept_right(
    domain: *const DomainHandle,
    channel: *mut ChannelHandle,
    right: Right,
    result: *mut *mut CapabilityHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the capability")?;
        // SAFETY: live handles, by the contract.
        let (domain, from) = unsafe { (deref(domain, "the domain")?, far_end(channel)?) };
        let object = right.object;
        let capability = match right.mark & !MOVED {
            REGION => {
                let region = domain.domain.accept(from, Handle::<2, false> { object });
                region.map(tombolo::region::Region::into_capability)
            }
            CAPABILITY => domain.domain.accept(from, Handle::<3, false> { object }),
            _ => {
                return Err(Failure::invalid(
                    "it is no right to memory: connect to endpoints, claim buffers",
                ));
            }
        };
        let capability = into_handle(CapabilityHandle { capability: capability.map_err(refused)? });
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, capability, "where to put the capability") }
    })
}

/// `tombolo_take_back`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_take_back(
    domain: *const DomainHandle,
    right: Right,
    result: *mut *mut CapabilityHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the capability")?;
        if !matches!(right.mark & !MOVED, REGION | CAPABILITY) {
            return Err(Failure::invalid("only rights to memory can be taken back"));
        }
        // SAFETY: a live handle, by the contract.
        let domain = unsafe { deref(domain, "the domain") }?;
        let capability = domain.domain.take_back(Handle::<3, false> { object: right.object })?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe {
            write_result(result, into_handle(CapabilityHandle { capability }), "where to put the capability")
        }
    })
}

/// `tombolo_listen`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_listen(
    domain: *const DomainHandle,
    how: *const Options,
    result: *mut *mut ListenerHandle,
    endpoint: *mut Right,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the listener")?;
        check_not_null(endpoint, "where to put the endpoint")?;
        // SAFETY: a live handle and options, by the contract.
        let (domain, how) = unsafe { (deref(domain, "the domain")?, options(how)?) };
        let listener = how.listen(&domain.domain)?;
        let object = listener.endpoint().map_or(0, |endpoint| endpoint.to_copy().object);
        // SAFETY: valid for writes, by the contract.
        unsafe {
            write_result(endpoint, Right { object, mark: ENDPOINT }, "where to put the endpoint")?;
            write_result(result, into_handle(ListenerHandle::from(listener)), "where to put the listener")
        }
    })
}

/// `tombolo_connect_to`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_connect_to(
    domain: *const DomainHandle,
    endpoint: Right,
    how: *const Options,
    timeout_ns: u64,
    result: *mut *mut ChannelHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the channel")?;
        if endpoint.mark & !MOVED != ENDPOINT {
            return Err(Failure::invalid("it is no endpoint"));
        }
        // SAFETY: a live handle and options, by the contract.
        let (domain, how) = unsafe { (deref(domain, "the domain")?, options(how)?) };
        let endpoint = Endpoint::from_number(endpoint.object);
        let channel = how.connect(&domain.domain.within(Duration::from_nanos(timeout_ns)), endpoint)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, ChannelHandle::into_handle(channel), "where to put the channel") }
    })
}
