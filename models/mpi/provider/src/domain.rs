//! Domains of libfabric, which have nothing but the name in common with those of a machine; and memory that is registered with them.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::collections::HashMap;

use tombolo_fabric::{Access, AtomicOp, Datatype, MAX_ATOMIC_BYTES, Memory, Region};

use crate::abi::*;
use crate::endpoint::Endpoint;
use crate::fabric::NO_FID_OPS;
use crate::span::Span;
use crate::{counter, endpoint, given, not_there, object, queue, vector};

/// A domain that was opened.
#[repr(C)]
pub(crate) struct Domain {
    fid: fid_domain,
    pub(crate) endpoints: Vec<*mut Endpoint>,
    regions: HashMap<u64, (Span, u64, Access)>,
    /// Keys are given out here.
    gives_keys: bool,
    /// Peers say addresses as this program has them.
    by_address: bool,
    next_key: u64,
    /// What was opened on it and not closed yet.
    pub(crate) users: usize,
}

static FID_OPS: fi_ops = fi_ops { close, ..NO_FID_OPS };

static OPS: fi_ops_domain = fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: vector::open,
    cq_open: queue::open,
    endpoint: endpoint::open,
    scalable_ep: not_there,
    cntr_open: counter::open,
    poll_open: not_there,
    stx_ctx: not_there,
    srx_ctx: not_there,
    query_atomic,
    query_collective: not_there,
    endpoint2: not_there,
};

static MR_OPS: fi_ops_mr = fi_ops_mr { size: size_of::<fi_ops_mr>(), reg, regv, regattr };

// SAFETY: callers keep to what libfabric's manual says of the call.
pub(crate) unsafe extern "C" fn open(
    _: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    let info = given!(info);
    let mr_mode = match info.domain_attr.is_null() {
        true => 0,
        // SAFETY: libfabric's copy of what was given out, which is as long as its own version has it, and not longer.
        false => unsafe { (&raw const (*info.domain_attr).mr_mode).read() },
    };
    let fid = fid { fclass: FI_CLASS_DOMAIN, context, ops: ptr::from_ref(&FID_OPS) };
    let opened = Box::new(Domain {
        fid: fid_domain { fid, ops: ptr::from_ref(&OPS), mr: ptr::from_ref(&MR_OPS) },
        endpoints: Vec::new(),
        regions: HashMap::new(),
        gives_keys: mr_mode == FI_MR_BASIC,
        by_address: mr_mode == FI_MR_BASIC,
        next_key: 1,
        users: 0,
    });
    // SAFETY: the program passes where the pointer goes.
    unsafe { *domain = Box::into_raw(opened).cast() };
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    if object!(fid, Domain).users > 0 {
        return -FI_EBUSY;
    }
    // SAFETY: what `open` made, which nobody uses any more.
    drop(unsafe { Box::from_raw(fid.cast::<Domain>()) });
    0
}

impl Domain {
    /// Lets peers of an endpoint reach what is registered.
    pub(crate) fn add_endpoint(&mut self, added: *mut Endpoint) {
        let engine = &mut object!(added, Endpoint).engine;
        for (key, (memory, base, access)) in &self.regions {
            engine.register(*key, Region { memory: memory.clone(), base: *base, access: *access });
        }
        self.endpoints.push(added);
    }

    fn register(&mut self, memory: Span, access: u64, offset: u64, requested_key: u64) -> Result<u64, c_int> {
        let key = if self.gives_keys {
            while self.regions.contains_key(&self.next_key) {
                self.next_key += 1;
            }
            self.next_key
        } else {
            requested_key
        };
        if key == FI_KEY_NOTAVAIL || self.regions.contains_key(&key) {
            return Err(-crate::abi::FI_ENOKEY);
        }
        let base = if self.by_address { memory.address() as u64 } else { offset };
        let access = Access { read: access & FI_REMOTE_READ != 0, write: access & FI_REMOTE_WRITE != 0 };
        for endpoint in &self.endpoints {
            let region = Region { memory: memory.clone(), base, access };
            object!(*endpoint, Endpoint).engine.register(key, region);
        }
        self.regions.insert(key, (memory, base, access));
        Ok(key)
    }

    fn unregister(&mut self, key: u64) {
        self.regions.remove(&key);
        for endpoint in &self.endpoints {
            object!(*endpoint, Endpoint).engine.unregister(key);
        }
    }
}

/// Memory that was registered.
#[repr(C)]
struct Registration {
    fid: fid_mr,
    domain: *mut Domain,
}

static REGISTRATION_OPS: fi_ops = fi_ops {
    close: close_registration,
    bind: bind_registration,
    control: control_registration,
    ..NO_FID_OPS
};

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn close_registration(fid: *mut fid) -> c_int {
    // SAFETY: what `register` made, which nobody uses any more.
    let closed = unsafe { Box::from_raw(fid.cast::<Registration>()) };
    let domain = object!(closed.domain, Domain);
    domain.unregister(closed.fid.key);
    domain.users -= 1;
    0
}

/// To an endpoint or a counter, which is not needed here and asked for by nothing that was offered.
// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn bind_registration(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn control_registration(_: *mut fid, command: c_int, _: *mut c_void) -> c_int {
    if command == FI_ENABLE { 0 } else { -FI_ENOSYS }
}

fn register(
    domain: *mut fid,
    memory: Span,
    (access, offset, requested_key): (u64, u64, u64),
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    let domain = domain.cast::<Domain>();
    let registering = object!(domain, Domain);
    match registering.register(memory, access, offset, requested_key) {
        Ok(key) => {
            registering.users += 1;
            let fid = fid { fclass: FI_CLASS_MR, context, ops: ptr::from_ref(&REGISTRATION_OPS) };
            let made = Registration { fid: fid_mr { fid, mem_desc: ptr::null_mut(), key }, domain };
            // SAFETY: the program passes where the pointer goes.
            unsafe { *mr = Box::into_raw(Box::new(made)).cast() };
            0
        }
        Err(error) => error,
    }
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn reg(
    domain: *mut fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    _: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    register(domain, Span::new(buf, len), (access, offset, requested_key), mr, context)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn regv(
    domain: *mut fid,
    iov: *const iovec,
    count: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    _: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes so many entries.
    let memory = unsafe { Span::of_iov(iov, count) };
    register(domain, memory, (access, offset, requested_key), mr, context)
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    _: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    let attr = given!(attr);
    if attr.iface != 0 {
        return -FI_ENOSYS;
    }
    // SAFETY: the program passes so many entries.
    let memory = unsafe { Span::of_iov(attr.mr_iov, attr.iov_count) };
    register(domain, memory, (attr.access, attr.offset, attr.requested_key), mr, attr.context)
}

/// How many numbers of a type an operation takes at once, if there is such an operation.
pub(crate) fn atomic_limit(datatype: c_int, op: c_int) -> Option<(Datatype, AtomicOp, usize)> {
    let datatype = Datatype::of_number(u32::try_from(datatype).ok()?)?;
    let op = AtomicOp::of_number(u32::try_from(op).ok()?)?;
    op.takes(datatype).then(|| (datatype, op, MAX_ATOMIC_BYTES / datatype.bytes()))
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn query_atomic(
    _: *mut fid_domain,
    datatype: c_int,
    op: c_int,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    let Some((datatype, op, count)) = atomic_limit(datatype, op) else { return -FI_EOPNOTSUPP };
    let compares = flags & FI_COMPARE_ATOMIC != 0;
    if op.compares() != compares || (op == AtomicOp::Read && flags & FI_FETCH_ATOMIC == 0) {
        return -FI_EOPNOTSUPP;
    }
    // SAFETY: the program passes where the answer goes.
    unsafe { *attr = fi_atomic_attr { count, size: datatype.bytes() } };
    0
}
