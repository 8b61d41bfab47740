//! Emulator options common to virtual machines and boards.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

/// Command that starts an emulator. Its arguments refer to descriptors by number; it must inherit them under
/// the same numbers.
#[derive(Debug)]
pub struct Launch {
    /// Program of the emulator.
    pub program: PathBuf,
    /// Command-line arguments of the emulator.
    pub arguments: Vec<OsString>,
    /// Inherited descriptors; close them here once it runs.
    pub inherited: Vec<OwnedFd>,
}

/// Processors and memory of an emulated machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hardware {
    /// Processor model supported by the emulator; `None` for the default of the machine.
    pub cpu: Option<String>,
    /// Memory of the machine, in MiB.
    pub memory_mib: u32,
    /// Number of processors of the machine.
    pub processors: u8,
    /// Number of doorbell vectors of each of its windows.
    pub windows: Vec<u16>,
}

impl Hardware {
    /// Returns the options for the windows at these sockets, in the order of [`windows`](Self::windows).
    pub(super) fn window_devices(&self, sockets: &[OwnedFd]) -> Vec<String> {
        let windows = self.windows.iter().zip(sockets).enumerate();
        windows
            .flat_map(|(number, (vectors, socket))| {
                let fd = socket.as_raw_fd();
                [
                    format!("-chardev socket,id=window{number},fd={fd}"),
                    format!("-device ivshmem-doorbell,chardev=window{number},vectors={vectors}"),
                ]
            })
            .collect()
    }

    /// Returns all arguments except for the boot files.
    pub(super) fn arguments(
        &self,
        machine: &str,
        default_cpu: &str,
        serial: i32,
        devices: &[String],
    ) -> Vec<OsString> {
        let cpu = self.cpu.as_deref().unwrap_or(default_cpu);
        let words = [
            // Only the devices listed here, regardless of the user's configuration; no screen and no QEMU
            // monitor.
            "-no-user-config -nodefaults -display none -no-reboot",
            &format!("-machine {machine} -cpu {cpu} -smp {} -m {}", smp(self.processors), self.memory_mib),
            &format!("-chardev socket,id=serial,fd={serial} -serial chardev:serial"),
        ];
        let lines = words.into_iter().chain(devices.iter().map(String::as_str));
        lines.flat_map(|line| line.split(' ')).map(OsString::from).collect()
    }
}

/// Returns the processors for `-smp`, with a maximum of at least two.
///
/// For a machine with at most one processor the emulator omits the guest's memory barriers and compiles its
/// atomic operations to plain ones. That is correct for an isolated machine, but not for one that shares
/// memory with its host: sleeping receivers would sometimes miss a wake-up. A second processor that is
/// possible but absent costs nothing.
fn smp(processors: u8) -> String {
    format!("{processors},maxcpus={}", processors.max(2))
}
