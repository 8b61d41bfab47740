//! Workers that are forked from the program. Used for programs that are linked as usual, whose addresses are
//! valid only in forked children.
//!
//! The process's first thread (the starter) forks when a worker is needed. Parent and child each continue
//! with their own copy of its stack, and the child starts the worker on another stack in the arena. Workers
//! thus inherit the state of libraries at that time, and functions have the same addresses without symbol
//! lookups.
//!
//! A process has one worker or, in hybrid mode, a group of them. It is notified of each through a word in the
//! arena.
//!
//! The starter also watches worker processes through pidfds. If one ends, the job ends.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::env::{EnvSettings, Mode};
use super::stack::{Main, MainCall, Stack};
use super::{start, worker};
use crate::primitives::lock::Spinlock;
use crate::primitives::separate_processes::{self, flush, mark_worker_process};
use crate::primitives::store::{SPAN, Store};
use crate::primitives::sys;
use crate::team::root::{self, Root};
use crate::team::thread::Thread;

/// Maximum number of worker processes.
const PROCESSES_MAX: usize = 4096;

/// State shared by the starter and threads that request workers, in the store.
pub struct Forker {
    lock: Spinlock,
    /// Whether a request for a worker is pending; one at a time.
    request_pending: AtomicU32,
    /// Requested worker and its stack.
    worker: Cell<Option<(&'static Thread, Stack)>>,
    /// 0 while pending, 1 once started, otherwise the error number plus one.
    result: AtomicU32,
    event_fd: c_int,
    /// Process id of the program (`main`).
    process: i32,
    /// Number of threads per process.
    group: u32,
    /// Whether the job is ending, so that the end of a worker is expected.
    ending: AtomicU32,
    /// Whether a worker ended the program by `_exit`.
    exited_immediately: AtomicU32,
    store: &'static Store,
    workers: UnsafeCell<Workers>,
    notify_words: [NotifyWord; PROCESSES_MAX],
}

/// Worker processes, accessed only by the starter.
struct Workers {
    count: usize,
    /// Number of threads in the newest process, which is that of `main` at first.
    threads: u32,
    list: [Worker; PROCESSES_MAX],
}

#[derive(Clone, Copy)]
struct Worker {
    descriptor: c_int,
    process: i32,
}

/// Notification word of a process: it changes when the process must start the requested worker.
#[repr(align(64))]
struct NotifyWord(AtomicU32);

// SAFETY: cells are written with the lock held. Only the starter accesses the `UnsafeCell`, and
// `kill_workers` once the job ends.
unsafe impl Sync for Forker {}

static FORKER: AtomicPtr<Forker> = AtomicPtr::new(ptr::null_mut());

fn forker() -> Option<&'static Forker> {
    // SAFETY: a forker is never freed.
    unsafe { FORKER.load(Ordering::Acquire).as_ref() }
}

/// Begins the job: shares the program's variables, from when on there can be workers. Called once, in place
/// of `main`, in the process's first thread. Constructors may have created the job before.
pub fn begin() -> &'static Root {
    let root = start::root();
    share_variables();
    separate_processes::set_before_main(false);
    root
}

/// Limits regions of shared libraries to one thread if their constructors, which have just run, used OpenMP.
/// Such libraries keep state for their regions in their own variables or mappings, which workers do not
/// share: OpenBLAS would compute wrong results.
pub fn limit_libraries() {
    if root::current().is_some() {
        let (base, headers) = (load_base(), program_headers());
        let mut end = base;
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
            end = end.max(base + number(header.p_vaddr + header.p_memsz));
        }
        separate_processes::limit_regions_to_program(base..end);
    }
}

/// Creates a job whose store is the arena. It has no workers until [`begin`].
pub(super) fn create_job(env_settings: EnvSettings) -> &'static Root {
    env_settings.require_single_node();
    let store = map_arena(env_settings.settings.arena);
    // SAFETY: creates a descriptor for this job only; programs that it executes do not inherit it.
    let event_fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if event_fd < 0 {
        sys::fatal("out of file descriptors; `ulimit -n` sets how many there may be");
    }
    let none = Worker { descriptor: -1, process: 0 };
    let forker = store.place(Forker {
        lock: Spinlock::new(),
        request_pending: AtomicU32::new(0),
        worker: Cell::new(None),
        result: AtomicU32::new(0),
        event_fd,
        // SAFETY: the call has no arguments.
        process: unsafe { libc::getpid() },
        group: if env_settings.mode == Mode::Hybrid { env_settings.group } else { 1 },
        ending: AtomicU32::new(0),
        exited_immediately: AtomicU32::new(0),
        store,
        workers: UnsafeCell::new(Workers { count: 0, threads: 1, list: [none; PROCESSES_MAX] }),
        notify_words: [const { NotifyWord(AtomicU32::new(0)) }; PROCESSES_MAX],
    });
    separate_processes::set_before_main(true);
    separate_processes::enable(kill_workers);
    FORKER.store(ptr::from_ref(forker).cast_mut(), Ordering::Release);
    start::install(store, env_settings, start_worker)
}

/// Maps the arena, which all workers inherit at the same address.
fn map_arena(asked: usize) -> &'static Store {
    let sizes = if asked > 0 { vec![asked] } else { vec![64 << 30, 16 << 30, 4 << 30, 1 << 30] };
    let prot = libc::PROT_READ | libc::PROT_WRITE | if has_executable_stack() { libc::PROT_EXEC } else { 0 };
    for size in sizes.iter().map(|size| size.next_multiple_of(SPAN).max(16 << 20)) {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping anywhere; it replaces nothing.
        let memory = unsafe { libc::mmap(ptr::null_mut(), size + SPAN, prot, flags, -1, 0) };
        if memory != libc::MAP_FAILED {
            let base = (memory as usize).next_multiple_of(SPAN) as *mut u8;
            // SAFETY: the mapping is fresh, zero and never unmapped; a span was added for the alignment.
            return unsafe { Store::format(base, size) };
        }
    }
    sys::fatal("the arena cannot be mapped; OMP_TOMBOLO_ARENA=<size> makes it smaller (as 512M)")
}

/// Returns the program headers of the program.
fn program_headers() -> &'static [libc::Elf64_Phdr] {
    // SAFETY: reads the auxiliary vector.
    let (headers, count) = unsafe { (libc::getauxval(libc::AT_PHDR), libc::getauxval(libc::AT_PHNUM)) };
    // SAFETY: the kernel reports the address and number of the program headers, which stay mapped.
    unsafe {
        std::slice::from_raw_parts(
            headers as usize as *const libc::Elf64_Phdr,
            usize::try_from(count).unwrap_or(0),
        )
    }
}

/// Returns the difference between addresses in memory and in the program's file.
fn load_base() -> usize {
    let headers = program_headers();
    let table = headers.iter().find(|header| header.p_type == libc::PT_PHDR);
    table.map_or(0, |header| (headers.as_ptr() as usize).wrapping_sub(number(header.p_vaddr)))
}

/// Returns a number of a program header.
fn number(value: u64) -> usize {
    usize::try_from(value).unwrap_or(0)
}

/// Whether the program executes code on its stacks, which are in the arena: calls of nested functions through
/// pointers do.
fn has_executable_stack() -> bool {
    let mut headers = program_headers().iter();
    headers.any(|header| header.p_type == libc::PT_GNU_STACK && header.p_flags & libc::PF_X != 0)
}

/// Moves the program's own variables, not those of libraries, into shared memory at the same addresses.
fn share_variables() {
    let (base, headers) = (load_base(), program_headers());
    // Data that is read-only after relocation (RELRO) stays private.
    let relro = headers.iter().find(|header| header.p_type == libc::PT_GNU_RELRO);
    let relro_end = relro.map_or(0, |header| base + number(header.p_vaddr + header.p_memsz));
    // SAFETY: the call has no pointers.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    for header in
        headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W != 0)
    {
        let end = (base + number(header.p_vaddr + header.p_memsz)).next_multiple_of(page);
        let mut begin = (base + number(header.p_vaddr)) & !(page - 1);
        if (begin..end).contains(&relro_end) {
            begin = relro_end.next_multiple_of(page);
        }
        if begin < end {
            remap_shared(begin, end - begin);
        }
    }
}

fn remap_shared(begin: usize, length: usize) {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the copy is complete before the kernel replaces the original with it in one step; the range is
    // the program's own data, which no other code uses yet.
    unsafe {
        let copy = libc::mmap(ptr::null_mut(), length, prot, flags, -1, 0);
        if copy == libc::MAP_FAILED {
            sys::fatal("out of memory: no shared memory for the program's variables");
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
            sys::fatal("the program's variables cannot be shared");
        }
    }
}

/// Runs `main` on a stack in the arena, starts and watches workers meanwhile, and returns the result of
/// `main`.
pub fn run_main(main: Main, argc: c_int, argv: *mut *mut i8, envp: *mut *mut i8) -> c_int {
    let Some(forker) = forker() else { return 1 };
    let call: &'static MainCall = forker.store.place(MainCall::new(main, (argc, argv, envp), wake_starter));
    call.start(forker.store);
    loop {
        forker.serve_request();
        if let Some(status) = call.status() {
            return status;
        }
        forker.wait_for_event();
    }
}

fn wake_starter() {
    if let Some(forker) = forker() {
        let one = 1_u64;
        // SAFETY: writes eight bytes of a local variable to the job's descriptor.
        unsafe { libc::write(forker.event_fd, (&raw const one).cast(), 8) };
    }
}

/// Requests a worker from the starter and waits until it runs.
fn start_worker(thread: &'static Thread) -> Result<(), String> {
    let Some(forker) = forker() else { return Err("this process cannot start workers".to_owned()) };
    if thread.node != 0 {
        let node = thread.root().nodes().at(thread.node).name();
        return Err(format!("a worker cannot be started on node {node}: workers are processes of this node"));
    }
    flush();
    let _held = forker.lock.lock();
    forker.worker.set(Some((thread, Stack::of_worker(thread))));
    forker.result.store(0, Ordering::Relaxed);
    forker.request_pending.store(1, Ordering::Release);
    wake_starter();
    while forker.result.load(Ordering::Acquire) == 0 {
        sys::futex_wait_for(&forker.result, 0, 1000);
    }
    match forker.result.load(Ordering::Acquire) {
        1 => Ok(()),
        error => {
            let error = std::io::Error::from_raw_os_error(error.cast_signed() - 1);
            Err(format!(
                "a worker's process could not be started: {error}; there can be {PROCESSES_MAX}, and `ulimit -u` says how many"
            ))
        }
    }
}

impl Forker {
    /// Serves a pending request for a worker: in the newest process if it has room, or in a new one.
    fn serve_request(&self) {
        if self.request_pending.swap(0, Ordering::AcqRel) == 0 {
            return;
        }
        // SAFETY: only the starter accesses the list.
        let workers = unsafe { &mut *self.workers.get() };
        if workers.threads == self.group {
            if let Err(error) = self.fork(workers) {
                return self.reply(error.cast_unsigned() + 1);
            }
            workers.threads = 0;
        }
        workers.threads += 1;
        match workers.count.checked_sub(1) {
            None => self.start_in_this_process(),
            Some(last) => {
                self.notify_words[last].0.fetch_add(1, Ordering::Release);
                sys::futex_wake(&self.notify_words[last].0, 1);
            }
        }
    }

    /// Answers the pending request.
    fn reply(&self, result: u32) {
        self.result.store(result, Ordering::Release);
        sys::futex_wake(&self.result, 1);
    }

    /// Starts the requested worker in this process.
    fn start_in_this_process(&self) {
        // Read before the worker starts: once it has, the next request may replace this one.
        let Some((thread, stack)) = self.worker.get() else { return };
        let argument = ptr::from_ref(thread).cast_mut().cast();
        // SAFETY: the requester allocated the stack for this worker.
        match unsafe { stack.run(worker::worker, argument) } {
            Ok(()) => self.reply(1),
            Err(text) => {
                sys::fatal(format_args!("a worker cannot be started ({text}); OMP_STACKSIZE sets that"))
            }
        }
    }

    /// Forks a process for workers.
    fn fork(&self, workers: &mut Workers) -> Result<(), i32> {
        if workers.count == PROCESSES_MAX {
            return Err(libc::EAGAIN);
        }
        // SAFETY: this thread's stack is private, so parent and child each have their own; the child
        // continues only in `worker_process_main`.
        let process = unsafe { __fork() };
        match process {
            0 => self.worker_process_main(workers.count),
            -1 => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN)),
            _ => {
                let Some(descriptor) = open_pidfd(process).or_else(|| {
                    raise_descriptor_limit();
                    open_pidfd(process)
                }) else {
                    // SAFETY: the process is an unreaped child, so its id cannot have been reused.
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

    /// Main loop of a worker process: starts a worker at each notification, never returns.
    fn worker_process_main(&self, number: usize) -> ! {
        // SAFETY: calls without pointers. If the parent died before the first takes effect, the second
        // detects it.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != self.process {
                libc::_exit(0);
            }
        }
        mark_worker_process();
        separate_processes::discard_output();
        let (notify_word, mut seen) = (&self.notify_words[number].0, 0);
        loop {
            while notify_word.load(Ordering::Acquire) == seen {
                sys::futex_wait(notify_word, seen);
            }
            seen = seen.wrapping_add(1);
            self.start_in_this_process();
        }
    }

    /// Waits for a request or the end of a worker process.
    fn wait_for_event(&self) {
        // SAFETY: only the starter accesses the list.
        let workers = unsafe { &*self.workers.get() };
        let listed = &workers.list[..workers.count];
        let watched = |descriptor| libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        let mut all: Vec<_> = listed.iter().map(|worker| watched(worker.descriptor)).collect();
        all.push(watched(self.event_fd));
        // SAFETY: the list is local and has the length given.
        unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, -1) };
        if all[listed.len()].revents != 0 {
            let mut count = 0_u64;
            // SAFETY: reads eight bytes into a local variable.
            unsafe { libc::read(self.event_fd, (&raw mut count).cast(), 8) };
        }
        for (worker, polled) in listed.iter().zip(&all) {
            if polled.revents != 0 {
                self.handle_worker_exit(*worker);
            }
        }
    }

    /// Ends the job because a worker process has ended.
    fn handle_worker_exit(&self, worker: Worker) {
        while self.ending.load(Ordering::Acquire) != 0 {
            // Another thread is ending the program.
            sys::futex_wait(&self.ending, 1);
        }
        let mut status = 0;
        // SAFETY: the status is local; the process is our child.
        unsafe { libc::waitpid(worker.process, &raw mut status, 0) };
        if libc::WIFEXITED(status) {
            let status = libc::WEXITSTATUS(status);
            if self.exited_immediately.load(Ordering::Acquire) != 0 {
                kill_workers();
                sys::exit_now(status);
            }
            // A worker called `exit`, which ends the program from any thread, with exit handlers run.
            sys::exit(status);
        }
        let signal = libc::WTERMSIG(status);
        let hint = if signal == libc::SIGSEGV || signal == libc::SIGBUS {
            "; it touched memory that workers have not, or its stack is too small (OMP_STACKSIZE)"
        } else {
            ""
        };
        sys::print_error(format_args!(
            "tombolo omp: worker process {} was ended by signal {signal}{hint}: the job ends\n",
            worker.process
        ));
        kill_workers();
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(128 + signal) };
    }
}

/// Ends the program from a worker process, as `exit` or, with `exited_immediately`, as `_exit` does. Exit
/// handlers run once, in the process of `main`, which notices the end of this process.
pub fn exit_from_worker(status: c_int, exited_immediately: bool) -> ! {
    match forker() {
        Some(forker) if exited_immediately => forker.exited_immediately.store(1, Ordering::Release),
        _ => flush(),
    }
    sys::exit_now(status)
}

/// Opens a pidfd of a worker process.
fn open_pidfd(process: i32) -> Option<c_int> {
    // SAFETY: the process is an unreaped child, so its id cannot have been reused.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    c_int::try_from(descriptor).ok().filter(|&descriptor| descriptor >= 0)
}

/// Raises the soft limit of descriptors to the hard limit.
fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is local.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Kills all workers. Called when the program ends, in the process of `main`.
fn kill_workers() {
    let Some(forker) = forker() else { return };
    forker.ending.store(1, Ordering::SeqCst);
    // SAFETY: the job ends, and no thread starts workers any more.
    let workers = unsafe { &*forker.workers.get() };
    for worker in &workers.list[..workers.count] {
        // SAFETY: the process is our child and addressed by its pidfd. `waitpid` on one that was reaped
        // already fails.
        unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, worker.descriptor, libc::SIGKILL, 0, 0);
            libc::waitpid(worker.process, ptr::null_mut(), 0);
        }
    }
}

// SAFETY: declared as in the C library.
unsafe extern "C" {
    /// The real `fork`: calls of the public name are refused in the program.
    fn __fork() -> libc::pid_t;
}
