//! The program's variables, which all processes of a job share.

use tombolo_omp_domains::memory::Variables;

// SAFETY: the linker defines these symbols; `tombolo ompcc` passes their definitions.
unsafe extern "C" {
    static __tombolo_omp_shared_start: [u8; 0];
    static __tombolo_omp_shared_end: [u8; 0];
}

/// Returns the address range of the program's variables.
pub(crate) fn of_program() -> Variables {
    Variables {
        start: (&raw const __tombolo_omp_shared_start) as usize,
        end: (&raw const __tombolo_omp_shared_end) as usize,
    }
}

/// Returns whether an address is in that range.
pub(crate) fn contains(address: usize) -> bool {
    let Variables { start, end } = of_program();
    (start..end).contains(&address)
}
