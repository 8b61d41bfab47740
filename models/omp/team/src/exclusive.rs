//! Workers with address spaces of their own: processes.
//!
//! Before `main` begins, the program's variables are put into shared memory where they lie, and an arena is mapped that its heap and
//! all stacks are in. `main` runs on a stack of the arena, so that its thread-local storage, which the C library puts there, is
//! shared as well. The thread that the process began with has a stack of its own, and does nothing but start workers: it forks,
//! and the child runs a worker on another stack of the arena. What is not shared is what the libraries keep for
//! themselves, and what the program maps by itself.
//!
//! The same thread watches workers by descriptors of their processes. One that ends takes the job with it.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::env::Read;
use crate::lock::Spinlock;
use crate::root::{self, Root};
use crate::store::{SPAN, Store};
use crate::sys;
use crate::thread::Thread;

/// Workers that there can be.
const WORKERS: usize = 4096;
/// What stacks are at least, and what is added for thread-local storage.
const STACK_LEAST: usize = 256 * 1024;
const STACK_TLS: usize = 2 << 20;
/// What `main` has where the limit of stacks is none.
const STACK_UNLIMITED: usize = 64 << 20;
const GUARD: usize = SPAN;

/// What the starter and those who want workers share. It lies in the store.
pub struct Nursery {
    lock: Spinlock,
    /// A worker that is to be started, with its stack; one at a time.
    wanted: AtomicPtr<Thread>,
    stack: Cell<(*mut u8, usize)>,
    /// 0: asked; 1: started; otherwise the error plus one.
    answer: AtomicU32,
    bell: c_int,
    /// The process of `main`.
    process: i32,
    /// Whether the job ends, so that workers that do are no loss.
    ending: AtomicU32,
    store: &'static Store,
    workers: UnsafeCell<Workers>,
}

/// Processes of workers, which only the starter knows.
struct Workers {
    count: usize,
    list: [Worker; WORKERS],
}

#[derive(Clone, Copy)]
struct Worker {
    descriptor: c_int,
    process: i32,
}

// SAFETY: cells are written under the lock; what is behind `UnsafeCell` is the starter's, and whoever ends the job.
unsafe impl Sync for Nursery {}

static NURSERY: AtomicPtr<Nursery> = AtomicPtr::new(ptr::null_mut());

fn nursery() -> Option<&'static Nursery> {
    // SAFETY: once there, it is there for ever.
    unsafe { NURSERY.load(Ordering::Acquire).as_ref() }
}

/// Whether this job's workers are processes.
pub fn is_on() -> bool {
    nursery().is_some()
}

/// Whether this is a worker's process, not that of `main`.
pub fn is_worker() -> bool {
    // SAFETY: the call has no arguments.
    nursery().is_some_and(|nursery| nursery.process != unsafe { libc::getpid() })
}

/// Shares the program's variables, and makes a job whose store is the arena. Called before `main`, in the thread that the process
/// began with, once.
pub fn begin(read: Read) -> &'static Root {
    let store = arena(read.settings.arena);
    share_variables();
    // SAFETY: a new descriptor, for this job only; programs that it runs do not get it.
    let bell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if bell < 0 {
        sys::fatal("OMP_TOMBOLO=exclusive: no descriptor is left (ulimit -n)");
    }
    let none = Worker { descriptor: -1, process: 0 };
    let nursery = store.place(Nursery {
        lock: Spinlock::new(),
        wanted: AtomicPtr::new(ptr::null_mut()),
        stack: Cell::new((ptr::null_mut(), 0)),
        answer: AtomicU32::new(0),
        bell,
        // SAFETY: the call has no arguments.
        process: unsafe { libc::getpid() },
        ending: AtomicU32::new(0),
        store,
        workers: UnsafeCell::new(Workers { count: 0, list: [none; WORKERS] }),
    });
    let root = root::install(store, read, start_worker);
    NURSERY.store(ptr::from_ref(nursery).cast_mut(), Ordering::Release);
    root
}

/// Memory that all workers will have at the same address.
fn arena(asked: usize) -> &'static Store {
    let sizes = if asked > 0 { vec![asked] } else { vec![64 << 30, 16 << 30, 4 << 30, 1 << 30] };
    for size in sizes.iter().map(|size| size.next_multiple_of(SPAN).max(16 << 20)) {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping anywhere; it replaces nothing.
        let memory = unsafe {
            libc::mmap(ptr::null_mut(), size + SPAN, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if memory != libc::MAP_FAILED {
            let base = (memory as usize).next_multiple_of(SPAN) as *mut u8;
            // SAFETY: the mapping is fresh, zero and never unmapped; a span was added for the alignment.
            return unsafe { Store::format(base, size) };
        }
    }
    sys::fatal(
        "OMP_TOMBOLO=exclusive: the arena cannot be mapped; OMP_TOMBOLO_ARENA=<size> makes it smaller (as 512M)",
    )
}

/// Puts the program's own variables, not those of libraries, into shared memory at the addresses that they have.
fn share_variables() {
    // SAFETY: the kernel's vector.
    let (headers, count) = unsafe { (libc::getauxval(libc::AT_PHDR), libc::getauxval(libc::AT_PHNUM)) };
    // SAFETY: there are as many headers as the kernel says.
    let headers = unsafe {
        std::slice::from_raw_parts(
            headers as usize as *const libc::Elf64_Phdr,
            usize::try_from(count).unwrap_or(0),
        )
    };
    let number = |value: u64| usize::try_from(value).unwrap_or(0);
    let table = headers.iter().find(|header| header.p_type == libc::PT_PHDR);
    let base = table.map_or(0, |header| (headers.as_ptr() as usize).wrapping_sub(number(header.p_vaddr)));
    // What is read-only once the program is linked stays as it is.
    let sealed = headers.iter().find(|header| header.p_type == libc::PT_GNU_RELRO);
    let sealed = sealed.map_or(0, |header| base + number(header.p_vaddr + header.p_memsz));
    // SAFETY: the call has no pointers.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    for header in
        headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W != 0)
    {
        let end = (base + number(header.p_vaddr + header.p_memsz)).next_multiple_of(page);
        let mut begin = (base + number(header.p_vaddr)) & !(page - 1);
        if (begin..end).contains(&sealed) {
            begin = sealed.next_multiple_of(page);
        }
        if begin < end {
            share(begin, end - begin);
        }
    }
}

fn share(begin: usize, length: usize) {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the copy is made before its original is replaced, and moved onto it by the kernel in one step; the range is the
    // program's own data, which nobody else uses yet.
    unsafe {
        let copy = libc::mmap(ptr::null_mut(), length, rights, flags, -1, 0);
        if copy == libc::MAP_FAILED {
            sys::fatal("OMP_TOMBOLO=exclusive: there is no memory for the program's variables");
        }
        ptr::copy_nonoverlapping(begin as *const u8, copy.cast(), length);
        let moved = libc::mremap(
            copy,
            length,
            length,
            libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
            begin as *mut c_void,
        );
        if moved == libc::MAP_FAILED {
            sys::fatal("OMP_TOMBOLO=exclusive: the program's variables cannot be shared");
        }
    }
}

/// A stack in the arena, with pages at its end that nobody may touch.
fn stack(store: &Store, size: usize) -> (*mut u8, usize) {
    let size = (size.max(STACK_LEAST) + STACK_TLS + GUARD).next_multiple_of(SPAN);
    match store.allocate(size, SPAN) {
        Some(memory) => (memory, size),
        None => store.exhausted(),
    }
}

/// Starts a thread of this process on a stack of the arena.
fn run_on(
    (memory, size): (*mut u8, usize),
    start: sys::Start,
    argument: *mut c_void,
) -> Result<libc::pthread_t, i32> {
    // SAFETY: the guard is part of the stack's own memory, and only this process uses that stack.
    unsafe { libc::mprotect(memory.cast(), GUARD, libc::PROT_NONE) };
    // SAFETY: an attribute object is plain data until it is initialised in the next line.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    let mut thread = 0;
    // SAFETY: the attributes are ours; the stack is the thread's alone for as long as it runs.
    let failure = unsafe {
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstack(&raw mut attributes, memory.add(GUARD).cast(), size - GUARD);
        let failure = libc::pthread_create(&raw mut thread, &raw const attributes, start, argument);
        libc::pthread_attr_destroy(&raw mut attributes);
        failure
    };
    if failure == 0 { Ok(thread) } else { Err(failure) }
}

/// How a program's `main` is called.
pub type Main = unsafe extern "C" fn(c_int, *mut *mut i8, *mut *mut i8) -> c_int;

struct Call {
    main: Main,
    count: c_int,
    words: *mut *mut i8,
    environment: *mut *mut i8,
    status: AtomicU32,
    ended: AtomicU32,
}

extern "C" fn call_main(argument: *mut c_void) -> *mut c_void {
    // SAFETY: the argument is the caller's, which waits for the end.
    let call = unsafe { &*argument.cast::<Call>() };
    crate::thread::current();
    // SAFETY: the program's function, with what the C library gave for it.
    let status = unsafe { (call.main)(call.count, call.words, call.environment) };
    call.status.store(status.cast_unsigned(), Ordering::Relaxed);
    call.ended.store(1, Ordering::Release);
    ring();
    // The thread stays: what ends the program looks at its storage.
    loop {
        sys::futex_wait(&call.ended, 1);
    }
}

/// Runs `main` on a stack of the arena, and starts and watches workers meanwhile. What `main` returned.
pub fn run_main(main: Main, count: c_int, words: *mut *mut i8, environment: *mut *mut i8) -> c_int {
    let Some(nursery) = nursery() else { return 1 };
    let call = nursery.store.place(Call {
        main,
        count,
        words,
        environment,
        status: AtomicU32::new(0),
        ended: AtomicU32::new(0),
    });
    let argument = ptr::from_ref(call).cast_mut().cast();
    if let Err(error) = run_on(stack(nursery.store, stack_of_main()), call_main, argument) {
        let error = std::io::Error::from_raw_os_error(error);
        sys::fatal(&format!(
            "OMP_TOMBOLO=exclusive: main cannot be started ({error}): its thread-local storage may be larger than its stack; `ulimit -s` sets that"
        ));
    }
    loop {
        nursery.serve();
        if call.ended.load(Ordering::Acquire) != 0 {
            return call.status.load(Ordering::Relaxed).cast_signed();
        }
        nursery.wait();
    }
}

fn stack_of_main() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is ours to write.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    usize::try_from(limit.rlim_cur).ok().filter(|&size| size < 1 << 40).unwrap_or(STACK_UNLIMITED)
}

fn ring() {
    if let Some(nursery) = nursery() {
        let one = 1_u64;
        // SAFETY: eight bytes of ours; the descriptor is the job's.
        unsafe { libc::write(nursery.bell, (&raw const one).cast(), 8) };
    }
}

/// Has the starter start a worker.
fn start_worker(thread: &'static Thread) -> Result<(), String> {
    let Some(nursery) = nursery() else { return Err("there is no starter of workers".to_owned()) };
    if thread.node != 0 {
        let node = thread.root().nodes().at(thread.node).name();
        return Err(format!("a worker cannot be started on node {node}: workers are processes of this node"));
    }
    flush();
    let _held = nursery.lock.hold();
    let size = thread.root().settings.stack;
    nursery.stack.set(stack(nursery.store, if size > 0 { size } else { stack_of_main() }));
    nursery.answer.store(0, Ordering::Relaxed);
    nursery.wanted.store(ptr::from_ref(thread).cast_mut(), Ordering::Release);
    ring();
    while nursery.answer.load(Ordering::Acquire) == 0 {
        sys::futex_wait_for(&nursery.answer, 0, 1000);
    }
    match nursery.answer.load(Ordering::Acquire) {
        1 => Ok(()),
        error => {
            let error = std::io::Error::from_raw_os_error(error.cast_signed() - 1);
            Err(format!(
                "a worker's process could not be started: {error}; there can be {WORKERS}, and `ulimit -u` says how many"
            ))
        }
    }
}

impl Nursery {
    /// Starts the worker that is wanted, if there is one.
    fn serve(&self) {
        let wanted = self.wanted.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: threads live for ever.
        let Some(thread) = (unsafe { wanted.as_ref() }) else { return };
        let answer = match self.fork(thread) {
            Ok(()) => 1,
            Err(error) => error.cast_unsigned() + 1,
        };
        self.answer.store(answer, Ordering::Release);
        sys::futex_wake(&self.answer, 1);
    }

    fn fork(&self, thread: &'static Thread) -> Result<(), i32> {
        // SAFETY: only the starter touches the list.
        let workers = unsafe { &mut *self.workers.get() };
        if workers.count == WORKERS {
            return Err(libc::EAGAIN);
        }
        // Whoever wants the next worker may say so before the child comes to look.
        let stack = self.stack.get();
        // SAFETY: this thread's stack is private, so parent and child each have their own; the child goes on in `child` only.
        let process = unsafe { __fork() };
        match process {
            0 => self.child(thread, stack),
            -1 => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN)),
            _ => {
                let Some(descriptor) = watch(process).or_else(|| {
                    more_descriptors();
                    watch(process)
                }) else {
                    // SAFETY: the process is our child and not waited for, so its number is its own.
                    unsafe {
                        libc::kill(process, libc::SIGKILL);
                        libc::waitpid(process, ptr::null_mut(), 0);
                    }
                    return Err(libc::EMFILE);
                };
                workers.list[workers.count] = Worker { descriptor, process };
                workers.count += 1;
                Ok(())
            }
        }
    }

    /// The thread that a worker's process begins with: starts the worker on its stack, and sleeps for ever.
    fn child(&self, thread: &'static Thread, stack: (*mut u8, usize)) -> ! {
        // SAFETY: calls without pointers. If the job ended before the first of them, the second sees it.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != self.process {
                libc::_exit(0);
            }
        }
        let argument = ptr::from_ref(thread).cast_mut().cast();
        if let Err(error) = run_on(stack, crate::team::worker, argument) {
            let error = std::io::Error::from_raw_os_error(error);
            sys::fatal(&format!(
                "a worker cannot be started ({error}): its thread-local storage may be larger than its stack; OMP_STACKSIZE sets that"
            ));
        }
        loop {
            // SAFETY: the call has no arguments.
            unsafe { libc::pause() };
        }
    }

    /// Waits until something is wanted or a worker has ended.
    fn wait(&self) {
        // SAFETY: only the starter touches the list.
        let workers = unsafe { &*self.workers.get() };
        let listed = &workers.list[..workers.count];
        let watched = |descriptor| libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        let mut all: Vec<_> = listed.iter().map(|worker| watched(worker.descriptor)).collect();
        all.push(watched(self.bell));
        // SAFETY: the list is ours and as long as is told.
        unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, -1) };
        if all[listed.len()].revents != 0 {
            let mut count = 0_u64;
            // SAFETY: eight bytes of ours.
            unsafe { libc::read(self.bell, (&raw mut count).cast(), 8) };
        }
        for (worker, polled) in listed.iter().zip(&all) {
            if polled.revents != 0 {
                self.lost(*worker);
            }
        }
    }

    /// A worker's process has ended, and so does the job.
    fn lost(&self, worker: Worker) {
        while self.ending.load(Ordering::Acquire) != 0 {
            // Another thread ends the program.
            sys::futex_wait(&self.ending, 1);
        }
        let mut status = 0;
        // SAFETY: the status is ours to write; the process is our child.
        unsafe { libc::waitpid(worker.process, &raw mut status, 0) };
        if libc::WIFEXITED(status) {
            // A worker said `exit`, which ends the program wherever it is said.
            // SAFETY: ends the program, with what it has to do at its end.
            unsafe { libc::exit(libc::WEXITSTATUS(status)) };
        }
        let signal = libc::WTERMSIG(status);
        let hint = if signal == libc::SIGSEGV || signal == libc::SIGBUS {
            "; it touched memory that workers have not, or its stack is too small (OMP_STACKSIZE)"
        } else {
            ""
        };
        sys::complain(&format!(
            "tombolo omp: worker process {} was ended by signal {signal}{hint}: the job ends\n",
            worker.process
        ));
        end();
        // SAFETY: ends the program at once.
        unsafe { libc::_exit(128 + signal) };
    }
}

/// A descriptor of a worker's process.
fn watch(process: i32) -> Option<c_int> {
    // SAFETY: the process is our child and not waited for, so its number is its own.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    c_int::try_from(descriptor).ok().filter(|&descriptor| descriptor >= 0)
}

/// Allows this process as many descriptors as it may have.
fn more_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is ours to write.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Ends all workers. Called as the program ends, in the process of `main`.
pub fn end() {
    let Some(nursery) = nursery() else { return };
    if is_worker() {
        return;
    }
    nursery.ending.store(1, Ordering::SeqCst);
    // SAFETY: the job ends: nobody starts workers any more.
    let workers = unsafe { &*nursery.workers.get() };
    for worker in &workers.list[..workers.count] {
        // SAFETY: the process is our child; one that was waited for has no number that is used again before all are.
        unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, worker.descriptor, libc::SIGKILL, 0, 0);
            libc::waitpid(worker.process, ptr::null_mut(), 0);
        }
    }
}

/// Whether the program has streams besides those that it began with.
static STREAMS: AtomicBool = AtomicBool::new(false);

/// The program has opened a stream.
pub fn stream_opened() {
    STREAMS.store(true, Ordering::Relaxed);
}

/// Writes what this process printed: a worker's end is not that of the program, and its copy of a stream is nobody else's.
pub fn flush() {
    if !is_on() {
        return;
    }
    // SAFETY: the C library's own streams.
    unsafe {
        if STREAMS.load(Ordering::Relaxed) {
            libc::fflush(ptr::null_mut());
        } else if __fpending(stdout) > 0 {
            libc::fflush(stdout);
        }
    }
}

/// Gives the stream of output a buffer that is not in the arena: each worker is to have its own.
pub fn keep_output_apart() {
    const SIZE: usize = 4096;
    // SAFETY: memory that is never given back, for the C library's own stream, before it is used.
    unsafe {
        let memory = sys::reserve(SIZE).unwrap_or(ptr::null_mut());
        let mode = if libc::isatty(1) == 1 { libc::_IOLBF } else { libc::_IOFBF };
        libc::setvbuf(stdout, memory.cast(), mode, SIZE);
    }
}

// SAFETY: as the C library has them.
unsafe extern "C" {
    static stdout: *mut libc::FILE;
    fn __fpending(stream: *mut libc::FILE) -> usize;
    /// `fork` itself: the name that programs know is refused to them.
    fn __fork() -> libc::pid_t;
}
