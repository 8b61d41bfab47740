//! Event queues. The provider has no asynchronous operations to report; the queues hold only events that
//! programs write.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use std::collections::VecDeque;

use crate::abi::*;
use crate::entry::{fid_ops, object};
use crate::waiting::{Deadline, WaitObject};

/// An open event queue.
#[repr(C)]
pub(crate) struct Events {
    fid: fid_eq,
    entries: VecDeque<(u32, Box<[u8]>)>,
    wait: WaitObject,
}

static FID_OPS: fi_ops = fi_ops { control, ..fid_ops(close) };

static OPS: fi_ops_eq = fi_ops_eq { size: size_of::<fi_ops_eq>(), read, readerr, write, sread, strerror };

/// Maximum number of queued events.
const MAX_EVENTS: usize = 65536;

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
pub(crate) unsafe extern "C" fn open(
    _: *mut fid_fabric,
    attr: *mut fi_eq_attr,
    eq: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes a valid structure or null.
    let wait_object = unsafe { attr.as_ref() }.map_or(FI_WAIT_NONE, |attr| attr.wait_obj);
    let wait = match WaitObject::open(wait_object) {
        Ok(wait) => wait,
        Err(error) => return error,
    };
    let fid = fid { fclass: FI_CLASS_EQ, context, ops: ptr::from_ref(&FID_OPS) };
    let opened = Events { fid: fid_eq { fid, ops: ptr::from_ref(&OPS) }, entries: VecDeque::new(), wait };
    // SAFETY: the program passes a valid output pointer.
    unsafe { *eq = Box::into_raw(Box::new(opened)).cast() };
    0
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: allocated by `open` and not used afterwards.
    drop(unsafe { Box::from_raw(fid.cast::<Events>()) });
    0
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn control(fid: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    object!(fid, Events).wait.control(command, argument)
}

impl Events {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
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
    // SAFETY: the program passes an output pointer or null for the number, and a buffer of at least that
    // length.
    unsafe {
        if !event.is_null() {
            *event = *number;
        }
        ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), length);
    }
    if flags & FI_PEEK == 0 {
        events.entries.pop_front();
    }
    length as isize
}

/// Returns that there is no error event, as events never fail.
// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn readerr(_: *mut fid_eq, _: *mut c_void, _: u64) -> isize {
    -(FI_EAGAIN as isize)
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn write(eq: *mut fid_eq, event: u32, buf: *const c_void, len: usize, _: u64) -> isize {
    let events = object!(eq, Events);
    if events.entries.len() >= MAX_EVENTS {
        return -(FI_EAGAIN as isize);
    }
    let bytes = match len {
        0 => Box::default(),
        // SAFETY: the program passes `len` bytes at `buf`.
        _ => unsafe { core::slice::from_raw_parts(buf.cast::<u8>(), len) }.into(),
    };
    events.entries.push_back((event, bytes));
    events.wait.wake();
    len as isize
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn sread(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    let deadline = Deadline::from_timeout_ms(timeout);
    loop {
        // SAFETY: the caller upholds the same contract for `sread`.
        let found = unsafe { read(eq, event, buf, len, flags) };
        let left = deadline.remaining();
        if found != -(FI_EAGAIN as isize) || left.is_zero() {
            return found;
        }
        let wait = &mut object!(eq, Events).wait;
        if !wait.exists() {
            return -(FI_ENOSYS as isize);
        }
        wait.wait(left);
    }
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn strerror(
    _: *mut fid_eq,
    error: c_int,
    data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: the caller passes a valid buffer; the queue pointer is not dereferenced.
    unsafe { crate::queue::strerror(ptr::null_mut(), error, data, buf, len) }
}
