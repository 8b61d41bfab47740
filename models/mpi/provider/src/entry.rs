//! Helpers shared by the functions that libfabric calls.

use core::ffi::{c_int, c_void};

use tombolo_mpi_fabric::{Failure, PostError};

use crate::abi::{self, fi_ops, fid};

/// Table entry of an unsupported call.
// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
pub(crate) unsafe extern "C" fn unsupported() -> isize {
    -(abi::FI_ENOSYS as isize)
}

/// Returns libfabric's error number for a failed operation.
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

/// Returns the result code of a call that begins an operation.
#[inline]
pub(crate) fn post_status(result: Result<(), PostError>) -> isize {
    match result {
        Ok(()) => 0,
        Err(PostError::Again) => -(abi::FI_EAGAIN as isize),
        Err(PostError::Failed(failure)) => -(error_number(failure) as isize),
    }
}

/// Returns the `fid` operations of an object that supports only `close`, not binding or control.
pub(crate) const fn fid_ops(close: unsafe extern "C" fn(*mut fid) -> c_int) -> fi_ops {
    fi_ops {
        size: size_of::<fi_ops>(),
        close,
        bind: no_bind,
        control: no_control,
        ops_open: unsupported,
        tostr: unsupported,
        ops_set: unsupported,
    }
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn no_bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    -abi::FI_ENOSYS
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn no_control(_: *mut fid, _: c_int, _: *mut c_void) -> c_int {
    -abi::FI_ENOSYS
}

/// Defines entries of a function table, which take a pointer to the object as their first argument.
macro_rules! entries {
    ($object:ty: $(
        $(#[$attribute:meta])*
        fn $name:ident($this:ident $(, $argument:ident: $type:ty)* $(,)?) -> $result:ty $body:block
    )*) => {$(
        $(#[$attribute])*
        // SAFETY: callers uphold the contract that libfabric's manual documents for the call.
        unsafe extern "C" fn $name($this: *mut $object $(, $argument: $type)*) -> $result $body
    )*};
}

/// Dereferences a pointer from libfabric as an object of this crate.
macro_rules! object {
    ($pointer:expr, $type:ty) => {
        // SAFETY: libfabric's users pass the pointer that the opening call returned, which is a box of this
        // type, until they close it, and from one thread at a time (`FI_THREAD_DOMAIN`). The objects that one
        // call accesses are distinct, and no reference outlives the call.
        unsafe { &mut *$pointer.cast::<$type>() }
    };
}

/// Dereferences a pointer that the program passed.
macro_rules! deref_param {
    ($pointer:expr) => {
        // SAFETY: libfabric's users pass pointers to the documented structures, valid for the duration of
        // the call.
        unsafe { &*$pointer }
    };
}

pub(crate) use {deref_param, entries, object};
