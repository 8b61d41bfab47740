//! What the run-time takes in hand of the C library.

use tombolo_base::Isa;

/// Functions that concern the process: the run-time calls them in the process of the program. Its own calls
/// are the C library's.
const FORWARDED: &str = include_str!("../../../gomp/forwarded.txt");

/// Functions that the run-time takes in hand for the program, and not for itself.
pub(super) fn forwarded() -> impl Iterator<Item = &'static str> {
    FORWARDED.lines()
}

/// All functions that the run-time takes in hand.
pub(super) fn functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.into_iter().chain(forwarded())
}

/// Functions of the C library that the run-time takes in hand for its own calls too: where the program
/// begins and what it jumps to, its heap, the storage of threads that have their stacks in the arena, locks
/// of streams, the program's threads and what they wait for.
const FUNCTIONS: [&str; 49] = [
    "main",
    "fork",
    "setjmp",
    "_setjmp",
    "longjmp",
    "_longjmp",
    "__mmap",
    "__munmap",
    "__unmapself",
    "__copy_tls",
    "__cxa_thread_atexit_impl",
    "malloc",
    "free",
    "calloc",
    "realloc",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "malloc_usable_size",
    "__lockfile",
    "pthread_create",
    "pthread_join",
    "pthread_detach",
    "pthread_self",
    "pthread_exit",
    "pthread_once",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_tryrdlock",
    "pthread_rwlock_timedrdlock",
    "pthread_rwlock_wrlock",
    "pthread_rwlock_trywrlock",
    "pthread_rwlock_timedwrlock",
    "pthread_rwlock_unlock",
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_timedlock",
    "pthread_mutex_unlock",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_signal",
    "pthread_cond_broadcast",
    "pthread_barrier_init",
    "pthread_barrier_destroy",
    "pthread_barrier_wait",
    "sem_post",
    "sem_wait",
    "sem_trywait",
    "sem_timedwait",
];

/// What the linker puts in place of `pthread_create`. It has to come before the compiler's library, which has
/// a function of this name for stacks in pieces.
const PTHREAD_CREATE: &str = "\
.section .text.__wrap_pthread_create,\"ax\",%progbits\n.globl __wrap_pthread_create\n\
.type __wrap_pthread_create,%function\n__wrap_pthread_create: ";

/// Symbols that take the place of the C library's, besides those that the run-time defines.
pub(super) fn symbols(isa: Isa) -> String {
    let jump = if isa == Isa::Aarch64 { "b" } else { "jmp" };
    format!("{PTHREAD_CREATE}{jump} tombolo_omp_pthread_create\n")
}
