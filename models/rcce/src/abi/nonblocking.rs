//! Non-blocking messages: requests of iRCCE.

use core::ffi::{c_int, c_ulonglong};

use super::message::{iRCCE_srecv, iRCCE_ssend};
use super::{NOT_ENQUEUED, PENDING, RESERVED, SUCCESS, accepted_length, length, source_rank, store};
use crate::engine::Progress;
use crate::failure::{Code, Failure};
use crate::world::{Borrowed, Place, World, call, with_engine};

/// `iRCCE_SEND_REQUEST` and `iRCCE_RECV_REQUEST`, which have the same fields.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Request {
    privbuf: *mut u8,
    size: usize,
    /// Rank of the receiver or sender.
    pub(super) peer: c_int,
    pub(super) finished: c_int,
    /// Number of the request in the engine.
    number: c_ulonglong,
}

fn refuse_shared(world: &World, address: *mut u8, length: usize) -> Result<(), Failure> {
    match world.locate(address.addr(), length)? {
        Place::Private => Ok(()),
        Place::Shared(_) => {
            let text = "a request uses private memory; put and get move what is in memory that ranks share";
            Err(Failure::new(Code::Source, text))
        }
    }
}

/// Starts a send.
///
/// # Safety
/// `message` is valid for reads of `size` bytes until the request is complete, or null; `request` has room
/// for one.
unsafe fn start_send(
    world: &mut World,
    message: *mut u8,
    size: isize,
    dest: c_int,
    request: *mut Request,
) -> Result<c_int, Failure> {
    let (rank, length) = (world.rank_of(dest)?, length(size)?);
    if message.is_null() && length > 0 {
        return Err(Failure::new(Code::Source, "the message is null"));
    }
    refuse_shared(world, message, length)?;
    let (number, progress) = with_engine!(&mut world.engine, engine => {
        // SAFETY: by the contract of this function.
        let number = engine.start_send(rank, unsafe { Borrowed::new(message, Some(length)) });
        (number, engine.progress(number))
    });
    let finished = c_int::from(matches!(progress, Progress::Complete(_)));
    // SAFETY: the caller passes a valid output pointer or null, by the contract.
    unsafe { store(request, Request { privbuf: message, size: length, peer: dest, finished, number }) }?;
    Ok(match progress {
        Progress::Complete(_) => SUCCESS,
        Progress::Pending => PENDING,
        Progress::Queued => RESERVED,
    })
}

/// `iRCCE_isend`
///
/// # Safety
/// `message` is valid for reads of `size` bytes until the request is complete, or null; `request` has room
/// for a request, or is null for a send that waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_isend(
    message: *mut u8,
    size: isize,
    dest: c_int,
    request: *mut Request,
) -> c_int {
    if request.is_null() {
        // SAFETY: the callee has the same contract.
        return unsafe { iRCCE_ssend(message, size, dest) };
    }
    // SAFETY: the callee has the same contract.
    call("iRCCE_isend", |code| code, |world| unsafe { start_send(world, message, size, dest, request) })
}

/// `iRCCE_issend`
///
/// # Safety
/// As [`iRCCE_isend`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_issend(
    message: *mut u8,
    size: isize,
    dest: c_int,
    request: *mut Request,
) -> c_int {
    // SAFETY: the callee has the same contract.
    unsafe { iRCCE_isend(message, size, dest, request) }
}

/// Starts a receive.
///
/// # Safety
/// `room` is valid for writes of `size` bytes, or of what comes, until the request is complete, or null;
/// `request` has room for one.
unsafe fn start_receive(
    world: &mut World,
    room: *mut u8,
    size: isize,
    source: c_int,
    request: *mut Request,
) -> Result<c_int, Failure> {
    let from = source_rank(world, source)?;
    let (accepted, length) = accepted_length(size)?;
    if room.is_null() && length != Some(0) {
        return Err(Failure::new(Code::Target, "the room for the message is null"));
    }
    refuse_shared(world, room, length.unwrap_or(1))?;
    // SAFETY: by the contract of this function.
    let borrowed = unsafe { Borrowed::new(room, length) };
    let number = with_engine!(&mut world.engine, engine => engine.start_receive(from, accepted, borrowed));
    let started = Request { privbuf: room, size: length.unwrap_or(0), peer: source, finished: 0, number };
    // SAFETY: the caller passes a valid output pointer or null, by the contract.
    unsafe { store(request, started) }?;
    // SAFETY: just stored.
    let done = test(world, unsafe { &mut *request })?;
    Ok(if done { SUCCESS } else { PENDING })
}

/// `iRCCE_irecv`: with `iRCCE_ANY_SOURCE` and `iRCCE_ANY_LENGTH`.
///
/// # Safety
/// `room` is valid for writes of `size` bytes, or of the message's length, until the request is complete, or
/// null; `request` has room for a request, or is null for a receive that waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_irecv(
    room: *mut u8,
    size: isize,
    source: c_int,
    request: *mut Request,
) -> c_int {
    if request.is_null() {
        // SAFETY: the callee has the same contract.
        return unsafe { iRCCE_srecv(room, size, source) };
    }
    // SAFETY: the callee has the same contract.
    call("iRCCE_irecv", |code| code, |world| unsafe { start_receive(world, room, size, source, request) })
}

/// `iRCCE_isrecv`
///
/// # Safety
/// As [`iRCCE_irecv`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_isrecv(
    room: *mut u8,
    size: isize,
    source: c_int,
    request: *mut Request,
) -> c_int {
    // SAFETY: the callee has the same contract.
    unsafe { iRCCE_irecv(room, size, source, request) }
}

/// Returns whether a request is complete; records the received message of a receive.
pub(super) fn test(world: &mut World, request: &mut Request) -> Result<bool, Failure> {
    if request.finished == 1 {
        return Ok(true);
    }
    let progress = with_engine!(&mut world.engine, engine => engine.progress(request.number));
    let Progress::Complete(outcome) = progress else { return Ok(false) };
    request.finished = 1;
    if let Some(arrived) = outcome.transpose()? {
        (request.peer, request.size) = (arrived.source as c_int, arrived.length);
        world.last_received = Some(arrived);
    }
    Ok(true)
}

/// Waits until a request is complete.
pub(super) fn wait(world: &mut World, request: &mut Request) -> Result<(), Failure> {
    let mut polls = 0_u32;
    while !test(world, request)? {
        pause(world, &mut polls)?;
    }
    Ok(())
}

/// Pauses between two tests of requests.
pub(super) fn pause(world: &mut World, polls: &mut u32) -> Result<(), Failure> {
    let mut backoff = world.liveness.resume_wait(*polls);
    backoff.idle()?;
    *polls = backoff.polls();
    Ok(())
}

/// Returns whether all sends, or all receives, are complete.
fn all_done(world: &mut World, sends: bool) -> bool {
    with_engine!(&mut world.engine, engine => {
        engine.push();
        if sends { engine.pending().0 == 0 } else { engine.pending().1 == 0 }
    })
}

/// Tests a request, or all of its kind.
///
/// # Safety
/// `request` is a request that was started, or null; `flag` has room for a number, or is null.
unsafe fn test_call(name: &str, request: *mut Request, sends: bool, flag: *mut c_int) -> c_int {
    call(
        name,
        |code| code,
        |world| {
            // SAFETY: the caller passes a started request or null, by the contract.
            let done = match unsafe { request.as_mut() } {
                Some(request) => test(world, request)?,
                None => all_done(world, sends),
            };
            if !done {
                world.liveness.check()?;
            }
            // SAFETY: the caller passes a valid output pointer or null; if null, the return value is enough.
            let _ = unsafe { store(flag, c_int::from(done)) };
            Ok(if done { SUCCESS } else { PENDING })
        },
    )
}

/// Waits for a request, or for all of its kind.
///
/// # Safety
/// `request` is a request that was started, or null.
unsafe fn wait_call(name: &str, request: *mut Request, sends: bool) -> c_int {
    call(
        name,
        |code| code,
        |world| {
            // SAFETY: the caller passes a started request or null, by the contract.
            match unsafe { request.as_mut() } {
                Some(request) => wait(world, request)?,
                None => {
                    let mut polls = 0_u32;
                    while !all_done(world, sends) {
                        pause(world, &mut polls)?;
                    }
                }
            }
            Ok(SUCCESS)
        },
    )
}

/// `iRCCE_isend_test`: without a request, of all sends.
///
/// # Safety
/// `request` is a request that was started, or null; `flag` has room for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_isend_test(request: *mut Request, flag: *mut c_int) -> c_int {
    // SAFETY: the callee has the same contract.
    unsafe { test_call("iRCCE_isend_test", request, true, flag) }
}

/// `iRCCE_irecv_test`: without a request, of all receives.
///
/// # Safety
/// As [`iRCCE_isend_test`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_irecv_test(request: *mut Request, flag: *mut c_int) -> c_int {
    // SAFETY: the callee has the same contract.
    unsafe { test_call("iRCCE_irecv_test", request, false, flag) }
}

/// `iRCCE_isend_wait`: without a request, for all sends.
///
/// # Safety
/// `request` is a request that was started, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_isend_wait(request: *mut Request) -> c_int {
    // SAFETY: the callee has the same contract.
    unsafe { wait_call("iRCCE_isend_wait", request, true) }
}

/// `iRCCE_irecv_wait`: without a request, for all receives.
///
/// # Safety
/// As [`iRCCE_isend_wait`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_irecv_wait(request: *mut Request) -> c_int {
    // SAFETY: the callee has the same contract.
    unsafe { wait_call("iRCCE_irecv_wait", request, false) }
}

fn push(name: &str, sends: bool) -> c_int {
    call(name, |code| code, |world| Ok(if all_done(world, sends) { SUCCESS } else { PENDING }))
}

/// `iRCCE_isend_push`: advances all requests, and returns whether the sends are complete.
#[unsafe(no_mangle)]
pub extern "C" fn iRCCE_isend_push() -> c_int {
    push("iRCCE_isend_push", true)
}

/// `iRCCE_irecv_push`: advances all requests, and returns whether the receives are complete.
#[unsafe(no_mangle)]
pub extern "C" fn iRCCE_irecv_push() -> c_int {
    push("iRCCE_irecv_push", false)
}

/// Withdraws a request that has not transferred anything yet.
///
/// # Safety
/// `request` is a request that was started, or null; `flag` has room for a number, or is null.
unsafe fn cancel(name: &str, request: *mut Request, flag: *mut c_int) -> c_int {
    call(
        name,
        |code| code,
        |world| {
            // SAFETY: the caller passes a started request or null, by the contract.
            let Some(request) = (unsafe { request.as_mut() }) else { return Ok(NOT_ENQUEUED) };
            let (cancelled, progress) = with_engine!(&mut world.engine, engine => {
                let cancelled = request.finished == 0 && engine.cancel(request.number);
                (cancelled, if cancelled { None } else { Some(engine.progress(request.number)) })
            });
            // SAFETY: the caller passes a valid output pointer or null; if null, the return value is enough.
            let _ = unsafe { store(flag, c_int::from(cancelled)) };
            match progress {
                None => {
                    request.finished = 1;
                    Ok(SUCCESS)
                }
                Some(Progress::Complete(_)) => {
                    request.finished = 1;
                    Ok(NOT_ENQUEUED)
                }
                Some(_) => Ok(PENDING),
            }
        },
    )
}

/// `iRCCE_isend_cancel`
///
/// # Safety
/// `request` is a request that was started, or null; `flag` has room for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_isend_cancel(request: *mut Request, flag: *mut c_int) -> c_int {
    // SAFETY: the callee has the same contract.
    unsafe { cancel("iRCCE_isend_cancel", request, flag) }
}

/// `iRCCE_irecv_cancel`
///
/// # Safety
/// As [`iRCCE_isend_cancel`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_irecv_cancel(request: *mut Request, flag: *mut c_int) -> c_int {
    // SAFETY: the callee has the same contract.
    unsafe { cancel("iRCCE_irecv_cancel", request, flag) }
}

/// `iRCCE_get_dest`
///
/// # Safety
/// `request` is a request that was started, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_get_dest(request: *const Request) -> c_int {
    // SAFETY: the caller passes a started request or null, by the contract.
    unsafe { request.as_ref() }.map_or(-1, |request| request.peer)
}

/// `iRCCE_get_source`: without a request, of the message that was received or found last.
///
/// # Safety
/// As [`iRCCE_get_dest`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_get_source(request: *const Request) -> c_int {
    // SAFETY: the caller passes a started request or null, by the contract.
    match unsafe { request.as_ref() } {
        Some(request) => request.peer,
        None => call(
            "iRCCE_get_source",
            |_| -1,
            |world| Ok(world.last_received.map_or(-1, |last_received| last_received.source as c_int)),
        ),
    }
}

/// `iRCCE_get_size`: of the one request that is given.
///
/// # Safety
/// Both are requests that were started, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_get_size(send: *const Request, receive: *const Request) -> c_int {
    // SAFETY: the caller passes started requests or null, by the contract.
    unsafe { send.as_ref().or(receive.as_ref()) }.map_or(-1, |request| request.size as c_int)
}
