//! Flags that programs allocate.

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use core::ffi::{c_int, c_void};

use tombolo_onesided::{FLAG_WORDS, GRANULE_BYTES, ValueFlag};

use super::onesided::{free, out_of_range};
use super::{SUCCESS, bytes, bytes_mut, store};
use crate::failure::{Code, Failure};
use crate::world::{World, call, with_engine};

/// `RCCE_FLAG`: the address of the value in the flag's line of this rank's buffer.
type Flag = *mut c_int;

/// Offset of the value in a flag's line.
const VALUE_OFFSET_BYTES: usize = ValueFlag::<tombolo_base::Coherent>::VALUE_OFFSET_BYTES;

/// `RCCE_flag_alloc`: collective.
///
/// # Safety
/// `flag` has room for a flag, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_flag_alloc(flag: *mut Flag) -> c_int {
    call(
        "RCCE_flag_alloc",
        |code| code,
        |world| {
            if flag.is_null() {
                return Err(Code::FlagUndefined.into());
            }
            let offset = with_engine!(&mut world.engine, engine => engine.heap.allocate(GRANULE_BYTES));
            let offset = offset.map_err(|error| Failure::new(Code::Malloc, error.to_string()))?;
            let address = world.address(world.layout.buffer(world.rank) + offset + VALUE_OFFSET_BYTES);
            // SAFETY: the caller passes a valid output pointer or null, by the contract.
            unsafe { store(flag, address.cast()) }?;
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_flag_free`: collective.
///
/// # Safety
/// `flag` is a flag, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_flag_free(flag: *mut Flag) -> c_int {
    call(
        "RCCE_flag_free",
        |code| code,
        |world| {
            // SAFETY: the caller passes a valid flag or null, by the contract.
            let offset = flag_offset(world, unsafe { flag.as_ref() }.copied())?;
            free(world, offset).map_err(|text| Failure::new(Code::FlagNotAllocated, text))?;
            // SAFETY: as above.
            unsafe { store(flag, core::ptr::null_mut()) }?;
            Ok(SUCCESS)
        },
    )
}

/// Returns the offset of an allocated flag in the message buffers.
fn flag_offset(world: &World, flag: Option<Flag>) -> Result<usize, Failure> {
    let flag = flag.filter(|flag| !flag.is_null()).ok_or(Code::FlagUndefined)?;
    let start = flag.addr().wrapping_sub(VALUE_OFFSET_BYTES);
    let offset = world.buffer_offset(start).ok_or(Code::FlagNotInBuffer)?;
    let allocated = with_engine!(&world.engine, engine => engine.heap.allocated(offset));
    allocated.map(|_| offset).ok_or_else(|| Code::FlagNotAllocated.into())
}

fn write_flag(world: &World, flag: Option<Flag>, value: c_int, ue: c_int, tag: &[u8]) -> Result<(), Failure> {
    let (rank, offset) = (world.rank_of(ue)?, flag_offset(world, flag)?);
    let value = u64::from(value.cast_unsigned());
    with_engine!(&world.engine, engine => {
        engine.flag(offset, rank).map_err(out_of_range)?.write(value, tag);
    });
    Ok(())
}

fn read_flag(world: &World, flag: Option<Flag>, rank: usize, tag: &mut [u8]) -> Result<c_int, Failure> {
    let offset = flag_offset(world, flag)?;
    let value = with_engine!(&world.engine, engine => {
        let flag = engine.flag(offset, rank).map_err(out_of_range)?;
        let value = flag.read();
        flag.tag(tag);
        value
    });
    Ok((value as u32).cast_signed())
}

/// Waits until a flag of this rank has a value.
fn wait_flag(world: &mut World, flag: Option<Flag>, value: c_int, tag: &mut [u8]) -> Result<(), Failure> {
    let offset = flag_offset(world, flag)?;
    let rank = world.rank;
    let mut backoff = world.liveness.start_wait();
    with_engine!(&mut world.engine, engine => {
        let flag = engine.flag(offset, rank).map_err(out_of_range)?;
        while (flag.read() as u32).cast_signed() != value {
            engine.push();
            backoff.idle()?;
        }
        flag.tag(tag);
    });
    Ok(())
}

/// Validates a flag status. RCCE's flags are set or unset; those of iRCCE hold any value.
fn status(value: c_int) -> Result<c_int, Failure> {
    if value == 0 || value == 1 { Ok(value) } else { Err(Code::FlagStatus.into()) }
}

/// `RCCE_flag_write`: of rank `ue`.
///
/// # Safety
/// `flag` is a flag, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_flag_write(flag: *mut Flag, value: c_int, ue: c_int) -> c_int {
    call(
        "RCCE_flag_write",
        |code| code,
        |world| {
            // SAFETY: the caller passes a valid flag or null, by the contract.
            write_flag(world, unsafe { flag.as_ref() }.copied(), status(value)?, ue, &[])?;
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_flag_read`: of rank `ue`.
///
/// # Safety
/// `value` has room for a status, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_flag_read(flag: Flag, value: *mut c_int, ue: c_int) -> c_int {
    call(
        "RCCE_flag_read",
        |code| code,
        |world| {
            let rank = world.rank_of(ue)?;
            // SAFETY: the caller passes a valid output pointer or null, by the contract.
            unsafe { store(value, read_flag(world, Some(flag), rank, &mut [])?) }?;
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_wait_until`: waits until a flag of this rank has the value.
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_wait_until(flag: Flag, value: c_int) -> c_int {
    call(
        "RCCE_wait_until",
        |code| code,
        |world| {
            wait_flag(world, Some(flag), status(value)?, &mut [])?;
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_test_flag`: whether a flag of this rank has the value.
///
/// # Safety
/// `result` has room for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_test_flag(flag: Flag, value: c_int, result: *mut c_int) -> c_int {
    call(
        "RCCE_test_flag",
        |code| code,
        |world| {
            let has = read_flag(world, Some(flag), world.rank, &mut [])? == status(value)?;
            // SAFETY: the caller passes a valid output pointer or null, by the contract.
            unsafe { store(result, c_int::from(has)) }?;
            Ok(SUCCESS)
        },
    )
}

/// `iRCCE_get_max_tagged_len`: the longest tag of a flag, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn iRCCE_get_max_tagged_len() -> c_int {
    (FLAG_WORDS * 8) as c_int
}

fn tag_length(length: c_int) -> Result<usize, Failure> {
    let length = super::length(length as isize)?;
    if length > FLAG_WORDS * 8 {
        let text = format!("a tag of {length} bytes is too long: a flag carries {}", FLAG_WORDS * 8);
        return Err(Failure::new(Code::MessageLength, text));
    }
    Ok(length)
}

/// `iRCCE_flag_write_tagged`: any value but 0 sets the flag; the tag travels with it.
///
/// # Safety
/// `flag` is a flag, or null; `tag` is valid for reads of `length` bytes, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_flag_write_tagged(
    flag: *mut Flag,
    value: c_int,
    ue: c_int,
    tag: *const c_void,
    length: c_int,
) -> c_int {
    call(
        "iRCCE_flag_write_tagged",
        |code| code,
        |world| {
            // SAFETY: the caller's tag, by the contract.
            let tag = unsafe { bytes(tag.cast(), tag_length(length)?) }?;
            // SAFETY: the caller passes a valid flag or null, by the contract.
            write_flag(world, unsafe { flag.as_ref() }.copied(), value, ue, tag)?;
            Ok(SUCCESS)
        },
    )
}

/// `iRCCE_flag_read_tagged`
///
/// # Safety
/// `value` has room for a status, `tag` for `length` bytes, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_flag_read_tagged(
    flag: Flag,
    value: *mut c_int,
    ue: c_int,
    tag: *mut c_void,
    length: c_int,
) -> c_int {
    call(
        "iRCCE_flag_read_tagged",
        |code| code,
        |world| {
            let rank = world.rank_of(ue)?;
            // SAFETY: the caller passes a valid output pointer or null, by the contract.
            let tag = unsafe { bytes_mut(tag.cast(), tag_length(length)?) }?;
            // SAFETY: as above.
            unsafe { store(value, read_flag(world, Some(flag), rank, tag)?) }?;
            Ok(SUCCESS)
        },
    )
}

/// `iRCCE_wait_tagged`
///
/// # Safety
/// `tag` has room for `length` bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_wait_tagged(
    flag: Flag,
    value: c_int,
    tag: *mut c_void,
    length: c_int,
) -> c_int {
    call(
        "iRCCE_wait_tagged",
        |code| code,
        |world| {
            // SAFETY: the caller passes a valid output pointer or null, by the contract.
            let tag = unsafe { bytes_mut(tag.cast(), tag_length(length)?) }?;
            wait_flag(world, Some(flag), value, tag)?;
            Ok(SUCCESS)
        },
    )
}

/// `iRCCE_test_tagged`
///
/// # Safety
/// `result` has room for a number, `tag` for `length` bytes, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_test_tagged(
    flag: Flag,
    value: c_int,
    result: *mut c_int,
    tag: *mut c_void,
    length: c_int,
) -> c_int {
    call(
        "iRCCE_test_tagged",
        |code| code,
        |world| {
            // SAFETY: the caller passes a valid output pointer or null, by the contract.
            let tag = unsafe { bytes_mut(tag.cast(), tag_length(length)?) }?;
            let has = read_flag(world, Some(flag), world.rank, tag)? == value;
            // SAFETY: as above.
            unsafe { store(result, c_int::from(has)) }?;
            Ok(SUCCESS)
        },
    )
}
