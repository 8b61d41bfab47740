//! POSIX threads in an image: a program's own threads can migrate as `main` can, or run on other nodes from
//! the start.
//!
//! If workers have address spaces of their own, a thread that the program creates gets its stack in the
//! arena.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use tombolo_omp_team::device::migrate;
use tombolo_omp_team::job::start;
use tombolo_omp_team::job::{created, stack};
use tombolo_omp_team::primitives::nonlocal_exit::{self, StartRoutine};
use tombolo_omp_team::primitives::{separate_processes, sys};
use tombolo_omp_team::team::keys::{Destructor, Keys, Values};
use tombolo_omp_team::team::root;
use tombolo_omp_team::team::thread::{self, CallExit, ExitTarget, Thread};

use crate::process::forward::{self, OwnCall, PROGRAM, WORDS, forward_to};
use crate::process::{handlers, interrupts, signals};
use crate::{cancellation, jumps, thread_objects};

// SAFETY: the C library's functions; `--wrap` gives them these names.
unsafe extern "C" {
    fn __real_pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start_routine: StartRoutine,
        argument: *mut c_void,
    ) -> c_int;
    fn __real_pthread_join(thread: libc::pthread_t, value: *mut *mut c_void) -> c_int;
    fn pthread_timedjoin_np(
        thread: libc::pthread_t,
        value: *mut *mut c_void,
        until: *const libc::timespec,
    ) -> c_int;
    fn __real_pthread_cancel(thread: libc::pthread_t) -> c_int;
    fn __real_pthread_kill(thread: libc::pthread_t, signal: c_int) -> c_int;
    fn __real_pthread_key_create(key: *mut u32, destructor: Option<Destructor>) -> c_int;
    fn __real_pthread_key_delete(key: u32) -> c_int;
    fn __real_pthread_getspecific(key: u32) -> *mut c_void;
    fn __real_pthread_setspecific(key: u32, value: *mut c_void) -> c_int;
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

/// Cleanup handler of musl's `pthread_cleanup_push`, linked to the previous one.
#[repr(C)]
struct Cleanup {
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
    next: *mut Cleanup,
}

/// Returns whether the caller is a thread of the program in a job whose workers have address spaces of their
/// own. The run-time's own threads have stacks outside the arena.
fn is_job_thread() -> bool {
    let here = 0_u8;
    separate_processes::is_enabled() && start::root().store.contains((&raw const here) as usize)
}

/// Creates a thread, on a stack in the arena unless the program provides one. In an image, `pthread_create`
/// calls this.
///
/// # Safety
/// As `pthread_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_omp_pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start_routine: StartRoutine,
    argument: *mut c_void,
) -> c_int {
    if !is_job_thread() {
        // SAFETY: guaranteed by the caller.
        return unsafe { __real_pthread_create(thread, attributes, start_routine, argument) };
    }
    let root = start::root();
    // SAFETY: guaranteed by the caller.
    unsafe { created::create(root, (thread, attributes), start_routine, argument, __real_pthread_create) }
}

/// C library handle of `main`'s thread, set when that begins.
static MAIN_THREAD: AtomicUsize = AtomicUsize::new(0);

/// Records that the caller is the thread of `main`.
pub(crate) fn record_main_thread() {
    // SAFETY: the call has no arguments.
    MAIN_THREAD.store(unsafe { __real_pthread_self() } as usize, Ordering::Relaxed);
}

/// Returns whether this process created a thread; only then can its C library operate on the handle.
fn is_local(thread: libc::pthread_t) -> bool {
    thread as usize == MAIN_THREAD.load(Ordering::Relaxed) || created::was_created_here(thread)
}

/// Reply of a process that did not create the thread.
const NOT_LOCAL: u64 = u64::MAX;

/// Forwards a call to the process that created a thread and waits for it. Returns an errno value.
fn forward_to_creator(call: OwnCall, thread: libc::pthread_t, word: u64) -> c_int {
    for process in PROGRAM.. {
        match forward_to(process, call as usize, &[thread as u64, word]) {
            None => break,
            Some(NOT_LOCAL) => {}
            Some(error) => return c_int::try_from(error).unwrap_or(libc::EINVAL),
        }
    }
    libc::ESRCH
}

/// Returns whether another process created the thread.
fn is_remote(thread: libc::pthread_t) -> bool {
    is_job_thread() && start::root().store.contains(thread as usize) && !is_local(thread)
}

/// `pthread_join`, made by the process that created the thread.
///
/// # Safety
/// As `pthread_join`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_join(thread: libc::pthread_t, value: *mut *mut c_void) -> c_int {
    if is_remote(thread) {
        return cancellation::remote_cancellation_point(|| {
            forward_to_creator(OwnCall::Join, thread, value as u64)
        });
    }
    cancellation::local_cancellation_point(|| {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if !cancellation::is_migrated() {
                return __real_pthread_join(thread, value);
            }
            let joined = join_unless(thread, value, cancellation::is_due);
            joined.unwrap_or_else(|| {
                cancellation::test_cancel();
                libc::ECANCELED
            })
        }
    })
}

/// Interval at which a thread that joins another checks for its own cancellation, where the C library does
/// not interrupt it.
const POLL_INTERVAL_NS: i64 = 20_000_000;

/// Joins a thread unless `is_due` becomes true. Returns 0 or an errno value.
///
/// # Safety
/// As `pthread_join`.
unsafe fn join_unless(
    thread: libc::pthread_t,
    value: *mut *mut c_void,
    is_due: impl Fn() -> bool,
) -> Option<c_int> {
    while !is_due() {
        let mut until = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time is a local variable; the caller guarantees the rest.
        let failed = unsafe {
            libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut until);
            let nanoseconds = until.tv_nsec + POLL_INTERVAL_NS;
            until.tv_sec += nanoseconds / 1_000_000_000;
            until.tv_nsec = nanoseconds % 1_000_000_000;
            pthread_timedjoin_np(thread, value, &raw const until)
        };
        if failed != libc::ETIMEDOUT {
            return Some(failed);
        }
    }
    None
}

/// Serves `pthread_join` for another process.
///
/// # Safety
/// The words are the arguments of such a call.
pub(crate) unsafe fn serve_join(&[thread, value, ..]: &[u64; WORDS]) -> u64 {
    let thread = thread as libc::pthread_t;
    if !is_local(thread) {
        return NOT_LOCAL;
    }
    let value = value as *mut *mut c_void;
    // SAFETY: the requesting thread waits for the result, and the words are its arguments.
    let error = unsafe {
        match interrupts::caller() {
            None => __real_pthread_join(thread, value),
            Some(caller) => {
                let joined = join_unless(thread, value, || caller.cancellation.is_due());
                joined.unwrap_or_else(|| {
                    interrupts::record_interruption();
                    libc::ECANCELED
                })
            }
        }
    };
    u64::from(error.unsigned_abs())
}

/// `pthread_kill`. A thread receives the signal in the process that created it, where it waits while it runs
/// elsewhere.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_kill(thread: libc::pthread_t, signal: c_int) -> c_int {
    if forward::is_in_worker_process() && thread == __wrap_pthread_self() && signal != 0 {
        return if signals::raise(signal) == 0 { 0 } else { libc::EINVAL };
    }
    if is_remote(thread) {
        return forward_to_creator(OwnCall::Kill, thread, u64::from(signal.unsigned_abs()));
    }
    // SAFETY: guaranteed by the caller.
    unsafe { kill(thread, signal) }
}

/// Sends a signal to a thread of this process. If the thread waits for a call in the program's process, the
/// signal interrupts that call.
///
/// # Safety
/// As `pthread_kill`.
unsafe fn kill(thread: libc::pthread_t, signal: c_int) -> c_int {
    if signal > 0
        && separate_processes::is_enabled()
        && let Some(record) = record_of(thread)
        && record.cancellation.calling_process() == Some(PROGRAM)
        && interrupt(record, PROGRAM, signal.unsigned_abs())
    {
        return 0;
    }
    if signal > 0 && separate_processes::is_worker_process() {
        handlers::install_from_program(signal);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { __real_pthread_kill(thread, signal) }
}

/// Interrupts the call that a process makes for a thread, by a signal, or by cancellation if `signal` is 0.
/// Returns whether there is such a call.
fn interrupt(record: &Thread, process: u64, signal: u32) -> bool {
    let words = [ptr::from_ref(record) as u64, u64::from(signal)];
    forward_to(process, OwnCall::Interrupt as usize, &words) == Some(1)
}

/// Serves `pthread_kill` for another process.
///
/// # Safety
/// The words are the arguments of such a call.
pub(crate) unsafe fn serve_kill(&[thread, signal, ..]: &[u64; WORDS]) -> u64 {
    let thread = thread as libc::pthread_t;
    if !is_local(thread) {
        return NOT_LOCAL;
    }
    // SAFETY: this process created the thread, and the requesting thread vouches that it exists.
    let error = unsafe { kill(thread, c_int::try_from(signal).unwrap_or(-1)) };
    u64::from(error.unsigned_abs())
}

/// `pthread_cancel`, made by the process that created the thread.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_cancel(thread: libc::pthread_t) -> c_int {
    if is_remote(thread) {
        return forward_to_creator(OwnCall::Cancel, thread, 0);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { cancel(thread) }
}

/// Serves `pthread_cancel` for another process.
///
/// # Safety
/// The words are the arguments of such a call.
pub(crate) unsafe fn serve_cancel(&[thread, ..]: &[u64; WORDS]) -> u64 {
    let thread = thread as libc::pthread_t;
    if !is_local(thread) {
        return NOT_LOCAL;
    }
    // SAFETY: the requesting thread waits for the result, and the words are its arguments.
    u64::from(unsafe { cancel(thread) }.unsigned_abs())
}

/// Requests the cancellation of a thread of this process.
///
/// # Safety
/// As `pthread_cancel`.
unsafe fn cancel(thread: libc::pthread_t) -> c_int {
    // SAFETY: guaranteed by the caller.
    let failed = unsafe { __real_pthread_cancel(thread) };
    if !separate_processes::is_enabled() {
        return failed;
    }
    // A starting thread publishes its record before it checks for the C library's request.
    sys::full_fence();
    if let Some(record) = record_of(thread) {
        record.cancellation.request();
        // Interrupt the call in flight; a call that begins from here on is not made.
        if let Some(process) = record.cancellation.calling_process()
            && record.cancellation.is_due()
        {
            interrupt(record, process, 0);
        }
    }
    failed
}

/// Finds the record of a thread of the program by its C library handle.
fn record_of(thread: libc::pthread_t) -> Option<&'static Thread> {
    root::current()?.threads().find(|record| belongs_to(record, thread))
}

/// Returns whether a record belongs to the thread of the program with this C library handle.
fn belongs_to(record: &Thread, thread: libc::pthread_t) -> bool {
    cancellation::is_program_thread(record) && record.status.pthread() == thread as usize
}

/// `pthread_detach`: a thread that ends leaves nothing to join.
///
/// # Safety
/// As `pthread_detach`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_detach(thread: libc::pthread_t) -> c_int {
    // Nothing to do in processes other than the creator's: the thread's stack is in the arena.
    if is_job_thread() && start::root().store.contains(thread as usize) && !created::was_created_here(thread)
    {
        return 0;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { __real_pthread_detach(thread) }
}

/// `pthread_self`: the handle of the program's thread, wherever it runs.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_self() -> libc::pthread_t {
    match thread::try_current().and_then(migrate::origin_pthread) {
        Some(name) => name as libc::pthread_t,
        None => match interrupts::caller() {
            Some(caller) => caller.status.pthread() as libc::pthread_t,
            // SAFETY: the call has no arguments.
            None => unsafe { __real_pthread_self() },
        },
    }
}

/// Returns the job's keys. Values migrate with a thread and are destroyed where it was created.
fn keys() -> Option<&'static Keys> {
    separate_processes::is_enabled().then(|| &start::root().keys)
}

/// `pthread_key_create`.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_key_create(key: *mut u32, destructor: Option<Destructor>) -> c_int {
    let Some(keys) = keys() else {
        // SAFETY: guaranteed by the caller.
        return unsafe { __real_pthread_key_create(key, destructor) };
    };
    match keys.create(destructor).and_then(|index| u32::try_from(index).ok()) {
        Some(index) => {
            // SAFETY: the caller guarantees that `key` can be written.
            unsafe { key.write(index) };
            0
        }
        None => libc::EAGAIN,
    }
}

/// `pthread_key_delete`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_key_delete(key: u32) -> c_int {
    match keys() {
        Some(keys) if keys.delete(key as usize) => 0,
        Some(_) => libc::EINVAL,
        // SAFETY: the call has no pointers.
        None => unsafe { __real_pthread_key_delete(key) },
    }
}

/// `pthread_getspecific`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_getspecific(key: u32) -> *mut c_void {
    let Some(keys) = keys() else {
        // SAFETY: the call has no pointers.
        return unsafe { __real_pthread_getspecific(key) };
    };
    let values = migrate::origin(start::current()).values.get();
    values.map_or(ptr::null_mut(), |values| keys.get(values, key as usize))
}

/// `pthread_setspecific`.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_setspecific(key: u32, value: *mut c_void) -> c_int {
    let Some(keys) = keys() else {
        // SAFETY: guaranteed by the caller.
        return unsafe { __real_pthread_setspecific(key, value) };
    };
    let me = migrate::origin(start::current());
    let values = me.values.get().unwrap_or_else(|| me.store().place(Values::default()));
    me.values.set(Some(values));
    if keys.set(values, key as usize, value) { 0 } else { libc::EINVAL }
}

/// Ends the calling thread of the program.
///
/// # Safety
/// As `pthread_exit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_exit(value: *mut c_void) -> ! {
    cancellation::end();
    let me = thread::try_current();
    match me.map_or(ExitTarget::Thread, |me| me.exit_target.get()) {
        ExitTarget::Call(stack) => {
            run_cleanup_handlers(|_| true);
            // SAFETY: the thread began with this call, which has not returned; the frames in between need no
            // cleanup.
            unsafe { nonlocal_exit::leave(*stack, value) }
        }
        ExitTarget::RemoteCall(remote_call) => {
            run_cleanup_handlers(|handler| jumps::is_in_remote_call(remote_call, handler as usize));
            // SAFETY: as above; the thread that requested the remote call ends next.
            unsafe { migrate::leave_call(remote_call, CallExit::Exit(value as usize)) }
        }
        ExitTarget::Thread => {
            if is_job_thread() && me.is_some_and(|me| me.stack.get().is_some_and(|stack| stack.is_main)) {
                run_cleanup_handlers(|_| true);
                thread_objects::destroy();
                created::wait_for_all();
                stack::end_main(0);
            }
            // SAFETY: guaranteed by the caller.
            unsafe { __real_pthread_exit(value) }
        }
    }
}

/// Calls the handlers of `pthread_cleanup_push`, the last first, while they are in a frame that is left.
fn run_cleanup_handlers(is_left: impl Fn(*const Cleanup) -> bool) {
    extern "C" fn nothing(_: *mut c_void) {}
    loop {
        let mut last = Cleanup { function: None, argument: ptr::null_mut(), next: ptr::null_mut() };
        // SAFETY: the pushed handler is popped at once; it links to the previous one.
        unsafe {
            _pthread_cleanup_push(&raw mut last, nothing, ptr::null_mut());
            _pthread_cleanup_pop(&raw mut last, 0);
            if last.next.is_null() || !is_left(last.next) {
                return;
            }
            _pthread_cleanup_pop(last.next, 1);
        }
    }
}

/// Converts an errno value to the return value of a function: sets `errno` and returns -1, or returns 0 for
/// 0.
pub(crate) fn errno_status(error: c_int) -> c_int {
    if error == 0 {
        return 0;
    }
    sys::set_errno(usize::try_from(error).unwrap_or(0));
    -1
}
