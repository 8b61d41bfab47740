//! Entry of an image of `tombolo ompcc`: as the program, or as one of its workers on any node.
//!
//! The image is linked statically, and the linker substitutes these functions for those of the C library
//! (`--wrap`).

use std::ffi::{c_char, c_int, c_void};

use tombolo_omp_domains::hub::Image;
use tombolo_omp_domains::{hub, worker_main};
use tombolo_omp_team::device::{calls, memory};
use tombolo_omp_team::job::stack::Main;
use tombolo_omp_team::job::{env, stack};
use tombolo_omp_team::primitives::{separate_processes, sys};
use tombolo_omp_team::team::root;

use crate::{cancellation, exceptions, heap, process, symbols, thread_objects, threads, variables};

// SAFETY: the linker defines these symbols, passed by `tombolo ompcc`; the functions are the program's and
// the C library's.
unsafe extern "C" {
    static __tombolo_omp_layout_id: [u8; 32];
    static __tombolo_omp_constructors_start: [u8; 0];
    static __tombolo_omp_constructors_end: [u8; 0];
    fn __real_main(argc: c_int, argv: *mut *mut c_char, envp: *mut *mut c_char) -> c_int;
    fn __real___mmap(
        address: *mut c_void,
        length: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn __real___munmap(address: *mut c_void, length: usize) -> c_int;
    fn __real___unmapself(address: *mut c_void, length: usize) -> !;
}

/// Registers the addresses that have the same meaning in all builds: from the start of the image to the end
/// of the program's variables. The range includes the C library's variables, of which each process has its
/// own.
fn register_shared_range() {
    let end = variables::of_program().end;
    // SAFETY: reads the auxiliary vector.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    // The program headers are in the image's first page if they are loaded.
    let begin = usize::try_from(headers).unwrap_or(0) & !0xffff;
    calls::set_shared(if begin > 0 && begin < end { begin } else { variables::of_program().start }, end);
}

fn image() -> Image {
    // SAFETY: the linker script places 32 constant bytes there.
    let id = unsafe { __tombolo_omp_layout_id };
    std::array::from_fn(|word| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&id[word * 8..word * 8 + 8]);
        u64::from_le_bytes(bytes)
    })
}

/// Creates a thread that ends immediately. When a process creates its first thread, the C library initializes
/// the locks of the standard streams. If memory is sent in pages, these are in such pages, and no thread can
/// write to them before the thread that serves the pages has been created.
fn create_first_thread() {
    match std::thread::Builder::new().spawn(|| {}) {
        Ok(thread) => drop(thread.join()),
        Err(error) => sys::fatal(format_args!("no thread can be created: {error}")),
    }
}

/// Turns this process into a worker if it was started as one. Called before the program's constructors, which
/// a worker must not run.
pub(crate) fn run_if_worker() {
    if worker_main::is_worker_process() {
        memory::set_allocator(heap::DEVICE_ALLOCATOR);
        register_shared_range();
        process::register(threads::serve_join, threads::serve_kill, threads::serve_cancel);
        exceptions::begin();
        create_first_thread();
        // SAFETY: the variables are the program's, and none of its code has run.
        unsafe { worker_main::run(variables::of_program(), image(), heap::set_store) }
    }
}

/// Returns whether the environment requests workers with address spaces of their own.
pub(crate) fn uses_worker_processes() -> bool {
    let mode = std::env::var("OMP_TOMBOLO").unwrap_or_default();
    env::Mode::from_name(mode.trim().as_bytes()).is_some_and(|mode| mode != env::Mode::Shared)
}

/// Runs the program's constructors and its `main`. The heap is in the arena by now, so that workers can
/// access what constructors allocate.
///
/// # Safety
/// As the C library calls `main`.
unsafe extern "C" fn main_of_program(argc: c_int, argv: *mut *mut c_char, envp: *mut *mut c_char) -> c_int {
    sys::restore_signal_mask();
    threads::record_main_thread();
    cancellation::begin();
    exceptions::begin();
    let mut at = (&raw const __tombolo_omp_constructors_start).cast::<extern "C" fn()>();
    let end = (&raw const __tombolo_omp_constructors_end).cast::<extern "C" fn()>();
    while at < end {
        // SAFETY: the array between the two symbols holds addresses of functions without arguments, as
        // compilers emit them for the C library.
        unsafe {
            (*at)();
            at = at.add(1);
        }
    }
    // SAFETY: guaranteed by the caller.
    let status = unsafe { __real_main(argc, argv, envp) };
    thread_objects::destroy();
    status
}

/// Wraps `main`: begins the job, if there is one, and runs the program.
///
/// # Safety
/// As the C library calls `main`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_main(argc: c_int, argv: *mut *mut c_char, envp: *mut *mut c_char) -> c_int {
    if !uses_worker_processes() {
        // SAFETY: the arguments are the C library's.
        return unsafe { main_of_program(argc, argv, envp) };
    }
    register_shared_range();
    process::register(threads::serve_join, threads::serve_kill, threads::serve_cancel);
    // A signal handler of the program may wait for other threads, which need this thread to make progress.
    sys::block_signals();
    create_first_thread();
    hub::set_symbolizer(symbols::name_of_remote_function);
    // SAFETY: the variables are the program's, whose `main` has not begun.
    let hub = unsafe { hub::begin(env::read(), variables::of_program(), image()) };
    heap::set_store(hub.root().store);
    // SAFETY: the two types differ only in the signedness of `char` behind pointers.
    let main: Main = unsafe { std::mem::transmute(main_of_program as *const ()) };
    // SAFETY: the arguments are the C library's.
    unsafe { hub.run(main, argc, argv) }
}

/// `mmap` as called by the C library. Memory for a thread whose stack is in the arena is allocated there too.
///
/// # Safety
/// As `mmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___mmap(
    address: *mut c_void,
    length: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    if let Some(memory) = stack::allocate_tls(length) {
        return memory.cast();
    }
    // SAFETY: guaranteed by the caller.
    unsafe { __real___mmap(address, length, prot, flags, fd, offset) }
}

/// Returns whether memory is in the arena. Memory of an ended thread there is reused for the next thread.
fn is_in_arena(address: *mut c_void) -> bool {
    root::current()
        .is_some_and(|root| separate_processes::is_enabled() && root.store.contains(address as usize))
}

/// `munmap` as called by the C library, mainly for the memory of a thread that was joined.
///
/// # Safety
/// As `munmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___munmap(address: *mut c_void, length: usize) -> c_int {
    if is_in_arena(address) {
        return 0;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { __real___munmap(address, length) }
}

/// End of a detached thread, which unmaps its own memory.
///
/// # Safety
/// As for the C library's function: nothing of the thread is used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___unmapself(address: *mut c_void, length: usize) -> ! {
    if is_in_arena(address) {
        loop {
            // SAFETY: the call takes no pointers and ends this thread.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
    }
    // SAFETY: guaranteed by the caller.
    unsafe { __real___unmapself(address, length) }
}

// SAFETY: the C library's function of this name.
unsafe extern "C" {
    fn __real_fork() -> libc::pid_t;
}

/// `fork`. Refused if workers have address spaces of their own: the child would share the stack and the
/// variables with its parent.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_fork() -> libc::pid_t {
    if separate_processes::is_enabled() {
        sys::fatal(heap::FORK_ERROR);
    }
    // SAFETY: the C library's function.
    unsafe { __real_fork() }
}
