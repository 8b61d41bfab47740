//! Completion queues. What is in one lies at the endpoints that are bound to it, and is taken from there; whoever reads makes them
//! progress.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use tombolo::{Interest, Token, Trigger, WaitSet};
use tombolo_fabric::{Completion, Failure};

use crate::abi::*;
use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::fabric::NO_FID_OPS;
use crate::{error_number, object, yields};

/// How long a wait without end lasts at most before it is begun anew.
const LONG: Duration = Duration::from_secs(3600);

/// An endpoint by what it is bound for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Bound {
    endpoint: *mut Endpoint,
    sends: bool,
    receives: bool,
}

/// What a program waits on, and the endpoints that it is told of.
pub(crate) struct Waiting {
    set: WaitSet,
    tokens: Vec<(*mut Endpoint, Token)>,
}

impl Waiting {
    pub(crate) fn new() -> Option<Waiting> {
        let mut set = WaitSet::new().ok()?;
        set.set_spin_ns(0);
        Some(Waiting { set, tokens: Vec::new() })
    }

    /// Lets an endpoint tell when something happens. False when something has.
    pub(crate) fn park(&mut self, endpoint: *mut Endpoint) -> bool {
        let Some(parked) = object!(endpoint, Endpoint).engine.park() else { return false };
        if !self.tokens.iter().any(|(known, _)| *known == endpoint) {
            match self.set.add_descriptor(&*parked, Interest::Read, Trigger::Level) {
                Ok(token) => self.tokens.push((endpoint, token)),
                // Nobody would be told: better not to wait.
                Err(_) => return false,
            }
        }
        true
    }

    pub(crate) fn remove(&mut self, endpoint: *mut Endpoint) {
        self.tokens.retain(|(known, token)| {
            if *known == endpoint {
                self.set.remove(*token);
            }
            *known != endpoint
        });
    }

    /// Waits until something happens. False when the time is over.
    pub(crate) fn wait(&mut self, timeout: Duration) -> bool {
        self.set.wait(timeout).is_ok()
    }

    pub(crate) fn descriptor(&self) -> c_int {
        self.set.as_fd().as_raw_fd()
    }

    pub(crate) fn waker(&self) -> tombolo::Waker {
        self.set.waker()
    }
}

/// A completion queue that was opened.
#[repr(C)]
pub(crate) struct Queue {
    fid: fid_cq,
    domain: *mut Domain,
    bound: Vec<Bound>,
    entry_bytes: usize,
    wait_object: c_int,
    waiting: Option<Waiting>,
    /// Somebody wants a wait to end.
    signaled: bool,
}

static FID_OPS: fi_ops = fi_ops { close, control, ..NO_FID_OPS };

static OPS: fi_ops_cq =
    fi_ops_cq { size: size_of::<fi_ops_cq>(), read, readfrom, readerr, sread, sreadfrom, signal, strerror };

// SAFETY: callers keep to what libfabric's manual says of the call.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes a structure or null.
    let attr = unsafe { attr.as_mut() };
    let (mut format, mut wait_object) = (FI_CQ_FORMAT_CONTEXT, FI_WAIT_NONE);
    if let Some(attr) = attr {
        if attr.format == FI_CQ_FORMAT_UNSPEC {
            attr.format = FI_CQ_FORMAT_CONTEXT;
        }
        (format, wait_object) = (attr.format, attr.wait_obj);
    }
    let entry_bytes = match format {
        FI_CQ_FORMAT_CONTEXT => 8,
        FI_CQ_FORMAT_MSG => 24,
        FI_CQ_FORMAT_DATA => 40,
        FI_CQ_FORMAT_TAGGED => 48,
        _ => return -FI_ENOSYS,
    };
    let waiting = match wait_object {
        FI_WAIT_NONE => None,
        FI_WAIT_UNSPEC | FI_WAIT_FD | FI_WAIT_YIELD => match Waiting::new() {
            Some(waiting) => Some(waiting),
            None => return -FI_ENOMEM,
        },
        _ => return -FI_ENOSYS,
    };
    let domain = domain.cast::<Domain>();
    object!(domain, Domain).users += 1;
    let fid = fid { fclass: FI_CLASS_CQ, context, ops: ptr::from_ref(&FID_OPS) };
    let opened = Box::new(Queue {
        fid: fid_cq { fid, ops: ptr::from_ref(&OPS) },
        domain,
        bound: Vec::new(),
        entry_bytes,
        wait_object,
        waiting,
        signaled: false,
    });
    // SAFETY: the program passes where the pointer goes.
    unsafe { *cq = Box::into_raw(opened).cast() };
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let closing = object!(fid, Queue);
    if !closing.bound.is_empty() {
        return -FI_EBUSY;
    }
    object!(closing.domain, Domain).users -= 1;
    // SAFETY: what `open` made, which nobody uses any more.
    drop(unsafe { Box::from_raw(fid.cast::<Queue>()) });
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn control(fid: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    let queue = object!(fid, Queue);
    match (command, &queue.waiting) {
        // SAFETY: the program passes where the answer goes.
        (FI_GETWAIT, Some(waiting)) => unsafe { *argument.cast::<c_int>() = waiting.descriptor() },
        // SAFETY: as above.
        (FI_GETWAITOBJ, _) => unsafe { *argument.cast::<c_int>() = queue.wait_object },
        _ => return -FI_ENOSYS,
    }
    0
}

impl Queue {
    pub(crate) fn bind(&mut self, endpoint: *mut Endpoint, sends: bool, receives: bool) {
        match self.bound.iter_mut().find(|bound| bound.endpoint == endpoint) {
            Some(bound) => {
                bound.sends |= sends;
                bound.receives |= receives;
            }
            None => self.bound.push(Bound { endpoint, sends, receives }),
        }
    }

    pub(crate) fn remove_endpoint(&mut self, endpoint: *mut Endpoint) {
        self.bound.retain(|bound| bound.endpoint != endpoint);
        if let Some(waiting) = &mut self.waiting {
            waiting.remove(endpoint);
        }
    }

    fn is_empty(&self) -> bool {
        self.bound.iter().all(|bound| {
            let engine = &object!(bound.endpoint, Endpoint).engine;
            !(bound.sends && engine.peek_sent().is_some()
                || bound.receives && engine.peek_received().is_some())
        })
    }

    fn progress(&self) {
        for bound in &self.bound {
            if object!(bound.endpoint, Endpoint).engine.progress() {
                yields::found();
            }
        }
    }

    /// Whether a program may wait for the descriptor: nothing is there, and it will be told of what comes.
    pub(crate) fn park(&mut self) -> bool {
        self.progress();
        if !self.is_empty() {
            return false;
        }
        let Some(waiting) = &mut self.waiting else { return false };
        let parked = self.bound.iter().all(|bound| waiting.park(bound.endpoint));
        // What the descriptor says now is of before.
        parked
            && self.is_empty()
            && !self.waiting.as_mut().is_some_and(|waiting| waiting.wait(Duration::ZERO))
    }

    /// Takes up to `count` completions, until one that is an error.
    #[inline]
    fn take(&mut self, buf: *mut c_void, count: usize, sources: *mut u64) -> isize {
        let mut taken = 0;
        for bound in &self.bound {
            let engine = &mut object!(bound.endpoint, Endpoint).engine;
            for received in [false, true] {
                if !(if received { bound.receives } else { bound.sends }) {
                    continue;
                }
                while taken < count {
                    let next = if received { engine.peek_received() } else { engine.peek_sent() };
                    let Some(completion) = next else { break };
                    if completion.failure.is_some() {
                        return if taken > 0 { taken as isize } else { -(FI_EAVAIL as isize) };
                    }
                    let entry = entry_of(completion);
                    // SAFETY: the program passes room for `count` entries of the queue's format, and for as many sources or
                    // none. An entry is the beginning of the longest.
                    unsafe {
                        let to = buf.cast::<u8>().add(taken * self.entry_bytes);
                        ptr::copy_nonoverlapping((&raw const entry).cast(), to, self.entry_bytes);
                        if !sources.is_null() {
                            *sources.add(taken) = completion.source;
                        }
                    }
                    taken += 1;
                    if received {
                        engine.next_received()
                    } else {
                        engine.next_sent()
                    };
                }
            }
        }
        taken as isize
    }

    #[inline]
    fn read(&mut self, buf: *mut c_void, count: usize, sources: *mut u64) -> isize {
        let taken = self.take(buf, count, sources);
        if taken != 0 {
            yields::found();
            return taken;
        }
        self.progress();
        match self.take(buf, count, sources) {
            0 => -(FI_EAGAIN as isize),
            taken => taken,
        }
    }

    fn read_waiting(&mut self, buf: *mut c_void, count: usize, sources: *mut u64, timeout: c_int) -> isize {
        if self.waiting.is_none() {
            return -(FI_ENOSYS as isize);
        }
        let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
        let begin = Instant::now();
        loop {
            let taken = self.read(buf, count, sources);
            if taken != -(FI_EAGAIN as isize) {
                return taken;
            }
            if core::mem::take(&mut self.signaled) {
                return -(FI_EAGAIN as isize);
            }
            let left = limit.map_or(LONG, |limit| limit.saturating_sub(begin.elapsed()));
            if left.is_zero() {
                return -(FI_EAGAIN as isize);
            }
            if self.park()
                && let Some(waiting) = &mut self.waiting
            {
                waiting.wait(left);
            }
        }
    }

    /// The oldest completion that is an error.
    fn take_error(&mut self) -> Option<Completion> {
        self.bound.iter().find_map(|bound| {
            let engine = &mut object!(bound.endpoint, Endpoint).engine;
            let failed =
                |completion: Option<&Completion>| completion.is_some_and(|found| found.failure.is_some());
            if bound.sends && failed(engine.peek_sent()) {
                engine.next_sent()
            } else if bound.receives && failed(engine.peek_received()) {
                engine.next_received()
            } else {
                None
            }
        })
    }
}

#[inline]
fn entry_of(completion: &Completion) -> fi_cq_tagged_entry {
    fi_cq_tagged_entry {
        op_context: ptr::with_exposed_provenance_mut(completion.context),
        flags: completion.flags,
        len: completion.length,
        buf: ptr::with_exposed_provenance_mut(completion.buffer),
        data: completion.data,
        tag: completion.tag,
    }
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize {
    object!(cq, Queue).read(buf, count, ptr::null_mut())
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn readfrom(cq: *mut fid_cq, buf: *mut c_void, count: usize, sources: *mut u64) -> isize {
    object!(cq, Queue).read(buf, count, sources)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn sread(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    _: *const c_void,
    timeout: c_int,
) -> isize {
    object!(cq, Queue).read_waiting(buf, count, ptr::null_mut(), timeout)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn sreadfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    sources: *mut u64,
    _: *const c_void,
    timeout: c_int,
) -> isize {
    object!(cq, Queue).read_waiting(buf, count, sources, timeout)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, _: u64) -> isize {
    let Some(completion) = object!(cq, Queue).take_error() else { return -(FI_EAGAIN as isize) };
    let entry = entry_of(&completion);
    let failure = completion.failure.unwrap_or(Failure::Violation);
    let olen = match failure {
        Failure::Truncated { missing_bytes } => missing_bytes,
        _ => 0,
    };
    // SAFETY: the program passes room for an entry. Only what 1.17 has of it is written, and its buffer for more about the
    // error is left as it is, with nothing in it.
    unsafe {
        (*buf).op_context = entry.op_context;
        (*buf).flags = entry.flags;
        (*buf).len = entry.len;
        (*buf).buf = entry.buf;
        (*buf).data = entry.data;
        (*buf).tag = entry.tag;
        (*buf).olen = olen;
        (*buf).err = error_number(failure);
        (*buf).prov_errno = error_number(failure);
        (*buf).err_data_size = 0;
    }
    1
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn signal(cq: *mut fid_cq) -> c_int {
    let queue = object!(cq, Queue);
    queue.signaled = true;
    match &queue.waiting {
        Some(waiting) => {
            waiting.waker().wake();
            0
        }
        None => -FI_ENOSYS,
    }
}

/// What the errors of the provider itself are called: they have the numbers of libfabric.
// SAFETY: callers keep to what libfabric's manual says of the call.
pub(crate) unsafe extern "C" fn strerror(
    _: *mut fid_cq,
    error: c_int,
    _: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    let text = match error {
        FI_ETRUNC => c"the message is longer than the buffer",
        FI_ECANCELED => c"canceled",
        FI_ENOMSG => c"no such message has come yet",
        FI_EHOSTUNREACH => c"no endpoint is to be reached at that address",
        FI_ECONNRESET => c"the peer is gone",
        FI_EIO => c"the peer broke the protocol",
        FI_ENOKEY => c"the peer has registered no memory under that key",
        FI_EACCES => c"the memory of that key may not be accessed there, or not so",
        FI_EOPNOTSUPP => c"no such operation on that type",
        _ => c"unknown error",
    };
    if !buf.is_null() && len > 0 {
        let bytes = text.to_bytes();
        let copied = bytes.len().min(len - 1);
        // SAFETY: the program passes a buffer of that length.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), copied);
            *buf.add(copied) = 0;
        }
    }
    text.as_ptr()
}
