//! Allocation, put and get, flags, shared memory and locks.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use tombolo_onesided::{FLAG_WORDS, GRANULE_BYTES, ValueFlag, copy, get, put};

use super::{SUCCESS, bytes, bytes_mut, store};
use crate::failure::{Code, Failure};
use crate::world::{AnyEngine, Place, World, call, with_engine};

/// Puts and gets move multiples of this, `RCCE_LINE_SIZE` of RCCE itself; that of the header is a cache line.
const LINE_BYTES: usize = 32;

/// `RCCE_FLAG`: the address of the value in the flag's line of this rank's buffer.
type Flag = *mut c_int;

/// Where the value is in a flag's line.
const VALUE_OFFSET_BYTES: usize = ValueFlag::<tombolo_base::Coherent>::VALUE_OFFSET_BYTES;

/// `RCCE_malloc`: collective.
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_malloc(size: usize) -> *mut u8 {
    call(
        "RCCE_malloc",
        |_| std::ptr::null_mut(),
        |world| {
            let offset = with_engine!(&mut world.engine, engine => engine.heap.allocate(size));
            let offset = offset.map_err(|error| Failure::new(Code::Malloc, error.to_string()))?;
            Ok(world.address(world.layout.buffer(world.rank) + offset))
        },
    )
}

/// `RCCE_malloc_request`: as much of `size` as there is; `given` is how much.
///
/// # Safety
/// `given` has room for a length, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_malloc_request(size: usize, given: *mut usize) -> *mut u8 {
    call(
        "RCCE_malloc_request",
        |_| std::ptr::null_mut(),
        |world| {
            let allocated = with_engine!(&mut world.engine, engine => engine.heap.allocate_up_to(size));
            let (offset, length) =
                allocated.map_err(|error| Failure::new(Code::Malloc, error.to_string()))?;
            // SAFETY: the caller's room, by the contract.
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

/// Frees and zeroes what starts at an offset of this rank's buffer.
fn free(world: &mut World, offset: usize) -> Result<(), String> {
    let start = world.layout.buffer(world.rank) + offset;
    with_engine!(&mut world.engine, engine => {
        let length = engine.heap.free(offset).map_err(|error| error.to_string())?;
        put(engine.memory(), start, &vec![0; length]).map_err(|error| error.to_string())
    })
}

/// The offset in the buffers of a range that a put or get names by an address of this rank's.
fn range(world: &World, address: usize, length: usize, code: Code) -> Result<usize, Failure> {
    let outside = || {
        let text = format!("{}: {length} bytes at {address:#x}", Code::text(code as i32).unwrap_or_default());
        Failure::new(code, text)
    };
    let offset = world.buffer_offset(address).ok_or_else(outside)?;
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

fn lines(number: c_int) -> Result<usize, Failure> {
    let length = super::length(number as isize)?;
    if !length.is_multiple_of(LINE_BYTES) {
        let text = format!("{length} bytes are not whole lines of {LINE_BYTES} bytes");
        return Err(Failure::new(Code::MessageLength, text));
    }
    Ok(length)
}

/// A put or get between the message buffer at offset `shared` and memory elsewhere.
fn overlap(place: Place, shared: usize, length: usize) -> Result<(), Failure> {
    match place {
        Place::Shared(other) if other < shared + length && shared < other + length && length > 0 => {
            Err(Code::DataOverlap.into())
        }
        _ => Ok(()),
    }
}

fn outside(error: tombolo_base::OutOfRange) -> Failure {
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
            let (rank, length) = (world.rank_of(ue)?, lines(size)?);
            let offset = range(world, target.addr(), length, Code::Target)?;
            let to = world.layout.buffer(rank) + offset;
            let from = world.place(source.addr(), length)?;
            overlap(from, to, length)?;
            match from {
                Place::Private => {
                    // SAFETY: by the contract, and not in memory that others write.
                    let source = unsafe { bytes(source, length) }?;
                    with_engine!(&world.engine, engine => put(engine.memory(), to, source))
                        .map_err(outside)?;
                }
                Place::Shared(from) => {
                    with_engine!(&world.engine, engine => copy(engine.memory(), from, to, length))
                        .map_err(outside)?;
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
            let (rank, length) = (world.rank_of(ue)?, lines(size)?);
            let offset = range(world, source.addr(), length, Code::Source)?;
            let from = world.layout.buffer(rank) + offset;
            let to = world.place(target.addr(), length)?;
            overlap(to, from, length)?;
            match to {
                Place::Private => {
                    // SAFETY: by the contract, and not in memory that others write.
                    let target = unsafe { bytes_mut(target, length) }?;
                    with_engine!(&world.engine, engine => get(engine.memory(), from, target))
                        .map_err(outside)?;
                }
                Place::Shared(to) => {
                    with_engine!(&world.engine, engine => copy(engine.memory(), from, to, length))
                        .map_err(outside)?;
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
    // SAFETY: the same contract.
    unsafe { RCCE_put(target, source, size, ue) }
}

/// `iRCCE_get`
///
/// # Safety
/// As [`RCCE_get`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_get(target: *mut u8, source: *const u8, size: c_int, ue: c_int) -> c_int {
    // SAFETY: the same contract.
    unsafe { RCCE_get(target, source, size, ue) }
}

/// `iRCCE_malloc`
#[unsafe(no_mangle)]
pub extern "C" fn iRCCE_malloc(size: usize) -> *mut u8 {
    RCCE_malloc(size)
}

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
            // SAFETY: the caller's room, by the contract.
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
            // SAFETY: the caller's flag, by the contract.
            let offset = flag_offset(world, unsafe { flag.as_ref() }.copied())?;
            free(world, offset).map_err(|text| Failure::new(Code::FlagNotAllocated, text))?;
            // SAFETY: as above.
            unsafe { store(flag, std::ptr::null_mut()) }?;
            Ok(SUCCESS)
        },
    )
}

/// The offset of an allocated flag in the buffers.
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
        engine.flag(offset, rank).map_err(outside)?.write(value, tag);
    });
    Ok(())
}

fn read_flag(world: &World, flag: Option<Flag>, rank: usize, tag: &mut [u8]) -> Result<c_int, Failure> {
    let offset = flag_offset(world, flag)?;
    let value = with_engine!(&world.engine, engine => {
        let flag = engine.flag(offset, rank).map_err(outside)?;
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
    let mut waiting = world.keeper.waiting();
    with_engine!(&mut world.engine, engine => {
        let flag = engine.flag(offset, rank).map_err(outside)?;
        while (flag.read() as u32).cast_signed() != value {
            engine.push();
            waiting.idle()?;
        }
        flag.tag(tag);
    });
    Ok(())
}

/// RCCE's flags are set or unset; those of iRCCE hold any value.
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
            // SAFETY: the caller's flag, by the contract.
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
            // SAFETY: the caller's room, by the contract.
            unsafe { store(value, read_flag(world, Some(flag), rank, &mut [])?) }?;
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_wait_until`: a flag of this rank has the value.
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
            // SAFETY: the caller's room, by the contract.
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
            // SAFETY: the caller's flag, by the contract.
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
            // SAFETY: the caller's room, by the contract.
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
            // SAFETY: the caller's room, by the contract.
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
            // SAFETY: the caller's room, by the contract.
            let tag = unsafe { bytes_mut(tag.cast(), tag_length(length)?) }?;
            let has = read_flag(world, Some(flag), world.rank, tag)? == value;
            // SAFETY: as above.
            unsafe { store(result, c_int::from(has)) }?;
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_shmalloc`: collective; memory that all ranks read and write by its address.
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_shmalloc(size: usize) -> *mut u8 {
    call(
        "RCCE_shmalloc",
        |_| std::ptr::null_mut(),
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
            let Place::Shared(offset) = world.place(address.addr(), 1)? else {
                return Err(Code::Target.into());
            };
            let offset = offset.checked_sub(world.layout.shared()).ok_or(Code::Target)?;
            let freed = with_engine!(&mut world.engine, engine => engine.shared_heap.free(offset));
            freed.map(drop).map_err(|error| Failure::new(Code::Target, error.to_string()))
        },
    );
}

/// `RCCE_shflush`: what this rank stored in shared memory reaches the others, and what they flushed before
/// it.
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_shflush() {
    call(
        "RCCE_shflush",
        |_| (),
        |world| {
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
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
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// How long a rank waits for a lock before it looks whether the others are alive.
const LOCK_STEP: Duration = Duration::from_millis(200);

/// Takes the lock of a rank; returns whether it was free in time.
fn lock(world: &mut World, ue: c_int, patience: Duration) -> Result<bool, Failure> {
    let rank = world.rank_of(ue)?;
    if world.locks.contains_key(&rank) {
        return Err(Failure::new(Code::Error, format!("this rank has the lock of rank {rank} already")));
    }
    let failed = |error: tombolo::Error| Failure::end(error.to_string());
    let name = format!("{}/rcce-lock-{rank}", world.job);
    let lock = world.domain.names().lock(&name).map_err(failed)?;
    match lock.acquire(patience) {
        Ok(guard) => {
            world.locks.insert(rank, guard);
            Ok(true)
        }
        Err(error) if matches!(error.name_fault(), Some(tombolo::names::NameFault::Locked { .. })) => {
            Ok(false)
        }
        Err(error) => Err(failed(error)),
    }
}

/// `RCCE_acquire_lock`: of rank `ue`. It returns to others if this rank ends.
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_acquire_lock(ue: c_int) -> c_int {
    call(
        "RCCE_acquire_lock",
        |code| code,
        |world| {
            while !lock(world, ue, LOCK_STEP)? {
                world.keeper.check()?;
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
            // SAFETY: the caller's room, by the contract.
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
            held.release().map_err(|error| Failure::end(error.to_string()))?;
            Ok(SUCCESS)
        },
    )
}
