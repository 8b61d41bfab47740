//! Event queues. Nothing here takes so long that an event would tell of it; programs put in events of their own.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::abi::*;
use crate::fabric::NO_FID_OPS;
use crate::object;
use crate::queue::Waiting;

/// An event queue that was opened.
#[repr(C)]
pub(crate) struct Events {
    fid: fid_eq,
    entries: VecDeque<(u32, Box<[u8]>)>,
    wait_object: c_int,
    waiting: Option<Waiting>,
}

static FID_OPS: fi_ops = fi_ops { close, control, ..NO_FID_OPS };

static OPS: fi_ops_eq = fi_ops_eq { size: size_of::<fi_ops_eq>(), read, readerr, write, sread, strerror };

/// Events of a program that are kept.
const MAX_EVENTS: usize = 65536;

/// A read that leaves the event where it is.
const FI_PEEK_FLAG: u64 = FI_PEEK;

// SAFETY: callers keep to what libfabric's manual says of the call.
pub(crate) unsafe extern "C" fn open(
    _: *mut fid_fabric,
    attr: *mut fi_eq_attr,
    eq: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes a structure or null.
    let wait_object = unsafe { attr.as_ref() }.map_or(FI_WAIT_NONE, |attr| attr.wait_obj);
    let waiting = match wait_object {
        FI_WAIT_NONE => None,
        FI_WAIT_UNSPEC | FI_WAIT_FD | FI_WAIT_YIELD => match Waiting::new() {
            Some(waiting) => Some(waiting),
            None => return -FI_ENOMEM,
        },
        _ => return -FI_ENOSYS,
    };
    let fid = fid { fclass: FI_CLASS_EQ, context, ops: ptr::from_ref(&FID_OPS) };
    let opened = Events {
        fid: fid_eq { fid, ops: ptr::from_ref(&OPS) },
        entries: VecDeque::new(),
        wait_object,
        waiting,
    };
    // SAFETY: the program passes where the pointer goes.
    unsafe { *eq = Box::into_raw(Box::new(opened)).cast() };
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: what `open` made, which nobody uses any more.
    drop(unsafe { Box::from_raw(fid.cast::<Events>()) });
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn control(fid: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    let events = object!(fid, Events);
    match (command, &events.waiting) {
        // SAFETY: the program passes where the answer goes.
        (FI_GETWAIT, Some(waiting)) => unsafe { *argument.cast::<c_int>() = waiting.descriptor() },
        // SAFETY: as above.
        (FI_GETWAITOBJ, _) => unsafe { *argument.cast::<c_int>() = events.wait_object },
        _ => return -FI_ENOSYS,
    }
    0
}

impl Events {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn read(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    let events = object!(eq, Events);
    let Some((number, bytes)) = events.entries.front() else { return -(FI_EAGAIN as isize) };
    if bytes.len() > len {
        return -(FI_ETOOSMALL as isize);
    }
    let length = bytes.len();
    // SAFETY: the program passes where the number goes and a buffer of that length.
    unsafe {
        if !event.is_null() {
            *event = *number;
        }
        ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), length);
    }
    if flags & FI_PEEK_FLAG == 0 {
        events.entries.pop_front();
    }
    length as isize
}

/// Events here never fail.
// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn readerr(_: *mut fid_eq, _: *mut c_void, _: u64) -> isize {
    -(FI_EAGAIN as isize)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn write(eq: *mut fid_eq, event: u32, buf: *const c_void, len: usize, _: u64) -> isize {
    let events = object!(eq, Events);
    if events.entries.len() >= MAX_EVENTS {
        return -(FI_EAGAIN as isize);
    }
    let bytes = match len {
        0 => Box::default(),
        // SAFETY: the program passes so many bytes.
        _ => unsafe { core::slice::from_raw_parts(buf.cast::<u8>(), len) }.into(),
    };
    events.entries.push_back((event, bytes));
    if let Some(waiting) = &events.waiting {
        waiting.waker().wake();
    }
    len as isize
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn sread(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
    let begin = Instant::now();
    loop {
        // SAFETY: the caller's, as of `sread` itself.
        let found = unsafe { read(eq, event, buf, len, flags) };
        let left = limit.map_or(Duration::from_secs(3600), |limit| limit.saturating_sub(begin.elapsed()));
        if found != -(FI_EAGAIN as isize) || left.is_zero() {
            return found;
        }
        let Some(waiting) = &mut object!(eq, Events).waiting else { return -(FI_ENOSYS as isize) };
        waiting.wait(left);
    }
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn strerror(
    _: *mut fid_eq,
    error: c_int,
    data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: the caller's; the queue is not looked at.
    unsafe { crate::queue::strerror(ptr::null_mut(), error, data, buf, len) }
}
