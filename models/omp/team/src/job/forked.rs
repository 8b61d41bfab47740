//! Workers that are children of the program, for a program whose addresses only it has.
//!
//! The thread that the process began with forks when a worker is wanted: parent and child each go on with
//! their own copy of its stack, and the child starts the worker on another stack of the arena. So workers
//! have what libraries had at that time, and functions have the same addresses, without a name being looked
//! up.
//!
//! A process has one worker, or, where threads are to be in groups, as many as a group has: it is told of
//! each by a word in the arena.
//!
//! The same thread watches workers by descriptors of their processes. One that ends takes the job with it.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::env::{Mode, Read};
use super::stack::{Call, Main, Stack};
use super::{start, worker};
use crate::primitives::exclusive::{self, become_worker, flush};
use crate::primitives::lock::Spinlock;
use crate::primitives::store::{SPAN, Store};
use crate::primitives::sys;
use crate::team::root::Root;
use crate::team::thread::Thread;

/// Processes of workers that there can be.
const PROCESSES: usize = 4096;

/// What the starter and those who want workers share. It lies in the store.
pub struct Nursery {
    lock: Spinlock,
    /// Whether a worker is to be started; one at a time.
    wanted: AtomicU32,
    /// Which, and on what stack.
    worker: Cell<Option<(&'static Thread, Stack)>>,
    /// 0: asked; 1: started; otherwise the error plus one.
    answer: AtomicU32,
    bell: c_int,
    /// The process of `main`.
    process: i32,
    /// Threads of a process.
    group: u32,
    /// Whether the job ends, so that workers that do are no loss.
    ending: AtomicU32,
    /// Whether a worker ended the program by `_exit`.
    at_once: AtomicU32,
    store: &'static Store,
    workers: UnsafeCell<Workers>,
    posts: [Post; PROCESSES],
}

/// Processes of workers, which only the starter knows.
struct Workers {
    count: usize,
    /// Threads of the process that was started last, which is that of `main` at first.
    threads: u32,
    list: [Worker; PROCESSES],
}

#[derive(Clone, Copy)]
struct Worker {
    descriptor: c_int,
    process: i32,
}

/// Where a process is told that it is to start the worker that is wanted: by a number that it has not seen.
#[repr(align(64))]
struct Post(AtomicU32);

// SAFETY: cells are written under the lock; only the starter uses what is in the `UnsafeCell`, and `end` once
// the job ends.
unsafe impl Sync for Nursery {}

static NURSERY: AtomicPtr<Nursery> = AtomicPtr::new(ptr::null_mut());

fn nursery() -> Option<&'static Nursery> {
    // SAFETY: once there, it is there for ever.
    unsafe { NURSERY.load(Ordering::Acquire).as_ref() }
}

/// Shares the program's variables, and makes a job whose store is the arena. Called before `main`, in the
/// thread that the process began with, once.
pub fn begin(read: Read) -> &'static Root {
    read.has_one_node();
    let store = arena(read.settings.arena);
    share_variables();
    // SAFETY: a new descriptor, for this job only; programs that it runs do not get it.
    let bell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if bell < 0 {
        sys::fatal("out of file descriptors; `ulimit -n` sets how many there may be");
    }
    let none = Worker { descriptor: -1, process: 0 };
    let nursery = store.place(Nursery {
        lock: Spinlock::new(),
        wanted: AtomicU32::new(0),
        worker: Cell::new(None),
        answer: AtomicU32::new(0),
        bell,
        // SAFETY: the call has no arguments.
        process: unsafe { libc::getpid() },
        group: if read.mode == Mode::Hybrid { read.group } else { 1 },
        ending: AtomicU32::new(0),
        at_once: AtomicU32::new(0),
        store,
        workers: UnsafeCell::new(Workers { count: 0, threads: 1, list: [none; PROCESSES] }),
        posts: [const { Post(AtomicU32::new(0)) }; PROCESSES],
    });
    let root = start::install(store, read, start_worker);
    exclusive::turn_on(end);
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
    sys::fatal("the arena cannot be mapped; OMP_TOMBOLO_ARENA=<size> makes it smaller (as 512M)")
}

/// Puts the program's own variables, not those of libraries, into shared memory at the addresses that they
/// have.
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
    // SAFETY: the copy is made before its original is replaced, and moved onto it by the kernel in one step;
    // the range is the program's own data, which no other code uses yet.
    unsafe {
        let copy = libc::mmap(ptr::null_mut(), length, rights, flags, -1, 0);
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

/// Runs `main` on a stack of the arena, and starts and watches workers meanwhile. What `main` returned.
pub fn run_main(main: Main, count: c_int, words: *mut *mut i8, environment: *mut *mut i8) -> c_int {
    let Some(nursery) = nursery() else { return 1 };
    let call: &'static Call = nursery.store.place(Call::new(main, (count, words, environment), ring));
    call.start(nursery.store);
    loop {
        nursery.serve();
        if let Some(status) = call.status() {
            return status;
        }
        nursery.wait();
    }
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
    let Some(nursery) = nursery() else { return Err("this process cannot start workers".to_owned()) };
    if thread.node != 0 {
        let node = thread.root().nodes().at(thread.node).name();
        return Err(format!("a worker cannot be started on node {node}: workers are processes of this node"));
    }
    flush();
    let _held = nursery.lock.hold();
    nursery.worker.set(Some((thread, Stack::of_worker(thread))));
    nursery.answer.store(0, Ordering::Relaxed);
    nursery.wanted.store(1, Ordering::Release);
    ring();
    while nursery.answer.load(Ordering::Acquire) == 0 {
        sys::futex_wait_for(&nursery.answer, 0, 1000);
    }
    match nursery.answer.load(Ordering::Acquire) {
        1 => Ok(()),
        error => {
            let error = std::io::Error::from_raw_os_error(error.cast_signed() - 1);
            Err(format!(
                "a worker's process could not be started: {error}; there can be {PROCESSES}, and `ulimit -u` says how many"
            ))
        }
    }
}

impl Nursery {
    /// Starts the worker that is wanted, if there is one: in the process that has room for it, or in a new
    /// one.
    fn serve(&self) {
        if self.wanted.swap(0, Ordering::AcqRel) == 0 {
            return;
        }
        // SAFETY: only the starter touches the list.
        let workers = unsafe { &mut *self.workers.get() };
        if workers.threads == self.group {
            if let Err(error) = self.fork(workers) {
                return self.say(error.cast_unsigned() + 1);
            }
            workers.threads = 0;
        }
        workers.threads += 1;
        match workers.count.checked_sub(1) {
            None => self.start_here(),
            Some(last) => {
                self.posts[last].0.fetch_add(1, Ordering::Release);
                sys::futex_wake(&self.posts[last].0, 1);
            }
        }
    }

    /// Says what came of the worker that was wanted.
    fn say(&self, answer: u32) {
        self.answer.store(answer, Ordering::Release);
        sys::futex_wake(&self.answer, 1);
    }

    /// Starts the worker that is wanted in this process.
    fn start_here(&self) {
        // Read before the worker starts: once it has, the next request may replace this one.
        let Some((thread, stack)) = self.worker.get() else { return };
        let argument = ptr::from_ref(thread).cast_mut().cast();
        // SAFETY: the thread that asked for the worker obtained the stack for it.
        match unsafe { stack.run(worker::worker, argument) } {
            Ok(()) => self.say(1),
            Err(text) => {
                sys::fatal(format_args!("a worker cannot be started ({text}); OMP_STACKSIZE sets that"))
            }
        }
    }

    /// Starts a process for workers.
    fn fork(&self, workers: &mut Workers) -> Result<(), i32> {
        if workers.count == PROCESSES {
            return Err(libc::EAGAIN);
        }
        // SAFETY: this thread's stack is private, so parent and child each have their own; the child goes on
        // in `child` only.
        let process = unsafe { __fork() };
        match process {
            0 => self.child(workers.count),
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

    /// The thread that a process of workers begins with: starts workers as it is told, for ever.
    fn child(&self, number: usize) -> ! {
        // SAFETY: calls without pointers. If the job ended before the first of them, the second sees it.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != self.process {
                libc::_exit(0);
            }
        }
        become_worker();
        exclusive::forget_output();
        let (post, mut seen) = (&self.posts[number].0, 0);
        loop {
            while post.load(Ordering::Acquire) == seen {
                sys::futex_wait(post, seen);
            }
            seen = seen.wrapping_add(1);
            self.start_here();
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
            let status = libc::WEXITSTATUS(status);
            if self.at_once.load(Ordering::Acquire) != 0 {
                end();
                sys::exit_now(status);
            }
            // A worker said `exit`, which ends the program wherever it is said, with what it has to do at its
            // end.
            sys::exit(status);
        }
        let signal = libc::WTERMSIG(status);
        let hint = if signal == libc::SIGSEGV || signal == libc::SIGBUS {
            "; it touched memory that workers have not, or its stack is too small (OMP_STACKSIZE)"
        } else {
            ""
        };
        sys::complain(format_args!(
            "tombolo omp: worker process {} was ended by signal {signal}{hint}: the job ends\n",
            worker.process
        ));
        end();
        // SAFETY: ends the program at once.
        unsafe { libc::_exit(128 + signal) };
    }
}

/// Ends the program from a worker's process, as `exit` does or, `at_once`, as `_exit` does. What the program
/// has to do at its end is done once, in the process of `main`, which hears of it.
pub fn exit_from_worker(status: c_int, at_once: bool) -> ! {
    match nursery() {
        Some(nursery) if at_once => nursery.at_once.store(1, Ordering::Release),
        _ => flush(),
    }
    sys::exit_now(status)
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
fn end() {
    let Some(nursery) = nursery() else { return };
    nursery.ending.store(1, Ordering::SeqCst);
    // SAFETY: the job ends, and no thread starts workers any more.
    let workers = unsafe { &*nursery.workers.get() };
    for worker in &workers.list[..workers.count] {
        // SAFETY: the process is our child; one that was waited for has no number that is used again before
        // all are.
        unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, worker.descriptor, libc::SIGKILL, 0, 0);
            libc::waitpid(worker.process, ptr::null_mut(), 0);
        }
    }
}

// SAFETY: as the C library has it.
unsafe extern "C" {
    /// `fork` itself: the name that programs know is refused to them.
    fn __fork() -> libc::pid_t;
}
