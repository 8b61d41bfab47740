//! Job that a program was started in.

use core::ffi::c_char;
use core::time::Duration;

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use crate::boundary::{bytes_mut, check_not_null, deref, guard, text, write_result};
#[cfg(not(target_os = "none"))]
use crate::bulk::BulkHandle;
use crate::channel::ChannelHandle;
use crate::domain::DomainHandle;
use crate::status::{Failure, Status};

/// `tombolo_job`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Job {
    rank: u32,
    size: u32,
}

/// `tombolo_get_job`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_get_job(domain: *const DomainHandle, result: *mut Job) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract; it never changes.
        let job = unsafe { deref(domain, "the domain") }?.domain.job()?;
        // SAFETY: valid for a write of a job, by the contract.
        unsafe { write_result(result, Job { rank: job.rank(), size: job.size() }, "where to put the job") }
    })
}

/// `tombolo_job_name`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_job_name(
    domain: *const DomainHandle,
    name: *const c_char,
    buffer: *mut c_char,
    capacity: usize,
) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract; it never changes.
        let job = unsafe { deref(domain, "the domain") }?.domain.job()?;
        // SAFETY: a C string, by the contract.
        let name = job.name(unsafe { text(name, "the name") }?);
        // SAFETY: the caller's buffer with this capacity, by the contract.
        let room = unsafe { bytes_mut(buffer.cast::<u8>(), capacity, "the buffer") }?;
        let needed = name.len() + 1;
        let Some(room) = room.get_mut(..needed) else {
            let text = format!("a name of {needed} bytes does not fit {capacity}");
            return Err(Failure::new(Status::BufferTooShort, text));
        };
        room[..name.len()].copy_from_slice(name.as_bytes());
        room[name.len()] = 0;
        Ok(())
    })
}

/// `tombolo_job_channel`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_job_channel(
    domain: *const DomainHandle,
    rank: u32,
    timeout_ns: u64,
    result: *mut *mut ChannelHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the channel")?;
        // SAFETY: a live handle, by the contract; it never changes.
        let job = unsafe { deref(domain, "the domain") }?.domain.job()?;
        let channel = job.within(Duration::from_nanos(timeout_ns)).channel_to(rank)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, ChannelHandle::into_handle(channel), "where to put the channel") }
    })
}

/// `tombolo_job_bulk`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[cfg(not(target_os = "none"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_job_bulk(
    domain: *const DomainHandle,
    rank: u32,
    timeout_ns: u64,
    result: *mut *mut BulkHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the bulk channel")?;
        // SAFETY: a live handle, by the contract; it never changes.
        let job = unsafe { deref(domain, "the domain") }?.domain.job()?;
        let channel = job.within(Duration::from_nanos(timeout_ns)).bulk_channel_to(rank)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, BulkHandle::into_handle(channel), "where to put the bulk channel") }
    })
}
