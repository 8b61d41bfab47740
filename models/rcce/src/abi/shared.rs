//! Directly accessed shared memory, fences and locks.

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, prelude::*};

use core::ffi::c_int;
use core::time::Duration;

use tombolo::names::NameFault;

use super::{SUCCESS, store};
use crate::failure::{Code, Failure};
use crate::job::fatal_error;
use crate::world::{AnyEngine, Place, World, call, with_engine};

/// `RCCE_shmalloc`: collective; allocates memory that all ranks access directly.
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_shmalloc(size: usize) -> *mut u8 {
    call(
        "RCCE_shmalloc",
        |_| core::ptr::null_mut(),
        |world| {
            let offset = with_engine!(&mut world.engine, engine => engine.shared_heap.allocate(size));
            let offset = offset.map_err(|error| {
                let text = format!("{error}; set {} to have more", crate::job::SHARED_VARIABLE);
                Failure::new(Code::Malloc, text)
            })?;
            Ok(world.address(world.layout.shared() + offset))
        },
    )
}

/// `RCCE_shfree`: collective.
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_shfree(address: *mut u8) {
    call(
        "RCCE_shfree",
        |_| (),
        |world| {
            let Place::Shared(offset) = world.locate(address.addr(), 1)? else {
                return Err(Code::Target.into());
            };
            let offset = offset.checked_sub(world.layout.shared()).ok_or(Code::Target)?;
            let freed = with_engine!(&mut world.engine, engine => engine.shared_heap.free(offset));
            freed.map(drop).map_err(|error| Failure::new(Code::Target, error.to_string()))
        },
    );
}

/// `RCCE_shflush`: makes this rank's stores to shared memory visible to the others, and their flushed stores
/// visible to this rank.
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_shflush() {
    call(
        "RCCE_shflush",
        |_| (),
        |world| {
            core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
            if let AnyEngine::Flushed(engine) = &world.engine {
                let words = world.layout.shared() / 8..world.layout.total_bytes() / 8;
                engine.memory().invalidate(words);
            }
            Ok(())
        },
    );
}

/// `RCCE_fence`: of this processor.
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_fence() {
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}

/// How long a rank waits for a lock before it checks whether the others are alive.
const LOCK_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Takes the lock of a rank; returns whether it was free in time.
fn lock(world: &mut World, ue: c_int, timeout: Duration) -> Result<bool, Failure> {
    let rank = world.rank_of(ue)?;
    if world.locks.contains_key(&rank) {
        return Err(Failure::new(Code::Error, format!("this rank has the lock of rank {rank} already")));
    }
    let name = format!("{}/rcce-lock-{rank}", world.job);
    let lock = world.domain.names().lock(&name).map_err(fatal_error)?;
    match lock.acquire(timeout) {
        Ok(guard) => {
            world.locks.insert(rank, guard);
            Ok(true)
        }
        Err(error) if matches!(error.name_fault(), Some(NameFault::Locked { .. })) => Ok(false),
        Err(error) => Err(fatal_error(error)),
    }
}

/// `RCCE_acquire_lock`: acquires the lock of rank `ue`. It is released if this rank ends.
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_acquire_lock(ue: c_int) -> c_int {
    call(
        "RCCE_acquire_lock",
        |code| code,
        |world| {
            while !lock(world, ue, LOCK_CHECK_INTERVAL)? {
                world.liveness.check()?;
                with_engine!(&mut world.engine, engine => engine.push());
            }
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_try_lock`: 1 in `result` if it was free.
///
/// # Safety
/// `result` has room for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_try_lock(ue: c_int, result: *mut c_int) -> c_int {
    call(
        "RCCE_try_lock",
        |code| code,
        |world| {
            let taken = lock(world, ue, Duration::ZERO)?;
            // SAFETY: the caller passes a valid output pointer or null, by the contract.
            unsafe { store(result, c_int::from(taken)) }?;
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_release_lock`
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_release_lock(ue: c_int) -> c_int {
    call(
        "RCCE_release_lock",
        |code| code,
        |world| {
            let rank = world.rank_of(ue)?;
            let held = world.locks.remove(&rank);
            let held = held.ok_or_else(|| {
                Failure::new(Code::Error, format!("this rank does not have the lock of rank {rank}"))
            })?;
            held.release().map_err(fatal_error)?;
            Ok(SUCCESS)
        },
    )
}
