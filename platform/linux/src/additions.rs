//! Additions at the processor's full rate, for measurements: instructions that the compiler neither merges
//! nor replaces.

/// Kind of addition instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddKind {
    /// One 32-bit number per instruction.
    Scalar32,
    /// One 64-bit number per instruction.
    Scalar64,
    /// Vectors of 32-bit numbers, the widest of this processor that this module implements.
    Vector32,
    /// Vectors of 64-bit numbers.
    Vector64,
}

/// Instructions per round: eight independent dependency chains of four additions each.
const ROUND: u64 = 32;

impl AddKind {
    /// Returns the kinds available on this processor.
    #[must_use]
    pub fn available() -> Vec<AddKind> {
        let vectors = [AddKind::Vector32, AddKind::Vector64].into_iter().filter(|_| vector_bytes() > 0);
        [AddKind::Scalar32, AddKind::Scalar64].into_iter().chain(vectors).collect()
    }

    /// Returns the name used in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            AddKind::Scalar32 => "add32",
            AddKind::Scalar64 => "add64",
            AddKind::Vector32 => "vector32",
            AddKind::Vector64 => "vector64",
        }
    }

    /// Returns the number of additions per instruction.
    #[must_use]
    pub fn lanes(self) -> u64 {
        match self {
            AddKind::Scalar32 | AddKind::Scalar64 => 1,
            AddKind::Vector32 => (vector_bytes() / 4).max(1),
            AddKind::Vector64 => (vector_bytes() / 8).max(1),
        }
    }

    /// Executes `rounds` rounds and returns the number of additions.
    #[must_use]
    pub fn run(self, rounds: u32) -> u64 {
        if rounds == 0 {
            return 0;
        }
        let rounds = u64::from(rounds);
        match self {
            AddKind::Scalar32 => isa::scalar32(rounds),
            AddKind::Scalar64 => isa::scalar64(rounds),
            AddKind::Vector32 => isa::vectors(rounds, true),
            AddKind::Vector64 => isa::vectors(rounds, false),
        }
        rounds * ROUND * self.lanes()
    }
}

/// Expands to a loop of `rounds` iterations over four times the eight instructions. `$counting` decrements
/// the counter and branches.
macro_rules! rounds {
    ($rounds:expr, [$($line:literal),+], [$($counting:literal),+], [$($clobbers:tt)*]) => {{
        // Fits in 32 bits like the caller's number.
        let mut left: usize = $rounds as usize;
        // SAFETY: instructions on registers that are declared as overwritten, and on `left`, which ends the
        // loop at 0: callers pass at least 1. No memory is accessed.
        unsafe {
            core::arch::asm!(
                "2:",
                $($line,)+ $($line,)+ $($line,)+ $($line,)+
                $($counting,)+
                left = inout(reg) left,
                $($clobbers)*
                options(nomem, nostack),
            );
        }
        let _ = left;
    }};
}

/// Returns the size of the widest vectors used, in bytes; 0 without vectors.
#[must_use]
pub fn vector_bytes() -> u64 {
    isa::vector_bytes()
}

#[cfg(target_arch = "x86_64")]
mod isa {
    use std::arch::is_x86_feature_detected;

    pub(super) fn vector_bytes() -> u64 {
        match () {
            () if is_x86_feature_detected!("avx512f") => 64,
            () if is_x86_feature_detected!("avx2") => 32,
            () => 16,
        }
    }

    pub(super) fn vectors(rounds: u64, of_32_bits: bool) {
        match (vector_bytes(), of_32_bits) {
            (64, true) => zmm32(rounds),
            (64, false) => zmm64(rounds),
            (32, true) => ymm32(rounds),
            (32, false) => ymm64(rounds),
            (_, true) => xmm32(rounds),
            (_, false) => xmm64(rounds),
        }
    }

    pub(super) fn scalar32(rounds: u64) {
        rounds!(rounds, ["add eax, 3", "add ecx, 3", "add edx, 3", "add esi, 3", "add edi, 3", "add r8d, 3", "add r9d, 3", "add r10d, 3"], ["sub {left}, 1", "jnz 2b"], [out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _, out("r9") _, out("r10") _,]);
    }

    pub(super) fn scalar64(rounds: u64) {
        rounds!(rounds, ["add rax, 3", "add rcx, 3", "add rdx, 3", "add rsi, 3", "add rdi, 3", "add r8, 3", "add r9, 3", "add r10, 3"], ["sub {left}, 1", "jnz 2b"], [out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _, out("r9") _, out("r10") _,]);
    }

    pub(super) fn xmm32(rounds: u64) {
        rounds!(rounds, ["paddd xmm0, xmm8", "paddd xmm1, xmm8", "paddd xmm2, xmm8", "paddd xmm3, xmm8", "paddd xmm4, xmm8", "paddd xmm5, xmm8", "paddd xmm6, xmm8", "paddd xmm7, xmm8"], ["sub {left}, 1", "jnz 2b"], [out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _,]);
    }

    pub(super) fn ymm32(rounds: u64) {
        rounds!(rounds, ["vpaddd ymm0, ymm0, ymm8", "vpaddd ymm1, ymm1, ymm8", "vpaddd ymm2, ymm2, ymm8", "vpaddd ymm3, ymm3, ymm8", "vpaddd ymm4, ymm4, ymm8", "vpaddd ymm5, ymm5, ymm8", "vpaddd ymm6, ymm6, ymm8", "vpaddd ymm7, ymm7, ymm8"], ["sub {left}, 1", "jnz 2b"], [out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _,]);
    }

    pub(super) fn zmm32(rounds: u64) {
        rounds!(rounds, ["vpaddd zmm0, zmm0, zmm8", "vpaddd zmm1, zmm1, zmm8", "vpaddd zmm2, zmm2, zmm8", "vpaddd zmm3, zmm3, zmm8", "vpaddd zmm4, zmm4, zmm8", "vpaddd zmm5, zmm5, zmm8", "vpaddd zmm6, zmm6, zmm8", "vpaddd zmm7, zmm7, zmm8"], ["sub {left}, 1", "jnz 2b"], [out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _,]);
    }

    pub(super) fn xmm64(rounds: u64) {
        rounds!(rounds, ["paddq xmm0, xmm8", "paddq xmm1, xmm8", "paddq xmm2, xmm8", "paddq xmm3, xmm8", "paddq xmm4, xmm8", "paddq xmm5, xmm8", "paddq xmm6, xmm8", "paddq xmm7, xmm8"], ["sub {left}, 1", "jnz 2b"], [out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _,]);
    }

    pub(super) fn ymm64(rounds: u64) {
        rounds!(rounds, ["vpaddq ymm0, ymm0, ymm8", "vpaddq ymm1, ymm1, ymm8", "vpaddq ymm2, ymm2, ymm8", "vpaddq ymm3, ymm3, ymm8", "vpaddq ymm4, ymm4, ymm8", "vpaddq ymm5, ymm5, ymm8", "vpaddq ymm6, ymm6, ymm8", "vpaddq ymm7, ymm7, ymm8"], ["sub {left}, 1", "jnz 2b"], [out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _,]);
    }

    pub(super) fn zmm64(rounds: u64) {
        rounds!(rounds, ["vpaddq zmm0, zmm0, zmm8", "vpaddq zmm1, zmm1, zmm8", "vpaddq zmm2, zmm2, zmm8", "vpaddq zmm3, zmm3, zmm8", "vpaddq zmm4, zmm4, zmm8", "vpaddq zmm5, zmm5, zmm8", "vpaddq zmm6, zmm6, zmm8", "vpaddq zmm7, zmm7, zmm8"], ["sub {left}, 1", "jnz 2b"], [out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _,]);
    }
}

#[cfg(target_arch = "aarch64")]
mod isa {
    pub(super) fn vector_bytes() -> u64 {
        16
    }

    pub(super) fn vectors(rounds: u64, of_32_bits: bool) {
        if of_32_bits { lanes32(rounds) } else { lanes64(rounds) }
    }

    pub(super) fn scalar32(rounds: u64) {
        rounds!(rounds, ["add w0, w0, #3", "add w1, w1, #3", "add w2, w2, #3", "add w3, w3, #3", "add w4, w4, #3", "add w5, w5, #3", "add w6, w6, #3", "add w7, w7, #3"], ["subs {left}, {left}, #1", "b.ne 2b"], [out("x0") _, out("x1") _, out("x2") _, out("x3") _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,]);
    }

    pub(super) fn scalar64(rounds: u64) {
        rounds!(rounds, ["add x0, x0, #3", "add x1, x1, #3", "add x2, x2, #3", "add x3, x3, #3", "add x4, x4, #3", "add x5, x5, #3", "add x6, x6, #3", "add x7, x7, #3"], ["subs {left}, {left}, #1", "b.ne 2b"], [out("x0") _, out("x1") _, out("x2") _, out("x3") _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,]);
    }

    pub(super) fn lanes32(rounds: u64) {
        rounds!(rounds, ["add v0.4s, v0.4s, v8.4s", "add v1.4s, v1.4s, v8.4s", "add v2.4s, v2.4s, v8.4s", "add v3.4s, v3.4s, v8.4s", "add v4.4s, v4.4s, v8.4s", "add v5.4s, v5.4s, v8.4s", "add v6.4s, v6.4s, v8.4s", "add v7.4s, v7.4s, v8.4s"], ["subs {left}, {left}, #1", "b.ne 2b"], [out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _, out("v7") _, out("v8") _,]);
    }

    pub(super) fn lanes64(rounds: u64) {
        rounds!(rounds, ["add v0.2d, v0.2d, v8.2d", "add v1.2d, v1.2d, v8.2d", "add v2.2d, v2.2d, v8.2d", "add v3.2d, v3.2d, v8.2d", "add v4.2d, v4.2d, v8.2d", "add v5.2d, v5.2d, v8.2d", "add v6.2d, v6.2d, v8.2d", "add v7.2d, v7.2d, v8.2d"], ["subs {left}, {left}, #1", "b.ne 2b"], [out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _, out("v7") _, out("v8") _,]);
    }
}

#[cfg(target_arch = "riscv64")]
mod isa {
    pub(super) fn vector_bytes() -> u64 {
        0
    }

    pub(super) fn vectors(rounds: u64, _: bool) {
        scalar64(rounds);
    }

    pub(super) fn scalar32(rounds: u64) {
        rounds!(rounds, ["addiw a0, a0, 3", "addiw a1, a1, 3", "addiw a2, a2, 3", "addiw a3, a3, 3", "addiw a4, a4, 3", "addiw a5, a5, 3", "addiw a6, a6, 3", "addiw a7, a7, 3"], ["addi {left}, {left}, -1", "bnez {left}, 2b"], [out("a0") _, out("a1") _, out("a2") _, out("a3") _, out("a4") _, out("a5") _, out("a6") _, out("a7") _,]);
    }

    pub(super) fn scalar64(rounds: u64) {
        rounds!(rounds, ["addi a0, a0, 3", "addi a1, a1, 3", "addi a2, a2, 3", "addi a3, a3, 3", "addi a4, a4, 3", "addi a5, a5, 3", "addi a6, a6, 3", "addi a7, a7, 3"], ["addi {left}, {left}, -1", "bnez {left}, 2b"], [out("a0") _, out("a1") _, out("a2") _, out("a3") _, out("a4") _, out("a5") _, out("a6") _, out("a7") _,]);
    }
}

#[cfg(target_arch = "s390x")]
mod isa {
    pub(super) fn vector_bytes() -> u64 {
        0
    }

    pub(super) fn vectors(rounds: u64, _: bool) {
        scalar64(rounds);
    }

    pub(super) fn scalar32(rounds: u64) {
        rounds!(rounds, ["ahi %r0, 3", "ahi %r1, 3", "ahi %r2, 3", "ahi %r3, 3", "ahi %r4, 3", "ahi %r5, 3", "ahi %r6, 3", "ahi %r7, 3"], ["aghi {left}, -1", "jne 2b"], [out("r0") _, out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _, out("r6") _, out("r7") _,]);
    }

    pub(super) fn scalar64(rounds: u64) {
        rounds!(rounds, ["aghi %r0, 3", "aghi %r1, 3", "aghi %r2, 3", "aghi %r3, 3", "aghi %r4, 3", "aghi %r5, 3", "aghi %r6, 3", "aghi %r7, 3"], ["aghi {left}, -1", "jne 2b"], [out("r0") _, out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _, out("r6") _, out("r7") _,]);
    }
}

#[cfg(target_arch = "x86")]
mod isa {
    pub(super) fn vector_bytes() -> u64 {
        0
    }

    pub(super) fn vectors(rounds: u64, _: bool) {
        scalar64(rounds);
    }

    /// Adds in two chains: there are not enough registers for more.
    pub(super) fn scalar32(rounds: u64) {
        rounds!(rounds, ["add eax, 3", "add ecx, 3", "add eax, 3", "add ecx, 3", "add eax, 3", "add ecx, 3", "add eax, 3", "add ecx, 3"], ["sub {left}, 1", "jnz 2b"], [out("eax") _, out("ecx") _,]);
    }

    /// Adds in one chain, with two instructions per number.
    pub(super) fn scalar64(rounds: u64) {
        rounds!(rounds, ["add eax, 3; adc ecx, 0", "add eax, 3; adc ecx, 0", "add eax, 3; adc ecx, 0", "add eax, 3; adc ecx, 0", "add eax, 3; adc ecx, 0", "add eax, 3; adc ecx, 0", "add eax, 3; adc ecx, 0", "add eax, 3; adc ecx, 0"], ["sub {left}, 1", "jnz 2b"], [out("eax") _, out("ecx") _,]);
    }
}

#[cfg(target_arch = "arm")]
mod isa {
    pub(super) fn vector_bytes() -> u64 {
        0
    }

    pub(super) fn vectors(rounds: u64, _: bool) {
        scalar64(rounds);
    }

    pub(super) fn scalar32(rounds: u64) {
        rounds!(rounds, ["add r0, r0, #3", "add r1, r1, #3", "add r2, r2, #3", "add r3, r3, #3", "add r4, r4, #3", "add r5, r5, #3", "add r8, r8, #3", "add r10, r10, #3"], ["subs {left}, {left}, #1", "bne 2b"], [out("r0") _, out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _, out("r8") _, out("r10") _,]);
    }

    /// Adds in four chains, with two instructions per number.
    pub(super) fn scalar64(rounds: u64) {
        rounds!(rounds, ["adds r0, r0, #3; adc r1, r1, #0", "adds r2, r2, #3; adc r3, r3, #0", "adds r4, r4, #3; adc r5, r5, #0", "adds r8, r8, #3; adc r10, r10, #0", "adds r0, r0, #3; adc r1, r1, #0", "adds r2, r2, #3; adc r3, r3, #0", "adds r4, r4, #3; adc r5, r5, #0", "adds r8, r8, #3; adc r10, r10, #0"], ["subs {left}, {left}, #1", "bne 2b"], [out("r0") _, out("r1") _, out("r2") _, out("r3") _, out("r4") _, out("r5") _, out("r8") _, out("r10") _,]);
    }
}

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64",
    target_arch = "s390x",
    target_arch = "x86",
    target_arch = "arm"
)))]
compile_error!("additions are missing for this instruction set");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sort_of_addition_runs_and_is_counted() {
        assert!(AddKind::available().len() >= 2);
        for adds in AddKind::available() {
            assert_eq!(adds.run(0), 0);
            assert_eq!(adds.run(10), 320 * adds.lanes(), "{}", adds.name());
        }
        assert_eq!(AddKind::Scalar64.lanes(), 1);
    }
}
