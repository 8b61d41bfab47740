//! C library functions that the run-time wraps.

use tombolo_base::Isa;

/// Functions that concern the process: the run-time forwards the program's calls to the program's process.
/// Its own calls reach the C library.
const FORWARDED: &str = include_str!("../../../gomp/forwarded.txt");

/// Returns the functions that are wrapped for the program but not for the run-time itself.
pub(super) fn forwarded_functions() -> impl Iterator<Item = &'static str> {
    FORWARDED.lines()
}

/// Returns all functions that the run-time wraps.
pub(super) fn functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.into_iter().chain(forwarded_functions())
}

/// Functions that are wrapped for the run-time's own calls too: program entry and jumps, the heap, the
/// storage of threads with stacks in the arena, stream locks, and the program's threads and their
/// synchronization.
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

/// Assembly of the replacement of `pthread_create`. It has to precede the compiler's library, which defines
/// the same symbol for split stacks.
const PTHREAD_CREATE: &str = "\
.section .text.__wrap_pthread_create,\"ax\",%progbits\n.globl __wrap_pthread_create\n\
.type __wrap_pthread_create,%function\n__wrap_pthread_create: ";

/// Returns the assembly of wrappers that the run-time does not define.
pub(super) fn symbols(isa: Isa) -> String {
    let jump = if isa == Isa::Aarch64 { "b" } else { "jmp" };
    format!("{PTHREAD_CREATE}{jump} tombolo_omp_pthread_create\n")
}
