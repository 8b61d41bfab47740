//! Why the program is being ended by SIGSEGV, where the runtime knows.
//!
//! An automatic array that is larger than its thread's stack is the usual reason, and the stacks of the arena
//! are smaller than those of the system. The signal's handler runs on a stack of its own, says what it knows,
//! and lets the signal end the process as it would have. A program that has a handler of its own keeps it.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr;
use std::sync::{Once, OnceLock};

use crate::primitives::stack_bounds::{MAIN_OF_ARENA, StackBounds};
use crate::primitives::sys;
use crate::team::root::{self, Root};
use crate::team::thread::{self, Thread};

/// Explains a fault at an address; whether it knew the reason and wrote it.
pub type Explain = fn(address: usize) -> bool;

/// What else is asked for the reason of a fault.
static OTHER: OnceLock<Explain> = OnceLock::new();

/// Room for the handler, besides what the processor's registers take.
const HANDLER_BYTES: usize = 32 * 1024;

/// Has faults explained from now on, also by `other`. The first such function is kept.
pub fn explain_with(other: Explain) {
    let _ = OTHER.set(other);
    install();
}

/// The stack of the process's first thread, if that is what `main` runs on. It need not be of a team.
static FIRST: OnceLock<StackBounds> = OnceLock::new();

/// Has an overflow of the stack of the calling thread explained, which is the first of the process. Once in a
/// process.
pub fn watch_first() {
    if let Some(stack) = StackBounds::of_first_thread() {
        let _ = FIRST.set(stack);
        watch_known(stack);
    }
}

/// Has an overflow of the calling thread's stack explained, which is in the arena or of a thread that this
/// library started. Without memory for the handler's stack, the signal ends the process without a message.
pub fn watch(thread: &'static Thread) {
    if thread.stack.get().is_none() {
        thread.stack.set(StackBounds::of_thread());
    }
    if let Some(stack) = thread.stack.get() {
        thread.signal_stack.set(watch_known(stack));
    }
}

/// Gives back the handler's stack of the calling thread, which ends.
pub fn unwatch(thread: &Thread) {
    let Some((memory, length)) = thread.signal_stack.take() else { return };
    let off = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    let mut present = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: descriptions of ours. The memory was mapped for this thread, whose handlers run elsewhere from
    // now on.
    unsafe {
        if libc::sigaltstack(ptr::null(), &raw mut present) == 0 && present.ss_sp as usize == memory {
            libc::sigaltstack(&raw const off, ptr::null_mut());
        }
        libc::munmap(memory as *mut c_void, length);
    }
}

/// The stack of the handler, address and length, if it was mapped for this.
fn watch_known(stack: StackBounds) -> Option<(usize, usize)> {
    let mut present = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: the description is ours to write.
    let is_known = unsafe { libc::sigaltstack(ptr::null(), &raw mut present) } == 0;
    if is_known && present.ss_flags & libc::SS_DISABLE == 0 {
        install_for(stack);
        return None;
    }
    // SAFETY: the call has no pointers.
    let registers = usize::try_from(unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ as _) }).unwrap_or(0);
    let length = HANDLER_BYTES + registers.max(libc::MINSIGSTKSZ);
    let (rights, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new mapping, which stays for as long as the thread does: workers and `main` end with the
    // process, others by [`unwatch`]. The stack is described by a value of ours, which the kernel only reads.
    let memory = unsafe {
        let memory = libc::mmap(ptr::null_mut(), length, rights, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return None;
        }
        let aside = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: length };
        libc::sigaltstack(&raw const aside, ptr::null_mut());
        memory as usize
    };
    install_for(stack);
    Some((memory, length))
}

/// Where `main` is on a stack of the system the program may have a handler already, which it keeps.
fn install_for(stack: StackBounds) {
    if stack.in_arena || !has_handler() {
        install();
    }
}

fn has_handler() -> bool {
    // SAFETY: an action object is plain data, and ours to write.
    unsafe {
        let mut present: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGSEGV, ptr::null(), &raw mut present);
        present.sa_sigaction != libc::SIG_DFL
    }
}

static INSTALLED: Once = Once::new();

fn install() {
    INSTALLED.call_once(|| {
        let action = action();
        // SAFETY: the action is ours; the handler takes what such handlers are given.
        unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()) };
    });
}

fn action() -> libc::sigaction {
    // SAFETY: an action object is plain data, for which zeros are valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = explain as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND | libc::SA_NODEFER;
    action
}

/// What is done in place of what the system does at a signal, where it is explained.
#[must_use]
pub fn explaining(signal: c_int) -> Option<libc::sigaction> {
    (signal == libc::SIGSEGV && INSTALLED.is_completed()).then(action)
}

/// Says what was wrong, if it is known, and lets the signal end the process: an access that faults does so
/// again when this returns.
extern "C" fn explain(signal: c_int, about: *const libc::siginfo_t, context: *const c_void) {
    // SAFETY: the kernel tells a handler what the signal is about, and in which context it came.
    let (code, address, pointer) =
        unsafe { ((*about).si_code, (*about).si_addr() as usize, stack_pointer(&*context.cast())) };
    if code > 0 {
        say_why(address, pointer);
    } else {
        // Another process sent it, so it does not come again by itself.
        // SAFETY: the call has no pointers; the handler is not installed any more.
        unsafe { libc::raise(signal) };
    }
}

fn say_why(address: usize, pointer: usize) {
    if OTHER.get().is_some_and(|explain| explain(address)) {
        return;
    }
    let (thread, root) = (thread::known(), root::current());
    let first = || FIRST.get().copied().filter(|_| sys::is_first_thread());
    let Some(stack) = thread.and_then(|thread| thread.stack.get()).or_else(first) else { return };
    let Some(root) = root.filter(|_| stack.is_overflowed(pointer, address)) else { return };
    let (kib, who) = (stack.bytes >> 10, Who { root, thread, is_main: stack.is_main });
    if stack.is_main && stack.in_arena && stack.bytes >= root.store.length() / MAIN_OF_ARENA {
        let advice = root.store.advice();
        sys::complain(format_args!(
            "tombolo omp: {who} overflowed its stack of {kib} KiB: it has what the system allows (ulimit -s), but at most an eighth of the \
             arena; {advice}\n"
        ));
    } else if stack.is_main {
        sys::complain(format_args!(
            "tombolo omp: {who} overflowed its stack of {kib} KiB; `ulimit -s` sets its size, in KiB\n"
        ));
    } else {
        sys::complain(format_args!(
            "tombolo omp: {who} overflowed its stack of {kib} KiB; OMP_STACKSIZE sets its size\n"
        ));
    }
}

/// A thread, for messages: `main`, or its number in its team.
struct Who {
    root: &'static Root,
    thread: Option<&'static Thread>,
    is_main: bool,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.thread.and_then(Thread::number) {
            _ if self.is_main => f.write_str("main")?,
            Some((number, of)) => write!(f, "thread {number} of a team of {of}")?,
            None => f.write_str("a worker")?,
        }
        let node = self.root.nodes().at(self.thread.map_or(0, |thread| thread.node)).shown_name();
        if node.is_empty() { Ok(()) } else { write!(f, " on node {node}") }
    }
}

/// Where the stack of what a signal interrupted is.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn stack_pointer(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RSP as usize].cast_unsigned() as usize
}

/// Where the stack of what a signal interrupted is.
#[cfg(target_arch = "aarch64")]
#[must_use]
pub fn stack_pointer(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.sp as usize
}
