//! The message buffer: allocation, put and get.

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use core::ffi::c_int;

use tombolo_onesided::{copy, get, put};

use super::{SUCCESS, bytes, bytes_mut, store};
use crate::failure::{Code, Failure};
use crate::world::{Place, World, call, with_engine};

/// Granularity of puts and gets in bytes: `RCCE_LINE_SIZE` of the original RCCE. In this header it is a cache
/// line.
const LINE_BYTES: usize = 32;

/// `RCCE_malloc`: collective.
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_malloc(size: usize) -> *mut u8 {
    call(
        "RCCE_malloc",
        |_| core::ptr::null_mut(),
        |world| {
            let offset = with_engine!(&mut world.engine, engine => engine.heap.allocate(size));
            let offset = offset.map_err(|error| Failure::new(Code::Malloc, error.to_string()))?;
            Ok(world.address(world.layout.buffer(world.rank) + offset))
        },
    )
}

/// `RCCE_malloc_request`: allocates as much of `size` as is free, and returns the length in `given`.
///
/// # Safety
/// `given` has room for a length, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_malloc_request(size: usize, given: *mut usize) -> *mut u8 {
    call(
        "RCCE_malloc_request",
        |_| core::ptr::null_mut(),
        |world| {
            let allocated = with_engine!(&mut world.engine, engine => engine.heap.allocate_up_to(size));
            let (offset, length) =
                allocated.map_err(|error| Failure::new(Code::Malloc, error.to_string()))?;
            // SAFETY: the caller passes a valid output pointer or null, by the contract.
            unsafe { store(given, length) }?;
            Ok(world.address(world.layout.buffer(world.rank) + offset))
        },
    )
}

/// `RCCE_free`: collective. The bytes are zero when they are allocated again.
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_free(address: *mut u8) {
    call(
        "RCCE_free",
        |_| (),
        |world| {
            let offset = world.buffer_offset(address.addr()).ok_or(Code::Target)?;
            free(world, offset).map_err(|text| Failure::new(Code::Target, text))
        },
    );
}

/// Frees and zeroes the allocation at an offset of this rank's buffer.
pub(super) fn free(world: &mut World, offset: usize) -> Result<(), String> {
    let start = world.layout.buffer(world.rank) + offset;
    with_engine!(&mut world.engine, engine => {
        let length = engine.heap.free(offset).map_err(|error| error.to_string())?;
        put(engine.memory(), start, &vec![0; length]).map_err(|error| error.to_string())
    })
}

/// Returns the offset in the message buffers of a range that a put or get identifies by an address in this
/// rank's buffer.
fn buffer_range(world: &World, address: usize, length: usize, code: Code) -> Result<usize, Failure> {
    let out_of_range = || {
        let text = format!("{}: {length} bytes at {address:#x}", Code::text(code as i32).unwrap_or_default());
        Failure::new(code, text)
    };
    let offset = world.buffer_offset(address).ok_or_else(out_of_range)?;
    if !offset.is_multiple_of(8) {
        return Err(Failure::new(Code::Alignment, format!("address {address:#x} is not a multiple of 8")));
    }
    if length > world.layout.buffer_bytes - offset {
        let room = world.layout.buffer_bytes - offset;
        let text = format!("{length} bytes are too long: the message buffer has {room} from there on");
        return Err(Failure::new(Code::MessageLength, text));
    }
    Ok(offset)
}

fn check_lines(number: c_int) -> Result<usize, Failure> {
    let length = super::length(number as isize)?;
    if !length.is_multiple_of(LINE_BYTES) {
        let text = format!("{length} bytes are not whole lines of {LINE_BYTES} bytes");
        return Err(Failure::new(Code::MessageLength, text));
    }
    Ok(length)
}

/// Refuses a put or get whose source and target overlap in shared memory.
fn refuse_overlap(place: Place, shared: usize, length: usize) -> Result<(), Failure> {
    match place {
        Place::Shared(other) if other < shared + length && shared < other + length && length > 0 => {
            Err(Code::DataOverlap.into())
        }
        _ => Ok(()),
    }
}

pub(super) fn out_of_range(error: tombolo_base::OutOfRange) -> Failure {
    Failure::new(Code::Alignment, error.to_string())
}

/// `RCCE_put`: copies into the message buffer of rank `ue`, to where `target` is in this rank's.
///
/// # Safety
/// `source` is valid for reads of `size` bytes, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_put(target: *mut u8, source: *const u8, size: c_int, ue: c_int) -> c_int {
    call(
        "RCCE_put",
        |code| code,
        |world| {
            let (rank, length) = (world.rank_of(ue)?, check_lines(size)?);
            let offset = buffer_range(world, target.addr(), length, Code::Target)?;
            let to = world.layout.buffer(rank) + offset;
            let from = world.locate(source.addr(), length)?;
            refuse_overlap(from, to, length)?;
            match from {
                Place::Private => {
                    // SAFETY: by the contract, and the range is not in memory that other ranks write.
                    let source = unsafe { bytes(source, length) }?;
                    with_engine!(&world.engine, engine => put(engine.memory(), to, source))
                        .map_err(out_of_range)?;
                }
                Place::Shared(from) => {
                    with_engine!(&world.engine, engine => copy(engine.memory(), from, to, length))
                        .map_err(out_of_range)?;
                }
            }
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_get`: copies out of the message buffer of rank `ue`, from where `source` is in this rank's.
///
/// # Safety
/// `target` is valid for writes of `size` bytes, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_get(target: *mut u8, source: *const u8, size: c_int, ue: c_int) -> c_int {
    call(
        "RCCE_get",
        |code| code,
        |world| {
            let (rank, length) = (world.rank_of(ue)?, check_lines(size)?);
            let offset = buffer_range(world, source.addr(), length, Code::Source)?;
            let from = world.layout.buffer(rank) + offset;
            let to = world.locate(target.addr(), length)?;
            refuse_overlap(to, from, length)?;
            match to {
                Place::Private => {
                    // SAFETY: by the contract, and the range is not in memory that other ranks write.
                    let target = unsafe { bytes_mut(target, length) }?;
                    with_engine!(&world.engine, engine => get(engine.memory(), from, target))
                        .map_err(out_of_range)?;
                }
                Place::Shared(to) => {
                    with_engine!(&world.engine, engine => copy(engine.memory(), from, to, length))
                        .map_err(out_of_range)?;
                }
            }
            Ok(SUCCESS)
        },
    )
}

/// `iRCCE_put`
///
/// # Safety
/// As [`RCCE_put`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_put(target: *mut u8, source: *const u8, size: c_int, ue: c_int) -> c_int {
    // SAFETY: the callee has the same contract.
    unsafe { RCCE_put(target, source, size, ue) }
}

/// `iRCCE_get`
///
/// # Safety
/// As [`RCCE_get`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_get(target: *mut u8, source: *const u8, size: c_int, ue: c_int) -> c_int {
    // SAFETY: the callee has the same contract.
    unsafe { RCCE_get(target, source, size, ue) }
}

/// `iRCCE_malloc`
#[unsafe(no_mangle)]
pub extern "C" fn iRCCE_malloc(size: usize) -> *mut u8 {
    RCCE_malloc(size)
}
