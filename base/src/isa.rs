//! Instruction sets that a node can have.

use core::fmt;

/// An instruction set and byte order, as Linux and ELF name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Isa {
    /// 64-bit x86, little-endian.
    X86_64,
    /// 64-bit Arm, little-endian.
    Aarch64,
    /// 64-bit RISC-V, little-endian.
    Riscv64,
    /// IBM z/Architecture, big-endian: the byte-order test of everything that is shared.
    S390x,
}

impl Isa {
    /// Every instruction set, in the order in which tables list them.
    pub const ALL: [Isa; 4] = [Isa::X86_64, Isa::Aarch64, Isa::Riscv64, Isa::S390x];

    /// The instruction set this code was compiled for.
    #[must_use]
    pub const fn current() -> Isa {
        #[cfg(target_arch = "x86_64")]
        return Isa::X86_64;
        #[cfg(target_arch = "aarch64")]
        return Isa::Aarch64;
        #[cfg(target_arch = "riscv64")]
        return Isa::Riscv64;
        #[cfg(target_arch = "s390x")]
        return Isa::S390x;
    }

    /// The name used in machine files, images and output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Isa::X86_64 => "x86_64",
            Isa::Aarch64 => "aarch64",
            Isa::Riscv64 => "riscv64",
            Isa::S390x => "s390x",
        }
    }

    /// The instruction set of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Isa> {
        Isa::ALL.into_iter().find(|isa| isa.name() == name)
    }

    /// A stable number for files and wires.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Isa::X86_64 => 1,
            Isa::Aarch64 => 2,
            Isa::Riscv64 => 3,
            Isa::S390x => 4,
        }
    }

    /// The reverse of [`code`](Self::code).
    #[must_use]
    pub fn from_code(code: u8) -> Option<Isa> {
        Isa::ALL.into_iter().find(|isa| isa.code() == code)
    }

    /// `e_machine` of an ELF file for it.
    #[must_use]
    pub const fn elf_machine(self) -> u16 {
        match self {
            Isa::X86_64 => 62,
            Isa::Aarch64 => 183,
            Isa::Riscv64 => 243,
            Isa::S390x => 22,
        }
    }

    /// Whether multi-byte numbers have their most significant byte first.
    #[must_use]
    pub const fn big_endian(self) -> bool {
        matches!(self, Isa::S390x)
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
