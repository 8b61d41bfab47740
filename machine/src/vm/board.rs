//! The command line of a board without an operating system.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use tombolo_base::Isa;

use super::qemu::{self, Launch, processors};

/// Memory of a board that does not say, in MiB. The emulator takes of its host what the board has touched.
pub const DEFAULT_MEMORY_MIB: u32 = 32;

/// Least memory of a board, in MiB: its monitor's four, four for programs, four for those it keeps.
pub const MIN_MEMORY_MIB: u32 = 12;

/// Most memory of a board, in MiB: what the monitor's tables of addresses cover.
pub const MAX_MEMORY_MIB: u32 = 1 << 10;

/// The emulator of boards of an instruction set, and the Debian package that has it.
#[must_use]
pub fn program(isa: Isa) -> (&'static str, &'static str) {
    match isa {
        Isa::Riscv64 => ("qemu-system-riscv64", "qemu-system-misc"),
        // Machine files name no other.
        _ => (qemu::PROGRAM, "qemu-system-arm"),
    }
}

/// Describes a board.
#[derive(Clone, Debug)]
pub struct Board {
    isa: Isa,
    program: PathBuf,
    monitor: PathBuf,
    cpu: Option<String>,
    memory_mib: u32,
    vectors: u16,
}

impl Board {
    /// A board of `isa` that `program` emulates and that boots `monitor`, of default memory and vectors.
    #[must_use]
    pub fn new(isa: Isa, program: impl Into<PathBuf>, monitor: impl Into<PathBuf>) -> Self {
        Board {
            isa,
            program: program.into(),
            monitor: monitor.into(),
            cpu: None,
            memory_mib: DEFAULT_MEMORY_MIB,
            vectors: qemu::DEFAULT_VECTORS,
        }
    }

    /// Sets the processor model, one that the emulator has; the board's usual one for `None`.
    #[must_use]
    pub fn cpu(mut self, cpu: Option<String>) -> Self {
        self.cpu = cpu;
        self
    }

    /// Sets the memory, from [`MIN_MEMORY_MIB`] to [`MAX_MEMORY_MIB`].
    #[must_use]
    pub fn memory_mib(mut self, memory_mib: u32) -> Self {
        self.memory_mib = memory_mib;
        self
    }

    /// Sets the number of doorbell vectors: that of the [`Window`](super::Window).
    #[must_use]
    pub fn vectors(mut self, vectors: u16) -> Self {
        self.vectors = vectors;
        self
    }

    /// What to run, with `serial` as its console and `window` as the socket from
    /// [`Window::connect`](super::Window::connect). As with [`Qemu::launch`](super::Qemu::launch), whoever holds the
    /// other end of `serial` must keep reading.
    #[must_use]
    pub fn launch(&self, serial: OwnedFd, window: OwnedFd) -> Launch {
        let arguments = self.arguments(serial.as_raw_fd(), window.as_raw_fd());
        Launch { program: self.program.clone(), arguments, inherited: vec![serial, window] }
    }

    fn arguments(&self, serial: i32, window: i32) -> Vec<OsString> {
        let (machine, usual_cpu) = match self.isa {
            // Interrupts of the window are messages, which only this interrupt architecture has.
            Isa::Riscv64 => ("virt,aia=aplic-imsic -bios none", "rv64"),
            // Messages through GICv2m wake a sleeping board fastest. Nobody on a board reads ACPI tables, which the
            // emulator would take a while to make.
            _ => ("virt,gic-version=2,acpi=off", qemu::DEFAULT_CPU),
        };
        let cpu = self.cpu.as_deref().unwrap_or(usual_cpu);
        let words = [
            "-no-user-config -nodefaults -display none -no-reboot",
            &format!("-machine {machine} -cpu {cpu} -smp {} -m {}", processors(1), self.memory_mib),
            &format!("-chardev socket,id=serial,fd={serial} -serial chardev:serial"),
            &format!("-chardev socket,id=window,fd={window}"),
            &format!("-device ivshmem-doorbell,chardev=window,vectors={}", self.vectors),
        ];
        let mut arguments: Vec<OsString> =
            words.iter().flat_map(|line| line.split(' ')).map(OsString::from).collect();
        arguments.extend(["-kernel".into(), self.monitor.clone().into()]);
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(isa: Isa, cpu: Option<&str>) -> String {
        let board = Board::new(isa, "/usr/bin/qemu", "/kit/board").vectors(8).cpu(cpu.map(str::to_owned));
        let arguments = board.arguments(7, 9);
        arguments.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_command_lines_are_these() {
        let ends = "-chardev socket,id=serial,fd=7 -serial chardev:serial -chardev socket,id=window,fd=9 \
                    -device ivshmem-doorbell,chardev=window,vectors=8 -kernel /kit/board";
        let begins = "-no-user-config -nodefaults -display none -no-reboot -machine virt,";
        assert_eq!(
            line(Isa::Aarch64, None),
            format!("{begins}gic-version=2,acpi=off -cpu cortex-a72 -smp 1,maxcpus=2 -m 32 {ends}")
        );
        assert_eq!(
            line(Isa::Riscv64, None),
            format!("{begins}aia=aplic-imsic -bios none -cpu rv64 -smp 1,maxcpus=2 -m 32 {ends}")
        );
        assert!(line(Isa::Aarch64, Some("neoverse-n1")).contains(" -cpu neoverse-n1 "));
    }
}
