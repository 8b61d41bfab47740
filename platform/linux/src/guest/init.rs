//! Duties of process 1 in a virtual machine: mounting, loading modules, and supervising the monitor.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::process::{Pid, WaitOptions, WaitStatus};
use rustix::system::RebootCommand;

use crate::error::{Context, OsError};
use crate::process::ExitOutcome;

/// Folder of the boot image with the node's own files, apart from those of users.
pub const TOMBOLO_DIR: &str = "/tombolo";

/// Folder of the boot image with the kernel's modules and their load order.
pub const MODULES: &str = "/tombolo/modules";

/// Folder with the modules for devices that a program provides, loaded on first use.
pub const DEVICE_MODULES: &str = "/tombolo/device-modules";

/// Folder with the modules for disks; present only on nodes with disks.
pub const DISK_MODULES: &str = "/tombolo/disk-modules";

/// Path of the program of process 1 and of the monitor.
pub const PROGRAM: &str = "/tombolo/tombolod";

/// Kernel command-line parameter that names the disk with the node's root.
pub const ROOT: &str = "tombolo.root";

/// Device of the first disk.
pub const FIRST_DISK: &str = "/dev/vda";

/// Mount point of the new root before the switch.
const NEW_ROOT: &str = "/new-root";

/// Maximum time for a disk to appear.
const DISK_PATIENCE: Duration = Duration::from_secs(10);

/// File in a modules folder that lists them, one name per line, each after its dependencies.
pub const MODULE_ORDER: &str = "order";

/// The tools in the boot image.
pub const BUSYBOX: &str = "/tombolo/busybox";

/// Minimum lifetime of a shell that is restarted: one that ends earlier has no working console.
pub const MIN_SHELL_LIFETIME: Duration = Duration::from_secs(1);

/// The search path for programs.
pub const PATH: &str = "/usr/bin:/bin";

/// Returns the terminal of the serial console, as named by the kernel's command line.
///
/// # Errors
/// An error of the kernel; `ENODEV` if it names none.
pub fn console() -> Result<PathBuf, OsError> {
    let parameters = Parameters::read()?;
    let name = parameters.console().ok_or_else(|| OsError::new("find the console", Errno::NODEV))?;
    Ok(Path::new("/dev").join(name))
}

const NO_EXEC: MountFlags = MountFlags::NOSUID.union(MountFlags::NOEXEC).union(MountFlags::NODEV);
const NO_DEVICES: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

const FILE_SYSTEMS: [(&str, &str, MountFlags); 7] = [
    ("proc", "/proc", NO_EXEC),
    ("sysfs", "/sys", NO_EXEC),
    ("devtmpfs", "/dev", MountFlags::NOSUID),
    ("devpts", "/dev/pts", MountFlags::NOSUID),
    ("tmpfs", "/dev/shm", NO_DEVICES),
    ("tmpfs", "/tmp", NO_DEVICES),
    ("tmpfs", "/run", NO_DEVICES),
];

/// Returns whether this process is process 1 and so must perform the duties of this module.
#[must_use]
pub fn is_init() -> bool {
    rustix::process::getpid() == Pid::INIT
}

/// Mounts the usual file systems: `/proc`, `/sys`, `/dev` with terminals and shared memory, `/tmp`, `/run`.
/// Skips those already mounted.
///
/// # Errors
/// An error of the kernel.
pub fn mount_file_systems() -> Result<(), OsError> {
    for (kind, target, flags) in FILE_SYSTEMS {
        std::fs::create_dir_all(target).context(&format!("create {target}"))?;
        match rustix::mount::mount(kind, target, kind, flags, None) {
            Ok(()) | Err(Errno::BUSY) => {}
            Err(errno) => return Err(OsError::new(format!("mount {kind} on {target}"), errno)),
        }
    }
    Ok(())
}

/// Loads the kernel modules that [`MODULE_ORDER`] in `directory` lists, in that order, except those already
/// loaded.
///
/// # Errors
/// An error of the kernel, with the file.
pub fn load_modules(directory: &Path) -> Result<(), OsError> {
    let order = directory.join(MODULE_ORDER);
    let names = std::fs::read_to_string(&order).context(&format!("read {}", order.display()))?;
    for name in names.lines().map(str::trim).filter(|name| !name.is_empty()) {
        let path = directory.join(name);
        let operation = format!("load the kernel module {}", path.display());
        let file = File::open(&path).context(&operation)?;
        match rustix::system::finit_module(&file, c"", 0) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(OsError::new(operation, errno)),
        }
    }
    Ok(())
}

/// Mounts `disk` as the root, with any file system type that the kernel supports. Moves the file systems of
/// [`mount_file_systems`] and the folder [`TOMBOLO_DIR`] there and creates missing mount points.
///
/// # Errors
/// `ENODEV` if there is no such disk within 10 s, `EINVAL` if it has no file system that the kernel knows, or
/// an error of the kernel.
pub fn switch_root(disk: &str) -> Result<(), OsError> {
    let until = Instant::now() + DISK_PATIENCE;
    while !Path::new(disk).exists() {
        if Instant::now() > until {
            return Err(OsError::new(format!("find the disk {disk} of the root"), Errno::NODEV));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    std::fs::create_dir_all(NEW_ROOT).context(&format!("create {NEW_ROOT}"))?;
    mount_disk(disk)?;
    // Nested mounts such as /dev/pts move with their parents.
    let tops = ["/proc", "/sys", "/dev", "/tmp", "/run"];
    for folder in tops.into_iter().chain([TOMBOLO_DIR]) {
        let target = format!("{NEW_ROOT}{folder}");
        std::fs::create_dir_all(&target).context(&format!("create {folder} in the root on {disk}"))?;
        let operation = format!("move {folder} to the root on {disk}");
        match folder == TOMBOLO_DIR {
            true => rustix::mount::mount_bind_recursive(folder, &target).context(&operation)?,
            false => rustix::mount::mount_move(folder, &target).context(&operation)?,
        }
    }
    let operation = format!("make {disk} the root");
    rustix::process::chdir(NEW_ROOT).context(&operation)?;
    rustix::mount::mount_move(".", "/").context(&operation)?;
    rustix::process::chroot(".").context(&operation)?;
    rustix::process::chdir("/").context(&operation)
}

fn mount_disk(disk: &str) -> Result<(), OsError> {
    let known = std::fs::read_to_string("/proc/filesystems").context("read the kernel's file systems")?;
    let mut last = Errno::INVAL;
    for kind in disk_file_systems(&known) {
        match rustix::mount::mount(disk, NEW_ROOT, kind, MountFlags::empty(), None) {
            Ok(()) => return Ok(()),
            Err(Errno::INVAL) => {}
            Err(errno) => last = errno,
        }
    }
    Err(OsError::new(format!("mount {disk}: it has no file system that this kernel knows"), last))
}

/// Returns the disk file systems listed in `/proc/filesystems`.
fn disk_file_systems(known: &str) -> impl Iterator<Item = &str> {
    known.lines().filter(|line| !line.starts_with("nodev")).map(str::trim).filter(|kind| !kind.is_empty())
}

/// Sets the host name of this machine.
///
/// # Errors
/// `EINVAL` for a name longer than 64 bytes.
pub fn set_host_name(name: &str) -> Result<(), OsError> {
    rustix::system::sethostname(name.as_bytes()).context(&format!("set the host name to {name}"))
}

/// Parameters of the form `key=value` on the kernel's command line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads this kernel's command line; `/proc` must be mounted.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn read() -> Result<Self, OsError> {
        let line = std::fs::read_to_string("/proc/cmdline").context("read the kernel's command line")?;
        Ok(Self::parse(&line))
    }

    /// Parses a command line. Words without `=` are skipped.
    #[must_use]
    pub fn parse(line: &str) -> Self {
        let split = |word: &str| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        Parameters(line.split_ascii_whitespace().filter_map(split).collect())
    }

    /// Returns the value of `key`; the last one if it is repeated, as in the kernel.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns the name of the console's device, without its speed.
    fn console(&self) -> Option<&str> {
        self.get("console").and_then(|value| value.split(',').next()).filter(|name| !name.is_empty())
    }
}

/// Function that creates the command for a shell, with the console opened for it.
pub type ShellFactory = fn() -> Result<Command, OsError>;

/// Returns a shell on the serial console, with job control.
///
/// # Errors
/// The console cannot be opened.
pub fn console_shell() -> Result<Command, OsError> {
    let path = console()?;
    let open = || File::options().read(true).write(true).open(&path).context("open the console");
    let mut shell = Command::new(BUSYBOX);
    shell.args(["setsid", "-c", BUSYBOX, "sh"]);
    shell.envs([("HOME", "/"), ("PATH", PATH), ("TERM", "linux")]);
    shell
        .current_dir("/")
        .stdin(Stdio::from(open()?))
        .stdout(Stdio::from(open()?))
        .stderr(Stdio::from(open()?));
    Ok(shell)
}

/// Runs `main` and waits for its end, while reaping every orphan of this machine, which only process 1 can
/// do. `main` is a separate process so that it can wait for its own children.
///
/// The command created by `shell`, if given, runs beside it and is restarted after each end, provided that it
/// lived for at least [`MIN_SHELL_LIFETIME`]; see [`console_shell`].
///
/// # Errors
/// An error of the kernel. A shell that does not start is not an error.
pub fn supervise(main: &mut Command, shell: Option<ShellFactory>) -> Result<ExitOutcome, OsError> {
    let child = main.spawn().context(&format!("start {}", main.get_program().to_string_lossy()))?;
    let main_pid = Pid::from_child(&child);
    // Created anew each time: the console hangs up on all its users when the shell ends.
    let start_shell = || {
        let child = shell?().ok()?.spawn().ok()?;
        Some((Pid::from_child(&child), Instant::now()))
    };
    let mut running_shell = start_shell();
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == main_pid => return Ok(exit_outcome(status)),
            Ok(Some((pid, _))) if running_shell.is_some_and(|(shell, _)| shell == pid) => {
                running_shell = running_shell.filter(|(_, since)| since.elapsed() >= MIN_SHELL_LIFETIME);
                if running_shell.is_some() {
                    running_shell = start_shell();
                }
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(OsError::new("wait for the monitor", errno)),
        }
    }
}

fn exit_outcome(status: WaitStatus) -> ExitOutcome {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ExitOutcome::Exited(code as u8),
        (None, signal) => ExitOutcome::Signalled(signal.unwrap_or(0) as u8),
    }
}

/// Powers this machine off immediately, without notifying programs.
///
/// Returns only on failure, with the reason.
#[must_use]
pub fn power_off() -> OsError {
    match rustix::system::reboot(RebootCommand::PowerOff) {
        Ok(()) => OsError::new("power off: the kernel returned", Errno::IO),
        Err(errno) => OsError::new("power off", errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_words_with_an_equals_sign() {
        let line = "console=ttyAMA0 quiet tombolo.node=arm0 cma=0 tombolo.token=a=b tombolo.empty= cma=1\n";
        let parameters = Parameters::parse(line);
        assert_eq!(parameters.get("tombolo.node"), Some("arm0"));
        assert_eq!(parameters.get("tombolo.token"), Some("a=b"));
        assert_eq!(parameters.get("tombolo.empty"), Some(""));
        assert_eq!(parameters.get("cma"), Some("1"));
        assert_eq!(parameters.get("quiet"), None);
        assert_eq!(parameters.console(), Some("ttyAMA0"));
        assert_eq!(Parameters::parse("console=tty0 console=ttyS0,115200n8").console(), Some("ttyS0"));
        assert_eq!(Parameters::parse("console=").console(), None);
        assert_eq!(Parameters::parse("  \n"), Parameters::default());
    }

    #[test]
    fn kinds_of_disks_are_those_with_a_device() {
        let known = "nodev\tsysfs\nnodev\ttmpfs\n\text3\n\text4\n\n";
        assert_eq!(disk_file_systems(known).collect::<Vec<_>>(), ["ext3", "ext4"]);
    }

    #[test]
    fn the_modules_are_named_when_they_cannot_be_loaded() {
        let directory = std::env::temp_dir().join(format!("tombolo-modules-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        assert_eq!(load_modules(&directory).unwrap_err().errno, Errno::NOENT);
        std::fs::write(directory.join(MODULE_ORDER), "\nmissing.ko\n").unwrap();
        let error = load_modules(&directory).unwrap_err();
        assert!(error.to_string().contains("missing.ko"), "{error}");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
