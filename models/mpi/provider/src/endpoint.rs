//! Endpoints: what they are bound to, and what is set of them.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::time::{Duration, Instant};

use tombolo_mpi_fabric::{Address, ChannelNet, Engine};

use crate::abi::*;
use crate::entry::{not_there, object};
use crate::span::Span;
use crate::yields;

/// How long an endpoint that is closed tries to get rid of what was taken over, and keeps memory that its
/// peers still read. What is in the slots of a link outlives it.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long of that it looks without a pause, and the pause between two looks afterwards.
const DRAIN_SPIN: Duration = Duration::from_millis(1);
const DRAIN_PAUSE: Duration = Duration::from_micros(100);

/// An object that endpoints are bound to.
pub(crate) trait Binding {
    /// The endpoint is closed.
    fn remove_endpoint(&mut self, endpoint: *mut Endpoint);
}

/// An endpoint that was opened.
#[repr(C)]
pub(crate) struct Endpoint {
    pub(crate) fid: fid_ep,
    pub(crate) engine: Engine<ChannelNet, Span>,
    /// The domain, and what the endpoint is bound to.
    pub(crate) bindings: Vec<*mut dyn Binding>,
    pub(crate) has_vector: bool,
    /// Whether completions of sends, and of receives, go to a queue.
    pub(crate) sends_to_queue: bool,
    pub(crate) receives_to_queue: bool,
    /// Flags of operations that are given none.
    pub(crate) tx_flags: u64,
    pub(crate) rx_flags: u64,
    /// Only what asks for a completion has one.
    pub(crate) selective_sends: bool,
    pub(crate) selective_receives: bool,
}

pub(crate) static OPS: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel,
    getopt,
    setopt,
    tx_ctx: not_there,
    rx_ctx: not_there,
    rx_size_left: not_there,
    tx_size_left: not_there,
};

pub(crate) static CM_OPS: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: not_there,
    getname,
    getpeer: not_there,
    connect: not_there,
    listen: not_there,
    accept: not_there,
    reject: not_there,
    shutdown: not_there,
    join: not_there,
};

// SAFETY: callers keep to what libfabric's manual says of the call.
pub(crate) unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let this = fid.cast::<Endpoint>();
    let closing = object!(this, Endpoint);
    let begin = Instant::now();
    while !closing.engine.is_drained() && begin.elapsed() < DRAIN_TIMEOUT {
        closing.engine.look_aside();
        if !closing.engine.progress() {
            // Peers that are at work answer at once; for the others there is no need to spin.
            if begin.elapsed() < DRAIN_SPIN {
                std::thread::yield_now()
            } else {
                std::thread::sleep(DRAIN_PAUSE)
            }
        }
    }
    for binding in core::mem::take(&mut closing.bindings) {
        // SAFETY: an object is not closed as long as an endpoint is bound to it.
        unsafe { &mut *binding }.remove_endpoint(this);
    }
    // SAFETY: what `open` made, which is not used any more.
    drop(unsafe { Box::from_raw(this) });
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
pub(crate) unsafe extern "C" fn control(fid: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    let endpoint = object!(fid, Endpoint);
    match command {
        FI_ENABLE => {
            if !endpoint.has_vector {
                return -FI_ENOAV;
            }
            0
        }
        FI_GETOPSFLAG | FI_SETOPSFLAG => {
            let flags = argument.cast::<u64>();
            // SAFETY: the program passes flags, of which the direction says which are meant.
            unsafe {
                let own = match *flags & (FI_SEND | FI_RECV) {
                    FI_SEND => &mut endpoint.tx_flags,
                    FI_RECV => &mut endpoint.rx_flags,
                    _ => return -FI_EINVAL,
                };
                if command == FI_GETOPSFLAG {
                    *flags = *own;
                } else {
                    *own = *flags & !(FI_SEND | FI_RECV);
                }
            }
            0
        }
        _ => -FI_ENOSYS,
    }
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn cancel(fid: *mut fid, context: *mut c_void) -> isize {
    let found = object!(fid, Endpoint).engine.cancel(context.expose_provenance());
    if found { 0 } else { -(FI_ENOENT as isize) }
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn getopt(
    fid: *mut fid,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    length: *mut usize,
) -> c_int {
    if (level, option) != (FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV) {
        return -FI_ENOPROTOOPT;
    }
    let bytes = object!(fid, Endpoint).engine.min_multi_bytes();
    // SAFETY: the program passes room and how much there is.
    unsafe {
        if *length < size_of::<usize>() {
            return -FI_ETOOSMALL;
        }
        *value.cast::<usize>() = bytes;
        *length = size_of::<usize>();
    }
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn setopt(
    fid: *mut fid,
    level: c_int,
    option: c_int,
    value: *const c_void,
    length: usize,
) -> c_int {
    if (level, option) != (FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV) {
        return -FI_ENOPROTOOPT;
    }
    if length < size_of::<usize>() {
        return -FI_EINVAL;
    }
    // SAFETY: the program passes a value of that length.
    let bytes = unsafe { *value.cast::<usize>() };
    object!(fid, Endpoint).engine.set_min_multi_bytes(bytes);
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn getname(fid: *mut fid, addr: *mut c_void, addrlen: *mut usize) -> c_int {
    let address = object!(fid, Endpoint).engine.address();
    // SAFETY: the program passes a buffer and its length.
    unsafe {
        let room = *addrlen;
        give_address(address, addr, addrlen);
        if room < *addrlen { -FI_ETOOSMALL } else { 0 }
    }
}

/// Gives a program an address, as far as there is room, and says how long it is.
///
/// # Safety
/// `addrlen` points to a length, and `addr` is null or points to that number of bytes.
pub(crate) unsafe fn give_address(address: Address, addr: *mut c_void, addrlen: *mut usize) {
    let bytes = address.to_bytes();
    // SAFETY: the caller's: no more is written than there is room for.
    unsafe {
        if !addr.is_null() {
            ptr::copy_nonoverlapping(bytes.as_ptr(), addr.cast(), bytes.len().min(*addrlen));
        }
        *addrlen = bytes.len();
    }
}

impl Endpoint {
    /// Whether an operation that sends, reads or writes has a completion. What has flags of its own is not
    /// given the others.
    #[inline]
    pub(crate) fn reports_send(&self, flags: u64) -> bool {
        !self.selective_sends || flags & FI_COMPLETION != 0
    }

    #[inline]
    pub(crate) fn reports_receive(&self, flags: u64) -> bool {
        !self.selective_receives || flags & FI_COMPLETION != 0
    }

    /// Makes progress for a counter. Completions without a queue are dropped.
    pub(crate) fn progress_without_queue(&mut self) {
        if self.engine.progress() {
            yields::found();
        }
        if !self.sends_to_queue {
            while self.engine.next_sent().is_some() {}
        }
        if !self.receives_to_queue {
            while self.engine.next_received().is_some() {}
        }
    }
}
