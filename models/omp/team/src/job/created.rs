//! Threads that the program creates itself, where workers have address spaces of their own: their stacks lie
//! in the arena, so that other nodes reach them.

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

/// The C library's function that creates a thread.
pub type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Begin, *mut c_void) -> c_int;

/// The pause between two looks whether all threads have ended, in microseconds.
const LOOK_US: u32 = 1000;

/// No thread has begun on the stack yet.
const UNKNOWN: i64 = 0;
/// None ever will.
const NONE: i64 = -1;

/// A stack that a thread has, or had.
struct Used {
    /// Unless the program brought it.
    stack: Option<Stack>,
    /// What the C library has for its thread-local variables, address and length.
    storage: (usize, usize),
    /// The kernel's number of the thread.
    kernel: Arc<AtomicI64>,
    /// What the C library calls the thread.
    thread: Option<libc::pthread_t>,
}

// SAFETY: what a thread is called is a number with one C library, a pointer with another; it is only
// compared.
unsafe impl Send for Used {}

/// The stacks of this process's threads; those of threads that have ended are used again.
static USED: Mutex<Vec<Used>> = Mutex::new(Vec::new());

/// What a thread is to run.
struct Program {
    begin: Begin,
    argument: *mut c_void,
    node: u32,
    stack: Option<Stack>,
    kernel: Arc<AtomicI64>,
}

/// Creates a thread with a stack in the arena. One that the program gave a stack keeps it. Returns the number
/// of an error, or 0.
///
/// # Safety
/// As `pthread_create`.
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
    // SAFETY: the caller's attributes, if there are any, are plain data that describes no resources; what is
    // written to is ours.
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
    // Until the thread is entered: another may be told of it before this returns, and join it.
    let mut used = used();
    let (stack, mut storage) = if brings_stack { (None, (0, 0)) } else { take(&mut used, root, asked) };
    if stack.is_none() && !brings_stack {
        return libc::EAGAIN;
    }
    let node = start::current().node;
    let program = Program { begin, argument, node, stack, kernel: Arc::clone(&kernel) };
    let program = Box::into_raw(Box::new(program));
    let begin = |own: *const libc::pthread_attr_t| {
        // SAFETY: the caller says so; what `run` gets is its own.
        unsafe { create(thread, own, run, program.cast()) }
    };
    let failure = match stack {
        // SAFETY: the stack is no other thread's.
        Some(stack) => unsafe { stack.create_with(&mut own, &mut storage, begin) },
        None => begin(&raw const own),
    };
    let mut name = None;
    // SAFETY: the C library has written the name, or else no thread has the program.
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

/// Whether this process created a thread, by what the C library calls it.
#[must_use]
pub fn is_of_this_process(thread: libc::pthread_t) -> bool {
    used().iter().any(|used| used.thread == Some(thread))
}

fn used() -> MutexGuard<'static, Vec<Used>> {
    USED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stack of at least this size that no thread has, with the storage that goes with it.
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

/// Whether a thread's stack is in use no more: the kernel does not know the thread.
fn has_ended(kernel: &AtomicI64) -> bool {
    match kernel.load(Ordering::Acquire) {
        UNKNOWN => false,
        NONE => true,
        // SAFETY: the call has no pointers, and signal 0 is none.
        number => unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), number, 0) == -1 },
    }
}

/// What a created thread begins with.
///
/// # Safety
/// The argument is a [`Program`] that is this thread's.
unsafe extern "C" fn run(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `create` made it for this thread.
    let program = unsafe { Box::from_raw(argument.cast::<Program>()) };
    let Program { begin, argument, node, stack, kernel } = *program;
    let me = start::first_call(node);
    me.shown.becomes(Role::Created);
    kernel.store(sys::thread_number().cast_signed(), Ordering::Release);
    // The thread may end by `pthread_exit`: nothing may be left to be given back.
    drop(kernel);
    // Once it has a record: who cancels it asks the C library first and looks for the record then.
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

/// Waits until all threads that this process has created have ended.
pub fn wait_for_all() {
    while !used().iter().all(|used| has_ended(&used.kernel)) {
        sys::sleep_for(LOOK_US);
    }
}
