//! Threads created by the program where workers have address spaces of their own. Their stacks are in the
//! arena, so that other nodes can access them.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::stack::Stack;
use super::{fault, start};
use crate::device::migrate;
use crate::primitives::leavable::Begin;
use crate::primitives::sys;
use crate::team::root::Root;
use crate::team::shown::Role;

/// Signature of the C library's `pthread_create`.
pub type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Begin, *mut c_void) -> c_int;

/// Poll interval while waiting for all threads to end, in microseconds.
const LOOK_US: u32 = 1000;

/// State of a stack on which no thread has begun yet.
const UNKNOWN: i64 = 0;
/// State of a stack whose thread could not be created.
const NONE: i64 = -1;

/// Stack that a thread uses or used.
struct Used {
    /// The stack; `None` if the program provided it.
    stack: Option<Stack>,
    /// Memory of the C library for the thread's thread-local storage: address and length.
    storage: (usize, usize),
    /// Thread id of the kernel (tid), or [`UNKNOWN`] or [`NONE`].
    kernel: Arc<AtomicI64>,
    /// Handle of the thread (`pthread_t`).
    thread: Option<libc::pthread_t>,
}

// SAFETY: a `pthread_t` is a number in one C library and a pointer in another; it is only compared.
unsafe impl Send for Used {}

/// Stacks of this process's threads. Those of ended threads are reused.
static USED: Mutex<Vec<Used>> = Mutex::new(Vec::new());

/// Start argument of a created thread.
struct Program {
    begin: Begin,
    argument: *mut c_void,
    node: u32,
    stack: Option<Stack>,
    kernel: Arc<AtomicI64>,
}

/// Creates a thread with a stack in the arena, unless the program provides a stack. Returns an error number,
/// or 0.
///
/// # Safety
/// As for `pthread_create`.
pub unsafe fn create(
    root: &'static Root,
    (thread, attributes): (*mut libc::pthread_t, *const libc::pthread_attr_t),
    begin: Begin,
    argument: *mut c_void,
    create: Create,
) -> c_int {
    // SAFETY: an attribute object is plain data until it is initialised below.
    let mut own: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    let (mut memory, mut size) = (ptr::null_mut(), 0);
    // SAFETY: the caller's attributes, if any, are plain data that owns no resources; everything written to
    // is local.
    let brings_stack = unsafe {
        if attributes.is_null() {
            libc::pthread_attr_init(&raw mut own);
        } else {
            own = *attributes;
        }
        libc::pthread_attr_getstacksize(&raw const own, &raw mut size);
        libc::pthread_attr_getstack(&raw const own, &raw mut memory, &raw mut size) == 0 && !memory.is_null()
    };
    let asked = if attributes.is_null() { root.settings.stack } else { size };
    let kernel = Arc::new(AtomicI64::new(UNKNOWN));
    // Held until the thread is entered: another thread may learn of it and join it before this returns.
    let mut used = used();
    let (stack, mut storage) = if brings_stack { (None, (0, 0)) } else { take(&mut used, root, asked) };
    if stack.is_none() && !brings_stack {
        return libc::EAGAIN;
    }
    let node = start::current().node;
    let program = Program { begin, argument, node, stack, kernel: Arc::clone(&kernel) };
    let program = Box::into_raw(Box::new(program));
    let begin = |own: *const libc::pthread_attr_t| {
        // SAFETY: the caller guarantees it; `run` takes ownership of its argument.
        unsafe { create(thread, own, run, program.cast()) }
    };
    let failure = match stack {
        // SAFETY: the stack is no other thread's.
        Some(stack) => unsafe { stack.create_with(&mut own, &mut storage, begin) },
        None => begin(&raw const own),
    };
    let mut name = None;
    // SAFETY: on success the C library has written the handle; otherwise no thread owns `program`.
    unsafe {
        if failure == 0 {
            name = Some(*thread);
        } else {
            drop(Box::from_raw(program));
            kernel.store(NONE, Ordering::Release);
        }
    }
    used.retain(|used| used.stack.is_some() || used.thread != name);
    used.push(Used { stack, storage, kernel, thread: name });
    failure
}

/// Whether this process created the thread with this handle.
#[must_use]
pub fn is_of_this_process(thread: libc::pthread_t) -> bool {
    used().iter().any(|used| used.thread == Some(thread))
}

fn used() -> MutexGuard<'static, Vec<Used>> {
    USED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns an unused stack of at least this size, with its thread-local storage.
fn take(used: &mut Vec<Used>, root: &'static Root, size: usize) -> (Option<Stack>, (usize, usize)) {
    let fits = |used: &Used| used.stack.is_some_and(|stack| stack.holds(size)) && has_ended(&used.kernel);
    match used.iter().position(fits) {
        Some(index) => {
            let free = used.swap_remove(index);
            (free.stack, free.storage)
        }
        None => (Stack::of_created(root, size), (0, 0)),
    }
}

/// Whether a thread has ended, so that its stack is free: the kernel no longer knows its tid.
fn has_ended(kernel: &AtomicI64) -> bool {
    match kernel.load(Ordering::Acquire) {
        UNKNOWN => false,
        NONE => true,
        // SAFETY: the call has no pointers; signal 0 only checks for existence.
        number => unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), number, 0) == -1 },
    }
}

/// Start function of created threads.
///
/// # Safety
/// The argument is a [`Program`] owned by this thread.
unsafe extern "C" fn run(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `create` allocated it for this thread.
    let program = unsafe { Box::from_raw(argument.cast::<Program>()) };
    let Program { begin, argument, node, stack, kernel } = *program;
    let me = start::first_call(node);
    me.shown.becomes(Role::Created);
    kernel.store(sys::thread_number().cast_signed(), Ordering::Release);
    // The thread may end by `pthread_exit`, which runs no destructors: drop everything now.
    drop(kernel);
    // Only now that it has a record: a canceller first asks the C library and then looks for the record.
    sys::leave_cancellation_for_later();
    me.stack.set(stack.map(|stack| stack.bounds(false)));
    fault::watch(me);
    let there = me.root().node_for_created(node);
    if there != node {
        return migrate::live(me, there, begin, argument);
    }
    // SAFETY: the program's function with its argument.
    unsafe { begin(argument) }
}

/// Waits until all threads created by this process have ended.
pub fn wait_for_all() {
    while !used().iter().all(|used| has_ended(&used.kernel)) {
        sys::sleep_for(LOOK_US);
    }
}
