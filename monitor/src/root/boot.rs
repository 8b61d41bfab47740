//! Starts nodes: the emulator of a virtual machine, or an agent under an emulator on this kernel.

use std::fs::File;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tombolo_base::{Isa, NodeId};
use tombolo_control::FINGERPRINT;
use tombolo_control::{Order, Report};
use tombolo_link::window::CONTROL_VECTOR;
use tombolo_machine::paths::cache_dir;
use tombolo_machine::vm::{Architecture, Board, Files, Hardware, Launch, Qemu, VmKit, files, initramfs};
use tombolo_machine::{Accelerator, BareNode, Boot, Kit, Node, NodeSettings, VmJoin, VmNode, kit};
use tombolo_platform::guest::{init, ports};
use tombolo_platform::process::Process;
use tombolo_platform::socket;
use tombolo_platform::time::now_ns;

use super::node::{NodeLink, NodeTransport, RunningNode, StreamSide, WindowSide};
use super::{Root, attached, text};
use crate::control_link::ControlLink;

/// Key of a boot image: the instruction set, the folders of modules with their paths, and those of files.
pub(super) type BootImageKey = (Isa, Vec<(PathBuf, &'static str)>, Vec<PathBuf>);

/// Boot image of a virtual machine.
#[derive(Debug)]
pub(super) struct BootImage {
    /// Path in the cache.
    path: PathBuf,
    /// Memory that a node needs to boot it, in MiB.
    needed_mib: u64,
}

impl Root {
    /// Starts a node. If that fails, the node is lost with the reason.
    pub(super) fn boot_node(&mut self, id: NodeId, generation: NonZeroU16) {
        let Some(node) = self.machine.node(id).cloned() else { return };
        let welcome =
            Order::Welcome { node: id, name: node.name.clone(), machine: self.machine.name().to_owned() };
        let started = match &node.settings {
            NodeSettings::Host => return self.report_host_ready(),
            NodeSettings::User(_) => self.start_user(&node),
            NodeSettings::Vm(vm) => self.start_vm(&node, vm, generation),
            NodeSettings::Bare(bare) => self.start_bare(&node, bare, generation),
            NodeSettings::Attached(attached) => {
                let windows = &mut self.windows;
                let started = attached::start(&node, attached, generation, &self.machine, windows);
                started.map(|(running, base_bytes)| {
                    let window = (u64::from(attached.window_mib) << 20, attached.doorbells);
                    self.core.node_offered(id, window, base_bytes);
                    running
                })
            }
        };
        let registered = |running| self.node_poller.add(id).map(|()| running).map_err(text);
        match started.and_then(registered) {
            Ok(mut running) => {
                running.send_order(&welcome, Vec::new());
                if node.as_attached().is_none() {
                    let own = self.machine.own_window(id);
                    let window = own.map(|window| (window.length_bytes(), window.doorbells));
                    self.core.node_started(id, running.pid(), window);
                }
                self.nodes.insert(id, running);
            }
            Err(cause) => {
                self.windows.node_lost(&self.machine, id);
                self.core.node_lost(id, &cause);
            }
        }
    }

    /// Reports the host as up: its agent is part of this process.
    fn report_host_ready(&mut self) {
        let ready = Report::Ready {
            version: FINGERPRINT,
            isa: Isa::current(),
            cores: crate::cores(),
            pid: std::process::id() as i32,
        };
        self.core.report(now_ns(), NodeId::HOST, ready, None);
    }

    fn start_user(&self, node: &Node) -> Result<RunningNode, String> {
        let kit = self.kit.as_ref().map_err(text)?;
        let tombolod = kit.tombolod(node.isa).map_err(|error| missing(kit, error))?;
        let emulator = kit::emulator(node).map_err(text)?.ok_or("a user node needs an emulator")?;
        let (ours, theirs) = socket::pair(socket::SocketKind::Packet).map_err(text)?;
        let mut command = Command::new(&emulator);
        let user = node.as_user();
        let cpu = user.and_then(|user| user.cpu.as_deref());
        let cpu: Vec<&str> = cpu.into_iter().flat_map(|cpu| ["-cpu", cpu]).collect();
        command.args(&cpu).arg(&tombolod).arg("agent").arg(theirs.as_raw_fd().to_string()).arg(&emulator);
        command.args(&cpu);
        // Only for programs: their monitor is static, and uses the host's paths.
        if let Some(folder) = user.and_then(|user| user.files.as_ref()) {
            let folder = folder.locate(kit).map_err(text)?;
            files::check_folder(&folder).map_err(text)?;
            command.arg("-L").arg(folder);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let process = Process::start(&mut command, &[theirs.as_fd()]).map_err(text)?;
        Ok(RunningNode::new(process, NodeLink::Connected(ControlLink::over_socket(ours)), None))
    }

    fn start_vm(&mut self, node: &Node, vm: &VmNode, generation: NonZeroU16) -> Result<RunningNode, String> {
        let kit = self.kit.as_ref().map_err(text)?;
        let parts = VmKit::locate(kit.root(), node.isa).map_err(|error| missing(kit, error))?;
        let program = kit::emulator(node).map_err(text)?.ok_or("a virtual machine needs an emulator")?;
        let Boot { kernel, modules, .. } = &vm.boot;
        let parts = match kernel {
            Some(kernel) => parts.with_kernel(kernel, modules.as_deref())?,
            None => parts,
        };
        let images = vm.boot.images();
        if let Some(image) = images.iter().find(|image| !image.is_file()) {
            return Err(format!("its disk {} is not there, or is not a file", image.display()));
        }
        let parts = if images.is_empty() { parts } else { parts.with_disks().map_err(text)? };
        let architecture = Architecture::of(node.isa).ok_or("there is no virtual machine of it yet")?;
        if vm.accelerator == Accelerator::Kvm {
            can_use_kvm()?;
        }
        // The user's files come last and override others.
        let own = parts.root.iter().cloned().map(Ok);
        let folders = own.chain(vm.files.iter().map(|folder| folder.locate(kit)));
        let folders = folders.collect::<Result<Vec<_>, _>>().map_err(text)?;
        let initrd = self.boot_image(&parts, node.isa, (folders, vm.memory_mib))?;
        let qemu = Qemu::new(architecture, program, &parts.kernel, initrd)
            .accelerator(vm.accelerator)
            .cpu(vm.cpu.clone())
            .memory_mib(vm.memory_mib)
            .processors(vm.processors)
            .windows(self.vectors_of(node.id))
            .disks(images)
            .parameter("tombolo.node", &node.name);
        let qemu = if vm.boot.root.is_some() { qemu.parameter(init::ROOT, init::FIRST_DISK) } else { qemu };
        match vm.join {
            VmJoin::Window => self.start_behind_window(node.id, generation, |serial, windows| {
                qemu.launch(serial, windows).map_err(text)
            }),
            VmJoin::Streams => {
                let (parameter, by_ports) = ports::LINK;
                start_with_ports(&qemu.parameter(parameter, by_ports))
            }
        }
    }

    /// Returns the number of doorbell vectors of each window of a node.
    fn vectors_of(&self, node: NodeId) -> Vec<u16> {
        self.machine.windows_of(node).map(|window| window.doorbells).collect()
    }

    /// Returns the boot image of virtual machines of an instruction set with files from these folders.
    /// Packing and hashing megabytes takes tens of milliseconds, during which no death would be reported, so
    /// it is done when the machine comes up: a restarted node has the same monitor and files.
    fn boot_image(
        &mut self,
        parts: &VmKit,
        isa: Isa,
        (folders, memory_mib): (Vec<PathBuf>, u32),
    ) -> Result<PathBuf, String> {
        let key = (isa, parts.modules.clone(), folders);
        if let Some(image) = self.boot_images.get(&key).filter(|image| initramfs::reuse_cached(&image.path)) {
            files::check_memory(image.needed_mib, memory_mib).map_err(text)?;
            return Ok(image.path.clone());
        }
        let files = Files::gather(&key.2).map_err(text)?;
        let needed_mib = files.needed_memory_mib();
        // Checked before megabytes are read.
        files::check_memory(needed_mib, memory_mib).map_err(text)?;
        let archive = initramfs::pack(parts, &files).map_err(text)?;
        let directory = cache_dir().map_err(text)?;
        let path = initramfs::store(&archive, &directory).map_err(text)?;
        self.boot_images.insert(key, BootImage { path: path.clone(), needed_mib });
        Ok(path)
    }

    fn start_bare(
        &mut self,
        node: &Node,
        bare: &BareNode,
        generation: NonZeroU16,
    ) -> Result<RunningNode, String> {
        let kit = self.kit.as_ref().map_err(text)?;
        let monitor = kit.board(node.isa).map_err(|error| missing(kit, error))?;
        let program = kit::emulator(node).map_err(text)?.ok_or("a board needs an emulator")?;
        let BareNode { cpu, memory_mib, .. } = bare.clone();
        let hardware = Hardware { cpu, memory_mib, processors: 1, windows: self.vectors_of(node.id) };
        let board =
            Board::new(node.isa, program, monitor, hardware).with_instruction_clock(bare.instruction_clock);
        self.start_behind_window(node.id, generation, |serial, windows| Ok(board.launch(serial, windows)))
    }

    /// Connects a node to its windows, and starts its emulator. `launch` returns the emulator's command,
    /// given its ends of the serial line and of the windows.
    fn start_behind_window(
        &mut self,
        node: NodeId,
        generation: NonZeroU16,
        launch: impl FnOnce(OwnedFd, Vec<OwnedFd>) -> Result<Launch, String>,
    ) -> Result<RunningNode, String> {
        let window_ends = self.windows.connect(&self.machine, node, generation)?;
        let window = self.machine.own_window(node).ok_or("it has no window")?;
        let of_host =
            window.peer(NodeId::HOST).zip(window.peer(node)).ok_or("it has no window with the host")?;
        let copy = |fd: Option<BorrowedFd<'_>>| {
            fd.ok_or("its window is not there")?.try_clone_to_owned().map_err(text)
        };
        let memory = copy(self.windows.memory(window.id))?;
        let host_bell = copy(self.windows.bell(window.id, of_host.0, CONTROL_VECTOR))?;
        let node_bell = copy(self.windows.bell(window.id, of_host.1, CONTROL_VECTOR))?;
        let (serial, serial_end) = socket::pair(socket::SocketKind::Stream).map_err(text)?;
        let process = start_emulator(&launch(serial_end, window_ends)?)?;
        let (lifeline, far_end) = socket::pair(socket::SocketKind::Stream).map_err(text)?;
        let side = WindowSide {
            memory,
            caches: window.caches,
            base_bytes: 0,
            host_bell,
            node_bell,
            lifeline,
            _lifeline_far_end: far_end,
        };
        let vm = Some((NodeTransport::Window(side), serial));
        Ok(RunningNode::new(process, NodeLink::Pending(Vec::new()), vm))
    }
}

/// Starts a virtual machine joined to the host by byte streams: ports of its serial device, whose other ends
/// are sockets that only this process and the emulator hold.
fn start_with_ports(qemu: &Qemu) -> Result<RunningNode, String> {
    let pair = || socket::pair(socket::SocketKind::Stream).map_err(text);
    let (serial, serial_end) = pair()?;
    let (control, control_end) = pair()?;
    let (streams, streams_end) = pair()?;
    let ports = vec![(ports::CONTROL, control_end), (ports::STREAMS, streams_end)];
    let process = start_emulator(&qemu.launch_with_ports(serial_end, ports).map_err(text)?)?;
    let side = StreamSide::new(control, streams).map_err(text)?;
    let vm = Some((NodeTransport::Streams(side), serial));
    Ok(RunningNode::new(process, NodeLink::Pending(Vec::new()), vm))
}

fn start_emulator(launch: &Launch) -> Result<Process, String> {
    let mut command = Command::new(&launch.program);
    command.args(&launch.arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let inherit: Vec<BorrowedFd<'_>> = launch.inherited.iter().map(AsFd::as_fd).collect();
    Process::start(&mut command, &inherit).map_err(text)
}

/// Checks that the host's kernel lets this process run virtual machines.
fn can_use_kvm() -> Result<(), String> {
    const DEVICE: &str = "/dev/kvm";
    let opened = File::options().read(true).write(true).open(DEVICE);
    opened.map(drop).map_err(|error| {
        format!("cannot open {DEVICE}: {error}; accelerator = \"tcg\" in the machine file does without")
    })
}

/// Describes a missing part of the kit and the reason for searching there.
fn missing(kit: &Kit, error: impl std::fmt::Display) -> String {
    match kit.is_named() {
        true => format!(
            "{error} there, or unset TOMBOLO_KIT, which says that the kit is {}",
            kit.root().display()
        ),
        false => error.to_string(),
    }
}
