//! Counters: sums of what the endpoints bound to them have counted.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::time::{Duration, Instant};

use tombolo_fabric::Kind;

use crate::abi::*;
use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::fabric::NO_FID_OPS;
use crate::object;
use crate::queue::Waiting;

const KINDS: [(u64, Kind); 6] = [
    (FI_SEND, Kind::Send),
    (FI_RECV, Kind::Receive),
    (FI_READ, Kind::Read),
    (FI_WRITE, Kind::Write),
    (FI_REMOTE_READ, Kind::RemoteRead),
    (FI_REMOTE_WRITE, Kind::RemoteWrite),
];

/// A counter that was opened.
#[repr(C)]
pub(crate) struct Counter {
    fid: fid_cntr,
    domain: *mut Domain,
    bound: Vec<(*mut Endpoint, u64)>,
    /// What is added to the sums: what the program set, and what endpoints had counted that are closed.
    done: u64,
    failed: u64,
    wait_object: c_int,
    waiting: Option<Waiting>,
}

static FID_OPS: fi_ops = fi_ops { close, control, ..NO_FID_OPS };

static OPS: fi_ops_cntr =
    fi_ops_cntr { size: size_of::<fi_ops_cntr>(), read, readerr, add, set, wait, adderr, seterr };

// SAFETY: callers keep to what libfabric's manual says of the call.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    cntr: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes a structure or null.
    let (events, wait_object) =
        unsafe { attr.as_ref() }.map_or((0, FI_WAIT_UNSPEC), |attr| (attr.events, attr.wait_obj));
    if events != 0 {
        return -FI_ENOSYS;
    }
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
    let fid = fid { fclass: FI_CLASS_CNTR, context, ops: ptr::from_ref(&FID_OPS) };
    let opened = Box::new(Counter {
        fid: fid_cntr { fid, ops: ptr::from_ref(&OPS) },
        domain,
        bound: Vec::new(),
        done: 0,
        failed: 0,
        wait_object,
        waiting,
    });
    // SAFETY: the program passes where the pointer goes.
    unsafe { *cntr = Box::into_raw(opened).cast() };
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let closing = object!(fid, Counter);
    if !closing.bound.is_empty() {
        return -FI_EBUSY;
    }
    object!(closing.domain, Domain).users -= 1;
    // SAFETY: what `open` made, which nobody uses any more.
    drop(unsafe { Box::from_raw(fid.cast::<Counter>()) });
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn control(fid: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    let counter = object!(fid, Counter);
    match (command, &counter.waiting) {
        // SAFETY: the program passes where the answer goes.
        (FI_GETWAIT, Some(waiting)) => unsafe { *argument.cast::<c_int>() = waiting.descriptor() },
        // SAFETY: as above.
        (FI_GETWAITOBJ, _) => unsafe { *argument.cast::<c_int>() = counter.wait_object },
        _ => return -FI_ENOSYS,
    }
    0
}

/// What an endpoint has counted of some kinds.
fn counted(endpoint: *mut Endpoint, kinds: u64, failed: bool) -> u64 {
    let counts = object!(endpoint, Endpoint).engine.counts();
    let of = |kind| if failed { counts.failed(kind) } else { counts.done(kind) };
    KINDS.iter().filter(|(flag, _)| kinds & flag != 0).map(|(_, kind)| of(*kind)).sum()
}

impl Counter {
    pub(crate) fn bind(&mut self, endpoint: *mut Endpoint, kinds: u64) {
        // What was counted before is not this counter's.
        let before = (counted(endpoint, kinds, false), counted(endpoint, kinds, true));
        self.done = self.done.wrapping_sub(before.0);
        self.failed = self.failed.wrapping_sub(before.1);
        self.bound.push((endpoint, kinds));
    }

    pub(crate) fn remove_endpoint(&mut self, endpoint: *mut Endpoint) {
        for (bound, kinds) in self.bound.extract_if(.., |(bound, _)| *bound == endpoint) {
            self.done = self.done.wrapping_add(counted(bound, kinds, false));
            self.failed = self.failed.wrapping_add(counted(bound, kinds, true));
        }
        if let Some(waiting) = &mut self.waiting {
            waiting.remove(endpoint);
        }
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
            .map(|(endpoint, kinds)| counted(*endpoint, *kinds, failed))
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

    /// Whether a program may wait for the descriptor.
    pub(crate) fn park(&mut self) -> bool {
        let before = (self.value(false), self.value(true));
        let Some(waiting) = &mut self.waiting else { return false };
        let parked = self.bound.iter().all(|(endpoint, _)| waiting.park(*endpoint));
        parked && before == (self.value(false), self.value(true))
    }
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn read(cntr: *mut fid_cntr) -> u64 {
    let counter = object!(cntr, Counter);
    counter.progress();
    counter.value(false)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn readerr(cntr: *mut fid_cntr) -> u64 {
    let counter = object!(cntr, Counter);
    counter.progress();
    counter.value(true)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn add(cntr: *mut fid_cntr, value: u64) -> c_int {
    object!(cntr, Counter).add(value, false);
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn set(cntr: *mut fid_cntr, value: u64) -> c_int {
    object!(cntr, Counter).set(value, false);
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn adderr(cntr: *mut fid_cntr, value: u64) -> c_int {
    object!(cntr, Counter).add(value, true);
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn seterr(cntr: *mut fid_cntr, value: u64) -> c_int {
    object!(cntr, Counter).set(value, true);
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    /// How long a wait without end lasts at most before it is begun anew.
    const LONG: Duration = Duration::from_secs(3600);
    let counter = object!(cntr, Counter);
    let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
    let begin = Instant::now();
    let failed = counter.value(true);
    let mut looks = 0_u32;
    loop {
        counter.progress();
        if counter.value(false) >= threshold {
            return 0;
        }
        if counter.value(true) != failed {
            return -FI_EAVAIL;
        }
        looks += 1;
        // What is waited for is often there soon.
        if looks < 10_000 && limit.is_none() {
            continue;
        }
        let left = limit.map_or(LONG, |limit| limit.saturating_sub(begin.elapsed()));
        if left.is_zero() {
            return -FI_ETIMEDOUT;
        }
        if counter.waiting.is_some() {
            if counter.park()
                && let Some(waiting) = &mut counter.waiting
            {
                waiting.wait(left);
            }
        } else {
            std::thread::yield_now();
        }
    }
}
