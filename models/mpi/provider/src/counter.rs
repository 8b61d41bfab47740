//! Counters, which sum the counts of the endpoints bound to them.

use core::ffi::{c_int, c_void};
use core::ptr;
use tombolo_mpi_fabric::CompletionKind;

use crate::abi::*;
use crate::domain::Domain;
use crate::endpoint::{Binding, Endpoint};
use crate::entry::{entries, fid_ops, object};
use crate::waiting::{Deadline, WaitObject};

const KINDS: [(u64, CompletionKind); 6] = [
    (FI_SEND, CompletionKind::Send),
    (FI_RECV, CompletionKind::Receive),
    (FI_READ, CompletionKind::Read),
    (FI_WRITE, CompletionKind::Write),
    (FI_REMOTE_READ, CompletionKind::RemoteRead),
    (FI_REMOTE_WRITE, CompletionKind::RemoteWrite),
];

/// An open counter.
#[repr(C)]
pub(crate) struct Counter {
    fid: fid_cntr,
    domain: *mut Domain,
    bound: Vec<(*mut Endpoint, u64)>,
    /// Offsets added to the sums: values that the program set, and counts of closed endpoints.
    done: u64,
    failed: u64,
    wait: WaitObject,
}

static FID_OPS: fi_ops = fi_ops { control, ..fid_ops(close) };

static OPS: fi_ops_cntr =
    fi_ops_cntr { size: size_of::<fi_ops_cntr>(), read, readerr, add, set, wait, adderr, seterr };

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    cntr: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes a valid structure or null.
    let (events, wait_object) =
        unsafe { attr.as_ref() }.map_or((0, FI_WAIT_UNSPEC), |attr| (attr.events, attr.wait_obj));
    if events != 0 {
        return -FI_ENOSYS;
    }
    let wait = match WaitObject::open(wait_object) {
        Ok(wait) => wait,
        Err(error) => return error,
    };
    let domain = domain.cast::<Domain>();
    object!(domain, Domain).users += 1;
    let fid = fid { fclass: FI_CLASS_CNTR, context, ops: ptr::from_ref(&FID_OPS) };
    let opened = Box::new(Counter {
        fid: fid_cntr { fid, ops: ptr::from_ref(&OPS) },
        domain,
        bound: Vec::new(),
        done: 0,
        failed: 0,
        wait,
    });
    // SAFETY: the program passes a valid output pointer.
    unsafe { *cntr = Box::into_raw(opened).cast() };
    0
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let closing = object!(fid, Counter);
    if !closing.bound.is_empty() {
        return -FI_EBUSY;
    }
    object!(closing.domain, Domain).users -= 1;
    // SAFETY: allocated by `open` and not used afterwards.
    drop(unsafe { Box::from_raw(fid.cast::<Counter>()) });
    0
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn control(fid: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    object!(fid, Counter).wait.control(command, argument)
}

/// Returns how many operations of some kinds an endpoint has counted.
fn operation_count(endpoint: *mut Endpoint, kinds: u64, failed: bool) -> u64 {
    let counts = object!(endpoint, Endpoint).engine.counts();
    let count = |kind| if failed { counts.failed(kind) } else { counts.succeeded(kind) };
    KINDS.iter().filter(|(flag, _)| kinds & flag != 0).map(|(_, kind)| count(*kind)).sum()
}

impl Binding for Counter {
    fn remove_endpoint(&mut self, endpoint: *mut Endpoint) {
        for (bound, kinds) in self.bound.extract_if(.., |(bound, _)| *bound == endpoint) {
            self.done = self.done.wrapping_add(operation_count(bound, kinds, false));
            self.failed = self.failed.wrapping_add(operation_count(bound, kinds, true));
        }
        self.wait.remove(endpoint);
    }
}

impl Counter {
    pub(crate) fn bind(&mut self, endpoint: *mut Endpoint, kinds: u64) {
        // Earlier operations do not count.
        let before = (operation_count(endpoint, kinds, false), operation_count(endpoint, kinds, true));
        self.done = self.done.wrapping_sub(before.0);
        self.failed = self.failed.wrapping_sub(before.1);
        self.bound.push((endpoint, kinds));
    }

    fn progress(&self) {
        for (endpoint, _) in &self.bound {
            object!(*endpoint, Endpoint).progress_without_queue();
        }
    }

    fn value(&self, failed: bool) -> u64 {
        let base = if failed { self.failed } else { self.done };
        self.bound
            .iter()
            .map(|(endpoint, kinds)| operation_count(*endpoint, *kinds, failed))
            .fold(base, u64::wrapping_add)
    }

    fn add(&mut self, value: u64, failed: bool) {
        let base = if failed { &mut self.failed } else { &mut self.done };
        *base = base.wrapping_add(value);
    }

    fn set(&mut self, value: u64, failed: bool) {
        let now = self.value(failed);
        self.add(value.wrapping_sub(now), failed);
    }

    fn wait_for(&mut self, threshold: u64, timeout: c_int) -> c_int {
        let deadline = Deadline::from_timeout_ms(timeout);
        let failed = self.value(true);
        let mut polls = 0_u32;
        loop {
            self.progress();
            if self.value(false) >= threshold {
                return 0;
            }
            if self.value(true) != failed {
                return -FI_EAVAIL;
            }
            polls += 1;
            // Spin first: the awaited operation often completes soon.
            if polls < 10_000 && !deadline.is_finite() {
                continue;
            }
            let left = deadline.remaining();
            if left.is_zero() {
                return -FI_ETIMEDOUT;
            }
            if !self.wait.exists() {
                std::thread::yield_now();
            } else if self.prepare_wait() {
                self.wait.wait(left);
            }
        }
    }

    /// Returns whether a program may block on the descriptor.
    pub(crate) fn prepare_wait(&mut self) -> bool {
        let before = (self.value(false), self.value(true));
        let prepared =
            self.wait.exists() && self.wait.prepare_wait(self.bound.iter().map(|(endpoint, _)| *endpoint));
        prepared && before == (self.value(false), self.value(true))
    }
}

entries! { fid_cntr:
    fn read(cntr) -> u64 {
        let counter = object!(cntr, Counter);
        counter.progress();
        counter.value(false)
    }

    fn readerr(cntr) -> u64 {
        let counter = object!(cntr, Counter);
        counter.progress();
        counter.value(true)
    }

    fn add(cntr, value: u64) -> c_int {
        object!(cntr, Counter).add(value, false);
        0
    }

    fn set(cntr, value: u64) -> c_int {
        object!(cntr, Counter).set(value, false);
        0
    }

    fn adderr(cntr, value: u64) -> c_int {
        object!(cntr, Counter).add(value, true);
        0
    }

    fn seterr(cntr, value: u64) -> c_int {
        object!(cntr, Counter).set(value, true);
        0
    }

    fn wait(cntr, threshold: u64, timeout: c_int) -> c_int {
        object!(cntr, Counter).wait_for(threshold, timeout)
    }
}
