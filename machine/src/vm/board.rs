//! Command line of a board without an operating system.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use tombolo_base::Isa;

use super::hardware::{Hardware, Launch};

/// Default memory of a board, in MiB. The emulator allocates only the memory that the board has touched.
pub const DEFAULT_MEMORY_MIB: u32 = 32;

/// Minimum memory of a board, in MiB: four for its monitor, four for the running program, four for stored
/// programs.
pub const MIN_MEMORY_MIB: u32 = 12;

/// Maximum memory of a board, in MiB, covered by the monitor's page tables.
pub const MAX_MEMORY_MIB: u32 = 1 << 10;

/// Returns the emulator for boards of an instruction set, and the Debian package that contains it.
#[must_use]
pub fn program(isa: Isa) -> (&'static str, &'static str) {
    match isa {
        Isa::Riscv64 => ("qemu-system-riscv64", "qemu-system-misc"),
        // Machine files allow only aarch64 besides.
        _ => ("qemu-system-aarch64", "qemu-system-arm"),
    }
}

/// An emulated board: its instruction set, its hardware, the emulator and the monitor that it boots.
#[derive(Clone, Debug)]
pub struct Board {
    isa: Isa,
    program: PathBuf,
    monitor: PathBuf,
    hardware: Hardware,
    instruction_clock: Option<u8>,
}

impl Board {
    /// Returns a board of `isa` that `program` emulates and that boots `monitor`. It has one processor and a
    /// memory from [`MIN_MEMORY_MIB`] to [`MAX_MEMORY_MIB`].
    #[must_use]
    pub fn new(
        isa: Isa,
        program: impl Into<PathBuf>,
        monitor: impl Into<PathBuf>,
        hardware: Hardware,
    ) -> Self {
        Board { isa, program: program.into(), monitor: monitor.into(), hardware, instruction_clock: None }
    }

    /// Makes the clock count instructions, 2ⁿ nanoseconds each, if `shift` is set.
    ///
    /// The emulator then runs all processors in one thread and omits barriers between them. A board has one
    /// processor and leaves that thread to sleep, which orders its accesses with those of the host.
    #[must_use]
    pub fn with_instruction_clock(self, shift: Option<u8>) -> Self {
        Board { instruction_clock: shift, ..self }
    }

    /// Returns the command to run, with `serial` as its console and `windows` as the sockets from
    /// [`Server::connect`](super::Server::connect). As with [`Qemu::launch`](super::Qemu::launch), the holder
    /// of the other end of `serial` must keep reading.
    #[must_use]
    pub fn launch(&self, serial: OwnedFd, windows: Vec<OwnedFd>) -> Launch {
        let arguments = self.arguments(serial.as_raw_fd(), &self.hardware.window_devices(&windows));
        let inherited = [serial].into_iter().chain(windows).collect();
        Launch { program: self.program.clone(), arguments, inherited }
    }

    fn arguments(&self, serial: i32, devices: &[String]) -> Vec<OsString> {
        let (machine, usual_cpu) = match self.isa {
            // The window interrupts by messages, which only this interrupt architecture supports.
            Isa::Riscv64 => ("virt,aia=aplic-imsic -bios none", "rv64"),
            // Messages through GICv2m wake a sleeping board fastest. A board does not read ACPI tables, which
            // the emulator would take time to build.
            _ => ("virt,gic-version=2,acpi=off", "cortex-a72"),
        };
        let mut arguments = self.hardware.arguments(machine, usual_cpu, serial, devices);
        if let Some(shift) = self.instruction_clock {
            arguments.extend(["-icount".into(), format!("shift={shift}").into()]);
        }
        arguments.extend(["-kernel".into(), self.monitor.clone().into()]);
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(isa: Isa, cpu: Option<&str>) -> String {
        text(&board(isa, cpu))
    }

    fn board(isa: Isa, cpu: Option<&str>) -> Board {
        let hardware =
            Hardware { cpu: cpu.map(str::to_owned), memory_mib: 32, processors: 1, windows: vec![8] };
        Board::new(isa, "/usr/bin/qemu", "/kit/board", hardware)
    }

    fn text(board: &Board) -> String {
        let arguments = board.arguments(7, &["-device window".to_owned()]);
        arguments.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn command_lines_match_exactly() {
        let ends = "-chardev socket,id=serial,fd=7 -serial chardev:serial \
                    -device window -kernel /kit/board";
        let begins = "-no-user-config -nodefaults -display none -no-reboot -machine virt,";
        assert_eq!(
            line(Isa::Aarch64, None),
            format!("{begins}gic-version=2,acpi=off -cpu cortex-a72 -smp 1,maxcpus=2 -m 32 {ends}")
        );
        assert_eq!(
            line(Isa::Riscv64, None),
            format!("{begins}aia=aplic-imsic -bios none -cpu rv64 -smp 1,maxcpus=2 -m 32 {ends}")
        );
        let counting = board(Isa::Aarch64, None).with_instruction_clock(Some(4));
        assert!(text(&counting).ends_with("-device window -icount shift=4 -kernel /kit/board"));
        assert!(line(Isa::Aarch64, Some("neoverse-n1")).contains(" -cpu neoverse-n1 "));
    }
}
