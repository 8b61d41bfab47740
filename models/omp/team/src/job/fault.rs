//! Diagnosis of SIGSEGV where the run-time knows its cause.
//!
//! The usual cause is an automatic array larger than its thread's stack, as stacks in the arena are smaller
//! than the system's. The signal handler runs on an alternate stack, reports the cause and lets the signal
//! end the process as it would have. A handler installed by the program is kept.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr;
use std::sync::{Once, OnceLock};

use crate::primitives::stack_bounds::{MAIN_STACK_DIVISOR, StackBounds};
use crate::primitives::sys;
use crate::team::root::{self, Root};
use crate::team::thread::{self, Thread};

/// Explains a fault at an address. Returns whether it knew the cause and reported it.
pub type FaultExplainer = fn(address: usize) -> bool;

/// Additional source of explanations.
static EXPLAINER: OnceLock<FaultExplainer> = OnceLock::new();

/// Stack size of the handler, not counting the signal frame.
const HANDLER_BYTES: usize = 32 * 1024;

/// Enables the diagnosis, with `explainer` as an additional source of explanations. The first such function
/// is kept.
pub fn set_explainer(explainer: FaultExplainer) {
    let _ = EXPLAINER.set(explainer);
    install();
}

/// Stack of the process's first thread, if `main` runs on it. That thread need not be in a team.
static FIRST_THREAD_STACK: OnceLock<StackBounds> = OnceLock::new();

/// Enables the diagnosis of stack overflows of the calling thread, the first of the process. Called once per
/// process.
pub fn watch_first_thread() {
    if let Some(stack) = StackBounds::of_first_thread() {
        let _ = FIRST_THREAD_STACK.set(stack);
        install_signal_stack(stack);
    }
}

/// Enables the diagnosis of overflows of the calling thread's stack, which is in the arena or belongs to a
/// thread started by this library. If no memory is left for the alternate stack, the signal ends the process
/// without a message.
pub fn watch_stack(thread: &'static Thread) {
    if thread.stack.get().is_none() {
        thread.stack.set(StackBounds::of_thread());
    }
    if let Some(stack) = thread.stack.get() {
        thread.signal_stack.set(install_signal_stack(stack));
    }
}

/// Unmaps the alternate signal stack of the calling thread, which is about to end.
pub fn unwatch_stack(thread: &Thread) {
    let Some((memory, length)) = thread.signal_stack.take() else { return };
    let off = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    let mut present = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: both descriptions are local. The memory was mapped for this thread, which no longer uses it for
    // handlers.
    unsafe {
        if libc::sigaltstack(ptr::null(), &raw mut present) == 0 && present.ss_sp as usize == memory {
            libc::sigaltstack(&raw const off, ptr::null_mut());
        }
        libc::munmap(memory as *mut c_void, length);
    }
}

/// Sets up the alternate stack. Returns its address and length if it was mapped here.
fn install_signal_stack(stack: StackBounds) -> Option<(usize, usize)> {
    let mut present = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: the description is local.
    let is_known = unsafe { libc::sigaltstack(ptr::null(), &raw mut present) } == 0;
    if is_known && present.ss_flags & libc::SS_DISABLE == 0 {
        install_for_stack(stack);
        return None;
    }
    // SAFETY: the call has no pointers.
    let registers = usize::try_from(unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ as _) }).unwrap_or(0);
    let length = HANDLER_BYTES + registers.max(libc::MINSIGSTKSZ);
    let (prot, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new mapping that lives as long as the thread: workers and `main` end with the process, others
    // call [`unwatch_stack`]. The kernel only reads the description.
    let memory = unsafe {
        let memory = libc::mmap(ptr::null_mut(), length, prot, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return None;
        }
        let alt_stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: length };
        libc::sigaltstack(&raw const alt_stack, ptr::null_mut());
        memory as usize
    };
    install_for_stack(stack);
    Some((memory, length))
}

/// Installs the handler. If `main` is on a system stack, the program may already have a handler, which is
/// kept.
fn install_for_stack(stack: StackBounds) {
    if stack.in_arena || !has_handler() {
        install();
    }
}

fn has_handler() -> bool {
    // SAFETY: an action is plain data and local.
    unsafe {
        let mut present: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGSEGV, ptr::null(), &raw mut present);
        present.sa_sigaction != libc::SIG_DFL
    }
}

static INSTALLED: Once = Once::new();

fn install() {
    INSTALLED.call_once(|| {
        let action = fault_action();
        // SAFETY: the action is local; the handler has the signature of `SA_SIGINFO` handlers.
        unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()) };
    });
}

fn fault_action() -> libc::sigaction {
    // SAFETY: an action is plain data, for which zeros are valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle_fault as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND | libc::SA_NODEFER;
    action
}

/// Returns the action that replaces the default action of a signal, if it is diagnosed.
#[must_use]
pub fn diagnostic_action(signal: c_int) -> Option<libc::sigaction> {
    (signal == libc::SIGSEGV && INSTALLED.is_completed()).then(fault_action)
}

/// Signal handler: reports the cause if it is known and lets the signal end the process, as a faulting access
/// faults again on return.
extern "C" fn handle_fault(signal: c_int, info: *const libc::siginfo_t, context: *const c_void) {
    // SAFETY: the kernel passes valid pointers to the signal's information and context.
    let (code, address, pointer) =
        unsafe { ((*info).si_code, (*info).si_addr() as usize, stack_pointer(&*context.cast())) };
    if code > 0 {
        report_cause(address, pointer);
    } else {
        // Sent by a process, so it does not recur by itself.
        // SAFETY: the call has no pointers; `SA_RESETHAND` has removed the handler.
        unsafe { libc::raise(signal) };
    }
}

fn report_cause(address: usize, pointer: usize) {
    if EXPLAINER.get().is_some_and(|explain| explain(address)) {
        return;
    }
    let (thread, root) = (thread::try_current(), root::current());
    let first = || FIRST_THREAD_STACK.get().copied().filter(|_| sys::is_first_thread());
    let Some(stack) = thread.and_then(|thread| thread.stack.get()).or_else(first) else { return };
    let Some(root) = root.filter(|_| stack.is_overflowed(pointer, address)) else { return };
    let (kib, who) = (stack.bytes >> 10, ThreadDescription { root, thread, is_main: stack.is_main });
    if stack.is_main && stack.in_arena && stack.bytes >= root.store.length() / MAIN_STACK_DIVISOR {
        let advice = root.store.advice();
        sys::print_error(format_args!(
            "tombolo omp: {who} overflowed its stack of {kib} KiB: it has what the system allows (ulimit -s), but at most an eighth of the \
             arena; {advice}\n"
        ));
    } else if stack.is_main {
        sys::print_error(format_args!(
            "tombolo omp: {who} overflowed its stack of {kib} KiB; `ulimit -s` sets its size, in KiB\n"
        ));
    } else {
        sys::print_error(format_args!(
            "tombolo omp: {who} overflowed its stack of {kib} KiB; OMP_STACKSIZE sets its size\n"
        ));
    }
}

/// Describes a thread in messages: `main`, or its number in its team.
struct ThreadDescription {
    root: &'static Root,
    thread: Option<&'static Thread>,
    is_main: bool,
}

impl fmt::Display for ThreadDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.thread.and_then(Thread::number) {
            _ if self.is_main => f.write_str("main")?,
            Some((number, of)) => write!(f, "thread {number} of a team of {of}")?,
            None => f.write_str("a worker")?,
        }
        let node = self.root.nodes().at(self.thread.map_or(0, |thread| thread.node)).name_lossy();
        if node.is_empty() { Ok(()) } else { write!(f, " on node {node}") }
    }
}

/// Returns the stack pointer of the interrupted context.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn stack_pointer(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RSP as usize].cast_unsigned() as usize
}

/// Returns the stack pointer of the interrupted context.
#[cfg(target_arch = "aarch64")]
#[must_use]
pub fn stack_pointer(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.sp as usize
}
