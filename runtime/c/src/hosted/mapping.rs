//! Mappings of regions, as used by C programs.

use std::ffi::c_void;

use tombolo::region::{MapOptions, Mapping};

use crate::boundary::{
    bytes, bytes_mut, check_not_null, deref, from_handle, guard, guard_value, into_handle, write_result,
};
use crate::region::{CapabilityHandle, capability_of, rights_of};
use crate::status::{Failure, Status};

/// `tombolo_mapping`.
#[derive(Debug)]
pub struct MappingHandle {
    mapping: Mapping,
}

/// `tombolo_map_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Options {
    address: *mut c_void,
    flags: u32,
    reserved: u32,
    alignment: usize,
}

/// `TOMBOLO_POPULATE`.
const POPULATE: u32 = 1;

impl Options {
    fn read(&self) -> Result<MapOptions, Failure> {
        if self.flags & !POPULATE != 0 || self.reserved != 0 {
            return Err(Failure::invalid("a mapping was to have flags that this library does not know"));
        }
        if self.alignment != 0 && (!self.alignment.is_power_of_two() || !self.address.is_null()) {
            return Err(Failure::invalid("an alignment is a power of two, and not beside an address"));
        }
        let address = (!self.address.is_null()).then(|| self.address.addr());
        let populate = self.flags & POPULATE != 0;
        Ok(MapOptions { address, alignment_bytes: self.alignment, populate })
    }
}

/// `tombolo_map`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_map(
    capability: *const CapabilityHandle,
    rights: u32,
    options: *const Options,
    result: *mut *mut MappingHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the mapping")?;
        // SAFETY: a live handle, and options or null, by the contract.
        let (capability, options) = unsafe { (capability_of(capability)?, options.as_ref()) };
        let options = options.map_or(Ok(MapOptions::default()), Options::read)?;
        let mapping = capability.map_with(rights_of(rights)?, options)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, into_handle(MappingHandle { mapping }), "where to put the mapping") }
    })
}

/// Returns the mapping of a handle.
///
/// # Safety
/// The pointer is null, or a live handle.
unsafe fn mapping_of<'a>(pointer: *const MappingHandle) -> Result<&'a Mapping, Failure> {
    // SAFETY: this function's safety condition; the object is `Sync`.
    Ok(&unsafe { deref(pointer, "the mapping") }?.mapping)
}

/// `tombolo_mapping_address`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_mapping_address(mapping: *const MappingHandle) -> *mut c_void {
    // SAFETY: a live handle, by the contract.
    guard_value(std::ptr::null_mut(), || Ok(unsafe { mapping_of(mapping) }?.as_ptr().cast()))
}

/// `tombolo_mapping_length`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_mapping_length(mapping: *const MappingHandle) -> usize {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || Ok(unsafe { mapping_of(mapping) }?.length_bytes()))
}

/// `tombolo_mapping_is_writable`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_mapping_is_writable(mapping: *const MappingHandle) -> bool {
    // SAFETY: a live handle, by the contract.
    guard_value(false, || Ok(unsafe { mapping_of(mapping) }?.is_writable()))
}

/// `tombolo_mapping_check`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_mapping_check(mapping: *const MappingHandle) -> Status {
    // SAFETY: a live handle, by the contract.
    guard(|| Ok(unsafe { mapping_of(mapping) }?.check()?))
}

/// `tombolo_mapping_read`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_mapping_read(
    mapping: *const MappingHandle,
    offset: usize,
    target: *mut u8,
    length: usize,
) -> Status {
    guard(|| {
        // SAFETY: `length` bytes of the caller, by the contract.
        let target = unsafe { bytes_mut(target, length, "the target") }?;
        // SAFETY: a live handle, by the contract.
        Ok(unsafe { mapping_of(mapping) }?.read(offset, target)?)
    })
}

/// `tombolo_mapping_write`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_mapping_write(
    mapping: *const MappingHandle,
    offset: usize,
    source: *const u8,
    length: usize,
) -> Status {
    guard(|| {
        // SAFETY: `length` bytes of the caller, by the contract.
        let source = unsafe { bytes(source, length, "the source") }?;
        // SAFETY: a live handle, by the contract.
        Ok(unsafe { mapping_of(mapping) }?.write(offset, source)?)
    })
}

/// `tombolo_unmap`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_unmap(mapping: *mut MappingHandle) {
    guard(|| {
        // SAFETY: a handle that is released once, by the contract.
        drop(unsafe { from_handle(mapping) });
        Ok(())
    });
}
