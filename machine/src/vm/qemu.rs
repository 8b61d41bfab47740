//! The command line of a virtual machine.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

/// The emulator of an `aarch64` machine.
pub const PROGRAM: &str = "qemu-system-aarch64";

/// Memory of a machine that does not say, in MiB. The emulator takes of its host what the machine has touched
/// and about 180 MiB more, however much this is.
pub const DEFAULT_MEMORY_MIB: u32 = 512;

/// Least memory of a machine, in MiB: below it the kernel does not reach the monitor.
pub const MIN_MEMORY_MIB: u32 = 64;

/// Most memory of a machine, in MiB.
pub const MAX_MEMORY_MIB: u32 = 64 << 10;

/// Doorbell vectors of a machine that does not say.
pub const DEFAULT_VECTORS: u16 = 32;

/// The processor model: the fastest to boot of those with what Debian's kernel needs (`max` takes four times as
/// long, for the pointer authentication that it emulates).
pub const DEFAULT_CPU: &str = "cortex-a72";

/// Most processors that the machine's interrupt controller (version 2) serves.
pub const MAX_PROCESSORS: u8 = 8;

/// Most bytes of the kernel's command line, with the zero that ends it.
const MAX_KERNEL_LINE_BYTES: usize = 2048;

/// `quiet`: printing over an emulated serial line is slow. `cma=0`: no memory set aside for devices that are
/// not there. `panic=-1`: a kernel that fails ends the machine at once. `cryptomgr.notests`: its ciphers test
/// themselves for a quarter of the whole boot. `kpti=off`: programs keep the kernel's pages, unreadable, in their page
/// tables. The kernel takes them out against processors that read ahead of permissions; an emulated one reads nothing
/// ahead, and changing tables makes it forget all translations: a system call takes 10 µs with that, and 1 µs without.
const KERNEL_LINE: &str = "console=ttyAMA0 quiet cma=0 panic=-1 cryptomgr.notests=1 kpti=off";

/// Why a virtual machine cannot be started as described.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QemuError {
    /// The memory is out of range.
    #[error(
        "a virtual machine with {0} MiB of memory cannot be: it has {MIN_MEMORY_MIB} to {MAX_MEMORY_MIB}"
    )]
    Memory(u32),
    /// The number of processors is out of range.
    #[error("a virtual machine with {0} processors cannot be: it has 1 to {MAX_PROCESSORS}")]
    Processors(u8),
    /// The kernel's command line is words; this one would become several, or none.
    #[error(
        "the kernel parameter {key}={value:?} cannot be passed: spaces, quotes and control characters cannot"
    )]
    Parameter {
        /// Its name.
        key: String,
        /// Its value.
        value: String,
    },
    /// The kernel would cut its command line.
    #[error("the kernel's command line has {0} bytes, and at most {max} fit", max = MAX_KERNEL_LINE_BYTES - 1)]
    KernelLine(usize),
}

/// What to run: a program, its arguments, and descriptors that it must inherit under the numbers they have
/// here (the arguments name them).
#[derive(Debug)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What it inherits; to be closed here once it runs.
    pub inherited: Vec<OwnedFd>,
}

/// Describes an `aarch64` virtual machine.
#[derive(Clone, Debug)]
pub struct Qemu {
    program: PathBuf,
    kernel: PathBuf,
    initramfs: PathBuf,
    cpu: String,
    memory_mib: u32,
    processors: u8,
    vectors: u16,
    parameters: Vec<(String, String)>,
}

impl Qemu {
    /// A machine that `program` (a [`PROGRAM`]) emulates and that boots `kernel` with `initramfs`, of
    /// default memory and vectors and one processor.
    #[must_use]
    pub fn new(
        program: impl Into<PathBuf>,
        kernel: impl Into<PathBuf>,
        initramfs: impl Into<PathBuf>,
    ) -> Self {
        Qemu {
            program: program.into(),
            kernel: kernel.into(),
            initramfs: initramfs.into(),
            cpu: DEFAULT_CPU.to_owned(),
            memory_mib: DEFAULT_MEMORY_MIB,
            processors: 1,
            vectors: DEFAULT_VECTORS,
            parameters: Vec::new(),
        }
    }

    /// Sets the processor model, one that the emulator has; [`DEFAULT_CPU`] unless said.
    #[must_use]
    pub fn cpu(mut self, cpu: impl Into<String>) -> Self {
        self.cpu = cpu.into();
        self
    }

    /// Sets the memory, from [`MIN_MEMORY_MIB`] to [`MAX_MEMORY_MIB`].
    #[must_use]
    pub fn memory_mib(mut self, memory_mib: u32) -> Self {
        self.memory_mib = memory_mib;
        self
    }

    /// Sets the number of processors, 1 to [`MAX_PROCESSORS`].
    #[must_use]
    pub fn processors(mut self, processors: u8) -> Self {
        self.processors = processors;
        self
    }

    /// Sets the number of doorbell vectors: that of the [`Window`](super::Window).
    #[must_use]
    pub fn vectors(mut self, vectors: u16) -> Self {
        self.vectors = vectors;
        self
    }

    /// Adds `key=value` to the kernel's command line, where the node's monitor reads it.
    ///
    /// A key has a dot, as in `tombolo.node`: the kernel would pass any other to process 1 as well.
    #[must_use]
    pub fn parameter(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.push((key.into(), value.into()));
        self
    }

    /// What to run, with `serial` as its serial console and `window` as the socket from
    /// [`Window::connect`](super::Window::connect).
    ///
    /// Whoever holds the other end of `serial` must keep reading from it: QEMU waits for room there, and all
    /// of the machine waits with it. Both ends hang up when the machine ends.
    ///
    /// # Errors
    /// [`QemuError`].
    pub fn launch(&self, serial: OwnedFd, window: OwnedFd) -> Result<Launch, QemuError> {
        let arguments = self.arguments(serial.as_raw_fd(), &self.window(window.as_raw_fd()))?;
        Ok(Launch { program: self.program.clone(), arguments, inherited: vec![serial, window] })
    }

    /// The same with a network in place of the window, for measuring what that costs: no node has one.
    ///
    /// The network is the emulator's own, of this machine alone. From it nobody is reached, neither the host nor anybody
    /// else; of the host's loopback, a port that the kernel picks leads to `port` of the machine's `address`. Which one the
    /// emulator tells at `control`, where it speaks its monitor protocol (QMP).
    ///
    /// # Errors
    /// [`QemuError`].
    pub fn launch_with_network(
        &self,
        serial: OwnedFd,
        control: OwnedFd,
        (address, port): (Ipv4Addr, u16),
    ) -> Result<Launch, QemuError> {
        let devices = Self::network(control.as_raw_fd(), (address, port));
        let arguments = self.arguments(serial.as_raw_fd(), &devices)?;
        Ok(Launch { program: self.program.clone(), arguments, inherited: vec![serial, control] })
    }

    /// The same with a tap device of the host in place of the window, for measuring as well.
    ///
    /// # Errors
    /// [`QemuError`].
    pub fn launch_with_tap(&self, serial: OwnedFd, device: &str) -> Result<Launch, QemuError> {
        let devices = [
            format!("-netdev tap,id=network,ifname={device},script=no,downscript=no"),
            Self::NETWORK_CARD.to_owned(),
        ];
        let arguments = self.arguments(serial.as_raw_fd(), &devices)?;
        Ok(Launch { program: self.program.clone(), arguments, inherited: vec![serial] })
    }

    /// Nobody boots from it, and its boot program is a package of its own.
    const NETWORK_CARD: &str = "-device virtio-net-pci,netdev=network,romfile=";

    fn window(&self, window: i32) -> [String; 2] {
        [
            format!("-chardev socket,id=window,fd={window}"),
            format!("-device ivshmem-doorbell,chardev=window,vectors={}", self.vectors),
        ]
    }

    fn network(control: i32, (address, port): (Ipv4Addr, u16)) -> [String; 3] {
        [
            format!("-chardev socket,id=control,fd={control} -mon chardev=control,mode=control"),
            format!("-netdev user,id=network,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:0-{address}:{port}"),
            Self::NETWORK_CARD.to_owned(),
        ]
    }

    fn arguments(&self, serial: i32, devices: &[String]) -> Result<Vec<OsString>, QemuError> {
        if !(MIN_MEMORY_MIB..=MAX_MEMORY_MIB).contains(&self.memory_mib) {
            return Err(QemuError::Memory(self.memory_mib));
        }
        if !(1..=MAX_PROCESSORS).contains(&self.processors) {
            return Err(QemuError::Processors(self.processors));
        }
        let words = [
            // Nothing but what is said here, whatever the user's configuration; no screen, no monitor.
            "-no-user-config -nodefaults -display none -no-reboot",
            // Interrupts through GICv2m wake a sleeping guest fastest; vfio wants an IOMMU to be there.
            &format!("-machine virt,gic-version=2,iommu=smmuv3 -cpu {}", self.cpu),
            &format!("-smp {} -m {}", processors(self.processors), self.memory_mib),
            &format!("-chardev socket,id=serial,fd={serial} -serial chardev:serial"),
        ];
        let lines = words.into_iter().chain(devices.iter().map(String::as_str));
        let mut arguments: Vec<OsString> =
            lines.flat_map(|line| line.split(' ')).map(OsString::from).collect();
        arguments.extend(["-kernel".into(), self.kernel.clone().into()]);
        arguments.extend(["-initrd".into(), self.initramfs.clone().into()]);
        arguments.extend(["-append".into(), self.kernel_line()?.into()]);
        Ok(arguments)
    }

    fn kernel_line(&self) -> Result<String, QemuError> {
        let mut line = KERNEL_LINE.to_owned();
        for (key, value) in &self.parameters {
            let unfit = |c: char| c.is_whitespace() || c.is_control() || c == '"' || c == '\'';
            if key.is_empty() || key.contains('=') || key.contains(unfit) || value.contains(unfit) {
                return Err(QemuError::Parameter { key: key.clone(), value: value.clone() });
            }
            line.push_str(&format!(" {key}={value}"));
        }
        if line.len() >= MAX_KERNEL_LINE_BYTES { Err(QemuError::KernelLine(line.len())) } else { Ok(line) }
    }
}

/// The processors for `-smp`: never a machine that can only ever have one.
///
/// For such a machine the emulator drops the guest's memory barriers and compiles its atomic operations to
/// plain ones, which is right for a machine alone and wrong for one that shares memory with its host: messages
/// would arrive, and sleeping receivers would now and then not wake. A second processor that is possible but
/// not there costs nothing.
pub(super) fn processors(processors: u8) -> String {
    format!("{processors},maxcpus={}", processors.max(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qemu() -> Qemu {
        Qemu::new("/usr/bin/qemu-system-aarch64", "/kit/vmlinuz", "/cache/boot image.cpio")
    }

    fn line(qemu: &Qemu) -> Result<Vec<String>, QemuError> {
        let arguments = qemu.arguments(7, &qemu.window(9))?;
        Ok(arguments.into_iter().map(|argument| argument.into_string().unwrap()).collect())
    }

    #[test]
    fn the_command_line_is_this() {
        let qemu = qemu().memory_mib(128).vectors(8).parameter("tombolo.node", "arm0");
        #[rustfmt::skip]
        let expected = [
            "-no-user-config", "-nodefaults", "-display", "none", "-no-reboot",
            "-machine", "virt,gic-version=2,iommu=smmuv3", "-cpu", "cortex-a72",
            "-smp", "1,maxcpus=2", "-m", "128",
            "-chardev", "socket,id=serial,fd=7", "-serial", "chardev:serial",
            "-chardev", "socket,id=window,fd=9",
            "-device", "ivshmem-doorbell,chardev=window,vectors=8",
            "-kernel", "/kit/vmlinuz",
            "-initrd", "/cache/boot image.cpio",
            "-append", "console=ttyAMA0 quiet cma=0 panic=-1 cryptomgr.notests=1 kpti=off tombolo.node=arm0",
        ];
        assert_eq!(line(&qemu).unwrap(), expected);
    }

    #[test]
    fn a_network_reaches_nobody_and_is_reached_by_the_loopback_alone() {
        let devices = Qemu::network(9, (Ipv4Addr::new(10, 0, 2, 15), 7700));
        let arguments = qemu().arguments(7, &devices).unwrap();
        let words: Vec<&str> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
        let line = words.join(" ");
        assert!(line.contains(
            "-netdev user,id=network,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:0-10.0.2.15:7700 \
             -device virtio-net-pci,netdev=network,romfile= -kernel"
        ));
        assert!(line.contains("-chardev socket,id=control,fd=9 -mon chardev=control,mode=control"));
        assert!(!line.contains("ivshmem"), "{line}");
    }

    #[test]
    fn no_machine_can_only_ever_have_one_processor() {
        for (count, expected) in [(1, "1,maxcpus=2"), (2, "2,maxcpus=2"), (8, "8,maxcpus=8")] {
            let arguments = line(&qemu().processors(count)).unwrap();
            let at = arguments.iter().position(|argument| argument == "-smp").unwrap();
            assert_eq!(arguments[at + 1], expected);
        }
        for count in [0, MAX_PROCESSORS + 1] {
            assert_eq!(line(&qemu().processors(count)).unwrap_err(), QemuError::Processors(count));
        }
    }

    #[test]
    fn memory_is_bounded() {
        for mib in [MIN_MEMORY_MIB, MAX_MEMORY_MIB] {
            assert!(line(&qemu().memory_mib(mib)).is_ok());
        }
        for mib in [0, MIN_MEMORY_MIB - 1, MAX_MEMORY_MIB + 1] {
            assert_eq!(line(&qemu().memory_mib(mib)).unwrap_err(), QemuError::Memory(mib));
        }
    }

    #[test]
    fn parameters_stay_single_words() {
        for (key, value) in [("", "x"), ("a b", "x"), ("a=b", "x"), ("a", "x y"), ("a", "x\"y"), ("a", "x\n")]
        {
            let error = line(&qemu().parameter(key, value)).unwrap_err();
            assert_eq!(error, QemuError::Parameter { key: key.into(), value: value.into() });
        }
        let longest = MAX_KERNEL_LINE_BYTES - 1 - KERNEL_LINE.len() - " a.b=".len();
        assert!(line(&qemu().parameter("a.b", "x".repeat(longest))).is_ok());
        let error = line(&qemu().parameter("a.b", "x".repeat(longest + 1))).unwrap_err();
        assert_eq!(error, QemuError::KernelLine(MAX_KERNEL_LINE_BYTES));
    }

    #[test]
    fn the_launch_holds_what_its_arguments_name() {
        let (serial, window) =
            tombolo_platform::socket::pair(tombolo_platform::socket::SocketKind::Stream).unwrap();
        let launch = qemu().launch(serial, window).unwrap();
        for fd in &launch.inherited {
            let named = format!("fd={}", fd.as_raw_fd());
            assert!(launch.arguments.iter().any(|argument| argument.to_str().unwrap().ends_with(&named)));
        }
    }
}
