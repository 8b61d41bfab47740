//! Domains in libfabric's sense, which are unrelated to the domains of a machine, and memory registered with
//! them.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::collections::HashMap;

use tombolo_mpi_fabric::{Access, Memory, Region};

use crate::abi::*;
use crate::endpoint::{Binding, Endpoint};
use crate::entry::{deref_param, fid_ops, object};
use crate::span::Span;

/// An open libfabric domain.
#[repr(C)]
pub(crate) struct Domain {
    fid: fid_domain,
    endpoints: Vec<*mut Endpoint>,
    regions: HashMap<u64, (Span, u64, Access)>,
    /// Whether the provider chooses the keys.
    assigns_keys: bool,
    /// Whether peers use this program's virtual addresses rather than offsets.
    use_virtual_addresses: bool,
    next_key: u64,
    /// Number of open objects of this domain.
    pub(crate) users: usize,
}

pub(crate) static MR_OPS: fi_ops_mr = fi_ops_mr { size: size_of::<fi_ops_mr>(), reg, regv, regattr };

impl Binding for Domain {
    fn remove_endpoint(&mut self, removed: *mut Endpoint) {
        self.endpoints.retain(|endpoint| *endpoint != removed);
        self.users -= 1;
    }
}

impl Domain {
    pub(crate) fn new(fid: fid_domain, mr_mode: c_int) -> Self {
        Self {
            fid,
            endpoints: Vec::new(),
            regions: HashMap::new(),
            assigns_keys: mr_mode == FI_MR_BASIC,
            use_virtual_addresses: mr_mode == FI_MR_BASIC,
            next_key: 1,
            users: 0,
        }
    }

    /// Registers the domain's memory with a new endpoint.
    pub(crate) fn add_endpoint(&mut self, added: *mut Endpoint) {
        let engine = &mut object!(added, Endpoint).engine;
        for (key, (memory, base, access)) in &self.regions {
            engine.register(*key, Region { memory: memory.clone(), base: *base, access: *access });
        }
        self.endpoints.push(added);
        self.users += 1;
    }

    fn register(&mut self, memory: Span, access: u64, offset: u64, requested_key: u64) -> Result<u64, c_int> {
        let key = if self.assigns_keys {
            while self.regions.contains_key(&self.next_key) {
                self.next_key += 1;
            }
            self.next_key
        } else {
            requested_key
        };
        if key == FI_KEY_NOTAVAIL || self.regions.contains_key(&key) {
            return Err(-FI_ENOKEY);
        }
        let base = if self.use_virtual_addresses { memory.address() as u64 } else { offset };
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

/// A memory registration.
#[repr(C)]
struct Registration {
    fid: fid_mr,
    domain: *mut Domain,
}

static REGISTRATION_OPS: fi_ops =
    fi_ops { bind: bind_registration, control: control_registration, ..fid_ops(close_registration) };

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn close_registration(fid: *mut fid) -> c_int {
    // SAFETY: allocated by `register` and not used afterwards.
    let closed = unsafe { Box::from_raw(fid.cast::<Registration>()) };
    let domain = object!(closed.domain, Domain);
    domain.unregister(closed.fid.key);
    domain.users -= 1;
    0
}

/// Accepts binding to an endpoint or a counter and ignores it: no offered mode requires it.
// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn bind_registration(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    0
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
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
            let registration = Registration { fid: fid_mr { fid, mem_desc: ptr::null_mut(), key }, domain };
            // SAFETY: the program passes a valid output pointer.
            unsafe { *mr = Box::into_raw(Box::new(registration)).cast() };
            0
        }
        Err(error) => error,
    }
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
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

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
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
    // SAFETY: the program passes `count` entries at `iov`.
    let memory = unsafe { Span::from_iov(iov, count) };
    register(domain, memory, (access, offset, requested_key), mr, context)
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    _: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    let attr = deref_param!(attr);
    if attr.iface != 0 {
        return -FI_ENOSYS;
    }
    // SAFETY: the program passes `iov_count` entries at `mr_iov`.
    let memory = unsafe { Span::from_iov(attr.mr_iov, attr.iov_count) };
    register(domain, memory, (attr.access, attr.offset, attr.requested_key), mr, attr.context)
}
