//! Barriers, critical sections, `ordered`, and locks that GCC calls for.

use std::ffi::c_void;
use std::slice;

use tombolo_omp_team::constructs::barrier::barrier;
use tombolo_omp_team::constructs::doacross;
use tombolo_omp_team::constructs::{cancel, loops};
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::lock::Lock;
use tombolo_omp_team::primitives::separate_processes;

/// `barrier`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_barrier() {
    separate_processes::flush();
    barrier(start::current(), false);
}

/// `barrier` in a region that may be cancelled. Returns whether it was.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_barrier_cancel() -> bool {
    barrier(start::current(), true)
}

/// `critical`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_critical_start() {
    start::root().critical.0.acquire();
}

/// The end of `critical`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_critical_end() {
    separate_processes::flush();
    start::root().critical.0.release();
}

/// Returns the lock of a named `critical`: the first half of a word that GCC places in the program's data,
/// initially zero.
///
/// # Safety
/// `word` points to such a word.
unsafe fn named(word: *mut *mut c_void) -> &'static Lock {
    // SAFETY: guaranteed by the caller; a lock is a 32-bit atomic, which threads may share.
    unsafe { &*word.cast::<Lock>() }
}

/// `critical(name)`.
///
/// # Safety
/// `word` is the one that GCC created for the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_critical_name_start(word: *mut *mut c_void) {
    // SAFETY: guaranteed by the caller.
    unsafe { named(word) }.acquire();
}

/// The end of `critical(name)`.
///
/// # Safety
/// `word` is the one that GCC created for the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_critical_name_end(word: *mut *mut c_void) {
    separate_processes::flush();
    // SAFETY: guaranteed by the caller.
    unsafe { named(word) }.release();
}

/// `atomic` on types without an atomic instruction, and reductions of more than one variable.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_atomic_start() {
    start::root().atomic.0.acquire();
}

/// The end of such an `atomic`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_atomic_end() {
    start::root().atomic.0.release();
}

/// `ordered`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_ordered_start() {
    loops::wait_for_turn(start::current());
}

/// The end of `ordered`. The turn passes to the next thread at the end of the chunk.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_ordered_end() {
    separate_processes::flush();
}

/// `ordered depend(source)`.
///
/// # Safety
/// `iteration` has an element for each loop of the nest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_doacross_post(iteration: *const u64) {
    separate_processes::flush();
    let me = start::current();
    // SAFETY: guaranteed by the caller.
    doacross::post(me, unsafe { slice::from_raw_parts(iteration, doacross::depth(me)) });
}

/// `ordered depend(source)` for `unsigned long long` iterations.
///
/// # Safety
/// `iteration` has an element for each loop of the nest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_doacross_ull_post(iteration: *const u64) {
    // SAFETY: guaranteed by the caller.
    unsafe { GOMP_doacross_post(iteration) }
}

/// `ordered depend(sink: …)`, which GCC calls with one argument for each loop. The first six (eight on Arm)
/// are in registers, the others on the stack. Stores the former in memory and passes on the addresses of
/// both.
#[unsafe(no_mangle)]
#[unsafe(naked)]
#[cfg(target_arch = "x86_64")]
pub extern "C" fn GOMP_doacross_wait() {
    std::arch::naked_asm!(
        "sub rsp, 56",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        "mov rdi, rsp",
        "lea rsi, [rsp + 64]",
        "call {wait}",
        "add rsp, 56",
        "ret",
        wait = sym doacross_wait,
    )
}

/// The aarch64 version, with eight arguments in registers.
#[unsafe(no_mangle)]
#[unsafe(naked)]
#[cfg(target_arch = "aarch64")]
pub extern "C" fn GOMP_doacross_wait() {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, #-80]!",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]",
        "add x0, sp, #16",
        "add x1, sp, #80",
        "bl {wait}",
        "ldp x29, x30, [sp], #80",
        "ret",
        wait = sym doacross_wait,
    )
}

/// `ordered depend(sink: …)` for `unsigned long long` iterations.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn GOMP_doacross_ull_wait() {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!("jmp {wait}", wait = sym GOMP_doacross_wait);
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!("b {wait}", wait = sym GOMP_doacross_wait);
}

/// Number of arguments passed in registers.
const REGISTERS: usize = if cfg!(target_arch = "aarch64") { 8 } else { 6 };

/// Waits for the iteration whose indices are in these two arrays.
///
/// # Safety
/// The arrays together have an element for each loop of the thread's current nest.
unsafe extern "C" fn doacross_wait(registers: *const u64, stack: *const u64) {
    let me = start::current();
    let depth = doacross::depth(me);
    let mut iteration = [0; 64];
    for (index, number) in iteration.iter_mut().enumerate().take(depth) {
        // SAFETY: guaranteed by the caller.
        *number = unsafe {
            if index < REGISTERS { registers.add(index).read() } else { stack.add(index - REGISTERS).read() }
        };
    }
    doacross::wait(me, &iteration[..depth.min(64)]);
}

/// `cancel`. Returns whether the thread must branch to the end of the construct.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_cancel(which: i32, is_active: bool) -> bool {
    cancel::cancel(start::current(), which, is_active)
}

/// `cancellation point`. Returns whether the thread must branch to the end of the construct.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_cancellation_point(which: i32) -> bool {
    cancel::cancellation_point(start::current(), which)
}
