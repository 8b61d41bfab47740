//! `setjmp` and `longjmp` in an image. A jump can leave calls that other nodes made: each of them ends, and
//! the thread that waited for the outermost one jumps on its own stack, with its own instruction set.

use std::ffi::c_int;

use tombolo_omp_team::device::migrate;
use tombolo_omp_team::primitives::{handlers, separate_processes, sys};
use tombolo_omp_team::team::root;
use tombolo_omp_team::team::thread::{self, CallExit, ExitTarget, RemoteCall, Thread};

/// Index of the word in which musl's `setjmp` saves the stack pointer. On x86-64, the word that aarch64 uses
/// is free; 0 there marks a buffer that was set on x86-64.
const JMP_BUF_SP_X86_64: usize = 6;
const JMP_BUF_SP_AARCH64: usize = 13;

// SAFETY: the C library's function; `--wrap` gives it this name.
unsafe extern "C" {
    fn __real_longjmp(jmp_buf: *const usize, value: c_int) -> !;
}

// Rust functions cannot return twice, so these two tail-call the C library's.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.tombolo_omp_setjmp, \"ax\"",
    ".globl __wrap_setjmp",
    ".globl __wrap__setjmp",
    ".type __wrap_setjmp, @function",
    ".type __wrap__setjmp, @function",
    "__wrap_setjmp:",
    "__wrap__setjmp:",
    "mov qword ptr [rdi + {word}], 0",
    "jmp __real_setjmp",
    ".popsection",
    word = const JMP_BUF_SP_AARCH64 * size_of::<usize>(),
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.tombolo_omp_setjmp, \"ax\"",
    ".globl __wrap_setjmp",
    ".globl __wrap__setjmp",
    ".type __wrap_setjmp, %function",
    ".type __wrap__setjmp, %function",
    "__wrap_setjmp:",
    "__wrap__setjmp:",
    "b __real_setjmp",
    ".popsection",
);

/// Target of a jump.
struct Target {
    /// Whether the buffer was set on this instruction set.
    is_own: bool,
    /// Stack pointer at the call of `setjmp`.
    stack: usize,
}

/// Jumps to where `setjmp` was called. The C library's `siglongjmp` calls this as well.
///
/// # Safety
/// As `longjmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_longjmp(jmp_buf: *const usize, value: c_int) -> ! {
    // SAFETY: the caller guarantees that `setjmp` filled the buffer, which is longer than that on both.
    let [x86_64, aarch64] = [JMP_BUF_SP_X86_64, JMP_BUF_SP_AARCH64].map(|at| unsafe { *jmp_buf.add(at) });
    let is_own = (aarch64 == 0) == cfg!(target_arch = "x86_64");
    let target = Target { is_own, stack: if aarch64 == 0 { x86_64 } else { aarch64 } };
    if let Some(me) = thread::try_current()
        && let ExitTarget::RemoteCall(remote_call) = me.exit_target.get()
        && leaves_remote_call(me, remote_call, &target)
    {
        // SAFETY: the call is this thread's, and its frames need no cleanup, as the caller guarantees.
        unsafe { migrate::leave_call(remote_call, CallExit::Jump(jmp_buf as usize, value)) }
    }
    if !target.is_own {
        sys::fatal("longjmp: it leads to no function that has called this one");
    }
    if handlers::jump_to(target.stack).is_some_and(|interrupted| !is_program_stack(interrupted)) {
        sys::fatal(
            "longjmp: it leads out of a signal handler, which is executed by another thread than the one that called setjmp: any thread can get a signal to the process; wait for it with sigwait, or send it to a thread with pthread_kill",
        );
    }
    // SAFETY: guaranteed by the caller.
    unsafe { __real_longjmp(jmp_buf, value) }
}

/// The other name of `longjmp`.
///
/// # Safety
/// As `longjmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap__longjmp(jmp_buf: *const usize, value: c_int) -> ! {
    // SAFETY: guaranteed by the caller.
    unsafe { __wrap_longjmp(jmp_buf, value) }
}

/// Returns whether the thread with this stack is the program's. If workers have address spaces of their own,
/// the run-time's threads have stacks outside the arena.
fn is_program_stack(stack: usize) -> bool {
    !separate_processes::is_enabled() || root::current().is_some_and(|root| root.store.contains(stack))
}

/// Returns whether a frame at this address belongs to the call that this thread makes for another node.
pub(crate) fn is_in_remote_call(remote_call: *const RemoteCall, address: usize) -> bool {
    let here = 0_u8;
    (&raw const here as usize..remote_call as usize).contains(&address)
}

/// Returns whether a jump leaves the call that this thread makes for another node. It does not if its target
/// is a frame of the call, or a stack in the arena that appears to be created by the program.
fn leaves_remote_call(me: &'static Thread, remote_call: *const RemoteCall, target: &Target) -> bool {
    if !target.is_own {
        return true;
    }
    !is_in_remote_call(remote_call, target.stack)
        && (!me.store().contains(target.stack) || migrate::is_on_stack(me, target.stack))
}
