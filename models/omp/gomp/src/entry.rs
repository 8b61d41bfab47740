//! Entry of a program that loads the shared library, and functions that are restricted when its workers are
//! processes.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{fs, mem, ptr};

use tombolo_omp_team::job::stack::Main;
use tombolo_omp_team::job::{env, forked};
use tombolo_omp_team::primitives::{separate_processes, sys};

use crate::heap;

/// Type of the C library's `__libc_start_main`.
type LibcStartMain = unsafe extern "C" fn(
    Main,
    c_int,
    *mut *mut i8,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
) -> c_int;

static MAIN: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Returns whether the environment requests workers that are processes.
pub(crate) fn uses_worker_processes() -> bool {
    // SAFETY: the C library's environment, which does not change before `main`.
    let value = unsafe { libc::getenv(c"OMP_TOMBOLO".as_ptr()) };
    // SAFETY: a value that is not null is null-terminated.
    let mode = (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_bytes());
    mode.and_then(env::Mode::from_name).is_some_and(|mode| mode != env::Mode::Shared)
}

/// Version of the C library from which on programs begin in the function below.
const VERSION: &[u8] = b"\0GLIBC_2.34\0";

/// Whether the program's startup code called the function below, or will once the constructors of shared
/// libraries have run: if this library comes before the C library, and the program refers to that version of
/// the function.
pub(crate) fn will_main_be_of_job() -> bool {
    // A look-up with the default handle would begin in this library, which is linked with `-Bsymbolic`.
    // SAFETY: the handle is that of the program, and the name is null-terminated.
    let found =
        || unsafe { libc::dlsym(libc::dlopen(ptr::null(), libc::RTLD_LAZY), c"__libc_start_main".as_ptr()) };
    let is_needed = |program: Vec<u8>| program.windows(VERSION.len()).any(|part| part == VERSION);
    !MAIN.load(Ordering::Acquire).is_null()
        || (ptr::eq(found(), __libc_start_main as *const c_void)
            && fs::read("/proc/self/exe").is_ok_and(is_needed))
}

/// Interposes on the function that a program's startup code calls. If workers are processes, the job is set
/// up before `main` begins.
///
/// # Safety
/// As for the C library's `__libc_start_main`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_start_main(
    main: Main,
    argc: c_int,
    argv: *mut *mut i8,
    init: *mut c_void,
    fini: *mut c_void,
    rtld_fini: *mut c_void,
    stack_end: *mut c_void,
) -> c_int {
    // SAFETY: the C library has a function of this name, of this type.
    let next: Option<LibcStartMain> =
        unsafe { mem::transmute(libc::dlsym(libc::RTLD_NEXT, c"__libc_start_main".as_ptr())) };
    let Some(next) = next else { sys::fatal("the C library has no __libc_start_main") };
    let mut entry = main;
    if uses_worker_processes() {
        forked::limit_libraries();
        MAIN.store(main as *mut c_void, Ordering::Release);
        entry = main_of_job;
    }
    // SAFETY: the arguments are the program's, and the replaced `main` has the same type.
    unsafe { next(entry, argc, argv, init, fini, rtld_fini, stack_end) }
}

/// Runs in place of `main` if workers are processes: begins the job and runs the program's `main`.
///
/// # Safety
/// As the C library calls `main`.
unsafe extern "C" fn main_of_job(argc: c_int, argv: *mut *mut i8, envp: *mut *mut i8) -> c_int {
    separate_processes::set_private_output_buffer();
    let root = forked::begin();
    heap::set_store(root.store);
    // SAFETY: stored before the C library was called.
    let main: Main = unsafe { mem::transmute(MAIN.load(Ordering::Acquire)) };
    forked::run_main(main, argc, argv, envp)
}

// SAFETY: declared as in the C library.
unsafe extern "C" {
    fn __fork() -> libc::pid_t;
}

/// `exit`. A worker's process lets the process of `main` run the exit handlers.
#[unsafe(no_mangle)]
pub extern "C" fn exit(status: c_int) -> ! {
    if separate_processes::is_worker_process() {
        forked::exit_from_worker(status, false);
    }
    type End = unsafe extern "C" fn(c_int) -> !;
    // SAFETY: the C library's `exit` has this type.
    unsafe {
        let next: Option<End> = mem::transmute(libc::dlsym(libc::RTLD_NEXT, c"exit".as_ptr()));
        next.map_or_else(|| sys::exit_now(status), |next| next(status))
    }
}

/// `_exit`. Does not call the loader, because signal handlers and children of `fork` may call this at any
/// point.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    if separate_processes::is_worker_process() {
        forked::exit_from_worker(status, true);
    }
    sys::exit_now(status)
}

/// `_Exit`.
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}

/// `fork`. Refused if workers are processes: the child would share the stack and the variables with its
/// parent.
#[unsafe(no_mangle)]
pub extern "C" fn fork() -> libc::pid_t {
    if separate_processes::is_enabled() {
        sys::fatal(heap::FORK_ERROR);
    }
    // SAFETY: the C library's function.
    unsafe { __fork() }
}
