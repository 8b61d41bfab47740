//! Calls that can be left from any depth, as `pthread_exit` leaves a thread.
//!
//! Written in assembly, because no Rust function may return twice.

use std::ffi::c_void;

/// Start function of a thread.
pub type StartRoutine = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// Calls `start_routine` with its argument. Returns its result or the value given to [`leave`]. Stores into
/// `saved_stack` the stack pointer by which the call can be left until it returns.
///
/// # Safety
/// `start_routine` must be callable with the argument, and `saved_stack` must be writable.
#[unsafe(naked)]
#[cfg(target_arch = "x86_64")]
pub unsafe extern "C" fn call(
    start_routine: StartRoutine,
    argument: *mut c_void,
    saved_stack: *mut usize,
) -> *mut c_void {
    std::arch::naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "mov [rdx], rsp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "jmp {restore}",
        restore = sym restore,
    )
}

/// Returns `value` from the [`call`] that stored the stack pointer `saved_stack`.
///
/// # Safety
/// The call must be of this thread and must not have returned; no function that it leaves may have anything
/// to clean up.
#[unsafe(naked)]
#[cfg(target_arch = "x86_64")]
pub unsafe extern "C" fn leave(saved_stack: usize, value: *mut c_void) -> ! {
    std::arch::naked_asm!("mov rsp, rdi", "mov rax, rsi", "jmp {restore}", restore = sym restore)
}

/// Restores the saved registers and returns from [`call`].
///
/// # Safety
/// The stack pointer must be that of a call.
#[unsafe(naked)]
#[cfg(target_arch = "x86_64")]
unsafe extern "C" fn restore() {
    std::arch::naked_asm!(
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Calls `start_routine` with its argument, as on x86-64.
///
/// # Safety
/// As on x86-64.
#[unsafe(naked)]
#[cfg(target_arch = "aarch64")]
pub unsafe extern "C" fn call(
    start_routine: StartRoutine,
    argument: *mut c_void,
    saved_stack: *mut usize,
) -> *mut c_void {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, #-160]!",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "mov x29, sp",
        "str x29, [x2]",
        "mov x9, x0",
        "mov x0, x1",
        "blr x9",
        "b {restore}",
        restore = sym restore,
    )
}

/// Returns `value` from the [`call`] that stored the stack pointer `saved_stack`, as on x86-64.
///
/// # Safety
/// As on x86-64.
#[unsafe(naked)]
#[cfg(target_arch = "aarch64")]
pub unsafe extern "C" fn leave(saved_stack: usize, value: *mut c_void) -> ! {
    std::arch::naked_asm!("mov sp, x0", "mov x0, x1", "b {restore}", restore = sym restore)
}

/// Restores the saved registers and returns from [`call`].
///
/// # Safety
/// The stack pointer must be that of a call.
#[unsafe(naked)]
#[cfg(target_arch = "aarch64")]
unsafe extern "C" fn restore() {
    std::arch::naked_asm!(
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "ldp x29, x30, [sp], #160",
        "ret",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local!(static SAVED_STACK: Cell<usize> = const { Cell::new(0) });

    extern "C" fn deep(depth: *mut c_void) -> *mut c_void {
        if depth as usize > 1000 {
            // SAFETY: the test below made the call; the functions between have nothing to clean up.
            unsafe { leave(SAVED_STACK.get(), depth) }
        }
        let below = deep((depth as usize + 1) as *mut c_void);
        (below as usize + 1) as *mut c_void
    }

    extern "C" fn plain(argument: *mut c_void) -> *mut c_void {
        argument
    }

    #[test]
    fn call_returns_the_result_or_the_exit_value() {
        let kept = std::hint::black_box([1.5, 2.5, 3.5]);
        for argument in [7, 990] {
            let function = if argument == 7 { plain } else { deep };
            SAVED_STACK.with(|word| {
                // SAFETY: both functions take any address, and the word is writable.
                let value = unsafe { call(function, argument as *mut c_void, word.as_ptr()) };
                assert_eq!(value as usize, if argument == 7 { 7 } else { 1001 });
            });
        }
        assert_eq!(std::hint::black_box(kept), [1.5, 2.5, 3.5]);
    }
}
