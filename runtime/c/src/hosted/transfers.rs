//! Buffers as parameters of interfaces.

use std::time::Duration;

use tombolo::bulk::{BulkError, Transfers};
use tombolo::interface::Handle;
use tombolo::{Error, NotSent};

use crate::boundary::{check_not_null, deref, from_handle, guard, into_handle, write_result};
use crate::bulk::{Options, list, options, restore_buffers, take_buffers};
use crate::channel::{ChannelHandle, with};
use crate::domain::DomainHandle;
use crate::passing::Right;
use crate::pool::{BufferHandle, BufferRight, PoolHandle, pool_of, with_right};
use crate::status::{Failure, Status};

/// `tombolo_transfers`.
#[derive(Debug)]
pub struct TransfersHandle {
    transfers: Transfers,
}

/// Kind of a buffer, and the flag of one that is moved.
const BUFFER: u64 = 4;
const MOVED: u64 = 0x100;

/// Converts an error: a buffer that does not exist is the peer's fault, other errors are not.
fn refused(error: Error) -> Failure {
    match error {
        Error::Bulk(BulkError::NoTransfer { .. } | BulkError::OtherVerb) => {
            Failure::new(Status::RightRefused, error.to_string())
        }
        error => error.into(),
    }
}

/// `tombolo_open_bulk`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_open_bulk(
    domain: *const DomainHandle,
    channel: *mut ChannelHandle,
    how: *const Options,
    pools: *const *const PoolHandle,
    count: usize,
    timeout_ns: u64,
    result: *mut *mut TransfersHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the transfers")?;
        // SAFETY: a live handle and options, by the contract.
        let (domain, how) = unsafe { (deref(domain, "the domain")?, options(how)?) };
        let handles: &[*const PoolHandle] = match count {
            0 => &[],
            1..=32 if !pools.is_null() => {
                // SAFETY: not null, and `count` pointers, by the contract.
                unsafe { std::slice::from_raw_parts(pools, count) }
            }
            _ => return Err(Failure::invalid("a channel has up to 32 pools")),
        };
        let mut pools = Vec::with_capacity(count);
        for handle in handles {
            // SAFETY: live handles, by the contract.
            pools.push(unsafe { pool_of(*handle) }?.clone());
        }
        let timeout = Duration::from_nanos(timeout_ns);
        // SAFETY: a live handle, by the contract.
        let transfers = unsafe {
            with(channel, |end| Ok(end.channel()?.within(timeout).open_bulk(&domain.domain, &how, &pools)?))
        }?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe {
            write_result(result, into_handle(TransfersHandle { transfers }), "where to put the transfers")
        }
    })
}

/// `tombolo_transfers_drop`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_transfers_drop(transfers: *mut TransfersHandle) {
    guard(|| {
        // SAFETY: a handle that is released once, by the contract.
        drop(unsafe { from_handle(transfers) });
        Ok(())
    });
}

/// `tombolo_move_buffers`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_move_buffers(
    transfers: *const TransfersHandle,
    buffers: *const *mut BufferHandle,
    count: usize,
    timeout_ns: u64,
    rights: *mut Right,
) -> Status {
    guard(|| {
        check_not_null(rights, "where to put the rights")?;
        // SAFETY: a live handle, and `count` pointers, by the contract.
        let (transfers, handles) = unsafe { (deref(transfers, "the transfers")?, list(buffers, count)?) };
        // SAFETY: live handles, by the contract.
        let all = unsafe { take_buffers(handles) }?;
        let moved = transfers.transfers.within(Duration::from_nanos(timeout_ns)).move_all(all);
        let moved = moved.map_err(|not_sent| {
            let NotSent { error, kept } = *not_sent;
            // SAFETY: live handles, by the contract.
            unsafe { restore_buffers(handles, kept.into_iter().map(BufferRight::Owned)) };
            error
        })?;
        for (index, (handle, moved)) in handles.iter().zip(moved).enumerate() {
            // SAFETY: live handles, which are released here, and room for one right per buffer, by the
            // contract.
            unsafe {
                drop(from_handle(*handle));
                write_result(
                    rights.add(index),
                    Right { object: moved.object, mark: BUFFER | MOVED },
                    "a right",
                )?;
            }
        }
        Ok(())
    })
}

/// `tombolo_lend_buffer`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_lend_buffer(
    transfers: *const TransfersHandle,
    buffer: *mut BufferHandle,
    timeout_ns: u64,
    right: *mut Right,
) -> Status {
    guard(|| {
        check_not_null(right, "where to put the right")?;
        // SAFETY: a live handle, by the contract.
        let transfers = &unsafe { deref(transfers, "the transfers") }?.transfers;
        let lend = |hand: &mut BufferRight| match std::mem::replace(hand, BufferRight::Gone) {
            BufferRight::Owned(buffer) => {
                match transfers.within(Duration::from_nanos(timeout_ns)).share(buffer) {
                    Ok((lent, shared)) => {
                        *hand = BufferRight::Lent(shared);
                        Ok(lent.object)
                    }
                    Err(not_sent) => {
                        let NotSent { error, kept } = *not_sent;
                        *hand = BufferRight::Owned(kept);
                        Err(error.into())
                    }
                }
            }
            other => {
                *hand = other;
                Err(Failure::new(Status::BufferState, "the buffer is shared, or not here any more"))
            }
        };
        // SAFETY: a live handle, by the contract.
        let object = unsafe { with_right(buffer, lend) }?;
        // SAFETY: valid for a write of a right, by the contract.
        unsafe { write_result(right, Right { object, mark: BUFFER }, "where to put the right") }
    })
}

/// `tombolo_claim`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_claim(
    transfers: *const TransfersHandle,
    right: Right,
    timeout_ns: u64,
    result: *mut *mut BufferHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the buffer")?;
        // SAFETY: a live handle, by the contract.
        let transfers = &unsafe { deref(transfers, "the transfers") }?.transfers;
        let (object, timeout) = (right.object, Duration::from_nanos(timeout_ns));
        let claimed = match right.mark {
            BUFFER => transfers.within(timeout).claim(Handle::<4, false> { object }).map(BufferRight::Lent),
            mark if mark == BUFFER | MOVED => {
                transfers.within(timeout).claim(Handle::<4, true> { object }).map(BufferRight::Owned)
            }
            _ => return Err(Failure::invalid("it is no buffer")),
        };
        let buffer = BufferHandle::into_handle(claimed.map_err(refused)?);
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, buffer, "where to put the buffer") }
    })
}

/// `tombolo_transfers_settle`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_transfers_settle(transfers: *const TransfersHandle) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract.
        Ok(unsafe { deref(transfers, "the transfers") }?.transfers.settle()?)
    })
}
