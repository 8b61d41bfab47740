//! The provider `tombolo` for libfabric: reliable datagrams between the domains of a machine, for MPI.
//!
//! libfabric loads it from the folders of `FI_PROVIDER_PATH` and calls [`fi_prov_ini`]; it reaches everything
//! else through tables of functions. Arguments of the program are trusted to be as libfabric's manual
//! requires. Messages of peers are not trusted; `tombolo-fabric` checks them.
//!
//! **Threads.** `FI_THREAD_DOMAIN`: the program calls functions of a libfabric domain, and of the objects
//! opened on it, from one thread at a time. This crate takes no lock.

mod abi;
mod atomic;
mod counter;
mod domain;
mod endpoint;
mod event;
mod fabric;
mod info;
mod message;
mod queue;
mod rma;
mod span;
mod vector;
mod yields;

use core::ffi::c_int;
use core::ptr;
use std::cell::UnsafeCell;

use abi::fi_provider;
use tombolo_fabric::{Busy, Failure};

/// The structure that libfabric knows the provider by.
struct Provider(UnsafeCell<fi_provider>);

// SAFETY: only libfabric touches it after it was given out, under a lock of its own.
unsafe impl Sync for Provider {}

static PROVIDER: Provider = Provider(UnsafeCell::new(fi_provider {
    version: info::VERSION,
    fi_version: info::API_VERSION,
    context: [ptr::null_mut(); 4],
    name: info::NAME.as_ptr(),
    getinfo: info::getinfo,
    fabric: fabric::open,
    cleanup,
}));

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn cleanup() {}

/// What libfabric calls when it has loaded the library.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut core::ffi::c_void {
    yields::find();
    PROVIDER.0.get().cast()
}

/// An entry for what is not offered.
// SAFETY: callers keep to what libfabric's manual says of the call.
pub(crate) unsafe extern "C" fn not_there() -> isize {
    -(abi::FI_ENOSYS as isize)
}

/// The number of libfabric that says why an operation failed.
pub(crate) fn error_number(failure: Failure) -> c_int {
    match failure {
        Failure::Truncated { .. } => abi::FI_ETRUNC,
        Failure::Canceled => abi::FI_ECANCELED,
        Failure::NoMessage => abi::FI_ENOMSG,
        Failure::Unreachable => abi::FI_EHOSTUNREACH,
        Failure::PeerClosed | Failure::PeerDied => abi::FI_ECONNRESET,
        Failure::Violation => abi::FI_EIO,
        Failure::NoKey => abi::FI_ENOKEY,
        Failure::NoAccess => abi::FI_EACCES,
        Failure::NoSuchOperation => abi::FI_EOPNOTSUPP,
    }
}

/// What a call returns that began an operation, or did not.
#[inline]
pub(crate) fn begun(result: Result<(), Busy>) -> isize {
    match result {
        Ok(()) => 0,
        Err(Busy::Again) => -(abi::FI_EAGAIN as isize),
        Err(Busy::Failed(failure)) => -(error_number(failure) as isize),
    }
}

/// An object by the structure that it begins with.
macro_rules! object {
    ($pointer:expr, $type:ty) => {
        // SAFETY: libfabric's users pass what the call that opened it returned, which was a box of this type, until they close
        // it, and from one thread at a time (`FI_THREAD_DOMAIN`). Objects that one call looks at are different ones, and none is
        // kept by reference beyond it.
        unsafe { &mut *$pointer.cast::<$type>() }
    };
}

/// What a pointer of a program points to.
macro_rules! given {
    ($pointer:expr) => {
        // SAFETY: libfabric's users pass pointers to what the manual says, there for the duration of the call.
        unsafe { &*$pointer }
    };
}

pub(crate) use {given, object};
