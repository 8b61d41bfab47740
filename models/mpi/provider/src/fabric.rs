//! The fabric: a machine, which is where everything begins.

use core::ffi::{c_int, c_void};
use core::ptr;

use crate::abi::*;
use crate::counter::Counter;
use crate::entry::{fid_ops, not_there, object};
use crate::event::{self, Events};
use crate::open;
use crate::queue::Queue;

/// A fabric that was opened.
#[repr(C)]
pub(crate) struct Fabric {
    pub(crate) fid: fid_fabric,
}

static FID_OPS: fi_ops = fid_ops(close);

static OPS: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: open::open_domain,
    passive_ep: not_there,
    eq_open: event::open,
    wait_open: not_there,
    trywait,
    domain2: not_there,
};

// SAFETY: callers keep to what libfabric's manual says of the call.
pub(crate) unsafe extern "C" fn open(
    _: *const fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    let fid = fid { fclass: FI_CLASS_FABRIC, context, ops: ptr::from_ref(&FID_OPS) };
    let opened = Box::new(Fabric { fid: fid_fabric { fid, ops: ptr::from_ref(&OPS), api_version: 0 } });
    // SAFETY: libfabric passes where the pointer goes.
    unsafe { *fabric = Box::into_raw(opened).cast() };
    0
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: what `open` made, which is not used any more.
    drop(unsafe { Box::from_raw(fid.cast::<Fabric>()) });
    0
}

/// Whether a program may wait for the descriptors of all of these.
// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn trywait(_: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int {
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the program passes `count` pointers to objects.
        let fid = unsafe { *fids.add(index) };
        // SAFETY: each is the beginning of an object.
        let class = unsafe { (*fid).fclass };
        let idle = match class {
            FI_CLASS_CQ => object!(fid, Queue).park(),
            FI_CLASS_CNTR => object!(fid, Counter).park(),
            FI_CLASS_EQ => object!(fid, Events).is_empty(),
            _ => return -FI_ENOSYS,
        };
        if !idle {
            return -FI_EAGAIN;
        }
    }
    0
}
