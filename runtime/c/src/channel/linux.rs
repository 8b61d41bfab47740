//! End of a channel on Linux: in-place access to messages, and a descriptor for event loops.

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use tombolo::interface::{Carries, Port};
use tombolo::{Channel, Draft, Error, Message};

use super::{ChannelHandle, Received, deliver, with};
use crate::boundary::{bytes, bytes_mut, check_not_null, deref, guard, guard_value, write_result};
use crate::carrier::Carrier;
use crate::status::{Failure, Status};

/// One end of a channel.
#[derive(Debug)]
pub(crate) struct End {
    carrier: Carrier<Channel>,
    /// Message that was longer than the caller's buffer: the next receive returns it.
    pending: Option<Vec<u8>>,
}

/// `tombolo_message` as seen by C: its address is valid until the callback that received it returns.
#[derive(Debug)]
pub struct MessageHandle<'a>(&'a Message<'a>);

/// `tombolo_draft` as seen by C.
#[derive(Debug)]
pub struct DraftHandle<'a, 'd>(&'a mut Draft<'d>);

type Reader = Option<unsafe extern "C" fn(*const MessageHandle<'_>, *mut c_void)>;
type Writer = Option<unsafe extern "C" fn(*mut DraftHandle<'_, '_>, *mut c_void)>;

impl End {
    pub(super) fn new(channel: Channel) -> End {
        End { carrier: Carrier::new(channel), pending: None }
    }

    /// Whether the next message is already here.
    pub(super) fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    pub(crate) fn channel(&mut self) -> Result<&mut Channel, Failure> {
        self.carrier.channel()
    }

    /// Receives the next message into `target`; returns its length.
    #[inline]
    pub(super) fn receive(&mut self, target: &mut [u8], timeout_ns: u64) -> Result<Received, Failure> {
        if let Some(pending) = self.pending.take() {
            return Ok(deliver(pending, target, &mut self.pending));
        }
        let read = |message: &Message<'_>| match message.copy_to(target) {
            Ok(length) => Ok(length),
            Err(_) => Err(message.to_vec()),
        };
        let channel = self.channel()?;
        let received = match timeout_ns {
            0 => channel.try_recv_in_place(read)?.ok_or(Error::WouldBlock)?,
            _ => channel.within(Duration::from_nanos(timeout_ns)).recv_in_place(read)?,
        };
        Ok(match received {
            Ok(length) => Received::Whole(length),
            Err(message) => deliver(message, target, &mut self.pending),
        })
    }

    /// Declares what an interface used over the channel passes.
    pub(super) fn carry(&mut self, capabilities: bool, buffers: bool) -> Result<(), Failure> {
        let channel = self.channel()?;
        let carries = channel.carries();
        if capabilities && !carries.capabilities {
            let why = "the interface passes capabilities, which this link cannot carry";
            return Err(Failure::new(Status::CannotCarry, why));
        }
        if buffers && !carries.buffers {
            let why =
                "the interface passes buffers: open a bulk channel beside this one first (tombolo_open_bulk)";
            return Err(Failure::new(Status::CannotCarry, why));
        }
        channel.bound(Carries { capabilities, buffers });
        Ok(())
    }
}

/// `tombolo_receive_in_place`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_receive_in_place(
    channel: *mut ChannelHandle,
    read: Reader,
    context: *mut c_void,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        let read = read.ok_or_else(|| Failure::invalid("the function that reads is null"))?;
        let look = |message: &Message<'_>| {
            let message = MessageHandle(message);
            // SAFETY: the caller's callback with its own context, by the contract; the message is valid until
            // it returns.
            unsafe { read(&raw const message, context) };
        };
        let receive = |end: &mut End| {
            if let Some(pending) = end.pending.take() {
                look(&Message::of_bytes(&pending));
                return Ok(());
            }
            let channel = end.channel()?;
            match timeout_ns {
                0 => Ok(channel.try_recv_in_place(look)?.ok_or(Error::WouldBlock)?),
                _ => Ok(channel.within(Duration::from_nanos(timeout_ns)).recv_in_place(look)?),
            }
        };
        // SAFETY: a live handle, by the contract.
        unsafe { with(channel, receive) }
    })
}

/// `tombolo_message_length`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_message_length(message: *const MessageHandle<'_>) -> usize {
    // SAFETY: the message of a running callback, by the contract.
    guard_value(0, || Ok(unsafe { deref(message, "the message") }?.0.len()))
}

/// `tombolo_message_read`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_message_read(
    message: *const MessageHandle<'_>,
    offset: usize,
    target: *mut u8,
    length: usize,
) -> Status {
    guard(|| {
        // SAFETY: the message of a running callback, and `length` bytes of the caller, by the contract.
        let (message, target) =
            unsafe { (deref(message, "the message")?, bytes_mut(target, length, "the target")?) };
        message.0.read_at(offset, target).map_err(|error| Failure::invalid(error.to_string()))
    })
}

/// `tombolo_send_in_place`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_send_in_place(
    channel: *mut ChannelHandle,
    length: usize,
    write: Writer,
    context: *mut c_void,
) -> Status {
    guard(|| {
        let write = write.ok_or_else(|| Failure::invalid("the function that writes is null"))?;
        let fill = |draft: &mut Draft<'_>| {
            let mut draft = DraftHandle(draft);
            // SAFETY: the caller's callback with its own context, by the contract; the draft is valid until
            // it returns.
            unsafe { write(&raw mut draft, context) };
        };
        // SAFETY: a live handle, by the contract.
        unsafe { with(channel, |end| Ok(end.channel()?.try_send_in_place(length, fill)?)) }
    })
}

/// `tombolo_draft_write`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_draft_write(
    draft: *mut DraftHandle<'_, '_>,
    offset: usize,
    source: *const u8,
    length: usize,
) -> Status {
    guard(|| {
        // SAFETY: `length` bytes of the caller, by the contract.
        let source = unsafe { bytes(source, length, "the source") }?;
        // SAFETY: null is checked; otherwise the draft of a running callback, by the contract. A callback
        // runs on one thread and this function calls no other code, so there is no other reference.
        let draft = unsafe { draft.as_mut() }.ok_or_else(|| Failure::invalid("the draft is null"))?;
        draft.0.write_at(offset, source).map_err(|error| Failure::invalid(error.to_string()))
    })
}

/// `tombolo_arm`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_arm(channel: *mut ChannelHandle, descriptor: *mut i32) -> Status {
    guard(|| {
        check_not_null(descriptor, "where to put the descriptor")?;
        let arm = |end: &mut End| {
            let pending = end.pending.is_some();
            let (set, _) = end.carrier.set()?;
            let raw = set.as_fd().as_raw_fd();
            let nothing = match set.wait(Duration::ZERO) {
                Ok(_) => false,
                Err(Error::TimedOut { .. } | Error::WouldBlock) => !pending,
                Err(error) => return Err(error.into()),
            };
            Ok((raw, nothing))
        };
        // SAFETY: a live handle, by the contract.
        let (raw, nothing) = unsafe { with(channel, arm) }?;
        // SAFETY: valid for a write of a number, by the contract.
        unsafe { write_result(descriptor, raw, "where to put the descriptor") }?;
        if nothing { Err(Error::WouldBlock.into()) } else { Ok(()) }
    })
}
