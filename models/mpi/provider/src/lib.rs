//! The provider `tombolo` for libfabric: reliable datagrams between the domains of a machine, for MPI.
//!
//! libfabric loads it from the folders of `FI_PROVIDER_PATH` and calls [`fi_prov_ini`]; it calls everything
//! else through function tables. Arguments of the program are trusted to be as libfabric's manual requires.
//! Messages of peers are not trusted; `tombolo-mpi-fabric` validates them.
//!
//! **Threads.** `FI_THREAD_DOMAIN`: the program calls functions of a libfabric domain, and of the objects
//! opened on it, from one thread at a time. This crate takes no lock.

mod abi;
mod atomic;
mod counter;
mod domain;
mod endpoint;
mod entry;
mod event;
mod fabric;
mod info;
mod message;
mod open;
mod queue;
mod rma;
mod span;
mod vector;
mod waiting;
mod yields;

use core::ptr;
use std::cell::UnsafeCell;

use abi::fi_provider;

/// Provider structure handed to libfabric.
struct Provider(UnsafeCell<fi_provider>);

// SAFETY: after `fi_prov_ini` only libfabric accesses it, under a lock of its own.
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

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn cleanup() {}

/// Entry point that libfabric calls after loading the library. Returns the provider structure.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut core::ffi::c_void {
    yields::look_up_counter();
    PROVIDER.0.get().cast()
}
