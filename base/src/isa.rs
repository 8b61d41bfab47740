//! Instruction sets supported for nodes.

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
    /// IBM z/Architecture, big-endian; supported to test the byte order of all shared data.
    S390x,
    /// 32-bit x86. Supported, like `Armv7`, to test that no shared data depends on the word size.
    I386,
    /// 32-bit Arm of version 7, little-endian, with floating point in registers.
    Armv7,
}

impl Isa {
    /// Every instruction set, in the order in which tables list them.
    pub const ALL: [Isa; 6] = [Isa::X86_64, Isa::Aarch64, Isa::Riscv64, Isa::S390x, Isa::I386, Isa::Armv7];

    /// Instruction sets with 64-bit addresses: the default targets where no node requires others.
    pub const ALL_64_BIT: [Isa; 4] = [Isa::X86_64, Isa::Aarch64, Isa::Riscv64, Isa::S390x];

    /// Returns the instruction set this code was compiled for.
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
        #[cfg(target_arch = "x86")]
        return Isa::I386;
        #[cfg(target_arch = "arm")]
        return Isa::Armv7;
    }

    /// Returns the name used in machine files, images and output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Isa::X86_64 => "x86_64",
            Isa::Aarch64 => "aarch64",
            Isa::Riscv64 => "riscv64",
            Isa::S390x => "s390x",
            Isa::I386 => "i386",
            Isa::Armv7 => "armv7",
        }
    }

    /// Returns the instruction set with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Isa> {
        Isa::ALL.into_iter().find(|isa| isa.name() == name)
    }

    /// Returns the number used in files and in wire formats. Never changes.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Isa::X86_64 => 1,
            Isa::Aarch64 => 2,
            Isa::Riscv64 => 3,
            Isa::S390x => 4,
            Isa::I386 => 5,
            Isa::Armv7 => 6,
        }
    }

    /// Returns the instruction set with this [`code`](Self::code).
    #[must_use]
    pub fn from_code(code: u8) -> Option<Isa> {
        Isa::ALL.into_iter().find(|isa| isa.code() == code)
    }

    /// Returns `e_machine` of an ELF file for this instruction set.
    #[must_use]
    pub const fn elf_machine(self) -> u16 {
        match self {
            Isa::X86_64 => 62,
            Isa::Aarch64 => 183,
            Isa::Riscv64 => 243,
            Isa::S390x => 22,
            Isa::I386 => 3,
            Isa::Armv7 => 40,
        }
    }

    /// Returns the number of bits of an address.
    #[must_use]
    pub const fn address_bits(self) -> u32 {
        match self {
            Isa::X86_64 | Isa::Aarch64 | Isa::Riscv64 | Isa::S390x => 64,
            Isa::I386 | Isa::Armv7 => 32,
        }
    }

    /// Returns whether the instruction set is big-endian.
    #[must_use]
    pub const fn big_endian(self) -> bool {
        matches!(self, Isa::S390x)
    }
}

/// Target of a build: an instruction set, under Linux or on a board without an operating system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Target {
    /// True for a board without an operating system.
    pub bare: bool,
    /// The instruction set of the target.
    pub isa: Isa,
}

impl Target {
    /// Every target, in the order in which tables list them.
    pub const ALL: [Target; 8] = [
        Target::linux(Isa::X86_64),
        Target::linux(Isa::Aarch64),
        Target::linux(Isa::Riscv64),
        Target::linux(Isa::S390x),
        Target::linux(Isa::I386),
        Target::linux(Isa::Armv7),
        Target::bare(Isa::Aarch64),
        Target::bare(Isa::Riscv64),
    ];

    /// Returns the target `isa` under Linux.
    #[must_use]
    pub const fn linux(isa: Isa) -> Target {
        Target { bare: false, isa }
    }

    /// Returns the target `isa` on a board without an operating system.
    #[must_use]
    pub const fn bare(isa: Isa) -> Target {
        Target { bare: true, isa }
    }

    /// Returns the name used in images and output: the name of the instruction set, with `-none` appended for
    /// boards.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Target { bare: false, isa } => isa.name(),
            Target { isa: Isa::X86_64, .. } => "x86_64-none",
            Target { isa: Isa::Aarch64, .. } => "aarch64-none",
            Target { isa: Isa::Riscv64, .. } => "riscv64-none",
            Target { isa: Isa::S390x, .. } => "s390x-none",
            Target { isa: Isa::I386, .. } => "i386-none",
            Target { isa: Isa::Armv7, .. } => "armv7-none",
        }
    }

    /// Returns the target with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Target> {
        Target::ALL.into_iter().find(|target| target.name() == name)
    }

    /// Returns the number used in files and in wire formats: the code of the instruction set, plus 128 for
    /// boards.
    #[must_use]
    pub const fn code(self) -> u8 {
        if self.bare { self.isa.code() | 0x80 } else { self.isa.code() }
    }

    /// Returns the target with this [`code`](Self::code).
    #[must_use]
    pub fn from_code(code: u8) -> Option<Target> {
        Target::ALL.into_iter().find(|target| target.code() == code)
    }
}

impl From<Isa> for Target {
    fn from(isa: Isa) -> Target {
        Target::linux(isa)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn targets_have_unique_names_and_ordered_codes() {
        let codes = Target::ALL.map(Target::code);
        assert_eq!(codes, [1, 2, 3, 4, 5, 6, 0x82, 0x83]);
        assert!(Target::ALL.is_sorted());
        for target in Target::ALL {
            assert_eq!(Target::from_name(target.name()), Some(target));
            assert_eq!(Target::from_code(target.code()), Some(target));
        }
        assert_eq!(Target::from_code(0x81), None);
        assert_eq!(std::format!("{:>14}", Target::bare(Isa::Aarch64)), "  aarch64-none");
    }
    #[test]
    fn instruction_sets_are_found_by_name_and_by_code() {
        let names = ["x86_64", "aarch64", "riscv64", "s390x", "i386", "armv7"];
        assert_eq!(Isa::ALL.map(Isa::name), names);
        assert_eq!(Isa::ALL.map(Isa::code), [1, 2, 3, 4, 5, 6]);
        for isa in Isa::ALL {
            assert_eq!(Isa::from_name(isa.name()), Some(isa));
            assert_eq!(Isa::from_code(isa.code()), Some(isa));
            assert_eq!(Target::from(isa), Target::linux(isa));
            assert_eq!(std::format!("{isa:>8}"), std::format!("{:>8}", isa.name()));
        }
        assert_eq!(Isa::from_name("x86-64"), None);
        assert_eq!(Isa::from_code(0), None);
        assert_eq!(Isa::from_code(7), None);
    }

    /// Compares with the compiler's own target and with the numbers in the ELF specification.
    #[test]
    fn machine_numbers_and_byte_orders_are_those_of_the_specifications() {
        assert_eq!(Isa::ALL.map(Isa::elf_machine), [62, 183, 243, 22, 3, 40]);
        assert_eq!(Isa::ALL.map(Isa::big_endian), [false, false, false, true, false, false]);
        let ours = match std::env::consts::ARCH {
            "x86" => "i386",
            "arm" => "armv7",
            name => name,
        };
        assert_eq!(Isa::current().name(), ours);
        assert_eq!(Isa::current().address_bits(), usize::BITS);
        assert!(Isa::ALL_64_BIT.into_iter().eq(Isa::ALL.into_iter().filter(|isa| isa.address_bits() == 64)));
        assert_eq!(Isa::current().big_endian(), cfg!(target_endian = "big"));
    }
}
