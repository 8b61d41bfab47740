//! The part of an emulator's command line that virtual machines and boards have in common.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

/// The command that starts an emulator. Its arguments name descriptors by their numbers, under which it must
/// inherit them.
#[derive(Debug)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The descriptors that it inherits; close them here once it runs.
    pub inherited: Vec<OwnedFd>,
}

/// The processors and the memory of an emulated machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hardware {
    /// The processor model, one that the emulator has; `None` for the default of the machine.
    pub cpu: Option<String>,
    /// Its own memory.
    pub memory_mib: u32,
    /// How many processors it has.
    pub processors: u8,
    /// The doorbell vectors of each of its windows: as many as the window has.
    pub windows: Vec<u16>,
}

impl Hardware {
    /// Returns the windows at these sockets, in the order of [`windows`](Self::windows).
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

    /// Everything but what it boots.
    pub(super) fn arguments(
        &self,
        machine: &str,
        default_cpu: &str,
        serial: i32,
        devices: &[String],
    ) -> Vec<OsString> {
        let cpu = self.cpu.as_deref().unwrap_or(default_cpu);
        let words = [
            // Only what is listed here, whatever the user's configuration; no screen and no monitor.
            "-no-user-config -nodefaults -display none -no-reboot",
            &format!("-machine {machine} -cpu {cpu} -smp {} -m {}", smp(self.processors), self.memory_mib),
            &format!("-chardev socket,id=serial,fd={serial} -serial chardev:serial"),
        ];
        let lines = words.into_iter().chain(devices.iter().map(String::as_str));
        lines.flat_map(|line| line.split(' ')).map(OsString::from).collect()
    }
}

/// Returns the processors for `-smp`, at least two of them possible.
///
/// For a machine with at most one processor the emulator omits the guest's memory barriers and compiles its
/// atomic operations to plain ones. That is correct for a machine alone, but not for one that shares memory
/// with its host: sleeping receivers would sometimes miss a wake-up. A second processor that is possible but
/// absent costs nothing.
fn smp(processors: u8) -> String {
    format!("{processors},maxcpus={}", processors.max(2))
}
