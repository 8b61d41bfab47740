//! Command line of a virtual machine.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::architecture::Architecture;
use super::hardware::{Hardware, Launch};
use crate::model::Accelerator;

/// Default memory, in MiB. The emulator allocates only the memory that the machine has touched and about 180
/// MiB more.
pub const DEFAULT_MEMORY_MIB: u32 = 512;

/// Minimum memory, in MiB: with less the kernel does not reach the monitor.
pub const MIN_MEMORY_MIB: u32 = 64;

/// Maximum memory, in MiB.
pub const MAX_MEMORY_MIB: u32 = 64 << 10;

/// Default number of doorbell vectors.
pub const DEFAULT_VECTORS: u16 = 32;

/// Maximum number of processors: Arm's interrupt controller (version 2) supports no more.
pub const MAX_PROCESSORS: u8 = 8;

/// Maximum length of the kernel's command line, including the terminating zero.
const MAX_KERNEL_CMDLINE_BYTES: usize = 2048;

/// Kernel parameters common to all instruction sets.
///
/// `quiet`: printing over an emulated serial line is slow. `panic=-1`: a kernel panic ends the machine
/// immediately. `cryptomgr.notests`: self-tests of the ciphers take a quarter of the whole boot. `pci=`: the
/// registers of each window begin on a separate page, so that a program that may ring in one window cannot
/// access another's.
const KERNEL_CMDLINE: &str = "quiet panic=-1 cryptomgr.notests=1 pci=resource_alignment=12@pci:1af4:1110";

/// Reason why a virtual machine cannot be started as described.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QemuError {
    /// The memory is out of range.
    #[error(
        "{0} MiB of memory are out of range for a virtual machine; give it {MIN_MEMORY_MIB} to {MAX_MEMORY_MIB} MiB"
    )]
    Memory(u32),
    /// The number of processors is out of range.
    #[error("{0} processors are out of range for a virtual machine; give it 1 to {MAX_PROCESSORS}")]
    Processors(u8),
    /// A parameter is not a single word of the kernel's command line.
    #[error(
        "invalid kernel parameter {key}={value:?}; it must not have spaces, quotes or control characters"
    )]
    Parameter {
        /// Name of the parameter.
        key: String,
        /// Value of the parameter.
        value: String,
    },
    /// The command line is longer than the kernel reads.
    #[error("the kernel's command line has {0} bytes; at most {max} are possible", max = MAX_KERNEL_CMDLINE_BYTES - 1)]
    KernelLine(usize),
}

/// Description of a virtual machine.
#[derive(Clone, Debug)]
pub struct Qemu {
    architecture: &'static Architecture,
    program: PathBuf,
    kernel: PathBuf,
    initramfs: PathBuf,
    accelerator: Accelerator,
    hardware: Hardware,
    parameters: Vec<(String, String)>,
    disks: Vec<PathBuf>,
}

impl Qemu {
    /// Creates a machine that `program` (the [program](Architecture::program) of the architecture) emulates
    /// and that boots `kernel` with `initramfs`, with default memory and vectors and one processor.
    #[must_use]
    pub fn new(
        architecture: &'static Architecture,
        program: impl Into<PathBuf>,
        kernel: impl Into<PathBuf>,
        initramfs: impl Into<PathBuf>,
    ) -> Self {
        Qemu {
            architecture,
            program: program.into(),
            kernel: kernel.into(),
            initramfs: initramfs.into(),
            accelerator: Accelerator::Tcg,
            hardware: Hardware {
                cpu: None,
                memory_mib: DEFAULT_MEMORY_MIB,
                processors: 1,
                windows: vec![DEFAULT_VECTORS],
            },
            parameters: Vec::new(),
            disks: Vec::new(),
        }
    }

    /// Sets the execution engine. With [`Accelerator::Kvm`] the processor model is the host's unless one is
    /// set.
    #[must_use]
    pub fn accelerator(mut self, accelerator: Accelerator) -> Self {
        self.accelerator = accelerator;
        self
    }

    /// Sets the processor model, which the emulator must support; the [architecture's](Architecture::cpu) if
    /// `None`.
    #[must_use]
    pub fn cpu(mut self, cpu: Option<String>) -> Self {
        self.hardware.cpu = cpu;
        self
    }

    /// Sets the memory, from [`MIN_MEMORY_MIB`] to [`MAX_MEMORY_MIB`].
    #[must_use]
    pub fn memory_mib(mut self, memory_mib: u32) -> Self {
        self.hardware.memory_mib = memory_mib;
        self
    }

    /// Sets the number of processors, 1 to [`MAX_PROCESSORS`].
    #[must_use]
    pub fn processors(mut self, processors: u8) -> Self {
        self.hardware.processors = processors;
        self
    }

    /// Sets the number of doorbell vectors of each window.
    #[must_use]
    pub fn windows(mut self, vectors: Vec<u16>) -> Self {
        self.hardware.windows = vectors;
        self
    }

    /// Sets the raw images of its disks, `/dev/vda` and so on.
    #[must_use]
    pub fn disks(mut self, images: Vec<PathBuf>) -> Self {
        self.disks = images;
        self
    }

    /// Adds `key=value` to the kernel's command line, where the node's monitor reads it.
    ///
    /// The key must contain a dot, as in `tombolo.node`: the kernel would pass any other to process 1 as
    /// well.
    #[must_use]
    pub fn parameter(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.push((key.into(), value.into()));
        self
    }

    /// Returns the command to run, with `serial` as its serial console and `windows` as the sockets from
    /// [`Server::connect`](super::Server::connect), one for each of its windows.
    ///
    /// The holder of the other end of `serial` must keep reading from it: QEMU blocks while it is full, and
    /// the whole machine with it. Both ends hang up when the machine ends.
    ///
    /// # Errors
    /// [`QemuError`].
    pub fn launch(&self, serial: OwnedFd, windows: Vec<OwnedFd>) -> Result<Launch, QemuError> {
        let arguments = self.arguments(serial.as_raw_fd(), &self.hardware.window_devices(&windows))?;
        let inherited = [serial].into_iter().chain(windows).collect();
        Ok(Launch { program: self.program.clone(), arguments, inherited })
    }

    /// Returns the command with byte streams in place of windows, each a socket with the name by which the
    /// machine finds its end: a port of a serial device, which needs no network. No other process can access
    /// them.
    ///
    /// # Errors
    /// [`QemuError`] if the description is invalid.
    pub fn launch_with_ports(
        &self,
        serial: OwnedFd,
        ports: Vec<(&'static str, OwnedFd)>,
    ) -> Result<Launch, QemuError> {
        let devices = Self::ports(ports.iter().map(|(name, socket)| (*name, socket.as_raw_fd())));
        let arguments = self.arguments(serial.as_raw_fd(), &devices)?;
        let sockets = ports.into_iter().map(|(_, socket)| socket);
        let inherited = [serial].into_iter().chain(sockets).collect();
        Ok(Launch { program: self.program.clone(), arguments, inherited })
    }

    /// Returns the devices for ports, numbered from 1: port 0 would be a console.
    fn ports(ports: impl ExactSizeIterator<Item = (&'static str, i32)>) -> Vec<String> {
        let device = format!("-device virtio-serial-pci,id=ports,max_ports={}", ports.len() + 1);
        let ports = (1..).zip(ports).flat_map(|(number, (name, fd))| {
            [
                format!("-chardev socket,id=port{number},fd={fd}"),
                format!("-device virtserialport,bus=ports.0,nr={number},chardev=port{number},name={name}"),
            ]
        });
        [device].into_iter().chain(ports).collect()
    }

    /// Returns the command with a network in place of the window, for benchmarks.
    ///
    /// The emulator itself provides the network, which is isolated except for one forwarded port: a port of
    /// the host's loopback, chosen by the kernel, leads to `port` of the machine's `address`. The emulator
    /// reports the port at `control`, by its monitor protocol (QMP).
    ///
    /// # Errors
    /// [`QemuError`] if the description is invalid.
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

    /// Returns the command with a tap device of the host in place of the window, for benchmarks.
    ///
    /// # Errors
    /// [`QemuError`] if the description is invalid.
    pub fn launch_with_tap(&self, serial: OwnedFd, device: &str) -> Result<Launch, QemuError> {
        let devices = [
            format!("-netdev tap,id=network,ifname={device},script=no,downscript=no"),
            Self::NETWORK_CARD.to_owned(),
        ];
        let arguments = self.arguments(serial.as_raw_fd(), &devices)?;
        Ok(Launch { program: self.program.clone(), arguments, inherited: vec![serial] })
    }

    /// Network card without its boot ROM, which is in another Debian package.
    const NETWORK_CARD: &str = "-device virtio-net-pci,netdev=network,romfile=";

    fn network(control: i32, (address, port): (Ipv4Addr, u16)) -> [String; 3] {
        [
            format!("-chardev socket,id=control,fd={control} -mon chardev=control,mode=control"),
            format!("-netdev user,id=network,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:0-{address}:{port}"),
            Self::NETWORK_CARD.to_owned(),
        ]
    }

    fn arguments(&self, serial: i32, devices: &[String]) -> Result<Vec<OsString>, QemuError> {
        let Hardware { memory_mib, processors, .. } = self.hardware;
        if !(MIN_MEMORY_MIB..=MAX_MEMORY_MIB).contains(&memory_mib) {
            return Err(QemuError::Memory(memory_mib));
        }
        if !(1..=MAX_PROCESSORS).contains(&processors) {
            return Err(QemuError::Processors(processors));
        }
        let Architecture { machine, machine_with_kvm, cpu, devices: first, .. } = *self.architecture;
        let (machine, cpu) = match self.accelerator {
            Accelerator::Tcg => (machine, cpu),
            Accelerator::Kvm => (machine_with_kvm, "host"),
        };
        let devices: Vec<String> =
            first.iter().map(|device| (*device).to_owned()).chain(devices.iter().cloned()).collect();
        let mut arguments = self.hardware.arguments(machine, cpu, serial, &devices);
        for (number, image) in self.disks.iter().enumerate() {
            let mut drive = OsString::from(format!("id=disk{number},if=none,format=raw,file="));
            drive.push(escape_option_path(image));
            arguments.extend(["-drive".into(), drive]);
            arguments.extend(["-device".into(), format!("virtio-blk-pci,drive=disk{number}").into()]);
        }
        arguments.extend(["-kernel".into(), self.kernel.clone().into()]);
        arguments.extend(["-initrd".into(), self.initramfs.clone().into()]);
        arguments.extend(["-append".into(), self.kernel_cmdline()?.into()]);
        Ok(arguments)
    }

    fn kernel_cmdline(&self) -> Result<String, QemuError> {
        let mut line = format!("{} {KERNEL_CMDLINE}", self.architecture.kernel_cmdline);
        for (key, value) in &self.parameters {
            let unfit = |c: char| c.is_whitespace() || c.is_control() || c == '"' || c == '\'';
            if key.is_empty() || key.contains('=') || key.contains(unfit) || value.contains(unfit) {
                return Err(QemuError::Parameter { key: key.clone(), value: value.clone() });
            }
            line.push_str(&format!(" {key}={value}"));
        }
        if line.len() >= MAX_KERNEL_CMDLINE_BYTES { Err(QemuError::KernelLine(line.len())) } else { Ok(line) }
    }
}

/// Returns a path as a value of an option, with commas escaped.
fn escape_option_path(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes().iter();
    let doubled = bytes.flat_map(|byte| std::iter::repeat_n(*byte, if *byte == b',' { 2 } else { 1 }));
    OsString::from_vec(doubled.collect())
}

#[cfg(test)]
mod tests {
    use tombolo_base::Isa;

    use super::*;

    fn qemu() -> Qemu {
        qemu_of(Isa::Aarch64)
    }

    fn qemu_of(isa: Isa) -> Qemu {
        let architecture = Architecture::of(isa).unwrap();
        Qemu::new(architecture, "/usr/bin/qemu-system", "/kit/vmlinuz", "/cache/boot image.cpio")
    }

    fn line(qemu: &Qemu) -> Result<Vec<String>, QemuError> {
        let (_, window) =
            tombolo_platform::socket::pair(tombolo_platform::socket::SocketKind::Stream).unwrap();
        let mut arguments = qemu.arguments(7, &qemu.hardware.window_devices(&[window]))?;
        for argument in &mut arguments {
            let text = argument.to_string_lossy();
            if let Some((socket, _)) = text.split_once("window0,fd=") {
                *argument = format!("{socket}window0,fd=9").into();
            }
        }
        Ok(arguments.into_iter().map(|argument| argument.into_string().unwrap()).collect())
    }

    #[test]
    fn command_line_matches_exactly() {
        let qemu = qemu().memory_mib(128).windows(vec![8]).parameter("tombolo.node", "arm0");
        #[rustfmt::skip]
        let expected = [
            "-no-user-config", "-nodefaults", "-display", "none", "-no-reboot",
            "-machine", "virt,gic-version=2,iommu=smmuv3", "-cpu", "cortex-a72",
            "-smp", "1,maxcpus=2", "-m", "128",
            "-chardev", "socket,id=serial,fd=7", "-serial", "chardev:serial",
            "-chardev", "socket,id=window0,fd=9",
            "-device", "ivshmem-doorbell,chardev=window0,vectors=8",
            "-kernel", "/kit/vmlinuz",
            "-initrd", "/cache/boot image.cpio",
            "-append", "console=ttyAMA0 cma=0 kpti=off quiet panic=-1 cryptomgr.notests=1 pci=resource_alignment=12@pci:1af4:1110 tombolo.node=arm0",
        ];
        assert_eq!(line(&qemu).unwrap(), expected);
    }

    #[test]
    fn an_x86_machine_has_an_iommu_before_its_windows() {
        let words = line(&qemu_of(Isa::X86_64)).unwrap();
        let at = |text: &str| words.iter().position(|word| word.starts_with(text)).expect(text);
        assert!(at("intel-iommu,intremap=on") < at("ivshmem-doorbell"));
        assert_eq!(words[at("-machine") + 1], "q35");
        assert_eq!(words[at("-cpu") + 1], "qemu64");
        assert!(words[at("-append") + 1].starts_with("console=ttyS0 intel_iommu=on "));
        let named = line(&qemu_of(Isa::X86_64).cpu(Some("max".to_owned()))).unwrap();
        assert_eq!(named[at("-cpu") + 1], "max");
        let by_kvm = line(&qemu_of(Isa::X86_64).accelerator(Accelerator::Kvm)).unwrap();
        assert_eq!(by_kvm[at("-machine") + 1], "q35,accel=kvm,kernel-irqchip=split");
        assert_eq!(by_kvm[at("-cpu") + 1], "host");
    }

    #[test]
    fn disks_come_after_the_windows() {
        let words = line(&qemu().disks(vec!["/a b/c,d".into(), "/e".into()])).unwrap();
        let at = |text: &str| words.iter().position(|word| word == text).expect(text);
        let first = at("id=disk0,if=none,format=raw,file=/a b/c,,d");
        assert_eq!(words[first + 2], "virtio-blk-pci,drive=disk0");
        assert!(at("-kernel") > at("virtio-blk-pci,drive=disk1"));
        assert!(first > words.iter().position(|word| word.starts_with("ivshmem")).unwrap());
    }

    #[test]
    fn network_is_isolated_and_reachable_by_loopback_only() {
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
    fn streams_are_ports_of_sockets_that_the_emulator_inherits() {
        let devices = Qemu::ports([("tombolo.control", 8), ("tombolo.streams", 9)].into_iter());
        let arguments = qemu().arguments(7, &devices).unwrap();
        let words: Vec<&str> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
        let line = words.join(" ");
        assert!(line.contains(
            "-device virtio-serial-pci,id=ports,max_ports=3 -chardev socket,id=port1,fd=8 \
             -device virtserialport,bus=ports.0,nr=1,chardev=port1,name=tombolo.control \
             -chardev socket,id=port2,fd=9 \
             -device virtserialport,bus=ports.0,nr=2,chardev=port2,name=tombolo.streams -kernel"
        ));
        assert!(!line.contains("ivshmem") && !line.contains("netdev"), "{line}");
    }

    #[test]
    fn maxcpus_is_never_below_two() {
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
    fn kernel_parameters_stay_single_words() {
        for (key, value) in [("", "x"), ("a b", "x"), ("a=b", "x"), ("a", "x y"), ("a", "x\"y"), ("a", "x\n")]
        {
            let error = line(&qemu().parameter(key, value)).unwrap_err();
            assert_eq!(error, QemuError::Parameter { key: key.into(), value: value.into() });
        }
        let base = qemu().kernel_cmdline().unwrap().len();
        let longest = MAX_KERNEL_CMDLINE_BYTES - 1 - base - " a.b=".len();
        assert!(line(&qemu().parameter("a.b", "x".repeat(longest))).is_ok());
        let error = line(&qemu().parameter("a.b", "x".repeat(longest + 1))).unwrap_err();
        assert_eq!(error, QemuError::KernelLine(MAX_KERNEL_CMDLINE_BYTES));
    }

    #[test]
    fn launch_keeps_the_descriptors_in_its_arguments() {
        let (serial, window) =
            tombolo_platform::socket::pair(tombolo_platform::socket::SocketKind::Stream).unwrap();
        let (other, _) =
            tombolo_platform::socket::pair(tombolo_platform::socket::SocketKind::Stream).unwrap();
        let launch = qemu().windows(vec![8, 16]).launch(serial, vec![window, other]).unwrap();
        let devices =
            launch.arguments.iter().filter(|argument| argument.to_str().unwrap().contains("ivshmem"));
        assert_eq!((devices.count(), launch.inherited.len()), (2, 3));
        for fd in &launch.inherited {
            let named = format!("fd={}", fd.as_raw_fd());
            assert!(launch.arguments.iter().any(|argument| argument.to_str().unwrap().ends_with(&named)));
        }
    }
}
