//! Joining a process to a job, and a thread to its records.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{env, fault, report, worker};
use crate::device::migrate;
use crate::primitives::lock::Spinlock;
use crate::primitives::store::{SPAN, Store};
use crate::primitives::{exclusive, sys, wake_domain};
use crate::team::root::{self, Root, StartWorker};
use crate::team::shown::{Activity, Role};
use crate::team::thread::{self, Thread};

static MAKING: Spinlock = Spinlock::new();
/// Key whose destructor calls [`left`] at the end of a thread.
static KEY: OnceLock<u32> = OnceLock::new();

/// Returns this process's job. The first call creates it from the environment.
pub fn root() -> &'static Root {
    root::current().unwrap_or_else(make)
}

#[cold]
fn make() -> &'static Root {
    let _held = MAKING.hold();
    if let Some(root) = root::current() {
        return root;
    }
    let read = env::read();
    if read.mode != env::Mode::Shared {
        sys::fatal(
            "OMP_TOMBOLO: OpenMP is used before main, or the program does not begin in a C library that is loaded, of glibc 2.34 \
             or newer: its workers cannot be processes",
        );
    }
    read.has_one_node();
    sys::keep_futexes();
    sys::at_fork_in_child(forget_workers);
    install(ordinary_store(&read), read, start_thread)
}

/// Called in the child of a `fork`, which has the calling thread only. Registered where workers are threads.
extern "C" fn forget_workers() {
    if let Some(root) = root::current() {
        root.forget_workers(thread::known());
    }
}

/// Creates the job when the library is loaded by a program whose workers are threads. Also enables the
/// diagnosis of stack overflows of `main`, which may happen before it uses OpenMP.
pub fn begin() {
    root();
    fault::watch_first();
}

/// Creates this process's job in a store. Called once per process.
pub fn install(store: &'static Store, read: env::Read, start_worker: StartWorker) -> &'static Root {
    let display = read.display;
    report::ask_for(read.report.clone());
    env::keep(&read);
    let root = Root::create(store, read.settings, &read.places, &read.affinity_format);
    attach(root, start_worker);
    if let Some(verbosely) = display {
        sys::complain(env::display(root, verbosely));
    }
    root
}

/// Attaches this process to a job, possibly created by another one. Called once per process.
pub fn attach(root: &'static Root, start_worker: StartWorker) {
    let _ = KEY.set(thread_key());
    root.use_here(start_worker);
}

/// Creates a store private to this process, as large as address space can be reserved. Pages are allocated on
/// first access.
fn ordinary_store(read: &env::Read) -> &'static Store {
    let sizes = [read.settings.arena, 4 << 30, 1 << 30, 256 << 20, 64 << 20, 16 << 20];
    for size in sizes.into_iter().filter(|&size| size > 0) {
        let size = size.next_multiple_of(SPAN).max(16 << 20);
        if let Some(memory) = sys::reserve(size + SPAN) {
            let base = (memory as usize).next_multiple_of(SPAN) as *mut u8;
            // SAFETY: the mapping is fresh, zero and never unmapped; a span was added for the alignment.
            return unsafe { Store::format(base, size) };
        }
    }
    sys::fatal("out of memory: the limit of address space (ulimit -v) leaves the run-time less than 16 MiB")
}

/// Starts a worker as a thread of this process.
fn start_thread(thread: &'static Thread) -> Result<(), String> {
    if thread.node != 0 {
        let node = thread.root().nodes().at(thread.node).name();
        return Err(format!(
            "a thread of this process cannot be on node {node}: OMP_TOMBOLO=shared has one node"
        ));
    }
    let stack = thread.root().settings.stack;
    sys::start_thread(stack, worker::worker, thread).map_err(|error| {
        let error = std::io::Error::from_raw_os_error(error);
        format!("a thread could not be started: {error}; OMP_STACKSIZE sets how large its stack is, `ulimit -u` how many there may be")
    })
}

/// Returns the calling thread's record, creating it on its first call.
#[inline]
pub fn current() -> &'static Thread {
    match thread::known() {
        Some(thread) => thread,
        None => first_call(0),
    }
}

/// Creates the record of the calling thread, which is on this node.
#[cold]
pub(super) fn first_call(node: u32) -> &'static Thread {
    let root = root();
    let thread = root.adopt(node);
    thread.parker.set_domain(wake_domain::own());
    let names = (sys::thread_number(), sys::name_of_thread());
    thread.shown.begin(Role::Other, Activity::Runs, root.next_number(), names);
    thread::set_current(Some(thread));
    thread.awake().came();
    leave_at_end(thread);
    if is_apart(root) {
        thread.task().set_icv(|icv| icv.limit = 1);
    }
    thread
}

/// Whether the calling thread's stack is inaccessible to workers, so that its regions have one thread. In
/// images, stacks of threads created by the program are in the arena and thus accessible.
fn is_apart(root: &Root) -> bool {
    static SAID: AtomicBool = AtomicBool::new(false);
    let here = 0_u8;
    let apart =
        cfg!(target_env = "gnu") && exclusive::is_on() && !root.store.holds(ptr::from_ref(&here) as usize);
    if apart && !SAID.swap(true, Ordering::Relaxed) {
        sys::complain(
            "tombolo omp: regions of threads that the program creates itself have one thread each: workers that are processes cannot \
             reach their stacks (OMP_TOMBOLO=shared has workers that can)\n",
        );
    }
    apart
}

/// Arranges for [`left`] to be called at the end of the thread.
fn leave_at_end(thread: &'static Thread) {
    if let Some(&key) = KEY.get() {
        // SAFETY: the key belongs to this process; only `thread_ended` below reads the value.
        unsafe { libc::pthread_setspecific(key, ptr::from_ref(thread).cast()) };
    }
}

/// Releases what a thread holds that OpenMP did not start and that ends.
fn left(thread: &'static Thread) {
    // SAFETY: the program registered them with their destructors.
    unsafe { thread.objects.destroy(thread.store()) };
    if let Some(values) = thread.values.get() {
        thread.root().keys.destroy(values);
    }
    thread.awake().went();
    migrate::forget(thread);
    thread.shown.becomes(Role::None);
    thread.cancellation.begin_anew();
    fault::unwatch(thread);
    thread.root().leave(thread);
    thread::set_current(None);
}

fn thread_key() -> u32 {
    let mut key = 0;
    // SAFETY: the key is local, and the destructor takes what `leave_at_end` stores.
    unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ended)) };
    key
}

/// # Safety
/// The value must be what [`leave_at_end`] stored.
unsafe extern "C" fn thread_ended(value: *mut libc::c_void) {
    // SAFETY: the value is what `leave_at_end` stored; records are never freed.
    if let Some(thread) = unsafe { value.cast::<Thread>().as_ref() } {
        left(thread);
    }
}
