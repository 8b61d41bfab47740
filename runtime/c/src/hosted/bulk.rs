//! Channels for bulk data.

use std::ffi::{CString, c_char};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use tombolo::bulk::{PoolOffer, Received};
use tombolo::{
    Arrival, Buffer, BulkChannel, BulkOptions, ChannelOptions, Error, NotSent, PoolOptions, TransportKind,
};

use crate::boundary::{
    Exclusive, bytes, c_text, check_not_null, deref, from_handle, guard, guard_value, into_handle, text,
    write_result,
};
use crate::carrier::{Carrier, moving_failure};
use crate::domain::{DomainHandle, ListenerHandle};
use crate::pool::{BufferHandle, BufferRight, PoolHandle, pool_of, trust_of, with_right};
use crate::status::{Failure, Status};

/// `tombolo_bulk`.
#[derive(Debug)]
pub struct BulkHandle {
    end: Exclusive<End>,
    id: u64,
    peer: u64,
    peer_node: CString,
    transport: &'static std::ffi::CStr,
}

#[derive(Debug)]
struct End {
    carrier: Carrier<BulkChannel>,
    metadata: Vec<u8>,
    /// Pieces of a transfer that were not returned yet, the next one last.
    pieces: Vec<BufferRight>,
    offer: Option<PoolOffer>,
}

/// `tombolo_bulk_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Options {
    max_pool_bytes: u64,
    spin_ns: u64,
    trust: u32,
    flags: u32,
    max_pools: u32,
    max_metadata: u32,
    slots: u32,
    reserved: u32,
}

/// `TOMBOLO_ASK` and `TOMBOLO_NO_METADATA`.
const ASK: u32 = 1;
const NO_METADATA: u32 = 2;

impl Options {
    fn read(&self) -> Result<BulkOptions, Failure> {
        if self.flags & !(ASK | NO_METADATA) != 0 || self.reserved != 0 {
            return Err(Failure::invalid("options have flags that this library does not know"));
        }
        let mut channel = ChannelOptions::default();
        if self.slots != 0 {
            channel = channel.slots(self.slots)?;
        }
        if self.spin_ns != 0 {
            channel = channel.spin_ns(self.spin_ns);
        }
        let mut options = BulkOptions::default().trust(trust_of(self.trust)?).channel(channel);
        if self.max_pools != 0 {
            let pools = u8::try_from(self.max_pools).unwrap_or(u8::MAX);
            options = options.max_pools(pools)?;
        }
        if self.max_metadata != 0 || self.flags & NO_METADATA != 0 {
            let bytes = u16::try_from(self.max_metadata).unwrap_or(u16::MAX);
            options = options.max_metadata_bytes(bytes)?;
        }
        if self.max_pool_bytes != 0 {
            options = options.max_pool_bytes(self.max_pool_bytes);
        }
        Ok(if self.flags & ASK != 0 { options.ask_before_taking_pools() } else { options })
    }
}

/// # Safety
/// The pointer is null, or points to options.
pub(crate) unsafe fn options(pointer: *const Options) -> Result<BulkOptions, Failure> {
    // SAFETY: this function's safety condition.
    match unsafe { pointer.as_ref() } {
        None => Ok(BulkOptions::default()),
        Some(options) => options.read(),
    }
}

/// `tombolo_arrival`.
#[derive(Debug)]
#[repr(C)]
pub struct ArrivalInfo {
    kind: u32,
    count: u32,
    metadata: *const u8,
    metadata_length: usize,
    buffer: *mut BufferHandle,
    pool: *mut PoolHandle,
    offered_bytes: u64,
    offered_count: u32,
    reserved: u32,
}

impl End {
    fn channel(&mut self) -> Result<&mut BulkChannel, Failure> {
        self.carrier.channel()
    }

    /// Keeps all pieces except the first, which it returns.
    fn unpack<T>(
        &mut self,
        received: Received<T>,
        hand: impl Fn(T) -> BufferRight,
    ) -> (u32, *mut BufferHandle) {
        self.pieces = received.into_vec().into_iter().rev().map(hand).collect();
        let count = u32::try_from(self.pieces.len()).unwrap_or(u32::MAX);
        (count, self.pieces.pop().map_or(std::ptr::null_mut(), BufferHandle::into_handle))
    }

    fn arrival_info(&mut self, arrival: Arrival) -> ArrivalInfo {
        let mut info = ArrivalInfo {
            kind: 0,
            count: 0,
            metadata: self.metadata.as_ptr(),
            metadata_length: self.metadata.len(),
            buffer: std::ptr::null_mut(),
            pool: std::ptr::null_mut(),
            offered_bytes: 0,
            offered_count: 0,
            reserved: 0,
        };
        let many = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        match arrival {
            Arrival::Moved(received) => {
                info.kind = 1;
                (info.count, info.buffer) = self.unpack(received, BufferRight::Owned);
            }
            Arrival::Shared(received) => {
                info.kind = 2;
                (info.count, info.buffer) = self.unpack(received, BufferRight::Lent);
            }
            Arrival::Passed(count) => (info.kind, info.count) = (3, many(count)),
            Arrival::Released(count) => (info.kind, info.count) = (4, many(count)),
            Arrival::Pool(pool) => (info.kind, info.pool) = (5, into_handle(PoolHandle { pool })),
            Arrival::Offered(offer) => {
                (info.kind, info.offered_bytes, info.offered_count) =
                    (6, offer.buffer_bytes(), offer.count());
                self.offer = Some(offer);
            }
            Arrival::PoolGone(pool) => (info.kind, info.pool) = (7, into_handle(PoolHandle { pool })),
        }
        info
    }
}

impl BulkHandle {
    pub(crate) fn into_handle(channel: BulkChannel) -> *mut BulkHandle {
        let under = channel.channel();
        let transport = match under.transport() {
            TransportKind::Shm => c"shm",
            TransportKind::Window => c"window",
            TransportKind::Socket => c"socket",
        };
        let (id, peer, peer_node) = (under.id().0, under.peer().to_bits(), c_text(under.peer_node()));
        let carrier = Carrier::new(channel);
        let end = End { carrier, metadata: Vec::new(), pieces: Vec::new(), offer: None };
        into_handle(BulkHandle { end: Exclusive::new(end), id, peer, peer_node, transport })
    }
}

/// Runs `body` with the end of a bulk channel.
///
/// # Safety
/// The pointer is null, or a live handle.
unsafe fn with<R>(
    bulk: *const BulkHandle,
    body: impl FnOnce(&mut End) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // SAFETY: this function's safety condition; the mutable state of a handle is inside `Exclusive`.
    unsafe { deref(bulk, "the bulk channel") }?.end.with(body)
}

/// `tombolo_export_bulk`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_export_bulk(
    domain: *const DomainHandle,
    name: *const c_char,
    how: *const Options,
    result: *mut *mut ListenerHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the listener")?;
        // SAFETY: a live handle, a C string and options, by the contract.
        let (domain, name, how) =
            unsafe { (deref(domain, "the domain")?, text(name, "the name")?, options(how)?) };
        let listener = how.export(&domain.domain, name)?;
        let listener = into_handle(ListenerHandle::Bulk(listener));
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, listener, "where to put the listener") }
    })
}

/// `tombolo_accept_bulk`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_accept_bulk(
    listener: *const ListenerHandle,
    timeout_ns: u64,
    result: *mut *mut BulkHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the bulk channel")?;
        // SAFETY: a live handle, by the contract; the object is `Sync`.
        let listener = unsafe { deref(listener, "the listener") }?;
        let ListenerHandle::Bulk(listener) = listener else {
            return Err(Failure::invalid("the name was not taken up by tombolo_export_bulk"));
        };
        let channel = listener.within(Duration::from_nanos(timeout_ns)).accept()?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, BulkHandle::into_handle(channel), "where to put the bulk channel") }
    })
}

/// `tombolo_connect_bulk`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_connect_bulk(
    domain: *const DomainHandle,
    name: *const c_char,
    how: *const Options,
    timeout_ns: u64,
    result: *mut *mut BulkHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the bulk channel")?;
        // SAFETY: a live handle, a C string and options, by the contract.
        let (domain, name, how) =
            unsafe { (deref(domain, "the domain")?, text(name, "the name")?, options(how)?) };
        let channel = how.connect(&domain.domain.within(Duration::from_nanos(timeout_ns)), name)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, BulkHandle::into_handle(channel), "where to put the bulk channel") }
    })
}

/// `tombolo_bulk_close`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_close(bulk: *mut BulkHandle) -> Status {
    guard(|| {
        if bulk.is_null() {
            return Ok(());
        }
        // SAFETY: a live handle, by the contract. A handle that is in use is refused and remains valid.
        unsafe { deref(bulk, "the bulk channel") }?.end.retire()?;
        // SAFETY: the handle is released once, by the contract, and is not in use: it was not when it was
        // retired, and later calls are refused.
        drop(unsafe { from_handle(bulk) });
        Ok(())
    })
}

/// `tombolo_bulk_create_pool`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_create_pool(
    bulk: *mut BulkHandle,
    buffer_bytes: u64,
    count: u32,
    timeout_ns: u64,
    result: *mut *mut PoolHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the pool")?;
        let options = PoolOptions::new(buffer_bytes, count);
        let mut made = None;
        let create = |end: &mut End| {
            made = Some(end.channel()?.within(Duration::from_nanos(timeout_ns)).create_pool(&options)?);
            Ok(())
        };
        // SAFETY: a live handle, by the contract.
        unsafe { with(bulk, create) }?;
        let pool = made.ok_or_else(moving_failure)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, into_handle(PoolHandle { pool }), "where to put the pool") }
    })
}

/// `tombolo_bulk_assign`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_assign(
    bulk: *mut BulkHandle,
    pool: *const PoolHandle,
    here_only: bool,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract.
        let (pool, timeout) = (unsafe { pool_of(pool) }?, Duration::from_nanos(timeout_ns));
        let assign = |end: &mut End| match here_only {
            true => Ok(end.channel()?.within(timeout).assign_here_only(pool)?),
            false => Ok(end.channel()?.within(timeout).assign(pool)?),
        };
        // SAFETY: a live handle, by the contract.
        unsafe { with(bulk, assign) }
    })
}

/// `tombolo_bulk_unassign`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_unassign(
    bulk: *mut BulkHandle,
    pool: *const PoolHandle,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract.
        let (pool, timeout) = (unsafe { pool_of(pool) }?, Duration::from_nanos(timeout_ns));
        // SAFETY: a live handle, by the contract.
        unsafe { with(bulk, |end| Ok(end.channel()?.within(timeout).unassign(pool)?)) }
    })
}

/// `tombolo_bulk_take_pool`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_take_pool(
    bulk: *mut BulkHandle,
    timeout_ns: u64,
    result: *mut *mut PoolHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the pool")?;
        let take = |end: &mut End| {
            let offer = end.offer.take().ok_or_else(no_pending_offer)?;
            Ok(end.channel()?.within(Duration::from_nanos(timeout_ns)).take_pool(offer)?)
        };
        // SAFETY: a live handle, by the contract.
        let pool = unsafe { with(bulk, take) }?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, into_handle(PoolHandle { pool }), "where to put the pool") }
    })
}

/// `tombolo_bulk_decline_pool`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_decline_pool(bulk: *mut BulkHandle, timeout_ns: u64) -> Status {
    let decline = |end: &mut End| {
        let offer = end.offer.take().ok_or_else(no_pending_offer)?;
        Ok(end.channel()?.within(Duration::from_nanos(timeout_ns)).decline_pool(offer)?)
    };
    // SAFETY: a live handle, by the contract.
    guard(|| unsafe { with(bulk, decline) })
}

fn no_pending_offer() -> Failure {
    Failure::invalid("no pool is offered, or it was answered already")
}

/// Takes buffers out of their handles; all or none.
///
/// # Safety
/// The pointers are null, or live handles.
pub(crate) unsafe fn take_buffers(handles: &[*mut BufferHandle]) -> Result<Vec<Buffer>, Failure> {
    let mut buffers = Vec::with_capacity(handles.len());
    for handle in handles {
        let take = |hand: &mut BufferRight| match std::mem::replace(hand, BufferRight::Gone) {
            BufferRight::Owned(buffer) => Ok(buffer),
            other => {
                *hand = other;
                Err(Failure::new(Status::BufferState, "a buffer is shared, or not here any more"))
            }
        };
        // SAFETY: this function's safety condition.
        match unsafe { with_right(*handle, take) } {
            Ok(buffer) => buffers.push(buffer),
            Err(failure) => {
                // SAFETY: this function's safety condition.
                unsafe { restore_buffers(handles, buffers.into_iter().map(BufferRight::Owned)) };
                return Err(failure);
            }
        }
    }
    Ok(buffers)
}

/// # Safety
/// As for [`take_buffers`].
pub(crate) unsafe fn restore_buffers(
    handles: &[*mut BufferHandle],
    hands: impl Iterator<Item = BufferRight>,
) {
    for (handle, back) in handles.iter().zip(hands) {
        let put = |hand: &mut BufferRight| {
            *hand = back;
            Ok(())
        };
        // SAFETY: this function's safety condition. A handle that another thread uses meanwhile is skipped
        // and loses its buffer; that thread violates the contract.
        let _ = unsafe { with_right(*handle, put) };
    }
}

/// Converts an array of 1 to 65536 handles to a slice.
///
/// # Safety
/// `buffers` is null or points to `count` pointers, which do not change while the slice is in use.
pub(crate) unsafe fn list<'a>(
    buffers: *const *mut BufferHandle,
    count: usize,
) -> Result<&'a [*mut BufferHandle], Failure> {
    if buffers.is_null() || count == 0 || count > 1 << 16 {
        return Err(Failure::invalid("there are no buffers to be sent"));
    }
    // SAFETY: not null, and `count` pointers, by this function's safety condition.
    Ok(unsafe { std::slice::from_raw_parts(buffers, count) })
}

/// `tombolo_bulk_move`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_move(
    bulk: *mut BulkHandle,
    buffers: *const *mut BufferHandle,
    count: usize,
    metadata: *const u8,
    metadata_length: usize,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        // SAFETY: `count` pointers and `metadata_length` bytes of the caller, by the contract.
        let (handles, metadata) =
            unsafe { (list(buffers, count)?, bytes(metadata, metadata_length, "the metadata")?) };
        let timeout = Duration::from_nanos(timeout_ns);
        let send = |end: &mut End| {
            let channel = end.channel()?;
            // SAFETY: live handles, by the contract.
            let all = unsafe { take_buffers(handles) }?;
            channel.within(timeout).move_all(all, metadata).map_err(|not_sent| {
                let NotSent { error, kept } = *not_sent;
                // SAFETY: live handles, by the contract.
                unsafe { restore_buffers(handles, kept.into_iter().map(BufferRight::Owned)) };
                error.into()
            })
        };
        // SAFETY: a live handle, by the contract.
        unsafe { with(bulk, send) }?;
        for handle in handles {
            // SAFETY: live handles, which are released here, by the contract.
            drop(unsafe { from_handle(*handle) });
        }
        Ok(())
    })
}

/// `tombolo_bulk_share`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_share(
    bulk: *mut BulkHandle,
    buffers: *const *mut BufferHandle,
    count: usize,
    metadata: *const u8,
    metadata_length: usize,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        // SAFETY: `count` pointers and `metadata_length` bytes of the caller, by the contract.
        let (handles, metadata) =
            unsafe { (list(buffers, count)?, bytes(metadata, metadata_length, "the metadata")?) };
        let timeout = Duration::from_nanos(timeout_ns);
        let share = |end: &mut End| {
            let channel = end.channel()?;
            if let [one] = handles {
                let again = |hand: &mut BufferRight| match hand {
                    BufferRight::Lent(shared) => {
                        Ok(Some(channel.within(timeout).share_again(shared, metadata)?))
                    }
                    _ => Ok(None),
                };
                // SAFETY: a live handle, by the contract.
                if unsafe { with_right(*one, again) }?.is_some() {
                    return Ok(());
                }
            }
            // SAFETY: live handles, by the contract.
            let all = unsafe { take_buffers(handles) }?;
            match channel.within(timeout).share_all(all, metadata) {
                Ok(shared) => {
                    // SAFETY: live handles, by the contract.
                    unsafe { restore_buffers(handles, shared.into_iter().map(BufferRight::Lent)) };
                    Ok(())
                }
                Err(not_sent) => {
                    let NotSent { error, kept } = *not_sent;
                    // SAFETY: live handles, by the contract.
                    unsafe { restore_buffers(handles, kept.into_iter().map(BufferRight::Owned)) };
                    Err(error.into())
                }
            }
        };
        // SAFETY: a live handle, by the contract.
        unsafe { with(bulk, share) }
    })
}

/// Passes or releases one buffer and its handle.
///
/// # Safety
/// The handles are live, and `metadata` is null or points to `metadata_length` bytes.
unsafe fn pass_or_release(
    (bulk, buffer): (*mut BulkHandle, *mut BufferHandle),
    (metadata, metadata_length): (*const u8, usize),
    send: impl FnOnce(&mut BulkChannel, BufferRight, &[u8]) -> Result<(), (Failure, BufferRight)>,
) -> Result<(), Failure> {
    // SAFETY: `metadata_length` bytes, by this function's safety condition.
    let metadata = unsafe { bytes(metadata, metadata_length, "the metadata") }?;
    let give = |end: &mut End| {
        let channel = end.channel()?;
        let one = |hand: &mut BufferRight| {
            send(channel, std::mem::replace(hand, BufferRight::Gone), metadata).map_err(|(failure, kept)| {
                *hand = kept;
                failure
            })
        };
        // SAFETY: a live handle, by this function's safety condition.
        unsafe { with_right(buffer, one) }
    };
    // SAFETY: a live handle, by this function's safety condition.
    unsafe { with(bulk, give) }?;
    // SAFETY: a live handle, which is released here.
    drop(unsafe { from_handle(buffer) });
    Ok(())
}

/// `tombolo_bulk_pass`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_pass(
    bulk: *mut BulkHandle,
    buffer: *mut BufferHandle,
    metadata: *const u8,
    metadata_length: usize,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        let pass = |channel: &mut BulkChannel, hand, metadata: &[u8]| match hand {
            BufferRight::Owned(buffer) => {
                let passed = channel.within(Duration::from_nanos(timeout_ns)).pass(buffer, metadata);
                passed.map_err(|not_sent| (not_sent.error.into(), BufferRight::Owned(not_sent.kept)))
            }
            other => Err((Failure::new(Status::BufferState, "the buffer is shared, or not here"), other)),
        };
        // SAFETY: live handles and `metadata_length` bytes, by the contract.
        unsafe { pass_or_release((bulk, buffer), (metadata, metadata_length), pass) }
    })
}

/// `tombolo_bulk_release`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_release(
    bulk: *mut BulkHandle,
    buffer: *mut BufferHandle,
    metadata: *const u8,
    metadata_length: usize,
    timeout_ns: u64,
) -> Status {
    guard(|| {
        let release = |channel: &mut BulkChannel, hand, metadata: &[u8]| match hand {
            BufferRight::Lent(shared) => {
                let released = channel.within(Duration::from_nanos(timeout_ns)).release(shared, metadata);
                released.map_err(|not_sent| (not_sent.error.into(), BufferRight::Lent(not_sent.kept)))
            }
            other => Err((Failure::new(Status::BufferState, "the buffer is not shared, or not here"), other)),
        };
        // SAFETY: live handles and `metadata_length` bytes, by the contract.
        unsafe { pass_or_release((bulk, buffer), (metadata, metadata_length), release) }
    })
}

/// `tombolo_bulk_receive`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_receive(
    bulk: *mut BulkHandle,
    timeout_ns: u64,
    result: *mut ArrivalInfo,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put what arrives")?;
        let receive = |end: &mut End| {
            let mut metadata = std::mem::take(&mut end.metadata);
            let arrival = end.channel()?.within(Duration::from_nanos(timeout_ns)).recv(&mut metadata);
            end.metadata = metadata;
            Ok(end.arrival_info(arrival?))
        };
        // SAFETY: a live handle, by the contract.
        let info = unsafe { with(bulk, receive) }?;
        // SAFETY: valid for writes, by the contract.
        unsafe { write_result(result, info, "where to put what arrives") }
    })
}

/// `tombolo_bulk_next_piece`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_next_piece(bulk: *mut BulkHandle) -> *mut BufferHandle {
    let next = |end: &mut End| Ok(end.pieces.pop().map_or(std::ptr::null_mut(), BufferHandle::into_handle));
    // SAFETY: a live handle, by the contract.
    guard_value(std::ptr::null_mut(), || unsafe { with(bulk, next) })
}

/// `tombolo_bulk_settle`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_settle(bulk: *mut BulkHandle) -> Status {
    // SAFETY: a live handle, by the contract.
    guard(|| unsafe { with(bulk, |end| Ok(end.channel()?.settle()?)) })
}

/// `tombolo_bulk_arm`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_arm(bulk: *mut BulkHandle, descriptor: *mut i32) -> Status {
    guard(|| {
        check_not_null(descriptor, "where to put the descriptor")?;
        let arm = |end: &mut End| {
            let has_arrived = end.channel()?.has_arrived();
            let (set, _) = end.carrier.set()?;
            let raw = set.as_fd().as_raw_fd();
            let nothing = match set.wait(Duration::ZERO) {
                Ok(_) => false,
                Err(Error::TimedOut { .. } | Error::WouldBlock) => !has_arrived,
                Err(error) => return Err(error.into()),
            };
            Ok((raw, nothing))
        };
        // SAFETY: a live handle, by the contract.
        let (raw, nothing) = unsafe { with(bulk, arm) }?;
        // SAFETY: valid for a write of a number, by the contract.
        unsafe { write_result(descriptor, raw, "where to put the descriptor") }?;
        if nothing { Err(Error::WouldBlock.into()) } else { Ok(()) }
    })
}

/// `tombolo_bulk_id`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_id(bulk: *const BulkHandle) -> u64 {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || Ok(unsafe { deref(bulk, "the bulk channel") }?.id))
}

/// `tombolo_bulk_peer`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_peer(bulk: *const BulkHandle) -> u64 {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || Ok(unsafe { deref(bulk, "the bulk channel") }?.peer))
}

/// `tombolo_bulk_peer_node`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_peer_node(bulk: *const BulkHandle) -> *const c_char {
    // SAFETY: a live handle, by the contract.
    guard_value(c"".as_ptr(), || Ok(unsafe { deref(bulk, "the bulk channel") }?.peer_node.as_ptr()))
}

/// `tombolo_bulk_transport`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_bulk_transport(bulk: *const BulkHandle) -> *const c_char {
    // SAFETY: a live handle, by the contract.
    guard_value(c"".as_ptr(), || Ok(unsafe { deref(bulk, "the bulk channel") }?.transport.as_ptr()))
}
