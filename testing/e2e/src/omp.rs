//! OpenMP programs for unlike processors, compiled as their users compile them.

use crate::kit::target;
use crate::skipped;

/// Whether the kit has what they are linked with; says so if not.
#[must_use]
pub fn can_compile() -> bool {
    for isa in ["x86_64", "aarch64"] {
        let library = target().join("kit/omp").join(isa).join("lib/libc.a");
        if !library.is_file() {
            skipped(&format!("ompcc: there is no {} (`make omp`)", library.display()));
            return false;
        }
    }
    true
}
