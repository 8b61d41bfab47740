//! Pools and their buffers.

use std::ffi::{c_char, c_void};

use tombolo::{Buffer, Pool, PoolOptions, Shared, Trust};

use crate::boundary::{
    Exclusive, bytes, bytes_mut, check_not_null, deref, from_handle, guard, guard_value, into_handle, text,
    write_result,
};
use crate::domain::DomainHandle;
use crate::region::CapabilityHandle;
use crate::status::{Failure, Status};

/// `tombolo_pool`.
#[derive(Debug)]
pub struct PoolHandle {
    pub(crate) pool: Pool,
}

/// `tombolo_buffer`.
#[derive(Debug)]
pub struct BufferHandle {
    pub(crate) hand: Exclusive<BufferRight>,
}

/// Right of a program to a buffer.
#[derive(Debug)]
pub(crate) enum BufferRight {
    /// Right to read and write.
    Owned(Buffer),
    /// Right to read only.
    Lent(Shared),
    /// None, because the buffer was given away.
    Gone,
}

impl BufferHandle {
    pub(crate) fn into_handle(hand: BufferRight) -> *mut BufferHandle {
        into_handle(BufferHandle { hand: Exclusive::new(hand) })
    }
}

/// `tombolo_pool_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Options {
    buffer_bytes: u64,
    count: u32,
    trust: u32,
    reachable_from: *const c_char,
}

/// `tombolo_pool_counts`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PoolCounts {
    free: u32,
    held: u32,
    lent: u32,
    borrowed: u32,
    away: u32,
    revoked: u32,
}

/// `TOMBOLO_TRUST_FULL`, `TOMBOLO_TRUST_NONE` and `TOMBOLO_TRUST_HALF`.
pub(crate) fn trust_of(trust: u32) -> Result<Trust, Failure> {
    match trust {
        0 => Ok(Trust::Full),
        1 => Ok(Trust::None),
        2 => Ok(Trust::Half),
        other => Err(Failure::invalid(format!("there is no trust {other}"))),
    }
}

/// `tombolo_create_pool`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_create_pool(
    domain: *const DomainHandle,
    options: *const Options,
    result: *mut *mut PoolHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the pool")?;
        // SAFETY: a live handle and options, by the contract.
        let (domain, making) = unsafe { (deref(domain, "the domain")?, deref(options, "what to make")?) };
        let mut options = PoolOptions::new(making.buffer_bytes, making.count).trust(trust_of(making.trust)?);
        if !making.reachable_from.is_null() {
            // SAFETY: a C string, by the contract.
            options = options.reachable_from(unsafe { text(making.reachable_from, "the node") }?);
        }
        let pool = domain.domain.create_pool(&options)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, into_handle(PoolHandle { pool }), "where to put the pool") }
    })
}

/// `tombolo_create_pool_in`: see `tombolo/capabilities.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_create_pool_in(
    domain: *const DomainHandle,
    memory: *const CapabilityHandle,
    options: *const Options,
    result: *mut *mut PoolHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the pool")?;
        // SAFETY: live handles and options, by the contract.
        let (domain, memory, making) = unsafe {
            (deref(domain, "the domain")?, deref(memory, "the memory")?, deref(options, "what to make")?)
        };
        if !making.reachable_from.is_null() {
            return Err(Failure::invalid("the memory of the pool is given, and with that who reaches it"));
        }
        let options = PoolOptions::new(making.buffer_bytes, making.count).trust(trust_of(making.trust)?);
        let pool = domain.domain.create_pool_in(&memory.capability, &options)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, into_handle(PoolHandle { pool }), "where to put the pool") }
    })
}

/// Returns the pool of a handle.
///
/// # Safety
/// The pointer is null, or a live handle.
pub(crate) unsafe fn pool_of<'a>(pointer: *const PoolHandle) -> Result<&'a Pool, Failure> {
    // SAFETY: this function's safety condition; the object is `Sync`.
    Ok(&unsafe { deref(pointer, "the pool") }?.pool)
}

/// `tombolo_pool_drop`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_pool_drop(pool: *mut PoolHandle) {
    guard(|| {
        // SAFETY: a handle that is released once, by the contract.
        drop(unsafe { from_handle(pool) });
        Ok(())
    });
}

/// `tombolo_pool_buffer_bytes`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_pool_buffer_bytes(pool: *const PoolHandle) -> u64 {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || Ok(unsafe { pool_of(pool) }?.buffer_bytes()))
}

/// `tombolo_pool_count`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_pool_count(pool: *const PoolHandle) -> u32 {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || Ok(unsafe { pool_of(pool) }?.count()))
}

/// `tombolo_pool_same`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_pool_same(one: *const PoolHandle, other: *const PoolHandle) -> bool {
    // SAFETY: live handles, by the contract.
    guard_value(false, || Ok(unsafe { pool_of(one)? == pool_of(other)? }))
}

/// `tombolo_pool_count_buffers`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_pool_count_buffers(
    pool: *const PoolHandle,
    result: *mut PoolCounts,
) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract.
        let pool = unsafe { pool_of(pool) }?;
        let counts = pool.counts();
        let numbers = PoolCounts {
            free: counts.free,
            held: counts.held,
            lent: counts.lent,
            borrowed: counts.borrowed,
            away: counts.away,
            revoked: pool.is_revoked().into(),
        };
        // SAFETY: valid for writes, by the contract.
        unsafe { write_result(result, numbers, "where to put the numbers") }
    })
}

/// `tombolo_pool_take`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_pool_take(
    pool: *const PoolHandle,
    result: *mut *mut BufferHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the buffer")?;
        // SAFETY: a live handle, by the contract.
        let buffer = unsafe { pool_of(pool) }?.take()?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe {
            write_result(
                result,
                BufferHandle::into_handle(BufferRight::Owned(buffer)),
                "where to put the buffer",
            )
        }
    })
}

fn buffer_gone() -> Failure {
    Failure::new(Status::BufferState, "the buffer is not here any more")
}

/// Reads from a buffer with either right.
macro_rules! of_either {
    ($hand:expr, $name:ident => $value:expr) => {
        match $hand {
            BufferRight::Owned($name) => Ok($value),
            BufferRight::Lent($name) => Ok($value),
            BufferRight::Gone => Err(buffer_gone()),
        }
    };
}

fn owned(hand: &mut BufferRight) -> Result<&mut Buffer, Failure> {
    match hand {
        BufferRight::Owned(buffer) => Ok(buffer),
        BufferRight::Lent(_) => {
            Err(Failure::new(Status::BufferState, "the buffer is shared: it is only to be read"))
        }
        BufferRight::Gone => Err(buffer_gone()),
    }
}

/// Runs `body` with the right to a buffer.
///
/// # Safety
/// The pointer is null, or a live handle.
pub(crate) unsafe fn with_right<R>(
    buffer: *const BufferHandle,
    body: impl FnOnce(&mut BufferRight) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // SAFETY: this function's safety condition; the mutable state of a handle is inside `Exclusive`.
    unsafe { deref(buffer, "the buffer") }?.hand.with(body)
}

/// `tombolo_buffer_drop`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_buffer_drop(buffer: *mut BufferHandle) {
    guard(|| {
        // SAFETY: a handle that is released once, by the contract.
        drop(unsafe { from_handle(buffer) });
        Ok(())
    });
}

/// `tombolo_buffer_data`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_buffer_data(buffer: *const BufferHandle) -> *const c_void {
    let address = |hand: &mut BufferRight| Ok(of_either!(hand, held => held.as_ptr()?)?.cast());
    // SAFETY: a live handle, by the contract.
    guard_value(std::ptr::null(), || unsafe { with_right(buffer, address) })
}

/// `tombolo_buffer_memory`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_buffer_memory(buffer: *mut BufferHandle) -> *mut c_void {
    let address = |hand: &mut BufferRight| Ok(owned(hand)?.as_mut_ptr()?.cast());
    // SAFETY: a live handle, by the contract.
    guard_value(std::ptr::null_mut(), || unsafe { with_right(buffer, address) })
}

/// `tombolo_buffer_length`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_buffer_length(buffer: *const BufferHandle) -> u64 {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || unsafe { with_right(buffer, |hand| of_either!(hand, held => held.len_bytes())) })
}

/// `tombolo_buffer_number`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_buffer_number(buffer: *const BufferHandle) -> u32 {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || unsafe { with_right(buffer, |hand| of_either!(hand, held => held.number())) })
}

/// `tombolo_buffer_is_shared`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_buffer_is_shared(buffer: *const BufferHandle) -> bool {
    // SAFETY: a live handle, by the contract.
    guard_value(false, || unsafe { with_right(buffer, |hand| Ok(matches!(hand, BufferRight::Lent(_)))) })
}

/// `tombolo_buffer_shares`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_buffer_shares(buffer: *const BufferHandle) -> u32 {
    let shares = |hand: &mut BufferRight| match hand {
        BufferRight::Lent(shared) => Ok(shared.shares()),
        _ => Ok(0),
    };
    // SAFETY: a live handle, by the contract.
    guard_value(0, || unsafe { with_right(buffer, shares) })
}

/// `tombolo_buffer_read`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_buffer_read(
    buffer: *const BufferHandle,
    offset: u64,
    target: *mut u8,
    length: usize,
) -> Status {
    guard(|| {
        // SAFETY: `length` bytes of the caller, by the contract.
        let target = unsafe { bytes_mut(target, length, "the target") }?;
        // SAFETY: a live handle, by the contract.
        unsafe { with_right(buffer, |hand| of_either!(hand, held => held.read(offset, target)?)) }
    })
}

/// `tombolo_buffer_write`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_buffer_write(
    buffer: *mut BufferHandle,
    offset: u64,
    source: *const u8,
    length: usize,
) -> Status {
    guard(|| {
        // SAFETY: `length` bytes of the caller, by the contract.
        let source = unsafe { bytes(source, length, "the source") }?;
        // SAFETY: a live handle, by the contract.
        unsafe { with_right(buffer, |hand| Ok(owned(hand)?.write(offset, source)?)) }
    })
}

/// `tombolo_buffer_set_part`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_buffer_set_part(
    buffer: *mut BufferHandle,
    offset: u64,
    length: u64,
) -> Status {
    // SAFETY: a live handle, by the contract.
    guard(|| unsafe { with_right(buffer, |hand| Ok(owned(hand)?.set_part(offset, length)?)) })
}

/// `tombolo_buffer_reclaim`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_buffer_reclaim(buffer: *mut BufferHandle) -> Status {
    let reclaim = |hand: &mut BufferRight| match std::mem::replace(hand, BufferRight::Gone) {
        BufferRight::Lent(shared) => match shared.reclaim() {
            Ok(buffer) => {
                *hand = BufferRight::Owned(buffer);
                Ok(())
            }
            Err(not_sent) => {
                *hand = BufferRight::Lent(not_sent.kept);
                Err(not_sent.error.into())
            }
        },
        other => {
            *hand = other;
            Err(Failure::new(Status::BufferState, "the buffer is not shared"))
        }
    };
    // SAFETY: a live handle, by the contract.
    guard(|| unsafe { with_right(buffer, reclaim) })
}
