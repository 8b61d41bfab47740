//! Blocking messages: a call sends or receives a whole message.

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use core::ffi::{c_char, c_int};

use tombolo_onesided::{get, put};

use super::flag::{RCCE_flag_write, RCCE_test_flag, RCCE_wait_until};
use super::onesided::{RCCE_get, RCCE_put, out_of_range};
use super::{SUCCESS, accepted_length, bytes, length, source_rank, store};
use crate::engine::{PrivateBytes, ReceivedMessage};
use crate::failure::{Code, Failure};
use crate::world::{Borrowed, Place, World, call, with_engine};

/// Sends a message and waits until it has been received.
///
/// # Safety
/// `message` is valid for reads of `size` bytes, or null.
unsafe fn send(world: &mut World, message: *const u8, size: isize, dest: c_int) -> Result<c_int, Failure> {
    let (dest, length) = (world.rank_of(dest)?, length(size)?);
    if dest == world.rank && with_engine!(&world.engine, engine => engine.pending().1) == 0 {
        return Err(Failure::new(
            Code::Id,
            "a message to this rank itself is never received: the call waits",
        ));
    }
    let place = world.locate(message.addr(), length)?;
    let mut backoff = world.liveness.start_wait();
    with_engine!(&mut world.engine, engine => match place {
        Place::Private => {
            // SAFETY: by the contract, and the range is not in memory that other ranks write.
            engine.send(dest, unsafe { bytes(message, length) }?, &mut || backoff.idle())?;
        }
        Place::Shared(offset) => {
            let mut copied = vec![0; length];
            get(engine.memory(), offset, &mut copied).map_err(out_of_range)?;
            engine.send(dest, &copied, &mut || backoff.idle())?;
        }
    });
    Ok(SUCCESS)
}

/// Receives a message.
///
/// # Safety
/// `room` is null, or valid for writes of `size` bytes, or of the message's length for `iRCCE_ANY_LENGTH`.
unsafe fn receive(world: &mut World, room: *mut u8, size: isize, source: c_int) -> Result<c_int, Failure> {
    let source = source_rank(world, source)?;
    let (accepted, length) = accepted_length(size)?;
    if room.is_null() && length != Some(0) {
        return Err(Failure::new(Code::Target, "the room for the message is null"));
    }
    let place = world.locate(room.addr(), length.unwrap_or(1))?;
    let mut backoff = world.liveness.start_wait();
    let arrived = with_engine!(&mut world.engine, engine => match place {
        Place::Private => {
            // SAFETY: by the contract, and the range is not in memory that other ranks write.
            let mut room = unsafe { Borrowed::new(room, length) };
            engine.receive(source, accepted, &mut room, &mut || backoff.idle())??
        }
        Place::Shared(offset) => {
            let mut copied = GrowingBuffer(Vec::new());
            let arrived = engine.receive(source, accepted, &mut copied, &mut || backoff.idle())??;
            put(engine.memory(), offset, &copied.0).map_err(out_of_range)?;
            arrived
        }
    });
    world.last_received = Some(arrived);
    Ok(SUCCESS)
}

/// Receive buffer that grows to the length of the message.
struct GrowingBuffer(Vec<u8>);

impl PrivateBytes for GrowingBuffer {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        self.0.resize(length, 0);
        &mut self.0
    }
}

/// `RCCE_send`
///
/// # Safety
/// `message` is valid for reads of `size` bytes, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_send(message: *const u8, size: usize, dest: c_int) -> c_int {
    // SAFETY: the callee has the same contract.
    call("RCCE_send", |code| code, |world| unsafe { send(world, message, size.cast_signed(), dest) })
}

/// `RCCE_recv`
///
/// # Safety
/// `room` is valid for writes of `size` bytes, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_recv(room: *mut u8, size: usize, source: c_int) -> c_int {
    call(
        "RCCE_recv",
        |code| code,
        |world| {
            world.rank_of(source)?;
            length(size.cast_signed())?;
            // SAFETY: the callee has the same contract.
            unsafe { receive(world, room, size.cast_signed(), source) }
        },
    )
}

/// `RCCE_recv_test`: receives a message if one has arrived, and returns in `test` whether it did.
///
/// # Safety
/// As [`RCCE_recv`]; `test` has room for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_recv_test(
    room: *mut u8,
    size: usize,
    source: c_int,
    test: *mut c_int,
) -> c_int {
    // SAFETY: the callee has the same contract.
    call(
        "RCCE_recv_test",
        |code| code,
        |world| unsafe { receive_test(world, room, size.cast_signed(), source, test) },
    )
}

/// # Safety
/// As [`receive`]; `test` has room for a number, or is null.
unsafe fn receive_test(
    world: &mut World,
    room: *mut u8,
    size: isize,
    source: c_int,
    test: *mut c_int,
) -> Result<c_int, Failure> {
    let from = source_rank(world, source)?;
    let found = with_engine!(&mut world.engine, engine => engine.probe(from));
    // SAFETY: the caller passes a valid output pointer or null, by the contract.
    unsafe { store(test, c_int::from(found.is_some())) }?;
    match found {
        // SAFETY: the callee has the same contract.
        Some((rank, _)) => unsafe { receive(world, room, size, rank as c_int) },
        None => {
            world.liveness.check()?;
            Ok(SUCCESS)
        }
    }
}

/// `iRCCE_ssend`
///
/// # Safety
/// As [`RCCE_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_ssend(message: *const u8, size: isize, dest: c_int) -> c_int {
    // SAFETY: the callee has the same contract.
    call("iRCCE_ssend", |code| code, |world| unsafe { send(world, message, size, dest) })
}

/// `iRCCE_srecv`: with `iRCCE_ANY_SOURCE` and `iRCCE_ANY_LENGTH`.
///
/// # Safety
/// `room` is valid for writes of `size` bytes, or of the message's length, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_srecv(room: *mut u8, size: isize, source: c_int) -> c_int {
    // SAFETY: the callee has the same contract.
    call("iRCCE_srecv", |code| code, |world| unsafe { receive(world, room, size, source) })
}

/// `iRCCE_srecv_test`
///
/// # Safety
/// As [`iRCCE_srecv`]; `test` has room for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_srecv_test(
    room: *mut u8,
    size: isize,
    source: c_int,
    test: *mut c_int,
) -> c_int {
    // SAFETY: the callee has the same contract.
    call("iRCCE_srecv_test", |code| code, |world| unsafe { receive_test(world, room, size, source, test) })
}

/// Records the message that a receive would get, and returns its sender.
fn record_probe(world: &mut World, found: (usize, u64)) -> c_int {
    let (source, length) = found;
    world.last_received =
        Some(ReceivedMessage { source, length: usize::try_from(length).unwrap_or(usize::MAX) });
    source as c_int
}

/// `iRCCE_probe`: waits until a message has arrived.
///
/// # Safety
/// `found` has room for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_probe(source: c_int, found: *mut c_int) -> c_int {
    call(
        "iRCCE_probe",
        |code| code,
        |world| {
            let source = source_rank(world, source)?;
            let mut backoff = world.liveness.start_wait();
            let probed = with_engine!(&mut world.engine, engine => loop {
                match engine.probe(source) {
                    Some(probed) => break probed,
                    None => backoff.idle()?,
                }
            });
            let rank = record_probe(world, probed);
            // SAFETY: the caller passes a valid output pointer or null, by the contract.
            let _ = unsafe { store(found, rank) };
            Ok(SUCCESS)
        },
    )
}

/// `iRCCE_iprobe`: tests whether a message has arrived.
///
/// # Safety
/// `found` and `flag` have room for a number, or are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_iprobe(source: c_int, found: *mut c_int, flag: *mut c_int) -> c_int {
    call(
        "iRCCE_iprobe",
        |code| code,
        |world| {
            let source = source_rank(world, source)?;
            let probed = with_engine!(&mut world.engine, engine => engine.probe(source));
            if let Some(probed) = probed {
                let rank = record_probe(world, probed);
                // SAFETY: the caller passes a valid output pointer or null, by the contract.
                let _ = unsafe { store(found, rank) };
            } else {
                world.liveness.check()?;
            }
            // SAFETY: as above.
            unsafe { store(flag, c_int::from(probed.is_some())) }?;
            Ok(SUCCESS)
        },
    )
}

/// `iRCCE_get_length`: of the message that was received or found last, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn iRCCE_get_length() -> c_int {
    call(
        "iRCCE_get_length",
        |_| -1,
        |world| Ok(world.last_received.map_or(-1, |last_received| last_received.length as c_int)),
    )
}

/// Splits a message of `size` bytes into pieces for a buffer of `chunk` bytes: offset and length of each.
fn pieces(size: usize, chunk: usize) -> impl Iterator<Item = (usize, usize)> {
    let chunk = (chunk - chunk % 32).max(32);
    (0..size).step_by(chunk).map(move |start| (start, chunk.min(size - start)))
}

/// Runs `then` for a call of the gory interface, after checking that no pointer is null and that the chunk
/// has at least one line.
fn call_gory<T>(
    name: &str,
    pointers: &[bool],
    size: usize,
    chunk: usize,
    then: impl FnOnce() -> T,
) -> Result<T, c_int> {
    let invalid = if pointers.contains(&true) {
        Some(Failure::from(Code::FlagUndefined))
    } else if size > 0 && chunk < 32 {
        Some(Failure::new(Code::MessageLength, "a chunk has at least a line of 32 bytes"))
    } else {
        None
    };
    match invalid {
        None => Ok(then()),
        Some(failure) => Err(call(name, |code| code, |_| Err(failure))),
    }
}

/// Makes calls until one fails.
fn first_error(calls: [&dyn Fn() -> c_int; 4]) -> c_int {
    calls.into_iter().map(|call| call()).find(|code| *code != SUCCESS).unwrap_or(SUCCESS)
}

/// `RCCE_send` of the gory interface: uses a buffer and flags that the program allocated.
///
/// # Safety
/// `message` is valid for reads of `size` bytes; `ready` and `sent` are flags; or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_rcce_gory_send(
    message: *const c_char,
    buffer: *mut u8,
    chunk: usize,
    ready: *mut *mut c_int,
    sent: *mut *mut c_int,
    size: usize,
    dest: c_int,
) -> c_int {
    let body = || {
        let own = super::process::RCCE_ue();
        for (start, length) in pieces(size, chunk) {
            let mut line = vec![0; length.next_multiple_of(32)];
            // SAFETY: within the message, by the contract.
            line[..length].copy_from_slice(unsafe {
                core::slice::from_raw_parts(message.cast::<u8>().add(start), length)
            });
            // SAFETY: `line` has that length, and the flags are not null.
            let code = unsafe {
                first_error([
                    &|| RCCE_put(buffer, line.as_ptr(), line.len() as c_int, own),
                    &|| RCCE_flag_write(sent, 1, dest),
                    &|| RCCE_wait_until(*ready, 1),
                    &|| RCCE_flag_write(ready, 0, own),
                ])
            };
            if code != SUCCESS {
                return code;
            }
        }
        SUCCESS
    };
    let nulls = [message.is_null(), ready.is_null(), sent.is_null()];
    call_gory("RCCE_send", &nulls, size, chunk, body).unwrap_or_else(|code| code)
}

/// `RCCE_recv` of the gory interface.
///
/// # Safety
/// `room` is valid for writes of `size` bytes; `ready` and `sent` are flags; or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_rcce_gory_recv(
    room: *mut c_char,
    buffer: *mut u8,
    chunk: usize,
    ready: *mut *mut c_int,
    sent: *mut *mut c_int,
    size: usize,
    source: c_int,
) -> c_int {
    let body = || {
        let own = super::process::RCCE_ue();
        for (start, length) in pieces(size, chunk) {
            let mut line = vec![0; length.next_multiple_of(32)];
            let to = line.as_mut_ptr();
            // SAFETY: `line` has that length, and the flags are not null.
            let code = unsafe {
                first_error([
                    &|| RCCE_wait_until(*sent, 1),
                    &|| RCCE_flag_write(sent, 0, own),
                    &|| RCCE_get(to, buffer, length.next_multiple_of(32) as c_int, source),
                    &|| RCCE_flag_write(ready, 1, source),
                ])
            };
            if code != SUCCESS {
                return code;
            }
            // SAFETY: within the caller's buffer, by the contract.
            unsafe { room.cast::<u8>().add(start).copy_from_nonoverlapping(line.as_ptr(), length) };
        }
        SUCCESS
    };
    let nulls = [room.is_null(), ready.is_null(), sent.is_null()];
    call_gory("RCCE_recv", &nulls, size, chunk, body).unwrap_or_else(|code| code)
}

/// `RCCE_recv_test` of the gory interface.
///
/// # Safety
/// As [`tombolo_rcce_gory_recv`]; `test` has room for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_rcce_gory_recv_test(
    room: *mut c_char,
    buffer: *mut u8,
    chunk: usize,
    ready: *mut *mut c_int,
    sent: *mut *mut c_int,
    size: usize,
    source: c_int,
    test: *mut c_int,
) -> c_int {
    let nulls = [sent.is_null(), test.is_null()];
    let test_sent = || {
        // SAFETY: not null, and valid by the contract.
        unsafe { RCCE_test_flag(*sent, 1, test) }
    };
    match call_gory("RCCE_recv_test", &nulls, size, chunk, test_sent) {
        // SAFETY: as above.
        Ok(SUCCESS) if unsafe { *test } == 1 => unsafe {
            tombolo_rcce_gory_recv(room, buffer, chunk, ready, sent, size, source)
        },
        Ok(code) | Err(code) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_message() {
        let all = |size, chunk| pieces(size, chunk).collect::<Vec<_>>();
        assert_eq!(all(100, 64), [(0, 64), (64, 36)]);
        assert_eq!(all(64, 70), [(0, 64)]);
        assert_eq!(all(0, 64), []);
        let accepted = crate::engine::AcceptedLength::Exactly(3);
        assert_eq!(super::accepted_length(3).unwrap(), (accepted, Some(3)));
        assert!(super::accepted_length(-2).is_err());
    }
}
