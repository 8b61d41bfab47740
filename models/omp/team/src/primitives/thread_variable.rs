//! Where variables are that each thread has of its own and that are defined in assembly: their offset is
//! known when the program is linked or loaded ("initial exec").

/// The address of a variable that each thread has of its own, by its symbol: that of the calling thread's.
macro_rules! own_address {
    ($symbol:literal) => {{
        let address: *mut _;
        // SAFETY: reads the offset of the variable, which the linker or the loader wrote, and the thread's
        // own base; both do not change.
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
