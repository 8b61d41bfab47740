//! Block of thread-local variables of the calling thread, which exists on each node.
//!
//! Code compiled by `tombolo ompcc` finds the program's thread-local variables through a word in each kernel
//! thread's block, its first: it holds the thread pointer that belongs to the block of the program's thread.
//! Blocks have the same layout in all builds, but their distance from the thread pointer differs between
//! instruction sets.
//!
//! Programs made by other compilers have no such word.

/// Returns the address of the calling thread's own block; 0 in a program without the word.
#[must_use]
pub fn own_address() -> usize {
    pointer_slot().map_or(0, |word| word as usize)
}

/// Previous value of the word, before the thread ran for another.
#[derive(Debug)]
pub struct SavedPointer(usize);

/// Makes the calling thread use the variables of the thread with this block.
#[must_use]
pub fn switch_to(block: usize) -> SavedPointer {
    let Some(word) = pointer_slot() else { return SavedPointer(0) };
    // SAFETY: the word is this thread's own.
    unsafe {
        let before = SavedPointer(*word);
        *word = block.wrapping_add(thread_pointer().wrapping_sub(word as usize));
        before
    }
}

/// Restores the variables that the calling thread used before.
pub fn restore(before: &SavedPointer) {
    if let Some(word) = pointer_slot() {
        // SAFETY: the word is this thread's own.
        unsafe { *word = before.0 };
    }
}

/// Makes the calling thread use its own variables.
pub fn use_own() {
    if let Some(word) = pointer_slot() {
        // SAFETY: the word is this thread's own.
        unsafe { *word = thread_pointer() };
    }
}

/// Initialises the word of a thread that is about to begin, so that it uses its own variables.
///
/// # Safety
/// The thread must not have begun. Its block must be initialised like that of this thread, at the same
/// distance from `its` as this thread's is from `mine`.
pub unsafe fn init_for_thread(its: usize, mine: usize) {
    let Some(word) = pointer_slot() else { return };
    let from_there = |address: usize| its.wrapping_add(address.wrapping_sub(mine));
    let other = std::ptr::with_exposed_provenance_mut::<usize>(from_there(word as usize));
    // SAFETY: the other thread's word is at the corresponding address, which no thread uses yet.
    unsafe { *other = from_there(thread_pointer()) };
}

/// Returns the calling thread's word, if the program has one.
#[cfg(not(target_env = "musl"))]
fn pointer_slot() -> Option<*mut usize> {
    None
}

/// Returns the calling thread's word, which `tombolo ompcc` adds to the program's thread-local variables.
#[cfg(target_env = "musl")]
#[expect(clippy::unnecessary_wraps, reason = "other programs have none")]
#[inline]
fn pointer_slot() -> Option<*mut usize> {
    Some(super::thread_variable::own_address!("__tombolo_omp_thread"))
}

/// Returns the calling thread's thread pointer.
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads the word at the thread pointer, which holds the thread pointer itself.
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
