//! Objects of C++ that each thread has of its own (`thread_local`), and that are destroyed at its end.

use std::ffi::{c_int, c_void};

use tombolo_omp_team::device::migrate;
use tombolo_omp_team::job::start;
use tombolo_omp_team::team::keys::Destructor;
use tombolo_omp_team::team::thread;

/// Has an object of the calling thread destroyed at its end. libstdc++ calls this, which musl does not have.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap___cxa_thread_atexit_impl(
    destroy: Destructor,
    object: *mut c_void,
    _library: *mut c_void,
) -> c_int {
    let me = migrate::origin(start::current());
    me.objects.enter(me.store(), destroy, object);
    0
}

/// Destroys the objects of the calling thread, as it ends the program.
pub(crate) fn destroy() {
    if let Some(me) = thread::known().map(migrate::origin) {
        // SAFETY: the program said so as it entered them.
        unsafe { me.objects.destroy(me.store()) };
    }
}
