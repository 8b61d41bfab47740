//! The fabric, which stands for a machine.

use core::ffi::{c_int, c_void};
use core::ptr;

use crate::abi::*;
use crate::counter::Counter;
use crate::entry::{fid_ops, object, unsupported};
use crate::event::{self, Events};
use crate::open;
use crate::queue::Queue;

/// An open fabric.
#[repr(C)]
pub(crate) struct Fabric {
    pub(crate) fid: fid_fabric,
}

static FID_OPS: fi_ops = fid_ops(close);

static OPS: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: open::open_domain,
    passive_ep: unsupported,
    eq_open: event::open,
    wait_open: unsupported,
    trywait,
    domain2: unsupported,
};

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
pub(crate) unsafe extern "C" fn open(
    _: *const fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    let fid = fid { fclass: FI_CLASS_FABRIC, context, ops: ptr::from_ref(&FID_OPS) };
    let opened = Box::new(Fabric { fid: fid_fabric { fid, ops: ptr::from_ref(&OPS), api_version: 0 } });
    // SAFETY: libfabric passes a valid output pointer.
    unsafe { *fabric = Box::into_raw(opened).cast() };
    0
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: allocated by `open` and not used afterwards.
    drop(unsafe { Box::from_raw(fid.cast::<Fabric>()) });
    0
}

/// Returns success if the program may block on the descriptors of all given objects.
// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn trywait(_: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int {
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the program passes `count` pointers to objects.
        let fid = unsafe { *fids.add(index) };
        // SAFETY: every object begins with a `fid`.
        let class = unsafe { (*fid).fclass };
        let idle = match class {
            FI_CLASS_CQ => object!(fid, Queue).prepare_wait(),
            FI_CLASS_CNTR => object!(fid, Counter).prepare_wait(),
            FI_CLASS_EQ => object!(fid, Events).is_empty(),
            _ => return -FI_ENOSYS,
        };
        if !idle {
            return -FI_EAGAIN;
        }
    }
    0
}
