//! Addresses of thread-local variables defined in assembly, in the "initial exec" model: their offset is
//! fixed when the program is linked or loaded.

/// Evaluates to the address of the calling thread's instance of a thread-local variable, given its symbol.
macro_rules! own_address {
    ($symbol:literal) => {{
        let address: *mut _;
        // SAFETY: reads the offset of the variable, written by the linker or the loader, and the thread
        // pointer; neither changes.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                concat!("mov {address}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                "add {address}, qword ptr fs:[0]",
                address = out(reg) address,
                options(nostack, pure, readonly),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!(
                "mrs {base}, tpidr_el0",
                concat!("adrp {address}, :gottprel:", $symbol),
                concat!("ldr {address}, [{address}, :gottprel_lo12:", $symbol, "]"),
                "add {address}, {address}, {base}",
                base = out(reg) _,
                address = out(reg) address,
                options(nostack, pure, readonly),
            );
        }
        address
    }};
}
pub(super) use own_address;
