//! OpenMP programs for unlike processors, compiled as their users compile them.

use crate::kit::target;
use crate::skipped;

/// Whether the kit has the libraries for OpenMP programs; reports a skipped test if not.
#[must_use]
pub fn can_compile() -> bool {
    has("libc.a")
}

/// Whether the kit also has the OpenMP run-time library; reports a skipped test if not.
#[must_use]
pub fn can_link() -> bool {
    has("libc.a") && has("libgomp.a")
}

fn has(name: &str) -> bool {
    for isa in ["x86_64", "aarch64"] {
        let library = target().join("kit/omp").join(isa).join("lib").join(name);
        if !library.is_file() {
            skipped(&format!("ompcc: there is no {} (`make omp`)", library.display()));
            return false;
        }
    }
    true
}
