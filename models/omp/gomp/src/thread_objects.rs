//! C++ objects with `thread_local` storage, which are destroyed at the end of their thread.

use std::ffi::{c_int, c_void};

use tombolo_omp_team::device::migrate;
use tombolo_omp_team::job::start;
use tombolo_omp_team::team::keys::Destructor;
use tombolo_omp_team::team::thread;

/// Registers an object of the calling thread for destruction at the thread's end. libstdc++ calls this
/// function, which musl lacks.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap___cxa_thread_atexit_impl(
    destroy: Destructor,
    object: *mut c_void,
    _library: *mut c_void,
) -> c_int {
    let me = migrate::origin(start::current());
    me.objects.register(me.store(), destroy, object);
    0
}

/// Destroys the objects of the calling thread when it ends the program.
pub(crate) fn destroy() {
    if let Some(me) = thread::try_current().map(migrate::origin) {
        // SAFETY: the program registered each object with its destructor.
        unsafe { me.objects.destroy(me.store()) };
    }
}
