//! Groups whose members broadcast to all others: `tombolo/group.h`.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use tombolo_group::{Event, Group, GroupError, GroupOptions, Peer};

use crate::boundary::{
    Exclusive, bytes, bytes_mut, check_not_null, deref, from_handle, guard, guard_value, into_handle, text,
    write_result,
};
use crate::domain::DomainHandle;
use crate::status::{Failure, Status};

/// `tombolo_group`.
#[derive(Debug)]
pub struct GroupHandle {
    state: Exclusive<State>,
}

#[derive(Debug)]
struct State {
    group: Group,
    /// Message that was longer than the caller's buffer: the next receive returns it.
    pending_event: Option<Event>,
}

/// `tombolo_group_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Options {
    fan_out: u16,
    buffers: u16,
    chunk_bytes: u32,
    window_chunks: u32,
    max_message_bytes: u32,
    flags: u32,
    reserved: u32,
    inbox_bytes: u64,
    spin_ns: u64,
}

/// `TOMBOLO_TOTAL_ORDER`.
const TOTAL_ORDER: u32 = 1;

/// `tombolo_group_peer`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PeerInfo {
    member: u64,
    domain: u64,
    node: [u8; 64],
}

/// `tombolo_group_event`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EventInfo {
    member: u64,
    length: usize,
    kind: u32,
    died: bool,
}

impl From<GroupError> for Failure {
    fn from(error: GroupError) -> Failure {
        let status = match error {
            GroupError::Domain(error) => return error.into(),
            GroupError::TimedOut { .. } => Status::TimedOut,
            GroupError::TooLong { .. } => Status::TooLong,
            GroupError::Expelled { .. } => Status::Expelled,
            _ => Status::InvalidArgument,
        };
        Failure::new(status, error.to_string())
    }
}

impl Options {
    fn read(&self) -> Result<GroupOptions, Failure> {
        if self.flags & !TOTAL_ORDER != 0 || self.reserved != 0 {
            return Err(Failure::invalid("options of a group have flags that this library does not know"));
        }
        let mut options = GroupOptions::default();
        if self.fan_out != 0 {
            options = options.fan_out(self.fan_out)?;
        }
        if self.buffers != 0 {
            options = options.buffers(self.buffers)?;
        }
        if self.chunk_bytes != 0 {
            options = options.chunk_bytes(self.chunk_bytes)?;
        }
        if self.window_chunks != 0 {
            options = options.window_chunks(self.window_chunks)?;
        }
        if self.max_message_bytes != 0 {
            options = options.max_message_bytes(self.max_message_bytes)?;
        }
        if self.inbox_bytes != 0 {
            options = options.inbox_bytes(usize::try_from(self.inbox_bytes).unwrap_or(usize::MAX));
        }
        if self.spin_ns != 0 {
            options = options.spin_ns(self.spin_ns);
        }
        Ok(if self.flags & TOTAL_ORDER != 0 { options.total_order() } else { options })
    }
}

/// # Safety
/// The pointer is null, or points to options.
unsafe fn options(pointer: *const Options, timeout_ns: u64) -> Result<GroupOptions, Failure> {
    // SAFETY: this function's safety condition.
    let options = match unsafe { pointer.as_ref() } {
        None => GroupOptions::default(),
        Some(options) => options.read()?,
    };
    Ok(options.timeout(Duration::from_nanos(timeout_ns)))
}

fn handle(group: Group) -> *mut GroupHandle {
    into_handle(GroupHandle { state: Exclusive::new(State { group, pending_event: None }) })
}

fn would_block() -> Failure {
    tombolo::Error::WouldBlock.into()
}

impl State {
    fn broadcast(&mut self, message: &[u8], timeout_ns: u64) -> Result<(), Failure> {
        match timeout_ns {
            0 if self.group.try_broadcast(message)? => Ok(()),
            0 => Err(would_block()),
            _ => Ok(self.group.within(Duration::from_nanos(timeout_ns)).broadcast(message)?),
        }
    }

    fn recv(&mut self, timeout_ns: u64) -> Result<Event, Failure> {
        match (self.pending_event.take(), timeout_ns) {
            (Some(event), _) => Ok(event),
            (None, 0) => self.group.try_recv()?.ok_or_else(would_block),
            (None, _) => Ok(self.group.within(Duration::from_nanos(timeout_ns)).recv()?),
        }
    }

    fn flush(&mut self, timeout_ns: u64) -> Result<(), Failure> {
        match self.group.within(Duration::from_nanos(timeout_ns)).flush() {
            Err(GroupError::TimedOut { .. }) if timeout_ns == 0 => Err(would_block()),
            flushed => Ok(flushed?),
        }
    }
}

fn info(event: &Event) -> EventInfo {
    match event {
        Event::Joined(member) => EventInfo { member: member.0, length: 0, kind: 1, died: false },
        Event::Message { from, data } => {
            EventInfo { member: from.0, length: data.len(), kind: 2, died: false }
        }
        Event::Left { member, died } => EventInfo { member: member.0, length: 0, kind: 3, died: *died },
    }
}

impl From<&Peer> for PeerInfo {
    fn from(peer: &Peer) -> PeerInfo {
        let mut node = [0; 64];
        // The last byte stays zero, and the name is cut at a character boundary.
        let length = peer.node.floor_char_boundary(node.len() - 1);
        node[..length].copy_from_slice(&peer.node.as_bytes()[..length]);
        PeerInfo { member: peer.member.0, domain: peer.domain.to_bits(), node }
    }
}

/// Runs `body` with the state of a group.
///
/// # Safety
/// The pointer is null, or a live handle.
unsafe fn with<R>(
    group: *const GroupHandle,
    body: impl FnOnce(&mut State) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // SAFETY: this function's safety condition; the mutable state of a handle is inside `Exclusive`.
    unsafe { deref(group, "the group") }?.state.with(body)
}

/// `tombolo_group_join`: see `tombolo/group.h`.
///
/// # Safety
/// As documented in `tombolo/group.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_group_join(
    domain: *const DomainHandle,
    name: *const c_char,
    given: *const Options,
    timeout_ns: u64,
    result: *mut *mut GroupHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the group")?;
        // SAFETY: a live handle, by the contract; it never changes.
        let domain = &unsafe { deref(domain, "the domain") }?.domain;
        // SAFETY: a C string, by the contract.
        let name = unsafe { text(name, "the name of the group") }?;
        // SAFETY: null or options, by the contract.
        let options = unsafe { options(given, timeout_ns) }?;
        let group = handle(Group::join(domain, name, &options)?);
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, group, "where to put the group") }
    })
}

/// `tombolo_group_of_job`: see `tombolo/group.h`.
///
/// # Safety
/// As documented in `tombolo/group.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_group_of_job(
    domain: *const DomainHandle,
    given: *const Options,
    timeout_ns: u64,
    result: *mut *mut GroupHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the group")?;
        // SAFETY: a live handle, by the contract; it never changes.
        let domain = &unsafe { deref(domain, "the domain") }?.domain;
        // SAFETY: null or options, by the contract.
        let options = unsafe { options(given, timeout_ns) }?;
        let group = handle(Group::of_job(domain, &domain.job()?, &options)?);
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, group, "where to put the group") }
    })
}

/// `tombolo_group_id`: see `tombolo/group.h`.
///
/// # Safety
/// As documented in `tombolo/group.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_group_id(group: *const GroupHandle) -> u64 {
    // SAFETY: null, or a live handle, by the contract.
    guard_value(0, || unsafe { with(group, |state| Ok(state.group.id().0)) })
}

/// `tombolo_group_peers`: see `tombolo/group.h`.
///
/// # Safety
/// As documented in `tombolo/group.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_group_peers(
    group: *const GroupHandle,
    peers: *mut PeerInfo,
    capacity: usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        check_not_null(count, "where to put the number of members")?;
        let list = |state: &mut State| Ok(state.group.peers().map(PeerInfo::from).collect::<Vec<_>>());
        // SAFETY: a live handle, by the contract.
        let found = unsafe { with(group, list) }?;
        for (index, peer) in found.iter().enumerate().take(capacity) {
            // SAFETY: valid for writes of `capacity` elements, by the contract; null is checked.
            unsafe { write_result(peers.wrapping_add(index), *peer, "where to put the members") }?;
        }
        // SAFETY: valid for a write of a number, by the contract.
        unsafe { write_result(count, found.len(), "where to put the number of members") }
    })
}

/// `tombolo_group_broadcast`: see `tombolo/group.h`.
///
/// # Safety
/// As documented in `tombolo/group.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_group_broadcast(
    group: *const GroupHandle,
    message: *const c_void,
    length: usize,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        // SAFETY: `length` bytes, by the contract.
        let message = unsafe { bytes(message.cast(), length, "the message") }?;
        // SAFETY: a live handle, by the contract.
        unsafe { with(group, |state| state.broadcast(message, timeout_ns)) }
    })
}

/// `tombolo_group_recv`: see `tombolo/group.h`.
///
/// # Safety
/// As documented in `tombolo/group.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_group_recv(
    group: *const GroupHandle,
    result: *mut EventInfo,
    buffer: *mut c_void,
    capacity: usize,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the event")?;
        // SAFETY: the caller's buffer with this capacity, by the contract.
        let room = unsafe { bytes_mut(buffer.cast(), capacity, "the buffer") }?;
        let recv = |state: &mut State| {
            let event = state.recv(timeout_ns)?;
            let info = info(&event);
            // SAFETY: valid for writes, by the contract.
            unsafe { write_result(result, info, "where to put the event") }?;
            let Event::Message { data, .. } = &event else { return Ok(()) };
            if let Some(room) = room.get_mut(..data.len()) {
                room.copy_from_slice(data);
                return Ok(());
            }
            let text =
                format!("a message of {} bytes does not fit {capacity}; the next call has it", data.len());
            state.pending_event = Some(event);
            Err(Failure::new(Status::BufferTooShort, text))
        };
        // SAFETY: a live handle, by the contract.
        unsafe { with(group, recv) }
    })
}

/// `tombolo_group_flush`: see `tombolo/group.h`.
///
/// # Safety
/// As documented in `tombolo/group.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_group_flush(group: *const GroupHandle, timeout_ns: u64) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract.
        unsafe { with(group, |state| state.flush(timeout_ns)) }
    })
}

/// `tombolo_group_leave`: see `tombolo/group.h`.
///
/// # Safety
/// As documented in `tombolo/group.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_group_leave(group: *mut GroupHandle, timeout_ns: u64) -> Status {
    guard(|| {
        // SAFETY: null, or a live handle, by the contract.
        unsafe { deref(group, "the group") }?.state.retire()?;
        // SAFETY: a handle that is released once, by the contract; it is retired: no other call uses it.
        let Some(handle) = (unsafe { from_handle(group) }) else { return Ok(()) };
        let mut group = handle.state.into_inner().group;
        let _ = group.within(Duration::from_nanos(timeout_ns));
        match group.leave() {
            Err(GroupError::TimedOut { .. }) if timeout_ns == 0 => Err(would_block()),
            left => Ok(left?),
        }
    })
}

/// `tombolo_group_drop`: see `tombolo/group.h`.
///
/// # Safety
/// As documented in `tombolo/group.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_group_drop(group: *mut GroupHandle) {
    guard(|| {
        // SAFETY: null, or a handle that is released once, by the contract.
        drop(unsafe { from_handle(group) });
        Ok(())
    });
}
