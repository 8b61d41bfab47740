//! Why the program is being ended by SIGSEGV, where the runtime knows.
//!
//! The stacks of the arena are smaller than those of the system, so a program that runs elsewhere may
//! overflow one here. The signal's handler runs on a stack of its own, says what it knows, and lets the
//! signal end the process as it would have.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Once, OnceLock};

use crate::primitives::sys;
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

/// Has an overflow of the calling thread's stack explained, if that is in the arena. Without memory for the
/// handler's stack, the signal ends the process without a message.
pub fn watch(thread: &'static Thread) {
    if thread.stack.get().is_none() {
        return;
    }
    // SAFETY: the call has no pointers.
    let registers = usize::try_from(unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ as _) }).unwrap_or(0);
    let length = HANDLER_BYTES + registers.max(libc::MINSIGSTKSZ);
    let (rights, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new mapping, which stays for as long as the thread does: threads on stacks of the arena end
    // with the process. The stack is described by a value of ours, which the kernel only reads.
    unsafe {
        let memory = libc::mmap(ptr::null_mut(), length, rights, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return;
        }
        let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: length };
        libc::sigaltstack(&raw const stack, ptr::null_mut());
    }
    install();
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: an action object is plain data; the handler takes what such handlers are given.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = explain as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND | libc::SA_NODEFER;
            libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut());
        }
    });
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
    let Some(thread) = thread::known() else { return };
    let Some(stack) = thread.stack.get() else { return };
    if !stack.is_overflowed(pointer, address) {
        return;
    }
    let kib = stack.bytes >> 10;
    let advice = thread.store().advice();
    if stack.is_main {
        sys::complain(format_args!(
            "tombolo omp: main overflowed its stack of {kib} KiB: it has what the system allows (ulimit -s), but at most an eighth of the \
             arena; {advice}\n"
        ));
    } else {
        sys::complain(format_args!(
            "tombolo omp: a worker overflowed its stack of {kib} KiB; OMP_STACKSIZE sets its size\n"
        ));
    }
}

#[cfg(target_arch = "x86_64")]
fn stack_pointer(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RSP as usize].cast_unsigned() as usize
}

#[cfg(target_arch = "aarch64")]
fn stack_pointer(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.sp as usize
}
