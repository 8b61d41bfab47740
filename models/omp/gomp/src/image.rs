//! Where an image of `tombolo ompcc` begins: as the program, or as a worker of it on any node.
//!
//! The image is static, so the linker puts these functions in place of those of the C library (`--wrap`).

use std::ffi::{c_char, c_int, c_void};

use tombolo_omp_domains::hub::Image;
use tombolo_omp_domains::{hub, worker_main};
use tombolo_omp_team::device::{calls, memory};
use tombolo_omp_team::job::stack::Main;
use tombolo_omp_team::job::{env, stack};
use tombolo_omp_team::primitives::{exclusive, sys};
use tombolo_omp_team::team::root;

use crate::{cancellation, exceptions, heap, process, symbols, thread_objects, threads, variables};

// SAFETY: the linker defines these, as `tombolo ompcc` has it; the functions are the program's and the C
// library's.
unsafe extern "C" {
    static __tombolo_omp_layout_id: [u8; 32];
    static __tombolo_omp_constructors_start: [u8; 0];
    static __tombolo_omp_constructors_end: [u8; 0];
    fn __real_main(count: c_int, words: *mut *mut c_char, environment: *mut *mut c_char) -> c_int;
    fn __real___mmap(
        address: *mut c_void,
        length: usize,
        rights: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn __real___munmap(address: *mut c_void, length: usize) -> c_int;
    fn __real___unmapself(address: *mut c_void, length: usize) -> !;
}

/// Says which addresses mean the same in all builds: from the beginning of the image to the end of the
/// program's variables. The C library's variables lie there as well, and each process has its own.
fn say_what_is_shared() {
    let end = variables::of_program().end;
    // SAFETY: the kernel's vector.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    // The headers are in the image's first page, if it has them in memory.
    let begin = usize::try_from(headers).unwrap_or(0) & !0xffff;
    calls::set_shared(if begin > 0 && begin < end { begin } else { variables::of_program().start }, end);
}

fn image() -> Image {
    // SAFETY: the linker has put 32 bytes there, which do not change.
    let id = unsafe { __tombolo_omp_layout_id };
    std::array::from_fn(|word| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&id[word * 8..word * 8 + 8]);
        u64::from_le_bytes(bytes)
    })
}

/// Creates a thread that ends at once. With the first one of a process the C library writes to the standard
/// streams, which no thread can do while memory that is sent in pages has no thread yet that serves it.
fn create_first_thread() {
    match std::thread::Builder::new().spawn(|| {}) {
        Ok(thread) => drop(thread.join()),
        Err(error) => sys::fatal(format_args!("no thread can be created: {error}")),
    }
}

/// Becomes a worker, if this process is to be one. Called before the program's own constructors, which are
/// not a worker's to run.
pub(crate) fn join() {
    if worker_main::is_wanted() {
        memory::set_memory(heap::OWN);
        say_what_is_shared();
        process::serve(threads::serve_join, threads::serve_kill, threads::serve_cancel);
        exceptions::begin();
        create_first_thread();
        // SAFETY: the variables are those of the program, of which nothing has run.
        unsafe { worker_main::run(variables::of_program(), image(), heap::lies_in) }
    }
}

/// Whether the environment asks for workers with address spaces of their own.
pub(crate) fn is_wanted() -> bool {
    let mode = std::env::var("OMP_TOMBOLO").unwrap_or_default();
    env::Mode::named(mode.trim().as_bytes()).is_some_and(|mode| mode != env::Mode::Shared)
}

/// What runs before the program's `main`, and then that. All that constructors allocate is allocated when the
/// heap is where workers have it too.
///
/// # Safety
/// As the C library calls `main`.
unsafe extern "C" fn main_of_program(
    count: c_int,
    words: *mut *mut c_char,
    environment: *mut *mut c_char,
) -> c_int {
    sys::handle_signals();
    threads::is_main();
    cancellation::begin();
    exceptions::begin();
    let mut at = (&raw const __tombolo_omp_constructors_start).cast::<extern "C" fn()>();
    let end = (&raw const __tombolo_omp_constructors_end).cast::<extern "C" fn()>();
    while at < end {
        // SAFETY: between the two are addresses of functions without arguments, as compilers list them for
        // the C library.
        unsafe {
            (*at)();
            at = at.add(1);
        }
    }
    // SAFETY: the caller says so.
    let status = unsafe { __real_main(count, words, environment) };
    thread_objects::destroy();
    status
}

/// What the C library calls as the program's `main`.
///
/// # Safety
/// As the C library calls `main`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_main(
    count: c_int,
    words: *mut *mut c_char,
    environment: *mut *mut c_char,
) -> c_int {
    if !is_wanted() {
        // SAFETY: as the C library would call it.
        return unsafe { main_of_program(count, words, environment) };
    }
    say_what_is_shared();
    process::serve(threads::serve_join, threads::serve_kill, threads::serve_cancel);
    // A handler of the program may wait for other threads, for which this one has to be there.
    sys::withhold_signals();
    create_first_thread();
    hub::name_functions(symbols::name_of_called);
    // SAFETY: the variables are those of the program, whose `main` has not begun.
    let hub = unsafe { hub::begin(env::read(), variables::of_program(), image()) };
    heap::lies_in(hub.root().store);
    // SAFETY: the two types differ in whether characters are signed, which pointers to them do not show.
    let main: Main = unsafe { std::mem::transmute(main_of_program as *const ()) };
    // SAFETY: as the C library gave them.
    unsafe { hub.run(main, count, words) }
}

/// Memory that the C library asks the system for: that of a thread whose stack is in the arena lies there as
/// well.
///
/// # Safety
/// As `mmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___mmap(
    address: *mut c_void,
    length: usize,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    if let Some(memory) = stack::storage(length) {
        return memory.cast();
    }
    // SAFETY: the caller says so.
    unsafe { __real___mmap(address, length, rights, flags, file, offset) }
}

/// Whether memory is of the arena. What a thread had there is the next thread's.
fn is_in_arena(address: *mut c_void) -> bool {
    root::current().is_some_and(|root| exclusive::is_on() && root.store.holds(address as usize))
}

/// Memory that the C library gives back to the system, that of a thread that was joined above all.
///
/// # Safety
/// As `munmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___munmap(address: *mut c_void, length: usize) -> c_int {
    if is_in_arena(address) {
        return 0;
    }
    // SAFETY: the caller says so.
    unsafe { __real___munmap(address, length) }
}

/// The end of a thread that is not joined, with its memory.
///
/// # Safety
/// As the C library calls it: nothing of the thread is used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___unmapself(address: *mut c_void, length: usize) -> ! {
    if is_in_arena(address) {
        loop {
            // SAFETY: the call has no pointers, and ends this thread.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
    }
    // SAFETY: the caller says so.
    unsafe { __real___unmapself(address, length) }
}

// SAFETY: the C library's function of this name.
unsafe extern "C" {
    fn __real_fork() -> libc::pid_t;
}

/// `fork`. A program whose workers have address spaces of their own cannot: its stack and its variables would
/// be those of the child as well.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_fork() -> libc::pid_t {
    if exclusive::is_on() {
        sys::fatal(heap::FORKS);
    }
    // SAFETY: the C library's function.
    unsafe { __real_fork() }
}
