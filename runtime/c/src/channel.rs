//! Channels.

use std::ffi::{CString, c_char, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use tombolo::{Channel, Draft, Error, Message, Token, TransportKind, WaitSet, wait_any};

use crate::boundary::{
    Exclusive, ask, bytes, bytes_mut, c_text, guard, hand_out, present, put, shared, take_back,
};
use crate::status::{Failure, Status};

/// `tombolo_channel`.
#[derive(Debug)]
pub struct ChannelHandle {
    end: Exclusive<End>,
    id: u64,
    peer: u64,
    peer_node: CString,
    transport: &'static std::ffi::CStr,
    max_message_bytes: usize,
}

/// One end of a channel.
#[derive(Debug)]
pub(crate) struct End {
    carrier: Carrier,
    /// A message that was longer than the buffer that it was to go into: the next receive has it.
    kept: Option<Vec<u8>>,
}

#[derive(Debug)]
enum Carrier {
    /// As it was opened.
    Alone(Box<Channel>),
    /// In a set of its own, for its descriptor.
    Polled(Box<WaitSet>, Token),
    /// On its way from one to the other.
    Nowhere,
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

/// `tombolo_message` as C sees it: an address that is good until the function that was given it returns.
#[derive(Debug)]
pub struct MessageHandle<'a>(&'a Message<'a>);

/// `tombolo_draft` as C sees it.
#[derive(Debug)]
pub struct DraftHandle<'a, 'd>(&'a mut Draft<'d>);

type Reader = Option<unsafe extern "C" fn(*const MessageHandle<'_>, *mut c_void)>;
type Writer = Option<unsafe extern "C" fn(*mut DraftHandle<'_, '_>, *mut c_void)>;

impl End {
    pub(crate) fn channel(&mut self) -> Result<&mut Channel, Failure> {
        let channel = match &mut self.carrier {
            Carrier::Alone(channel) => Some(&mut **channel),
            Carrier::Polled(set, token) => set.get_mut(*token),
            Carrier::Nowhere => None,
        };
        channel.ok_or_else(nowhere)
    }

    /// The next message, to the start of `target`; its length.
    #[inline]
    fn receive(&mut self, target: &mut [u8], timeout_ns: u64) -> Result<Received, Failure> {
        if let Some(kept) = self.kept.take() {
            return Ok(self.deliver(kept, target));
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
            Err(message) => self.deliver(message, target),
        })
    }

    #[cold]
    fn deliver(&mut self, message: Vec<u8>, target: &mut [u8]) -> Received {
        let length = message.len();
        match target.get_mut(..length) {
            Some(target) => {
                target.copy_from_slice(&message);
                Received::Whole(length)
            }
            None => {
                self.kept = Some(message);
                Received::Kept(length)
            }
        }
    }

    /// Puts the channel into a set, which is a descriptor.
    fn set(&mut self) -> Result<(&mut WaitSet, Token), Failure> {
        if let Carrier::Alone(_) = self.carrier {
            let mut set = Box::new(WaitSet::new()?);
            let Carrier::Alone(channel) = std::mem::replace(&mut self.carrier, Carrier::Nowhere) else {
                return Err(nowhere());
            };
            match set.add(*channel) {
                Ok(token) => self.carrier = Carrier::Polled(set, token),
                Err(refused) => {
                    self.carrier = Carrier::Alone(Box::new(refused.kept));
                    return Err(refused.error.into());
                }
            }
        }
        match &mut self.carrier {
            Carrier::Polled(set, token) => Ok((set, *token)),
            _ => Err(nowhere()),
        }
    }
}

fn nowhere() -> Failure {
    Failure::new(Status::Internal, "a channel was used while it was put into a wait set")
}

enum Received {
    Whole(usize),
    Kept(usize),
}

impl ChannelHandle {
    pub(crate) fn hand_out(channel: Channel) -> *mut ChannelHandle {
        let transport = match channel.transport() {
            TransportKind::Shm => c"shm",
            TransportKind::Window => c"window",
            TransportKind::Socket => c"socket",
        };
        hand_out(ChannelHandle {
            id: channel.id().0,
            peer: channel.peer().to_bits(),
            peer_node: c_text(channel.peer_node()),
            transport,
            max_message_bytes: channel.max_message_bytes(),
            end: Exclusive::new(End { carrier: Carrier::Alone(Box::new(channel)), kept: None }),
        })
    }
}

/// Uses a channel.
///
/// # Safety
/// The pointer is null, or a live handle.
#[inline]
pub(crate) unsafe fn with<R>(
    channel: *const ChannelHandle,
    body: impl FnOnce(&mut End) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // SAFETY: as this function asks for; what changes in a handle is behind `Exclusive`.
    unsafe { shared(channel, "the channel") }?.end.with(body)
}

/// `tombolo_close`: see `tombolo.h`.
///
/// # Safety
/// As `tombolo.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_close(channel: *mut ChannelHandle) -> Status {
    guard(|| {
        if channel.is_null() {
            return Ok(());
        }
        // SAFETY: a live handle, by the contract. One that is in use is refused, and stays.
        unsafe { shared(channel, "the channel") }?.end.retire()?;
        // SAFETY: the handle is given back once, by the contract, and nothing uses it: it was not in use, and
        // calls that come from now on are refused.
        drop(unsafe { take_back(channel) });
        Ok(())
    })
}

/// `tombolo_send`: see `tombolo.h`.
///
/// # Safety
/// As `tombolo.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_send(
    channel: *mut ChannelHandle,
    message: *const u8,
    length: usize,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        // SAFETY: `length` bytes of the caller's, by the contract.
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
/// As `tombolo.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_receive(
    channel: *mut ChannelHandle,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        present(length, "where to put the length")?;
        // SAFETY: `capacity` bytes of the caller's, by the contract.
        let target = unsafe { bytes_mut(buffer, capacity, "the buffer") }?;
        // SAFETY: a live handle, by the contract.
        let received = unsafe { with(channel, |end| end.receive(target, timeout_ns)) }?;
        let (Received::Whole(bytes) | Received::Kept(bytes)) = received;
        // SAFETY: the caller's room for a number, by the contract.
        unsafe { put(length, bytes, "where to put the length") }?;
        match received {
            Received::Whole(_) => Ok(()),
            Received::Kept(_) => Err(Failure::new(
                Status::BufferTooShort,
                format!("a message of {bytes} bytes does not fit {capacity}: it waits for a longer buffer"),
            )),
        }
    })
}

/// `tombolo_receive_in_place`: see `tombolo.h`.
///
/// # Safety
/// As `tombolo.h` says.
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
            // SAFETY: a function of the caller's with the argument that it asked for, by the contract; the
            // message is there until it returns.
            unsafe { read(&raw const message, context) };
        };
        let receive = |end: &mut End| {
            if let Some(kept) = end.kept.take() {
                look(&Message::of_bytes(&kept));
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
/// As `tombolo.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_message_length(message: *const MessageHandle<'_>) -> usize {
    // SAFETY: what a reader was given, while it runs, by the contract.
    ask(0, || Ok(unsafe { shared(message, "the message") }?.0.len()))
}

/// `tombolo_message_read`: see `tombolo.h`.
///
/// # Safety
/// As `tombolo.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_message_read(
    message: *const MessageHandle<'_>,
    offset: usize,
    target: *mut u8,
    length: usize,
) -> Status {
    guard(|| {
        // SAFETY: what a reader was given, while it runs, and `length` bytes of the caller's, by the
        // contract.
        let (message, target) =
            unsafe { (shared(message, "the message")?, bytes_mut(target, length, "the target")?) };
        message.0.read_at(offset, target).map_err(|error| Failure::invalid(error.to_string()))
    })
}

/// `tombolo_send_in_place`: see `tombolo.h`.
///
/// # Safety
/// As `tombolo.h` says.
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
            // SAFETY: a function of the caller's with the argument that it asked for, by the contract; the
            // draft is there until it returns.
            unsafe { write(&raw mut draft, context) };
        };
        // SAFETY: a live handle, by the contract.
        unsafe { with(channel, |end| Ok(end.channel()?.try_send_in_place(length, fill)?)) }
    })
}

/// `tombolo_draft_write`: see `tombolo.h`.
///
/// # Safety
/// As `tombolo.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_draft_write(
    draft: *mut DraftHandle<'_, '_>,
    offset: usize,
    source: *const u8,
    length: usize,
) -> Status {
    guard(|| {
        // SAFETY: `length` bytes of the caller's, by the contract.
        let source = unsafe { bytes(source, length, "the source") }?;
        // SAFETY: null is told apart; else what a writer was given, while it runs, by the contract. A writer
        // runs in one thread and this function calls no other code, so there is no other reference.
        let draft = unsafe { draft.as_mut() }.ok_or_else(|| Failure::invalid("the draft is null"))?;
        draft.0.write_at(offset, source).map_err(|error| Failure::invalid(error.to_string()))
    })
}

/// `tombolo_wait`: see `tombolo.h`.
///
/// # Safety
/// As `tombolo.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_wait(
    channels: *const *mut ChannelHandle,
    count: usize,
    timeout_ns: u64,
    index: *mut usize,
) -> Status {
    guard(|| {
        present(index, "where to put the index")?;
        if count != 0 && (channels.is_null() || count > isize::MAX as usize / size_of::<usize>()) {
            return Err(Failure::invalid("the channels are null"));
        }
        // SAFETY: `count` pointers of the caller's, by the contract.
        let pointers = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(channels, count) } };
        let mut handles = Vec::with_capacity(count);
        for pointer in pointers {
            // SAFETY: a live handle, by the contract.
            handles.push(unsafe { shared(*pointer, "a channel") }?);
        }
        let mut found = 0;
        all_of(&handles, &mut Vec::with_capacity(count), &mut |ends| {
            found = wait_on(ends, Duration::from_nanos(timeout_ns))?;
            Ok(())
        })?;
        // SAFETY: the caller's room for a number, by the contract.
        unsafe { put(index, found, "where to put the index") }
    })
}

/// Calls `body` with all ends, of which none is in use.
fn all_of<'a>(
    handles: &[&'a ChannelHandle],
    ends: &mut Vec<&mut End>,
    body: &mut dyn FnMut(&mut [&mut End]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some((first, rest)) = handles.split_first() else { return body(ends) };
    first.end.with(|end| {
        let mut more: Vec<&mut End> = Vec::with_capacity(ends.len() + 1);
        more.extend(ends.iter_mut().map(|end| &mut **end));
        more.push(end);
        all_of(rest, &mut more, body)
    })
}

fn wait_on(ends: &mut [&mut End], timeout: Duration) -> Result<usize, Failure> {
    if let Some(index) = ends.iter().position(|end| end.kept.is_some()) {
        return Ok(index);
    }
    let mut channels = ends.iter_mut().map(|end| end.channel()).collect::<Result<Vec<_>, _>>()?;
    Ok(wait_any(&mut channels, timeout)?)
}

/// `tombolo_arm`: see `tombolo.h`.
///
/// # Safety
/// As `tombolo.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_arm(channel: *mut ChannelHandle, descriptor: *mut i32) -> Status {
    guard(|| {
        present(descriptor, "where to put the descriptor")?;
        let arm = |end: &mut End| {
            let kept = end.kept.is_some();
            let (set, _) = end.set()?;
            let raw = set.as_fd().as_raw_fd();
            let nothing = match set.wait(Duration::ZERO) {
                Ok(_) => false,
                Err(Error::TimedOut { .. } | Error::WouldBlock) => !kept,
                Err(error) => return Err(error.into()),
            };
            Ok((raw, nothing))
        };
        // SAFETY: a live handle, by the contract.
        let (raw, nothing) = unsafe { with(channel, arm) }?;
        // SAFETY: the caller's room for a number, by the contract.
        unsafe { put(descriptor, raw, "where to put the descriptor") }?;
        if nothing { Err(Error::WouldBlock.into()) } else { Ok(()) }
    })
}

/// `tombolo_max_message_bytes`: see `tombolo.h`.
///
/// # Safety
/// As `tombolo.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_max_message_bytes(channel: *const ChannelHandle) -> usize {
    // SAFETY: a live handle, by the contract.
    ask(0, || Ok(unsafe { shared(channel, "the channel") }?.max_message_bytes))
}

/// `tombolo_channel_id`: see `tombolo.h`.
///
/// # Safety
/// As `tombolo.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_channel_id(channel: *const ChannelHandle) -> u64 {
    // SAFETY: a live handle, by the contract.
    ask(0, || Ok(unsafe { shared(channel, "the channel") }?.id))
}

/// `tombolo_peer`: see `tombolo.h`.
///
/// # Safety
/// As `tombolo.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_peer(channel: *const ChannelHandle) -> u64 {
    // SAFETY: a live handle, by the contract.
    ask(0, || Ok(unsafe { shared(channel, "the channel") }?.peer))
}

/// `tombolo_peer_node`: see `tombolo.h`.
///
/// # Safety
/// As `tombolo.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_peer_node(channel: *const ChannelHandle) -> *const c_char {
    // SAFETY: a live handle, by the contract.
    ask(c"".as_ptr(), || Ok(unsafe { shared(channel, "the channel") }?.peer_node.as_ptr()))
}

/// `tombolo_transport`: see `tombolo.h`.
///
/// # Safety
/// As `tombolo.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_transport(channel: *const ChannelHandle) -> *const c_char {
    // SAFETY: a live handle, by the contract.
    ask(c"".as_ptr(), || Ok(unsafe { shared(channel, "the channel") }?.transport.as_ptr()))
}

/// `tombolo_channel_stats`: see `tombolo.h`.
///
/// # Safety
/// As `tombolo.h` says.
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
        // SAFETY: the caller's room for them, by the contract.
        unsafe { put(stats, passed, "where to put the statistics") }
    })
}
