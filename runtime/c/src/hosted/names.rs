//! Queries of names, and setting of records.

use std::ffi::c_char;
use std::time::Duration;

use tombolo::names::{NewRecord, Record};

use crate::boundary::{bytes_mut, check_not_null, deref, guard, text, write_result};
use crate::domain::DomainHandle;
use crate::status::{Failure, Status};

/// Writes a record in its text form, with a terminating zero byte, to the caller's buffer.
///
/// # Safety
/// `buffer` points to `capacity` bytes of the caller; `length` is null or valid for a write of a number.
unsafe fn write_record(
    record: &Record,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> Result<(), Failure> {
    let text = record.to_string();
    // SAFETY: this function's safety condition.
    let target = unsafe { bytes_mut(buffer, capacity, "the buffer") }?;
    if !length.is_null() {
        // SAFETY: this function's safety condition.
        unsafe { write_result(length, text.len(), "where to put the length") }?;
    }
    let (Some(place), Some(end)) = (target.get_mut(..text.len()), text.len().checked_add(1)) else {
        return Err(too_short(&text, capacity));
    };
    place.copy_from_slice(text.as_bytes());
    match target.get_mut(end - 1) {
        Some(last) => *last = 0,
        None => return Err(too_short(&text, capacity)),
    }
    Ok(())
}

fn too_short(text: &str, capacity: usize) -> Failure {
    let needed = text.len() + 1;
    Failure::new(Status::BufferTooShort, format!("a record of {needed} bytes does not fit {capacity}"))
}

/// `tombolo_look_up`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_look_up(
    domain: *const DomainHandle,
    query: *const c_char,
    timeout_ns: u64,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: a live handle and a C string, by the contract.
        let (domain, query) = unsafe { (deref(domain, "the domain")?, text(query, "the query")?) };
        let names = domain.domain.names();
        let record = match timeout_ns {
            0 => names.get(query)?,
            _ => names.wait_for(query, Duration::from_nanos(timeout_ns))?,
        };
        // SAFETY: valid for writes, by the contract.
        unsafe { write_record(&record, buffer, capacity, length) }
    })
}

/// `tombolo_set_record`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_set_record(
    domain: *const DomainHandle,
    record: *const c_char,
    version: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: a live handle and a C string, by the contract.
        let (domain, record) = unsafe { (deref(domain, "the domain")?, text(record, "the record")?) };
        let record: NewRecord = record.parse()?;
        let changed = domain.domain.names().set(&record)?;
        match check_not_null(version, "where to put the version") {
            // SAFETY: valid for a write of a number, by the contract.
            Ok(()) => unsafe { write_result(version, changed.version, "where to put the version") },
            Err(_) => Ok(()),
        }
    })
}

/// `tombolo_delete_record`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_delete_record(domain: *const DomainHandle, name: *const c_char) -> Status {
    guard(|| {
        // SAFETY: a live handle and a C string, by the contract.
        let (domain, name) = unsafe { (deref(domain, "the domain")?, text(name, "the name")?) };
        domain.domain.names().delete(name)?;
        Ok(())
    })
}
