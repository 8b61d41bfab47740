//! Opening of domains and endpoints, and binding of endpoints.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::io::Write;

use tombolo::region::RegionFile;
use tombolo_mpi_fabric::{ChannelNet, Engine};
use tombolo_platform::memory::replace_private;

use crate::abi::*;
use crate::counter::{self, Counter};
use crate::domain::{self, Domain};
use crate::endpoint::{self, Endpoint};
use crate::entry::{deref_param, fid_ops, object, unsupported};
use crate::queue::{self, Queue};
use crate::vector::{self, Vector};
use crate::{atomic, info, message, rma};

static DOMAIN_FID_OPS: fi_ops = fid_ops(close_domain);

static DOMAIN_OPS: fi_ops_domain = fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: vector::open,
    cq_open: queue::open,
    endpoint: open_endpoint,
    scalable_ep: unsupported,
    cntr_open: counter::open,
    poll_open: unsupported,
    stx_ctx: unsupported,
    srx_ctx: unsupported,
    query_atomic: atomic::query_atomic,
    query_collective: unsupported,
    endpoint2: unsupported,
};

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
pub(crate) unsafe extern "C" fn open_domain(
    _: *mut fid_fabric,
    info: *mut fi_info,
    opened: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    let info = deref_param!(info);
    let mr_mode = match info.domain_attr.is_null() {
        true => 0,
        // SAFETY: libfabric's copy of the structure that `getinfo` returned, with the length of its own
        // version.
        false => unsafe { (&raw const (*info.domain_attr).mr_mode).read() },
    };
    let fid = fid { fclass: FI_CLASS_DOMAIN, context, ops: ptr::from_ref(&DOMAIN_FID_OPS) };
    let fid = fid_domain { fid, ops: ptr::from_ref(&DOMAIN_OPS), mr: ptr::from_ref(&domain::MR_OPS) };
    // SAFETY: the program passes a valid output pointer.
    unsafe { *opened = Box::into_raw(Box::new(Domain::new(fid, mr_mode))).cast() };
    0
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn close_domain(fid: *mut fid) -> c_int {
    if object!(fid, Domain).users > 0 {
        return -FI_EBUSY;
    }
    // SAFETY: allocated by `open` and not used afterwards.
    drop(unsafe { Box::from_raw(fid.cast::<Domain>()) });
    0
}

static ENDPOINT_FID_OPS: fi_ops =
    fi_ops { bind: bind_endpoint, control: endpoint::control, ..fid_ops(endpoint::close) };

/// Environment variable that disables direct access of peers to registered memory if it is `off`.
const DIRECT_VARIABLE: &str = "TOMBOLO_MPI_DIRECT";

/// Moves registered memory into a region that peers can map.
fn replace(address: usize, length_bytes: usize, region: &RegionFile) -> bool {
    let start = ptr::with_exposed_provenance_mut(address);
    let length_fits = region.length_bytes() >= length_bytes as u64;
    // SAFETY: the range holds memory that the program registered for peers and must keep until it closes the
    // registration, and the rest of its first and last page; the callee checks that it is private memory. The
    // region is new and at least as long, and its file was found sealed.
    length_fits && unsafe { replace_private(start, length_bytes, region, region.offset_bytes()) }.is_ok()
}

/// Prints why a peer is unreachable. MPI prints only the error number of the failed transfers.
fn warn(why: &str) {
    // Ignore a closed standard error.
    let _ = writeln!(std::io::stderr(), "tombolo: {why}");
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn open_endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    let info = deref_param!(info);
    let Ok(attached) = info::attach_once() else { return -FI_EIO };
    let Ok(net) = ChannelNet::new(&attached, replace, warn) else { return -FI_EIO };
    let mut engine = Engine::new(net);
    engine.set_directed(info.caps & FI_DIRECTED_RECV != 0);
    engine.set_direct(std::env::var_os(DIRECT_VARIABLE).is_none_or(|value| value != "off"));
    let tx_flags = if info.tx_attr.is_null() { 0 } else { deref_param!(info.tx_attr).op_flags };
    let rx_flags = if info.rx_attr.is_null() { 0 } else { deref_param!(info.rx_attr).op_flags };
    let opened = Box::into_raw(Box::new(Endpoint {
        fid: fid_ep {
            fid: fid { fclass: FI_CLASS_EP, context, ops: ptr::from_ref(&ENDPOINT_FID_OPS) },
            ops: ptr::from_ref(&endpoint::OPS),
            cm: ptr::from_ref(&endpoint::CM_OPS),
            msg: ptr::from_ref(&message::MSG_OPS),
            rma: ptr::from_ref(&rma::OPS),
            tagged: ptr::from_ref(&message::TAGGED_OPS),
            atomic: ptr::from_ref(&atomic::OPS),
            collective: ptr::null(),
        },
        engine,
        bindings: Vec::new(),
        has_vector: false,
        sends_to_queue: false,
        receives_to_queue: false,
        tx_flags,
        rx_flags,
        selective_sends: false,
        selective_receives: false,
    }));
    let domain = domain.cast::<Domain>();
    object!(domain, Domain).add_endpoint(opened);
    object!(opened, Endpoint).bindings.push(domain);
    // SAFETY: the program passes a valid output pointer.
    unsafe { *ep = opened.cast() };
    0
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn bind_endpoint(fid: *mut fid, to: *mut fid, flags: u64) -> c_int {
    let this = fid.cast::<Endpoint>();
    // SAFETY: every object begins with a `fid`.
    let class = unsafe { (*to).fclass };
    match class {
        FI_CLASS_AV => {
            let vector = to.cast::<Vector>();
            let endpoint = object!(this, Endpoint);
            endpoint.has_vector = true;
            endpoint.bindings.push(vector);
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
                endpoint.sends_to_queue = true;
                endpoint.selective_sends = selective;
            }
            if receives {
                endpoint.receives_to_queue = true;
                endpoint.selective_receives = selective;
            }
            endpoint.bindings.push(queue);
            object!(queue, Queue).bind(this, sends, receives);
        }
        FI_CLASS_CNTR => {
            let counter = to.cast::<Counter>();
            if flags & (FI_REMOTE_READ | FI_REMOTE_WRITE) != 0 {
                // Direct accesses of peers would not be counted.
                object!(this, Endpoint).engine.set_direct(false);
            }
            object!(this, Endpoint).bindings.push(counter);
            object!(counter, Counter).bind(this, flags);
        }
        FI_CLASS_EQ => {}
        _ => return -FI_EINVAL,
    }
    0
}
