//! Completion queues. Completions stay at the bound endpoints until they are read; reading makes the
//! endpoints progress.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use std::time::Duration;

use tombolo_mpi_fabric::{Completion, Failure};

use crate::abi::*;
use crate::domain::Domain;
use crate::endpoint::{Binding, Endpoint};
use crate::entry::{entries, error_number, fid_ops, object};
use crate::waiting::{Deadline, WaitObject};
use crate::yields;

/// A bound endpoint, and which of its completions the queue takes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct BoundEndpoint {
    endpoint: *mut Endpoint,
    sends: bool,
    receives: bool,
}

/// An open completion queue.
#[repr(C)]
pub(crate) struct Queue {
    fid: fid_cq,
    domain: *mut Domain,
    bound: Vec<BoundEndpoint>,
    entry_bytes: usize,
    wait: WaitObject,
    /// Whether the current or next wait is to be interrupted.
    signaled: bool,
}

static FID_OPS: fi_ops = fi_ops { control, ..fid_ops(close) };

static OPS: fi_ops_cq =
    fi_ops_cq { size: size_of::<fi_ops_cq>(), read, readfrom, readerr, sread, sreadfrom, signal, strerror };

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes a valid structure or null.
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
    let wait = match WaitObject::open(wait_object) {
        Ok(wait) => wait,
        Err(error) => return error,
    };
    let domain = domain.cast::<Domain>();
    object!(domain, Domain).users += 1;
    let fid = fid { fclass: FI_CLASS_CQ, context, ops: ptr::from_ref(&FID_OPS) };
    let opened = Box::new(Queue {
        fid: fid_cq { fid, ops: ptr::from_ref(&OPS) },
        domain,
        bound: Vec::new(),
        entry_bytes,
        wait,
        signaled: false,
    });
    // SAFETY: the program passes a valid output pointer.
    unsafe { *cq = Box::into_raw(opened).cast() };
    0
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let closing = object!(fid, Queue);
    if !closing.bound.is_empty() {
        return -FI_EBUSY;
    }
    object!(closing.domain, Domain).users -= 1;
    // SAFETY: allocated by `open` and not used afterwards.
    drop(unsafe { Box::from_raw(fid.cast::<Queue>()) });
    0
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn control(fid: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    object!(fid, Queue).wait.control(command, argument)
}

impl Binding for Queue {
    fn remove_endpoint(&mut self, endpoint: *mut Endpoint) {
        self.bound.retain(|bound| bound.endpoint != endpoint);
        self.wait.remove(endpoint);
    }
}

impl Queue {
    pub(crate) fn bind(&mut self, endpoint: *mut Endpoint, sends: bool, receives: bool) {
        match self.bound.iter_mut().find(|bound| bound.endpoint == endpoint) {
            Some(bound) => {
                bound.sends |= sends;
                bound.receives |= receives;
            }
            None => self.bound.push(BoundEndpoint { endpoint, sends, receives }),
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
                yields::count_message_found();
            }
        }
    }

    /// Returns whether a program may block on the descriptor: the queue is empty, and new events wake it.
    pub(crate) fn prepare_wait(&mut self) -> bool {
        self.progress();
        if !self.is_empty() {
            return false;
        }
        let prepared =
            self.wait.exists() && self.wait.prepare_wait(self.bound.iter().map(|bound| bound.endpoint));
        // The descriptor may still be readable because of earlier events.
        prepared && self.is_empty() && !self.wait.wait(Duration::ZERO)
    }

    /// Takes up to `count` completions, stopping before one with an error.
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
                    let entry = completion_entry(completion);
                    // SAFETY: the program passes room for `count` entries of the queue's format, and for as
                    // many sources or null. Each format is a prefix of the longest one.
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
            yields::count_message_found();
            return taken;
        }
        self.progress();
        match self.take(buf, count, sources) {
            0 => -(FI_EAGAIN as isize),
            taken => taken,
        }
    }

    fn read_waiting(&mut self, buf: *mut c_void, count: usize, sources: *mut u64, timeout: c_int) -> isize {
        if !self.wait.exists() {
            return -(FI_ENOSYS as isize);
        }
        let deadline = Deadline::from_timeout_ms(timeout);
        loop {
            let taken = self.read(buf, count, sources);
            if taken != -(FI_EAGAIN as isize) {
                return taken;
            }
            if core::mem::take(&mut self.signaled) {
                return -(FI_EAGAIN as isize);
            }
            let left = deadline.remaining();
            if left.is_zero() {
                return -(FI_EAGAIN as isize);
            }
            if self.prepare_wait() {
                self.wait.wait(left);
            }
        }
    }

    /// Takes the oldest completion that is an error.
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
fn completion_entry(completion: &Completion) -> fi_cq_tagged_entry {
    fi_cq_tagged_entry {
        op_context: ptr::with_exposed_provenance_mut(completion.context),
        flags: completion.flags,
        len: completion.length,
        buf: ptr::with_exposed_provenance_mut(completion.buffer),
        data: completion.data,
        tag: completion.tag,
    }
}

entries! { fid_cq:
    fn read(cq, buf: *mut c_void, count: usize) -> isize {
        object!(cq, Queue).read(buf, count, ptr::null_mut())
    }

    fn readfrom(cq, buf: *mut c_void, count: usize, sources: *mut u64) -> isize {
        object!(cq, Queue).read(buf, count, sources)
    }

    fn sread(cq, buf: *mut c_void, count: usize, _cond: *const c_void, timeout: c_int) -> isize {
        object!(cq, Queue).read_waiting(buf, count, ptr::null_mut(), timeout)
    }

    fn sreadfrom(
        cq, buf: *mut c_void, count: usize, sources: *mut u64, _cond: *const c_void, timeout: c_int,
    ) -> isize {
        object!(cq, Queue).read_waiting(buf, count, sources, timeout)
    }
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, _: u64) -> isize {
    let Some(completion) = object!(cq, Queue).take_error() else { return -(FI_EAGAIN as isize) };
    let entry = completion_entry(&completion);
    let failure = completion.failure.unwrap_or(Failure::Violation);
    let olen = match failure {
        Failure::Truncated { missing_bytes } => missing_bytes,
        _ => 0,
    };
    // SAFETY: the program passes room for an entry. Only the fields that version 1.17 has are written; the
    // buffer for error data is left unchanged, with length 0.
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

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn signal(cq: *mut fid_cq) -> c_int {
    let queue = object!(cq, Queue);
    queue.signaled = true;
    if queue.wait.wake() { 0 } else { -FI_ENOSYS }
}

/// Describes an error of the provider. Its error numbers are libfabric's.
// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
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
