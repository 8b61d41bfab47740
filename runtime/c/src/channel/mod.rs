//! Channels.

#[cfg(target_os = "none")]
#[path = "board.rs"]
mod end;
#[cfg(not(target_os = "none"))]
#[path = "linux.rs"]
pub mod end;

use alloc::ffi::CString;
use core::ffi::{CStr, c_char};
use core::time::Duration;

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, prelude::*};

use tombolo::{Channel, TransportKind, wait_any};

pub(crate) use end::End;

use crate::boundary::{
    Exclusive, bytes, bytes_mut, c_text, check_not_null, deref, from_handle, guard, guard_value, into_handle,
    write_result,
};
use crate::status::{Failure, Status};

/// `tombolo_channel`.
#[derive(Debug)]
pub struct ChannelHandle {
    end: Exclusive<End>,
    id: u64,
    peer: u64,
    peer_node: CString,
    transport: &'static CStr,
    max_message_bytes: usize,
}

/// `tombolo_stats`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Stats {
    messages_sent: u64,
    bytes_sent: u64,
    messages_received: u64,
    bytes_received: u64,
    rings: u64,
    sleeps: u64,
}

enum Received {
    Whole(usize),
    Kept(usize),
}

/// Copies a message to the start of `target`, or keeps it if `target` is too short.
#[cold]
fn deliver(message: Vec<u8>, target: &mut [u8], pending: &mut Option<Vec<u8>>) -> Received {
    let length = message.len();
    match target.get_mut(..length) {
        Some(target) => {
            target.copy_from_slice(&message);
            Received::Whole(length)
        }
        None => {
            *pending = Some(message);
            Received::Kept(length)
        }
    }
}

impl ChannelHandle {
    pub(crate) fn into_handle(channel: Channel) -> *mut ChannelHandle {
        let transport = match channel.transport() {
            TransportKind::Shm => c"shm",
            TransportKind::Window => c"window",
            TransportKind::Socket => c"socket",
        };
        into_handle(ChannelHandle {
            id: channel.id().0,
            peer: channel.peer().to_bits(),
            peer_node: c_text(channel.peer_node()),
            transport,
            max_message_bytes: channel.max_message_bytes(),
            end: Exclusive::new(End::new(channel)),
        })
    }
}

/// Runs `body` with the end of a channel.
///
/// # Safety
/// The pointer is null, or a live handle.
#[inline]
pub(crate) unsafe fn with<R>(
    channel: *const ChannelHandle,
    body: impl FnOnce(&mut End) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // SAFETY: this function's safety condition; the mutable state of a handle is inside `Exclusive`.
    unsafe { deref(channel, "the channel") }?.end.with(body)
}

/// `tombolo_close`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_close(channel: *mut ChannelHandle) -> Status {
    guard(|| {
        if channel.is_null() {
            return Ok(());
        }
        // SAFETY: a live handle, by the contract. A handle that is in use is refused and remains valid.
        unsafe { deref(channel, "the channel") }?.end.retire()?;
        // SAFETY: the handle is released once, by the contract, and is not in use: it was not when it was
        // retired, and later calls are refused.
        drop(unsafe { from_handle(channel) });
        Ok(())
    })
}

/// `tombolo_send`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_send(
    channel: *mut ChannelHandle,
    message: *const u8,
    length: usize,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        // SAFETY: `length` bytes of the caller, by the contract.
        let message = unsafe { bytes(message, length, "the message") }?;
        let send = |end: &mut End| match timeout_ns {
            0 => Ok(end.channel()?.try_send(message)?),
            _ => Ok(end.channel()?.within(Duration::from_nanos(timeout_ns)).send(message)?),
        };
        // SAFETY: a live handle, by the contract.
        unsafe { with(channel, send) }
    })
}

/// `tombolo_receive`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_receive(
    channel: *mut ChannelHandle,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        check_not_null(length, "where to put the length")?;
        // SAFETY: `capacity` bytes of the caller, by the contract.
        let target = unsafe { bytes_mut(buffer, capacity, "the buffer") }?;
        // SAFETY: a live handle, by the contract.
        let received = unsafe { with(channel, |end| end.receive(target, timeout_ns)) }?;
        let (Received::Whole(bytes) | Received::Kept(bytes)) = received;
        // SAFETY: valid for a write of a number, by the contract.
        unsafe { write_result(length, bytes, "where to put the length") }?;
        match received {
            Received::Whole(_) => Ok(()),
            Received::Kept(_) => Err(Failure::new(
                Status::BufferTooShort,
                format!("a message of {bytes} bytes does not fit {capacity}: it waits for a longer buffer"),
            )),
        }
    })
}

/// `tombolo_wait`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_wait(
    channels: *const *mut ChannelHandle,
    count: usize,
    timeout_ns: u64,
    index: *mut usize,
) -> Status {
    guard(|| {
        check_not_null(index, "where to put the index")?;
        if count != 0 && (channels.is_null() || count > isize::MAX as usize / size_of::<usize>()) {
            return Err(Failure::invalid("the channels are null"));
        }
        // SAFETY: `count` pointers of the caller, by the contract.
        let pointers = if count == 0 { &[] } else { unsafe { core::slice::from_raw_parts(channels, count) } };
        let mut handles = Vec::with_capacity(count);
        for pointer in pointers {
            // SAFETY: a live handle, by the contract.
            handles.push(unsafe { deref(*pointer, "a channel") }?);
        }
        let mut found = 0;
        with_all_ends(&handles, &mut Vec::with_capacity(count), &mut |ends| {
            found = wait_on(ends, Duration::from_nanos(timeout_ns))?;
            Ok(())
        })?;
        // SAFETY: valid for a write of a number, by the contract.
        unsafe { write_result(index, found, "where to put the index") }
    })
}

/// Calls `body` with all ends, if none of them is in use.
fn with_all_ends<'a>(
    handles: &[&'a ChannelHandle],
    ends: &mut Vec<&mut End>,
    body: &mut dyn FnMut(&mut [&mut End]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some((first, rest)) = handles.split_first() else { return body(ends) };
    first.end.with(|end| {
        let mut more: Vec<&mut End> = Vec::with_capacity(ends.len() + 1);
        more.extend(ends.iter_mut().map(|end| &mut **end));
        more.push(end);
        with_all_ends(rest, &mut more, body)
    })
}

fn wait_on(ends: &mut [&mut End], timeout: Duration) -> Result<usize, Failure> {
    if let Some(index) = ends.iter().position(|end| end.has_pending()) {
        return Ok(index);
    }
    let mut channels = ends.iter_mut().map(|end| end.channel()).collect::<Result<Vec<_>, _>>()?;
    Ok(wait_any(&mut channels, timeout)?)
}

/// `tombolo_carry`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_carry(
    channel: *mut ChannelHandle,
    capabilities: bool,
    buffers: bool,
) -> Status {
    // SAFETY: a live handle, by the contract.
    guard(|| unsafe { with(channel, |end| end.carry(capabilities, buffers)) })
}

/// `tombolo_max_message_bytes`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_max_message_bytes(channel: *const ChannelHandle) -> usize {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || Ok(unsafe { deref(channel, "the channel") }?.max_message_bytes))
}

/// `tombolo_channel_id`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_channel_id(channel: *const ChannelHandle) -> u64 {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || Ok(unsafe { deref(channel, "the channel") }?.id))
}

/// `tombolo_peer`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_peer(channel: *const ChannelHandle) -> u64 {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || Ok(unsafe { deref(channel, "the channel") }?.peer))
}

/// `tombolo_peer_node`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_peer_node(channel: *const ChannelHandle) -> *const c_char {
    // SAFETY: a live handle, by the contract.
    guard_value(c"".as_ptr(), || Ok(unsafe { deref(channel, "the channel") }?.peer_node.as_ptr()))
}

/// `tombolo_transport`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_transport(channel: *const ChannelHandle) -> *const c_char {
    // SAFETY: a live handle, by the contract.
    guard_value(c"".as_ptr(), || Ok(unsafe { deref(channel, "the channel") }?.transport.as_ptr()))
}

/// `tombolo_channel_stats`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_channel_stats(channel: *mut ChannelHandle, stats: *mut Stats) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract.
        let of = unsafe { with(channel, |end| Ok(end.channel()?.stats())) }?;
        let passed = Stats {
            messages_sent: of.messages_sent,
            bytes_sent: of.bytes_sent,
            messages_received: of.messages_received,
            bytes_received: of.bytes_received,
            rings: of.rings,
            sleeps: of.sleeps,
        };
        // SAFETY: valid for writes, by the contract.
        unsafe { write_result(stats, passed, "where to put the statistics") }
    })
}
