//! The block of thread-local variables of the calling thread, which the thread has on each node.
//!
//! Code that `tombolo ompcc` compiled finds the program's thread-local variables by a word of each kernel's
//! thread, the first of its block: where the block of the program's thread would have its thread pointer. A
//! block is laid out alike in all builds; how far from it a processor has its thread pointer is not.
//!
//! A program that other compilers make has no such word.

/// Where the calling thread's own block is; 0 in a program without the word.
#[must_use]
pub fn own() -> usize {
    word().map_or(0, |word| word as usize)
}

/// What a thread found its variables by before it ran for another.
#[derive(Debug)]
pub struct Before(usize);

/// Has the calling thread find the variables of the thread with this block from now on.
#[must_use]
pub fn enter(block: usize) -> Before {
    let Some(word) = word() else { return Before(0) };
    // SAFETY: the word is this thread's own.
    unsafe {
        let before = Before(*word);
        *word = block.wrapping_add(pointer().wrapping_sub(word as usize));
        before
    }
}

/// Has the calling thread find the variables that it found before.
pub fn leave(before: &Before) {
    if let Some(word) = word() {
        // SAFETY: the word is this thread's own.
        unsafe { *word = before.0 };
    }
}

/// Has the calling thread find its own variables.
pub fn begin() {
    if let Some(word) = word() {
        // SAFETY: the word is this thread's own.
        unsafe { *word = pointer() };
    }
}

/// Has a thread that begins find its own variables.
///
/// # Safety
/// The thread has not begun; its block has been made as that of this thread, and lies as far from `its` as
/// this thread's from `mine`.
pub unsafe fn begin_of(its: usize, mine: usize) {
    let Some(word) = word() else { return };
    let from_there = |address: usize| its.wrapping_add(address.wrapping_sub(mine));
    let other = std::ptr::with_exposed_provenance_mut::<usize>(from_there(word as usize));
    // SAFETY: the other thread's word is where this one's is, which no thread uses yet.
    unsafe { *other = from_there(pointer()) };
}

/// The calling thread's word.
#[cfg(not(target_env = "musl"))]
fn word() -> Option<*mut usize> {
    None
}

/// The calling thread's word, which `tombolo ompcc` has put among the program's thread-locals.
#[cfg(target_env = "musl")]
#[expect(clippy::unnecessary_wraps, reason = "other programs have none")]
#[inline]
fn word() -> Option<*mut usize> {
    Some(super::thread_variable::own_address!("__tombolo_omp_thread"))
}

/// The calling thread's thread pointer.
fn pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register, or the word that it leads to and that holds the same.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, pure, readonly));
    }
    // SAFETY: reads a register.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, pure, nomem));
    }
    pointer
}
