//! Threads created by the program where workers have address spaces of their own. Their stacks are in the
//! arena, so that other nodes can access them.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::stack::Stack;
use super::{fault, start};
use crate::device::migrate;
use crate::primitives::nonlocal_exit::StartRoutine;
use crate::primitives::sys;
use crate::team::root::Root;
use crate::team::thread_status::Role;

/// Signature of the C library's `pthread_create`.
pub type PthreadCreate = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    StartRoutine,
    *mut c_void,
) -> c_int;

/// Poll interval while waiting for all threads to end, in microseconds.
const POLL_INTERVAL_US: u32 = 1000;

/// State of a stack on which no thread has begun yet.
const NOT_STARTED: i64 = 0;
/// State of a stack whose thread could not be created.
const NOT_CREATED: i64 = -1;

/// Stack that a thread uses or used.
struct UsedStack {
    /// The stack; `None` if the program provided it.
    stack: Option<Stack>,
    /// Memory of the C library for the thread's thread-local storage: address and length.
    tls: (usize, usize),
    /// Thread id of the kernel (tid), or [`NOT_STARTED`] or [`NOT_CREATED`].
    tid: Arc<AtomicI64>,
    /// Handle of the thread (`pthread_t`).
    thread: Option<libc::pthread_t>,
}

// SAFETY: a `pthread_t` is a number in one C library and a pointer in another; it is only compared.
unsafe impl Send for UsedStack {}

/// Stacks of this process's threads. Those of ended threads are reused.
static USED_STACKS: Mutex<Vec<UsedStack>> = Mutex::new(Vec::new());

/// Start argument of a created thread.
struct StartArgument {
    start_routine: StartRoutine,
    argument: *mut c_void,
    node: u32,
    stack: Option<Stack>,
    tid: Arc<AtomicI64>,
}

/// Creates a thread with a stack in the arena, unless the program provides a stack. Returns an error number,
/// or 0.
///
/// # Safety
/// As for `pthread_create`.
pub unsafe fn create(
    root: &'static Root,
    (thread, attributes): (*mut libc::pthread_t, *const libc::pthread_attr_t),
    start_routine: StartRoutine,
    argument: *mut c_void,
    create: PthreadCreate,
) -> c_int {
    // SAFETY: an attribute object is plain data until it is initialised below.
    let mut own: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    let (mut memory, mut size) = (ptr::null_mut(), 0);
    // SAFETY: the caller's attributes, if any, are plain data that owns no resources; everything written to
    // is local.
    let has_own_stack = unsafe {
        if attributes.is_null() {
            libc::pthread_attr_init(&raw mut own);
        } else {
            own = *attributes;
        }
        libc::pthread_attr_getstacksize(&raw const own, &raw mut size);
        libc::pthread_attr_getstack(&raw const own, &raw mut memory, &raw mut size) == 0 && !memory.is_null()
    };
    let asked = if attributes.is_null() { root.settings.stack } else { size };
    let tid = Arc::new(AtomicI64::new(NOT_STARTED));
    // Held until the thread is entered: another thread may learn of it and join it before this returns.
    let mut used_stacks = used_stacks();
    let (stack, mut tls) =
        if has_own_stack { (None, (0, 0)) } else { take_stack(&mut used_stacks, root, asked) };
    if stack.is_none() && !has_own_stack {
        return libc::EAGAIN;
    }
    let node = start::current().node;
    let start_argument = StartArgument { start_routine, argument, node, stack, tid: Arc::clone(&tid) };
    let start_argument = Box::into_raw(Box::new(start_argument));
    let start = |own: *const libc::pthread_attr_t| {
        // SAFETY: the caller guarantees it; `thread_main` takes ownership of its argument.
        unsafe { create(thread, own, thread_main, start_argument.cast()) }
    };
    let failure = match stack {
        // SAFETY: the stack is no other thread's.
        Some(stack) => unsafe { stack.create_with(&mut own, &mut tls, start) },
        None => start(&raw const own),
    };
    let mut pthread = None;
    // SAFETY: on success the C library has written the handle; otherwise no thread owns `start_argument`.
    unsafe {
        if failure == 0 {
            pthread = Some(*thread);
        } else {
            drop(Box::from_raw(start_argument));
            tid.store(NOT_CREATED, Ordering::Release);
        }
    }
    used_stacks.retain(|used| used.stack.is_some() || used.thread != pthread);
    used_stacks.push(UsedStack { stack, tls, tid, thread: pthread });
    failure
}

/// Whether this process created the thread with this handle.
#[must_use]
pub fn was_created_here(thread: libc::pthread_t) -> bool {
    used_stacks().iter().any(|used| used.thread == Some(thread))
}

fn used_stacks() -> MutexGuard<'static, Vec<UsedStack>> {
    USED_STACKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns an unused stack of at least this size, with its thread-local storage.
fn take_stack(
    used_stacks: &mut Vec<UsedStack>,
    root: &'static Root,
    size: usize,
) -> (Option<Stack>, (usize, usize)) {
    let fits =
        |used: &UsedStack| used.stack.is_some_and(|stack| stack.has_room_for(size)) && has_ended(&used.tid);
    match used_stacks.iter().position(fits) {
        Some(index) => {
            let free = used_stacks.swap_remove(index);
            (free.stack, free.tls)
        }
        None => (Stack::of_created(root, size), (0, 0)),
    }
}

/// Whether a thread has ended, so that its stack is free: the kernel no longer knows its tid.
fn has_ended(tid: &AtomicI64) -> bool {
    match tid.load(Ordering::Acquire) {
        NOT_STARTED => false,
        NOT_CREATED => true,
        // SAFETY: the call has no pointers; signal 0 only checks for existence.
        number => unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), number, 0) == -1 },
    }
}

/// Start function of created threads.
///
/// # Safety
/// The argument is a [`StartArgument`] owned by this thread.
unsafe extern "C" fn thread_main(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `create` allocated it for this thread.
    let start_argument = unsafe { Box::from_raw(argument.cast::<StartArgument>()) };
    let StartArgument { start_routine, argument, node, stack, tid } = *start_argument;
    let me = start::register_calling_thread(node);
    me.status.set_role(Role::Created);
    tid.store(sys::thread_id().cast_signed(), Ordering::Release);
    // The thread may end by `pthread_exit`, which runs no destructors: drop everything now.
    drop(tid);
    // Only now that it has a record: a canceller first asks the C library and then looks for the record.
    sys::disable_cancellation();
    me.stack.set(stack.map(|stack| stack.bounds(false)));
    fault::watch_stack(me);
    let there = me.root().node_for_created(node);
    if there != node {
        return migrate::run_thread_on(me, there, start_routine, argument);
    }
    // SAFETY: the program's function with its argument.
    unsafe { start_routine(argument) }
}

/// Waits until all threads created by this process have ended.
pub fn wait_for_all() {
    while !used_stacks().iter().all(|used| has_ended(&used.tid)) {
        sys::sleep_for(POLL_INTERVAL_US);
    }
}
