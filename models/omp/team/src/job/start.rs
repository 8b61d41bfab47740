//! Joining a process to a job, and a thread to its records.

use std::ptr;
use std::sync::OnceLock;

use super::{env, fault, release, report, worker};
use crate::primitives::lock::Spinlock;
use crate::primitives::store::{SPAN, Store};
use crate::primitives::{separate_processes, sys, wake_domain};
use crate::team::root::{self, Root, StartWorker};
use crate::team::thread::{self, Thread};
use crate::team::thread_status::{Activity, Role};

static CREATE_LOCK: Spinlock = Spinlock::new();
/// Key whose destructor calls [`release_thread`] at the end of a thread.
static KEY: OnceLock<u32> = OnceLock::new();

/// Returns this process's job. The first call creates it from the environment.
pub fn root() -> &'static Root {
    root::current().unwrap_or_else(create_job)
}

#[cold]
fn create_job() -> &'static Root {
    let _held = CREATE_LOCK.lock();
    if let Some(root) = root::current() {
        return root;
    }
    let env_settings = env::read();
    if env_settings.mode != env::Mode::Shared {
        return create_job_of_processes(env_settings);
    }
    env_settings.require_single_node();
    sys::use_private_futexes();
    sys::at_fork_in_child(forget_workers);
    install(create_private_store(&env_settings), env_settings, start_thread)
}

/// Returns whether `main` is going to run as that of a job whose workers are processes, if it does not yet.
static WILL_MAIN_BE_OF_JOB: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the function that tells, in constructors, whether `main` will be that of a job whose workers are
/// processes.
pub fn set_main_check(will_be_of_job: fn() -> bool) {
    let _ = WILL_MAIN_BE_OF_JOB.set(will_be_of_job);
}

fn create_job_of_processes(env_settings: env::EnvSettings) -> &'static Root {
    #[cfg(target_env = "gnu")]
    if WILL_MAIN_BE_OF_JOB.get().is_some_and(|will_be_of_job| will_be_of_job()) {
        return super::forked::create_job(env_settings);
    }
    drop(env_settings);
    sys::fatal(
        "OMP_TOMBOLO: workers cannot be processes, as this library did not see main begin: it was loaded after the C library \
         (LD_PRELOAD loads it first), or the program was linked with a glibc older than 2.34",
    )
}

/// Called in the child of a `fork`, which has the calling thread only. Registered where workers are threads.
extern "C" fn forget_workers() {
    if let Some(root) = root::current() {
        root.forget_workers(thread::try_current());
    }
}

/// Creates the job when the library is loaded by a program whose workers are threads. Also enables the
/// diagnosis of stack overflows of `main`, which may happen before it uses OpenMP.
pub fn begin() {
    root();
    fault::watch_first_thread();
}

/// Creates this process's job in a store. Called once per process.
pub fn install(
    store: &'static Store,
    env_settings: env::EnvSettings,
    start_worker: StartWorker,
) -> &'static Root {
    let display = env_settings.display;
    report::set_report_format(env_settings.report.clone());
    env::record(&env_settings);
    let root =
        Root::create(store, env_settings.settings, &env_settings.places, &env_settings.affinity_format);
    attach(root, start_worker);
    if let Some(verbosely) = display {
        sys::print_error(env::display(root, verbosely));
    }
    root
}

/// Attaches this process to a job, possibly created by another one. Called once per process.
pub fn attach(root: &'static Root, start_worker: StartWorker) {
    let _ = KEY.set(thread_key());
    root.make_current(start_worker);
}

/// Creates a store private to this process, as large as address space can be reserved. Pages are allocated on
/// first access.
fn create_private_store(env_settings: &env::EnvSettings) -> &'static Store {
    let sizes = [env_settings.settings.arena, 4 << 30, 1 << 30, 256 << 20, 64 << 20, 16 << 20];
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
    match thread::try_current() {
        Some(thread) => thread,
        None => register_calling_thread(0),
    }
}

/// Creates the record of the calling thread, which is on this node.
#[cold]
pub(super) fn register_calling_thread(node: u32) -> &'static Thread {
    let root = root();
    let thread = root.register_foreign_thread(node);
    thread.parker.set_domain(wake_domain::own());
    thread.node_load().add_running();
    take_record(thread);
    // Before `main` no thread has workers, and the first thread leaves its record to `main`.
    let is_for_main = separate_processes::is_before_main() && sys::is_first_thread();
    if !is_for_main && separate_processes::has_private_stack(root.store) {
        thread.task().set_icv(|icv| icv.limit = 1);
    }
    thread
}

/// Makes the calling thread the one that a record is of.
pub(super) fn take_record(thread: &'static Thread) {
    let names = (sys::thread_id(), sys::pthread_handle());
    thread.status.begin(Role::Other, Activity::Running, thread.root().next_number(), names);
    thread::set_current(Some(thread));
    set_exit_value(ptr::from_ref(thread));
}

/// Removes the record of the calling thread, if it has one, for another thread to
/// [take](take_record): what constructors set is then set for `main`.
pub(super) fn leave_record() -> Option<&'static Thread> {
    let thread = thread::try_current()?;
    set_exit_value(ptr::null());
    thread::set_current(None);
    Some(thread)
}

/// Arranges for [`release_thread`] to be called at the end of the calling thread, unless null.
fn set_exit_value(thread: *const Thread) {
    if let Some(&key) = KEY.get() {
        // SAFETY: the key belongs to this process; only `on_thread_exit` below reads the value, and for null
        // is not called.
        unsafe { libc::pthread_setspecific(key, thread.cast()) };
    }
}

/// Releases a thread that OpenMP did not start and that ends.
fn release_thread(thread: &'static Thread) {
    release::release_state(thread);
    thread.root().unregister_thread(thread);
    thread::set_current(None);
}

fn thread_key() -> u32 {
    let mut key = 0;
    // SAFETY: the key is local, and the destructor takes what `set_exit_value` stores.
    unsafe { libc::pthread_key_create(&raw mut key, Some(on_thread_exit)) };
    key
}

/// # Safety
/// The value must be what [`set_exit_value`] stored.
unsafe extern "C" fn on_thread_exit(value: *mut libc::c_void) {
    // SAFETY: the value is what `set_exit_value` stored; records are never freed.
    if let Some(thread) = unsafe { value.cast::<Thread>().as_ref() } {
        release_thread(thread);
    }
}
