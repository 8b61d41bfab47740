//! Threads of POSIX in an image: a program's own threads can migrate as `main` can, or run on other nodes
//! from their beginning.
//!
//! Where workers have address spaces of their own, a thread that the program creates gets its stack in the
//! arena.

use std::ffi::{c_int, c_void};
use std::ptr;

use tombolo_omp_team::device::migrate;
use tombolo_omp_team::job::start;
use tombolo_omp_team::job::{created, stack};
use tombolo_omp_team::primitives::leavable::{self, Begin};
use tombolo_omp_team::primitives::{exclusive, sys};
use tombolo_omp_team::team::thread::{self, WayOut};

// SAFETY: the C library's functions of these names; the linker has named them so.
unsafe extern "C" {
    fn __real_pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        begin: Begin,
        argument: *mut c_void,
    ) -> c_int;
    fn __real_pthread_join(thread: libc::pthread_t, value: *mut *mut c_void) -> c_int;
    fn __real_pthread_detach(thread: libc::pthread_t) -> c_int;
    fn __real_pthread_self() -> libc::pthread_t;
    fn __real_pthread_exit(value: *mut c_void) -> !;
    fn _pthread_cleanup_push(
        handler: *mut Cleanup,
        function: unsafe extern "C" fn(*mut c_void),
        argument: *mut c_void,
    );
    fn _pthread_cleanup_pop(handler: *mut Cleanup, runs: c_int);
}

/// What `pthread_cleanup_push` of musl keeps, the one before last.
#[repr(C)]
struct Cleanup {
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
    before: *mut Cleanup,
}

/// Whether the caller is a thread of the program in a job whose workers have address spaces of their own. The
/// run-time's own threads have stacks of their process.
fn is_of_job() -> bool {
    let here = 0_u8;
    exclusive::is_on() && start::root().store.holds((&raw const here) as usize)
}

/// Creates a thread, on a stack in the arena unless the program brings one. An image has `pthread_create`
/// call this.
///
/// # Safety
/// As `pthread_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_omp_pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    begin: Begin,
    argument: *mut c_void,
) -> c_int {
    if !is_of_job() {
        // SAFETY: the caller says so.
        return unsafe { __real_pthread_create(thread, attributes, begin, argument) };
    }
    let root = start::root();
    // SAFETY: the caller says so.
    unsafe { created::create(root, (thread, attributes), begin, argument, __real_pthread_create) }
}

/// Waits for the end of a thread.
///
/// # Safety
/// As `pthread_join`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_join(thread: libc::pthread_t, value: *mut *mut c_void) -> c_int {
    // The C library would wait for ever for a thread of another process.
    if is_of_job() && start::root().store.holds(thread as usize) && !created::is_of_this_process(thread) {
        sys::fatal("pthread_join: a thread is joined on the node on which it was created");
    }
    // SAFETY: the caller says so.
    unsafe { __real_pthread_join(thread, value) }
}

/// Has a thread that ends leave nothing to be joined.
///
/// # Safety
/// As `pthread_detach`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_detach(thread: libc::pthread_t) -> c_int {
    // On another node than that where it was created there is nothing to do: its stack is of the arena.
    if is_of_job() && start::root().store.holds(thread as usize) && !created::is_of_this_process(thread) {
        return 0;
    }
    // SAFETY: the caller says so.
    unsafe { __real_pthread_detach(thread) }
}

/// What the C library calls the thread of the program, wherever it runs.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_self() -> libc::pthread_t {
    match thread::known().and_then(migrate::name) {
        Some(name) => name as libc::pthread_t,
        // SAFETY: the call has no arguments.
        None => unsafe { __real_pthread_self() },
    }
}

/// Ends the calling thread of the program.
///
/// # Safety
/// As `pthread_exit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_exit(value: *mut c_void) -> ! {
    let me = thread::known();
    match me.map_or(WayOut::Thread, |me| me.way_out.get()) {
        WayOut::Call(stack) => {
            clean_up();
            // SAFETY: the call is that with which the thread began, which has not returned; the program's
            // functions have nothing else to clean up.
            unsafe { leavable::leave(*stack, value) }
        }
        WayOut::None => sys::fatal("pthread_exit: a thread is ended in a call that another node made"),
        WayOut::Thread => {
            if is_of_job() && me.is_some_and(|me| me.stack.get().is_some_and(|stack| stack.is_main)) {
                clean_up();
                created::wait_for_all();
                stack::end_main(0);
            }
            // SAFETY: the caller says so.
            unsafe { __real_pthread_exit(value) }
        }
    }
}

/// Calls what the program has registered by `pthread_cleanup_push`, the last first.
fn clean_up() {
    extern "C" fn nothing(_: *mut c_void) {}
    loop {
        let mut last = Cleanup { function: None, argument: ptr::null_mut(), before: ptr::null_mut() };
        // SAFETY: what is pushed is taken off again, which shows what was there before.
        unsafe {
            _pthread_cleanup_push(&raw mut last, nothing, ptr::null_mut());
            _pthread_cleanup_pop(&raw mut last, 0);
            if last.before.is_null() {
                return;
            }
            _pthread_cleanup_pop(last.before, 1);
        }
    }
}

/// What a function returns that fails with this number in `errno`, or does not if it is 0.
pub(crate) fn status(error: c_int) -> c_int {
    if error == 0 {
        return 0;
    }
    sys::set_errno(usize::try_from(error).unwrap_or(0));
    -1
}
