//! The program's variables, which all processes of a job share.

use tombolo_omp_domains::memory::Variables;

// SAFETY: the linker defines these, as `tombolo ompcc` has it.
unsafe extern "C" {
    static __tombolo_omp_shared_start: [u8; 0];
    static __tombolo_omp_shared_end: [u8; 0];
}

/// Where they lie.
pub(crate) fn of_program() -> Variables {
    Variables {
        start: (&raw const __tombolo_omp_shared_start) as usize,
        end: (&raw const __tombolo_omp_shared_end) as usize,
    }
}

/// Whether an address is of them.
pub(crate) fn holds(address: usize) -> bool {
    let Variables { start, end } = of_program();
    (start..end).contains(&address)
}
