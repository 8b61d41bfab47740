//! Domains, listeners, and opening of channels.

use alloc::ffi::CString;
use core::ffi::c_char;
use core::time::Duration;

#[cfg(target_os = "none")]
use tombolo_bare as tombolo;

#[cfg(not(target_os = "none"))]
use tombolo::BulkChannel;
use tombolo::{ChannelOptions, Domain, Listener};

use crate::boundary::{
    c_text, check_not_null, deref, from_handle, guard, guard_value, into_handle, text, write_result,
};
use crate::channel::ChannelHandle;
use crate::status::{Failure, Status};
use crate::system;

/// `tombolo_domain`.
#[derive(Debug)]
pub struct DomainHandle {
    pub(crate) domain: Domain,
    node: CString,
    machine: CString,
}

/// `tombolo_listener`.
#[derive(Debug)]
pub enum ListenerHandle {
    /// Listener for ordinary channels.
    Plain(Listener),
    /// Listener for bulk channels.
    #[cfg(not(target_os = "none"))]
    Bulk(Listener<BulkChannel>),
}

impl From<Listener> for ListenerHandle {
    fn from(listener: Listener) -> Self {
        ListenerHandle::Plain(listener)
    }
}

impl ListenerHandle {
    #[cfg_attr(target_os = "none", expect(clippy::unnecessary_wraps, reason = "there are others on Linux"))]
    fn plain(&self) -> Result<&Listener, Failure> {
        match self {
            ListenerHandle::Plain(listener) => Ok(listener),
            #[cfg(not(target_os = "none"))]
            ListenerHandle::Bulk(_) => Err(Failure::invalid(
                "the name was taken up by tombolo_export_bulk: accept by tombolo_accept_bulk",
            )),
        }
    }
}

/// `tombolo_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Options {
    slot_bytes: u32,
    slots: u32,
    interface_hash: u64,
    spin_ns: u64,
    flags: u32,
    reserved: u32,
}

/// `TOMBOLO_USED_FLAG`.
const USED_FLAG: u32 = 1;

impl Options {
    fn read(&self) -> Result<ChannelOptions, Failure> {
        let mut options = ChannelOptions::default().interface_hash(self.interface_hash);
        if self.flags & !USED_FLAG != 0 || self.reserved != 0 {
            return Err(Failure::invalid("options have flags that this library does not know"));
        }
        if self.slot_bytes != 0 {
            options = options.slot_bytes(self.slot_bytes as usize)?;
        }
        if self.slots != 0 {
            options = options.slots(self.slots)?;
        }
        if self.spin_ns != 0 {
            options = options.spin_ns(self.spin_ns);
        }
        Ok(if self.flags & USED_FLAG != 0 { options.used_flag() } else { options })
    }
}

/// # Safety
/// The pointer is null, or points to options.
pub(crate) unsafe fn options(pointer: *const Options) -> Result<ChannelOptions, Failure> {
    // SAFETY: this function's safety condition.
    match unsafe { pointer.as_ref() } {
        None => Ok(ChannelOptions::default()),
        Some(options) => options.read(),
    }
}

fn handle(domain: Domain) -> *mut DomainHandle {
    into_handle(of(domain))
}

pub(crate) fn of(domain: Domain) -> DomainHandle {
    let (node, machine) = (c_text(domain.node_name()), c_text(domain.machine_name()));
    DomainHandle { domain, node, machine }
}

/// `tombolo_attach`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_attach(result: *mut *mut DomainHandle) -> Status {
    guard(|| {
        check_not_null(result, "where to put the domain")?;
        let domain = handle(system::attach()?);
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, domain, "where to put the domain") }
    })
}

/// `tombolo_attach_to_machine`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[cfg(not(target_os = "none"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_attach_to_machine(
    name: *const c_char,
    result: *mut *mut DomainHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the domain")?;
        // SAFETY: a C string, by the contract.
        let name = unsafe { text(name, "the name of the machine") }?;
        let domain = handle(Domain::attach_to_machine(name)?);
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, domain, "where to put the domain") }
    })
}

/// `tombolo_detach`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_detach(domain: *mut DomainHandle) {
    guard(|| {
        // SAFETY: a handle that is released once, by the contract.
        drop(unsafe { from_handle(domain) });
        Ok(())
    });
}

/// `tombolo_domain_id`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_domain_id(domain: *const DomainHandle) -> u64 {
    // SAFETY: a live handle, by the contract; it never changes.
    guard_value(0, || Ok(unsafe { deref(domain, "the domain") }?.domain.id().to_bits()))
}

/// `tombolo_node_name`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_node_name(domain: *const DomainHandle) -> *const c_char {
    // SAFETY: a live handle, by the contract; it never changes.
    guard_value(c"".as_ptr(), || Ok(unsafe { deref(domain, "the domain") }?.node.as_ptr()))
}

/// `tombolo_machine_name`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_machine_name(domain: *const DomainHandle) -> *const c_char {
    // SAFETY: a live handle, by the contract; it never changes.
    guard_value(c"".as_ptr(), || Ok(unsafe { deref(domain, "the domain") }?.machine.as_ptr()))
}

/// `tombolo_was_spawned`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_was_spawned(domain: *const DomainHandle) -> bool {
    // SAFETY: a live handle, by the contract; it never changes.
    guard_value(false, || Ok(unsafe { deref(domain, "the domain") }?.domain.was_spawned()))
}

/// `tombolo_export`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_export(
    domain: *const DomainHandle,
    name: *const c_char,
    how: *const Options,
    result: *mut *mut ListenerHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the listener")?;
        // SAFETY: a live handle, a C string and options, by the contract.
        let (domain, name, how) =
            unsafe { (deref(domain, "the domain")?, text(name, "the name")?, options(how)?) };
        let listener = into_handle(ListenerHandle::from(how.export(&domain.domain, name)?));
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, listener, "where to put the listener") }
    })
}

/// `tombolo_unexport`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_unexport(listener: *mut ListenerHandle) {
    guard(|| {
        // SAFETY: a handle that is released once, by the contract.
        drop(unsafe { from_handle(listener) });
        Ok(())
    });
}

/// `tombolo_accept`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_accept(
    listener: *const ListenerHandle,
    timeout_ns: u64,
    result: *mut *mut ChannelHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the channel")?;
        // SAFETY: a live handle, by the contract; the object is `Sync`.
        let listener = unsafe { deref(listener, "the listener") }?;
        let channel =
            ChannelHandle::into_handle(listener.plain()?.within(Duration::from_nanos(timeout_ns)).accept()?);
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, channel, "where to put the channel") }
    })
}

/// `tombolo_connect`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_connect(
    domain: *const DomainHandle,
    name: *const c_char,
    how: *const Options,
    timeout_ns: u64,
    result: *mut *mut ChannelHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the channel")?;
        // SAFETY: a live handle, a C string and options, by the contract.
        let (domain, name, how) =
            unsafe { (deref(domain, "the domain")?, text(name, "the name")?, options(how)?) };
        let channel = how.connect(&domain.domain.within(Duration::from_nanos(timeout_ns)), name)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, ChannelHandle::into_handle(channel), "where to put the channel") }
    })
}
