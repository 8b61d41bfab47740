//! Endpoints: what they are bound to, and what is set of them.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::io::Write;
use std::time::{Duration, Instant};

use tombolo::RegionFile;
use tombolo_fabric::{ChannelNet, Engine};
use tombolo_platform::memory::replace_private;

use crate::abi::*;
use crate::counter::Counter;
use crate::domain::Domain;
use crate::fabric::NO_FID_OPS;
use crate::queue::Queue;
use crate::span::Span;
use crate::vector::{Vector, give_address};
use crate::{atomic, given, info, message, not_there, object, rma, yields};

/// How long an endpoint that is closed tries to get rid of what was taken over, and keeps memory that its peers still read. What is in
/// the slots of a link outlives it.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long of that it looks without a pause, and the pause between two looks afterwards.
const DRAIN_SPIN: Duration = Duration::from_millis(1);
const DRAIN_PAUSE: Duration = Duration::from_micros(100);

/// An endpoint that was opened.
#[repr(C)]
pub(crate) struct Endpoint {
    fid: fid_ep,
    pub(crate) engine: Engine<ChannelNet, Span>,
    domain: *mut Domain,
    vector: *mut Vector,
    sends: *mut Queue,
    receives: *mut Queue,
    counters: Vec<*mut Counter>,
    /// Flags of operations that are given none.
    pub(crate) tx_flags: u64,
    pub(crate) rx_flags: u64,
    /// Only what asks for a completion has one.
    pub(crate) selective_sends: bool,
    pub(crate) selective_receives: bool,
}

static FID_OPS: fi_ops = fi_ops { close, bind, control, ..NO_FID_OPS };

static OPS: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel,
    getopt,
    setopt,
    tx_ctx: not_there,
    rx_ctx: not_there,
    rx_size_left: not_there,
    tx_size_left: not_there,
};

static CM_OPS: fi_ops_cm = fi_ops_cm {
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

/// Turns off that peers reach memory by themselves, if it is `off`.
const DIRECT_VARIABLE: &str = "TOMBOLO_MPI_DIRECT";

/// Puts registered memory into a region that peers reach.
fn replace(address: usize, length_bytes: usize, region: &RegionFile) -> bool {
    let start = ptr::with_exposed_provenance_mut(address);
    let length_fits = region.length_bytes() >= length_bytes as u64;
    // SAFETY: what lies there is memory that the program has registered for peers to reach, which it is to keep until it closes the
    // registration, and what else is in its first and last page; that it is memory of the program alone is checked there. The
    // region is new and as long, and its file was found sealed.
    length_fits && unsafe { replace_private(start, length_bytes, region, region.offset_bytes()) }.is_ok()
}

/// Says why a peer cannot be reached. Its transfers fail with a number, and MPIs end with that.
fn warn(why: &str) {
    // Where nobody reads it there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "tombolo: {why}");
}

// SAFETY: callers keep to what libfabric's manual says of the call.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    let info = given!(info);
    let Ok(attached) = info::attached() else { return -FI_EIO };
    let Ok(net) = ChannelNet::new(&attached, replace, warn) else { return -FI_EIO };
    let mut engine = Engine::new(net);
    engine.set_directed(info.caps & FI_DIRECTED_RECV != 0);
    engine.set_direct(std::env::var_os(DIRECT_VARIABLE).is_none_or(|value| value != "off"));
    let tx_flags = if info.tx_attr.is_null() { 0 } else { given!(info.tx_attr).op_flags };
    let rx_flags = if info.rx_attr.is_null() { 0 } else { given!(info.rx_attr).op_flags };
    let domain = domain.cast::<Domain>();
    let opened = Box::into_raw(Box::new(Endpoint {
        fid: fid_ep {
            fid: fid { fclass: FI_CLASS_EP, context, ops: ptr::from_ref(&FID_OPS) },
            ops: ptr::from_ref(&OPS),
            cm: ptr::from_ref(&CM_OPS),
            msg: ptr::from_ref(&message::MSG_OPS),
            rma: ptr::from_ref(&rma::OPS),
            tagged: ptr::from_ref(&message::TAGGED_OPS),
            atomic: ptr::from_ref(&atomic::OPS),
            collective: ptr::null(),
        },
        engine,
        domain,
        vector: ptr::null_mut(),
        sends: ptr::null_mut(),
        receives: ptr::null_mut(),
        counters: Vec::new(),
        tx_flags,
        rx_flags,
        selective_sends: false,
        selective_receives: false,
    }));
    let owner = object!(domain, Domain);
    owner.add_endpoint(opened);
    owner.users += 1;
    // SAFETY: the program passes where the pointer goes.
    unsafe { *ep = opened.cast() };
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let this = fid.cast::<Endpoint>();
    let closing = object!(this, Endpoint);
    let begin = Instant::now();
    while !closing.engine.is_drained() && begin.elapsed() < DRAIN_TIMEOUT {
        closing.engine.look_aside();
        if !closing.engine.progress() {
            // Peers that are at work answer at once; for the others nobody need spin.
            if begin.elapsed() < DRAIN_SPIN {
                std::thread::yield_now()
            } else {
                std::thread::sleep(DRAIN_PAUSE)
            }
        }
    }
    // Each of them is there, or null.
    let (domain, vector, queues) = (closing.domain, closing.vector, [closing.sends, closing.receives]);
    for counter in core::mem::take(&mut closing.counters) {
        object!(counter, Counter).remove_endpoint(this);
    }
    for queue in queues {
        if !queue.is_null() {
            object!(queue, Queue).remove_endpoint(this);
        }
    }
    if !vector.is_null() {
        object!(vector, Vector).remove_endpoint(this);
    }
    let domain = object!(domain, Domain);
    domain.endpoints.retain(|endpoint| *endpoint != this);
    domain.users -= 1;
    // SAFETY: what `open` made, which nobody uses any more.
    drop(unsafe { Box::from_raw(this) });
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn bind(fid: *mut fid, to: *mut fid, flags: u64) -> c_int {
    let this = fid.cast::<Endpoint>();
    // SAFETY: the beginning of an object.
    let class = unsafe { (*to).fclass };
    match class {
        FI_CLASS_AV => {
            let vector = to.cast::<Vector>();
            object!(this, Endpoint).vector = vector;
            object!(vector, Vector).add_endpoint(this);
        }
        FI_CLASS_CQ => {
            let (sends, receives) = (flags & FI_SEND != 0, flags & FI_RECV != 0);
            if !(sends || receives) {
                return -FI_EBADFLAGS;
            }
            let queue = to.cast::<Queue>();
            let endpoint = object!(this, Endpoint);
            let selective = flags & FI_SELECTIVE_COMPLETION != 0;
            if sends {
                endpoint.sends = queue;
                endpoint.selective_sends = selective;
            }
            if receives {
                endpoint.receives = queue;
                endpoint.selective_receives = selective;
            }
            object!(queue, Queue).bind(this, sends, receives);
        }
        FI_CLASS_CNTR => {
            let counter = to.cast::<Counter>();
            if flags & (FI_REMOTE_READ | FI_REMOTE_WRITE) != 0 {
                // Nobody would count what peers do by themselves.
                object!(this, Endpoint).engine.set_direct(false);
            }
            object!(this, Endpoint).counters.push(counter);
            object!(counter, Counter).bind(this, flags);
        }
        FI_CLASS_EQ => {}
        _ => return -FI_EINVAL,
    }
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn control(fid: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    let endpoint = object!(fid, Endpoint);
    match command {
        FI_ENABLE => {
            if endpoint.vector.is_null() {
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

impl Endpoint {
    /// Whether an operation that sends, reads or writes has a completion. What has flags of its own is not given the others.
    #[inline]
    pub(crate) fn reports_send(&self, flags: u64) -> bool {
        !self.selective_sends || flags & FI_COMPLETION != 0
    }

    #[inline]
    pub(crate) fn reports_receive(&self, flags: u64) -> bool {
        !self.selective_receives || flags & FI_COMPLETION != 0
    }

    /// Makes progress for somebody who counts. What no queue takes goes nowhere.
    pub(crate) fn progress_without_queue(&mut self) {
        if self.engine.progress() {
            yields::found();
        }
        if self.sends.is_null() {
            while self.engine.next_sent().is_some() {}
        }
        if self.receives.is_null() {
            while self.engine.next_received().is_some() {}
        }
    }
}
