//! Endpoints, their bindings and options.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::time::{Duration, Instant};

use tombolo_mpi_fabric::{Address, ChannelNet, Engine};

use crate::abi::*;
use crate::entry::{object, unsupported};
use crate::span::Span;
use crate::yields;

/// Maximum time that closing an endpoint takes to send its backlog and to keep chunks that peers still read.
/// Messages in the slots of a link outlive the endpoint.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Part of that time spent polling without pauses, and the pause between two polls afterwards.
const DRAIN_SPIN: Duration = Duration::from_millis(1);
const DRAIN_PAUSE: Duration = Duration::from_micros(100);

/// An object that endpoints can be bound to.
pub(crate) trait Binding {
    /// Removes an endpoint that is being closed.
    fn remove_endpoint(&mut self, endpoint: *mut Endpoint);
}

/// An open endpoint.
#[repr(C)]
pub(crate) struct Endpoint {
    pub(crate) fid: fid_ep,
    pub(crate) engine: Engine<ChannelNet, Span>,
    /// The domain and the objects that the endpoint is bound to.
    pub(crate) bindings: Vec<*mut dyn Binding>,
    pub(crate) has_vector: bool,
    /// Whether completions of sends, and of receives, go to a queue.
    pub(crate) sends_to_queue: bool,
    pub(crate) receives_to_queue: bool,
    /// Default flags of operations.
    pub(crate) tx_flags: u64,
    pub(crate) rx_flags: u64,
    /// Whether only operations that request a completion have one.
    pub(crate) selective_sends: bool,
    pub(crate) selective_receives: bool,
}

pub(crate) static OPS: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel,
    getopt,
    setopt,
    tx_ctx: unsupported,
    rx_ctx: unsupported,
    rx_size_left: unsupported,
    tx_size_left: unsupported,
};

pub(crate) static CM_OPS: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: unsupported,
    getname,
    getpeer: unsupported,
    connect: unsupported,
    listen: unsupported,
    accept: unsupported,
    reject: unsupported,
    shutdown: unsupported,
    join: unsupported,
};

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
pub(crate) unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let this = fid.cast::<Endpoint>();
    let closing = object!(this, Endpoint);
    let started = Instant::now();
    while !closing.engine.is_drained() && started.elapsed() < DRAIN_TIMEOUT {
        closing.engine.process_events();
        if !closing.engine.progress() {
            // Active peers reply at once; there is no need to spin for the others.
            if started.elapsed() < DRAIN_SPIN {
                std::thread::yield_now();
            } else {
                std::thread::sleep(DRAIN_PAUSE);
            }
        }
    }
    for binding in core::mem::take(&mut closing.bindings) {
        // SAFETY: an object cannot be closed while an endpoint is bound to it.
        unsafe { &mut *binding }.remove_endpoint(this);
    }
    // SAFETY: allocated by `open` and not used afterwards.
    drop(unsafe { Box::from_raw(this) });
    0
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
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
            // SAFETY: the program passes a valid pointer to flags; the direction in them selects which to
            // set.
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

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn cancel(fid: *mut fid, context: *mut c_void) -> isize {
    let found = object!(fid, Endpoint).engine.cancel(context.expose_provenance());
    if found { 0 } else { -(FI_ENOENT as isize) }
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
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
    // SAFETY: the program passes a buffer and its length.
    unsafe {
        if *length < size_of::<usize>() {
            return -FI_ETOOSMALL;
        }
        *value.cast::<usize>() = bytes;
        *length = size_of::<usize>();
    }
    0
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
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

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn getname(fid: *mut fid, addr: *mut c_void, addrlen: *mut usize) -> c_int {
    let address = object!(fid, Endpoint).engine.address();
    // SAFETY: the program passes a buffer and its length.
    unsafe {
        let room = *addrlen;
        write_address(address, addr, addrlen);
        if room < *addrlen { -FI_ETOOSMALL } else { 0 }
    }
}

/// Copies an address to the program's buffer, truncated to its length, and stores the full length.
///
/// # Safety
/// `addrlen` points to a length, and `addr` is null or points to that number of bytes.
pub(crate) unsafe fn write_address(address: Address, addr: *mut c_void, addrlen: *mut usize) {
    let bytes = address.to_bytes();
    // SAFETY: the caller guarantees the buffer; at most its length is written.
    unsafe {
        if !addr.is_null() {
            ptr::copy_nonoverlapping(bytes.as_ptr(), addr.cast(), bytes.len().min(*addrlen));
        }
        *addrlen = bytes.len();
    }
}

impl Endpoint {
    /// Returns whether a send, read or write has a completion. Explicit flags replace the default ones.
    #[inline]
    pub(crate) fn reports_send(&self, flags: u64) -> bool {
        !self.selective_sends || flags & FI_COMPLETION != 0
    }

    #[inline]
    pub(crate) fn reports_receive(&self, flags: u64) -> bool {
        !self.selective_receives || flags & FI_COMPLETION != 0
    }

    /// Makes progress for a counter. Drops completions that no queue takes.
    pub(crate) fn progress_without_queue(&mut self) {
        if self.engine.progress() {
            yields::count_message_found();
        }
        if !self.sends_to_queue {
            while self.engine.next_sent().is_some() {}
        }
        if !self.receives_to_queue {
            while self.engine.next_received().is_some() {}
        }
    }
}
