//! What entries that libfabric calls have in common.

use core::ffi::{c_int, c_void};

use tombolo_mpi_fabric::{Busy, Failure};

use crate::abi::{self, fi_ops, fid};

/// The entry of a call that is not offered.
// SAFETY: callers keep to what libfabric's manual says of the call.
pub(crate) unsafe extern "C" fn not_there() -> isize {
    -(abi::FI_ENOSYS as isize)
}

/// The error number of libfabric for a failed operation.
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

/// What a call returns that was to begin an operation.
#[inline]
pub(crate) fn begun(result: Result<(), Busy>) -> isize {
    match result {
        Ok(()) => 0,
        Err(Busy::Again) => -(abi::FI_EAGAIN as isize),
        Err(Busy::Failed(failure)) => -(error_number(failure) as isize),
    }
}

/// The general entries of an object that cannot be bound or controlled, and closes by `close`.
pub(crate) const fn fid_ops(close: unsafe extern "C" fn(*mut fid) -> c_int) -> fi_ops {
    fi_ops {
        size: size_of::<fi_ops>(),
        close,
        bind: no_bind,
        control: no_control,
        ops_open: not_there,
        tostr: not_there,
        ops_set: not_there,
    }
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn no_bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    -abi::FI_ENOSYS
}

// SAFETY: callers keep to what libfabric's manual says of the call.
unsafe extern "C" fn no_control(_: *mut fid, _: c_int, _: *mut c_void) -> c_int {
    -abi::FI_ENOSYS
}

/// Entries of a table, all of which get the object that the table is of first.
macro_rules! entries {
    ($object:ty: $(
        $(#[$attribute:meta])*
        fn $name:ident($this:ident $(, $argument:ident: $type:ty)* $(,)?) -> $result:ty $body:block
    )*) => {$(
        $(#[$attribute])*
        // SAFETY: callers keep to what libfabric's manual says of the call.
        unsafe extern "C" fn $name($this: *mut $object $(, $argument: $type)*) -> $result $body
    )*};
}

/// An object by the structure that it begins with.
macro_rules! object {
    ($pointer:expr, $type:ty) => {
        // SAFETY: libfabric's users pass what the call that opened it returned, which was a box of this type,
        // until they close it, and from one thread at a time (`FI_THREAD_DOMAIN`). Objects that one call
        // looks at are different ones, and none is kept by reference beyond it.
        unsafe { &mut *$pointer.cast::<$type>() }
    };
}

/// What a pointer of a program points to.
macro_rules! given {
    ($pointer:expr) => {
        // SAFETY: libfabric's users pass pointers to what the manual says, there for the duration of the
        // call.
        unsafe { &*$pointer }
    };
}

pub(crate) use {entries, given, object};
