//! `omp_get_max_threads`, which answers for its caller: where regions of shared libraries have one thread,
//! libraries get that answer. OpenBLAS prepares its regions for exactly as many threads as it was told, and
//! waits for all of them.

use std::arch::naked_asm;

use tombolo_omp_team::constructs::region;
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::separate_processes;

/// Answers a caller that continues at this address.
extern "C" fn answer(caller: usize) -> i32 {
    if separate_processes::are_regions_limited() && separate_processes::is_of_limited_library(caller) {
        return 1;
    }
    i32::try_from(region::default_threads(start::current())).unwrap_or(i32::MAX)
}

macro_rules! bindings {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> i32 {
            #[cfg(target_arch = "x86_64")]
            naked_asm!("mov rdi, [rsp]", "jmp {answer}", answer = sym answer);
            #[cfg(target_arch = "aarch64")]
            naked_asm!("mov x0, x30", "b {answer}", answer = sym answer);
        }
    )*};
}

bindings! {
    /// Maximum number of threads of a region without `num_threads`.
    omp_get_max_threads
    /// Fortran binding of the same function.
    omp_get_max_threads_
}
